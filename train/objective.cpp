#include "train/objective.h"

#include <cmath>

#include "base/rng.h"

namespace lacuna::train {
namespace {

enum Purpose : uint8_t { kRatioOffset, kMasking };  // coordinates that keep the streams apart

}  // namespace

MaskedBatch mask_batch(const Batch& batch, int64_t mask_id, uint64_t seed, uint64_t step) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const double offset = RngStream(seed, kRatioOffset, step).uniform(0);
  const RngStream coins(seed, kMasking, step);

  MaskedBatch out{batch.tokens.clone(), torch::zeros_like(batch.response), torch::empty({rows})};
  auto tokens = out.tokens.accessor<int64_t, 2>();
  auto masked = out.masked.accessor<bool, 2>();
  auto ratio = out.ratio.accessor<float, 1>();
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
  return out;
}

torch::Tensor masked_loss(const torch::Tensor& logits, const Batch& batch, const MaskedBatch& masked) {
  const torch::Tensor targets = batch.tokens.masked_select(masked.masked);
  const torch::Tensor response_length = batch.response.sum(1).to(torch::kFloat32);
  const torch::Tensor row_weight = 1 / (masked.ratio * response_length);
  const torch::Tensor weights =
      row_weight.unsqueeze(1).expand(masked.masked.sizes()).masked_select(masked.masked);
  const torch::Tensor losses = torch::nn::functional::cross_entropy(
      logits.to(torch::kFloat32), targets,
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
  return (losses * weights).sum() / static_cast<double>(batch.tokens.size(0));
}

}  // namespace lacuna::train
