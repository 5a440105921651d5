#include "train/objective.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "train/objective_parts.h"

namespace lacuna::train {

torch::Tensor response_lengths(const Batch& batch) {
  if (!batch.weights.defined()) return batch.response.sum(1).to(torch::kFloat32);
  return (batch.response * batch.weights).sum(1);
}

double weight_of(const Batch& batch, int64_t row, int64_t at) {
  return batch.weights.defined() ? batch.weights.data_ptr<float>()[row * batch.weights.size(1) + at] : 1;
}

/// One ratio per row.
std::vector<double> spread_ratios(int64_t rows, uint64_t seed, uint64_t step) {
  const double offset = RngStream(seed, kRatioOffset, step).uniform(0);
  std::vector<double> ratios;
  for (int64_t row = 0; row < rows; ++row) {
    double whole = 0;
    const double spread = std::modf(offset + static_cast<double>(row) / static_cast<double>(rows), &whole);
    ratios.push_back(kMinRatio + (1 - kMinRatio) * spread);
  }
  return ratios;
}

torch::Tensor to_tensor(const std::vector<int64_t>& values) {
  return torch::tensor(values, torch::kInt64);
}

namespace {

/// Examples that predict the tokens where `predicted` [B, T] is true. `row_weights` [B] scales the weights of
/// a row's tokens in the loss of the row; the loss of the batch is the mean over rows.
Examples examples_of(const Batch& batch, const torch::Tensor& inputs, const torch::Tensor& predicted,
                     const torch::Tensor& row_weights, bool shifted) {
  const torch::Tensor weights = (row_weights / static_cast<double>(inputs.size(0))).unsqueeze(1);
  const torch::Tensor indices = predicted.flatten().nonzero().squeeze(1);
  return {inputs,
          batch.positions,
          {},
          shifted ? indices - 1 : indices,
          batch.tokens.masked_select(predicted),
          (batch.weights.defined() ? weights * batch.weights : weights.expand(predicted.sizes()))
              .masked_select(predicted)};
}

/// All positions of one token in a row's response; `random` chooses the token among those of full weight.
std::vector<int64_t> copies_of_one(const Batch& batch, int64_t row, uint64_t random) {
  const bool* const response = batch.response[row].data_ptr<bool>();
  const int64_t* const tokens = batch.tokens[row].data_ptr<int64_t>();
  std::vector<int64_t> all, full;
  for (int64_t at = 0; at < batch.tokens.size(1); ++at) {
    if (!response[at]) continue;
    all.push_back(at);
    if (weight_of(batch, row, at) == 1) full.push_back(at);
  }
  if (full.empty()) return {};
  const int64_t chosen = tokens[full[random % full.size()]];
  std::erase_if(all, [&](int64_t at) { return tokens[at] != chosen; });
  return all;
}

/// Weights [T, T] between a clean token and a masked one at distance d on either side: p (1 - p)^(d - 1) / 2.
torch::Tensor cart_matrix(int64_t length, double p) {
  const torch::Tensor index = torch::arange(length, torch::kFloat64);
  const torch::Tensor distance = (index.unsqueeze(1) - index.unsqueeze(0)).abs();
  return (0.5 * p * torch::pow(1 - p, distance - 1)).masked_fill(distance == 0, 0);
}

}  // namespace

Examples masked_examples(const FamilyTraits& family, const Batch& batch, int64_t mask_id, uint64_t seed,
                         uint64_t step, double copies_share) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  std::vector<double> ratios = spread_ratios(rows, seed, step);
  for (int64_t row = 0; row < rows; ++row) {
    if (batch.response[row].sum().item<int64_t>() <= kFewTokens) ratios[static_cast<size_t>(row)] = 1;
  }
  const RngStream coins(seed, kMasking, step);
  const RngStream copies(seed, kCopies, step);

  torch::Tensor inputs = batch.tokens.clone();
  torch::Tensor row_weights =
      1 / (torch::tensor(ratios, torch::kFloat32).clamp_min(kMinWeightRatio) * response_lengths(batch));
  torch::Tensor masks = torch::zeros_like(batch.response);
  auto tokens = inputs.accessor<int64_t, 2>();
  auto masked = masks.accessor<bool, 2>();
  const auto response = batch.response.accessor<bool, 2>();
  const auto mask = [&](int64_t row, int64_t at) {
    masked[row][at] = true;
    tokens[row][at] = mask_id;
  };
  for (int64_t row = 0; row < rows; ++row) {
    const auto number = static_cast<uint64_t>(row);
    if (copies.uniform(2 * number) < copies_share) {
      const std::vector<int64_t> alike = copies_of_one(batch, row, copies.bits(2 * number + 1));
      for (const int64_t at : alike) mask(row, at);
      if (!alike.empty()) row_weights[row] = 1 / static_cast<double>(alike.size());
      continue;
    }
    for (int64_t at = 0; at < length; ++at) {
      const double coin = coins.uniform(static_cast<uint64_t>(row * length + at));
      if (response[row][at] && coin < ratios[number]) mask(row, at);
    }
  }
  return examples_of(batch, inputs, masks, row_weights, family.shifted_logits);
}

Examples paper_masked_examples(const FamilyTraits& family, const Batch& batch, int64_t mask_id, uint64_t seed,
                               uint64_t step, std::optional<double> cart_p) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const std::vector<double> ratios = spread_ratios(rows, seed, step);
  const RngStream coins(seed, kMasking, step);
  torch::Tensor masks = batch.response.clone();
  auto masked = masks.accessor<bool, 2>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t at = 0; at < length; ++at) {
      const double coin = coins.uniform(static_cast<uint64_t>(row * length + at));
      masked[row][at] = masked[row][at] && coin < ratios[static_cast<size_t>(row)];
    }
  }
  torch::Tensor weights;
  if (cart_p) {
    const double all_masked = std::max(1.0, masks.sum().item<double>());
    weights = masks.logical_not().to(torch::kFloat64).matmul(cart_matrix(length, *cart_p)) / all_masked;
  } else {
    const torch::Tensor lengths = batch.response.sum(1).to(torch::kFloat64);
    weights = (1 / (torch::tensor(ratios, torch::kFloat64) * lengths * static_cast<double>(rows)))
                  .unsqueeze(1)
                  .expand({rows, length});
  }
  const torch::Tensor indices = masks.flatten().nonzero().squeeze(1);
  return {batch.tokens.masked_fill(masks, mask_id),
          batch.positions,
          {},
          family.shifted_logits ? indices - 1 : indices,
          batch.tokens.masked_select(masks),
          weights.masked_select(masks).to(torch::kFloat32)};
}

Examples with_confidence(Examples examples, double weight) {
  const auto count = static_cast<double>(std::max<int64_t>(1, examples.rows.size(0)));
  examples.confidence_weights = torch::full_like(examples.weights, weight / count);
  return examples;
}

Examples next_token_examples(const Batch& batch) {
  return examples_of(batch, batch.tokens, batch.response, 1 / response_lengths(batch), /*shifted=*/true);
}

Examples with_auxiliary(Examples examples, const Batch& batch) {
  if (!batch.auxiliary.defined()) return examples;
  const torch::Tensor asked = batch.auxiliary.ge(0);
  const auto rows = static_cast<double>(batch.tokens.size(0));
  examples.blocks_left =
      torch::cat({torch::zeros_like(examples.rows), batch.blocks_left.masked_select(asked)});
  examples.rows = torch::cat({examples.rows, asked.flatten().nonzero().squeeze(1)});
  examples.targets = torch::cat({examples.targets, batch.auxiliary.masked_select(asked)});
  examples.weights = torch::cat({examples.weights, batch.auxiliary_weights.masked_select(asked) / rows});
  return examples;
}

namespace {

/// The paper's objective of a family that has one.
Examples make_paper_examples(const FamilyTraits& family, Batch batch, const ObjectiveOptions& options,
                             uint64_t step) {
  batch.weights = torch::Tensor();  // all tokens of the response weigh the same, end tokens too
  switch (family.objective) {
    case Objective::kMaskedTokens:
      return paper_masked_examples(family, batch, options.mask_id, options.seed, step,
                                   family.shifted_logits ? std::optional(options.cart_p) : std::nullopt);
    case Objective::kBlocks:
      return block_examples(family, batch, options.block_length, options.mask_id, options.seed, step,
                            kMinRatio);
    case Objective::kSlots:
      return slot_examples(batch, sample_paper_slot_plans(batch, options.slot_sizes, options.seed, step),
                           options.mask_id, options.lambda);
    default:
      throw InputError("--objective paper: {} has one objective; expected {}", family.name,
                       "llada, dream, refusion, sdar, fast-dllm-v2 or llada2-moe");
  }
}

Examples make_own_examples(const FamilyTraits& family, const Batch& batch, const ObjectiveOptions& options,
                           uint64_t step) {
  switch (family.objective) {
    case Objective::kMaskedTokens:
      return with_auxiliary(
          masked_examples(family, batch, options.mask_id, options.seed, step, options.copies_share), batch);
    case Objective::kNextToken:
      return next_token_examples(batch);
    case Objective::kBlocks:
      return block_examples(family, batch, options.block_length, options.mask_id, options.seed, step);
    case Objective::kStrided:
      return strided_examples(batch, options.block_length, options.mask_id, options.clean_weight);
    case Objective::kInterpolation:
      return interpolation_examples(family, batch, options, step);
    case Objective::kCanvases:
      return canvas_examples(batch, options, step);
    case Objective::kSlots:
      break;
  }
  return slot_examples(
      batch, sample_slot_plans(batch, options.slot_sizes, options.seed, step, options.half_written_share),
      options.mask_id);
}

}  // namespace

bool has_paper_objective(const FamilyTraits& family) {
  return family.objective == Objective::kMaskedTokens || family.objective == Objective::kBlocks ||
         family.objective == Objective::kSlots;
}

bool has_masks(const FamilyTraits& family) {
  return family.objective == Objective::kMaskedTokens || family.objective == Objective::kBlocks;
}

Examples make_examples(const FamilyTraits& family, const Batch& batch, const ObjectiveOptions& options,
                       uint64_t step) {
  if (options.left_to_right) return next_token_examples(batch);
  Examples examples = options.is_paper ? make_paper_examples(family, batch, options, step)
                                       : make_own_examples(family, batch, options, step);
  return options.confidence_weight > 0 ? with_confidence(std::move(examples), options.confidence_weight)
                                       : examples;
}

Examples part_of(const Examples& examples, int64_t first, int64_t last) {
  const int64_t length = examples.inputs.size(1);
  const torch::Tensor inside = examples.rows.ge(first * length).logical_and(examples.rows.lt(last * length));
  const torch::Tensor &positions = examples.positions, &unseen = examples.unseen;
  const torch::Tensor& temperatures = examples.temperatures;
  const auto of_inside = [&](const torch::Tensor& x) { return x.defined() ? x.masked_select(inside) : x; };
  return {examples.inputs.slice(0, first, last),
          positions.defined() ? positions.slice(0, first, last) : torch::Tensor(),
          unseen.defined() && unseen.dim() == 4 ? unseen.slice(0, first, last) : unseen,
          examples.rows.masked_select(inside) - first * length,
          examples.targets.masked_select(inside),
          examples.weights.masked_select(inside),
          examples.suppressed,
          of_inside(examples.log_snr),
          examples.canvas_begin,
          temperatures.defined() ? temperatures.slice(0, first, last) : torch::Tensor(),
          of_inside(examples.blocks_left),
          of_inside(examples.uniform_shares),
          of_inside(examples.confidence_weights)};
}

Examples moved(const Examples& examples, torch::Device device) {
  const auto to_device = [&](const torch::Tensor& x) { return x.defined() ? x.to(device) : x; };
  return {to_device(examples.inputs),
          to_device(examples.positions),
          to_device(examples.unseen),
          to_device(examples.rows),
          to_device(examples.targets),
          to_device(examples.weights),
          examples.suppressed,
          to_device(examples.log_snr),
          examples.canvas_begin,
          to_device(examples.temperatures),
          to_device(examples.blocks_left),
          to_device(examples.uniform_shares),
          to_device(examples.confidence_weights)};
}

}  // namespace lacuna::train
