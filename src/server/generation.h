// From a request to decoders and to those who listen to them.
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

/// Who asked, and where the answer goes.
struct ReplyTarget {
  std::string client;  ///< for limits
  std::string request_id;
  std::shared_ptr<HttpReply> reply;
};

/// Answers requests with one model. Functions throw SettingError, InputError, ApiError or SchedulingError
/// before anything was sent; afterwards the reply tells.
class RequestHandler {
 public:
  ///   metrics  outlive every reply     audit  null: nothing is audited
  RequestHandler(ReplyModel model, Metrics& metrics, std::shared_ptr<Audit> audit = nullptr)
      : model_(std::move(model)), metrics_(metrics), audit_(std::move(audit)) {}

  void answer(const Dialect& dialect, GenerationRequest& request, const ReplyTarget& reply_to) const;
  void decide(DecisionBody body, const ReplyTarget& reply_to) const;

 private:
  /// Decoders and who listens to them, before they are submitted.
  using Jobs = std::vector<Scheduler::Job>;

  /// A reply without an answer (GenerationRequest::answers_nothing).
  void answer_nothing(const Dialect& dialect, const GenerationRequest& request,
                      const ReplyTarget& reply_to) const;
  void submit(Jobs jobs, const ReplyTarget& reply_to) const;
  void check_logprobs(const GenerationRequest& request) const;
  GenerateRequest generate_request(const GenerationRequest& request, const GenerationOptions& options,
                                   int32_t choice) const;
  /// Options for a prompt, with a limit on the answer's tokens that fits (engine/answer_limit.h). What it
  /// became is named in the request.
  GenerationOptions fitting_options(const Prompt& prompt, const std::vector<TokenId>& tokens,
                                    GenerationRequest& request) const;
  void add_prompt(const Prompt& prompt, GenerationRequest& request, Completion& completion,
                  std::string_view request_id, Jobs& jobs) const;
  void add_candidates(const Prompt& prompt, const std::vector<TokenId>& tokens,
                      const GenerationRequest& request, const GenerationOptions& options,
                      Completion& completion, Jobs& jobs) const;
  /// The listener, or one that also gives the answer to the audit where that chooses it.
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

/// Throws InputError if a model has none.
const Tokenizer& tokenizer_for_texts(const OpenedModel& opened, const std::string& name);

/// Refuses to answer from weights that are no longer those that were loaded.
void expect_unchanged_files();

}  // namespace lacuna
