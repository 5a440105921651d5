// Logits of passes on the device against those of the CPU.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_models.h"

namespace lacuna::cuda {

inline constexpr int32_t kTokens = 37;

inline std::vector<float> logits_of(const std::shared_ptr<const BackendModel>& model, const StepPlan& plan) {
  Passes passes(model);
  passes.add_sequence();
  return passes.logits(plan);
}

inline StepPlan plan_of(const ModelConfig& config, uint64_t seed, int32_t tokens = kTokens) {
  return canvas_plan(random_tokens(seed, tokens, config.vocab_size), own_rows_of(config));
}

inline double root_mean_square(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

/// By how much logits of a pass in bf16 on two machines may differ, as a part of their own root mean square.
/// Both round the same numbers, but after sums in other orders. A rounding to bf16 errs by at most 2^-9 of a
/// number, and by 2^-9 / sqrt(3) in the root mean square; two machines differ by sqrt(2) times that at most.
/// A layer rounds six times on the way to the residual stream (the normed rows twice, queries with keys and
/// values, the weights of attention, what is attended, and the inner rows of the feed-forward layer), the
/// head once more, and errors of many roundings add up like independent ones.
inline double bound_of(const ModelConfig& config) {
  return std::ldexp(1.0, -9) * std::sqrt(static_cast<double>(6 * config.num_layers + 1));
}

inline void expect_close(const ModelConfig& config, const WeightFormats& formats,
                         const std::shared_ptr<const BackendModel>& on_cpu, const std::string& name,
                         int32_t tokens = kTokens) {
  const StepPlan plan = plan_of(config, 3, tokens);
  const auto expected = logits_of(on_cpu, plan);
  const auto got = logits_of(cuda_model(config, formats), plan);
  const double scale = root_mean_square(expected, std::vector<float>(expected.size(), 0));
  EXPECT_GT(scale, 1) << name;
  EXPECT_LT(root_mean_square(got, expected), bound_of(config) * scale) << name;
}

inline void expect_close(const ModelConfig& config, const WeightFormats& formats, const std::string& name,
                         int32_t tokens = kTokens) {
  expect_close(config, formats, load_on_cpu(one_thread(), {}, config, formats, kWeightSeed, {}), name,
               tokens);
}

}  // namespace lacuna::cuda
