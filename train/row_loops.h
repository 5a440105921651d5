// Loops over rows of numbers, compiled for several instruction sets. Arrays of different names do not
// overlap.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LACUNA_ROW_LOOP __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LACUNA_ROW_LOOP
#endif

namespace lacuna::train {

/// `count` numbers of bf16 as f32.
void widen(const uint16_t* in, int64_t count, float* out);
/// `count` finite numbers to the nearest bf16, ties to even.
void narrow(const float* in, int64_t count, uint16_t* out);

void add_row(const float* in, int64_t count, float* sum);
void multiply(const float* a, const float* b, int64_t count, float* out);
void multiply_by(const float* factors, int64_t count, float* out);
void scale_by(float factor, int64_t count, float* x);
float sum_of_products(const float* a, const float* b, int64_t count);
float largest(const float* x, int64_t count);

/// x = exp(x - less), 0 below f32's range; the sum of them.
float to_exponentials(float* x, float less, int64_t count);

/// y = scale x weight.
void scale_row(const float* x, const float* weight, float scale, int64_t count, float* y);
/// Gradients of scale_row() with the scale of RMSNorm; weighted[i] = g[i] * weight[i]. That of the weight is
/// added.
void norm_gradient(const float* x, const float* g, const float* weighted, float scale, float along,
                   int64_t count, float* of_x, float* of_weight);

/// out = silu(gate) * up.
void gate_row(const float* gate, const float* up, int64_t count, float* out);
void gate_gradient(const float* gate, const float* up, const float* g, int64_t count, float* of_gate,
                   float* of_up);

/// (a, b) -> (a cos - b sin, b cos + a sin) with sin times `sign`.
void rotate_row(const float* x, const float* cos, const float* sin, float sign, int64_t half, float* out);

constexpr float kHidden = -1e30F;  ///< below all scores and logits: its exponential is 0

/// x = cap tanh(x / cap), and the slope of that.
void cap_scores(float* x, float cap, int64_t count, float* slope);
/// x = kHidden where `unseen` is not 0.
void hide_scores(float* x, const uint8_t* unseen, int64_t count);
/// Gradients of scores from those of their shares, in place: scale share (g - along).
void share_gradient(const float* shares, float along, float scale, int64_t count, float* g);

}  // namespace lacuna::train
