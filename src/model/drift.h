// Drift: distance of a row's posterior, or of its key and value, from the last computed ones.
#pragma once

#include <cstdint>
#include <span>

namespace lacuna {

/// A row of the last pass whose posterior is compared with the one that a cell remembers.
struct DriftProbe {
  int32_t row = 0;                 ///< index into StepPlan::tokens
  int32_t unconditional_row = -1;  ///< as in LogitRow: guided posteriors are compared; -1: none
  float guidance = 0;
  int32_t cell = 0;  ///< cell of the row's sequence (and of the unconditional row's)

  bool operator==(const DriftProbe&) const = default;
};

struct Drift {
  double kl = 0;              ///< KL(now || before), nats, over the whole vocabulary; >= 0
  double max_log_change = 0;  ///< max over tokens of |ln p now - ln p before|
};

/// Compares softmax(now) with softmax(before), both raw f32 logits, without computing probabilities: KL = sum
/// p (z - y) - (lse z - lse y), where p = softmax(z), z = now, y = before and lse is log-sum-exp.
/// Exponentials are f32, sums double. Infinite if a logit is not finite.
Drift measure_drift(std::span<const float> now, std::span<const float> before);

/// Sums from which the cosine of two vectors is computed. Sums of parts of the vectors add up to the sums of
/// the whole vectors.
struct CosineSums {
  double product = 0;    ///< sum of a[i] b[i]
  double squares_a = 0;  ///< sum of a[i]^2
  double squares_b = 0;

  CosineSums& operator+=(const CosineSums& more) {
    product += more.product;
    squares_a += more.squares_a;
    squares_b += more.squares_b;
    return *this;
  }
};

/// Sums over two vectors of one length.
CosineSums cosine_sums(std::span<const float> a, std::span<const float> b);

/// 1 - cosine: 0 where both vectors are zero, 1 where one is.
double cosine_distance(const CosineSums& sums);
double cosine_distance(std::span<const float> a, std::span<const float> b);

}  // namespace lacuna
