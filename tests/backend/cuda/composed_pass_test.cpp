// Whole passes made of the kernels, against the pass on the CPU.
#include "composed_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/tiny_models.h"
#include "orders.h"

namespace lacuna::cuda::composed_pass_test {
namespace {

constexpr uint64_t kSeed = 4;
constexpr int32_t kPages = 7;

/// Configs of the kinds of families that the kernels know, with widths that are no multiples of a tile.
std::vector<ModelConfig> dense_configs() {
  ModelConfig masked = tiny_configs()[0];
  masked.head_dim = 32;

  ModelConfig scaled = tiny_configs()[1];  // full norms, clip, scales
  scaled.head_dim = 32;
  scaled.residual_scale = 0.5F;

  ModelConfig causal = tiny_configs()[6];  // Qwen3: norm per head, shared K/V heads
  causal.head_dim = 64;

  ModelConfig biased = tiny_configs()[4];  // Dream
  biased.head_dim = 32;

  ModelConfig capped = tiny_configs()[0];
  capped.head_dim = 32;
  capped.rotary_dim = 16;
  capped.attn_soft_cap = 5;
  capped.activation = Activation::kSquaredRelu;
  capped.ffn_bias = true;
  return {masked, scaled, causal, biased, capped};
}

ComposedModel composed(const ModelConfig& config) {
  ThreadPool threads(1);
  return {config, random_parameters(config, kSeed, DType::kBF16, threads, {}), kPages};
}

std::vector<float> on_cpu(const ModelConfig& config, DType dtype, const StepPlan& plan) {
  ThreadPool threads(1);
  Runner runner(Model::random(config, kSeed, dtype, threads), default_table(), 1);
  return runner.logits(plan);
}

double root_mean_square(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

TEST(ComposedPass, IsAsCloseToF32AsThePassInBf16OnTheCpu) {
  for (const ModelConfig& config : dense_configs()) {
    const StepPlan plan = canvas_plan(random_tokens(3, 37, config.vocab_size), own_rows_of(config));
    const auto exact = on_cpu(config, DType::kF32, plan);
    const auto rounded = on_cpu(config, DType::kBF16, plan);
    const auto got = composed(config).logits(plan);
    ASSERT_EQ(got.size(), exact.size());
    const double expected = root_mean_square(rounded, exact);
    const double scale = root_mean_square(exact, std::vector<float>(exact.size(), 0));
    EXPECT_GT(expected, 0);
    EXPECT_LT(root_mean_square(got, exact), 1.5 * expected) << config.architecture << " of scale " << scale;
    EXPECT_LT(expected, 0.02 * scale);
  }
}

TEST(ComposedPass, GivesTheSameBitsInEveryOrderOfThreads) {
  const ModelConfig config = dense_configs()[2];
  const StepPlan plan = canvas_plan(random_tokens(5, 20, config.vocab_size), own_rows_of(config));
  std::vector<float> first;
  simt::in_every_order([&](const std::string& order) {
    const auto got = composed(config).logits(plan);
    if (first.empty()) first = got;
    EXPECT_EQ(got, first) << order;
  });
}

TEST(ComposedPass, ReadsAKeptPrefixAsIfItHadComputedItAgain) {
  const ModelConfig config = dense_configs()[2];
  const std::vector<TokenId> tokens = random_tokens(6, 60, config.vocab_size);
  const auto whole = composed(config).logits(canvas_plan(tokens, OwnRows::kCausal));
  for (const int32_t kept : {1, 31, 32, 45}) {
    ComposedModel model = composed(config);
    model.logits(canvas_plan({tokens.begin(), tokens.begin() + kept}, OwnRows::kCausal));
    StepPlan rest;
    rest.rules.emplace_back();
    for (int32_t i = kept; i < 60; ++i) {
      rest.add_row(tokens[static_cast<size_t>(i)], i, i);
      LogitRow row;
      row.row = i - kept;
      rest.logits.push_back(row);
    }
    rest.groups.push_back({0, {0, 60 - kept}, {{0, kept}}, OwnRows::kCausal});
    const auto got = model.logits(rest);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin() + kept * config.vocab_size))
        << kept << " kept";
  }
}

TEST(ComposedPass, GivesARowTheSameBitsInAPassOfAnyLength) {
  const ModelConfig config = dense_configs()[0];
  const std::vector<TokenId> tokens = random_tokens(8, 150, config.vocab_size);
  // Blocks that see themselves and those before: the first do not depend on how many follow, in products of
  // 150 rows or of ten.
  const auto all = composed(config).logits(blocks_plan(tokens, 10));
  const auto few = composed(config).logits(blocks_plan({tokens.begin(), tokens.begin() + 10}, 10));
  EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin()));
}

}  // namespace
}  // namespace lacuna::cuda::composed_pass_test
