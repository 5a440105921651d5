#include "train/row_loops.h"

#include <bit>
#include <cmath>

namespace lacuna::train {

// __restrict also avoids alias checks at run time, which would make results depend on addresses.

LACUNA_ROW_LOOP void widen(const uint16_t* __restrict in, int64_t count, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] = std::bit_cast<float>(static_cast<uint32_t>(in[i]) << 16);
}

LACUNA_ROW_LOOP void narrow(const float* __restrict in, int64_t count, uint16_t* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(in[i]);
    out[i] = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}

LACUNA_ROW_LOOP void add_row(const float* __restrict in, int64_t count, float* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += in[i];
}

LACUNA_ROW_LOOP float sum_of_products(const float* __restrict a, const float* __restrict b, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

LACUNA_ROW_LOOP void scale_row(const float* __restrict x, const float* __restrict weight, float scale,
                               int64_t count, float* __restrict y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * scale * weight[i];
}

LACUNA_ROW_LOOP void norm_gradient(const float* __restrict x, const float* __restrict g,
                                   const float* __restrict weighted, float scale, float along, int64_t count,
                                   float* __restrict grad_x, float* __restrict grad_weight) {
  for (int64_t i = 0; i < count; ++i) {
    grad_x[i] = scale * (weighted[i] - x[i] * along);
    grad_weight[i] += g[i] * x[i] * scale;
  }
}

LACUNA_ROW_LOOP void multiply(const float* __restrict a, const float* __restrict b, int64_t count,
                              float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] * b[i];
}

LACUNA_ROW_LOOP void multiply_by(const float* __restrict factors, int64_t count, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] *= factors[i];
}

LACUNA_ROW_LOOP void gate_row(const float* __restrict gate, const float* __restrict up, int64_t count,
                              float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) out[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}

LACUNA_ROW_LOOP void gate_gradient(const float* __restrict gate, const float* __restrict up,
                                   const float* __restrict g, int64_t count, float* __restrict grad_gate,
                                   float* __restrict grad_up) {
  for (int64_t i = 0; i < count; ++i) {
    const float sigmoid = 1 / (1 + std::exp(-gate[i]));
    grad_up[i] = g[i] * gate[i] * sigmoid;
    grad_gate[i] = g[i] * up[i] * sigmoid * (1 + gate[i] * (1 - sigmoid));
  }
}

LACUNA_ROW_LOOP void rotate_row(const float* __restrict x, const float* __restrict cos,
                                const float* __restrict sin, float sign, int64_t half,
                                float* __restrict out) {
  for (int64_t i = 0; i < half; ++i) {
    const float s = sign * sin[i];
    out[i] = x[i] * cos[i] - x[half + i] * s;
    out[half + i] = x[half + i] * cos[i] + x[i] * s;
  }
}

LACUNA_ROW_LOOP float largest(const float* __restrict x, int64_t count) {
  float most = x[0];
  for (int64_t i = 1; i < count; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

LACUNA_ROW_LOOP float to_exponentials(float* x, float less, int64_t count) {
  constexpr float kMinPower = -87;  // below it, vector exp() falls back to scalar code
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float power = x[i] - less;
    const float value = std::exp(power > kMinPower ? power : kMinPower);
    x[i] = power > kMinPower ? value : 0;
    sum += x[i];
  }
  return sum;
}

LACUNA_ROW_LOOP void scale_by(float factor, int64_t count, float* x) {
  for (int64_t i = 0; i < count; ++i) x[i] *= factor;
}

LACUNA_ROW_LOOP void cap_scores(float* __restrict x, float cap, int64_t count, float* __restrict slope) {
  for (int64_t i = 0; i < count; ++i) {
    const float t = std::tanh(x[i] / cap);
    x[i] = cap * t;
    slope[i] = 1 - t * t;
  }
}

LACUNA_ROW_LOOP void mask_scores(float* __restrict x, const uint8_t* __restrict unseen, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = unseen[i] != 0 ? kMaskedScore : x[i];
}

LACUNA_ROW_LOOP void softmax_gradient(const float* __restrict probs, float along, float scale, int64_t count,
                                      float* __restrict g) {
  for (int64_t i = 0; i < count; ++i) g[i] = scale * probs[i] * (g[i] - along);
}

}  // namespace lacuna::train
