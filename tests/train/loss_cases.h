// Random batches for every objective, whose losses an independent implementation computes as well
// (tests/reference/check_losses.py): what loss_probe prints and loss_test compares with kept values.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "train/objective.h"
#include "train/trajectory.h"

namespace lacuna::train::loss_cases {

struct Case {
  std::string_view name;
  Family family;
  bool is_paper = false;
  double confidence_weight = 0;
  std::optional<double> uniform_shift = {};
  bool from_teacher = false;
};

inline const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"llada", Family::kLlada},
      {"llada-paper", Family::kLlada, true},
      {"dream-paper", Family::kDream, true},
      {"qwen3", Family::kQwen3},
      {"refusion", Family::kRefusion},
      {"refusion-paper", Family::kRefusion, true},
      {"sdar", Family::kSdar},
      {"sdar-paper", Family::kSdar, true},
      {"fast-dllm-v2", Family::kFastDllm},
      {"llada2-moe-cap", Family::kLlada2, true, 0.7},
      {"i-dlm", Family::kIdlm},
      {"gidd", Family::kGidd},
      {"gidd-mask", Family::kGiddMask},
      {"gidd-hybrid", Family::kGidd, false, 0, -2.0},
      {"llada-teacher", Family::kLlada, false, 0.5, {}, true},
      {"dream-teacher", Family::kDream, false, 0, {}, true},
      {"sdar-teacher", Family::kSdar, false, 0, {}, true},
  };
  return kCases;
}

inline constexpr int64_t kVocabulary = 11, kMask = 10;
enum Coordinate : uint8_t { kSizes = 200, kTokens, kLogits, kOrder };

struct Instance {
  Case chosen;
  uint64_t seed = 0;
  Batch batch;
  ObjectiveOptions options;
  Examples examples;
  torch::Tensor logits;  // [B * rows of the pass, kVocabulary], f32
  double loss = 0;
  torch::Tensor order;  // of a teacher's trajectory
  double progress = 0;  // of the run
};

/// Rows with prompts and responses of their own lengths; families of slots have padding behind responses.
inline Batch random_batch(const FamilyTraits& family, uint64_t seed) {
  const RngStream sizes(seed, kSizes), words(seed, kTokens);
  const int64_t rows = 2 + sizes.below(0, 3), length = 12 + sizes.below(1, 12);
  Batch batch{torch::zeros({rows, length}, torch::kInt64),
              torch::zeros({rows, length}, torch::kBool),
              {},
              torch::ones({rows, length})};
  for (int64_t i = 0; i < batch.tokens.numel(); ++i)
    batch.tokens.data_ptr<int64_t>()[i] = words.below(static_cast<uint64_t>(i), kVocabulary - 1);
  for (int64_t row = 0; row < rows; ++row) {
    const auto number = static_cast<uint64_t>(10 + 4 * row);
    const int64_t prompt = 1 + sizes.below(number, 5);
    const bool is_short = family.objective == Objective::kSlots || sizes.below(number + 1, 4) == 0;
    const int64_t end =
        is_short ? prompt + 1 + sizes.below(number + 2, static_cast<uint32_t>(length - prompt)) : length;
    batch.response[row].slice(0, prompt, end).fill_(true);
    const int64_t full = prompt + 1 + sizes.below(number + 3, static_cast<uint32_t>(end - prompt));
    if (family.objective != Objective::kSlots)
      batch.weights[row].slice(0, full, length).fill_(static_cast<float>(kTailWeight));
  }
  return batch;
}

/// Any order of the tokens of each row's response, as a teacher may have written them.
inline torch::Tensor random_order(const Batch& batch, uint64_t seed) {
  const RngStream keys(seed, kOrder);
  torch::Tensor order = torch::full_like(batch.tokens, -1);
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    const torch::Tensor places = batch.response[row].nonzero().squeeze(1);
    std::vector<double> values;
    for (int64_t i = 0; i < places.size(0); ++i)
      values.push_back(keys.uniform(static_cast<uint64_t>(100 * row + i)));
    const torch::Tensor ranks = torch::tensor(values, torch::kFloat64).argsort().argsort();
    order[row].index_put_({places}, ranks);
  }
  return order;
}

inline Instance make_instance(const Case& chosen, uint64_t seed) {
  const FamilyTraits& family = traits_of(chosen.family);
  Instance instance;
  instance.chosen = chosen;
  instance.seed = seed;
  instance.batch = random_batch(family, seed);
  const int64_t size = 2 + static_cast<int64_t>(seed % 3);
  instance.options = {.mask_id = kMask,
                      .slot_sizes = {size},
                      .seed = seed,
                      .block_length = size + 1,
                      .is_paper = chosen.is_paper,
                      .lambda = 0.8,
                      .cart_p = 0.3,
                      .confidence_weight = chosen.confidence_weight,
                      .clean_weight = 0.2,
                      .canvas = 8,
                      .vocabulary = kVocabulary,
                      .uniform_shift = chosen.uniform_shift};
  const uint64_t step = seed + 5;
  if (chosen.from_teacher) {
    instance.order = random_order(instance.batch, seed);
    instance.progress = static_cast<double>(seed % 5) / 4;
    instance.examples = trajectory_examples(family, {instance.batch, instance.order}, size + 1, kMask,
                                            instance.progress, seed, step);
    if (chosen.confidence_weight > 0)
      instance.examples = with_confidence(instance.examples, chosen.confidence_weight);
  } else {
    instance.examples = make_examples(family, instance.batch, instance.options, step);
  }
  const RngStream values(seed, kLogits);
  const int64_t rows = instance.examples.inputs.numel();
  instance.logits = torch::empty({rows, kVocabulary});
  for (int64_t i = 0; i < instance.logits.numel(); ++i) {
    instance.logits.data_ptr<float>()[i] =
        static_cast<float>(8 * values.uniform(static_cast<uint64_t>(i)) - 4);
  }
  instance.loss = weighted_loss(instance.logits.index_select(0, instance.examples.rows), instance.examples)
                      .item<double>();
  return instance;
}

}  // namespace lacuna::train::loss_cases
