#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <new>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "decode/make_decoder.h"
#include "engine/answer_limit.h"
#include "engine/decide.h"
#include "options/choose.h"
#include "server/api_error.h"

namespace lacuna {
namespace {

/// Whether confidences are token probabilities, so that logprobs are meaningful.
bool measures_probability(const Strategy& strategy) {
  const UnmaskRule* rule = nullptr;
  if (const auto* blocks = std::get_if<BlockStrategy>(&strategy)) rule = &blocks->unmask;
  if (const auto* masked = std::get_if<MaskedStrategy>(&strategy)) {
    rule = std::get_if<UnmaskRule>(&masked->commit);  // null with a guide: its drafts have probabilities
  }
  if (std::holds_alternative<CanvasStrategy>(strategy)) return false;
  return rule == nullptr || rule->measure == ConfidenceMeasure::kProbability;
}

/// Gives holes of fixed length an open length; returns false if there are none.
bool open_cursor(std::vector<CanvasPart>& canvas) {
  bool has_fixed = false;
  for (CanvasPart& part : canvas) {
    const Hole* hole = std::get_if<Hole>(&part);
    if (hole == nullptr || hole->is_open) continue;
    has_fixed = true;
    part = Hole{.most = kOpenHoleMost, .is_open = true};
  }
  return has_fixed;
}

/// Throws if lists of alternatives would take much more memory than the answers.
void check_alternatives(const GenerationRequest& request, const Decoder& decoder) {
  const int64_t choices =
      request.num_choices * std::max<int64_t>(1, static_cast<int64_t>(request.prompts.size()));
  const int64_t positions = decoder.num_cells() - decoder.prompt_length();
  if (choices * positions * request.num_alternatives <= kMaxListedAlternatives) return;
  const std::string key = request.name_of("alternatives").value_or("top_logprobs");
  throw FieldError(
      key, fmt::format("{} is {} of {} positions in {} choices; expected {} alternatives at most", key,
                       request.num_alternatives, positions, choices, kMaxListedAlternatives));
}

/// Sends the reply to a decision request when its decoder is done.
class DecisionReply final : public RequestListener {
 public:
  ///   model    stays loaded until the reply is sent     metrics  must outlive the reply
  DecisionReply(ReplyModel model, DecisionBody body, std::shared_ptr<const PreparedDecision> prepared,
                std::shared_ptr<HttpReply> reply, Metrics& metrics)
      : model_(std::move(model)),
        body_(std::move(body)),
        prepared_(std::move(prepared)),
        reply_(std::move(reply)),
        metrics_(metrics) {}

  void started(const Decoder& /*decoder*/, double queue_seconds) override {
    metrics_.observe_queue(queue_seconds);
  }
  bool stepped(const StepEvent& event) override {
    metrics_.count_pass(event.statistics, statistics_);
    statistics_ = event.statistics;
    return true;
  }
  void finished(const Decoder& decoder, const RunStatistics& statistics) override {
    if (const std::optional<std::string> changed = find_changed_mapped_file())
      return failed(fmt::format("{} was changed while the server ran; restart the server", *changed));
    const DecideResult result = prepared_->result(decoder.measurements().readings(), statistics);
    const auto prompt_tokens = static_cast<int32_t>(result.prompt_tokens);
    const auto answers = static_cast<int32_t>(result.answers.size());
    metrics_.count_baseline(statistics.baseline);
    metrics_.count_tokens(prompt_tokens, statistics.shared_tokens, answers);
    metrics_.count_request("stop");
    reply_->record({model_.name, prompt_tokens, answers});
    metrics_.observe_request(clock_.seconds());
    reply_->send({200, "application/json"}, dump_json(decision_reply(body_, result, model_.name)));
  }
  void failed(const std::string& sentence) override {
    metrics_.count_request("failed");
    reply_->send({500, "application/json"}, dump_json(error_json(500, sentence)));
  }
  void lost(const std::exception_ptr& /*error*/) noexcept override { reply_->abandon(); }

 private:
  ReplyModel model_;
  DecisionBody body_;
  std::shared_ptr<const PreparedDecision> prepared_;
  std::shared_ptr<HttpReply> reply_;
  Metrics& metrics_;
  RunStatistics statistics_;  // after the last pass
  Stopwatch clock_;
};

}  // namespace

const Tokenizer& tokenizer_for_texts(const OpenedModel& opened, const std::string& name) {
  if (opened.tokenizer() == nullptr) {
    throw InputError("{} has no tokenizer; expected token ids as the prompt of /v1/completions", name);
  }
  return *opened.tokenizer();
}

void expect_unchanged_files() {
  if (const std::optional<std::string> changed = find_changed_mapped_file()) {
    throw ApiError(500, fmt::format("{} was changed while the server ran; restart the server", *changed));
  }
}

/// Submits jobs; they are cancelled when the client disconnects.
void RequestHandler::submit(Jobs jobs, const ReplyTarget& reply_to) const {
  const std::vector<uint64_t> ids = model_.session->scheduler().submit(std::move(jobs), reply_to.client);
  try {
    reply_to.reply->when_closed([session = model_.session, &metrics = metrics_, ids] {
      session->scheduler().cancel(ids);
      metrics.count_request("cancelled");
    });
  } catch (const std::bad_alloc&) {  // without the callback, nothing would cancel them
    model_.session->scheduler().cancel(ids);
    throw;
  }
}

void RequestHandler::decide(DecisionBody body, const ReplyTarget& reply_to) const {
  expect_unchanged_files();
  auto prepared = std::make_shared<PreparedDecision>(opened(), body.request);
  Jobs jobs;
  auto decoder = prepared->take_decoder();
  auto listener =
      std::make_shared<DecisionReply>(model_, std::move(body), std::move(prepared), reply_to.reply, metrics_);
  jobs.push_back({std::move(decoder), std::move(listener)});
  submit(std::move(jobs), reply_to);
}

/// Throws if logprobs are requested and confidences are not probabilities.
void RequestHandler::check_logprobs(const GenerationRequest& request) const {
  if (!request.wants_logprobs || request.scores_only) return;
  if (measures_probability(choose_strategy(config(), request.options, request.uses_guide))) return;
  if (config().canvas) {
    throw SettingError(
        {"logprobs", "", "",
         "logprobs: the model measures entropies, not probabilities of its tokens; leave it out"});
  }
  const std::string rule = with_defaults(config(), request.options, false).unmask.value_or("");
  constexpr std::string_view kExpected = "one that does, such as low-confidence or maskgit";
  throw SettingError(
      {"unmask", rule, std::string(kExpected),
       fmt::format("logprobs: `unmask` {} measures no probability; expected {}", rule, kExpected)});
}

void RequestHandler::answer(const Dialect& dialect, GenerationRequest& request,
                            const ReplyTarget& reply_to) const {
  if (!opened().decision_temperatures().writes_text && !request.scores_only) {
    throw FieldError(
        "model",
        fmt::format("{} was made for decisions and writes no text; ask it at /v1/decisions", model_.name));
  }
  // A top_k beyond the vocabulary keeps all tokens.
  if (request.keys.contains("top_k") && request.options.top_k.value_or(0) > config().vocab_size)
    request.options.top_k = 0;
  check_logprobs(request);
  const bool scores_masks = request.echoes && request.wants_logprobs && config().fills_canvas();
  if ((request.given_tokens || request.likelihood_draws) && !scores_masks) {
    throw FieldError(request.given_tokens ? "lacuna.given_tokens" : "lacuna.likelihood_draws",
                     "lacuna.given_tokens and lacuna.likelihood_draws have no effect here; they are of "
                     "masked models, of echo with logprobs");
  }
  expect_unchanged_files();
  if (!request.answers_nothing.empty()) return answer_nothing(dialect, request, reply_to);
  if (request.is_infill()) request.echoes = !request.inserts;
  const auto completion =
      std::make_shared<Completion>(dialect, model_, request, reply_to.reply, reply_to.request_id, metrics_);
  Jobs jobs;
  if (request.is_infill()) {
    add_infills(request, *completion, jobs);
  } else {
    for (const Prompt& prompt : request.prompts)
      add_prompt(prompt, request, *completion, reply_to.request_id, jobs);
  }
  reply_to.reply->name_ignored(ignored_names(request));  // includes a lowered limit
  submit(std::move(jobs), reply_to);
  if (request.stream) completion->open();
}

void RequestHandler::answer_nothing(const Dialect& dialect, const GenerationRequest& request,
                                    const ReplyTarget& reply_to) const {
  const std::unique_ptr<ReplyFormat> format = dialect.make_format({model_, request, std::time(nullptr)});
  std::vector<AnswerChoice> nothing(std::max<size_t>(1, request.prompts.size()) *
                                    static_cast<size_t>(request.num_choices));
  std::vector<const AnswerChoice*> choices;
  for (AnswerChoice& each : nothing) {
    each.index = choices.size();
    each.finish_reason = request.answers_nothing;
    choices.push_back(&each);
  }
  metrics_.count_request(request.answers_nothing);
  if (!request.stream) {
    reply_to.reply->send({200, "application/json"}, dump_json(format->whole(choices, {})));
    return;
  }
  reply_to.reply->begin_stream(std::string(format->stream_type()));
  reply_to.reply->write(format->begin_stream({}));
  for (const AnswerChoice* const each : choices) {
    const bool is_last = each == choices.back();
    reply_to.reply->write(format->part({.choice = *each,
                                        .piece = {},
                                        .is_first = true,
                                        .usage = is_last ? std::optional(AnswerUsage()) : std::nullopt}));
  }
  reply_to.reply->write(format->end_stream(choices, {}));
  reply_to.reply->end();
}

/// The engine's request, without its prompt.
GenerateRequest RequestHandler::generate_request(const GenerationRequest& request,
                                                 const GenerationOptions& options, int32_t choice) const {
  GenerateRequest asked = request_of(opened(), options, request.uses_guide);
  asked.seed += static_cast<uint64_t>(choice);
  asked.constraint = request.constraint;
  asked.num_alternatives = request.num_alternatives;
  // Clients request one alternative to get the logprob of the token itself.
  if (asked.num_alternatives == 1 && !lists_alternatives(config(), *asked.strategy)) {
    asked.num_alternatives = 0;
  }
  return asked;
}

GenerationOptions RequestHandler::fitting_options(const Prompt& prompt, const std::vector<TokenId>& tokens,
                                                  GenerationRequest& request) const {
  if (!request.caps_length) return request.options;
  int64_t most = kMaxGenLength;
  if (request.num_alternatives > 0) {
    const auto choices = static_cast<int64_t>(request.prompts.size()) * request.num_choices;
    most = kMaxListedAlternatives / (choices * request.num_alternatives);
    most = std::max<int64_t>(1, most - config().block_length);  // the last block may exceed the limit
  }
  std::vector<LimitedOptions> ways = with_fitting_limit(opened(), request.options, request.uses_guide, prompt,
                                                        tokens, most, request.keys.contains("block_length"));
  const auto decoder_of = [&](const GenerationOptions& options) {
    GenerateRequest asked = generate_request(request, options, 0);
    asked.prompt = request.uses_guide ? prompt : Prompt(tokens);
    return opened().make_decoder(asked);
  };
  if (ways.size() > 1) {
    try {
      decoder_of(ways.front().options);
    } catch (const SettingError&) {  // for example, a growing canvas does not support alternatives
      ways.erase(ways.begin());
    }
  }
  LimitedOptions& fitting = ways.front();
  int32_t length = fitting.most.value_or(fitting.options.gen_length.value_or(1));
  while (length > 1 && !model_.session->scheduler().has_memory_for(*decoder_of(fitting.options))) {
    length /= 2;
    fitting.options.gen_length = length;
    fitting.most = length;
  }
  if (fitting.most) lower_limit(*fitting.most, request);
  return fitting.options;
}

std::shared_ptr<RequestListener> RequestHandler::with_audit(const GenerationRequest& request,
                                                            const GenerationOptions& asked_options,
                                                            const GenerateRequest& asked,
                                                            const std::vector<TokenId>& tokens,
                                                            std::string_view request_id,
                                                            std::shared_ptr<RequestListener> listener) const {
  if (audit_ == nullptr || !audit_->chooses(request_id, asked.seed)) return listener;
  try {
    const GenerationOptions options = audited_options(config(), asked_options, audit_->preset());
    GenerateRequest baseline = request_of(opened(), options, false);
    baseline.prompt = tokens;
    baseline.seed = asked.seed;
    baseline.constraint = request.constraint;
    return audit_->follow(model_.session, {std::move(baseline), request.stop, request.tools.has_value()},
                          std::move(listener));
  } catch (const InputError&) {  // the baseline does not support these settings
    audit_->count_dropped();
    return listener;
  }
}

void RequestHandler::add_prompt(const Prompt& prompt, GenerationRequest& request, Completion& completion,
                                std::string_view request_id, Jobs& jobs) const {
  if (!std::holds_alternative<std::vector<TokenId>>(prompt))
    tokenizer_for_texts(opened(), model_.name);  // throws if the model has no tokenizer
  const std::vector<TokenId> tokens =
      in_field(request.prompt_field, [&] { return opened().tokens_of(prompt); });
  if (request.uses_guide && opened().guide() == nullptr) {
    const auto asks = std::find_if(request.keys.begin(), request.keys.end(),
                                   [](const auto& key) { return key.first.starts_with("guide_"); });
    const std::string key = asks != request.keys.end() ? asks->second : "lacuna.guide";
    throw FieldError(key, key + ": this server was started without --guide");
  }
  const bool scores = request.echoes && request.wants_logprobs;
  const GenerationOptions options =
      request.scores_only ? request.options : fitting_options(prompt, tokens, request);
  if (request.num_candidates > 1 && !request.scores_only) {
    add_candidates(prompt, tokens, request, options, completion, jobs);
    return;
  }
  for (int32_t i = 0; i < request.num_choices; ++i) {
    Completion::Start start;
    if (request.echoes) start.echoed = tokens;
    if (i == 0) start.prompt_tokens = static_cast<int32_t>(tokens.size());
    if (request.scores_only) {
      completion.add_echo(std::move(start));
    } else {
      GenerateRequest asked = generate_request(request, options, i);
      asked.prompt = prompt;
      if (request.tools) start.tool_call_key = tool_call_key(asked.seed, tokens);
      auto decoder = opened().make_decoder(asked);
      check_alternatives(request, *decoder);
      auto listener = with_audit(request, options, asked, tokens, request_id,
                                 completion.add_choice(*decoder, std::move(start)));
      jobs.push_back({std::move(decoder), std::move(listener)});
    }
    if (scores) {
      auto likelihood = make_likelihood(request, tokens);
      jobs.push_back({std::move(likelihood), completion.add_likelihood()});
    }
  }
}

/// Adds the candidates of one choice, each with its own seed.
void RequestHandler::add_candidates(const Prompt& prompt, const std::vector<TokenId>& tokens,
                                    const GenerationRequest& request, const GenerationOptions& options,
                                    Completion& completion, Jobs& jobs) const {
  for (const bool given :
       {request.events, request.echoes && request.wants_logprobs, request.tools.has_value()}) {
    if (given)
      throw FieldError("best_of", "best_of has no effect with lacuna.events, tools, or echo with logprobs");
  }
  std::vector<Completion::Start> starts;
  std::vector<std::unique_ptr<Decoder>> decoders;
  for (int32_t i = 0; i < request.num_candidates; ++i) {
    GenerateRequest asked = generate_request(request, options, i);
    asked.prompt = prompt;
    decoders.push_back(opened().make_decoder(asked));
    check_alternatives(request, *decoders.back());
    Completion::Start start;
    if (request.echoes) start.echoed = tokens;
    start.prompt_tokens = static_cast<int32_t>(tokens.size());
    starts.push_back(std::move(start));
  }
  const auto listeners = completion.add_best_of(std::move(starts));
  for (size_t i = 0; i < decoders.size(); ++i) jobs.push_back({std::move(decoders[i]), listeners[i]});
}

/// Builds the decoder that scores a prompt. Throws InputError if the model or the prompt does not support it.
std::unique_ptr<LikelihoodDecoder> RequestHandler::make_likelihood(const GenerationRequest& request,
                                                                   const std::vector<TokenId>& tokens) const {
  const ModelConfig& config = model_.config();
  const bool is_causal = config.paradigm() == Paradigm::kCausal;
  if (!is_causal && !config.fills_canvas()) {
    throw InputError(
        "echo with logprobs needs a model that is autoregressive (Qwen) or masked (LLaDA, Dream); {} is "
        "neither",
        model_.name);
  }
  if (request.stream)
    throw FieldError("stream", "stream: likelihoods of a prompt come at once, not as a stream");
  if (tokens.empty()) throw FieldError("prompt", "the prompt is empty; likelihoods need at least one token");
  const bool is_long = static_cast<int64_t>(tokens.size()) > config.max_positions;
  const auto is_unknown = [&](TokenId token) { return token < 0 || token >= config.vocab_size; };
  if (is_long || std::any_of(tokens.begin(), tokens.end(), is_unknown)) {
    throw FieldError("prompt", fmt::format("the prompt has {} tokens; expected at most {}, each below {}",
                                           tokens.size(), config.max_positions, config.vocab_size));
  }
  if (is_causal) return std::make_unique<CausalLikelihood>(tokens);
  MaskedLikelihood::Options options;
  options.mask_id = config.mask_id;
  options.shifted_logits = config.shifted_logits;
  options.given = request.given_tokens.value_or(1);
  options.draws = request.likelihood_draws.value_or(0);
  options.seed = request.options.seed.value_or(0);
  if (static_cast<size_t>(options.given) >= tokens.size()) {
    throw FieldError("prompt", fmt::format("the prompt has {} tokens and {} are given; expected more",
                                           tokens.size(), options.given));
  }
  return std::make_unique<MaskedLikelihood>(options, tokens);
}

void RequestHandler::add_infills(GenerationRequest& request, Completion& completion, Jobs& jobs) const {
  if (request.uses_guide)
    throw FieldError("lacuna.guide", "lacuna.guide has no effect here: a guide reads whole prompts");
  if (request.num_candidates > 1)
    throw FieldError("best_of", "best_of has no effect here: n fills a text several times");
  GenerateRequest asked = generate_request(request, request.options, 0);
  const auto constraint = request.constraint ? opened().automaton_of(*request.constraint) : nullptr;
  const auto lay_out_canvas = [&] {
    return in_field(request.prompt_field, [&] {
      return infill_canvases(request.canvas, *asked.strategy, config(), opened().tokenizer(),
                             constraint.get());
    });
  };
  std::vector<InfillCanvas> all;
  try {
    all = lay_out_canvas();
  } catch (const InputError&) {  // a cursor's hole is too long for the model: open its length
    if (!request.fills_cursor || !request.caps_length || !open_cursor(request.canvas)) throw;
    all = lay_out_canvas();
    lower_limit(kOpenHoleMost, request);
  }
  if (request.inserts && request.events) {
    throw FieldError("lacuna.events",
                     "lacuna.events has no effect with a suffix; POST /v1/infill shows the whole canvas");
  }
  if (all.size() > 1 && request.events) {
    throw FieldError("lacuna.events",
                     fmt::format("lacuna.events needs holes of fixed lengths; {} combinations would be tried",
                                 all.size()));
  }
  if (all.size() * static_cast<size_t>(request.num_choices) > kMaxCandidates) {
    throw FieldError("n", fmt::format("n = {} with {} combinations of lengths makes more than {} canvases",
                                      request.num_choices, all.size(), kMaxCandidates));
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
      take_canvas(canvas, config(), asked);
      decoders.push_back(opened().make_decoder(asked));
      check_alternatives(request, *decoders.back());
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

}  // namespace lacuna
