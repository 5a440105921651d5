#include "train/objective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

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

TEST(MaskedExamples, HidesOnlyTokensOfTheResponse) {
  for (uint64_t step = 0; step < 50; ++step) {
    const Batch batch = batch_of(8, 10, 4);
    const Examples masked = masked_examples(batch, kMask, 1, step);
    EXPECT_FALSE(masked.predicted.logical_and(batch.response.logical_not()).any().item<bool>());
    EXPECT_TRUE(masked.inputs.masked_select(masked.predicted).eq(kMask).all().item<bool>());
    const torch::Tensor kept = masked.predicted.logical_not();
    EXPECT_TRUE(masked.inputs.masked_select(kept).equal(batch.tokens.masked_select(kept)));
  }
}

TEST(MaskedExamples, SpreadsTheRatiosOfABatchEvenly) {
  const Batch batch = batch_of(10, 11, 1);
  for (uint64_t step = 0; step < 20; ++step) {
    const torch::Tensor weight = masked_examples(batch, kMask, 1, step).weight;
    const torch::Tensor ratios = std::get<0>((1 / (weight * 10)).sort());
    EXPECT_GE(ratios[0].item<float>(), kMinRatio - 1e-6);
    EXPECT_LE(ratios[9].item<float>(), 1 + 1e-6);
    const torch::Tensor distances = ratios.slice(0, 1) - ratios.slice(0, 0, 9);
    EXPECT_LT((distances - 0.1 * (1 - kMinRatio)).abs().max().item<float>(), 1e-5);
  }
}

TEST(MaskedExamples, MasksEveryPositionAsOftenAsItsRatioSays) {
  const Batch batch = batch_of(10, 11, 1);
  torch::Tensor counts = torch::zeros({11});
  double expected = 0;
  for (uint64_t step = 0; step < 1000; ++step) {
    const Examples masked = masked_examples(batch, kMask, 1, step);
    counts += masked.predicted.sum(0);
    expected += (1 / (masked.weight * 10)).sum().item<double>();
  }
  // About half of 10,000 coins, deviation below 50.
  EXPECT_LT((counts.slice(0, 1) - expected).abs().max().item<float>(), 250);
}

TEST(MaskedExamples, DependsOnSeedAndStepAlone) {
  const Batch batch = batch_of(8, 10, 4);
  EXPECT_TRUE(
      masked_examples(batch, kMask, 1, 5).predicted.equal(masked_examples(batch, kMask, 1, 5).predicted));
  EXPECT_FALSE(
      masked_examples(batch, kMask, 1, 5).predicted.equal(masked_examples(batch, kMask, 1, 6).predicted));
  EXPECT_FALSE(
      masked_examples(batch, kMask, 1, 5).predicted.equal(masked_examples(batch, kMask, 2, 5).predicted));
}

TEST(NextTokenExamples, AskForEveryTokenOfTheResponseAndHideNone) {
  const Batch batch = batch_of(2, 5, 3);
  const Examples examples = next_token_examples(batch);
  EXPECT_TRUE(examples.inputs.equal(batch.tokens));
  EXPECT_TRUE(examples.targets.equal(batch.tokens));
  EXPECT_TRUE(examples.predicted.equal(batch.response));
  EXPECT_TRUE(examples.weight.equal(torch::tensor({0.5F, 0.5F})));
}

TEST(PredictingRows, LieOneBeforeWhatTheyPredictWhereLogitsAreShifted) {
  const Examples examples = next_token_examples(batch_of(2, 5, 3));
  EXPECT_TRUE(predicting_rows(traits_of(Family::kLlada), examples).equal(torch::tensor({3, 4, 8, 9})));
  for (const Family family : {Family::kDream, Family::kQwen2, Family::kQwen3})
    EXPECT_TRUE(predicting_rows(traits_of(family), examples).equal(torch::tensor({2, 3, 7, 8})));
}

TEST(WeightedLoss, EqualsTheSumByHand) {
  // Row 0: response of 4, t = 1/2, 2 masked; row 1: response of 3, t = 1/4, 1 masked.
  const torch::Tensor tokens = torch::tensor({{0, 1, 0, 1}, {1, 1, 1, 1}});
  const Examples examples{tokens, tokens, torch::tensor({{1, 1, 0, 0}, {0, 0, 0, 1}}).to(torch::kBool),
                          torch::tensor({2.F / 4, 4.F / 3})};
  const torch::Tensor probabilities = torch::tensor({{0.5F, 0.5F}, {0.75F, 0.25F}, {0.9F, 0.1F}});
  const double row0 = (-std::log(0.5) - std::log(0.25)) / 0.5 / 4;
  const double row1 = -std::log(0.1) / 0.25 / 3;
  EXPECT_NEAR(weighted_loss(probabilities.log(), examples).item<double>(), (row0 + row1) / 2, 1e-6);
}

class EveryFamily : public ::testing::TestWithParam<Family> {
 protected:
  EveryFamily() {
    torch::manual_seed(1);
    ModelShape shape;
    shape.family = GetParam();
    shape.layers = 2;
    shape.width = 8;
    shape.heads = 2;
    shape.ffn_width = 12;
    shape.vocabulary = 10;
    model_ = Transformer(shape);
  }

  Transformer model_ = nullptr;
};

TEST_P(EveryFamily, SeesTheFutureUnlessItIsCausal) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::tensor({{1, 2, 3, 4, 5}});
  torch::Tensor changed = tokens.clone();
  changed[0][3] = 7;
  const torch::Tensor difference = (model_->hidden(tokens) - model_->hidden(changed)).abs().amax(-1)[0];
  const bool causal = traits_of(GetParam()).causal;
  for (int64_t at = 0; at < 3; ++at) EXPECT_EQ(difference[at].item<float>() == 0, causal) << at;
  for (int64_t at = 3; at < 5; ++at) EXPECT_GT(difference[at].item<float>(), 0) << at;
}

TEST_P(EveryFamily, HasTheGradientThatFiniteDifferencesGive) {
  model_->to(torch::kFloat64);
  const FamilyTraits& family = traits_of(GetParam());
  const Examples examples = make_examples(family, batch_of(3, 6, 2), kMask, 1, 0);
  const auto loss = [&] {
    const torch::Tensor hidden = model_->hidden(examples.inputs).flatten(0, 1);
    return weighted_loss(model_->logits(hidden.index_select(0, predicting_rows(family, examples))), examples);
  };
  const auto gradients = torch::autograd::grad({loss()}, model_->parameters());
  // The norm and the loss compute in f32, so the step cannot be tiny.
  constexpr double kStep = 1e-2;
  const torch::NoGradGuard no_grad;
  const auto parameters = model_->named_parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    torch::Tensor parameter = parameters[i].value();
    const torch::Tensor direction = torch::randn_like(parameter);
    const torch::Tensor unit = direction / direction.norm();
    parameter.add_(unit, kStep);
    const double above = loss().item<double>();
    parameter.sub_(unit, 2 * kStep);
    const double below = loss().item<double>();
    parameter.add_(unit, kStep);
    const double expected = (gradients[i] * unit).sum().item<double>();
    EXPECT_NEAR((above - below) / (2 * kStep), expected, 1e-3 + 0.02 * std::abs(expected))
        << parameters[i].key();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily,
                         ::testing::Values(Family::kLlada, Family::kDream, Family::kQwen2, Family::kQwen3),
                         [](const auto& instance) { return std::string(traits_of(instance.param).name); });

}  // namespace
}  // namespace lacuna::train
