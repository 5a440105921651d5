#include "decode/make_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "decode/autoregressive.h"
#include "decode/block_diffusion.h"
#include "decode/guided_diffusion.h"
#include "decode/masked_diffusion.h"
#include "decode/parse_policies.h"
#include "decode/presets.h"
#include "decode/refusion.h"
#include "decode/uniform_diffusion.h"
#include "model/families.h"

namespace lacuna {
namespace {

constexpr int32_t kMostGenLength = 1 << 20;

template <typename T>
T within(std::string_view flag, const std::optional<T>& value, T fallback, T least, T most) {
  if (!value) return fallback;
  if (!(*value >= least && *value <= most)) {
    throw InputError("--{} is {}; expected {} to {}", flag, *value, least, most);
  }
  return *value;
}

/// Whether the second of two names was given; neither means the first.
bool is_second(std::string_view flag, const std::optional<std::string>& value, std::string_view first,
               std::string_view second) {
  if (!value || *value == first) return false;
  if (*value == second) return true;
  throw InputError("--{} is '{}'; expected {} or {}", flag, *value, first, second);
}

/// Refuses settings that the method would silently drop.
void refuse(bool given, std::string_view flag, std::string_view reason) {
  if (given) throw InputError("--{} has no effect here: {}", flag, reason);
}

bool is_given(bool flag) {
  return flag;
}

template <typename T>
bool is_given(const std::optional<T>& value) {
  return value.has_value();
}

bool is_given(const std::vector<std::string>& values) {
  return !values.empty();
}

/// Refuses the first of these settings that was given.
void refuse_each(const GenerationOptions& options, std::initializer_list<std::string_view> flags,
                 std::string_view reason) {
  for (const std::string_view flag : flags) {
    bool is_known = false;
    visit_options(options, [&](std::string_view name, const Aliases&, const auto& field, std::string_view) {
      if (name != flag) return;
      is_known = true;
      refuse(is_given(field), flag, reason);
    });
    expects(is_known, "refuse_each: visit_options() lists the setting");
  }
}

void check_length(int64_t prompt_length, int32_t gen_length, int64_t positions, std::string_view who) {
  const int64_t length = prompt_length + gen_length;
  if (length <= positions) return;
  const int64_t room = positions - prompt_length;
  throw InputError(
      "prompt ({} tokens) and --gen-length {} make {} positions; {} has {}: {}", prompt_length, gen_length,
      length, who, positions,
      room > 0 ? fmt::format("expected --gen-length {} at most", room) : "expected a shorter prompt");
}

/// Positions of the prompt and the answer together.
int64_t positions_of(const ModelConfig& config, const GenerationOptions& options) {
  if (!config.noise || !options.context) return config.max_positions;
  return std::clamp<int64_t>(*options.context, 1, config.max_positions);
}

void check_prompt(const ModelConfig& config, std::span<const TokenId> prompt, int32_t gen_length,
                  std::string_view who) {
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= config.vocab_size) {
      throw InputError("prompt token {} at index {} is outside {}'s vocabulary of {}", prompt[i], i, who,
                       config.vocab_size);
    }
  }
  check_length(static_cast<int64_t>(prompt.size()), gen_length, config.max_positions, who);
}

SamplingRule sampling_rule(const ModelConfig& config, const GenerationOptions& options) {
  SamplingRule rule;
  rule.temperature = static_cast<float>(within("temperature", options.temperature, 0.0, 0.0, 1e3));
  rule.top_p = static_cast<float>(within("top-p", options.top_p, 1.0, 1e-6, 1.0));
  rule.top_k = within<int32_t>("top-k", options.top_k, 0, 0, static_cast<int32_t>(config.vocab_size));
  return rule;
}

/// Whether filters change anything: at temperature 0 the best token stays, filtered or not; only Dream
/// measures its confidence after them.
void refuse_idle_filters(const GenerationOptions& options, const SamplingRule& rule) {
  if (rule.temperature > 0 || rule.source == ConfidenceSource::kSampled) return;
  constexpr std::string_view kReason = "at --temperature 0 the best token is taken";
  refuse(rule.top_p < 1, "top-p", kReason);
  refuse(options.top_k.value_or(0) > 0, "top-k", kReason);
}

/// Settings of masked diffusion, caches aside, that mean nothing where finished K/V are exact.
void refuse_masked_diffusion(const GenerationOptions& options, std::string_view reason) {
  refuse_each(options,
              {"alg-temp", "eps", "cfg-scale", "logits-eos-inf", "confidence-eos-eot-inf", "eos-exit",
               "refresh", "cache-block", "lock"},
              reason);
}

/// Settings that mean nothing to a causal model, which denoises nothing step by step.
void refuse_denoising(const GenerationOptions& options, std::string_view reason) {
  refuse_each(options, {"steps", "unmask", "cache"}, reason);
  refuse_masked_diffusion(options, reason);
}

/// Refuses a prompt with gaps to fill, for those who only read whole ones.
void expect_whole_prompt(const ModelConfig& config, std::span<const TokenId> prompt,
                         std::string_view reader) {
  if (std::find(prompt.begin(), prompt.end(), config.mask_id) == prompt.end()) return;
  throw InputError("the prompt holds the mask token {}; {} reads whole prompts only", config.mask_id, reader);
}

std::unique_ptr<Decoder> make_autoregressive(const ModelConfig& config, const GenerationOptions& options,
                                             std::vector<TokenId> prompt, const DecoderContext& context,
                                             int32_t gen_length) {
  constexpr std::string_view kReason = "an autoregressive model writes one token after the other";
  refuse_denoising(options, kReason);
  refuse(options.block_length.has_value(), "block-length", kReason);
  refuse(options.suppress_mask, "suppress-mask", kReason);
  if (prompt.empty())
    throw InputError("the prompt is empty; an autoregressive model needs at least one token");

  Autoregressive settings;
  settings.end_ids = config.end_ids;
  settings.gen_length = gen_length;
  settings.ignore_end = options.ignore_eos;
  settings.sampling = sampling_rule(config, options);
  refuse_idle_filters(options, settings.sampling);
  settings.seed = options.seed.value_or(0);
  settings.find_stop = context.find_stop;
  return std::make_unique<AutoregressiveDecoder>(std::move(settings), std::move(prompt));
}

std::unique_ptr<Decoder> make_refusion(const ModelConfig& config, const GenerationOptions& options,
                                       std::vector<TokenId> prompt, const DecoderContext& context,
                                       int32_t gen_length) {
  refuse_denoising(options, "ReFusion plans slots and fills them");
  refuse(options.ignore_eos, "ignore-eos", "ReFusion was not trained on what follows an end token");
  expect_whole_prompt(config, prompt, "ReFusion");
  Refusion settings;
  settings.rules = parse_refusion_rules(options.refusion.value_or("lacuna"));
  settings.advances_together = settings.rules == RefusionRules::kReleased;
  settings.mask_id = config.mask_id;
  settings.end_ids = config.end_ids;
  settings.gen_length = gen_length;
  settings.block_length = within("block-length", options.block_length, 64, 1, kMostGenLength);
  settings.slot_size = within("slot-size", options.slot_size, 8, 1, kMostGenLength);
  settings.slot_threshold = within("slot-threshold", options.slot_threshold, 0.9, 0.0, 1.0);
  settings.token_threshold = within("token-threshold", options.token_threshold, 0.9, 0.0, 1.0);
  settings.verifies_fills = !is_second("fill", options.fill, "verified", "side-by-side");
  settings.recomputes_kv = is_second("kv", options.kv, "reuse", "recompute");
  settings.accepts_exactly = is_second("accept", options.accept, "threshold", "exact");
  settings.revoke = within("revoke", options.revoke, 0.0, 0.0, 1.0);
  settings.seed = options.seed.value_or(0);
  settings.sampling = sampling_rule(config, options);
  refuse_idle_filters(options, settings.sampling);
  if (settings.rules == RefusionRules::kLacuna) {
    refuse(options.suppress_mask, "suppress-mask", "--refusion lacuna never draws the mask token");
    refuse(settings.accepts_exactly && options.token_threshold, "token-threshold",
           "--accept exact compares tokens");
    refuse(settings.verifies_fills && options.kv, "kv", "--fill verified leaves exact K/V");
  } else {
    constexpr std::string_view kReason = "it belongs to --refusion lacuna";
    refuse_each(options, {"fill", "accept", "revoke"}, kReason);
  }
  if (settings.rules == RefusionRules::kLacuna || options.suppress_mask) {
    settings.sampling.undrawn.push_back(config.mask_id);
  }
  settings.find_stop = context.find_stop;
  return std::make_unique<RefusionDecoder>(std::move(settings), std::move(prompt));
}

/// How a step of a block chooses.
void choose_unmasking(const GenerationOptions& options, BlockDiffusion& settings) {
  const std::string& unmask = options.unmask.value();
  settings.unmask = parse_unmask(unmask, EvenSplit{}, settings.sampling.measure);
  const CountRule& count = settings.unmask.count;
  if (std::holds_alternative<EachOnItsOwn>(count) || std::holds_alternative<TimeSchedule>(count)) {
    throw InputError("--unmask {}: a block has no time schedule; expected {}", unmask, kUnmaskNames);
  }
  const bool splits = std::holds_alternative<EvenSplit>(count) || std::holds_alternative<Dynamic>(count);
  refuse(options.steps && !splits, "steps", "this --unmask rule goes on until a block is done");
  settings.steps = within("steps", options.steps, settings.block_length, 1, settings.block_length);
  const int32_t num_sub_blocks = settings.block_length / settings.sub_block_length;
  if (settings.steps % num_sub_blocks != 0) {
    throw InputError("--steps {} is not a multiple of the {} sub-blocks of a block", settings.steps,
                     num_sub_blocks);
  }
}

void choose_sparse_attention(const ModelConfig& config, const GenerationOptions& options,
                             BlockDiffusion& settings) {
  settings.sparse = parse_sparse(options.sparse.value_or("exact"));
  if (std::holds_alternative<ExactAttention>(settings.sparse)) {
    constexpr std::string_view kReason = "--sparse is exact";
    refuse(options.sparse_commit.has_value(), "sparse-commit", kReason);
    refuse(options.sparse_after.has_value(), "sparse-after", kReason);
  } else if (dense_layers_of(settings.sparse) >= config.num_layers) {
    throw InputError("--sparse {}: dense-layers={} leaves no sparse layer; the model has {} layers",
                     *options.sparse, dense_layers_of(settings.sparse), config.num_layers);
  }
  settings.commits_sparsely = is_second("sparse-commit", options.sparse_commit, "exact", "sparse");
  settings.exact_after = within("sparse-after", options.sparse_after, 0, 1, settings.block_length);
  settings.commits_apart = is_second("commit", options.commit, "fused", "apart");
  const bool must_be_apart = config.shifted_logits || settings.commits_sparsely;
  if (must_be_apart && options.commit && !settings.commits_apart) {
    throw InputError("--commit fused: {}; expected apart",
                     config.shifted_logits ? "the pass that keeps a block draws the next block's first token"
                                           : "--sparse-commit sparse needs a pass of its own");
  }
  settings.commits_apart = settings.commits_apart || must_be_apart;
}

std::unique_ptr<Decoder> make_block_diffusion(const ModelConfig& config, const GenerationOptions& options,
                                              std::vector<TokenId> prompt, int32_t gen_length) {
  constexpr std::string_view kReason = "block diffusion keeps exact K/V and draws from whole blocks";
  refuse(options.suppress_mask, "suppress-mask", "block diffusion never draws the mask token");
  refuse(options.eos_exit, "eos-exit", "block diffusion always stops where the answer ends");
  refuse_masked_diffusion(options, kReason);
  const auto trained = static_cast<int32_t>(config.block_length);
  BlockDiffusion settings;
  settings.mask_id = config.mask_id;
  if (!options.ignore_eos) settings.end_ids = config.end_ids;
  settings.gen_length = gen_length;
  settings.block_length = within("block-length", options.block_length, trained, 1, kMostGenLength);
  settings.seed = options.seed.value_or(0);
  settings.sampling = sampling_rule(config, options);
  settings.sampling.source = ConfidenceSource::kTempered;
  refuse_idle_filters(options, settings.sampling);
  settings.sampling.undrawn.push_back(config.mask_id);
  settings.shifted_logits = config.shifted_logits;

  settings.sub_block_length = settings.block_length;
  if (config.sub_block_length > 0) {
    const auto usual = std::min(static_cast<int32_t>(config.sub_block_length), settings.block_length);
    settings.sub_block_length =
        within("sub-block-length", options.sub_block_length, usual, 1, settings.block_length);
    if (settings.block_length % settings.sub_block_length != 0) {
      throw InputError("--sub-block-length {} does not divide --block-length {}", settings.sub_block_length,
                       settings.block_length);
    }
    settings.caches_block = is_second("cache", options.cache, "none", "block");
  } else {
    refuse(options.sub_block_length.has_value(), "sub-block-length", "the model is not of Fast-dLLM v2");
    refuse(options.cache.has_value(), "cache", kReason);
  }
  choose_unmasking(options, settings);
  if (options.edit) {
    if (config.shifted_logits) throw InputError("--edit: a shifted model draws no token from its own row");
    if (settings.sampling.measure != ConfidenceMeasure::kProbability) {
      throw InputError("--edit compares probabilities, which --unmask {} does not measure", *options.unmask);
    }
    settings.edit = parse_editing(*options.edit);
  }
  choose_sparse_attention(config, options, settings);
  if (settings.shifted_logits && prompt.empty()) {
    throw InputError("the prompt is empty; the model draws a block's first token from the token before it");
  }
  return std::make_unique<BlockDiffusionDecoder>(std::move(settings), std::move(prompt));
}

/// Whether a prompt begins as its model was trained to read it; only GIDD minds.
bool begins_with_bos(const ModelConfig& config, std::span<const TokenId> prompt) {
  if (!config.noise || config.bos_id < 0) return true;
  return !prompt.empty() && prompt.front() == config.bos_id;
}

void begin_with_bos(const ModelConfig& config, std::vector<TokenId>& prompt) {
  if (!begins_with_bos(config, prompt)) prompt.insert(prompt.begin(), config.bos_id);
  if (prompt.empty()) throw InputError("the prompt is empty; the model needs at least one token");
}

UniformCacheKind parse_uniform_cache(std::string_view text) {
  if (text == "none") return UniformCacheKind::kNone;
  if (text == "prefix") return UniformCacheKind::kPrefix;
  if (text == "uniform") return UniformCacheKind::kUniform;
  throw InputError("--cache is '{}'; expected none, prefix or uniform, the caches of this model", text);
}

void refuse_masks_only(const GenerationOptions& options) {
  constexpr std::string_view kReason = "uniform diffusion has its own rules for what a step changes";
  refuse_each(options, {"unmask", "alg-temp", "eps", "cfg-scale"}, kReason);
  refuse(options.logits_eos_inf, "logits-eos-inf", "--min-length does this for GIDD");
  refuse(options.confidence_eos_eot_inf, "confidence-eos-eot-inf", kReason);
  refuse(options.suppress_mask, "suppress-mask", "GIDD never draws the mask token");
  refuse(options.eos_exit, "eos-exit", "GIDD always stops after the block that ends the answer");
  refuse(options.cache_block.has_value(), "cache-block", "it belongs to --cache free");
  refuse(options.lock.has_value(), "lock", "no token of a block is final before the block is");
}

void choose_uniform_cache(const GenerationOptions& options, UniformDiffusion& settings) {
  settings.cache = parse_uniform_cache(options.cache.value_or("none"));
  if (settings.cache != UniformCacheKind::kUniform) {
    constexpr std::string_view kReason = "it belongs to --cache uniform";
    refuse_each(options, {"refresh", "boundary", "drift"}, kReason);
  }
  refuse(options.refresh && options.drift, "refresh", "--drift decides what is computed again");
  settings.refresh = within("refresh", options.refresh, 4, 0, kMostGenLength);
  if (options.boundary) settings.boundary = parse_boundary(*options.boundary);
  if (options.drift) settings.drift = parse_drift(*options.drift);
}

std::unique_ptr<Decoder> make_uniform_diffusion(const ModelConfig& config, const GenerationOptions& options,
                                                std::vector<TokenId> prompt, int32_t gen_length) {
  refuse_masks_only(options);
  expect_whole_prompt(config, prompt, "uniform diffusion");
  begin_with_bos(config, prompt);
  UniformDiffusion settings;
  settings.noise = *config.noise;
  settings.vocab_size = config.vocab_size;
  settings.mask_id = config.mask_id;
  settings.end_ids = config.end_ids;
  settings.gen_length = gen_length;
  const auto positions = static_cast<int32_t>(config.max_positions);
  settings.context = within("context", options.context, positions, 1, positions);
  check_length(static_cast<int64_t>(prompt.size()), gen_length, settings.context,
               options.context ? "--context" : "the model");
  settings.block_length =
      within("block-length", options.block_length, std::min(32, gen_length), 1, kMostGenLength);
  settings.steps = within("steps", options.steps, settings.block_length, 1, kMostGenLength);
  settings.min_length = within("min-length", options.min_length, 0, 0, gen_length);
  settings.ignore_end = options.ignore_eos;
  settings.seed = options.seed.value_or(0);

  if (!is_second("noise", options.noise, "safe", "hub")) {
    settings.noise_excludes = config.end_ids;
    for (const TokenId special : {config.mask_id, config.bos_id, config.eos_id, config.pad_id}) {
      settings.noise_excludes.push_back(special);
    }
  }
  const bool is_linear = is_second("schedule", options.schedule, "cosine", "linear");
  settings.curve = is_linear ? NoiseCurve::kLinear : NoiseCurve::kCosine;
  const bool is_ancestral = is_second("sampler", options.sampler, "adaptive", "ancestral");
  settings.sampler = is_ancestral ? UniformSampler::kAncestral : UniformSampler::kAdaptive;
  refuse(is_ancestral && options.tokens_per_step, "tokens-per-step", "it belongs to --sampler adaptive");
  settings.tokens_per_step = within("tokens-per-step", options.tokens_per_step, 3, 1, kMostGenLength);
  settings.sampling = sampling_rule(config, options);
  refuse_idle_filters(options, settings.sampling);

  choose_uniform_cache(options, settings);
  settings.leaves_at_fixed_point = !is_second("block-exit", options.block_exit, "fixed-point", "steps");
  settings.whole_last_layer = is_second("last-layer", options.last_layer, "needed", "all");
  if (options.self_correct) settings.correction = parse_self_correction(*options.self_correct);
  return std::make_unique<UniformDiffusionDecoder>(std::move(settings), std::move(prompt));
}

/// What masked diffusion needs with a guide and without.
template <typename Settings>
void apply_common(const ModelConfig& config, const GenerationOptions& options, int32_t gen_length,
                  Settings& settings) {
  const bool dream = config.shifted_logits;
  refuse(options.ignore_eos, "ignore-eos", "a diffusion model fills its whole canvas");
  settings.mask_id = config.mask_id;
  settings.shifted_logits = config.shifted_logits;
  settings.end_ids = config.end_ids;
  settings.gen_length = gen_length;
  settings.seed = options.seed.value_or(0);
  settings.eos_exit = options.eos_exit;
  settings.block_length = within("block-length", options.block_length, gen_length, 1, gen_length);
  if (gen_length % settings.block_length != 0) {
    throw InputError("--block-length {} does not divide --gen-length {}", settings.block_length, gen_length);
  }

  CanvasPassOptions& pass = settings.pass;
  pass.cfg_scale = static_cast<float>(within("cfg-scale", options.cfg_scale, 0.0, 0.0, 1e3));
  pass.sampling = sampling_rule(config, options);
  // Dream measures the distribution it draws from, LLaDA the one before temperature.
  pass.sampling.source = dream ? ConfidenceSource::kSampled : ConfidenceSource::kRawLogits;
  refuse_idle_filters(options, pass.sampling);
  if (options.logits_eos_inf) {
    if (config.eos_id < 0)
      throw InputError("--logits-eos-inf: the model's config.json names no end-of-text token");
    pass.sampling.forbidden.push_back(config.eos_id);
  }

  const std::string cache = options.cache.value_or("none");
  const int32_t refresh = within("refresh", options.refresh, 0, 1, kMostGenLength);
  const int32_t cache_block =
      within("cache-block", options.cache_block, settings.block_length, 1, kMostGenLength);
  pass.cache = parse_cache(cache, refresh, cache_block, config.shifted_logits);
  refuse(options.refresh && cache == "none", "refresh", "without --cache every pass computes everything");
  refuse(options.cache_block && !std::holds_alternative<FreeCache>(pass.cache), "cache-block",
         "it belongs to --cache free");
  if (options.lock) pass.lock = parse_lock(*options.lock);
}

std::unique_ptr<Decoder> make_masked_diffusion(const ModelConfig& config, const GenerationOptions& options,
                                               std::vector<TokenId> prompt, const DecoderContext& context,
                                               int32_t gen_length) {
  const bool dream = config.shifted_logits;
  MaskedDiffusion settings;
  apply_common(config, options, gen_length, settings);
  SamplingRule& sampling = settings.pass.sampling;

  const double eps = within("eps", options.eps, 1e-3, 1e-9, 1.0);
  const CountRule family_rule =
      dream ? CountRule(TimeSchedule{static_cast<float>(eps)}) : CountRule(EvenSplit{});
  settings.unmask = parse_unmask(options.unmask.value(), family_rule, sampling.measure, eps);
  const UnmaskPolicy& unmask = settings.unmask;
  if (unmask.order == UnmaskOrder::kLeftToRight || std::holds_alternative<Dynamic>(unmask.count) ||
      std::holds_alternative<EntropyBounded>(unmask.count)) {
    throw InputError("--unmask {}: it belongs to block diffusion; expected {}", *options.unmask,
                     kUnmaskNames);
  }
  const bool uses_time = std::holds_alternative<TimeSchedule>(unmask.count) ||
                         std::holds_alternative<EachOnItsOwn>(unmask.count);
  refuse(options.eps && !uses_time, "eps", "this --unmask rule follows no time schedule");
  settings.unmask.order_temperature = static_cast<float>(within("alg-temp", options.alg_temp, 0.0, 0.0, 1e3));
  refuse(options.alg_temp && (unmask.chooses_blindly() || unmask.runs_until_done()), "alg-temp",
         "this --unmask rule does not draw the order of positions");

  const int32_t num_blocks = gen_length / settings.block_length;
  refuse(options.steps && unmask.runs_until_done(), "steps",
         "threshold and factor run until a block is done");
  settings.steps = within("steps", options.steps, gen_length, 1, kMostGenLength);
  if (settings.steps % num_blocks != 0) {
    throw InputError("--steps {} is not a multiple of the {} blocks of --gen-length {} and --block-length {}",
                     settings.steps, num_blocks, gen_length, settings.block_length);
  }

  if (options.suppress_mask || unmask.runs_until_done()) sampling.undrawn.push_back(config.mask_id);
  if (options.confidence_eos_eot_inf) {
    if (config.eos_id < 0) {
      throw InputError("--confidence-eos-eot-inf: the model's config.json names no end-of-text token");
    }
    // In the published code the two names are one tensor at temperature 0, so both tokens leave the softmax;
    // above, only end-of-turn does.
    if (sampling.temperature == 0) sampling.unsure.push_back(config.eos_id);
    if (context.end_of_turn >= 0 && context.end_of_turn < config.vocab_size) {
      sampling.unsure.push_back(context.end_of_turn);
    }
    refuse(sampling.unsure.empty(), "confidence-eos-eot-inf",
           "above temperature 0 it concerns the end-of-turn token, and the tokenizer has none");
  }
  if (!context.answer.empty()) {
    const std::vector<TokenId>& ends = config.end_ids;
    sampling.forbidden.insert(sampling.forbidden.end(), ends.begin(), ends.end());
    sampling.undrawn.push_back(config.mask_id);
    settings.end_ids.clear();
  }
  return std::make_unique<MaskedDiffusionDecoder>(std::move(settings), std::move(prompt), context.answer);
}

std::unique_ptr<Decoder> make_guided_diffusion(const ModelConfig& config, const GenerationOptions& options,
                                               std::vector<TokenId> prompt, const GuideContext& guide,
                                               int32_t gen_length) {
  constexpr std::string_view kReason = "the guide decides what is committed";
  refuse_each(options, {"unmask", "steps", "eps", "alg-temp", "confidence-eos-eot-inf"}, kReason);
  refuse(options.suppress_mask, "suppress-mask", "a draft is never the mask token");
  refuse(options.temperature.value_or(0) > 0, "temperature", "with a guide, drafts are the best tokens");
  if (guide.config->paradigm() != Paradigm::kCausal) {
    throw InputError("--guide: the model is not autoregressive");
  }

  GuidedDiffusion settings;
  apply_common(config, options, gen_length, settings);
  // Drafts are compared by their raw logits.
  SamplingRule& sampling = settings.pass.sampling;
  sampling.source = ConfidenceSource::kRawLogits;
  refuse(options.top_p.has_value(), "top-p", "with a guide, drafts are the best tokens");
  refuse(options.top_k.has_value(), "top-k", "with a guide, drafts are the best tokens");
  sampling.undrawn = guide.alignment->unreadable();
  sampling.undrawn.push_back(config.mask_id);
  if (settings.pass.lock && settings.pass.lock->min_age < 1) {
    throw InputError("--lock min-age=0 has no meaning with --guide: draft passes commit nothing");
  }
  expect_whole_prompt(config, prompt, "a guide");

  settings.match = parse_guide_match(options.guide_match.value_or("relative=0.5"));
  settings.fallback = parse_guide_fallback(options.guide_fallback.value_or("dlm"));
  settings.guide_block = within("guide-block", options.guide_block, 32, 1, kMostGenLength);
  settings.guide_prompt = guide.prompt;
  settings.guide_positions = guide.config->max_positions;
  settings.alignment = guide.alignment;
  if (guide.prompt.empty()) throw InputError("the prompt is empty; the guide needs at least one token");
  check_prompt(*guide.config, guide.prompt, gen_length, "the guide");
  return std::make_unique<GuidedDiffusionDecoder>(std::move(settings), std::move(prompt));
}

}  // namespace

int32_t default_gen_length(const ModelConfig& config, const GenerationOptions& options, int64_t prompt_length,
                           const GuideContext* guide) {
  const int64_t positions = positions_of(config, options);
  int64_t room = positions - prompt_length;
  if (guide != nullptr) {
    room = std::min(room, guide->config->max_positions - static_cast<int64_t>(guide->prompt.size()));
  }
  if (room < 1) {
    throw InputError("the prompt has {} tokens and leaves no position for an answer; {} has {}",
                     prompt_length, guide == nullptr ? "the model" : "the model, or its guide,", positions);
  }
  int64_t wanted = kDefaultGenLength;
  if (config.max_length > prompt_length) wanted = config.max_length - prompt_length;
  if (config.max_new_tokens > 0) wanted = config.max_new_tokens;
  const int64_t most = std::min<int64_t>(room, kMostGenLength);
  const int64_t length = std::min(wanted, most);
  const int64_t block = config.fills_canvas() ? options.block_length.value_or(1) : 1;
  if (block < 1 || block > most) return static_cast<int32_t>(length);  // --block-length is refused later
  return static_cast<int32_t>(std::max(length / block, int64_t{1}) * block);
}

void check_options(const ModelConfig& config, const GenerationOptions& options) {
  const int64_t positions = positions_of(config, options);
  if (options.gen_length && *options.gen_length >= positions) {
    throw InputError("--gen-length {} leaves no position for a prompt; the model has {}", *options.gen_length,
                     positions);
  }
  // Any token that a prompt may begin with: from here on nothing is said about the prompt.
  const TokenId token = config.bos_id >= 0 ? config.bos_id : config.mask_id == 0 ? 1 : 0;
  make_decoder(config, options, {token});
}

std::unique_ptr<Decoder> make_decoder(const ModelConfig& config, const GenerationOptions& given,
                                      std::vector<TokenId> prompt, const DecoderContext& context) {
  refuse(given.preset && context.guide, "preset", "it chooses settings for decoding without --guide");
  const GenerationOptions options = with_defaults(config, given, context.guide.has_value());
  const bool is_infill = !context.answer.empty();
  const auto size = static_cast<int64_t>(prompt.size());
  const int32_t gen_length =
      is_infill ? static_cast<int32_t>(context.answer.size())
      : options.gen_length
          ? within("gen-length", options.gen_length, 0, 1, kMostGenLength)
          : default_gen_length(config, options, begins_with_bos(config, prompt) ? size : size + 1,
                               context.guide ? &*context.guide : nullptr);
  check_prompt(config, prompt, gen_length, "the model");
  if (is_infill) {
    refuse(options.gen_length.has_value(), "gen-length", "an infill is as long as its canvas");
    expect_infill(config);
    refuse(context.guide.has_value(), "guide",
           "a guide confirms what is drafted from left to right, not an infill");
    for (const TokenId token : context.answer) {
      if (token >= 0 && token < config.vocab_size) continue;
      throw InputError("canvas token {} is outside the model's vocabulary of {}", token, config.vocab_size);
    }
  }
  const Paradigm paradigm = config.paradigm();
  if (!context.guide || config.causal) {
    refuse_each(options, {"guide-match", "guide-fallback", "guide-block"}, "it belongs to --guide");
  }
  if (paradigm != Paradigm::kSlots) {
    refuse_each(
        options,
        {"refusion", "slot-size", "slot-threshold", "token-threshold", "fill", "kv", "accept", "revoke"},
        "the model is not a ReFusion model");
  }
  if (paradigm != Paradigm::kUniform) {
    refuse_each(options,
                {"sampler", "tokens-per-step", "schedule", "min-length", "context", "noise", "boundary",
                 "drift", "block-exit", "last-layer", "self-correct"},
                "the model is not a GIDD model");
  }
  if (paradigm != Paradigm::kBlocks) {
    refuse_each(options, {"sub-block-length", "commit", "edit", "sparse", "sparse-commit", "sparse-after"},
                "the model is not one of block diffusion");
  }
  refuse(!options.stop.empty() && !config.causal, "stop", "a diffusion model fills its whole canvas");
  if (context.guide && paradigm != Paradigm::kMasked) {
    throw InputError("--guide has no effect here: {}", config.causal
                                                           ? "a causal model judges its own drafts"
                                                           : "it confirms the drafts of LLaDA and Dream");
  }
  switch (paradigm) {
    case Paradigm::kCausal:
      return make_autoregressive(config, options, std::move(prompt), context, gen_length);
    case Paradigm::kSlots:
      return make_refusion(config, options, std::move(prompt), context, gen_length);
    case Paradigm::kBlocks:
      return make_block_diffusion(config, options, std::move(prompt), gen_length);
    case Paradigm::kUniform:
      return make_uniform_diffusion(config, options, std::move(prompt), gen_length);
    case Paradigm::kMasked:
      break;
  }
  if (context.guide) {
    return make_guided_diffusion(config, options, std::move(prompt), *context.guide, gen_length);
  }
  return make_masked_diffusion(config, options, std::move(prompt), context, gen_length);
}

void expect_infill(const ModelConfig& config) {
  if (config.mask_id >= 0 && config.fills_canvas()) return;
  throw InputError(
      "infill needs a model that fills single positions: LLaDA, LLaDA-MoE or Dream; this is of the family {}",
      family_entry(config.family).name);
}

std::shared_ptr<const TokenAlignment> shared_vocabulary(const ModelConfig& config, const ModelConfig& guide) {
  return std::make_shared<SharedVocabulary>(
      SharedVocabulary::Side{config.vocab_size, config.eos_id, config.end_ids},
      SharedVocabulary::Side{guide.vocab_size, guide.eos_id, guide.end_ids});
}

}  // namespace lacuna
