#include "server/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "decode/likelihood.h"
#include "engine/decision_json.h"
#include "model/families.h"
#include "options/choose.h"
#include "options/names.h"
#include "options/presets.h"
#include "server/answer_format.h"
#include "server/api_error.h"
#include "server/api_request.h"
#include "server/completion.h"
#include "server/decision_reply.h"
#include "server/events.h"
#include "server/metrics.h"
#include "server/settings.h"
#include "server/tool_request.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kOwner = "lacuna";
constexpr size_t kMostPieces = 1 << 18;     // that /tokenize and /detokenize list
constexpr size_t kMostTextBytes = 4 << 20;  // of /detokenize, as of a request's body

void send_json(HttpReply& reply, const ordered_json& body, int status = 200) {
  reply.send({status, "application/json"}, body.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

void send_error(HttpReply& reply, int status, std::string_view sentence) {
  send_json(reply, error_json(status, sentence), status);
}

int status_of(SchedulingError::Reason reason) {
  switch (reason) {
    case SchedulingError::Reason::kTooLarge:
      return 400;
    case SchedulingError::Reason::kTooManyFromClient:
      return 429;
    case SchedulingError::Reason::kQueueFull:
    case SchedulingError::Reason::kStopping:
      break;
  }
  return 503;
}

/// Whether confidences are probabilities of tokens, so that their logarithms mean something.
bool measures_probability(const Strategy& strategy) {
  const UnmaskRule* rule = nullptr;
  if (const auto* blocks = std::get_if<BlockStrategy>(&strategy)) rule = &blocks->unmask;
  if (const auto* masked = std::get_if<MaskedStrategy>(&strategy)) {
    rule = std::get_if<UnmaskRule>(&masked->commit);  // none with a guide, whose drafts have probabilities
  }
  if (std::holds_alternative<CanvasStrategy>(strategy)) return false;
  return rule == nullptr || rule->measure == ConfidenceMeasure::kProbability;
}

/// Bodies come as they are; a client may compress them without having been asked to.
void expect_plain_body(const HttpRequest& request) {
  if (request.content_encoding.empty() || request.content_encoding == "identity") return;
  throw ApiError(415, fmt::format("Content-Encoding is {}; expected a body that is not compressed",
                                  in_quotes(request.content_encoding)));
}

}  // namespace

/// The endpoints of a model that runs.
class Service::Running {
 public:
  Running(const ServiceSettings& settings, InferenceSession& session)
      : settings_(settings),
        opened_(session.opened()),
        scheduler_(session.scheduler()),
        model_{settings.name, settings.fingerprint, opened_.config(), opened_.tokenizer()},
        props_(describe_props()) {}

  /// False: there is no such path. `allow` gets the method that there is for it.
  ///   client  who asks, for limits
  bool answer(const HttpRequest& request, const std::string& client, const std::shared_ptr<HttpReply>& reply,
              std::string& allow) {
    using Handler = void (Running::*)(const HttpRequest&, const Asker&);
    struct Route {
      std::string_view method, path;
      Handler handler;
    };
    static constexpr Route kRoutes[] = {
        {"POST", "/v1/chat/completions", &Running::chat},
        {"POST", "/chat/completions", &Running::chat},
        {"POST", "/v1/completions", &Running::complete},
        {"POST", "/completions", &Running::complete},
        {"POST", "/v1/infill", &Running::infill},
        {"POST", "/infill", &Running::infill},
        {"POST", "/v1/decisions", &Running::decide},
        {"POST", "/decisions", &Running::decide},
        {"POST", "/v1/systemone", &Running::decide_system_one},
        {"GET", "/v1/models", &Running::models},
        {"GET", "/models", &Running::models},
        {"POST", "/tokenize", &Running::tokenize},
        {"POST", "/detokenize", &Running::detokenize},
        {"POST", "/apply-template", &Running::apply_template},
        {"GET", "/props", &Running::props},
        {"GET", "/slots", &Running::slots},
        {"GET", "/metrics", &Running::metrics},
    };
    for (const Route& route : kRoutes) {
      if (route.path != request.path) continue;
      allow = route.method;
      if (route.method != request.method) continue;
      (this->*route.handler)(request, {client, reply});
      return true;
    }
    return false;
  }

  Metrics& metrics() { return metrics_; }

 private:
  /// Who asked, and where the answer goes.
  struct Asker {
    const std::string& client;
    const std::shared_ptr<HttpReply>& reply;
  };

  /// One decoder and who listens to it, before it is submitted.
  using Jobs = std::vector<Scheduler::Job>;

  void chat(const HttpRequest& request, const Asker& asker) {
    generate(AnswerStyle::kChat, parse_chat_request, request.body, asker);
  }

  void complete(const HttpRequest& request, const Asker& asker) {
    generate(AnswerStyle::kText, parse_completion_request, request.body, asker);
  }

  void infill(const HttpRequest& request, const Asker& asker) {
    generate(AnswerStyle::kInfill, parse_infill_request, request.body, asker);
  }

  void decide(const HttpRequest& request, const Asker& asker) {
    answer_decision(parse_decision_body(request.body, "the body", kMostBodyValues), asker);
  }

  void decide_system_one(const HttpRequest& request, const Asker& asker) {
    answer_decision(
        parse_decision_body(request.body, "the body", kMostBodyValues, DecisionFormat::kSystemOne), asker);
  }

  void answer_decision(DecisionBody body, const Asker& asker) {
    if (!body.has_text) {
      throw InputError(body.format == DecisionFormat::kOpenAi
                           ? "input is missing; expected text or a list of messages"
                           : "state is missing; expected text, an object or a list");
    }
    expect_unchanged_files();
    auto prepared = std::make_shared<PreparedDecision>(opened_, body.request);
    Jobs jobs;
    auto decoder = prepared->take_decoder();
    jobs.push_back(
        {std::move(decoder), std::make_shared<DecisionReply>(settings_.name, std::move(body),
                                                             std::move(prepared), asker.reply, metrics_)});
    submit(std::move(jobs), asker);
  }

  /// Refuses to answer from weights that are no longer those that were loaded.
  static void expect_unchanged_files() {
    if (const std::optional<std::string> changed = find_changed_mapped_file()) {
      throw ApiError(500, fmt::format("{} was changed while the server ran; restart the server", *changed));
    }
  }

  /// Submits jobs that end with their client's connection.
  void submit(Jobs jobs, const Asker& asker) {
    const std::vector<uint64_t> ids = scheduler_.submit(std::move(jobs), asker.client);
    asker.reply->when_closed([this, ids] {
      metrics_.count_request("cancelled");
      scheduler_.cancel(ids);
    });
  }

  using Parse = GenerationRequest (*)(const json& body, const GenerationOptions& defaults);

  void generate(AnswerStyle style, Parse parse, std::string_view text, const Asker& asker) {
    const json body = parse_body(text);
    GenerationRequest request = parse(body, settings_.defaults);
    try {
      read_form(style, body, text, request);
      answer_request(style, request, asker);
    } catch (const SettingError& error) {  // in the names that the request has for them
      const bool is_of_tools = request.tools && error.problem().field == "constraint";
      throw ApiError(400, word((is_of_tools ? "tools: " : "") + error.problem().sentence,
                               [&](std::string_view field) { return request.name_of(field); }));
    }
  }

  /// Sets what the answer has to be: a constraint, or calls of tools, which the prompt then describes.
  void read_form(AnswerStyle style, const json& body, std::string_view text,
                 GenerationRequest& request) const {
    request.constraint = choose_constraint(request.options);
    std::optional<AnswerFormat> format;
    if (has_answer_format(body)) format = parse_answer_format(text);
    if (format) {
      request.constraint = format->constraint;
      request.keys[std::string(setting_of(format->constraint))] = format->key;
    }
    if (style != AnswerStyle::kChat || !has_tools(body)) return;
    std::optional<Tools> tools = parse_tools(text);
    if (!tools) return;
    if (format && tools->choice != ToolChoice::kNone) {
      throw InputError("tools and {} are both given; expected one of them, or tool_choice \"none\"",
                       format->key);
    }
    use_tools(std::move(*tools), opened_.chat_template().default_system, request);
  }

  /// Refuses to give logarithms of confidences that are no probabilities.
  void check_logprobs(const GenerationRequest& request) const {
    if (!request.wants_logprobs || request.scores_only) return;
    if (measures_probability(choose_strategy(model_.config, request.options, request.uses_guide))) return;
    if (model_.config.canvas) {
      throw SettingError(
          {"logprobs", "", "",
           "logprobs: the model measures entropies, not probabilities of its tokens; leave it out"});
    }
    const std::string rule = with_defaults(model_.config, request.options, false).unmask.value_or("");
    constexpr std::string_view kExpected = "one that does, such as low-confidence or maskgit";
    throw SettingError(
        {"unmask", rule, std::string(kExpected),
         fmt::format("logprobs: `unmask` {} measures no probability; expected {}", rule, kExpected)});
  }

  void answer_request(AnswerStyle style, GenerationRequest& request, const Asker& asker) {
    check_logprobs(request);
    const bool scores_masks = request.echoes && request.wants_logprobs && model_.config.fills_canvas();
    if ((request.given_tokens || request.likelihood_draws) && !scores_masks) {
      throw InputError(
          "lacuna.given_tokens and lacuna.likelihood_draws have no effect here; they are of masked models, "
          "of "
          "echo with logprobs");
    }
    expect_unchanged_files();
    if (request.is_infill()) request.echoes = !request.inserts;
    const auto completion = std::make_shared<Completion>(model_, style, request, asker.reply, metrics_);
    Jobs jobs;
    if (request.is_infill()) {
      add_infills(request, *completion, jobs);
    } else {
      for (const Prompt& prompt : request.prompts) add_prompt(prompt, request, *completion, jobs);
    }
    submit(std::move(jobs), asker);
    if (request.stream) completion->open();
  }

  /// The request that generates, without its prompt.
  GenerateRequest generate_request(const GenerationRequest& request, int32_t choice) const {
    GenerateRequest asked;
    asked.strategy = choose_strategy(model_.config, request.options, request.uses_guide);
    asked.gen_length = request.options.gen_length;
    asked.ends_by_itself = request.options.gen_length.is_auto;
    asked.seed = request.options.seed.value_or(0) + static_cast<uint64_t>(choice);
    asked.constraint = request.constraint;
    return asked;
  }

  void add_prompt(const Prompt& prompt, const GenerationRequest& request, Completion& completion,
                  Jobs& jobs) {
    if (!std::holds_alternative<std::vector<TokenId>>(prompt)) tokenizer();  // says where there is none
    const std::vector<TokenId> tokens = opened_.tokens_of(prompt);
    if (request.uses_guide && opened_.guide() == nullptr) {
      const auto asks = std::find_if(request.keys.begin(), request.keys.end(),
                                     [](const auto& key) { return key.first.starts_with("guide_"); });
      throw InputError("{}: this server was started without --guide",
                       asks != request.keys.end() ? asks->second : "lacuna.guide");
    }
    const bool scores = request.echoes && request.wants_logprobs;
    for (int32_t i = 0; i < request.num_choices; ++i) {
      Completion::Start start;
      if (request.echoes) start.echoed = tokens;
      if (i == 0) start.prompt_tokens = static_cast<int32_t>(tokens.size());
      if (request.scores_only) {
        completion.add_echo(std::move(start));
      } else {
        GenerateRequest asked = generate_request(request, i);
        asked.prompt = prompt;
        if (request.tools) start.tool_call_key = tool_call_key(asked.seed, tokens);
        auto decoder = opened_.make_decoder(asked);
        auto listener = completion.add_choice(*decoder, std::move(start));
        jobs.push_back({std::move(decoder), std::move(listener)});
      }
      if (scores) {
        auto likelihood = make_likelihood(request, tokens);
        jobs.push_back({std::move(likelihood), completion.add_likelihood()});
      }
    }
  }

  /// What scores a prompt. InputError where the model or the prompt is not fit for it.
  std::unique_ptr<LikelihoodDecoder> make_likelihood(const GenerationRequest& request,
                                                     const std::vector<TokenId>& tokens) const {
    const ModelConfig& config = model_.config;
    const bool is_causal = config.paradigm() == Paradigm::kCausal;
    if (!is_causal && !config.fills_canvas()) {
      throw InputError(
          "echo with logprobs needs a model that is autoregressive (Qwen) or masked (LLaDA, Dream); {} is "
          "neither",
          settings_.name);
    }
    if (request.stream) throw InputError("stream: likelihoods of a prompt come at once, not as a stream");
    if (tokens.empty()) throw InputError("the prompt is empty; likelihoods need at least one token");
    const bool is_long = static_cast<int64_t>(tokens.size()) > config.max_positions;
    const auto is_unknown = [&](TokenId token) { return token < 0 || token >= config.vocab_size; };
    if (is_long || std::any_of(tokens.begin(), tokens.end(), is_unknown)) {
      throw InputError("the prompt has {} tokens; expected at most {}, each below {}", tokens.size(),
                       config.max_positions, config.vocab_size);
    }
    if (is_causal) return std::make_unique<CausalLikelihood>(tokens);
    MaskedLikelihood::Options options;
    options.mask_id = config.mask_id;
    options.shifted_logits = config.shifted_logits;
    options.given = request.given_tokens.value_or(1);
    options.draws = request.likelihood_draws.value_or(0);
    options.seed = request.options.seed.value_or(0);
    if (static_cast<size_t>(options.given) >= tokens.size()) {
      throw InputError("the prompt has {} tokens and {} are given; expected more", tokens.size(),
                       options.given);
    }
    return std::make_unique<MaskedLikelihood>(options, tokens);
  }

  const Tokenizer& tokenizer() const {
    if (opened_.tokenizer() == nullptr) {
      throw InputError("{} has no tokenizer; expected token ids as the prompt of /v1/completions",
                       settings_.name);
    }
    return *opened_.tokenizer();
  }

  std::vector<TokenId> render_chat(const std::vector<Message>& messages) const {
    return render(opened_.chat_template(), tokenizer(), messages);
  }

  // Infill.

  void add_infills(const GenerationRequest& request, Completion& completion, Jobs& jobs) {
    if (request.uses_guide) throw InputError("lacuna.guide has no effect here: a guide reads whole prompts");
    GenerateRequest asked = generate_request(request, 0);
    const std::vector<InfillCanvas> all =
        infill_canvases(request.canvas, *asked.strategy, model_.config, opened_.tokenizer());
    if (request.inserts && request.events) {
      throw InputError("lacuna.events has no effect with a suffix; POST /v1/infill shows the whole canvas");
    }
    if (all.size() > 1 && request.events) {
      throw InputError("lacuna.events needs holes of fixed lengths; {} combinations would be tried",
                       all.size());
    }
    if (all.size() * static_cast<size_t>(request.num_choices) > kMostCandidates) {
      throw InputError("n = {} with {} combinations of lengths makes more than {} canvases",
                       request.num_choices, all.size(), kMostCandidates);
    }
    for (int32_t i = 0; i < request.num_choices; ++i) {
      std::vector<std::unique_ptr<Decoder>> decoders;
      std::vector<Completion::Start> starts;
      asked.seed = request.options.seed.value_or(0) + static_cast<uint64_t>(i);
      for (const InfillCanvas& canvas : all) {
        Completion::Start start;
        start.echoed = canvas.prompt;
        start.given_tokens = static_cast<int32_t>(canvas.answer.size()) - canvas.num_masked;
        if (i == 0) start.prompt_tokens = static_cast<int32_t>(start.echoed.size()) + start.given_tokens;
        start.inserted = canvas.holes.front().positions;
        start.inserted.begin += static_cast<int32_t>(canvas.prompt.size());
        start.inserted.end += static_cast<int32_t>(canvas.prompt.size());
        take_canvas(canvas, asked);
        decoders.push_back(opened_.make_decoder(asked));
        starts.push_back(std::move(start));
      }
      std::vector<std::shared_ptr<RequestListener>> listeners;
      if (all.size() == 1 && !request.inserts) {
        listeners.push_back(completion.add_choice(*decoders.front(), std::move(starts.front())));
      } else {
        listeners = completion.add_best_of(std::move(starts));
      }
      for (size_t j = 0; j < decoders.size(); ++j) {
        jobs.push_back({std::move(decoders[j]), std::move(listeners[j])});
      }
    }
  }

  // What is not generated.

  void models(const HttpRequest& /*request*/, const Asker& asker) {
    const ModelConfig& config = model_.config;
    send_json(*asker.reply, {{"object", "list"},
                             {"data",
                              {{{"id", settings_.name},
                                {"object", "model"},
                                {"created", 0},
                                {"owned_by", kOwner},
                                {"meta",
                                 {{"family", family_entry(config.family).name},
                                  {"vocab_size", config.vocab_size},
                                  {"context", config.max_positions}}}}}},
                             // What clients of System One read.
                             {"models",
                              {{{"name", settings_.name},
                                {"description", family_entry(config.family).name},
                                {"release_date", "1970-01-01"}}}}});
  }

  void tokenize(const HttpRequest& request, const Asker& asker) {
    const json body = parse_body(request.body);
    if (!body.is_object() || !body.contains("content") || !body["content"].is_string()) {
      throw InputError("content is missing; expected the text to tokenize");
    }
    const bool parses_special = body.contains("parse_special") && body["parse_special"] == true;
    const bool with_pieces = body.contains("with_pieces") && body["with_pieces"] == true;
    const std::vector<TokenId> tokens =
        tokenizer().encode(body["content"].get<std::string>(),
                           parses_special ? SpecialTokens::kAsAtoms : SpecialTokens::kAsText);
    asker.reply->send({200, "application/json"},
                      fmt::format("{{\"tokens\":{}}}", with_pieces ? pieces(tokens) : json(tokens).dump()));
  }

  /// [{"id":5,"piece":" a"}, ...] as text: objects of a JSON library would take twenty times as much memory.
  std::string pieces(const std::vector<TokenId>& tokens) const {
    if (tokens.size() > kMostPieces) {
      throw InputError("with_pieces lists at most {} tokens; there are {}", kMostPieces, tokens.size());
    }
    std::string list = "[";
    for (const TokenId token : tokens) {
      const std::string piece = replace_ill_formed(tokenizer().decode(std::span(&token, 1), false));
      list +=
          fmt::format("{}{{\"id\":{},\"piece\":{}}}", list.size() > 1 ? "," : "", token, json(piece).dump());
    }
    return list + "]";
  }

  void detokenize(const HttpRequest& request, const Asker& asker) {
    const json body = parse_body(request.body);
    if (!body.is_object() || !body.contains("tokens")) {
      throw InputError("tokens is missing; expected a list of token ids");
    }
    const std::vector<TokenId> tokens = parse_tokens(body["tokens"], "tokens");
    if (const size_t bytes = tokenizer().decoded_bytes(tokens, false); bytes > kMostTextBytes) {
      throw InputError("tokens are {} bytes of text; expected at most {}", bytes, kMostTextBytes);
    }
    std::string answer = "{\"content\":" + json(replace_ill_formed(tokenizer().decode(tokens, false))).dump();
    if (body.contains("with_pieces") && body["with_pieces"] == true)
      answer += ",\"tokens\":" + pieces(tokens);
    asker.reply->send({200, "application/json"}, answer + "}");
  }

  void apply_template(const HttpRequest& request, const Asker& asker) {
    const json body = parse_body(request.body);
    std::vector<Message> messages = parse_messages(body);
    if (has_tools(body)) {
      const std::optional<Tools> tools = parse_tools(request.body);
      if (tools) describe_tools(*tools, opened_.chat_template().default_system, messages);
    }
    const std::vector<TokenId> tokens = render_chat(messages);
    send_json(*asker.reply,
              {{"prompt", replace_ill_formed(tokenizer().decode(tokens, false))}, {"tokens", tokens}});
  }

  std::string describe_props() const {
    const ModelConfig& config = model_.config;
    const SchedulerLimits& limits = scheduler_.limits();
    ordered_json presets = ordered_json::array();
    for (const Preset& preset : presets_of(config)) {
      presets.push_back({{"name", preset.name}, {"flags", describe(preset)}});
    }
    const ordered_json props{{"model", settings_.name},
                             {"family", family_entry(config.family).name},
                             {"paradigm", name_of(config.paradigm())},
                             {"version", settings_.fingerprint},
                             {"context", config.max_positions},
                             {"vocab_size", config.vocab_size},
                             {"mask_id", config.mask_id},
                             {"end_ids", config.end_ids},
                             {"chat_template", name_of(opened_.chat_template().format)},
                             {"has_tokenizer", opened_.tokenizer() != nullptr},
                             {"has_guide", opened_.guide() != nullptr},
                             {"can_infill", model_.config.fills_canvas()},
                             {"total_slots", limits.max_running},
                             {"max_queue", limits.max_queue},
                             {"kv_bytes", limits.memory},
                             {"pass_rows", limits.pass_rows},
                             {"event_version", kEventVersion},
                             {"presets", std::move(presets)},
                             {"settings", describe_settings()}};
    return props.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }

  void props(const HttpRequest& /*request*/, const Asker& asker) {
    asker.reply->send({200, "application/json"}, props_);
  }

  void slots(const HttpRequest& /*request*/, const Asker& asker) {
    ordered_json list = ordered_json::array();
    for (const RequestState& state : scheduler_.states()) {
      list.push_back({{"id", state.id},
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
    send_json(*asker.reply, list);
  }

  void metrics(const HttpRequest& /*request*/, const Asker& asker) {
    asker.reply->send({200, "text/plain; version=0.0.4"},
                      metrics_.text(scheduler_.totals(), scheduler_.limits()));
  }

  const ServiceSettings& settings_;
  const OpenedModel& opened_;
  Scheduler& scheduler_;
  ServedModel model_;
  std::string props_;  // the answer of /props, which never changes
  Metrics metrics_;
};

Service::Service(ServiceSettings settings) : settings_(std::move(settings)), access_(settings_.access) {}

Service::~Service() = default;

void Service::start(InferenceSession& session) {
  parts_ = std::make_unique<Running>(settings_, session);
  running_ = parts_.get();
}

std::optional<HttpRefusal> Service::find_refusal(const HttpRequest& head) const {
  try {
    access_.check_site(head);
    access_.identify(head);
    expect_plain_body(head);
    return {};
  } catch (const ApiError& error) {
    return HttpRefusal{error.status(), error.what()};
  }
}

void Service::handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  int status = 500;
  std::string sentence;
  try {
    answer(request, reply);
    return;
  } catch (const ApiError& error) {
    status = error.status();
    sentence = error.what();
  } catch (const SchedulingError& error) {
    status = status_of(error.reason());
    sentence = error.what();
  } catch (const InputError& error) {
    status = 400;
    sentence = sentence_of(error, request_name);
  } catch (const std::exception& error) {
    sentence = error.what();
  }
  if (Running* running = running_)
    running->metrics().count_request(status < 500 || status == 503 ? "refused" : "failed");
  send_error(*reply, status, sentence);
}

void Service::answer(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  reply->allow_origin(access_.allow_origin(request));
  access_.check_site(request);
  if (request.method == "OPTIONS") return reply->send({204, "text/plain"}, "");  // a browser asks about CORS
  const bool is_get = request.method == "GET";
  if (const auto file = settings_.files.find(request.path); is_get && file != settings_.files.end()) {
    return reply->send({200, std::string(file->second.content_type)}, std::string(file->second.bytes));
  }
  Running* running = running_;
  if (is_get && (request.path == "/health" || request.path == "/v1/health")) {
    if (is_draining_) throw ApiError(503, "the server is stopping");
    if (running == nullptr) throw ApiError(503, "the model is being loaded");
    return send_json(*reply, {{"status", "ok"}});
  }
  const std::string client = access_.identify(request);
  if (running == nullptr) throw ApiError(503, "the model is being loaded");
  if (!is_get) access_.count(client);
  expect_plain_body(request);
  std::string allow;
  if (running->answer(request, client, reply, allow)) return;
  if (allow.empty()) throw ApiError(404, fmt::format("there is nothing at {}", in_quotes(request.path)));
  reply->send({405, "application/json", allow},
              error_json(405, fmt::format("{} takes {} alone", request.path, allow)).dump());
}

}  // namespace lacuna
