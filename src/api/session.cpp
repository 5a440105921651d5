// The C++ interface, on top of the engine's session.
#include "lacuna/session.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/running.h"
#include "api/session_access.h"
#include "api/tools.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/inference_session.h"
#include "engine/load_options.h"
#include "engine/logits.h"
#include "engine/preset_use.h"
#include "options/assign.h"
#include "options/choose.h"
#include "options/names.h"
#include "wire/decision_json.h"

namespace lacuna {
namespace {

/// Runs `action`; rethrows its errors as lacuna::Error, with the option names of the interface.
template <typename Action>
auto translated(Action&& action) {
  try {
    return in_plain_names(action);
  } catch (const SchedulingError& error) {
    throw InputError("{}", error.what());
  }
}

/// Forwards the events of an infill, which runs one request per candidate length of its holes.
class InfillListener final : public SessionListener {
 public:
  explicit InfillListener(const PassCallback& callback) : callback_(callback) {}
  bool stepped(size_t /*index*/, const StepEvent& event) override {
    return !callback_ || call(callback_, event);
  }

 private:
  const PassCallback& callback_;
};

/// Replaces the unmask rule of a strategy; other strategies throw.
void use_rule(Strategy& strategy, UnmaskPolicy policy) {
  UnmaskRule rule{std::move(policy), ConfidenceMeasure::kProbability};
  if (auto* masked = std::get_if<MaskedStrategy>(&strategy)) {
    masked->commit = std::move(rule);
  } else if (auto* blocks = std::get_if<BlockStrategy>(&strategy)) {
    blocks->unmask = std::move(rule);
  } else {
    throw InputError("unmask is given, and the model's paradigm is {}; expected masked or blocks",
                     name_of(paradigm_of(strategy)));
  }
}

Prompt prompt_of(const Request& request) {
  const int given = (request.prompt.empty() ? 0 : 1) + (request.messages.empty() ? 0 : 1) +
                    (request.tokens.empty() ? 0 : 1);
  if (given != 1) throw InputError("{} of prompt, messages and tokens are given; expected one", given);
  if (!request.tokens.empty()) return request.tokens;
  if (!request.messages.empty()) return Conversation(request.messages);
  return Conversation(std::vector<Message>{{"user", request.prompt}});
}

ModelInfo info_of(const OpenedModel& opened, const BackendModel& model) {
  const ModelConfig& config = opened.config();
  ModelInfo info;
  info.family = config.family;
  info.architecture = config.architecture;
  info.paradigm = name_of(config.paradigm());
  info.vocab_size = config.vocab_size;
  info.context = config.max_positions;
  info.num_layers = config.num_layers;
  info.hidden_size = config.hidden_dim;
  info.weight_bytes = model.weight_bytes();
  info.mask_token = config.mask_id;
  info.end_tokens = config.end_ids;
  info.has_tokenizer = opened.tokenizer() != nullptr;
  info.can_infill = can_infill(config);
  return info;
}

SchedulerLimits limits_of(const LoadOptions& options) {
  SchedulerLimits limits;
  limits.max_running = options.max_running;
  limits.max_queue = std::numeric_limits<int32_t>::max();
  limits.memory = options.memory;
  limits.prefix_memory = std::min(limits.prefix_memory, options.memory / 4);
  return limits;
}

}  // namespace

class Session::Impl {
 public:
  ///   formats  formats with which the session was loaded
  Impl(std::unique_ptr<InferenceSession> session, const WeightFormats& formats)
      : session_(std::move(session)),
        info_(info_of(session_->opened(), *session_->parts().model)),
        formats_(formats) {}

  const ModelInfo& info() const { return info_; }
  InferenceSession& engine() const { return *session_; }
  const OpenedModel& opened() const { return session_->opened(); }

  GenerateRequest engine_request(const Request& request, const std::shared_ptr<GuardedUnmask>& unmask) const {
    GenerationOptions options = resolve_options(opened(), &formats_, generation_options(request.options));
    options.stop.insert(options.stop.end(), request.stop.begin(), request.stop.end());
    if (unmask && options.unmask)
      throw InputError("unmask is given as an option and as a function; expected one");
    GenerateRequest made = request_of(opened(), options, opened().guide() != nullptr);
    made.prompt = prompt_of(request);
    if (const std::optional<Tools> tools = tools_of(request)) {
      if (made.constraint && requires_call(*tools))
        throw InputError("{} has no effect here: the tool choice requires a call",
                         setting_of(*made.constraint));
      made.constraint = tool_constraint(*tools, made.constraint);
      if (auto* conversation = std::get_if<Conversation>(&made.prompt))
        conversation->tools = definitions_of(*tools);
    }
    if (unmask) {
      const auto function = std::make_shared<const UnmaskFunction>(
          [unmask](const Candidates& candidates) { return unmask->choose(candidates); });
      use_rule(*made.strategy, {CustomRule{function}});
    }
    return made;
  }

  Logits logits(std::span<const TokenId> tokens) const;

 private:
  std::unique_ptr<InferenceSession> session_;
  ModelInfo info_;
  WeightFormats formats_;
};

Logits Session::Impl::logits(std::span<const TokenId> tokens) const {
  const ModelConfig& config = opened().config();
  if (tokens.empty() || static_cast<int64_t>(tokens.size()) > config.max_positions) {
    throw InputError("tokens has {} elements; expected 1 to {}", tokens.size(), config.max_positions);
  }
  for (const TokenId token : tokens) {
    if (token >= 0 && token < config.vocab_size) continue;
    throw InputError("tokens has {}; expected ids from 0 to {}", token, config.vocab_size - 1);
  }
  const StepPlan plan = logits_plan(config, tokens);
  Logits result;
  result.rows = plan.num_rows();
  result.vocab_size = config.vocab_size;
  result.values.resize(tokens.size() * static_cast<size_t>(config.vocab_size));
  compute_logits(*session_->parts().model, plan, {result.values.data(), result.rows, result.vocab_size});
  return result;
}

class Generation::Impl {
 public:
  ///   session  owns the scheduler
  Impl(std::shared_ptr<const void> session, Scheduler& scheduler, std::shared_ptr<Running> running,
       std::vector<uint64_t> ids)
      : session_(std::move(session)),
        scheduler_(scheduler),
        running_(std::move(running)),
        ids_(std::move(ids)) {}
  ~Impl() { scheduler_.cancel(ids_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Running& running() { return *running_; }

 private:
  std::shared_ptr<const void> session_;
  Scheduler& scheduler_;
  std::shared_ptr<Running> running_;
  std::vector<uint64_t> ids_;
};

Generation::Generation(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Generation::~Generation() = default;
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&&) noexcept = default;

Answer Generation::wait() {
  return impl_->running().wait();
}

void Generation::cancel() {
  impl_->running().cancel();
}

Session::Session(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Session Session::load(std::string_view model, const LoadOptions& options) {
  return translated([&] {
    auto opened = open_model(std::string(model), options);
    const WeightFormats formats = session_options(*opened, options).formats;
    return Session(
        std::make_shared<Impl>(load_session(std::move(opened), options, limits_of(options)), formats));
  });
}

std::shared_ptr<const BackendModel> SessionAccess::model(const Session& session) {
  return session.impl_->engine().parts().model;
}

const ModelInfo& Session::info() const {
  return impl_->info();
}

Generation Session::start(const Request& request, PassCallback callback) const {
  return translated([&] {
    const auto unmask = request.unmask ? std::make_shared<GuardedUnmask>(request.unmask) : nullptr;
    const GenerateRequest made = impl_->engine_request(request, unmask);
    const InferenceSession& engine = impl_->engine();
    auto running = std::make_shared<Running>(engine.shared_opened(), made, std::move(callback), unmask);
    std::vector<Scheduler::Job> jobs;
    jobs.push_back({impl_->opened().make_decoder(made), running});
    Scheduler& scheduler = impl_->engine().scheduler();
    std::vector<uint64_t> ids = scheduler.submit(std::move(jobs));
    return Generation(
        std::make_unique<Generation::Impl>(impl_, scheduler, std::move(running), std::move(ids)));
  });
}

Answer Session::generate(const Request& request, const PassCallback& callback) const {
  return start(request, callback).wait();
}

Answer Session::infill(std::string_view text, const Options& options, const PassCallback& callback) const {
  return translated([&] {
    const GenerationOptions chosen = generation_options(options);
    if (chosen.gen_length || chosen.gen_length.is_auto)
      throw InputError("gen_length has no effect here: the holes say how long they are");
    InfillRequest request;
    request.canvas = parse_marked_text(text);
    request.strategy = choose_strategy(impl_->opened().config(), chosen);
    request.seed = chosen.seed.value_or(0);
    request.constraint = choose_constraint(chosen);
    request.gives_literals = choose_literals(chosen);
    request.adjustments = choose_adjustments(chosen);
    InfillListener listener(callback);
    InfillResult filled = impl_->engine().infill(request, &listener);
    GenerationResult result;
    result.text = std::move(filled.text);
    result.tokens = std::move(filled.canvas);
    result.answer_tokens = static_cast<int32_t>(result.tokens.size());
    result.seed = request.seed;
    result.statistics = filled.statistics;
    return answer_of(std::move(result));
  });
}

std::string Session::decide(std::string_view request) const {
  return translated([&] {
    const DecisionBody body = read_decision_body(parse_ordered_json(request, "the request"), "the request");
    if (!body.has_text) throw InputError("the request has no text; expected input or state");
    const DecideResult result = lacuna::decide(impl_->engine(), body.request);
    return dump_json(decision_reply(body, result, impl_->opened().name()));
  });
}

std::vector<TokenId> Session::tokenize(std::string_view text) const {
  return impl_->opened().encode(text);
}

std::string Session::detokenize(std::span<const TokenId> tokens) const {
  const Tokenizer* tokenizer = impl_->opened().tokenizer();
  if (tokenizer == nullptr) throw InputError("{} has no tokenizer", impl_->opened().name());
  return tokenizer->decode(tokens);
}

std::vector<TokenId> Session::render(std::span<const Message> messages) const {
  return impl_->opened().tokens_of(Conversation(messages));
}

Logits Session::logits(std::span<const TokenId> tokens) const {
  return impl_->logits(tokens);
}

}  // namespace lacuna
