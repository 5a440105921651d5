// Blocks: block_examples() and strided_examples() of objective.h.
#include <algorithm>

#include "base/rng.h"
#include "train/model.h"
#include "train/objective_parts.h"

namespace lacuna::train {

BlockPass block_pass(const Batch& batch, int64_t block_length, int64_t copies, bool causal) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const int64_t first = batch.response.any(0).to(torch::kInt64).argmax().item<int64_t>();
  const int64_t begin = first / block_length * block_length;
  const int64_t copy_length = length - begin;
  const torch::Tensor positions =
      batch.positions.defined() ? batch.positions : torch::arange(length).repeat({rows, 1});
  const torch::Tensor later = unseen_by_blocks(length, block_length);
  const torch::Tensor earlier = later.t();
  const torch::Tensor behind = unseen_by_blocks(length, 1);
  torch::Tensor other_blocks = later.logical_or(earlier);
  if (causal) other_blocks = other_blocks.logical_or(behind);
  other_blocks = other_blocks.slice(0, begin).slice(1, begin);
  const torch::Tensor all = torch::ones({copy_length, copy_length}, torch::kBool);
  std::vector<torch::Tensor> unseen = {
      // clean rows, then each copy's
      torch::cat({causal ? behind : later, torch::ones({length, copies * copy_length}, torch::kBool)}, 1)};
  for (int64_t copy = 0; copy < copies; ++copy) {
    std::vector<torch::Tensor> of_copy = {earlier.slice(0, begin).logical_not()};
    for (int64_t other = 0; other < copies; ++other) of_copy.push_back(other == copy ? other_blocks : all);
    unseen.push_back(torch::cat(of_copy, 1));
  }
  return {torch::cat({batch.tokens, batch.tokens.slice(1, begin).repeat({1, copies})}, 1).contiguous(),
          torch::cat({positions, positions.slice(1, begin).repeat({1, copies})}, 1),
          torch::cat(unseen),
          begin,
          length,
          length + copies * copy_length};
}

Examples BlockPass::examples(const Predictions& predictions) const {
  return {inputs,
          positions,
          unseen,
          to_tensor(predictions.rows),
          to_tensor(predictions.targets),
          predictions.weight_tensor()};
}

double block_ratio(const Batch& batch, int64_t row, int64_t block, uint64_t seed, uint64_t step) {
  const auto coordinate = static_cast<uint64_t>(row * batch.tokens.size(1) + block);
  return kMinRatio + (1 - kMinRatio) * RngStream(seed, kBlockRatio, step).uniform(coordinate);
}

Examples block_examples(const FamilyTraits& family, const Batch& batch, int64_t block_length, int64_t mask_id,
                        uint64_t seed, uint64_t step, double least_weight_ratio) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const RngStream coins(seed, kBlockMasking, step);
  const torch::Tensor lengths = response_lengths(batch);
  const auto response = batch.response.accessor<bool, 2>();
  const auto tokens = batch.tokens.accessor<int64_t, 2>();
  BlockPass pass = block_pass(batch, block_length, family.complementary_masks ? 2 : 1, /*causal=*/false);
  auto seen = pass.inputs.accessor<int64_t, 2>();
  Predictions predictions;
  for (int64_t row = 0; row < rows; ++row) {
    const double whole_row = 1 / (static_cast<double>(rows) * lengths[row].item<double>());
    for (int64_t at = pass.begin; at < length; ++at) {
      if (!response[row][at]) continue;
      const double t = block_ratio(batch, row, at / block_length, seed, step);
      const bool masked = coins.uniform(static_cast<uint64_t>(row * length + at)) < t;
      if (!masked && !family.complementary_masks) continue;
      const double share = whole_row * weight_of(batch, row, at);
      const int64_t masked_row = pass.row_of(masked ? 0 : 1, at);
      seen[row][masked_row] = mask_id;
      const bool opens_block = at % block_length == 0;
      const int64_t row_before = opens_block ? at - 1 : masked_row - 1;
      predictions.add(row * pass.pass_length + (family.shifted_logits ? row_before : masked_row),
                      tokens[row][at],
                      share / (family.complementary_masks ? 1 : std::max(t, least_weight_ratio)));
    }
  }
  return pass.examples(predictions);
}

Examples strided_examples(const Batch& batch, int64_t masks, int64_t mask_id, double clean_weight) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const auto response = batch.response.accessor<bool, 2>();
  const auto tokens = batch.tokens.accessor<int64_t, 2>();
  BlockPass pass = block_pass(batch, masks, /*copies=*/1, /*causal=*/true);
  auto seen = pass.inputs.accessor<int64_t, 2>();
  Predictions predictions;
  for (int64_t row = 0; row < rows; ++row) {
    double clean = 0, hidden = 0;  // sums of the weights of predicted tokens
    for (int64_t at = pass.begin; at < length; ++at) {
      if (!response[row][at]) continue;
      seen[row][pass.row_of(0, at)] = mask_id;
      clean += weight_of(batch, row, at);
      if (response[row][at - 1]) hidden += weight_of(batch, row, at);
    }
    const auto share = [&](int64_t at, double sum) {
      return weight_of(batch, row, at) / (static_cast<double>(rows) * sum);
    };
    const int64_t first_row = row * pass.pass_length;
    for (int64_t at = pass.begin; at < length; ++at) {
      if (!response[row][at]) continue;
      predictions.add(first_row + at - 1, tokens[row][at], clean_weight * share(at, clean));
      if (response[row][at - 1])
        predictions.add(first_row + pass.row_of(0, at - 1), tokens[row][at], share(at, hidden));
    }
  }
  return pass.examples(predictions);
}

}  // namespace lacuna::train
