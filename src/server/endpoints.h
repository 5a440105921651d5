// The endpoints of the server, by path. docs/reference/server.md says what each endpoint takes and gives.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/audit.h"
#include "server/dialect.h"
#include "server/failure.h"
#include "server/generation.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/model_pool.h"
#include "server/service_settings.h"
#include "wire/decision_json.h"

namespace lacuna {

class Endpoints;

struct Endpoint {
  std::string_view method;
  std::string_view path;   ///< "{id}" at its end stands for the rest of a path
  std::string_view alias;  ///< another path of the same; empty: none
  std::string_view summary;
  /// Null: Service answers it, whoever asks and before the models are there.
  void (Endpoints::*answer)(const Endpoint& endpoint, const HttpRequest& request,
                            const ReplyTarget& reply_to) = nullptr;
  const Dialect* dialect = nullptr;  ///< dialect of an endpoint that generates; null for others
  RequestFields fields = {};         ///< fields of endpoints that do not generate
  ErrorFormat error = openai_error;
  std::optional<DecisionFormat> format = {};  ///< of a body with questions; none: as the body says
};

class Endpoints {
 public:
  /// Both outlive it.
  Endpoints(const ServiceSettings& settings, ModelPool& pool);

  static std::span<const Endpoint> list();
  /// The endpoint, or null if the path is unknown or takes another method, which `allow` gets.
  static const Endpoint* find(std::string_view method, std::string_view path, std::string& allow);

  /// The form of errors of the API that a path belongs to, whether there is an endpoint or not.
  static ErrorFormat error_of(std::string_view path);

  /// Answers, now or later. Throws as RequestHandler does where nothing was sent yet.
  void answer(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to) {
    (this->*endpoint.answer)(endpoint, request, reply_to);
  }
  /// Why a model computes nothing more; none where all compute.
  std::optional<PoolFailure> failure() const { return pool_.failure(); }
  /// Sends an error in the endpoint's form.
  void refuse(ErrorFormat error, const ReplyTarget& reply_to, const Failure& failure);

 private:
  using Action = std::function<void(const ReplyModel& model)>;

  /// The model that a body, or a query, names. ApiError 404 for an unknown one; where there is one model
  /// alone, it answers to any name.
  size_t model_named(const std::string& name) const;
  size_t model_of(const nlohmann::ordered_json& body) const;
  size_t model_of(const HttpRequest& request) const;
  std::string known_models() const;
  /// Calls `action` when the model is loaded, and sends what it throws.
  void with_model(size_t index, ErrorFormat error, const ReplyTarget& reply_to, Action action);

  /// A body as a request for a model, with the names of what is left out. FieldError for a field that no API
  /// has, with --strict-fields.
  std::shared_ptr<GenerationRequest> parse(const Dialect& dialect, const nlohmann::ordered_json& body,
                                           size_t index) const;
  /// Names what is left out of a body of an endpoint that does not generate, and its unknown fields.
  /// FieldError for these with --strict-fields.
  ///   unknown   places of unknown fields that another reader has found, besides those that the endpoint
  ///   lacks left_out  what else is left out
  void name_fields(const Endpoint& endpoint, const nlohmann::ordered_json& body, const ReplyTarget& reply_to,
                   const std::vector<std::string>& unknown = {}) const;
  /// The same with what is in `named` already.
  void name_fields(const Endpoint& endpoint, const nlohmann::ordered_json& body, const ReplyTarget& reply_to,
                   GenerationRequest named) const;
  static void read_form(const Dialect& dialect, const nlohmann::ordered_json& body,
                        GenerationRequest& request);
  void generate(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void count_tokens(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void refuse_embeddings(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void decide(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void models(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void one_model(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void version(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void tokenize(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void detokenize(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void apply_template(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void props(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void slots(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void metrics(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void reload(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void ollama_tags(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void ollama_ps(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);
  void ollama_show(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to);

  nlohmann::ordered_json describe_model(size_t index) const;
  nlohmann::ordered_json ollama_details(size_t index) const;
  /// 64 hexadecimal digits, as Ollama's clients expect and cut: they name a model's files by name, size and
  /// time.
  std::string ollama_digest(size_t index) const;
  /// The version of the weights that answer new requests; empty: none are loaded, or they tell none.
  std::string version_of(size_t index) const;

  /// Contents of a model's files.
  struct ModelFiles {
    int64_t created = 0;  ///< when they were last written, seconds since 1970
    int64_t bytes = 0;
  };

  const ServiceSettings& settings_;
  ModelPool& pool_;
  std::vector<ModelFiles> files_;  // [pool_.size()]
  Metrics metrics_;
  std::shared_ptr<Audit> audit_;  // null: nothing is audited
};

/// Status 200 with a body of JSON.
void send_json(const ReplyTarget& reply_to, const nlohmann::ordered_json& body);

/// "org/name" of "org%2Fname". A "%" without two hexadecimal digits stays.
std::string percent_decoded(std::string_view text);

/// The value of a key in a query; empty if the query does not have the key.
std::optional<std::string> query_value(std::string_view query, std::string_view key);

}  // namespace lacuna
