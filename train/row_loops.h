// Loops over rows of numbers, compiled for several instruction sets. Output arrays must not overlap others.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LACUNA_ROW_LOOP __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LACUNA_ROW_LOOP
#endif

namespace lacuna::train {

/// Converts `count` bf16 values to f32.
void widen(const uint16_t* in, int64_t count, float* out);
/// Rounds `count` finite values to the nearest bf16, ties to even.
void narrow(const float* in, int64_t count, uint16_t* out);

void add_row(const float* in, int64_t count, float* sum);
void multiply(const float* a, const float* b, int64_t count, float* out);
void multiply_by(const float* factors, int64_t count, float* out);
void scale_by(float factor, int64_t count, float* x);
float sum_of_products(const float* a, const float* b, int64_t count);
float largest(const float* x, int64_t count);

/// x = exp(x - less), or 0 if x - less <= -87. Returns the sum of the results.
float to_exponentials(float* x, float less, int64_t count);

/// y = scale x weight.
void scale_row(const float* x, const float* weight, float scale, int64_t count, float* y);
/// Gradients of RMSNorm; grad_weight is accumulated. weighted = g * weight; along = scale^2 mean(weighted *
/// x).
void norm_gradient(const float* x, const float* g, const float* weighted, float scale, float along,
                   int64_t count, float* grad_x, float* grad_weight);

/// out = silu(gate) * up.
void gate_row(const float* gate, const float* up, int64_t count, float* out);
void gate_gradient(const float* gate, const float* up, const float* g, int64_t count, float* grad_gate,
                   float* grad_up);

/// (a, b) -> (a cos - b sin, b cos + a sin) with sin times `sign`.
void rotate_row(const float* x, const float* cos, const float* sin, float sign, int64_t half, float* out);

constexpr float kMaskedScore = -1e30F;  ///< below all scores and logits: its exponential is 0

/// x = cap tanh(x / cap); `slope` gets the derivative with respect to the old x.
void cap_scores(float* x, float cap, int64_t count, float* slope);
/// x = kMaskedScore where `unseen` is not 0.
void mask_scores(float* x, const uint8_t* unseen, int64_t count);
/// Softmax backward, in place: g = scale p (g - along), with along = sum(p g).
void softmax_gradient(const float* probs, float along, float scale, int64_t count, float* g);

}  // namespace lacuna::train
