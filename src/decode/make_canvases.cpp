#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "decode/canvas_diffusion.h"
#include "decode/make_parts.h"

namespace lacuna {
namespace {

int32_t canvas_length_of(const CanvasStrategy& strategy, const ModelConfig& config) {
  return strategy.block_length.value_or(static_cast<int32_t>(config.canvas->length));
}

/// The published settings for this many steps of LFM2.5-Diffusion.
void set_ancestral(const CanvasConfig& canvas, int64_t vocab_size, CanvasDiffusion& settings) {
  constexpr int32_t kFewSteps = 4;  // the published settings for 4 steps, and for 8 and 32
  AncestralSteps steps;
  steps.count = settings.steps++;  // the last pass reads out
  if (steps.count <= kFewSteps) {
    steps.exponent = 0.2;
    settings.last_temperature = 0.5F;
  }
  settings.ancestral = steps;
  settings.vocab_size = canvas.ancestral->num_tokens;
  settings.forbidden.resize(static_cast<size_t>(vocab_size - settings.vocab_size));
  std::iota(settings.forbidden.begin(), settings.forbidden.end(), static_cast<TokenId>(settings.vocab_size));
}

}  // namespace

void check(const CanvasStrategy& strategy, const ModelConfig& config, const Asked* asked,
           Problems& problems) {
  if (asked != nullptr)
    check_not_empty(asked->request.prompt, "a canvas needs at least one token before it", problems);
  if (asked != nullptr && config.canvas->image_id >= 0) {
    const std::vector<TokenId>& prompt = asked->request.prompt;
    const bool has_image = std::find(prompt.begin(), prompt.end(), config.canvas->image_id) != prompt.end();
    problems.expect(!has_image, "prompt", fmt::format("with the image token {}", config.canvas->image_id),
                    "text alone");
  }
  problems.expect(strategy.temperature == 0 || strategy.temperature == 1, "temperature",
                  fmt::to_string(strategy.temperature),
                  "1, which samples at the model's own schedule of temperatures, or 0 for the best tokens");
  constexpr std::string_view kReason = "each step samples every token from its posterior";
  problems.refuse(config.canvas->ancestral && strategy.entropy_bound, "unmask", kReason);
  problems.refuse(config.canvas->ancestral && strategy.stop_entropy, "stop_entropy", kReason);
  if (strategy.entropy_bound) {
    problems.expect(*strategy.entropy_bound >= 0 && *strategy.entropy_bound <= 1e6, "unmask",
                    fmt::to_string(*strategy.entropy_bound), "a bound in [0, 1e6]");
  }
}

std::unique_ptr<Decoder> make(const CanvasStrategy& strategy, const ModelConfig& config, Asked asked) {
  const CanvasConfig& canvas = *config.canvas;
  CanvasDiffusion settings;
  settings.vocab_size = config.vocab_size;
  if (!strategy.ignore_eos) settings.end_ids = config.end_ids;
  settings.gen_length = asked.gen_length;
  settings.max_positions = static_cast<int32_t>(config.max_positions);
  settings.canvas_length = canvas_length_of(strategy, config);
  settings.steps = strategy.steps.value_or(static_cast<int32_t>(canvas.steps));
  settings.draws = strategy.temperature > 0;
  settings.first_temperature = canvas.first_temperature;
  settings.last_temperature = canvas.last_temperature;
  settings.entropy_bound = strategy.entropy_bound.value_or(double{canvas.entropy_bound});
  settings.stable_steps = static_cast<int32_t>(canvas.stable_steps);
  settings.stop_entropy = strategy.stop_entropy.value_or(double{canvas.stop_entropy});
  settings.soft_embedding_slack = static_cast<float>(strategy.soft_embedding_slack);
  settings.seed = asked.request.seed;
  if (canvas.ancestral) set_ancestral(canvas, config.vocab_size, settings);
  return std::make_unique<CanvasDiffusionDecoder>(std::move(settings), std::move(asked.request.prompt));
}

}  // namespace lacuna
