// `lacuna mcp`: a server of the Model Context Protocol on standard input and output, with a model as tools.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "decode/make_decoder.h"
#include "engine/answer_limit.h"
#include "engine/decide.h"
#include "engine/inference_session.h"
#include "engine/result.h"
#include "generation_flags.h"
#include "loading.h"
#include "message_inbox.h"
#include "options/choose.h"
#include "options/names.h"
#include "server/settings.h"
#include "terminal.h"
#include "tokenizer/unicode.h"
#include "wire/decision_json.h"

namespace lacuna {
namespace {

/// Supported versions of the protocol, the newest first.
constexpr std::string_view kVersions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

class RpcError : public std::runtime_error {
 public:
  RpcError(int code, const std::string& sentence) : std::runtime_error(cut_middle(sentence)), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

struct McpFlags : GuidedModelFlags {
  TemplateFlags prompt_template;
  GenerationOptions generation;
};

/// Result of a tool: text for the calling model, and the same data as an object.
struct ToolResult {
  std::string text;
  nlohmann::ordered_json object;
};

/// The model's tools. The weights are read when a tool first needs them.
class ModelTools {
 public:
  explicit ModelTools(const McpFlags& flags)
      : flags_(flags),
        opened_(open_model(flags, flags.prompt_template)),
        defaults_(resolve_run(flags_, *opened_, flags.generation)) {
    if (opened_->tokenizer() == nullptr)
      throw InputError("{} has no tokenizer; tools read and write text", flags.model);
    check_defaults();
  }

  nlohmann::ordered_json list() const {
    nlohmann::ordered_json tools = nlohmann::ordered_json::array();
    const auto add = [&](const char* name, const char* description, nlohmann::ordered_json properties,
                         nlohmann::ordered_json required, bool takes_settings) {
      tools.push_back({{"name", name},
                       {"description", description},
                       {"inputSchema",
                        {{"type", "object"},
                         {"properties", std::move(properties)},
                         {"required", std::move(required)},
                         {"additionalProperties", takes_settings}}},
                       {"annotations", {{"readOnlyHint", true}, {"openWorldHint", false}}}});
    };
    const nlohmann::ordered_json text{{"type", "string"}};
    const nlohmann::ordered_json number{{"type", "number"}}, count{{"type", "integer"}, {"minimum", 0}};
    const nlohmann::ordered_json form{
        {"json_schema", {{"description", "the answer is JSON that is valid against it"}}},
        {"regex", {{"type", "string"}, {"description", "the whole answer matches it"}}},
        {"grammar", {{"type", "string"}, {"description", "GBNF of the answer"}}},
        {"temperature", number},
        {"seed", count}};
    nlohmann::ordered_json generate{
        {"prompt", {{"type", "string"}, {"description", "the user's message"}}},
        {"system", {{"type", "string"}, {"description", "a system message before it"}}},
        {"max_tokens", {{"type", "integer"}, {"minimum", 1}}},
        {"stop", {{"type", "array"}, {"items", text}}}};
    generate.update(form);
    add("generate",
        "Writes an answer to a prompt with a diffusion language model. Further settings are those of lacuna "
        "run.",
        std::move(generate), {"prompt"}, true);
    nlohmann::ordered_json infill{
        {"text",
         {{"type", "string"},
          {"description",
           "text with holes: [[4]] is a hole of 4 tokens, [[1-3]] of 1 to 3; \\[[ is the text itself"}}}};
    infill.update(form);
    add("infill", "Fills the holes of a text, with what stands on both sides of them.", std::move(infill),
        {"text"}, true);
    add("decide",
        "Answers questions about a text with probabilities: questions by names, each with a type (noul: yes "
        "or no; choice: criteria are labels with descriptions or null; score: criteria are levels) and "
        "instructions.",
        {{"state", {{"description", "text, object or list that the questions are about"}}},
         {"questions", {{"type", "object"}}}},
        {"state", "questions"}, true);
    add("tokenize", "Token ids of a text, or the text of token ids.",
        {{"text", text}, {"tokens", {{"type", "array"}, {"items", count}}}}, nlohmann::ordered_json::array(),
        false);
    return tools;
  }

  /// Throws RpcError for an unknown tool, and InputError for invalid arguments.
  ///   stop  ends the work, with Cancelled or WorkCancelled
  ToolResult call(std::string_view name, const nlohmann::json& arguments, const std::stop_token& stop) {
    std::atomic<bool> is_cancelled = false;
    const std::stop_callback cancel(stop, [&] { is_cancelled = true; });
    const Budget budget(std::string(name), {.stop = &is_cancelled});  // work of schemas and templates
    if (name == "generate") return generate(arguments, stop);
    if (name == "infill") return infill(arguments, stop);
    if (name == "decide") return decide(arguments, stop);
    if (name == "tokenize") return tokenize(arguments);
    throw RpcError(kInvalidParams,
                   fmt::format("there is no tool {}; expected generate, infill, decide or tokenize",
                               in_quotes(std::string(name))));
  }

 private:
  /// Throws InputError for flags with which no request is valid.
  void check_defaults() const {
    GenerateRequest request = request_of(*opened_, defaults_, opened_->guide() != nullptr);
    request.prompt = std::string("a");
    opened_->make_decoder(request);
  }

  InferenceSession& session() {
    if (!session_) session_ = load_session(flags_, opened_, own_limits(1));
    return *session_;
  }

  static std::string text_at(const nlohmann::json& arguments, const char* key) {
    const auto found = arguments.find(key);
    if (found == arguments.end()) throw InputError("{} is missing; expected a string", key);
    if (!found->is_string()) throw InputError("{} is {}; expected a string", key, in_quotes(found->dump()));
    return found->get<std::string>();
  }

  /// The command line's options with the settings among the arguments, except `others`.
  static GenerationOptions settings(const nlohmann::json& arguments,
                                    std::initializer_list<std::string_view> others,
                                    GenerationOptions options) {
    std::map<std::string_view, std::string> keys;  // argument that gave each setting
    for (const auto& [key, value] : arguments.items()) {
      if (std::find(others.begin(), others.end(), key) != others.end()) continue;
      const std::string_view setting = setting_named(key);
      const auto [other, is_new] = keys.emplace(setting, key);
      if (!setting.empty() && !is_new && arguments.at(other->second) != value)
        throw InputError("{} and {} are two names of one setting and differ; expected one of them",
                         other->second, key);
      const bool is_schema = setting == "json-schema" && !value.is_string();
      const bool is_any_length =
          setting == "gen-length" && value.is_number() && value > kMaxGenLength && value <= kMaxExactInteger;
      expect_setting(key,
                     is_schema       ? nlohmann::json(value.dump())
                     : is_any_length ? nlohmann::json(kMaxGenLength)
                                     : value,
                     "", options);
    }
    return options;
  }

  ToolResult generate(const nlohmann::json& arguments, const std::stop_token& stop) {
    expect_writer(*opened_);
    std::vector<Message> turns;
    if (arguments.contains("system")) turns.push_back({"system", text_at(arguments, "system")});
    turns.push_back({"user", text_at(arguments, "prompt")});
    const GenerationOptions asked = settings(arguments, {"prompt", "system"}, defaults_);
    const Prompt prompt = Conversation(turns);
    const std::vector<TokenId> tokens = opened_->tokens_of(prompt);
    // Agents often ask for more tokens than the model has positions.
    const LimitedOptions fitting = fitting_limit(asked, prompt, tokens, arguments.contains("block_length"));
    GenerateRequest request = request_of(*opened_, fitting.options, opened_->guide() != nullptr);
    request.prompt = prompt;
    const GenerationResult answer = session().generate(request, nullptr, stop);
    const std::string text = replace_ill_formed(answer.text);
    nlohmann::ordered_json object{{"text", text},
                                  {"stop_reason", name_of(answer.stop_reason)},
                                  {"prompt_tokens", answer.prompt_tokens},
                                  {"answer_tokens", answer.answer_tokens},
                                  {"forward_passes", answer.statistics.forward_passes},
                                  {"seed", answer.seed}};
    if (fitting.most) object["ignored"] = {fmt::format("max_tokens ({} at most)", *fitting.most)};
    return {text, std::move(object)};
  }

  /// The first result of with_fitting_limit() for which the request is valid.
  LimitedOptions fitting_limit(const GenerationOptions& asked, const Prompt& prompt,
                               const std::vector<TokenId>& tokens, bool chose_blocks) const {
    const bool has_guide = opened_->guide() != nullptr;
    std::vector<LimitedOptions> ways =
        with_fitting_limit(*opened_, asked, has_guide, prompt, tokens, kMaxGenLength, chose_blocks);
    if (ways.size() == 1) return ways.front();
    try {
      GenerateRequest request = request_of(*opened_, ways.front().options, has_guide);
      request.prompt = tokens;
      opened_->make_decoder(request);
      return ways.front();
    } catch (const SettingError&) {  // such as a lock on a canvas that grows
      return ways.back();
    }
  }

  ToolResult infill(const nlohmann::json& arguments, const std::stop_token& stop) {
    expect_writer(*opened_);
    expect_infill(opened_->config());
    GenerationOptions defaults = defaults_;  // the text's holes give the length
    defaults.gen_length = {};
    defaults.block_length = {};
    const GenerationOptions options = settings(arguments, {"text"}, std::move(defaults));
    if (options.gen_length || options.gen_length.is_auto)
      throw InputError("max_tokens has no effect here: an infill is as long as its text");
    const GenerateRequest chosen = request_of(*opened_, options, false);
    InfillRequest request;
    request.canvas = parse_marked_text(text_at(arguments, "text"));
    request.strategy = chosen.strategy;
    request.seed = chosen.seed;
    request.constraint = chosen.constraint;
    request.gives_literals = chosen.gives_literals;
    request.adjustments = chosen.adjustments;
    const InfillResult filled = session().infill(request, nullptr, stop);
    nlohmann::ordered_json holes = nlohmann::ordered_json::array();
    for (const FilledHole& hole : filled.holes) holes.push_back(replace_ill_formed(hole.text));
    const std::string text = replace_ill_formed(filled.text);
    return {text, {{"text", text}, {"holes", std::move(holes)}, {"candidates", filled.candidates}}};
  }

  ToolResult decide(const nlohmann::json& arguments, const std::stop_token& stop) {
    const DecisionBody body = read_decision_body(arguments, "arguments");
    if (!body.unknown.empty())
      throw InputError("{} is no argument of decide; expected state, questions and lacuna",
                       in_quotes(body.unknown.front()));
    const DecideResult result = lacuna::decide(session(), body.request, stop);
    nlohmann::ordered_json reply = decision_reply(body, result, opened_->name());
    return {dump_json(reply["answers"]), std::move(reply)};
  }

  ToolResult tokenize(const nlohmann::json& arguments) const {
    for (const auto& [key, value] : arguments.items()) {
      if (key != "text" && key != "tokens")
        throw InputError("{} is no argument of tokenize; expected text or tokens", in_quotes(key));
    }
    const Tokenizer& tokenizer = *opened_->tokenizer();
    const auto tokens = arguments.find("tokens");
    if (tokens == arguments.end()) {
      const std::vector<TokenId> ids = tokenizer.encode(text_at(arguments, "text"));
      return {nlohmann::json(ids).dump(), {{"tokens", ids}, {"count", ids.size()}}};
    }
    if (arguments.contains("text")) throw InputError("text and tokens are both given; expected one of them");
    std::vector<TokenId> ids;
    const auto is_token = [&](const nlohmann::json& id) {
      return id.is_number_unsigned() && id < opened_->config().vocab_size;
    };
    if (!tokens->is_array() || !std::all_of(tokens->begin(), tokens->end(), is_token))
      throw InputError("tokens is {}; expected a list of ids below {}", in_quotes(tokens->dump()),
                       opened_->config().vocab_size);
    for (const nlohmann::json& id : *tokens) ids.push_back(id.get<TokenId>());
    if (const size_t bytes = tokenizer.decoded_bytes(ids, false); bytes > kMaxMessageBytes)
      throw InputError("tokens are {} bytes of text; expected at most {}", bytes, kMaxMessageBytes);
    const std::string text = replace_ill_formed(tokenizer.decode(ids, false));
    return {text, {{"text", text}, {"count", ids.size()}}};
  }

  McpFlags flags_;
  std::shared_ptr<const OpenedModel> opened_;
  GenerationOptions defaults_;
  std::unique_ptr<InferenceSession> session_;
};

nlohmann::ordered_json initialize(const nlohmann::json& params) {
  const auto asked = params.find("protocolVersion");
  if (asked == params.end() || !asked->is_string())
    throw RpcError(kInvalidParams, "protocolVersion is missing; expected a string");
  const auto* known = std::find(std::begin(kVersions), std::end(kVersions), asked->get<std::string>());
  return {{"protocolVersion", known == std::end(kVersions) ? kVersions[0] : *known},
          {"capabilities", {{"tools", {{"listChanged", false}}}}},
          {"serverInfo", {{"name", "lacuna"}, {"version", LACUNA_VERSION}}}};
}

nlohmann::ordered_json call_tool(const nlohmann::json& params, ModelTools& tools,
                                 const std::stop_token& stop) {
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string())
    throw RpcError(kInvalidParams, "name is missing; expected the name of a tool");
  const auto given = params.find("arguments");
  const nlohmann::json arguments =
      given == params.end() || given->is_null() ? nlohmann::json::object() : *given;
  if (!arguments.is_object()) throw RpcError(kInvalidParams, "arguments is not an object");
  try {
    ToolResult result = tools.call(name->get<std::string>(), arguments, stop);
    return {
        {"content", nlohmann::ordered_json::array({{{"type", "text"}, {"text", std::move(result.text)}}})},
        {"structuredContent", std::move(result.object)},
        {"isError", false}};
  } catch (const InputError& error) {  // a tool error, which the caller can correct
    const std::string sentence = replace_ill_formed(error.what());
    return {{"content", nlohmann::ordered_json::array({{{"type", "text"}, {"text", sentence}}})},
            {"isError", true}};
  }
}

nlohmann::ordered_json result_of(const std::string& method, const nlohmann::json& params, ModelTools& tools,
                                 const std::stop_token& stop) {
  if (method == "initialize") return initialize(params);
  if (method == "ping") return nlohmann::ordered_json::object();
  if (method == "tools/list") return {{"tools", tools.list()}};
  if (method == "tools/call") return call_tool(params, tools, stop);
  throw RpcError(kMethodNotFound,
                 fmt::format("there is no method {}; expected initialize, ping, tools/list or tools/call",
                             in_quotes(method)));
}

/// The reply to a message; empty for notifications and cancelled requests.
std::optional<nlohmann::ordered_json> reply_to_message(const RpcMessage& received, ModelTools& tools) {
  nlohmann::ordered_json id = nullptr;
  nlohmann::ordered_json reply{{"jsonrpc", "2.0"}};
  try {
    if (received.code != 0) throw RpcError(received.code, received.sentence);
    const nlohmann::json& message = received.message;
    if (!message.is_object()) throw RpcError(kInvalidRequest, "the message is not an object");
    const auto own_id = message.find("id");
    const bool is_request = own_id != message.end();
    if (is_request && (own_id->is_string() || own_id->is_number_integer())) id = *own_id;
    const auto method = message.find("method");
    if (method == message.end() || !method->is_string()) {
      // Responses are ignored: this server sends no requests.
      if (message.contains("result") || message.contains("error")) return std::nullopt;
      throw RpcError(kInvalidRequest, "method is missing; expected a string");
    }
    if (!is_request) return std::nullopt;
    if (id.is_null()) throw RpcError(kInvalidRequest, "id is neither a string nor an integer");
    const auto given = message.find("params");
    const nlohmann::json params =
        given == message.end() || given->is_null() ? nlohmann::json::object() : *given;
    if (!params.is_object()) throw RpcError(kInvalidParams, "params is not an object");
    nlohmann::ordered_json result =
        result_of(method->get<std::string>(), params, tools, received.cancellation);
    reply["id"] = id;
    reply["result"] = std::move(result);
  } catch (const Cancelled&) {
    return std::nullopt;
  } catch (const WorkCancelled&) {
    return std::nullopt;
  } catch (const RpcError& error) {
    reply["id"] = id;
    reply["error"] = {{"code", error.code()}, {"message", replace_ill_formed(error.what())}};
  }
  return reply;
}

void serve_tools(const McpFlags& flags) {
  ModelTools tools(flags);
  MessageInbox inbox;
  while (const std::optional<RpcMessage> message = inbox.take()) {
    const std::optional<nlohmann::ordered_json> reply = reply_to_message(*message, tools);
    if (!reply) continue;
    print_data("{}\n", dump_json(*reply));
    std::fflush(stdout);
  }
}

}  // namespace

void add_mcp_command(CLI::App& program) {
  auto flags = std::make_shared<McpFlags>();
  CLI::App* command = program.add_subcommand(
      "mcp",
      "Offer generate, infill, decide and tokenize to agents, as MCP tools over standard input and output");
  add_model_flags(*command, *flags);
  add_generation_flags(*command, flags->generation);
  add_template_flags(*command, flags->prompt_template, "Prompt");
  command->footer("docs/guide/tools.md shows how an agent is told about it.");
  command->callback([flags] { serve_tools(*flags); });
}

}  // namespace lacuna
