#include "options/choose.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "decode/pipelined_diffusion.h"
#include "model/families.h"
#include "options/names.h"
#include "options/parse_policies.h"
#include "options/presets.h"

namespace lacuna {
namespace {

/// Whether the second of two names was given; no value means the first.
bool is_second(std::string_view field, const std::optional<std::string>& value, std::string_view first,
               std::string_view second) {
  if (!value || *value == first) return false;
  if (*value == second) return true;
  refuse_setting(field, *value, "`{}` is '{}'; expected {} or {}", field, *value, first, second);
}

/// Refuses a setting that the method would silently drop.
void refuse(bool given, std::string_view field, std::string_view reason) {
  if (given) refuse_setting(field, "", "`{}` has no effect here: {}", field, reason);
}

/// Refuses the first of these settings that was given.
void refuse_each(const GenerationOptions& options, std::initializer_list<std::string_view> names,
                 std::string_view reason) {
  for (const std::string_view name : names) refuse(is_given(options, name), with_underscores(name), reason);
}

/// Why a model of a paradigm does not take a setting that belongs to others.
std::string_view why_not(Paradigm paradigm, const Setting& setting) {
  struct Reason {
    Paradigm paradigm;
    std::string_view setting, text;
  };
  constexpr Reason kReasons[] = {
      {Paradigm::kMasked, "ignore-eos", "a diffusion model fills its whole canvas"},
      {Paradigm::kSlots, "ignore-eos", "ReFusion was not trained on what follows an end token"},
      {Paradigm::kBlocks, "suppress-mask", "block diffusion never draws the mask token"},
      {Paradigm::kBlocks, "eos-exit", "block diffusion always stops where the answer ends"},
      {Paradigm::kUniform, "logits-eos-inf", "`min_length` does this here"},
      {Paradigm::kUniform, "suppress-mask", "uniform diffusion never draws the mask token"},
      {Paradigm::kUniform, "eos-exit", "it always stops after the block that ends the answer"},
      {Paradigm::kUniform, "lock", "no token of a block is final before the block is"},
      {Paradigm::kCanvases, "cache", "K/V of what is written are exact and kept"},
  };
  for (const Reason& reason : kReasons) {
    if (reason.paradigm == paradigm && reason.setting == setting.name) return reason.text;
  }
  if (setting.name == "grow") return "it changes the length of a canvas that is denoised as a whole";
  if (setting.owners == only(Paradigm::kSlots)) return "the model is not a ReFusion model";
  if (setting.owners == only(Paradigm::kUniform)) return "the model is not one of uniform diffusion";
  if (setting.owners == only(Paradigm::kCanvases))
    return "the model is neither DiffusionGemma nor LFM2.5-Diffusion";
  if (setting.owners == only(Paradigm::kBlocks)) return "the model is not one of block diffusion";
  if (setting.name == "token-threshold") return "the model is neither ReFusion nor SDLM";
  if (setting.name == "accept") return "the model is not one that judges its own drafts";
  switch (paradigm) {
    case Paradigm::kCausal:
      return "an autoregressive model writes one token after the other";
    case Paradigm::kSlots:
      return "ReFusion plans slots and fills them";
    case Paradigm::kMasked:
      return "a masked diffusion model denoises its canvas";
    case Paradigm::kBlocks:
      return "block diffusion keeps exact K/V and draws from whole blocks";
    case Paradigm::kUniform:
      return "uniform diffusion has its own rules for what a step changes";
    case Paradigm::kCanvases:
      break;
  }
  return "a canvas has rules of its own for what a pass changes";
}

/// Refuses settings that belong to other paradigms.
void refuse_others(Paradigm paradigm, const GenerationOptions& options) {
  visit_options(options, [&](const Setting& setting, const auto& field) {
    if ((setting.owners & only(paradigm)) != 0) return;
    refuse(is_given(field), with_underscores(setting.name), why_not(paradigm, setting));
  });
}

/// A strategy whose fields have the values of the given settings with the same names.
template <typename Chosen>
Chosen with_settings(const GenerationOptions& options) {
  Chosen strategy;
  visit_fields(strategy, [&](std::string_view name, auto& field, const auto&...) {
    visit_options(options, [&](const Setting& setting, const auto& given) {
      if (with_underscores(setting.name) != name) return;
      if constexpr (std::is_same_v<decltype(given), const bool&> && std::is_same_v<decltype(field), bool&>) {
        field = given;
      } else if constexpr (requires { std::is_same_v<decltype(*given), decltype(*given)>; }) {
        if constexpr (std::is_assignable_v<decltype(field), decltype(*given)> &&
                      std::is_arithmetic_v<std::remove_cvref_t<decltype(*given)>>) {
          if (given) field = *given;
        }
      }
    });
  });
  return strategy;
}

CausalStrategy choose_causal(const ModelConfig& config, const GenerationOptions& options) {
  refuse(options.block_length && config.mask_drafts == 0, "block_length",
         "an autoregressive model writes one token after the other");
  refuse(options.token_threshold && !config.drafts_see_each_other, "token_threshold",
         "the model does not write its drafts by their probability");
  return with_settings<CausalStrategy>(options);
}

SlotStrategy choose_slots(const GenerationOptions& options) {
  auto strategy = with_settings<SlotStrategy>(options);
  strategy.rules = parse_refusion_rules(options.refusion.value_or("lacuna"));
  strategy.verifies_fills = !is_second("fill", options.fill, "verified", "side-by-side");
  strategy.recomputes_apart = options.kv == "recompute-apart";
  strategy.recomputes_kv = strategy.recomputes_apart || options.kv == "recompute";
  if (options.kv && *options.kv != "reuse" && !strategy.recomputes_kv)
    refuse_setting("kv", *options.kv, "`kv` is '{}'; expected reuse, recompute or recompute-apart",
                   *options.kv);
  strategy.accepts_exactly = is_second("accept", options.accept, "threshold", "exact");
  if (strategy.rules == RefusionRules::kLacuna) {
    refuse(strategy.accepts_exactly && options.token_threshold, "token_threshold",
           "`accept` exact compares tokens");
    refuse(strategy.verifies_fills && options.kv, "kv", "`fill` verified leaves exact K/V");
  } else {
    refuse_each(options, {"fill", "accept", "revoke"}, "it belongs to `refusion` lacuna");
  }
  return strategy;
}

BlockStrategy choose_blocks(const ModelConfig& config, const GenerationOptions& options, bool has_guide) {
  if (!config.causal_context)
    refuse_each(options, {"accept"}, "the model is not one that judges its own drafts");
  if (config.sub_block_length <= 0)
    refuse_each(options, {"cache"}, "block diffusion keeps exact K/V and draws from whole blocks");
  auto strategy = with_settings<BlockStrategy>(options);
  strategy.guided = has_guide;
  strategy.caches_block = is_second("cache", options.cache, "none", "block");
  const std::string& unmask = options.unmask.value();
  strategy.unmask = parse_unmask(unmask, EvenSplit{});
  const CountRule& count = strategy.unmask.policy.count;
  if (std::holds_alternative<AncestralSampling>(count)) {
    refuse_setting("unmask", unmask, "`unmask` {}: a block has no time schedule; expected {}", unmask,
                   kUnmaskNames);
  }
  if (strategy.unmask.policy.traits().needs_whole_canvas) {
    refuse_setting("unmask", unmask, "`unmask` {}: it belongs to masked diffusion; expected {}", unmask,
                   kUnmaskNames);
  }
  if (options.edit) {
    if (!config.shifted_logits && strategy.unmask.measure != ConfidenceMeasure::kProbability) {
      refuse_setting("edit", *options.edit,
                     "`edit` compares probabilities, which `unmask` {} does not measure", unmask);
    }
    strategy.edit = parse_editing(*options.edit, config.delete_id >= 0 ? kBlockEditing : TokenEditing());
  }
  strategy.sparse = parse_sparse(options.sparse.value_or("exact"));
  if (std::holds_alternative<ExactAttention>(strategy.sparse)) {
    refuse_each(options, {"sparse-commit", "sparse-after"}, "`sparse` is exact");
  }
  strategy.commits_sparsely = is_second("sparse_commit", options.sparse_commit, "exact", "sparse");
  if (options.sparse_after.value_or(1) < 1) {
    refuse_setting("sparse_after", std::to_string(*options.sparse_after),
                   "`sparse_after` is {}; expected 1 to {}", *options.sparse_after,
                   options.block_length.value_or(static_cast<int32_t>(config.block_length)));
  }
  strategy.accepts_exactly = is_second("accept", options.accept, "all", "exact");
  if (options.lock) strategy.lock = parse_lock(*options.lock);
  if (options.pipeline) {
    strategy.pipeline = parse_pipeline(*options.pipeline);
  } else if (config.whole_prompt && has_threshold(count)) {
    strategy.pipeline = Pipeline();  // as published
  }
  if (options.commit) {
    strategy.commit = is_second("commit", options.commit, "fused", "apart") ? BlockStrategy::Commit::kSeparate
                                                                            : BlockStrategy::Commit::kFused;
  }
  return strategy;
}

UniformCacheKind parse_uniform_cache(std::string_view text) {
  if (text == "none") return UniformCacheKind::kNone;
  if (text == "prefix") return UniformCacheKind::kPrefix;
  if (text == "uniform") return UniformCacheKind::kUniform;
  refuse_setting("cache", text, "`cache` is '{}'; expected none, prefix or uniform, the caches of this model",
                 text);
}

UniformStrategy choose_uniform(const ModelConfig& config, const GenerationOptions& options) {
  if (options.gen_length.is_auto) {
    refuse_setting("gen_length", "auto",
                   "`gen_length` is auto; GIDD denoises a context of one length: expected a number");
  }
  const bool is_whole = config.denoises_whole_canvas();
  auto strategy = with_settings<UniformStrategy>(options);
  parse_sampler(options.sampler.value(), strategy);
  const bool is_adaptive = strategy.sampler == UniformSampler::kAdaptive;
  refuse(!is_adaptive && options.tokens_per_step, "tokens_per_step", "it belongs to `sampler` adaptive");
  const std::string schedule = options.schedule.value_or(is_whole ? "linear" : "cosine");
  strategy.schedule =
      is_second("schedule", schedule, "cosine", "linear") ? NoiseCurve::kLinear : NoiseCurve::kCosine;
  strategy.noise_shows_special =
      is_second("noise", options.noise.value_or(is_whole ? "hub" : "safe"), "safe", "hub");
  const bool draws = is_whole && strategy.sampler != UniformSampler::kGreedy;
  if (draws && !options.temperature) strategy.sampling.temperature = 1;
  strategy.cache = parse_uniform_cache(options.cache.value_or("none"));
  if (strategy.cache != UniformCacheKind::kUniform) {
    refuse_each(options, {"refresh", "boundary", "drift"}, "it belongs to `cache` uniform");
  }
  refuse(options.refresh && options.drift, "refresh", "`drift` decides what is computed again");
  if (options.boundary) strategy.boundary = parse_boundary(*options.boundary);
  if (options.drift) strategy.drift = parse_drift(*options.drift);
  strategy.leaves_at_fixed_point = !is_second("block_exit", options.block_exit, "fixed-point", "steps");
  strategy.whole_last_layer = is_second("last_layer", options.last_layer, "needed", "all");
  if (options.self_correct) strategy.self_correct = parse_self_correction(*options.self_correct);
  return strategy;
}

/// --self-conditioning exact, or a probability.
double parse_self_conditioning(const std::string& text) {
  if (text == "exact") return 0;
  double slack = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, slack);
  if (error == std::errc() && stop == end && slack >= 0 && slack <= 1) return slack;
  refuse_setting("self_conditioning", text,
                 "`self_conditioning` is '{}'; expected exact or a probability from 0 to 1", text);
}

CanvasStrategy choose_canvases(const GenerationOptions& options) {
  auto strategy = with_settings<CanvasStrategy>(options);
  if (options.self_conditioning)
    strategy.soft_embedding_slack = parse_self_conditioning(*options.self_conditioning);
  if (!options.unmask || *options.unmask == "entropy-bounded") return strategy;  // as published
  const UnmaskRule rule = parse_unmask(*options.unmask, EvenSplit{});
  const auto* bounded = std::get_if<EntropyBounded>(&rule.policy.count);
  if (bounded == nullptr) {
    refuse_setting("unmask", *options.unmask,
                   "`unmask` is '{}'; expected entropy-bounded=E, the rule of a canvas", *options.unmask);
  }
  strategy.entropy_bound = bounded->bound;
  return strategy;
}

/// Refuses a number of passes or positions that was given and is out of range; 0 means that none was given.
void expect_count(std::string_view field, const std::optional<int32_t>& value) {
  if (!value || (*value >= 1 && *value <= kMaxGenLength)) return;
  refuse_setting(field, std::to_string(*value), "`{}` is {}; expected 1 to {}", field, *value, kMaxGenLength);
}

UnmaskRule choose_unmasking(const ModelConfig& config, const GenerationOptions& options) {
  const double eps = options.eps.value_or(1e-3);
  if (!(eps >= 1e-9 && eps <= 1)) {
    refuse_setting("eps", fmt::to_string(eps), "`eps` is {}; expected {} to {}", eps, 1e-9, 1.0);
  }
  CountRule family_rule;
  if (config.diffusion_steps > 0) {
    family_rule = LinearSchedule{};
  } else if (config.shifted_logits) {
    family_rule = TimeSchedule{static_cast<float>(eps)};
  }
  UnmaskRule rule = parse_unmask(options.unmask.value(), family_rule, eps);
  const UnmaskPolicy& unmask = rule.policy;
  if (unmask.needs_blocks()) {
    refuse_setting("unmask", *options.unmask, "`unmask` {}: it belongs to block diffusion; expected {}",
                   *options.unmask, kUnmaskNames);
  }
  const bool uses_time = std::holds_alternative<TimeSchedule>(unmask.count) ||
                         std::holds_alternative<AncestralSampling>(unmask.count);
  refuse(options.eps && !uses_time, "eps", "this `unmask` rule follows no time schedule");
  refuse(options.alg_temp &&
             (unmask.ignores_logits() || unmask.traits().runs_until_done || unmask.traits().remasks),
         "alg_temp", "this `unmask` rule does not draw the order of positions");
  rule.policy.order_temperature = static_cast<float>(options.alg_temp.value_or(0));
  return rule;
}

GuideRule choose_guide(const GenerationOptions& options) {
  constexpr std::string_view kReason = "the guide decides what is committed";
  refuse_each(options, {"unmask", "steps", "eps", "alg-temp", "confidence-eos-eot-inf"}, kReason);
  GuideRule rule;
  rule.match = parse_guide_match(options.guide_match.value_or("relative=0.5"));
  rule.fallback = parse_guide_fallback(options.guide_fallback.value_or("dlm"));
  rule.block = options.guide_block.value_or(rule.block);
  return rule;
}

MaskedStrategy choose_masked(const ModelConfig& config, const GenerationOptions& options, bool has_guide) {
  auto strategy = with_settings<MaskedStrategy>(options);
  if (has_guide) {
    strategy.commit = choose_guide(options);
  } else {
    strategy.commit = choose_unmasking(config, options);
  }
  if (has_guide) {
    refuse(options.grow.has_value(), "grow", "a guide confirms drafts of a canvas that keeps its length");
    refuse(options.gen_length.is_auto, "gen_length",
           "auto, but a guide confirms drafts of a canvas that keeps its length");
  } else {
    strategy.growth = choose_growth(config, options);
  }
  expect_count("refresh", options.refresh);
  expect_count("cache_block", options.cache_block);
  const std::string cache = options.cache.value_or("none");
  strategy.cache =
      parse_cache(cache, options.refresh.value_or(0), options.cache_block.value_or(0), config.shifted_logits);
  refuse(options.refresh && cache == "none", "refresh", "without `cache` every pass computes everything");
  refuse(options.cache_block && !std::holds_alternative<FreeCache>(strategy.cache), "cache_block",
         "it belongs to `cache` free and delayed");
  if (options.suffix_dropout) strategy.suffix_dropout = parse_suffix_dropout(*options.suffix_dropout);
  if (options.lock) strategy.lock = parse_lock(*options.lock);
  strategy.delimiters = options.delimiter;
  return strategy;
}

/// Whether blocks are denoised in a pipeline and the usual rule has no threshold.
bool has_pipeline_without_rule(const ModelConfig& config, const GenerationOptions& options) {
  const bool is_on = options.pipeline ? *options.pipeline != "none" : config.whole_prompt;
  const bool has_own = !config.default_unmask.empty() && !options.steps;
  const std::string_view usual =
      has_own ? std::string_view(config.default_unmask) : family_entry(config.family).default_unmask;
  return is_on && config.paradigm() == Paradigm::kBlocks && !usual.starts_with("dynamic") &&
         !usual.starts_with("threshold");
}

}  // namespace

Strategy choose_strategy(const ModelConfig& config, const GenerationOptions& given, bool has_guide) {
  refuse(given.preset && has_guide, "preset", "it chooses settings for decoding without `guide`");
  const GenerationOptions options = with_defaults(config, given, has_guide);
  const Paradigm paradigm = config.paradigm();
  if (!has_guide || paradigm != Paradigm::kMasked) {
    refuse_each(options, {"guide-match", "guide-fallback", "guide-block"},
                has_guide && !config.causal ? "it belongs to a `guide` that confirms drafts"
                                            : "it belongs to `guide`");
  }
  refuse_others(paradigm, options);
  refuse(has_guide && paradigm != Paradigm::kMasked && paradigm != Paradigm::kBlocks, "guide",
         config.causal ? "a causal model judges its own drafts"
                       : "it confirms the drafts of LLaDA and Dream, or drafts for block diffusion");
  switch (paradigm) {
    case Paradigm::kCausal:
      return choose_causal(config, options);
    case Paradigm::kSlots:
      return choose_slots(options);
    case Paradigm::kBlocks:
      return choose_blocks(config, options, has_guide);
    case Paradigm::kUniform:
      return choose_uniform(config, options);
    case Paradigm::kCanvases:
      return choose_canvases(options);
    case Paradigm::kMasked:
      break;
  }
  return choose_masked(config, options, has_guide);
}

std::string_view setting_of(const Constraint& constraint) {
  constexpr std::string_view kSettings[] = {"json_schema", "json_object", "regex",
                                            "choice",      "tools",       "grammar"};
  return kSettings[constraint.index()];
}

std::optional<Constraint> choose_constraint(const GenerationOptions& options) {
  std::optional<Constraint> constraint;
  std::string_view chosen;
  const auto choose = [&](bool given, std::string_view field, auto make) {
    if (!given) return;
    if (constraint) {
      throw SettingError({std::string(field), "", "",
                          fmt::format("`{}` and `{}` are both given; expected one of them", chosen, field)});
    }
    constraint = make();
    chosen = field;
  };
  choose(options.json_schema.has_value(), "json_schema",
         [&] { return JsonSchemaConstraint{*options.json_schema}; });
  choose(options.json_object, "json_object", [] { return JsonObjectConstraint{}; });
  choose(options.regex.has_value(), "regex", [&] { return RegexConstraint{*options.regex}; });
  choose(options.grammar.has_value(), "grammar", [&] { return GrammarConstraint{*options.grammar}; });
  choose(!options.choice.empty(), "choice", [&] { return ChoiceConstraint{options.choice}; });
  return constraint;
}

LogitAdjustments choose_adjustments(const GenerationOptions& options) {
  LogitAdjustments adjustments{.min_p = options.min_p.value_or(0),
                               .presence_penalty = options.presence_penalty.value_or(0),
                               .frequency_penalty = options.frequency_penalty.value_or(0),
                               .repeat_penalty = options.repeat_penalty.value_or(1)};
  for (const std::string& text : options.logit_bias) {
    LogitAdjustments::Bias bias;
    const char* const end = text.data() + text.size();
    const auto token = std::from_chars(text.data(), end, bias.token);
    const bool has_sign = token.ec == std::errc() && token.ptr != end && *token.ptr == '=';
    const auto number = std::from_chars(has_sign ? token.ptr + 1 : end, end, bias.bias);
    if (!has_sign || number.ec != std::errc() || number.ptr != end) {
      throw SettingError({"logit_bias", text, "TOKEN=BIAS",
                          fmt::format("`logit_bias` is '{}'; expected TOKEN=BIAS, such as 13=-5", text)});
    }
    adjustments.biases.push_back(bias);
  }
  return adjustments;
}

bool choose_literals(const GenerationOptions& options) {
  if (!options.literals || options.literals == "decoded") return false;
  if (options.literals == "given") return true;
  throw SettingError({"literals", *options.literals, "decoded or given",
                      fmt::format("`literals` is '{}'; expected decoded or given", *options.literals)});
}

std::optional<CanvasGrowth> choose_growth(const ModelConfig& config, const GenerationOptions& options) {
  const bool has_tokens = config.expand_id >= 0;
  std::optional<CanvasGrowth> growth;
  if (has_tokens) {
    growth = TokenGrowth{};
  } else if (options.gen_length.is_auto) {
    growth = EndMassGrowth{};
  }
  if (options.grow) growth = parse_growth(*options.grow);
  if (growth && std::holds_alternative<TokenGrowth>(*growth) && !has_tokens) {
    refuse_setting("grow", *options.grow,
                   "`grow` is tokens; expected end-mass or none: the model has no token that expands");
  }
  if (!growth && options.gen_length.is_auto) {
    refuse_setting("gen_length", "auto",
                   "`gen_length` is auto and `grow` none; expected a number, or a canvas that grows");
  }
  return growth;
}

GenerationOptions with_defaults(const ModelConfig& config, GenerationOptions options, bool has_guide) {
  options = with_preset(config, std::move(options));
  const Paradigm paradigm = config.paradigm();
  if (paradigm == Paradigm::kUniform) {
    if (!options.sampler) options.sampler = config.denoises_whole_canvas() ? "ancestral" : "adaptive";
    const bool is_adaptive = *options.sampler == "adaptive";
    if (is_adaptive && config.default_tokens_per_step > 0 && !options.tokens_per_step)
      options.tokens_per_step = config.default_tokens_per_step;
  }
  if (config.causal_context && !options.unmask) {
    const bool drafts_at_once = options.accept.value_or("all") == "exact" && !options.steps;
    if (drafts_at_once) options.steps = 1;
    if (options.steps) options.unmask = "low-confidence";
  }
  const bool is_masked = paradigm == Paradigm::kMasked && !has_guide;
  const std::optional<CanvasGrowth> growth =
      is_masked ? choose_growth(config, options) : std::optional<CanvasGrowth>();
  if (growth && std::holds_alternative<TokenGrowth>(*growth)) {  // as published
    options.temperature = options.temperature.value_or(0.2);
    options.top_p = options.top_p.value_or(0.9);
  }
  const bool unmasks = paradigm == Paradigm::kBlocks || is_masked;
  if (!unmasks || options.unmask) return options;
  if (has_guide) {  // as published
    options.unmask = "low-confidence";
    return options;
  }
  if (has_pipeline_without_rule(config, options)) {
    options.unmask = "dynamic=0.9";
    return options;
  }
  if (growth) {
    const std::string_view own = config.default_unmask;
    const bool suits = own.starts_with("threshold") || own.starts_with("factor");
    if (std::holds_alternative<TokenGrowth>(*growth)) {
      options.unmask = "entropy";
    } else if (!suits) {
      options.unmask = "threshold=0.9";
    }
    if (options.unmask) return options;
  }
  const bool chooses_schedule = options.steps || options.eps || options.alg_temp;
  if (config.default_unmask.empty() || chooses_schedule) {
    const bool edits = paradigm == Paradigm::kBlocks && config.delete_id >= 0;
    options.unmask = edits ? "dynamic=0.5" : std::string(family_entry(config.family).default_unmask);
    return options;
  }
  try {
    parse_unmask(config.default_unmask, EvenSplit{});
  } catch (const SettingError& error) {
    Problem problem = error.problem();
    problem.sentence = "generation_config.json: \"lacuna.unmask\": " + problem.sentence;
    throw SettingError(problem, flag_name);
  }
  options.unmask = config.default_unmask;
  return options;
}

DecodeRequest make_request(const GenerationOptions& options, std::vector<TokenId> prompt,
                           DecoderContext context) {
  if (!context.constraint && choose_constraint(options))
    throw InputError(
        "answers cannot be constrained here; expected no json_schema, json_object, regex, choice or grammar");
  if (context.adjustments.empty()) context.adjustments = choose_adjustments(options);
  return {std::move(prompt), options.gen_length, options.gen_length.is_auto, options.seed.value_or(0),
          std::move(context)};
}

std::unique_ptr<Decoder> make_decoder(const ModelConfig& config, const GenerationOptions& options,
                                      std::vector<TokenId> prompt, const DecoderContext& context) {
  const Strategy strategy = choose_strategy(config, options, context.guide.has_value());
  try {
    return make_decoder(config, strategy, make_request(options, std::move(prompt), context));
  } catch (const SettingError& error) {
    throw SettingError(error.problem(), flag_name);
  }
}

void check_options(const ModelConfig& config, const GenerationOptions& options) {
  const int64_t positions = options.context && config.noise
                                ? std::clamp<int64_t>(*options.context, 1, config.max_positions)
                                : config.max_positions;
  if (options.gen_length && *options.gen_length >= positions) {
    refuse_setting("gen_length", std::to_string(*options.gen_length),
                   "`gen_length` {} leaves no position for a prompt; the model has {}", *options.gen_length,
                   positions);
  }
  // Any valid first token: the check must not depend on the prompt.
  const TokenId token = config.bos_id >= 0 ? config.bos_id : config.mask_id == 0 ? 1 : 0;
  make_decoder(config, options, {token});
}

}  // namespace lacuna
