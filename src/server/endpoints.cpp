#include "server/endpoints.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <exception>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/chat_prompt.h"
#include "model/families.h"
#include "options/choose.h"
#include "options/presets.h"
#include "server/answer_format.h"
#include "server/api_error.h"
#include "server/api_request.h"
#include "server/events.h"
#include "server/settings.h"
#include "server/template_use.h"
#include "server/tool_request.h"
#include "server/utc_time.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kOwner = "lacuna";
constexpr std::string_view kRest = "{id}";
constexpr size_t kMaxPieces = 1 << 18;     // limit on the pieces in one reply
constexpr size_t kMaxTextBytes = 4 << 20;  // limit on the text of /detokenize

bool matches_path(std::string_view pattern, std::string_view path) {
  if (pattern.empty()) return false;
  if (!pattern.ends_with(kRest)) return pattern == path;
  pattern.remove_suffix(kRest.size());
  return path.size() > pattern.size() && path.starts_with(pattern);
}

/// Size in bytes of a file, or of a folder's files.
int64_t bytes_of_files(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    const auto size = std::filesystem::file_size(path, ignored);
    return ignored ? 0 : static_cast<int64_t>(size);
  }
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    const auto size = entry.is_regular_file(ignored) ? entry.file_size(ignored) : 0;
    if (!ignored) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

/// Time of the last change to a model's files, seconds since 1970; now for a model without files.
int64_t time_of_files(const std::filesystem::path& path) {
  for (const std::filesystem::path& file : {path / "config.json", path}) {
    struct stat status {};
    if (::stat(file.c_str(), &status) == 0) return status.st_mtime;
  }
  return std::time(nullptr);
}

/// [{"id":5,"piece":" a"}, ...] as text, since JSON objects would take twenty times the memory.
std::string list_pieces(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  if (tokens.size() > kMaxPieces) {
    throw FieldError("with_pieces", fmt::format("with_pieces lists at most {} tokens; there are {}",
                                                kMaxPieces, tokens.size()));
  }
  std::string list = "[";
  for (const TokenId token : tokens) {
    const std::string piece = replace_ill_formed(tokenizer.decode(std::span(&token, 1), false));
    list += fmt::format("{}{{\"id\":{},\"piece\":{}}}", list.size() > 1 ? "," : "", token,
                        ordered_json(piece).dump());
  }
  return list + "]";
}

/// Allows any arguments for functions with unsupported schemas, and keeps the other schemas.
void relax_tools(const ReplyModel& model, GenerationRequest& request) {
  auto* tools = request.constraint ? std::get_if<ToolCallConstraint>(&*request.constraint) : nullptr;
  if (tools == nullptr) return;
  const OpenedModel& opened = model.session->opened();
  try {
    opened.automaton_of(*tools);  // kept for the answer
  } catch (const InputError&) {   // handled below, or reported again there
    if (tools->answer) opened.automaton_of(as_constraint(*tools->answer));  // may throw, naming its field
    const Budget budget("tools", {.steps = kMaxConstraintSteps, .bytes = kMaxConstraintBytes});
    in_field("tools", [&] {
      for (std::string& place : relax_schemas(tools->functions, opened.tool_call_form()))
        leave_out(std::move(place), request);
      opened.automaton_of(*tools);
    });
  }
}

bool is_true(const ordered_json& body, const char* key) {
  const ordered_json* value = find_value(body, key);
  return value != nullptr && FieldValue{key, *value}.flag();
}

/// The value of a required field; FieldError if it is missing.
const ordered_json& required_field(const ordered_json& body, const char* key, std::string_view expected) {
  const ordered_json* value = find_value(body, key);
  if (value == nullptr) throw FieldError(key, fmt::format("{} is missing; expected {}", key, expected));
  return *value;
}

}  // namespace

void send_json(const ReplyTarget& reply_to, const ordered_json& body) {
  reply_to.reply->send({200, "application/json"}, dump_json(body));
}

std::string percent_decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const end = text.data() + std::min(i + 3, text.size());
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, end, byte, 16).ptr == end) {
      result += static_cast<char>(byte);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::optional<std::string> query_value(std::string_view query, std::string_view key) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == key) {
      return percent_decoded(pair.substr(equals + 1));
    }
  }
  return {};
}

Endpoints::Endpoints(const ServiceSettings& settings, ModelPool& pool) : settings_(settings), pool_(pool) {
  if (settings_.audit.share > 0) audit_ = std::make_shared<Audit>(settings_.audit);
  for (size_t i = 0; i < pool_.size(); ++i) {
    const std::filesystem::path& path = pool_.model(i).opened->source().folder;
    files_.push_back({time_of_files(path), path.empty() ? 0 : bytes_of_files(path)});
  }
}

const Endpoint* Endpoints::find(std::string_view method, std::string_view path, std::string& allow) {
  for (const Endpoint& endpoint : list()) {
    if (!matches_path(endpoint.path, path) && !matches_path(endpoint.alias, path)) continue;
    allow = endpoint.method;
    if (endpoint.answer != nullptr && endpoint.method == method) return &endpoint;
  }
  return nullptr;
}

void Endpoints::refuse(ErrorFormat error, const ReplyTarget& reply_to, const Failure& failure) {
  metrics_.count_request(failure.status < 500 || failure.status == 503 ? "refused" : "failed");
  reply_to.reply->send(
      {failure.status, "application/json"},
      dump_json(error(failure.status, failure.sentence, failure.field, reply_to.request_id)));
}

ErrorFormat Endpoints::error_of(std::string_view path) {
  if (path.starts_with("/v1/messages") || path.starts_with("/messages")) return anthropic_error;
  return path.starts_with("/api/") ? ollama_error : openai_error;
}

// Choice of the model.

std::string Endpoints::known_models() const {
  std::string names;
  for (size_t i = 0; i < pool_.size(); ++i) names += (i > 0 ? ", " : "") + in_quotes(pool_.model(i).name);
  return names;
}

size_t Endpoints::model_named(const std::string& name) const {
  constexpr std::string_view kTag = ":latest";  // added by Ollama's clients
  const std::string_view plain =
      name.ends_with(kTag) ? std::string_view(name).substr(0, name.size() - kTag.size()) : name;
  for (size_t i = 0; i < pool_.size(); ++i) {
    if (pool_.model(i).name == name || pool_.model(i).name == plain) return i;
  }
  throw ApiError(
      404, fmt::format("there is no model {}; this server has {}", in_quotes(name), known_models()), "model");
}

size_t Endpoints::model_of(const ordered_json& body) const {
  const ordered_json* name = find_value(body, "model");
  const std::string text = name == nullptr ? "" : FieldValue{"model", *name}.text();
  if (pool_.size() == 1) return 0;  // a single model answers to any name
  if (name == nullptr) {
    throw FieldError("model", fmt::format("model is missing; expected one of {}", known_models()));
  }
  return model_named(text);
}

size_t Endpoints::model_of(const HttpRequest& request) const {
  const std::optional<std::string> name = query_value(request.query, "model");
  return name && pool_.size() > 1 ? model_named(*name) : 0;
}

void Endpoints::with_model(size_t index, const EndpointCall& call, Action action) {
  auto use = [this, index, error = error_of(call.endpoint.path), reply_to = call.reply_to,
              action = std::move(action)](const ModelPool::Lease& lease, const std::string& failure) {
    try {
      if (reply_to.reply->is_closed()) return;  // the client disconnected while waiting
      if (lease == nullptr) {
        throw ApiError(503,
                       fmt::format("{} cannot be used: {}", in_quotes(pool_.model(index).name), failure));
      }
      const std::string& weights = lease->parts().version;
      reply_to.reply->name_weights(weights);
      action({pool_.model(index).name,
              fmt::format("lacuna-{}{}{}", settings_.version, weights.empty() ? "" : "-", weights), lease});
    } catch (...) {
      // The caller serves other requests too, so nothing may be thrown to it.
      try {
        refuse(error, reply_to, describe_failure(std::current_exception()));
      } catch (...) {
        reply_to.reply->abandon();
      }
    }
  };
  // If the model had to be loaded, the pool's thread calls this; move the work off that thread.
  pool_.use(index, [use = std::move(use), reply_to = call.reply_to, thread = std::this_thread::get_id()](
                       ModelPool::Lease lease, const std::string& failure) {
    if (std::this_thread::get_id() == thread) return use(lease, failure);
    reply_to.reply->work_later([use, lease = std::move(lease), failure] { use(lease, failure); });
  });
}

std::string Endpoints::version_of(size_t index) const {
  const ModelPool::Lease lease = pool_.loaded(index);
  return lease == nullptr ? "" : lease->parts().version;
}

// Generating endpoints.

/// Sets the answer's constraint, and the tools that it may call and the prompt describes.
void Endpoints::read_form(const Dialect& dialect, const ordered_json& body, GenerationRequest& request) {
  request.constraint = choose_constraint(request.options);
  const std::optional<AnswerFormat> format = parse_answer_format(body, dialect.answer_formats);
  if (format) {
    request.constraint = format->constraint;
    request.keys[std::string(setting_of(format->constraint))] = format->key;
  }
  if (dialect.tools == ToolFormat::kNone) return;
  std::vector<std::string> left_out;
  std::optional<Tools> tools = parse_tools(body, dialect.tools, &left_out);
  for (std::string& name : left_out) leave_out(std::move(name), request);
  if (!tools) return;
  if (format && requires_call(*tools)) {
    leave_out(format->key, request);  // the answer is calls alone
  } else if (request.constraint && requires_call(*tools)) {
    const std::string key = request.name_of(setting_of(*request.constraint)).value_or("lacuna");
    throw FieldError(key, key + " has no effect here: tool_choice requires a call");
  }
  use_tools(std::move(*tools), request);
}

std::shared_ptr<GenerationRequest> Endpoints::parse(const Dialect& dialect, const ordered_json& body,
                                                    size_t index) const {
  auto wanted = std::make_shared<GenerationRequest>(dialect.parse(body, settings_.defaults));
  note_unknown_fields(body, "", dialect.fields(), dialect.takes_common_settings ? is_common_name : nullptr,
                      *wanted);
  note_members(dialect, body, pool_.model(index).opened->chat_template(), *wanted);
  if (settings_.refuses_unknown_fields) refuse_unknown_fields(*wanted);
  read_form(dialect, body, *wanted);
  return wanted;
}

void Endpoints::name_fields(const EndpointCall& call, const ordered_json& body,
                            const std::vector<std::string>& unknown) const {
  GenerationRequest named;
  const std::vector<RequestField> fields = join({call.endpoint.fields, hint_fields()});
  for (const std::string& place : unknown) note_unknown_field(place, fields, named);
  name_fields(call, body, std::move(named));
}

void Endpoints::name_fields(const EndpointCall& call, const ordered_json& body,
                            GenerationRequest named) const {
  if (!body.is_object()) return;
  const std::vector<RequestField> fields = join({call.endpoint.fields, hint_fields()});
  for (const RequestField& field : fields) {
    const ordered_json* value = find_value(body, field.name);
    if (value != nullptr && field.read == leave_out_field)
      leave_out_field({std::string(field.name), *value}, named);
  }
  note_unknown_fields(body, "", fields, nullptr, named);
  if (settings_.refuses_unknown_fields) refuse_unknown_fields(named);
  call.reply_to.reply->name_ignored(ignored_names(named));
}

void Endpoints::generate(const EndpointCall& call) {
  const Dialect& dialect = *call.endpoint.dialect;
  const ordered_json body = parse_body(call.request.body);
  const size_t index = model_of(body);
  const std::shared_ptr<GenerationRequest> wanted = parse(dialect, body, index);
  call.reply_to.reply->name_ignored(ignored_names(*wanted));
  with_model(index, call, [this, &dialect, wanted, reply_to = call.reply_to](const ReplyModel& model) {
    try {
      relax_tools(model, *wanted);
      reply_to.reply->name_ignored(ignored_names(*wanted));
      RequestHandler(model, metrics_, audit_).answer(dialect, *wanted, reply_to);
    } catch (const SettingError& error) {  // name settings as the request does
      const auto names = [&](std::string_view field) { return wanted->name_of(field); };
      const bool is_of_tools = wanted->tools && error.problem().field == "constraint";
      throw ApiError(400, rename_fields((is_of_tools ? "tools: " : "") + error.problem().sentence, names),
                     wanted->name_of(error.problem().field).value_or(""));
    }
  });
}

void Endpoints::count_tokens(const EndpointCall& call) {
  ordered_json body = parse_body(call.request.body);
  const size_t index = model_of(body);
  const bool is_anthropic = call.endpoint.dialect == &kAnthropicMessages;
  if (is_anthropic && body.is_object() && !body.contains("max_tokens")) body["max_tokens"] = 1U;
  const std::shared_ptr<GenerationRequest> wanted = parse(*call.endpoint.dialect, body, index);
  call.reply_to.reply->name_ignored(ignored_names(*wanted));
  const PoolModel& model = pool_.model(index);
  tokenizer_for_texts(*model.opened, model.name);  // throws if the model has none
  const size_t count =
      in_field(wanted->prompt_field, [&] { return model.opened->tokens_of(wanted->prompts.front()).size(); });
  ordered_json reply{{"input_tokens", count}};
  if (!is_anthropic) reply["object"] = "response.input_tokens";
  send_json(call.reply_to, reply);
}

void Endpoints::refuse_embeddings(const EndpointCall& /*call*/) {
  throw FieldError(
      "model", "this server has no embeddings: its models write text; ask a server of an embedding model");
}

void Endpoints::decide(const EndpointCall& call) {
  const ordered_json fields = parse_body(call.request.body);
  DecisionBody body = read_decision_body(fields, "the body", call.endpoint.format);
  if (!body.has_text) {
    const bool is_openai = body.format == DecisionFormat::kOpenAi;
    throw FieldError(is_openai ? "input" : "state",
                     is_openai ? "input is missing; expected text or a list of messages"
                               : "state is missing; expected text, an object or a list");
  }
  name_fields(call, fields, body.unknown);
  const size_t index = model_of(fields);
  const auto wanted = std::make_shared<DecisionBody>(std::move(body));
  with_model(index, call, [this, wanted, reply_to = call.reply_to](const ReplyModel& model) {
    RequestHandler(model, metrics_).decide(std::move(*wanted), reply_to);
  });
}

// Other endpoints.

ordered_json Endpoints::describe_model(size_t index) const {
  const ModelConfig& config = pool_.model(index).opened->config();
  return {{"id", pool_.model(index).name},
          {"object", "model"},
          {"created", files_[index].created},
          {"owned_by", kOwner},
          {"meta",
           {{"family", family_entry(config.family).name},
            {"vocab_size", config.vocab_size},
            {"context", config.max_positions},
            {"writes_text", pool_.model(index).opened->decision_temperatures().writes_text},
            {"loaded", pool_.loaded(index) != nullptr}}}};
}

void Endpoints::models(const EndpointCall& call) {
  ordered_json reply{{"object", "list"}, {"data", ordered_json::array()}, {"models", ordered_json::array()}};
  for (size_t i = 0; i < pool_.size(); ++i) {
    reply["data"].push_back(describe_model(i));
    // Fields that clients of System One read.
    reply["models"].push_back({{"name", pool_.model(i).name},
                               {"description", family_entry(pool_.model(i).opened->config().family).name},
                               {"release_date", utc_date(files_[i].created)}});
  }
  send_json(call.reply_to, reply);
}

void Endpoints::one_model(const EndpointCall& call) {
  constexpr std::string_view kBefore = "models/";
  const std::string_view path = call.request.path;
  const std::string name = percent_decoded(path.substr(path.find(kBefore) + kBefore.size()));
  send_json(call.reply_to, describe_model(model_named(name)));
}

void Endpoints::version(const EndpointCall& call) {
  send_json(call.reply_to, {{"version", settings_.version}});
}

void Endpoints::tokenize(const EndpointCall& call) {
  const ordered_json body = parse_body(call.request.body);
  name_fields(call, body);
  const std::string content =
      FieldValue{"content", required_field(body, "content", "the text to tokenize")}.text();
  const PoolModel& model = pool_.model(model_of(body));
  const Tokenizer& tokenizer = tokenizer_for_texts(*model.opened, model.name);
  const std::vector<TokenId> tokens = tokenizer.encode(
      content, is_true(body, "parse_special") ? SpecialTokens::kAsAtoms : SpecialTokens::kAsText);
  const std::string list =
      is_true(body, "with_pieces") ? list_pieces(tokenizer, tokens) : ordered_json(tokens).dump();
  call.reply_to.reply->send({200, "application/json"}, fmt::format("{{\"tokens\":{}}}", list));
}

void Endpoints::detokenize(const EndpointCall& call) {
  const ordered_json body = parse_body(call.request.body);
  name_fields(call, body);
  const std::vector<TokenId> tokens =
      parse_tokens(required_field(body, "tokens", "a list of token ids"), "tokens");
  const PoolModel& model = pool_.model(model_of(body));
  const Tokenizer& tokenizer = tokenizer_for_texts(*model.opened, model.name);
  if (const size_t bytes = tokenizer.decoded_bytes(tokens, false); bytes > kMaxTextBytes) {
    throw FieldError("tokens",
                     fmt::format("tokens are {} bytes of text; expected at most {}", bytes, kMaxTextBytes));
  }
  std::string answer =
      "{\"content\":" + ordered_json(replace_ill_formed(tokenizer.decode(tokens, false))).dump();
  if (is_true(body, "with_pieces")) answer += ",\"tokens\":" + list_pieces(tokenizer, tokens);
  call.reply_to.reply->send({200, "application/json"}, answer + "}");
}

void Endpoints::apply_template(const EndpointCall& call) {
  const ordered_json body = parse_body(call.request.body);
  GenerationRequest named;
  named.prompts.emplace_back(parse_conversation(body, named));
  const PoolModel& model = pool_.model(model_of(body));
  const Tokenizer& tokenizer = tokenizer_for_texts(*model.opened, model.name);
  note_members(kOpenAiChat, body, model.opened->chat_template(), named);
  auto& conversation = std::get<Conversation>(named.prompts.front());
  const std::optional<Tools> tools = parse_tools(body, ToolFormat::kChat, &named.left_out);
  if (tools) conversation.tools = definitions_of(*tools);
  name_fields(call, body, named);
  const RenderedPrompt prompt = in_field(
      "messages", [&] { return chat_prompt(model.opened->chat_template(), tokenizer, conversation); });
  send_json(call.reply_to, {{"prompt", replace_ill_formed(prompt.text)}, {"tokens", prompt.tokens}});
}

void Endpoints::props(const EndpointCall& call) {
  const size_t index = model_of(call.request);
  const PoolModel& model = pool_.model(index);
  const ModelConfig& config = model.opened->config();
  SchedulerLimits limits = model.limits;
  ordered_json device = nullptr;
  std::string weights;
  if (const ModelPool::Lease lease = pool_.loaded(index)) {
    limits = lease->scheduler().limits();
    device = lease->parts().model->device();
    weights = lease->parts().version;
  }
  ordered_json presets = ordered_json::array();
  for (const Preset& preset : presets_of(config)) {
    presets.push_back({{"name", preset.name}, {"flags", describe(preset)}});
  }
  send_json(call.reply_to, {{"model", model.name},
                            {"family", family_entry(config.family).name},
                            {"paradigm", name_of(config.paradigm())},
                            {"version", "lacuna-" + settings_.version},
                            {"device", std::move(device)},
                            {"weights", std::move(weights)},
                            {"context", config.max_positions},
                            {"vocab_size", config.vocab_size},
                            {"mask_id", config.mask_id},
                            {"end_ids", config.end_ids},
                            {"chat_template", replace_ill_formed(model.opened->chat_template().program())},
                            {"chat_template_source", model.opened->chat_template().description()},
                            {"has_tokenizer", model.opened->tokenizer() != nullptr},
                            {"writes_text", model.opened->decision_temperatures().writes_text},
                            {"calibrated", model.opened->decision_temperatures().is_fitted},
                            {"has_guide", model.opened->guide() != nullptr},
                            {"can_infill", can_infill(config)},
                            {"total_slots", limits.max_running},
                            {"max_queue", limits.max_queue},
                            {"kv_bytes", limits.memory},
                            {"pass_rows", limits.pass_rows},
                            {"event_version", kEventVersion},
                            {"presets", std::move(presets)},
                            {"settings", describe_settings()},
                            {"audit", audit_ ? audit_->describe() : ordered_json(nullptr)}});
}

void Endpoints::reload(const EndpointCall& call) {
  const ordered_json body = parse_body(call.request.body);
  name_fields(call, body);
  const std::string name =
      FieldValue{"folder", required_field(body, "folder", "a folder below the one of --reload-from")}.text();
  const size_t index = model_of(body);
  if (!pool_.model(index).other_weights)
    throw ApiError(403, "weights cannot be reloaded; start the server with --reload-from FOLDER");
  const auto tell = [](const std::string& problem) { return fmt::format("folder: {}", problem); };
  PoolModel::Load load;
  try {
    load = pool_.model(index).other_weights(name);
  } catch (const InputError& error) {
    throw FieldError("folder", tell(error.what()));
  }
  pool_.replace(index, std::move(load),
                [this, index, reply_to = call.reply_to, tell](const std::string& failure) {
                  if (!failure.empty()) return refuse(openai_error, reply_to, {400, tell(failure), "folder"});
                  const std::string version = version_of(index);
                  reply_to.reply->name_weights(version);
                  send_json(reply_to, {{"model", pool_.model(index).name}, {"weights", version}});
                });
}

void Endpoints::slots(const EndpointCall& call) {
  ordered_json list = ordered_json::array();
  for (const ModelPool::Loaded& each : pool_.loaded()) {
    for (const RequestState& state : each.lease->scheduler().states()) {
      list.push_back({{"id", state.id},
                      {"model", pool_.model(each.index).name},
                      {"is_processing", state.is_running},
                      {"prompt_tokens", state.prompt_tokens},
                      {"canvas_tokens", state.canvas_tokens},
                      {"final_tokens", state.final_tokens},
                      {"steps", state.statistics.steps},
                      {"rows", state.statistics.cost.rows},
                      {"rows_baseline", state.statistics.baseline.rows},
                      {"flops", state.statistics.cost.flops()},
                      {"seconds", state.seconds}});
    }
  }
  send_json(call.reply_to, list);
}

void Endpoints::metrics(const EndpointCall& call) {
  Scheduler::Totals totals;
  SchedulerLimits limits;
  limits.memory = 0;
  totals.waiting = pool_.num_waiting();
  std::vector<Metrics::CacheConfig> caches;
  for (const ModelPool::Loaded& each : pool_.loaded()) {
    const Scheduler& scheduler = each.lease->scheduler();
    const Scheduler::Totals own = scheduler.totals();
    totals.waiting += own.waiting;
    totals.running += own.running;
    totals.memory += own.memory;
    totals.prefix_memory += own.prefix_memory;
    totals.rows_pending += own.rows_pending;
    if (each.is_replaced) continue;
    limits.memory += scheduler.limits().memory;
    caches.push_back({pool_.model(each.index).name, Scheduler::kCellsOfPage, own.kv_pages});
  }
  const std::optional<AuditState> audit = audit_ ? std::optional(audit_->state()) : std::nullopt;
  call.reply_to.reply->send({200, "text/plain; version=0.0.4"},
                            metrics_.text(totals, limits, audit ? &*audit : nullptr, caches));
}

}  // namespace lacuna
