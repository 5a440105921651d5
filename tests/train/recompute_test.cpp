#include "train/recompute.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <vector>

#include "train/model.h"
#include "train/objective.h"
#include "train/predict.h"

namespace lacuna::train::recompute_test {
namespace {

TEST(Recomputed, HasTheGradientsOfTheBlockAndRunsItTwice) {
  torch::Tensor weight = torch::randn({3, 3}).requires_grad_();
  torch::Tensor x = torch::randn({2, 3}).requires_grad_();
  int runs = 0;
  const auto block = [&](const torch::Tensor& input) {
    ++runs;
    return torch::matmul(input, weight).tanh().square();
  };
  const auto direct = torch::autograd::grad({block(x).sum()}, {x, weight});
  runs = 0;
  const torch::Tensor y = recomputed(block, x, {weight});
  EXPECT_EQ(runs, 1);
  const auto again = torch::autograd::grad({y.sum()}, {x, weight});
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(again[0].equal(direct[0]));
  EXPECT_TRUE(again[1].equal(direct[1]));
}

TEST(Recomputed, IsTheBlockAloneWhereNothingIsLearned) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor y = recomputed([](const torch::Tensor& x) { return 2 * x; }, torch::ones({2}), {});
  EXPECT_TRUE(y.equal(torch::full({2}, 2.F)));
  EXPECT_FALSE(y.requires_grad());
}

TEST(Recomputed, ComputesInTheTypeOfTheForwardPass) {
  torch::Tensor weight = torch::randn({64, 64}).requires_grad_();
  torch::Tensor x = torch::randn({4, 64}).requires_grad_();
  std::vector<torch::ScalarType> types;
  const auto block = [&](const torch::Tensor& input) {
    const torch::Tensor y = torch::matmul(input, weight);
    types.push_back(y.scalar_type());
    return y;
  };
  at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
  at::autocast::set_cpu_enabled(true);
  const torch::Tensor y = recomputed(block, x, {weight});
  at::autocast::set_cpu_enabled(false);
  at::autocast::clear_cache();
  torch::autograd::grad({y.to(torch::kFloat32).sum()}, {weight});
  EXPECT_EQ(types, (std::vector<torch::ScalarType>{torch::kBFloat16, torch::kBFloat16}));
  EXPECT_FALSE(at::autocast::is_cpu_enabled());
}

class EveryModel : public ::testing::TestWithParam<bool> {};

TEST_P(EveryModel, HasTheSameGradientsWithoutItsActivations) {
  const bool has_lora = GetParam();
  for (const FamilyTraits& family : families()) {
    if (has_lora && (family.experts || family.interpolates())) continue;
    torch::manual_seed(1);
    ModelShape shape;
    shape.family = family.family;
    shape.layers = 3;
    shape.width = 16;
    shape.heads = 2;
    shape.ffn_width = 24;
    shape.vocabulary = 10;
    shape.experts.ffn_width = 8;
    shape.canvas = {.length = 6, .window = 5};
    Transformer model(shape);
    if (has_lora) {
      model->add_lora({.rank = 2, .alpha = 4});
      const torch::NoGradGuard no_grad;
      for (const auto& item : model->learned()) item.value().normal_(0, 0.1);
    }
    Batch batch{torch::arange(30).remainder(9).view({3, 10}), torch::ones({3, 10}, torch::kBool)};
    batch.response.slice(1, 0, 2).fill_(false);
    const Examples examples = make_examples(
        family, batch, {.mask_id = 9, .slot_sizes = {3}, .vocabulary = 10, .canvas_length = 6}, 0);
    const torch::Tensor soft = soft_embeddings(model, examples);
    const auto gradients = [&](bool keeps) {
      model->keep_activations(keeps);
      std::vector<torch::Tensor> learned;
      for (const auto& item : model->learned()) learned.push_back(item.value());
      return torch::autograd::grad({weighted_loss(predict(model, examples, soft), examples)}, learned, {},
                                   c10::nullopt, false, /*allow_unused=*/true);
    };
    const auto kept = gradients(true), again = gradients(false);
    double largest = 0;
    for (size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(kept[i].defined(), again[i].defined()) << family.name << " " << i;
      if (!kept[i].defined()) continue;
      largest = std::max(largest, kept[i].abs().max().item<double>());
      EXPECT_TRUE(kept[i].allclose(again[i], 1e-5, 1e-7)) << family.name << " " << i;
    }
    EXPECT_GT(largest, 1e-4) << family.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "lora" : "whole"; });

}  // namespace
}  // namespace lacuna::train::recompute_test
