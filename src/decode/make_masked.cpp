#include <fmt/format.h>

#include <utility>

#include "base/json.h"
#include "decode/growing_diffusion.h"
#include "decode/guided_diffusion.h"
#include "decode/make_parts.h"
#include "decode/masked_diffusion.h"

namespace lacuna {
namespace {

void check_cache(const CachePolicy& cache, Problems& problems) {
  const auto refresh = [&](int32_t value, int32_t least) {
    problems.within("refresh", value, least, kMaxGenLength);
  };
  if (const auto* prefix = std::get_if<PrefixCache>(&cache)) refresh(prefix->refresh, 0);
  if (const auto* dual = std::get_if<DualCache>(&cache)) refresh(dual->refresh, 0);
  if (const auto* dkv = std::get_if<DkvCache>(&cache)) refresh(dkv->refresh, 1);
  if (const auto* dllm = std::get_if<DllmCache>(&cache)) {
    refresh(dllm->refresh, 1);
    problems.within_part("cache", "dllm-cache", dllm->ratio, SparseDllm::kMinKeep, 1.0);
    problems.within_part("cache", "answer", dllm->answer, 1, kMaxGenLength);
  }
  if (const auto* free = std::get_if<FreeCache>(&cache)) {
    refresh(free->refresh, 0);
    problems.within_part("cache", "delayed", free->delay, 0, kMaxGenLength);
    problems.within("cache_block", free->block, 0, kMaxGenLength);
  }
  if (const auto* sparse = std::get_if<SparseDllm>(&cache)) {
    refresh(sparse->refresh, 0);
    problems.within_part("cache", "sparse-dllm", sparse->keep, SparseDllm::kMinKeep, 1.0);
    problems.within_part("cache", "pool", sparse->pool, 1, SparseDllm::kMaxPool);
    if (sparse->pool % 2 == 0) {
      problems.add({"cache", fmt::to_string(sparse->pool), "an odd number",
                    fmt::format("`cache` pool is {}; expected an odd number", sparse->pool)});
    }
  }
}

/// Refuses settings under which dLLM-Cache would lack rows of the answer.
void check_dllm_cache(const MaskedStrategy& strategy, Problems& problems) {
  const auto refuse = [&](bool given, std::string_view field, std::string_view reason) {
    problems.refuse(given, field, reason);
  };
  refuse(strategy.suffix.has_value(), "suffix", "`cache` dllm-cache computes the whole answer");
  refuse(strategy.lock.has_value(), "lock", "`cache` dllm-cache chooses rows in each layer");
  refuse(strategy.prompt_block.has_value(), "prompt_block", "`cache` dllm-cache computes the prompt again");
  refuse(strategy.growth.has_value(), "cache",
         "the canvas changes its length, which moves what dllm-cache keeps");
  const auto* rule = std::get_if<UnmaskRule>(&strategy.commit);
  refuse(rule != nullptr && rule->policy.traits().verifies, "cache",
         "`unmask` wino verifies tokens by rows of its own");
  refuse(rule != nullptr && rule->policy.traits().cuts_canvas, "cache",
         "`unmask` slow-fast decides what its passes see");
}

bool is_adaptive(const UnmaskRule& rule) {
  return std::holds_alternative<AdaptiveBlock>(rule.policy.count);
}

/// Checks d2Cache, and refuses settings that it cannot have.
void check_rollout_cache(const D2Cache& cache, const MaskedStrategy& strategy, const ModelConfig& config,
                         Problems& problems) {
  problems.within("refresh", cache.refresh, 0, kMaxGenLength);
  problems.within_part("cache", "d2cache", cache.current, 1, kMaxGenLength);
  problems.within_part("cache", "rollout", cache.rollout, 0.0, 1.0);
  problems.within_part("cache", "sigma", cache.sigma, D2Cache::kMinSigma, D2Cache::kMaxSigma);
  problems.within_part("cache", "inflate", cache.inflate, 0, kMaxGenLength);
  problems.refuse(config.sliding || config.convolution, "cache",
                  "d2cache needs layers that all attend to everything");
  constexpr std::string_view kWhole =
      "`cache` d2cache chooses among all rows, which all see the whole canvas";
  problems.refuse(strategy.suffix.has_value(), "suffix", kWhole);
  problems.refuse(strategy.lock.has_value(), "lock", kWhole);
  problems.refuse(strategy.prompt_block.has_value(), "prompt_block", kWhole);
  problems.refuse(strategy.growth.has_value(), "cache",
                  "the canvas changes its length, which moves what d2cache remembers");
  const auto* rule = std::get_if<UnmaskRule>(&strategy.commit);
  problems.refuse(rule == nullptr, "cache",
                  "a guide judges drafts of the whole canvas, and d2cache skips some");
  if (rule == nullptr) return;
  const RuleTraits traits = rule->policy.traits();
  problems.refuse(rule->policy.ignores_logits(), "cache",
                  "d2cache ranks masks by confidence, and this `unmask` rule has none");
  const bool sees_all = traits.exits_early || traits.cuts_canvas || traits.measures_drift ||
                        is_adaptive(*rule) || std::holds_alternative<MultiBlock>(rule->policy.count);
  problems.refuse(sees_all, "cache",
                  "this `unmask` rule needs predictions of all masks, and d2cache leaves out some");
}

/// Refuses settings that need rows, or cells, which Sparse-dLLM leaves out.
void check_sparse_cache(const MaskedStrategy& strategy, Problems& problems) {
  problems.refuse(strategy.suffix.has_value(), "suffix",
                  "`cache` sparse-dllm chooses what a pass sees behind the block");
  problems.refuse(strategy.lock.has_value(), "lock",
                  "`cache` sparse-dllm chooses by the queries of all rows of a block");
  problems.refuse(strategy.growth.has_value(), "cache",
                  "the canvas changes its length, which moves what sparse-dllm keeps");
  const auto* rule = std::get_if<UnmaskRule>(&strategy.commit);
  problems.refuse(rule != nullptr && rule->policy.traits().exits_early, "cache",
                  "`unmask` prophet measures rows that sparse-dllm leaves out");
  problems.refuse(rule != nullptr && rule->policy.traits().cuts_canvas, "cache",
                  "`unmask` slow-fast decides what its passes see");
}

/// Refuses settings that compute the prompt again, or move it.
void check_prompt_block(const MaskedStrategy& strategy, Problems& problems) {
  const auto refuse = [&](bool given, std::string_view reason) {
    problems.refuse(given, "prompt_block", reason);
  };
  refuse(strategy.lock.has_value(), "`lock` compares passes that compute the prompt");
  refuse(strategy.cfg_scale > 0, "`cfg_scale` has a second sequence without the prompt");
  refuse(strategy.growth.has_value(), "a canvas that changes its length begins anew with each edit");
  refuse(std::holds_alternative<GuideRule>(strategy.commit), "a guide judges drafts of the whole canvas");
}

/// Checks that apply with and without a guide.
void check_common(const MaskedStrategy& strategy, const ModelConfig& config, const Asked* asked,
                  Problems& problems) {
  const int32_t most_block = asked != nullptr ? asked->gen_length : kMaxGenLength;
  problems.within("block_length", strategy.block_length, 1, strategy.growth ? kMaxGenLength : most_block);
  if (!problems.empty()) return;
  const int32_t block_length = strategy.block_length.value_or(most_block);
  if (asked != nullptr && !strategy.growth && asked->gen_length % block_length != 0) {
    problems.add(
        {"block_length", fmt::to_string(block_length), fmt::format("a divisor of {}", asked->gen_length),
         fmt::format("`block_length` {} does not divide `gen_length` {}", block_length, asked->gen_length)});
  }
  const bool measures_sampled = config.shifted_logits && std::holds_alternative<UnmaskRule>(strategy.commit);
  check_sampling(strategy.sampling, config, measures_sampled, problems);
  if (strategy.logits_eos_inf && config.eos_id < 0) {
    problems.add({"logits_eos_inf", "true", "false",
                  "`logits_eos_inf`: the model's config.json names no end-of-text token"});
  }
  if (strategy.suffix_dropout) {
    problems.refuse(!strategy.suffix, "suffix_dropout", "it chooses among the positions of `suffix`");
    problems.within_part("suffix_dropout", "decay", strategy.suffix_dropout->decay, 0.0, 1e3);
    problems.within_part("suffix_dropout", "scale", strategy.suffix_dropout->scale, 0.0, 1e3);
  }
  check_cache(strategy.cache, problems);
  if (std::holds_alternative<SparseDllm>(strategy.cache)) check_sparse_cache(strategy, problems);
  if (std::holds_alternative<DllmCache>(strategy.cache)) check_dllm_cache(strategy, problems);
  if (const auto* d2 = std::get_if<D2Cache>(&strategy.cache))
    check_rollout_cache(*d2, strategy, config, problems);
  if (strategy.prompt_block) check_prompt_block(strategy, problems);
  if (strategy.lock) check_lock(*strategy.lock, problems);
  const auto* free = std::get_if<FreeCache>(&strategy.cache);
  problems.refuse(strategy.lock.has_value() && free != nullptr && free->delay > 0, "lock",
                  "`cache` delayed counts the passes that compute a block, and locked rows have none");
  const auto* rule = std::get_if<UnmaskRule>(&strategy.commit);
  problems.refuse(!strategy.delimiters.empty() && (rule == nullptr || !is_adaptive(*rule)), "delimiter",
                  "it belongs to `unmask` adablock");
}

/// Default number of steps: one for each position, or RND1's published number for its schedule in one block.
int32_t default_steps(const UnmaskPolicy& unmask, const ModelConfig& config, int32_t gen_length,
                      int32_t num_blocks) {
  const bool is_linear = std::holds_alternative<LinearSchedule>(unmask.count);
  return is_linear && config.diffusion_steps > 0 && num_blocks == 1 ? config.diffusion_steps : gen_length;
}

void check_steps(const MaskedStrategy& strategy, const UnmaskPolicy& unmask, const ModelConfig& config,
                 const Asked* asked, Problems& problems) {
  problems.refuse(strategy.steps && unmask.traits().runs_until_done, "steps",
                  "the `unmask` rule runs until a block is done");
  if (asked == nullptr || !problems.empty()) return;
  const int32_t block_length = strategy.block_length.value_or(asked->gen_length);
  const int32_t num_blocks = asked->gen_length / block_length;
  const int32_t steps = strategy.steps.value_or(default_steps(unmask, config, asked->gen_length, num_blocks));
  if (steps % num_blocks == 0) return;
  problems.add(
      {"steps", fmt::to_string(steps), fmt::format("a multiple of {}", num_blocks),
       fmt::format("`steps` {} is not a multiple of the {} blocks of `gen_length` {} and `block_length` {}",
                   steps, num_blocks, asked->gen_length, block_length)});
}

/// The tokens that confidence_eos_eot_inf keeps from being committed early.
std::vector<TokenId> unsure_tokens(const TokenSampling& sampling, const ModelConfig& config,
                                   TokenId end_of_turn) {
  std::vector<TokenId> unsure;
  // In the published code the two names are one tensor at temperature 0, so both tokens leave the softmax;
  // above, only end-of-turn does.
  if (sampling.temperature == 0) unsure.push_back(config.eos_id);
  if (end_of_turn >= 0 && end_of_turn < config.vocab_size) unsure.push_back(end_of_turn);
  return unsure;
}

/// Checks the numbers of a growth.
void check_growth_numbers(const CanvasGrowth& growth, Problems& problems) {
  const auto within = [&](std::string_view part, auto value, auto least, auto most) {
    problems.within_part("grow", part, value, least, most);
  };
  within("start", std::visit([](const auto& each) { return each.start; }, growth), 1, kMaxGenLength);
  if (const auto* tokens = std::get_if<TokenGrowth>(&growth))
    within("budget", tokens->budget, 0, kMaxGenLength);
  const auto* end_mass = std::get_if<EndMassGrowth>(&growth);
  if (end_mass == nullptr) return;
  within("by", end_mass->by, 2, kMaxGenLength);
  within("tail", end_mass->tail, 1, kMaxGenLength);
  within("enough", end_mass->enough, 0.0, 1.0);
  within("plenty", end_mass->plenty, 0.0, 1.0);
  within("unsure", end_mass->unsure, 0.0, 1.0);
}

/// Refuses settings that a canvas of changing length does not support.
void check_growth(const MaskedStrategy& strategy, const UnmaskRule& rule, const ModelConfig& config,
                  Problems& problems) {
  check_growth_numbers(*strategy.growth, problems);
  problems.refuse(strategy.lock.has_value(), "lock",
                  "the canvas changes its length, which moves rows that are locked");
  problems.refuse(strategy.steps.has_value(), "steps",
                  "a canvas that changes its length is done when it has no masks");
  constexpr std::string_view kEnds = "end tokens decide how long the canvas becomes";
  problems.refuse(strategy.logits_eos_inf, "logits_eos_inf", kEnds);
  problems.refuse(strategy.confidence_eos_eot_inf, "confidence_eos_eot_inf", kEnds);
  const UnmaskPolicy& unmask = rule.policy;
  if (std::holds_alternative<TokenGrowth>(*strategy.growth)) {
    problems.expect(config.expand_id >= 0, "grow", "tokens",
                    "end-mass or none: the model has no token that expands");
    problems.expect(!unmask.ignores_logits() && !unmask.traits().runs_until_done, "unmask", "another rule",
                    "low-confidence, entropy, margin or maskgit, which order the positions: one is written a "
                    "step");
    problems.refuse(strategy.block_length.has_value(), "block_length",
                    "every step takes the best of all positions");
    problems.refuse(strategy.eos_exit, "eos_exit", "the token that would end the answer leaves the canvas");
    return;
  }
  problems.expect(config.eos_id >= 0, "grow", "end-mass", "none: config.json names no end-of-text token");
  problems.expect(unmask.traits().runs_until_done && !unmask.traits().remembers &&
                      rule.measure == ConfidenceMeasure::kProbability,
                  "unmask", "another rule",
                  "threshold=TAU or factor=F, for a canvas that grows by its end mass");
}

/// Refuses settings that do not work with remasking.
void check_remasking(const MaskedStrategy& strategy, const UnmaskPolicy& unmask, Problems& problems) {
  constexpr std::string_view kReason = "this `unmask` rule masks again what it has written";
  problems.refuse(strategy.lock.has_value(), "lock", kReason);
  problems.refuse(strategy.growth.has_value(), "grow", kReason);
  const CachePolicy& cache = strategy.cache;
  problems.refuse(std::holds_alternative<DkvCache>(cache) || std::holds_alternative<SparseDllm>(cache) ||
                      std::holds_alternative<D2Cache>(cache),
                  "cache", kReason);
  problems.refuse(unmask.order_temperature > 0, "alg_temp",
                  "this `unmask` rule does not draw the order of positions");
}

/// Refuses settings that the blocks of d3LLM do not support.
void check_several(const MaskedStrategy& strategy, Problems& problems) {
  problems.refuse(strategy.suffix.has_value(), "suffix", "`unmask` d3llm denoises several blocks at once");
  problems.refuse(strategy.lock.has_value() && strategy.eos_exit, "lock",
                  "`unmask` d3llm with `eos_exit` writes end tokens over others");
}

/// Refuses settings that need positions which a pass with `suffix` does not see.
void check_suffix(const MaskedStrategy& strategy, const UnmaskPolicy& unmask, const Asked* asked,
                  Problems& problems) {
  const auto refuse = [&](bool given, std::string_view reason) { problems.refuse(given, "suffix", reason); };
  refuse(strategy.growth.has_value(), "a canvas that changes its length has its end in every pass");
  refuse(unmask.traits().exits_early, "`unmask` prophet measures the whole answer");
  refuse(unmask.traits().cuts_canvas, "`unmask` slow-fast decides what its passes see");
  refuse(unmask.traits().verifies, "`unmask` wino verifies tokens by masks that see the whole canvas");
  constexpr std::string_view kUnseen =
      "posteriors are compared with those of passes that did not see the position";
  refuse(unmask.traits().measures_drift || strategy.lock.has_value(), kUnseen);
  refuse(asked != nullptr && !asked->request.context.answer.empty(),
         "a text with holes has given positions behind every block");
}

/// A newline, alone and after the punctuation that lgxi24/AdaBlock-dLLM lists for Dream as token ids.
std::vector<std::string> line_ends() {
  std::vector<std::string> texts = {"\n", "\n\n", "\r\n", "*/\n"};
  for (const char mark : std::string_view(";).}\"]'?!=")) {
    texts.push_back(std::string(1, mark) + "\n");
    texts.push_back(std::string(1, mark) + "\n\n");
  }
  return texts;
}

/// The tokens at which blocks may end.
std::vector<TokenId> delimiter_tokens(const MaskedStrategy& strategy, const DecoderContext& context) {
  std::vector<TokenId> tokens;
  if (!context.token_of) return tokens;
  for (const std::string& text : strategy.delimiters.empty() ? line_ends() : strategy.delimiters) {
    if (const std::optional<TokenId> token = context.token_of(text)) tokens.push_back(*token);
  }
  return tokens;
}

/// Checks the delimiters, and refuses settings that do not work with blocks of unknown length.
void check_adaptive(const MaskedStrategy& strategy, const Asked* asked, Problems& problems) {
  problems.refuse(strategy.suffix.has_value(), "suffix",
                  "`unmask` adablock looks for the end of a block in a quarter of the answer");
  if (asked == nullptr || !asked->request.context.token_of) return;
  for (const std::string& text : strategy.delimiters) {
    problems.expect(asked->request.context.token_of(text).has_value(), "delimiter", in_quotes(text),
                    "a text that is one token of the model");
  }
  problems.expect(!delimiter_tokens(strategy, asked->request.context).empty(), "unmask", "adablock",
                  "another rule, or `delimiter` TEXT: no token of the model ends a line");
}

void check_unguided(const MaskedStrategy& strategy, const UnmaskRule& rule, const ModelConfig& config,
                    const Asked* asked, Problems& problems) {
  const UnmaskPolicy& unmask = rule.policy;
  check_unmask(rule, problems);
  problems.refuse(unmask.needs_blocks(), "unmask", "the rule belongs to block diffusion");
  problems.refuse(
      unmask.order_temperature > 0 && (unmask.ignores_logits() || unmask.traits().runs_until_done),
      "alg_temp", "this `unmask` rule does not draw the order of positions");
  if (unmask.traits().remasks) check_remasking(strategy, unmask, problems);
  if (strategy.suffix) check_suffix(strategy, unmask, asked, problems);
  if (is_adaptive(rule)) check_adaptive(strategy, asked, problems);
  if (std::holds_alternative<MultiBlock>(unmask.count)) check_several(strategy, problems);
  problems.refuse(unmask.traits().gives_credit && strategy.sampling.temperature > 0, "temperature",
                  "`unmask` credit writes the likeliest tokens");
  problems.refuse(unmask.traits().exits_early && strategy.lock.has_value(), "lock",
                  "`unmask` prophet measures rows that would be locked");
  if (unmask.traits().cuts_canvas) {
    problems.refuse(strategy.lock.has_value(), "lock",
                    "passes of `unmask` slow-fast do not see all of the rows that would be locked");
    problems.refuse(asked != nullptr && !asked->request.context.answer.empty(), "unmask",
                    "slow-fast does not see what a text with holes gives behind its spans");
  }
  problems.refuse(
      unmask.traits().verifies && config.shifted_logits, "unmask",
      "wino verifies a token by a mask at its position, and this model's rows predict the next one");
  if (strategy.growth) {
    check_growth(strategy, rule, config, problems);
    return;
  }
  check_steps(strategy, unmask, config, asked, problems);
  if (!strategy.confidence_eos_eot_inf) return;
  if (config.eos_id < 0) {
    problems.add({"confidence_eos_eot_inf", "true", "false",
                  "`confidence_eos_eot_inf`: the model's config.json names no end-of-text token"});
  } else if (asked != nullptr) {
    problems.refuse(unsure_tokens(strategy.sampling, config, asked->request.context.end_of_turn).empty(),
                    "confidence_eos_eot_inf",
                    "above temperature 0 it concerns the end-of-turn token, and the tokenizer has none");
  }
}

void check_guide(const MaskedStrategy& strategy, const GuideRule& rule, Problems& problems) {
  problems.refuse(strategy.growth.has_value(), "grow",
                  "a guide confirms drafts of a canvas that keeps its length");
  constexpr std::string_view kReason = "the guide decides what is committed";
  problems.refuse(strategy.steps.has_value(), "steps", kReason);
  problems.refuse(strategy.suffix.has_value(), "suffix", "a guide judges drafts of the whole answer");
  problems.refuse(strategy.confidence_eos_eot_inf, "confidence_eos_eot_inf", kReason);
  problems.refuse(strategy.suppress_mask, "suppress_mask", "a draft is never the mask token");
  if (strategy.lock && strategy.lock->min_age < 1) {
    problems.add({"lock", "min-age=0", "min-age=1 or more",
                  "`lock` min-age=0 has no meaning with `guide`: draft passes commit nothing"});
  }
  if (const auto* top_k = std::get_if<MatchTopK>(&rule.match)) {
    problems.within_part("guide_match", "top-k", top_k->k, 1, kMaxGenLength);
  } else if (const auto* relative = std::get_if<MatchRelative>(&rule.match)) {
    problems.within_part("guide_match", "relative", relative->ratio, 0.0, 1.0);
  } else if (const auto* literal = std::get_if<MatchTauLiteral>(&rule.match)) {
    problems.within_part("guide_match", "tau-literal", literal->tau, 0.0, 1e6);
  }
  problems.within("guide_block", rule.block, 1, kMaxGenLength);
}

void check_guide_context(const ModelConfig& config, const Asked& asked, Problems& problems) {
  const GuideContext& guide = *asked.request.context.guide;
  if (guide.config->paradigm() != Paradigm::kCausal) {
    problems.add({"guide", std::string(name_of(guide.config->paradigm())), "an autoregressive model",
                  "`guide`: the model is not autoregressive"});
  }
  check_whole_prompt(config, asked.request.prompt, "a guide", problems);
  check_not_empty(guide.prompt, "the guide needs at least one token", problems);
  check_prompt(*guide.config, guide.prompt, asked.gen_length, "the guide", problems);
}

bool grows_by_tokens(const MaskedStrategy& strategy) {
  return strategy.growth && std::holds_alternative<TokenGrowth>(*strategy.growth);
}

CanvasPassOptions pass_options(const MaskedStrategy& strategy, const ModelConfig& config,
                               int32_t block_length) {
  CanvasPassOptions pass;
  pass.cfg_scale = static_cast<float>(strategy.cfg_scale);
  pass.sampling = sampling_rule(strategy.sampling);
  if (strategy.logits_eos_inf) pass.sampling.forbidden.push_back(config.eos_id);
  if (config.expand_id >= 0 && !grows_by_tokens(strategy))
    pass.sampling.forbidden.push_back(config.expand_id);
  pass.cache = strategy.cache;
  auto* free = std::get_if<FreeCache>(&pass.cache);
  if (free != nullptr && free->block == 0) free->block = block_length;
  pass.suffix = strategy.suffix;
  pass.suffix_dropout = strategy.suffix_dropout;
  pass.prompt_block = strategy.prompt_block.value_or(0);
  pass.lock = strategy.lock;
  return pass;
}

/// Sets the fields that masked diffusion needs with and without a guide.
template <typename Settings>
void apply_common(const MaskedStrategy& strategy, const ModelConfig& config, const Asked& asked,
                  Settings& settings) {
  settings.mask_id = config.mask_id;
  settings.shifted_logits = config.shifted_logits;
  settings.end_ids = config.end_ids;
  settings.gen_length = asked.gen_length;
  settings.seed = asked.request.seed;
  settings.eos_exit = strategy.eos_exit;
  settings.block_length = strategy.block_length.value_or(asked.gen_length);
  settings.pass = pass_options(strategy, config, settings.block_length);
  settings.pass.seed = settings.seed;
}

/// Sets how an unguided model samples, with the rule's confidence measure.
void apply_unguided(const MaskedStrategy& strategy, const UnmaskRule& rule, const ModelConfig& config,
                    const DecoderContext& context, SamplingRule& sampling) {
  // Dream measures the distribution it samples from, LLaDA the one before temperature.
  const bool is_of_raw = std::holds_alternative<MultiBlock>(rule.policy.count);  // in both families
  sampling.source =
      config.shifted_logits && !is_of_raw ? ConfidenceSource::kSampled : ConfidenceSource::kRawLogits;
  sampling.measure = rule.measure;
  sampling.measures_all = rule.policy.traits().is_custom;
  const bool is_infill = !context.answer.empty();
  if (strategy.suppress_mask || rule.policy.traits().runs_until_done || is_infill || strategy.growth) {
    sampling.undrawn.push_back(config.mask_id);
  }
  if (strategy.confidence_eos_eot_inf) {
    sampling.unsure = unsure_tokens(strategy.sampling, config, context.end_of_turn);
  }
  if (!is_infill) return;
  const bool grows = grows_by_tokens(strategy);
  for (const TokenId end : config.end_ids) {
    if (!grows || end != config.delete_id) sampling.forbidden.push_back(end);
  }
}

std::unique_ptr<Decoder> make_growing(const MaskedStrategy& strategy, const UnmaskRule& rule,
                                      const ModelConfig& config, Asked asked) {
  const DecoderContext& context = asked.request.context;
  GrowingDiffusion settings;
  settings.mask_id = config.mask_id;
  settings.expand_id = config.expand_id;
  settings.delete_id = config.delete_id;
  settings.end_id = config.eos_id;
  settings.shifted_logits = config.shifted_logits;
  if (context.answer.empty()) settings.end_ids = config.end_ids;
  settings.growth = *strategy.growth;
  settings.most_length = asked.gen_length;
  settings.block_length = strategy.block_length.value_or(settings.block_length);
  settings.unmask = rule.policy;
  settings.pass = pass_options(strategy, config, settings.block_length);
  apply_unguided(strategy, rule, config, context, settings.pass.sampling);
  settings.eos_exit = strategy.eos_exit;
  settings.seed = asked.request.seed;
  return std::make_unique<GrowingDiffusionDecoder>(std::move(settings), std::move(asked.request.prompt),
                                                   context.answer, context.holes);
}

std::unique_ptr<Decoder> make_unguided(const MaskedStrategy& strategy, const UnmaskRule& rule,
                                       const ModelConfig& config, Asked asked) {
  const DecoderContext& context = asked.request.context;
  MaskedDiffusion settings;
  apply_common(strategy, config, asked, settings);
  apply_unguided(strategy, rule, config, context, settings.pass.sampling);
  settings.unmask = rule.policy;
  if (auto* adaptive = std::get_if<AdaptiveBlock>(&settings.unmask.count)) {
    adaptive->delimiter = adaptive->delimiter.value_or(config.shifted_logits ? 0.5 : 0.3);
    settings.delimiters = delimiter_tokens(strategy, context);
  }
  if (auto* several = std::get_if<MultiBlock>(&settings.unmask.count))
    several->bound = several->bound.value_or(config.shifted_logits ? 0.4 : 0.5);
  if (rule.policy.traits().verifies) settings.pass.verified_block = settings.block_length;
  const int32_t num_blocks = asked.gen_length / settings.block_length;
  settings.steps = strategy.steps.value_or(default_steps(rule.policy, config, asked.gen_length, num_blocks));
  if (!context.answer.empty()) settings.end_ids.clear();
  return std::make_unique<MaskedDiffusionDecoder>(std::move(settings), std::move(asked.request.prompt),
                                                  context.answer);
}

std::unique_ptr<Decoder> make_guided(const MaskedStrategy& strategy, const GuideRule& rule,
                                     const ModelConfig& config, Asked asked) {
  const GuideContext& guide = *asked.request.context.guide;
  GuidedDiffusion settings;
  apply_common(strategy, config, asked, settings);
  // Drafts are compared by their raw logits.
  SamplingRule& sampling = settings.pass.sampling;
  sampling.source = ConfidenceSource::kRawLogits;
  sampling.undrawn = guide.alignment->unreadable();
  sampling.undrawn.push_back(config.mask_id);
  settings.match = rule.match;
  settings.fallback = rule.fallback;
  settings.guide_block = rule.block;
  settings.guide_prompt = guide.prompt;
  settings.guide_positions = guide.config->max_positions;
  settings.alignment = guide.alignment;
  return std::make_unique<GuidedDiffusionDecoder>(std::move(settings), std::move(asked.request.prompt));
}

}  // namespace

void check(const MaskedStrategy& strategy, const ModelConfig& config, const Asked* asked,
           Problems& problems) {
  check_common(strategy, config, asked, problems);
  if (const auto* rule = std::get_if<UnmaskRule>(&strategy.commit)) {
    check_unguided(strategy, *rule, config, asked, problems);
    return;
  }
  check_guide(strategy, std::get<GuideRule>(strategy.commit), problems);
  if (asked != nullptr) check_guide_context(config, *asked, problems);
}

std::unique_ptr<Decoder> make(const MaskedStrategy& strategy, const ModelConfig& config, Asked asked) {
  if (const auto* rule = std::get_if<UnmaskRule>(&strategy.commit)) {
    return strategy.growth ? make_growing(strategy, *rule, config, std::move(asked))
                           : make_unguided(strategy, *rule, config, std::move(asked));
  }
  return make_guided(strategy, std::get<GuideRule>(strategy.commit), config, std::move(asked));
}

}  // namespace lacuna
