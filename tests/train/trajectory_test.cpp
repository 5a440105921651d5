#include "train/trajectory.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "train/predict.h"

namespace lacuna::train::trajectory_test {
namespace {

constexpr int64_t kMask = 19, kBlock = 4;

Transformer teacher(Family family) {
  torch::manual_seed(2);
  ModelShape shape;
  shape.family = family;
  shape.layers = 2;
  shape.width = 16;
  shape.heads = 2;
  shape.ffn_width = 24;
  shape.vocabulary = 20;
  shape.block_length = kBlock;
  return Transformer(shape);
}

Batch batch() {
  Batch batch{torch::arange(2 * 13).remainder(19).view({2, 13}), torch::zeros({2, 13}, torch::kBool)};
  batch.response[0].slice(0, 3).fill_(true);
  batch.response[1].slice(0, 6).fill_(true);
  return batch;
}

/// One row, one token a pass, written from the definition.
std::pair<std::vector<int64_t>, std::vector<int64_t>> answer_alone(Transformer& model, const Batch& batch,
                                                                   int64_t row) {
  const FamilyTraits& family = model->shape().traits();
  const int64_t length = batch.tokens.size(1);
  const int64_t first = batch.response[row].to(torch::kInt64).argmax().item<int64_t>();
  const int64_t origin = family.objective == Objective::kBlocks ? 0 : first;
  torch::Tensor tokens = batch.tokens[row].clone();
  tokens.slice(0, first).fill_(kMask);
  std::vector<int64_t> order(static_cast<size_t>(length), -1);
  int64_t pass = 0;
  for (int64_t begin = origin + (first - origin) / kBlock * kBlock; begin < length; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, length);
    for (int64_t left = end - std::max(begin, first); left > 0; --left, ++pass) {
      const torch::Tensor logits = model->logits(model->hidden(tokens.unsqueeze(0)))[0].clone();
      logits.select(1, kMask).fill_(-1e9);
      int64_t most_confident = -1;
      double best = -1;
      for (int64_t at = std::max(begin, first); at < end; ++at) {
        if (order[static_cast<size_t>(at)] >= 0) continue;
        const int64_t source = family.shifted_logits ? at - 1 : at;
        const double confidence = torch::softmax(logits[source], -1).max().item<double>();
        if (confidence > best) {
          best = confidence;
          most_confident = at;
        }
      }
      tokens[most_confident] = logits[family.shifted_logits ? most_confident - 1 : most_confident].argmax();
      order[static_cast<size_t>(most_confident)] = pass;
    }
  }
  return {std::vector<int64_t>(tokens.data_ptr<int64_t>(), tokens.data_ptr<int64_t>() + length), order};
}

TEST(RecordTrajectory, WritesTheSurestTokenOfEachRowsFirstOpenBlock) {
  for (const Family family : {Family::kLlada, Family::kDream, Family::kSdar}) {
    Transformer model = teacher(family);
    const torch::NoGradGuard no_grad;
    const Trajectory trajectory = record_trajectory(model, batch(), kBlock, kMask);
    for (int64_t row = 0; row < 2; ++row) {
      const auto [tokens, order] = answer_alone(model, batch(), row);
      EXPECT_TRUE(trajectory.batch.tokens[row].equal(torch::tensor(tokens))) << traits_of(family).name;
      EXPECT_TRUE(trajectory.order[row].equal(torch::tensor(order))) << traits_of(family).name;
    }
    EXPECT_FALSE(trajectory.batch.tokens.eq(kMask).any().item<bool>());
    EXPECT_TRUE(trajectory.batch.tokens[0].slice(0, 0, 3).equal(batch().tokens[0].slice(0, 0, 3)));
  }
}

TEST(TrajectoryExamples, HideMoreAsTheRunGoesOn) {
  Transformer model = teacher(Family::kSdar);
  const Trajectory trajectory = record_trajectory(model, batch(), kBlock, kMask);
  const auto masked = [&](double progress) {
    int64_t count = 0;
    for (uint64_t step = 0; step < 40; ++step) {
      count += trajectory_examples(traits_of(Family::kSdar), trajectory, kBlock, kMask, progress, 1, step)
                   .rows.size(0);
    }
    return count;
  };
  EXPECT_LT(masked(0), masked(0.5));
  EXPECT_LT(masked(0.5), masked(1));
}

TEST(TrajectoryExamples, DependOnSeedAndStepAloneAndReachEveryBlock) {
  Transformer model = teacher(Family::kLlada);
  const Trajectory trajectory = record_trajectory(model, batch(), kBlock, kMask);
  const auto inputs = [&](uint64_t seed, uint64_t step) {
    return trajectory_examples(traits_of(Family::kLlada), trajectory, kBlock, kMask, 0, seed, step).inputs;
  };
  EXPECT_TRUE(inputs(1, 5).equal(inputs(1, 5)));
  std::set<int64_t> first_masks;
  for (uint64_t step = 0; step < 40; ++step)
    first_masks.insert((inputs(1, step)[0].eq(kMask).to(torch::kInt64).argmax().item<int64_t>() - 3) /
                       kBlock);
  EXPECT_EQ(first_masks, (std::set<int64_t>{0, 1, 2}));
}

TEST(HasTrajectories, IsTrueOfMaskedAndBlockDiffusionWithOneCopy) {
  std::set<std::string_view> names;
  for (const FamilyTraits& family : families()) {
    if (has_trajectories(family)) names.insert(family.name);
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"llada", "dream", "sdar"}));
}

}  // namespace
}  // namespace lacuna::train::trajectory_test
