// The endpoints of the server, by path. docs/reference/server.md documents each.
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
struct Endpoint;

/// One request to an endpoint.
struct EndpointCall {
  const Endpoint& endpoint;
  const HttpRequest& request;
  const ReplyTarget& reply_to;
};

struct Endpoint {
  std::string_view method;
  std::string_view path;   ///< a final "{id}" matches the rest of a path
  std::string_view alias;  ///< second path of the endpoint; empty: none
  std::string_view summary;
  /// Null: Service answers it, without a key and before the models are loaded.
  void (Endpoints::*answer)(const EndpointCall& call) = nullptr;
  const Dialect* dialect = nullptr;           ///< dialect of an endpoint that generates; null for others
  RequestFields fields = {};                  ///< fields of endpoints that do not generate
  std::optional<DecisionFormat> format = {};  ///< format of a decision request; none: detected from the body
};

class Endpoints {
 public:
  /// `settings` and `pool` must outlive this object.
  Endpoints(const ServiceSettings& settings, ModelPool& pool);

  static std::span<const Endpoint> list();
  /// The endpoint; null if the path is unknown or needs another method, which is stored in `allow`.
  static const Endpoint* find(std::string_view method, std::string_view path, std::string& allow);

  /// Error format of the API that a path belongs to, even if the path has no endpoint.
  static ErrorFormat error_of(std::string_view path);

  /// Answers, possibly after it returns. Throws as RequestHandler does if nothing was sent yet.
  void answer(const Endpoint& endpoint, const HttpRequest& request, const ReplyTarget& reply_to) {
    (this->*endpoint.answer)({endpoint, request, reply_to});
  }
  /// The failure of a model that has stopped computing; none if all models work.
  std::optional<PoolFailure> failure() const { return pool_.failure(); }
  /// Sends an error in the endpoint's format.
  void refuse(ErrorFormat error, const ReplyTarget& reply_to, const Failure& failure);

 private:
  using Action = std::function<void(const ReplyModel& model)>;

  /// Index of the model with this name. ApiError 404 if it is unknown.
  size_t model_named(const std::string& name) const;
  /// Index of the model that a body, or a query, names. A single model answers to any name.
  size_t model_of(const nlohmann::ordered_json& body) const;
  size_t model_of(const HttpRequest& request) const;
  std::string known_models() const;
  /// Calls `action` when the model is loaded; sends its exceptions as error replies.
  void with_model(size_t index, const EndpointCall& call, Action action);

  /// Parses a body for a model and notes ignored fields. With --strict-fields, FieldError for an unknown
  /// field.
  std::shared_ptr<GenerationRequest> parse(const Dialect& dialect, const nlohmann::ordered_json& body,
                                           size_t index) const;
  /// For endpoints that do not generate: lists ignored and unknown fields of a body in X-Lacuna-Ignored. With
  /// --strict-fields, FieldError for unknown ones.
  ///   unknown  places of unknown fields that the body's parser has found
  void name_fields(const EndpointCall& call, const nlohmann::ordered_json& body,
                   const std::vector<std::string>& unknown = {}) const;
  /// The same, with the ignored and unknown fields that `named` already lists.
  void name_fields(const EndpointCall& call, const nlohmann::ordered_json& body,
                   GenerationRequest named) const;
  static void read_form(const Dialect& dialect, const nlohmann::ordered_json& body,
                        GenerationRequest& request);
  void generate(const EndpointCall& call);
  void count_tokens(const EndpointCall& call);
  void refuse_embeddings(const EndpointCall& call);
  void decide(const EndpointCall& call);
  void models(const EndpointCall& call);
  void one_model(const EndpointCall& call);
  void version(const EndpointCall& call);
  void tokenize(const EndpointCall& call);
  void detokenize(const EndpointCall& call);
  void apply_template(const EndpointCall& call);
  void props(const EndpointCall& call);
  void slots(const EndpointCall& call);
  void metrics(const EndpointCall& call);
  void reload(const EndpointCall& call);
  void ollama_tags(const EndpointCall& call);
  void ollama_ps(const EndpointCall& call);
  void ollama_show(const EndpointCall& call);

  nlohmann::ordered_json describe_model(size_t index) const;
  nlohmann::ordered_json ollama_details(size_t index) const;
  /// 64 hexadecimal digits, as Ollama's clients expect: a hash of the model's name and of its files' size and
  /// time.
  std::string ollama_digest(size_t index) const;
  /// Version of the weights that answer new requests; empty if the model is not loaded or has no version.
  std::string version_of(size_t index) const;

  /// Properties of a model's files.
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

/// Sends status 200 with a JSON body.
void send_json(const ReplyTarget& reply_to, const nlohmann::ordered_json& body);

/// "org/name" of "org%2Fname". A "%" without two hexadecimal digits stays.
std::string percent_decoded(std::string_view text);

/// The value of a key in a query; empty if the query does not have the key.
std::optional<std::string> query_value(std::string_view query, std::string_view key);

}  // namespace lacuna
