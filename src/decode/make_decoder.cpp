#include "decode/make_decoder.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "decode/autoregressive.h"
#include "decode/masked_diffusion.h"

namespace lacuna {
namespace {

constexpr int32_t kDefaultGenLength = 128;
constexpr int32_t kMostGenLength = 1 << 20;

constexpr std::string_view kUnmaskNames =
    "low-confidence, random, margin, entropy, maskgit, origin, threshold=TAU or factor=F";

std::string with_dashes(std::string_view text) {
  std::string result(text);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

/// The number after "name=", or `fallback` if there is none.
double unmask_value(std::string_view text, double fallback, double most) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return fallback;
  const std::string_view digits = text.substr(equals + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !(value > 0 && value <= most)) {
    throw InputError("--unmask {}: '{}' is not a number in (0, {}]", text, digits, most);
  }
  return value;
}

/// Sets how candidates are measured and how many are taken, by one of the names that people use. A name
/// without a count rule of its own takes `family_rule`.
void apply_unmask(std::string_view text, const CountRule& family_rule, double eps, MaskedDiffusion& options) {
  const std::string name = with_dashes(text.substr(0, text.find('=')));
  options.unmask.count = family_rule;
  options.sampling.measure = ConfidenceMeasure::kProbability;
  const bool by_probability = name == "low-confidence" || name == "maskgit" || name == "maskgit-plus";
  if (name == "margin" || name == "topk-margin") {
    options.sampling.measure = ConfidenceMeasure::kMargin;
  } else if (name == "entropy") {
    options.sampling.measure = ConfidenceMeasure::kNegativeEntropy;
  } else if (name == "random") {
    options.unmask.random_order = true;
  } else if (name == "origin") {
    options.unmask.count = EachOnItsOwn{static_cast<float>(eps)};
  } else if (name == "threshold") {
    options.unmask.count = Threshold{unmask_value(text, 0.9, 1)};
  } else if (name == "factor") {
    options.unmask.count = Factor{unmask_value(text, 1, 1e6)};
  } else if (!by_probability) {
    throw InputError("--unmask is '{}'; expected {}", text, kUnmaskNames);
  }
  if (!options.unmask.runs_until_done() && text.find('=') != std::string_view::npos) {
    throw InputError("--unmask {}: '{}' takes no value", text, name);
  }
}

template <typename T>
T within(std::string_view flag, const std::optional<T>& value, T fallback, T least, T most) {
  if (!value) return fallback;
  if (!(*value >= least && *value <= most)) {
    throw InputError("--{} is {}; expected {} to {}", flag, *value, least, most);
  }
  return *value;
}

/// Refuses settings that the method would silently drop.
void refuse(bool given, std::string_view flag, std::string_view reason) {
  if (given) throw InputError("--{} has no effect here: {}", flag, reason);
}

void check_prompt(const ModelConfig& config, std::span<const TokenId> prompt, int32_t gen_length) {
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= config.vocab_size) {
      throw InputError("prompt token {} at index {} is outside the vocabulary of {}", prompt[i], i,
                       config.vocab_size);
    }
  }
  const int64_t length = static_cast<int64_t>(prompt.size()) + gen_length;
  if (length > config.max_positions) {
    throw InputError("prompt ({} tokens) and --gen-length {} make {} positions; the model has {}",
                     prompt.size(), gen_length, length, config.max_positions);
  }
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

std::unique_ptr<Decoder> make_autoregressive(const ModelConfig& config, const GenerationOptions& options,
                                             std::vector<TokenId> prompt, int32_t gen_length) {
  constexpr std::string_view kReason = "an autoregressive model writes one token after the other";
  refuse(options.steps.has_value(), "steps", kReason);
  refuse(options.block_length.has_value(), "block-length", kReason);
  refuse(options.unmask.has_value(), "unmask", kReason);
  refuse(options.alg_temp.has_value(), "alg-temp", kReason);
  refuse(options.eps.has_value(), "eps", kReason);
  refuse(options.cfg_scale.has_value(), "cfg-scale", kReason);
  refuse(options.logits_eos_inf, "logits-eos-inf", kReason);
  refuse(options.confidence_eos_eot_inf, "confidence-eos-eot-inf", kReason);
  refuse(options.suppress_mask, "suppress-mask", kReason);
  refuse(options.early_exit, "early-exit", "an autoregressive model always stops at its end token");
  if (prompt.empty())
    throw InputError("the prompt is empty; an autoregressive model needs at least one token");

  Autoregressive settings;
  settings.end_ids = config.end_ids;
  settings.gen_length = gen_length;
  settings.ignore_end = options.ignore_eos;
  settings.sampling = sampling_rule(config, options);
  refuse_idle_filters(options, settings.sampling);
  settings.seed = options.seed.value_or(0);
  return std::make_unique<AutoregressiveDecoder>(std::move(settings), std::move(prompt));
}

std::unique_ptr<Decoder> make_masked_diffusion(const ModelConfig& config, const GenerationOptions& options,
                                               std::vector<TokenId> prompt, TokenId end_of_turn,
                                               int32_t gen_length) {
  const bool dream = config.shifted_logits;
  refuse(options.ignore_eos, "ignore-eos", "a diffusion model fills its whole canvas");

  MaskedDiffusion settings;
  settings.mask_id = config.mask_id;
  settings.shifted_logits = config.shifted_logits;
  settings.end_ids = config.end_ids;
  settings.gen_length = gen_length;
  settings.seed = options.seed.value_or(0);
  settings.early_exit = options.early_exit;
  settings.cfg_scale = static_cast<float>(within("cfg-scale", options.cfg_scale, 0.0, 0.0, 1e3));
  settings.sampling = sampling_rule(config, options);
  // Dream measures the distribution it draws from, LLaDA the one before temperature.
  settings.sampling.source = dream ? ConfidenceSource::kSampled : ConfidenceSource::kRawLogits;
  refuse_idle_filters(options, settings.sampling);

  const double eps = within("eps", options.eps, 1e-3, 1e-9, 1.0);
  const CountRule family_rule =
      dream ? CountRule(TimeSchedule{static_cast<float>(eps)}) : CountRule(EvenSplit{});
  apply_unmask(options.unmask.value_or(dream ? "entropy" : "low-confidence"), family_rule, eps, settings);
  const UnmaskPolicy& unmask = settings.unmask;
  const bool uses_time = std::holds_alternative<TimeSchedule>(unmask.count) ||
                         std::holds_alternative<EachOnItsOwn>(unmask.count);
  refuse(options.eps && !uses_time, "eps", "this --unmask rule follows no time schedule");
  settings.unmask.order_temperature = static_cast<float>(within("alg-temp", options.alg_temp, 0.0, 0.0, 1e3));
  refuse(options.alg_temp && (unmask.chooses_blindly() || unmask.runs_until_done()), "alg-temp",
         "this --unmask rule does not draw the order of positions");

  settings.block_length = within("block-length", options.block_length, gen_length, 1, gen_length);
  if (gen_length % settings.block_length != 0) {
    throw InputError("--block-length {} does not divide --gen-length {}", settings.block_length, gen_length);
  }
  const int32_t num_blocks = gen_length / settings.block_length;
  refuse(options.steps && unmask.runs_until_done(), "steps",
         "threshold and factor run until a block is done");
  settings.steps = within("steps", options.steps, gen_length, 1, kMostGenLength);
  if (settings.steps % num_blocks != 0) {
    throw InputError("--steps {} is not a multiple of the {} blocks of --gen-length {} and --block-length {}",
                     settings.steps, num_blocks, gen_length, settings.block_length);
  }

  if (options.suppress_mask || unmask.runs_until_done()) settings.sampling.undrawn.push_back(config.mask_id);
  if (options.logits_eos_inf || options.confidence_eos_eot_inf) {
    const std::string_view flag = options.logits_eos_inf ? "logits-eos-inf" : "confidence-eos-eot-inf";
    if (config.eos_id < 0) throw InputError("--{}: the model's config.json names no end-of-text token", flag);
  }
  if (options.logits_eos_inf) settings.sampling.forbidden.push_back(config.eos_id);
  if (options.confidence_eos_eot_inf) {
    // In the published code the two names are one tensor at temperature 0, so both tokens leave the softmax;
    // above, only end-of-turn does.
    if (settings.sampling.temperature == 0) settings.sampling.unsure.push_back(config.eos_id);
    if (end_of_turn >= 0 && end_of_turn < config.vocab_size) settings.sampling.unsure.push_back(end_of_turn);
    refuse(settings.sampling.unsure.empty(), "confidence-eos-eot-inf",
           "above temperature 0 it concerns the end-of-turn token, and the tokenizer has none");
  }
  return std::make_unique<MaskedDiffusionDecoder>(std::move(settings), std::move(prompt));
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const ModelConfig& config, const GenerationOptions& options,
                                      std::vector<TokenId> prompt, TokenId end_of_turn) {
  const int32_t gen_length = within("gen-length", options.gen_length, kDefaultGenLength, 1, kMostGenLength);
  check_prompt(config, prompt, gen_length);
  if (config.causal) return make_autoregressive(config, options, std::move(prompt), gen_length);
  return make_masked_diffusion(config, options, std::move(prompt), end_of_turn, gen_length);
}

}  // namespace lacuna
