#include "train/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <sstream>
#include <vector>

namespace lacuna::train::adamw_test {
namespace {

/// Parameters in two groups, one of which decays.
struct Setting {
  std::vector<torch::Tensor> parameters, averages;
  std::vector<GradientParts> gradients;
  std::unique_ptr<torch::optim::AdamW> optimizer;

  Setting() {
    torch::manual_seed(1);
    for (const int64_t rows : {300, 7}) {
      parameters.push_back(torch::randn({rows, 401}).requires_grad_());
      averages.push_back(torch::randn({rows, 401}));
    }
    const auto group = [](const torch::Tensor& parameter, double decay) {
      auto options = torch::optim::AdamWOptions(0.01).betas({0.9, 0.98}).eps(1e-8).weight_decay(decay);
      return torch::optim::OptimizerParamGroup({parameter},
                                               std::make_unique<torch::optim::AdamWOptions>(options));
    };
    // In another order than that of `parameters`.
    optimizer = std::make_unique<torch::optim::AdamW>(
        std::vector{group(parameters[1], 0), group(parameters[0], 0.1)}, torch::optim::AdamWOptions(0.01));
  }

  void set_gradients(int step) {
    torch::manual_seed(100 + step);
    gradients.clear();
    for (const torch::Tensor& parameter : parameters) {
      parameter.mutable_grad() = torch::randn_like(parameter);
      gradients.push_back({parameter.grad()});
    }
  }

  std::vector<LearnedWeight> weights() const {
    std::vector<LearnedWeight> weights;
    for (size_t i = 0; i < parameters.size(); ++i) weights.push_back({parameters[i], averages[i], {}});
    return weights;
  }
};

TEST(Update, IsLibTorchsAdamWWithScaledGradientsAndAMovingAverage) {
  Setting ours, theirs;
  for (int step = 0; step < 7; ++step) {
    ours.set_gradients(step);
    theirs.set_gradients(step);
    update(*ours.optimizer, ours.weights(), ours.gradients, {.gradient_scale = 0.3, .average_decay = 0.9});
    const torch::NoGradGuard no_grad;
    for (const torch::Tensor& parameter : theirs.parameters) parameter.grad().mul_(0.3);
    theirs.optimizer->step();
    for (size_t i = 0; i < 2; ++i) theirs.averages[i].lerp_(theirs.parameters[i], 0.1);
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(ours.parameters[i].allclose(theirs.parameters[i], 1e-5, 1e-6));
    EXPECT_TRUE(ours.averages[i].allclose(theirs.averages[i], 1e-5, 1e-6));
  }
}

TEST(Update, ContinuesFromTheStateThatLibTorchSaves) {
  Setting whole, first, second;
  const auto step = [](Setting& setting, int number) {
    setting.set_gradients(number);
    update(*setting.optimizer, setting.weights(), setting.gradients, {});
  };
  for (int i = 0; i < 6; ++i) step(whole, i);
  for (int i = 0; i < 3; ++i) step(first, i);
  std::stringstream stream;
  torch::serialize::OutputArchive out;
  first.optimizer->save(out);
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  second.optimizer->load(in);
  {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < 2; ++i) second.parameters[i].copy_(first.parameters[i]);
  }
  for (int i = 3; i < 6; ++i) step(second, i);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(second.parameters[i].equal(whole.parameters[i]));
}

TEST(Update, HasTheSameBitsForAnyNumberOfThreads) {
  std::vector<torch::Tensor> results;
  const int before = torch::get_num_threads();
  for (const int threads : {1, 2}) {
    torch::set_num_threads(threads);
    Setting setting;
    setting.set_gradients(0);
    update(*setting.optimizer, setting.weights(), setting.gradients, {.average_decay = 0.5});
    results.push_back(setting.parameters[0].detach().clone());
  }
  torch::set_num_threads(before);
  EXPECT_TRUE(results[0].equal(results[1]));
}

TEST(Update, AddsUpPartsOfGradientsAndKeepsRoundedWeights) {
  Setting whole, parts;
  whole.set_gradients(0);
  parts.set_gradients(0);
  std::vector<LearnedWeight> weights = parts.weights();
  for (size_t i = 0; i < 2; ++i) {
    const torch::Tensor half = torch::randn_like(weights[i].values).to(torch::kBFloat16);
    parts.gradients[i] = {whole.gradients[i][0] - half.to(torch::kFloat32), half};
    weights[i].rounded = torch::zeros_like(weights[i].values, torch::kBFloat16);
  }
  EXPECT_NEAR(gradient_norm(parts.gradients), gradient_norm(whole.gradients), 1e-3);
  update(*whole.optimizer, whole.weights(), whole.gradients, {.average_decay = 0.9});
  update(*parts.optimizer, weights, parts.gradients, {.average_decay = 0.9});
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(parts.parameters[i].allclose(whole.parameters[i], 1e-4, 1e-5));
    EXPECT_TRUE(weights[i].rounded.equal(parts.parameters[i].to(torch::kBFloat16)));
  }
}

TEST(Update, IsTheSameWithLibTorchsOperations) {
  Setting fast, slow;
  fast.set_gradients(0);
  slow.set_gradients(0);
  update(*fast.optimizer, fast.weights(), fast.gradients, {.gradient_scale = 0.3, .average_decay = 0.9});
  for (GradientParts& parts : slow.gradients)
    parts = {parts[0].to(torch::kFloat64)};  // not f32: the operations
  update(*slow.optimizer, slow.weights(), slow.gradients, {.gradient_scale = 0.3, .average_decay = 0.9});
  EXPECT_NEAR(gradient_norm(slow.gradients), gradient_norm(fast.gradients), 1e-3);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(slow.parameters[i].allclose(fast.parameters[i], 1e-5, 1e-6));
    EXPECT_TRUE(slow.averages[i].allclose(fast.averages[i], 1e-5, 1e-6));
  }
}

TEST(GradientNorm, IsThatOfAllGradientsTogether) {
  Setting setting;
  setting.set_gradients(3);
  double squares = 0;
  for (const torch::Tensor& parameter : setting.parameters)
    squares += parameter.grad().square().sum().item<double>();
  EXPECT_NEAR(gradient_norm(setting.gradients), std::sqrt(squares), 1e-3);
}

}  // namespace
}  // namespace lacuna::train::adamw_test
