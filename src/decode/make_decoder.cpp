#include "decode/make_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "constraint/feasible.h"
#include "constraint/hole_lengths.h"
#include "decode/alternatives.h"
#include "decode/constrained.h"
#include "decode/make_parts.h"
#include "model/families.h"

namespace lacuna {
namespace {

/// Maximum positions of the prompt and the answer together.
int64_t positions_of(const ModelConfig& config, const Strategy& strategy) {
  const auto* uniform = std::get_if<UniformStrategy>(&strategy);
  if (uniform == nullptr) return config.max_positions;
  return context_of(config, *uniform) - num_closing(config);
}

std::string why_no_infill(const ModelConfig& config) {
  if (config.mask_id >= 0 && config.fills_canvas()) return {};
  if (config.mask_id >= 0 && edits_blocks(config) && !config.end_ids.empty()) return {};
  return fmt::format(
      "infill needs LLaDA 2.2 or a model that fills any position of a canvas of masks, such as LLaDA, Dream, "
      "CoDA, RND1, Open-dCoder or Tiny-A2D's MDLM; this is of the family {}",
      family_entry(config.family).name);
}

void check_infill(const ModelConfig& config, const DecodeRequest& request, Problems& problems) {
  const std::vector<TokenId>& answer = request.context.answer;
  problems.refuse(request.gen_length.has_value(), "gen_length", "an infill is as long as its canvas");
  if (const std::string reason = why_no_infill(config); !reason.empty()) {
    problems.add({"answer", "", "", reason});
  }
  problems.refuse(request.context.constraint != nullptr && edits_blocks(config), "constraint",
                  "the model fills holes by insertions and deletions, which no constraint follows");
  problems.refuse(request.context.guide.has_value(), "guide",
                  "a guide confirms what is drafted from left to right, not an infill");
  const auto is_unknown = [&](TokenId token) { return token < 0 || token >= config.vocab_size; };
  const auto unknown = std::find_if(answer.begin(), answer.end(), is_unknown);
  if (unknown == answer.end()) return;
  problems.add(
      {"answer", fmt::to_string(*unknown), fmt::format("0 to {}", config.vocab_size - 1),
       fmt::format("canvas token {} is outside the model's vocabulary of {}", *unknown, config.vocab_size)});
}

/// Whether a pass computes several states of a block; the rules of its samples are those of the first.
bool drafts_states(const Strategy& strategy) {
  const auto* blocks = std::get_if<BlockStrategy>(&strategy);
  return blocks != nullptr && blocks->drafts;
}

/// Why alternatives of committed tokens (decode/alternatives.h) cannot be listed; empty: they can.
std::string_view why_no_alternatives(const ModelConfig& config, const Strategy& strategy) {
  if (std::holds_alternative<SlotStrategy>(strategy)) return "ReFusion writes slots of tokens ahead";
  if (drafts_states(strategy)) return "a pass may write the tokens of several steps (`drafts`)";
  if (uses_guide(strategy)) return "the guide decides what is committed";
  if (config.delete_id >= 0) return "the model inserts and deletes tokens";
  if (config.causal_context || config.mask_drafts > 0)
    return "the model reads what it wrote from left to right, and judges it";
  if (const auto* masked = std::get_if<MaskedStrategy>(&strategy)) {
    if (masked->growth) return "the canvas changes its length (`grow`)";
  }
  return "";
}

/// Why answers by this strategy cannot be constrained; empty: they can.
std::string_view why_no_constraint(const ModelConfig& config, const Strategy& strategy) {
  if (config.knows_noise_levels()) return "each step samples every token from its posterior";
  constexpr std::string_view kContinues = "the answer would continue after its end";
  if (const auto* slots = std::get_if<SlotStrategy>(&strategy)) {
    return slots->rules == RefusionRules::kLacuna
               ? ""
               : "only `refusion` lacuna checks every token against those that were written before it";
  }
  const auto* masked = std::get_if<MaskedStrategy>(&strategy);
  const auto* rule = masked != nullptr ? std::get_if<UnmaskRule>(&masked->commit) : nullptr;
  if (rule != nullptr && rule->policy.traits().gives_credit)
    return "`unmask` credit writes tokens that earlier passes have sampled";
  const auto* blocks = std::get_if<BlockStrategy>(&strategy);
  if (blocks != nullptr && std::holds_alternative<SoftTokens>(blocks->unmask.policy.count))
    return "`unmask` soft changes tokens after they were checked";
  if (blocks != nullptr && blocks->focus) return "`focus` leaves out masks that the constraint asks about";
  if (drafts_states(strategy)) return "`drafts` samples from states that the constraint has not seen";
  if (blocks != nullptr && blocks->guided) return "the guide's drafts would not follow the constraint";
  if (const auto* uniform = std::get_if<UniformStrategy>(&strategy)) {
    if (uniform->self_correct) return "`self_correct` would change the finished answer";
    return uniform->ignore_eos || uniform->min_length > 0 ? kContinues : "";
  }
  const bool ignores_eos = std::visit(
      [](const auto& chosen) {
        if constexpr (requires { chosen.ignore_eos; }) return chosen.ignore_eos;
        return false;
      },
      strategy);
  return ignores_eos ? kContinues : "";
}

/// The automaton's state after an infill's text before its first hole.
StateId state_before_answer(const TokenAutomaton& automaton, const DecodeRequest& request) {
  const auto prefix = static_cast<size_t>(request.context.constrained_prefix);
  expects(prefix <= request.prompt.size(), "the text before an infill's first hole is its prompt");
  return state_after(automaton, std::span(request.prompt).last(prefix));
}

/// Whether some way to fill an infill's holes gives a text that the constraint allows.
bool can_be_filled(const TokenAutomaton& automaton, const DecodeRequest& request, int64_t mask_id) {
  const StateId state = state_before_answer(automaton, request);
  if (state == kNoState) return false;
  const StateSet start = only(automaton, state);
  return is_completable(automaton, {.tokens = request.context.answer,
                                    .mask = static_cast<TokenId>(mask_id),
                                    .start = &start,
                                    .only_text = true});
}

/// Initial masks of a constrained answer whose canvas changes its length: the growth's number, or the nearest
/// higher length that an answer can have, else a lower one.
int32_t constrained_start(const TokenAutomaton& automaton, const CanvasGrowth& growth, int32_t most) {
  const int32_t least = automaton.min_tokens(TokenAutomaton::start());
  const int32_t start = std::min(std::visit([](const auto& each) { return each.start; }, growth), most);
  // End tokens fill the rest of a canvas after the answer.
  if (std::holds_alternative<EndMassGrowth>(growth)) return std::max(start, least);
  for (int32_t length = std::max(start, least);; --length) {
    const std::vector<TokenId> masks(static_cast<size_t>(length), -1);
    const StretchableHole hole{0, masks.size(), length == start ? static_cast<size_t>(most) : masks.size()};
    const ConstrainedCanvas canvas{.tokens = masks, .only_text = true};
    if (const auto fitting = fitting_lengths(automaton, canvas, std::span(&hole, 1)))
      return static_cast<int32_t>(fitting->front());
  }
}

void check_constraint(const ModelConfig& config, const Strategy& strategy, const Asked& asked,
                      Problems& problems) {
  const DecoderContext& context = asked.request.context;
  if (!context.constraint) return;
  if (const std::string_view reason = why_no_constraint(config, strategy); !reason.empty()) {
    problems.add({"constraint", "", "", fmt::format("the answer cannot be constrained: {}", reason)});
    return;
  }
  const auto* masked = std::get_if<MaskedStrategy>(&strategy);
  const bool writes_ahead = std::holds_alternative<CausalStrategy>(strategy) ||
                            (masked != nullptr && !masked->growth && !context.guide);
  problems.refuse(context.encode_literal && !writes_ahead, "literals", "the method writes no tokens ahead");
  const TokenAutomaton& automaton = *context.constraint;
  // A witness takes up to 14 bytes for each state and position.
  constexpr int64_t kMaxStatePositions = int64_t{1} << 25;
  if (int64_t{automaton.num_states()} * asked.gen_length > kMaxStatePositions) {
    const int64_t most = kMaxStatePositions / automaton.num_states();
    problems.add(
        {"gen_length", fmt::to_string(asked.gen_length), fmt::format("{} at most", most),
         fmt::format("`gen_length` {} is too long for a constraint of {} states; expected {} at most",
                     asked.gen_length, automaton.num_states(), most)});
    return;
  }
  if (context.answer.empty()) {
    const int least = automaton.min_tokens(TokenAutomaton::start());
    if (asked.gen_length >= least) return;
    problems.add({"gen_length", fmt::to_string(asked.gen_length), fmt::format("{} or more", least),
                  fmt::format("`gen_length` {} is too short: the shortest answer that the constraint allows "
                              "has {} tokens",
                              asked.gen_length, least)});
  } else if (!can_be_filled(automaton, asked.request, config.mask_id)) {
    problems.add({"answer", "", "", "no way to fill the holes gives a text that the constraint allows"});
  }
}

void check_adjustments(const ModelConfig& config, const Strategy& strategy, const DecoderContext& context,
                       Problems& problems) {
  const LogitAdjustments& asked = context.adjustments;
  problems.within("min_p", asked.min_p, 0.0, 1.0);
  problems.within("presence_penalty", asked.presence_penalty, -kMaxPenalty, kMaxPenalty);
  problems.within("frequency_penalty", asked.frequency_penalty, -kMaxPenalty, kMaxPenalty);
  problems.within("repeat_penalty", asked.repeat_penalty, kMinRepeatPenalty, kMaxRepeatPenalty);
  for (const auto& [token, bias] : asked.biases) {
    const bool is_token = token >= 0 && token < config.vocab_size;
    problems.expect(is_token, "logit_bias", fmt::to_string(token),
                    fmt::format("tokens from 0 to {}", config.vocab_size - 1));
    problems.expect(std::abs(bias) <= kMaxBias, "logit_bias", fmt::to_string(bias),
                    fmt::format("numbers from {} to {}", -kMaxBias, kMaxBias));
  }
  const std::string_view reason = context.guide ? "it would not hold for the guide"
                                                : "a pass may write the tokens of several steps (`drafts`)";
  const LogitAdjustments none;
  if (!context.guide && !drafts_states(strategy)) return;
  problems.refuse(asked.presence_penalty != none.presence_penalty, "presence_penalty", reason);
  problems.refuse(asked.frequency_penalty != none.frequency_penalty, "frequency_penalty", reason);
  problems.refuse(asked.repeat_penalty != none.repeat_penalty, "repeat_penalty", reason);
  if (!context.guide) return;
  problems.refuse(asked.min_p != none.min_p, "min_p", reason);
  problems.refuse(!asked.biases.empty(), "logit_bias", reason);
}

/// Checks the fields of the request that do not depend on the strategy.
void check_request(const ModelConfig& config, const Strategy& strategy, const Asked& asked,
                   Problems& problems) {
  const DecodeRequest& request = asked.request;
  const DecoderContext& context = request.context;
  const bool is_infill = !context.answer.empty();
  if (!is_infill) problems.within("gen_length", request.gen_length, 1, kMaxGenLength);
  check_prompt(config, request.prompt, asked.gen_length, "the model", problems);
  if (is_infill) check_infill(config, request, problems);
  check_constraint(config, strategy, asked, problems);
  check_adjustments(config, strategy, context, problems);
  const std::string_view no_alternatives = why_no_alternatives(config, strategy);
  problems.refuse(context.num_alternatives > 0 && !no_alternatives.empty(), "alternatives", no_alternatives);
  problems.refuse(context.find_stop && !config.causal, "stop", "a diffusion model fills its whole canvas");
  problems.refuse(!context.holes.empty() && !changes_lengths(strategy, config), "holes",
                  "the canvas keeps its length");
  if (uses_guide(strategy) && !context.guide)
    problems.add({"guide", "", "a second model", "`guide` is missing, which the strategy needs"});
  problems.refuse(context.guide && !uses_guide(strategy), "guide", "the strategy does not use a guide");
}

/// Positions of an infill after its prompt, with every hole at its maximum length.
int64_t most_infill_length(const DecoderContext& context) {
  auto length = static_cast<int64_t>(context.answer.size());
  for (const GrowingHole& hole : context.holes) length += hole.most - hole.positions.size();
  return length;
}

/// Determines the length of the answer.
Asked with_length(const ModelConfig& config, const Strategy& strategy, DecodeRequest request) {
  const DecoderContext& context = request.context;
  const auto size = static_cast<int64_t>(request.prompt.size());
  int32_t gen_length = 0;
  const int64_t prompt_length = begins_with_bos(config, request.prompt) ? size : size + 1;
  if (!context.answer.empty()) {
    gen_length = static_cast<int32_t>(std::min<int64_t>(most_infill_length(context), kMaxGenLength));
  } else if (request.gen_length) {
    gen_length = *request.gen_length;
  } else if (request.ends_by_itself) {
    gen_length = most_gen_length(config, strategy, prompt_length);
  } else {
    gen_length =
        default_gen_length(config, strategy, prompt_length, context.guide ? &*context.guide : nullptr);
  }
  return {std::move(request), gen_length};
}

Problems find_problems(const Strategy& strategy, const ModelConfig& config, const Asked* asked) {
  Problems problems;
  const Paradigm paradigm = config.paradigm();
  problems.expect(paradigm_of(strategy) == paradigm, "paradigm", std::string(name_of(paradigm_of(strategy))),
                  std::string(name_of(paradigm)));
  if (!problems.empty()) return problems;
  if (asked != nullptr) check_request(config, strategy, *asked, problems);
  if (!problems.empty()) return problems;
  const auto check_range = [&](std::string_view field, const auto& value, const auto&... range) {
    if constexpr (sizeof...(range) > 0) problems.within(field, value, range...);
  };
  std::visit([&](const auto& chosen) { visit_fields(chosen, check_range); }, strategy);
  const std::vector<Problem> out_of_range = problems.found();
  Problems others;
  std::visit([&](const auto& chosen) { check(chosen, config, asked, others); }, strategy);
  for (const Problem& problem : others.found()) {
    const auto is_same = [&](const Problem& each) { return each.field == problem.field; };
    if (std::none_of(out_of_range.begin(), out_of_range.end(), is_same)) problems.add(problem);
  }
  return problems;
}

}  // namespace

SamplingRule sampling_rule(const TokenSampling& sampling) {
  SamplingRule rule;
  rule.temperature = static_cast<float>(sampling.temperature);
  rule.top_p = static_cast<float>(sampling.top_p);
  rule.top_k = sampling.top_k;
  return rule;
}

void check_sampling(const TokenSampling& sampling, const ModelConfig& config, bool measures_sampled,
                    Problems& problems) {
  problems.within("top_k", sampling.top_k, 0, static_cast<int32_t>(config.vocab_size));
  if (sampling.temperature > 0 || measures_sampled) return;
  constexpr std::string_view kReason = "at `temperature` 0 the best token is taken";
  problems.refuse(sampling.top_p < 1, "top_p", kReason);
  problems.refuse(sampling.top_k > 0, "top_k", kReason);
}

void check_length(int64_t prompt_length, int32_t gen_length, int64_t positions, std::string_view who,
                  Problems& problems) {
  const int64_t length = prompt_length + gen_length;
  if (length <= positions) return;
  const int64_t room = positions - prompt_length;
  const std::string expected =
      room > 0 ? fmt::format("expected `gen_length` {} at most", room) : "expected a shorter prompt";
  problems.add({room > 0 ? "gen_length" : "prompt", fmt::to_string(room > 0 ? gen_length : prompt_length),
                room > 0 ? fmt::format("1 to {}", room) : "a shorter prompt",
                fmt::format("prompt ({} tokens) and `gen_length` {} make {} positions; {} has {}: {}",
                            prompt_length, gen_length, length, who, positions, expected)});
}

void check_prompt(const ModelConfig& config, std::span<const TokenId> prompt, int32_t gen_length,
                  std::string_view who, Problems& problems) {
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] >= 0 && prompt[i] < config.vocab_size) continue;
    problems.add({"prompt", fmt::to_string(prompt[i]), fmt::format("0 to {}", config.vocab_size - 1),
                  fmt::format("prompt token {} at index {} is outside {}'s vocabulary of {}", prompt[i], i,
                              who, config.vocab_size)});
    break;
  }
  check_length(static_cast<int64_t>(prompt.size()), gen_length, config.max_positions, who, problems);
}

void check_whole_prompt(const ModelConfig& config, std::span<const TokenId> prompt, std::string_view reader,
                        Problems& problems) {
  if (std::find(prompt.begin(), prompt.end(), config.mask_id) == prompt.end()) return;
  problems.add({"prompt", fmt::to_string(config.mask_id), "no mask token",
                fmt::format("the prompt holds the mask token {}; {} reads whole prompts only", config.mask_id,
                            reader)});
}

void check_unmask(const UnmaskRule& rule, Problems& problems) {
  const auto expect = [&](bool holds, double value, const char* expected) {
    problems.expect(holds, "unmask", fmt::to_string(value), expected);
  };
  const CountRule& count = rule.policy.count;
  if (const auto* custom = std::get_if<CustomRule>(&count)) {
    problems.expect(custom->choose != nullptr && *custom->choose, "unmask", "empty", "a function");
  }
  const auto is_share = [](double value) { return value > 0 && value <= 1; };
  const auto is_bound = [](double value) { return value > 0 && value <= 1e6; };
  if (const auto* threshold = std::get_if<Threshold>(&count)) {
    expect(is_share(threshold->tau), threshold->tau, "a threshold in (0, 1]");
  } else if (const auto* dynamic = std::get_if<Dynamic>(&count)) {
    expect(is_share(dynamic->tau), dynamic->tau, "a threshold in (0, 1]");
  } else if (const auto* factor = std::get_if<Factor>(&count)) {
    expect(is_bound(factor->f), factor->f, "a factor in (0, 1e6]");
  } else if (const auto* bounded = std::get_if<EntropyBounded>(&count)) {
    expect(is_bound(bounded->bound), bounded->bound, "a bound in (0, 1e6]");
  } else if (const auto* schedule = std::get_if<TimeSchedule>(&count)) {
    problems.within("eps", double{schedule->eps}, double{1e-9F}, 1.0);
  } else if (const auto* each = std::get_if<AncestralSampling>(&count)) {
    problems.within("eps", double{each->eps}, double{1e-9F}, 1.0);
  }
  const auto check_numbers = [&]<typename Rule>(const Rule& each) {
    if constexpr (NumberedRule<Rule>) {
      std::string_view first = Rule::kName;
      Rule::visit_numbers(each, [&](std::string_view name, const auto& number, auto least, auto most) {
        problems.within_part("unmask", first.empty() ? name : first, number, least, most);
        first = {};
      });
    }
  };
  std::visit(check_numbers, count);
  problems.within("alg_temp", rule.policy.order_temperature, 0.0F, 1e3F);
}

void check_lock(const SureLock& lock, Problems& problems) {
  const auto within = [&](std::string_view part, auto value, auto least, auto most) {
    problems.within_part("lock", part, value, least, most);
  };
  within("eps", lock.eps, 0.0, 1e6);
  if (lock.delta) within("delta", *lock.delta, 1e-6, 1e6);
  within("gate", lock.gate, 0.0, 100.0);
  within("min-age", lock.min_age, 0, kMaxGenLength);
  within("unlock-every", lock.unlock_every, 0, kMaxGenLength);
  within("budget", lock.probes, 1, kMaxGenLength);
  if (lock.unlock_eps) within("unlock-eps", *lock.unlock_eps, 0.0, 1e6);
  within("interval", lock.min_locked_passes, 0, kMaxGenLength);
  within("cooldown", lock.cooldown, 0, kMaxGenLength);
  within("strictness", lock.strictness, 0.0, 1.0);
}

int64_t room_for_answer(const ModelConfig& config, const Strategy& strategy, int64_t prompt_length,
                        const GuideContext* guide) {
  const int64_t positions = positions_of(config, strategy);
  int64_t room = positions - prompt_length;
  if (guide != nullptr) {
    room = std::min(room, guide->config->max_positions - static_cast<int64_t>(guide->prompt.size()));
  }
  if (room >= 1) return room;
  throw SettingError(
      {"prompt", fmt::to_string(prompt_length), "a shorter prompt",
       fmt::format("the prompt has {} tokens and leaves no position for an answer; {} has {}", prompt_length,
                   guide == nullptr ? "the model" : "the model, or its guide,", positions)});
}

int32_t most_gen_length(const ModelConfig& config, const Strategy& strategy, int64_t prompt_length) {
  const int64_t room =
      std::min<int64_t>(room_for_answer(config, strategy, prompt_length, nullptr), kMaxGenLength);
  const bool is_masked = std::holds_alternative<MaskedStrategy>(strategy);
  return static_cast<int32_t>(is_masked ? std::min<int64_t>(room, kMaxGrownLength) : room);
}

int32_t default_gen_length(const ModelConfig& config, const Strategy& strategy, int64_t prompt_length,
                           const GuideContext* guide) {
  const int64_t room = room_for_answer(config, strategy, prompt_length, guide);
  int64_t wanted = kDefaultGenLength;
  if (config.max_length > prompt_length) wanted = config.max_length - prompt_length;
  if (config.max_new_tokens > 0) wanted = config.max_new_tokens;
  const int64_t most = std::min<int64_t>(room, kMaxGenLength);
  const int64_t length = std::min(wanted, most);
  const auto* masked = std::get_if<MaskedStrategy>(&strategy);
  const int64_t block = masked != nullptr && !masked->growth ? masked->block_length.value_or(1) : 1;
  if (block < 1 || block > most) return static_cast<int32_t>(length);  // block_length is refused later
  return static_cast<int32_t>(std::max(length / block, int64_t{1}) * block);
}

std::vector<Problem> validate(const Strategy& strategy, const ModelConfig& config) {
  return find_problems(strategy, config, nullptr).found();
}

std::vector<Problem> validate(const Strategy& strategy, const ModelConfig& config,
                              const DecodeRequest& request) {
  try {
    const Asked asked = with_length(config, strategy, request);
    return find_problems(strategy, config, &asked).found();
  } catch (const SettingError& error) {
    return {error.problem()};
  }
}

namespace {

/// Builds the constraint of the request; the growth of `strategy` begins with a length that an
/// answer can have.
AnswerConstraint answer_constraint(const Asked& asked, Strategy& strategy) {
  const DecoderContext& context = asked.request.context;
  AnswerConstraint constraint{
      .automaton = context.constraint, .gen_length = asked.gen_length, .seed = asked.request.seed};
  auto* masked = std::get_if<MaskedStrategy>(&strategy);
  constraint.writes_ends_last = masked != nullptr || std::holds_alternative<BlockStrategy>(strategy) ||
                                std::holds_alternative<SlotStrategy>(strategy);
  constraint.encode_literal = context.encode_literal;
  const bool is_infill = !context.answer.empty();
  if (is_infill) constraint.start = state_before_answer(*context.constraint, asked.request);
  constraint.only_text = is_infill;
  if (masked == nullptr || !masked->growth) return constraint;
  constraint.changes_length = true;
  // DreamOn removes end tokens from the canvas.
  constraint.only_text = is_infill || std::holds_alternative<TokenGrowth>(*masked->growth);
  if (is_infill) return constraint;
  const int32_t start = constrained_start(*context.constraint, *masked->growth, asked.gen_length);
  std::visit([&](auto& growth) { growth.start = start; }, *masked->growth);
  return constraint;
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const ModelConfig& config, const Strategy& chosen,
                                      DecodeRequest request) {
  Strategy strategy = chosen;
  Asked asked = with_length(config, strategy, std::move(request));
  find_problems(strategy, config, &asked).throw_first();
  AnswerConstraint constraint;
  if (asked.request.context.constraint) constraint = answer_constraint(asked, strategy);
  const int32_t num_alternatives = asked.request.context.num_alternatives;
  LogitAdjustments adjustments = std::move(asked.request.context.adjustments);
  std::unique_ptr<Decoder> decoder =
      std::visit([&](const auto& suited) { return make(suited, config, std::move(asked)); }, strategy);
  if (!adjustments.empty()) {
    std::vector<TokenId> exempt = config.end_ids;
    exempt.push_back(static_cast<TokenId>(config.mask_id));
    decoder =
        std::make_unique<AdjustedDecoder>(std::move(decoder), std::move(adjustments), std::move(exempt));
  }
  if (constraint.automaton) {
    decoder = std::make_unique<ConstrainedDecoder>(std::move(decoder), std::move(constraint));
  }
  if (num_alternatives == 0) return decoder;
  return std::make_unique<AlternativesDecoder>(std::move(decoder), num_alternatives);
}

bool uses_guide(const Strategy& strategy) {
  const auto* masked = std::get_if<MaskedStrategy>(&strategy);
  const auto* blocks = std::get_if<BlockStrategy>(&strategy);
  return (masked != nullptr && std::holds_alternative<GuideRule>(masked->commit)) ||
         (blocks != nullptr && blocks->guided);
}

bool lists_alternatives(const ModelConfig& config, const Strategy& strategy) {
  return why_no_alternatives(config, strategy).empty();
}

bool can_infill(const ModelConfig& config) {
  return why_no_infill(config).empty();
}

bool changes_lengths(const Strategy& strategy, const ModelConfig& config) {
  const auto* masked = std::get_if<MaskedStrategy>(&strategy);
  return masked != nullptr ? masked->growth.has_value() : edits_blocks(config);
}

void expect_infill(const ModelConfig& config) {
  if (const std::string reason = why_no_infill(config); !reason.empty()) throw InputError(reason);
}

std::shared_ptr<const TokenAlignment> shared_vocabulary(const ModelConfig& config, const ModelConfig& guide) {
  return std::make_shared<SharedVocabulary>(
      SharedVocabulary::Side{config.vocab_size, config.eos_id, config.end_ids},
      SharedVocabulary::Side{guide.vocab_size, guide.eos_id, guide.end_ids});
}

}  // namespace lacuna
