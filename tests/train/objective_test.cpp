#include "train/objective.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/model.h"

namespace lacuna::train {
namespace {

constexpr int64_t kMask = 9;

Batch batch_of(int64_t rows, int64_t length, int64_t prompt) {
  Batch batch{torch::arange(rows * length).remainder(9).view({rows, length}),
              torch::ones({rows, length}, torch::kBool)};
  batch.response.slice(1, 0, prompt).fill_(false);
  return batch;
}

TEST(MaskBatch, HidesOnlyTokensOfTheResponse) {
  for (uint64_t step = 0; step < 50; ++step) {
    const Batch batch = batch_of(8, 10, 4);
    const MaskedBatch masked = mask_batch(batch, kMask, 1, step);
    EXPECT_FALSE(masked.masked.logical_and(batch.response.logical_not()).any().item<bool>());
    EXPECT_TRUE(masked.tokens.masked_select(masked.masked).eq(kMask).all().item<bool>());
    const torch::Tensor kept = masked.masked.logical_not();
    EXPECT_TRUE(masked.tokens.masked_select(kept).equal(batch.tokens.masked_select(kept)));
  }
}

TEST(MaskBatch, SpreadsTheRatiosOfABatchEvenly) {
  const Batch batch = batch_of(10, 10, 0);
  for (uint64_t step = 0; step < 20; ++step) {
    const torch::Tensor ratios = std::get<0>(mask_batch(batch, kMask, 1, step).ratio.sort());
    EXPECT_GE(ratios[0].item<float>(), kMinRatio);
    EXPECT_LE(ratios[9].item<float>(), 1);
    const torch::Tensor distances = ratios.slice(0, 1) - ratios.slice(0, 0, 9);
    EXPECT_LT((distances - 0.1 * (1 - kMinRatio)).abs().max().item<float>(), 1e-5);
  }
}

TEST(MaskBatch, MasksEveryPositionAsOftenAsItsRatioSays) {
  const Batch batch = batch_of(10, 10, 0);
  torch::Tensor counts = torch::zeros({10});
  double expected = 0;
  for (uint64_t step = 0; step < 1000; ++step) {
    const MaskedBatch masked = mask_batch(batch, kMask, 1, step);
    counts += masked.masked.sum(0);
    expected += masked.ratio.sum().item<double>();
  }
  // About half of 10,000 coins, deviation below 50.
  EXPECT_LT((counts - expected).abs().max().item<float>(), 250);
}

TEST(MaskBatch, DependsOnSeedAndStepAlone) {
  const Batch batch = batch_of(8, 10, 4);
  EXPECT_TRUE(mask_batch(batch, kMask, 1, 5).masked.equal(mask_batch(batch, kMask, 1, 5).masked));
  EXPECT_FALSE(mask_batch(batch, kMask, 1, 5).masked.equal(mask_batch(batch, kMask, 1, 6).masked));
  EXPECT_FALSE(mask_batch(batch, kMask, 1, 5).masked.equal(mask_batch(batch, kMask, 2, 5).masked));
}

TEST(MaskedLoss, EqualsTheSumByHand) {
  // Row 0: response of 4, t = 1/2, 2 masked; row 1: response of 3, t = 1/4, 1 masked.
  const Batch batch{torch::tensor({{0, 1, 0, 1}, {1, 1, 1, 1}}),
                    torch::tensor({{1, 1, 1, 1}, {0, 1, 1, 1}}).to(torch::kBool)};
  const MaskedBatch masked{batch.tokens, torch::tensor({{1, 1, 0, 0}, {0, 0, 0, 1}}).to(torch::kBool),
                           torch::tensor({0.5F, 0.25F})};
  const torch::Tensor probabilities = torch::tensor({{0.5F, 0.5F}, {0.75F, 0.25F}, {0.9F, 0.1F}});
  const double row0 = (-std::log(0.5) - std::log(0.25)) / 0.5 / 4;
  const double row1 = -std::log(0.1) / 0.25 / 3;
  EXPECT_NEAR(masked_loss(probabilities.log(), batch, masked).item<double>(), (row0 + row1) / 2, 1e-6);
}

TEST(MaskedLoss, HasTheGradientThatFiniteDifferencesGive) {
  torch::manual_seed(1);
  ModelShape shape;
  shape.layers = 2;
  shape.width = 8;
  shape.heads = 2;
  shape.ffn_width = 12;
  shape.vocabulary = 10;
  Llada model(shape);
  model->to(torch::kFloat64);
  const Batch batch = batch_of(3, 6, 2);
  const MaskedBatch masked = mask_batch(batch, kMask, 1, 0);
  const auto loss = [&] {
    const torch::Tensor rows = masked.masked.flatten().nonzero().squeeze(1);
    return masked_loss(model->logits(model->hidden(masked.tokens).flatten(0, 1).index_select(0, rows)), batch,
                       masked);
  };
  const auto gradients = torch::autograd::grad({loss()}, model->parameters());
  // The norm and the loss compute in f32, so the step cannot be tiny.
  constexpr double kStep = 1e-2;
  const torch::NoGradGuard no_grad;
  const auto parameters = model->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor direction = torch::randn_like(parameters[i]);
    const torch::Tensor unit = direction / direction.norm();
    parameters[i].add_(unit, kStep);
    const double above = loss().item<double>();
    parameters[i].sub_(unit, 2 * kStep);
    const double below = loss().item<double>();
    parameters[i].add_(unit, kStep);
    const double expected = (gradients[i] * unit).sum().item<double>();
    EXPECT_NEAR((above - below) / (2 * kStep), expected, 1e-3 + 0.02 * std::abs(expected))
        << "parameter " << i;
  }
}

}  // namespace
}  // namespace lacuna::train
