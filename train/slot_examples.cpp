// Slots of ReFusion: sample_slot_plans() and slot_examples() of objective.h.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "train/objective_parts.h"

namespace lacuna::train {

namespace {

/// Begin and end of the tokens to learn in a row; they are contiguous.
std::pair<int64_t, int64_t> response_of(const Batch& batch, size_t row) {
  const int64_t length = batch.tokens.size(1);
  const bool* const response = batch.response[static_cast<int64_t>(row)].data_ptr<bool>();
  const auto begin = std::find(response, response + length, true) - response;
  const auto end = std::find(response + begin, response + length, false) - response;
  expects(std::find(response + end, response + length, true) == response + length,
          "the tokens of a response are neighbours");
  return {begin, end};
}

/// Random-number coordinate of the slot that begins at position `at` of a row.
uint64_t coordinate_of(const Batch& batch, size_t row, int64_t at) {
  return row * static_cast<uint64_t>(batch.tokens.size(1)) + static_cast<uint64_t>(at);
}

int64_t sample_slot_size(std::span<const int64_t> sizes, size_t row, uint64_t seed, uint64_t step) {
  return sizes[RngStream(seed, kSlotSize, step).below(row, static_cast<uint32_t>(sizes.size()))];
}

void shuffle_clean_slots(const Batch& batch, size_t row, uint64_t seed, uint64_t step, SlotPlan& plan) {
  const RngStream order(seed, kSlotOrder, step);
  std::sort(plan.clean.begin(), plan.clean.end(), [&](const Slot& a, const Slot& b) {
    return order.bits(coordinate_of(batch, row, a.first)) < order.bits(coordinate_of(batch, row, b.first));
  });
}

}  // namespace

std::vector<SlotPlan> sample_slot_plans(const Batch& batch, std::span<const int64_t> slot_sizes,
                                        uint64_t seed, uint64_t step, double half_written_share) {
  const std::vector<double> ratios = spread_ratios(batch.tokens.size(0), seed, step);
  const RngStream halves(seed, kHalfWritten, step);
  const RngStream written(seed, kWritten, step);
  const RngStream coins(seed, kSlotMasking, step);
  std::vector<SlotPlan> plans;
  for (size_t row = 0; row < ratios.size(); ++row) {
    const auto [begin, end] = response_of(batch, row);
    const int64_t size = sample_slot_size(slot_sizes, row, seed, step);
    SlotPlan plan{.ratio = ratios[row], .clean = {}, .masked = {}};
    for (int64_t at = begin; at < end; at += size) {
      Slot slot{.first = at, .size = std::min(size, end - at)};
      const uint64_t coordinate = coordinate_of(batch, row, at);
      const bool masked = coins.uniform(coordinate) < plan.ratio;
      if (masked && slot.size > 1 && halves.uniform(coordinate) < half_written_share) {
        slot.written = 1 + written.below(coordinate, static_cast<uint32_t>(slot.size - 1));
      }
      (masked ? plan.masked : plan.clean).push_back(slot);
    }
    shuffle_clean_slots(batch, row, seed, step, plan);
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::vector<SlotPlan> sample_paper_slot_plans(const Batch& batch, std::span<const int64_t> slot_sizes,
                                              uint64_t seed, uint64_t step) {
  const std::vector<double> ratios = spread_ratios(batch.tokens.size(0), seed, step);
  const RngStream choice(seed, kSlotChoice, step);
  std::vector<SlotPlan> plans;
  for (size_t row = 0; row < ratios.size(); ++row) {
    const auto [begin, end] = response_of(batch, row);
    const int64_t size = sample_slot_size(slot_sizes, row, seed, step);
    std::vector<Slot> slots;
    for (int64_t at = begin; at < end; at += size)
      slots.push_back({.first = at, .size = std::min(size, end - at)});
    std::vector<size_t> order(slots.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return choice.bits(coordinate_of(batch, row, slots[a].first)) <
             choice.bits(coordinate_of(batch, row, slots[b].first));
    });
    SlotPlan plan{.ratio = ratios[row], .clean = {}, .masked = {}};
    const auto masked = static_cast<size_t>(plan.ratio * static_cast<double>(slots.size()));
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(masked));
    for (size_t i = 0; i < order.size(); ++i)
      (i < masked ? plan.masked : plan.clean).push_back(slots[order[i]]);
    shuffle_clean_slots(batch, row, seed, step, plan);
    plans.push_back(std::move(plan));
  }
  return plans;
}

namespace {

/// A predicting row of the pass, in the loss of clean or of masked rows.
struct SlotPrediction {
  int64_t row = 0;  // in [B * T]
  int64_t target = 0;
  bool is_masked = false;
};

/// Writes the rows of one sample, and adds the predicting ones to the predictions.
void arrange_slots(const SlotPlan& plan, int64_t mask_id, const int64_t* tokens, int64_t length,
                   int64_t first_row, int64_t* seen, int64_t* positions,
                   std::vector<SlotPrediction>& predictions) {
  int64_t row = length;  // first row of the response; rows outside the response keep their order
  for (const std::vector<Slot>* slots : {&plan.clean, &plan.masked}) {
    for (const Slot& slot : *slots) row = std::min(row, slot.first);
  }
  for (const Slot& slot : plan.clean) {
    const int64_t end = slot.first + slot.size;
    for (int64_t at = slot.first; at < end; ++at, ++row) {
      seen[row] = tokens[at];
      positions[row] = at;
      if (at + 1 < end) predictions.push_back({first_row + row, tokens[at + 1], false});
    }
  }
  for (const Slot& slot : plan.masked) {
    for (int64_t at = slot.first; at < slot.first + slot.size; ++at, ++row) {
      const bool given = at < slot.first + slot.written;
      seen[row] = given ? tokens[at] : mask_id;
      positions[row] = at;
      predictions.push_back({first_row + row, given ? tokens[at + 1] : tokens[at], !given});
    }
  }
}

int64_t tokens_of(const SlotPlan& plan) {
  int64_t tokens = 0;
  for (const std::vector<Slot>* slots : {&plan.clean, &plan.masked}) {
    for (const Slot& slot : *slots) tokens += slot.size;
  }
  return tokens;
}

}  // namespace

Examples slot_examples(const Batch& batch, const std::vector<SlotPlan>& plans, int64_t mask_id,
                       std::optional<double> lambda) {
  const auto samples = static_cast<double>(plans.size());
  const int64_t length = batch.tokens.size(1);
  torch::Tensor inputs = batch.tokens.clone();
  torch::Tensor positions = torch::arange(length).repeat({batch.tokens.size(0), 1});
  std::vector<SlotPrediction> predictions;
  for (size_t sample = 0; sample < plans.size(); ++sample) {
    const auto first = static_cast<int64_t>(sample) * length;
    arrange_slots(plans[sample], mask_id, batch.tokens.data_ptr<int64_t>() + first, length, first,
                  inputs.data_ptr<int64_t>() + first, positions.data_ptr<int64_t>() + first, predictions);
  }
  std::vector<std::array<double, 2>> counts(plans.size());  // clean and masked predictions of each sample
  double all_clean = 0;
  for (const SlotPrediction& prediction : predictions) {
    ++counts[static_cast<size_t>(prediction.row / length)][prediction.is_masked ? 1 : 0];
    all_clean += prediction.is_masked ? 0 : 1;
  }
  Predictions out;
  for (const auto& [row, target, is_masked] : predictions) {
    const auto sample = static_cast<size_t>(row / length);
    const double mean = 1 / (samples * counts[sample][is_masked ? 1 : 0]);
    const double released = is_masked ? 1 / (samples * std::max(plans[sample].ratio, kMinWeightRatio) *
                                             static_cast<double>(tokens_of(plans[sample])))
                                      : 1 / all_clean;
    out.add(row, target, lambda ? (is_masked ? *lambda : 1) * mean : released);
  }
  return {inputs, positions, {}, to_tensor(out.rows), to_tensor(out.targets), out.weight_tensor()};
}

}  // namespace lacuna::train
