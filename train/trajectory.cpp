#include "train/trajectory.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "train/objective_parts.h"

namespace lacuna::train {
namespace {

/// [B, T] index of the block that each written position belongs to, in its row; -1: given.
torch::Tensor blocks_of(const Batch& batch, bool from_response, int64_t block_length) {
  torch::Tensor blocks = torch::full_like(batch.tokens, -1);
  const auto response = batch.response.accessor<bool, 2>();
  auto block = blocks.accessor<int64_t, 2>();
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    int64_t origin = from_response ? -1 : 0;
    for (int64_t at = 0; at < batch.tokens.size(1); ++at) {
      if (!response[row][at]) continue;
      if (origin < 0) origin = at;
      block[row][at] = (at - origin) / block_length;
    }
  }
  return blocks;
}

/// The positions of one block of a row that the teacher wrote last.
std::vector<int64_t> written_last(const int64_t* order, std::vector<int64_t> places, double t) {
  const auto count = static_cast<double>(places.size());
  const auto kept = static_cast<std::ptrdiff_t>((1 - t) * count);
  std::sort(places.begin(), places.end(), [&](int64_t a, int64_t b) { return order[a] < order[b]; });
  places.erase(places.begin(), places.begin() + kept);
  return places;
}

/// The positions of each block of a row.
std::vector<std::vector<int64_t>> places_of(const torch::Tensor& blocks) {
  std::vector<std::vector<int64_t>> places;
  const int64_t* const block = blocks.data_ptr<int64_t>();
  for (int64_t at = 0; at < blocks.size(0); ++at) {
    if (block[at] < 0) continue;
    places.resize(std::max(places.size(), static_cast<size_t>(block[at]) + 1));
    places[static_cast<size_t>(block[at])].push_back(at);
  }
  std::erase_if(places, [](const std::vector<int64_t>& of_block) { return of_block.empty(); });
  return places;
}

}  // namespace

bool has_trajectories(const FamilyTraits& family) {
  return has_masks(family) && !family.complementary_masks && !family.experts;
}

Trajectory record_trajectory(Transformer& teacher, const Batch& batch, int64_t block_length,
                             int64_t mask_id) {
  const torch::NoGradGuard no_grad;
  const FamilyTraits& family = teacher->shape().traits();
  const bool from_response = family.objective == Objective::kMaskedTokens;
  const torch::Device device = teacher->parameters().front().device();
  const torch::Tensor blocks = blocks_of(batch, from_response, block_length).to(device);
  torch::Tensor tokens = batch.tokens.masked_fill(batch.response, mask_id).to(device);
  torch::Tensor order = torch::full_like(tokens, -1);
  torch::Tensor open = batch.response.to(device);
  const int64_t last_block = blocks.max().item<int64_t>() + 1;
  const torch::Tensor suppressed = torch::tensor({mask_id}, device);
  for (int64_t pass = 0; open.any().item<bool>(); ++pass) {
    torch::Tensor logits = teacher->logits(
        teacher->hidden(tokens, batch.positions.defined() ? batch.positions.to(device) : torch::Tensor()));
    if (family.shifted_logits) logits = torch::roll(logits, 1, 1);
    const auto [confidence, candidate] =
        torch::softmax(logits.to(torch::kFloat32).index_fill(-1, suppressed, -INFINITY), -1).max(-1);
    const torch::Tensor current =
        blocks.masked_fill(open.logical_not(), last_block).amin(1, /*keepdim=*/true);
    const torch::Tensor eligible = open.logical_and(blocks.eq(current));
    const torch::Tensor position =
        confidence.masked_fill(eligible.logical_not(), -1).argmax(1, /*keepdim=*/true);
    const torch::Tensor writes = torch::zeros_like(open).scatter(1, position, true).logical_and(eligible);
    tokens = torch::where(writes, candidate, tokens);
    order.masked_fill_(writes, pass);
    open = open.logical_and(writes.logical_not());
  }
  Trajectory trajectory{batch, order.cpu()};
  trajectory.batch.tokens = tokens.cpu();
  return trajectory;
}

Examples trajectory_examples(const FamilyTraits& family, const Trajectory& trajectory, int64_t block_length,
                             int64_t mask_id, double progress, uint64_t seed, uint64_t step) {
  const Batch& batch = trajectory.batch;
  const int64_t rows = batch.tokens.size(0), length = batch.tokens.size(1);
  const bool has_blocks = family.objective == Objective::kBlocks;
  const RngStream ratios(seed, kTrajectoryRatio, step), choice(seed, kTrajectoryBlock, step);
  const torch::Tensor blocks = blocks_of(batch, !has_blocks, block_length);
  const double low = kFirstMaskRatio + (kLastMaskRatio - kFirstMaskRatio) * std::clamp(progress, 0.0, 1.0);
  BlockPass pass = has_blocks ? block_pass(batch, block_length, /*copies=*/1, /*causal=*/false)
                              // No clean rows in front: the row of a position is its index.
                              : BlockPass{batch.tokens.clone(), batch.positions, {}, 0, 0, length};
  auto seen = pass.inputs.accessor<int64_t, 2>();
  const auto tokens = batch.tokens.accessor<int64_t, 2>();
  Predictions predictions;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<std::vector<int64_t>> places = places_of(blocks[row]);
    const auto index = static_cast<uint64_t>(row);
    const double t = low + (kLastMaskRatio - low) * ratios.uniform(index);
    const auto chosen = static_cast<size_t>(choice.below(index, static_cast<uint32_t>(places.size())));
    for (size_t block = 0; block < places.size(); ++block) {
      if (!has_blocks && block < chosen) continue;
      const bool is_behind = !has_blocks && block > chosen;
      const int64_t* const order = trajectory.order[row].data_ptr<int64_t>();
      for (const int64_t at : is_behind ? places[block] : written_last(order, places[block], t)) {
        const int64_t masked_row = pass.row_of(0, at);
        seen[row][masked_row] = mask_id;
        if (is_behind) continue;
        const bool opens_block = has_blocks && at % block_length == 0;
        const int64_t row_before = opens_block ? at - 1 : masked_row - 1;
        predictions.add(row * pass.pass_length + (family.shifted_logits ? row_before : masked_row),
                        tokens[row][at], 1);
      }
    }
  }
  const auto count = static_cast<double>(std::max<size_t>(1, predictions.rows.size()));
  for (double& weight : predictions.weights) weight /= count;
  return pass.examples(predictions);
}

}  // namespace lacuna::train
