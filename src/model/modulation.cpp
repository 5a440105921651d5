// Layers that depend on the noise level of their rows (adaLN), for canvases that step back from uniform noise
// (LFM2.5-Diffusion). A layer F with its residual connections becomes x + (1 + gate) (F(y) - y), where y is
// (1 + scale) x + shift.
#include <algorithm>
#include <cmath>

#include "model/pass.h"

namespace lacuna {
namespace {

constexpr double kLongestPeriod = 10000;

/// Cosines, then sines, of the level at falling frequencies. Angles are f32, as in the reference.
void embed_level(float level, int64_t dim, float* out) {
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = static_cast<double>(i) / static_cast<double>(half);
    const float angle = level * static_cast<float>(std::exp(-std::log(kLongestPeriod) * exponent));
    out[i] = static_cast<float>(std::cos(double{angle}));
    out[half + i] = static_cast<float>(std::sin(double{angle}));
  }
}

}  // namespace

void Model::Pass::embed_noise_levels() {
  const NoiseEmbedding& noise = *parameters_.noise;
  const AncestralCanvas& canvas = *config_.canvas->ancestral;
  const auto num_groups = static_cast<int64_t>(plan_.groups.size());
  const Matrix<float> hidden = sized(ws_.up, num_groups, canvas.noise_dim);
  const Matrix<float> out = sized(ws_.modulation, num_groups, 3 * config_.hidden_dim);
  const auto pack_activated = [&] {
    ws_.packed.pack_each(context_, num_groups, canvas.noise_dim, dtype_, [&](int64_t g, float* space) {
      kernels_.swiglu(hidden.row(g), ones_.data(), canvas.noise_dim, space);
      return space;
    });
  };
  ws_.packed.pack_each(context_, num_groups, canvas.frequency_dim, dtype_, [&](int64_t g, float* space) {
    embed_level(plan_.groups[static_cast<size_t>(g)].noise_level, canvas.frequency_dim, space);
    return space;
  });
  product(noise.in, hidden, ws_.times.other);
  pack_activated();
  product(noise.out, hidden, ws_.times.other);
  pack_activated();
  product(noise.projection, out, ws_.times.other);
}

Model::Pass::Modulation Model::Pass::modulation_of(int64_t layer, int64_t row) const {
  const int64_t width = 3 * config_.hidden_dim;
  const int64_t group = row_group_[static_cast<size_t>(row)];
  return {ws_.modulation.data() + group * output_stride(width),
          parameters_.noise->layers.data() + layer * width, config_.hidden_dim};
}

void Model::Pass::modulate(int64_t layer) {
  const Matrix<float> before = sized(ws_.before_layer, plan_.num_rows(), config_.hidden_dim);
  for_each_row([&](int64_t i) {
    const Modulation modulation = modulation_of(layer, plan_row(i));
    float* const x = x_.row(i);
    std::copy_n(x, config_.hidden_dim, before.row(plan_row(i)));
    for (int64_t d = 0; d < config_.hidden_dim; ++d) x[d] = modulation.apply(x[d], d);
  });
  ws_.times.other += watch_.restart();
}

void Model::Pass::gate(int64_t layer) {
  const Matrix<float> before = sized(ws_.before_layer, plan_.num_rows(), config_.hidden_dim);
  for_each_row([&](int64_t i) {
    const Modulation modulation = modulation_of(layer, plan_row(i));
    const float* const old = before.row(plan_row(i));
    float* const x = x_.row(i);
    for (int64_t d = 0; d < config_.hidden_dim; ++d)
      x[d] = old[d] + modulation.gate(d) * (x[d] - modulation.apply(old[d], d));
  });
  ws_.times.other += watch_.restart();
}

}  // namespace lacuna
