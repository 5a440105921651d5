// Creates the decoders of a request and the listeners that write its reply.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/likelihood.h"
#include "engine/scheduler.h"
#include "server/audit.h"
#include "server/completion.h"
#include "server/dialect.h"
#include "server/generation_request.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/reply_format.h"
#include "wire/decision_json.h"

namespace lacuna {

/// Sender of a request, and its reply.
struct ReplyTarget {
  std::string client;  ///< sender, for rate and queue limits
  std::string request_id;
  std::shared_ptr<HttpReply> reply;
};

/// Answers requests with one model. Functions throw SettingError, InputError, ApiError or SchedulingError
/// only before anything was sent; later errors go into the reply.
class RequestHandler {
 public:
  ///   metrics  must outlive every reply     audit  null: nothing is audited
  RequestHandler(ReplyModel model, Metrics& metrics, std::shared_ptr<Audit> audit = nullptr)
      : model_(std::move(model)), metrics_(metrics), audit_(std::move(audit)) {}

  void answer(const Dialect& dialect, GenerationRequest& request, const ReplyTarget& reply_to) const;
  void decide(DecisionBody body, const ReplyTarget& reply_to) const;

 private:
  /// Decoders with their listeners, before they are submitted.
  using Jobs = std::vector<Scheduler::Job>;

  /// A reply without an answer (GenerationRequest::answers_nothing).
  void answer_nothing(const Dialect& dialect, const GenerationRequest& request,
                      const ReplyTarget& reply_to) const;
  void submit(Jobs jobs, const ReplyTarget& reply_to) const;
  void check_logprobs(const GenerationRequest& request) const;
  GenerateRequest generate_request(const GenerationRequest& request, const GenerationOptions& options,
                                   int32_t choice) const;
  /// Options for a prompt, with a token limit that fits the model (engine/answer_limit.h). Notes a lowered
  /// limit in `request`.
  GenerationOptions fitting_options(const Prompt& prompt, const std::vector<TokenId>& tokens,
                                    GenerationRequest& request) const;
  void add_prompt(const Prompt& prompt, GenerationRequest& request, Completion& completion,
                  std::string_view request_id, Jobs& jobs) const;
  void add_candidates(const Prompt& prompt, const std::vector<TokenId>& tokens,
                      const GenerationRequest& request, const GenerationOptions& options,
                      Completion& completion, Jobs& jobs) const;
  /// Returns `listener`, wrapped by Audit::follow() if the audit samples this answer.
  std::shared_ptr<RequestListener> with_audit(const GenerationRequest& request,
                                              const GenerationOptions& options, const GenerateRequest& asked,
                                              const std::vector<TokenId>& tokens, std::string_view request_id,
                                              std::shared_ptr<RequestListener> listener) const;
  void add_infills(GenerationRequest& request, Completion& completion, Jobs& jobs) const;
  std::unique_ptr<LikelihoodDecoder> make_likelihood(const GenerationRequest& request,
                                                     const std::vector<TokenId>& tokens) const;

  const OpenedModel& opened() const { return model_.opened(); }
  const ModelConfig& config() const { return model_.config(); }

  ReplyModel model_;
  Metrics& metrics_;
  std::shared_ptr<Audit> audit_;
};

/// The tokenizer of a model. Throws InputError if it has none.
const Tokenizer& tokenizer_for_texts(const OpenedModel& opened, const std::string& name);

/// Throws if the weight files were changed after loading.
void expect_unchanged_files();

}  // namespace lacuna
