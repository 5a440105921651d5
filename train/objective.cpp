#include "train/objective.h"

#include <cmath>

#include "base/rng.h"

namespace lacuna::train {
namespace {

enum Purpose : uint8_t { kRatioOffset, kMasking };  // coordinates that keep the streams apart

torch::Tensor response_lengths(const Batch& batch) {
  return batch.response.sum(1).to(torch::kFloat32);
}

}  // namespace

Examples masked_examples(const Batch& batch, int64_t mask_id, uint64_t seed, uint64_t step) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const double offset = RngStream(seed, kRatioOffset, step).uniform(0);
  const RngStream coins(seed, kMasking, step);

  torch::Tensor inputs = batch.tokens.clone();
  torch::Tensor masks = torch::zeros_like(batch.response);
  torch::Tensor ratios = torch::empty({rows});
  auto tokens = inputs.accessor<int64_t, 2>();
  auto masked = masks.accessor<bool, 2>();
  auto ratio = ratios.accessor<float, 1>();
  const auto response = batch.response.accessor<bool, 2>();
  for (int64_t row = 0; row < rows; ++row) {
    double whole = 0;
    const double spread = std::modf(offset + static_cast<double>(row) / static_cast<double>(rows), &whole);
    const double t = kMinRatio + (1 - kMinRatio) * spread;
    ratio[row] = static_cast<float>(t);
    for (int64_t at = 0; at < length; ++at) {
      if (!response[row][at] || coins.uniform(static_cast<uint64_t>(row * length + at)) >= t) continue;
      masked[row][at] = true;
      tokens[row][at] = mask_id;
    }
  }
  return {inputs, batch.tokens, masks, 1 / (ratios * response_lengths(batch))};
}

Examples next_token_examples(const Batch& batch) {
  return {batch.tokens, batch.tokens, batch.response, 1 / response_lengths(batch)};
}

Examples make_examples(const FamilyTraits& family, const Batch& batch, int64_t mask_id, uint64_t seed,
                       uint64_t step) {
  return family.causal ? next_token_examples(batch) : masked_examples(batch, mask_id, seed, step);
}

torch::Tensor predicting_rows(const FamilyTraits& family, const Examples& examples) {
  const torch::Tensor predicted = examples.predicted.flatten().nonzero().squeeze(1);
  return family.shifted_logits ? predicted - 1 : predicted;
}

torch::Tensor weighted_loss(const torch::Tensor& logits, const Examples& examples) {
  const torch::Tensor& predicted = examples.predicted;
  const torch::Tensor targets = examples.targets.masked_select(predicted);
  const torch::Tensor weights =
      examples.weight.unsqueeze(1).expand(predicted.sizes()).masked_select(predicted);
  const torch::Tensor losses = torch::nn::functional::cross_entropy(
      logits.to(torch::kFloat32), targets,
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
  return (losses * weights).sum() / static_cast<double>(predicted.size(0));
}

}  // namespace lacuna::train
