#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "decode/make_parts.h"
#include "decode/uniform_diffusion.h"

namespace lacuna {
namespace {

void check_cache(const UniformStrategy& strategy, Problems& problems) {
  constexpr std::string_view kReason = "it belongs to `cache` uniform";
  const bool is_other = strategy.cache != UniformCacheKind::kUniform;
  problems.refuse(is_other && strategy.boundary, "boundary", kReason);
  problems.refuse(is_other && strategy.drift, "drift", kReason);
  if (strategy.boundary) {
    problems.within_part("boundary", "blocks", strategy.boundary->blocks, 2, kMaxGenLength);
    problems.within_part("boundary", "full-every", strategy.boundary->full_every, 1, kMaxGenLength);
  }
  if (strategy.drift) {
    problems.within_part("drift", "tau", strategy.drift->tau, 0.0, 2.0);
    problems.within_part("drift", "page", strategy.drift->page, 1, kMaxGenLength);
    problems.within_part("drift", "budget", strategy.drift->budget, 1, kMaxGenLength);
  }
}

/// Refuses settings of blocks for a canvas that is denoised at once.
void check_whole_canvas(const UniformStrategy& strategy, Problems& problems) {
  constexpr std::string_view kReason = "all that follows the prompt is one block";
  problems.refuse(strategy.block_length.has_value(), "block_length", kReason);
  problems.refuse(strategy.boundary.has_value(), "boundary", kReason);
  problems.refuse(strategy.drift.has_value(), "drift", kReason);
  if (strategy.cache != UniformCacheKind::kPrefix) return;
  problems.add({"cache", "prefix", "none or uniform",
                "`cache` is prefix; expected none or uniform: rows of the prompt see the noise, so their K/V "
                "change with it"});
}

void check_correction(const SelfCorrection& correction, Problems& problems) {
  const auto within = [&](std::string_view part, auto value, auto least, auto most) {
    problems.within_part("self_correct", part, value, least, most);
  };
  within("most", correction.most, 1, kMaxGenLength);
  within("temperature", correction.temperature, 0.0F, 1e3F);
  within("patience", correction.patience, 0, kMaxGenLength);
  within("tokens", correction.tokens, 1, kMaxGenLength);
  within("full-every", correction.full_every, 1, kMaxGenLength);
}

/// Fixed tokens right after the answer of a whole canvas: the end of this text and the beginning of the
/// next.
std::vector<TokenId> closing_tokens(const ModelConfig& config) {
  std::vector<TokenId> tokens;
  if (!config.denoises_whole_canvas()) return tokens;
  for (const TokenId token : {config.eos_id, config.bos_id}) {
    if (token >= 0) tokens.push_back(token);
  }
  return tokens;
}

void check_request(const UniformStrategy& strategy, const ModelConfig& config, const Asked& asked,
                   Problems& problems) {
  const std::vector<TokenId>& prompt = asked.request.prompt;
  check_whole_prompt(config, prompt, "uniform diffusion", problems);
  const bool lacks_bos = !begins_with_bos(config, prompt);
  if (!lacks_bos) check_not_empty(prompt, "the model needs at least one token", problems);
  const std::string closed = fmt::format(", less the {} tokens after the answer,", num_closing(config));
  check_length(static_cast<int64_t>(prompt.size()) + (lacks_bos ? 1 : 0), asked.gen_length,
               context_of(config, strategy) - num_closing(config),
               (strategy.context ? "`context`" : "the model") + (num_closing(config) > 0 ? closed : ""),
               problems);
}

}  // namespace

int32_t context_of(const ModelConfig& config, const UniformStrategy& strategy) {
  const bool is_whole = config.denoises_whole_canvas();
  const int64_t usual = is_whole ? config.noise->whole_canvas->length : config.max_positions;
  return static_cast<int32_t>(std::clamp<int64_t>(strategy.context.value_or(usual), 1, config.max_positions));
}

int32_t num_closing(const ModelConfig& config) {
  return static_cast<int32_t>(closing_tokens(config).size());
}

bool begins_with_bos(const ModelConfig& config, std::span<const TokenId> prompt) {
  if (!config.noise || config.bos_id < 0) return true;
  return !prompt.empty() && prompt.front() == config.bos_id;
}

void check(const UniformStrategy& strategy, const ModelConfig& config, const Asked* asked,
           Problems& problems) {
  problems.within("context", strategy.context, 1, static_cast<int32_t>(config.max_positions));
  if (asked != nullptr) check_request(strategy, config, *asked, problems);
  problems.within("min_length", strategy.min_length, 0, asked != nullptr ? asked->gen_length : kMaxGenLength);
  const double tau = strategy.threshold.tau;
  problems.expect(tau > 0 && tau <= 1, "sampler", fmt::format("threshold={}", tau), "a threshold in (0, 1]");
  problems.within_part("sampler", "least", strategy.threshold.least, 0, kMaxGenLength);
  check_sampling(strategy.sampling, config, false, problems);
  check_cache(strategy, problems);
  problems.refuse(strategy.sampler == UniformSampler::kGreedy && strategy.sampling.temperature > 0,
                  "temperature", "`sampler` greedy takes the most likely tokens");
  if (config.denoises_whole_canvas()) check_whole_canvas(strategy, problems);
  if (strategy.self_correct) check_correction(*strategy.self_correct, problems);
}

std::unique_ptr<Decoder> make(const UniformStrategy& strategy, const ModelConfig& config, Asked asked) {
  std::vector<TokenId> prompt = std::move(asked.request.prompt);
  if (!begins_with_bos(config, prompt)) prompt.insert(prompt.begin(), config.bos_id);
  UniformDiffusion settings;
  static_cast<UniformPolicy&>(settings) = strategy;
  settings.noise = *config.noise;
  settings.vocab_size = config.vocab_size;
  settings.mask_id = config.mask_id;
  settings.end_ids = config.end_ids;
  settings.gen_length = asked.gen_length;
  settings.closing = closing_tokens(config);
  settings.context = context_of(config, strategy);
  settings.block_length = strategy.block_length.value_or(std::min(32, asked.gen_length));
  settings.steps = strategy.steps.value_or(settings.block_length);
  if (const auto& canvas = config.noise->whole_canvas) {
    settings.block_length = asked.gen_length;
    settings.steps = strategy.steps.value_or(static_cast<int32_t>(canvas->steps));
  }
  settings.seed = asked.request.seed;
  if (!strategy.noise_shows_special) {
    settings.noise_excludes = config.end_ids;
    for (const TokenId special : {config.mask_id, config.bos_id, config.eos_id, config.pad_id}) {
      settings.noise_excludes.push_back(special);
    }
  }
  settings.sampling = sampling_rule(strategy.sampling);
  return std::make_unique<UniformDiffusionDecoder>(std::move(settings), std::move(prompt));
}

}  // namespace lacuna
