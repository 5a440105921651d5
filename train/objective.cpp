#include "train/objective.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "train/model.h"

namespace lacuna::train {
namespace {

// Coordinates that keep the streams apart.
enum Purpose : uint8_t {
  kRatioOffset,
  kMasking,
  kSlotSize,
  kSlotMasking,
  kSlotOrder,
  kBlockRatio = 32,  // apart from those of data.cpp
  kBlockMasking,
  kNoiseKind,
  kNoiseBegin,
  kNoiseWindow,
  kNoiseLevel,
  kNoiseCoin,
  kNoiseToken,
  kCopies,
  kCanvasPart,
  kCanvasCoin,
  kCanvasToken,
  kConditioning,
  kHalfWritten,
  kWritten,
};

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

/// Examples in which the tokens at `predicted` [B, T] are asked for, those of one row with the same weight.
/// `row_weights` [B] is that in the loss of the row; the loss of the batch is the mean.
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

/// Where the response of a row holds one of its tokens, which `random` chooses among those of full weight.
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

torch::Tensor to_tensor(const std::vector<int64_t>& values) {
  return torch::tensor(values, torch::kInt64);
}

// Kinds of rows of the objective kInterpolation; the rest is "each".
constexpr double kWholeShare = 0.4;
constexpr double kWindowShare = 0.4;
constexpr int64_t kShortestWindow = 4;  // the others double it
constexpr uint32_t kWindowSizes = 4;

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

std::vector<SlotPlan> sample_slot_plans(const Batch& batch, std::span<const int64_t> slot_sizes,
                                        uint64_t seed, uint64_t step, double half_written_share) {
  const int64_t length = batch.tokens.size(1);
  const std::vector<double> ratios = spread_ratios(batch.tokens.size(0), seed, step);
  const RngStream sizes(seed, kSlotSize, step);
  const RngStream halves(seed, kHalfWritten, step);
  const RngStream written(seed, kWritten, step);
  const RngStream coins(seed, kSlotMasking, step);
  const RngStream order(seed, kSlotOrder, step);
  std::vector<SlotPlan> plans;
  for (size_t row = 0; row < ratios.size(); ++row) {
    const bool* const response = batch.response[static_cast<int64_t>(row)].data_ptr<bool>();
    const auto begin = std::find(response, response + length, true) - response;
    const auto end = std::find(response + begin, response + length, false) - response;
    expects(std::find(response + end, response + length, true) == response + length,
            "the tokens of a response are neighbours");
    const int64_t size = slot_sizes[sizes.below(row, static_cast<uint32_t>(slot_sizes.size()))];

    SlotPlan plan{.ratio = ratios[row], .clean = {}, .masked = {}};
    const auto coordinate = [&](int64_t at) {
      return row * static_cast<uint64_t>(length) + static_cast<uint64_t>(at);
    };
    for (int64_t at = begin; at < end; at += size) {
      Slot slot{.first = at, .size = std::min(size, end - at)};
      const bool masked = coins.uniform(coordinate(at)) < plan.ratio;
      if (masked && slot.size > 1 && halves.uniform(coordinate(at)) < half_written_share) {
        slot.written = 1 + written.below(coordinate(at), static_cast<uint32_t>(slot.size - 1));
      }
      (masked ? plan.masked : plan.clean).push_back(slot);
    }
    std::sort(plan.clean.begin(), plan.clean.end(), [&](const Slot& a, const Slot& b) {
      return order.bits(coordinate(a.first)) < order.bits(coordinate(b.first));
    });
    plans.push_back(std::move(plan));
  }
  return plans;
}

Examples slot_examples(const Batch& batch, const std::vector<SlotPlan>& plans, int64_t mask_id) {
  const auto batch_rows = static_cast<double>(plans.size());
  const int64_t length = batch.tokens.size(1);
  torch::Tensor inputs = batch.tokens.clone();
  torch::Tensor positions = torch::arange(length).repeat({batch.tokens.size(0), 1});
  std::vector<int64_t> rows, targets;
  std::vector<float> weights;
  constexpr float kClean = -1;  // until their number is known
  int64_t clean_count = 0;
  for (size_t sample = 0; sample < plans.size(); ++sample) {
    const SlotPlan& plan = plans[sample];
    int64_t answer = 0;
    int64_t row = length;  // the first of the response; what is before and behind it stays in its place
    for (const std::vector<Slot>* slots : {&plan.clean, &plan.masked}) {
      for (const Slot& slot : *slots) {
        answer += slot.size;
        row = std::min(row, slot.first);
      }
    }
    const auto first = static_cast<int64_t>(sample) * length;  // of the sample in [B * T]
    const int64_t* const tokens = batch.tokens.data_ptr<int64_t>() + first;
    int64_t* const seen = inputs.data_ptr<int64_t>() + first;
    int64_t* const position = positions.data_ptr<int64_t>() + first;
    const auto predict = [&](int64_t target, float weight) {
      rows.push_back(first + row);
      targets.push_back(target);
      weights.push_back(weight);
    };
    for (const Slot& slot : plan.clean) {
      const int64_t end = slot.first + slot.size;
      for (int64_t at = slot.first; at < end; ++at, ++row) {
        seen[row] = tokens[at];
        position[row] = at;
        if (at + 1 < end) predict(tokens[at + 1], kClean);
      }
      clean_count += slot.size - 1;
    }
    const double masked_weight =
        1 / (batch_rows * std::max(plan.ratio, kMinWeightRatio) * static_cast<double>(answer));
    for (const Slot& slot : plan.masked) {
      const int64_t first_mask = slot.first + slot.written;
      for (int64_t at = slot.first; at < slot.first + slot.size; ++at, ++row) {
        const bool given = at < first_mask;
        seen[row] = given ? tokens[at] : mask_id;
        position[row] = at;
        if (given) {
          predict(tokens[at + 1], kClean);
        } else {
          predict(tokens[at], static_cast<float>(masked_weight));
        }
      }
      clean_count += slot.written;
    }
  }
  std::replace(weights.begin(), weights.end(), kClean,
               1 / static_cast<float>(std::max<int64_t>(1, clean_count)));
  return {inputs,          positions,          {},
          to_tensor(rows), to_tensor(targets), torch::tensor(weights, torch::kFloat32)};
}

Examples block_examples(const FamilyTraits& family, const Batch& batch, int64_t block_length, int64_t mask_id,
                        uint64_t seed, uint64_t step) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const RngStream ratios(seed, kBlockRatio, step);
  const RngStream coins(seed, kBlockMasking, step);
  const torch::Tensor lengths = response_lengths(batch);
  const auto response = batch.response.accessor<bool, 2>();
  const auto targets_of = batch.tokens.accessor<int64_t, 2>();
  const int64_t first = batch.response.any(0).to(torch::kInt64).argmax().item<int64_t>();
  const int64_t begin = first / block_length * block_length;  // of the masked rows
  const int64_t masked_length = length - begin;
  const int64_t copies = family.complementary_masks ? 2 : 1;
  const int64_t pass_length = length + copies * masked_length;
  torch::Tensor inputs =
      torch::cat({batch.tokens, batch.tokens.slice(1, begin).repeat({1, copies})}, 1).contiguous();
  auto seen = inputs.accessor<int64_t, 2>();
  std::vector<int64_t> predicting, targets;
  std::vector<float> weights;
  for (int64_t row = 0; row < rows; ++row) {
    const double whole_row = 1 / (static_cast<double>(rows) * lengths[row].item<double>());
    for (int64_t at = begin; at < length; ++at) {
      if (!response[row][at]) continue;
      const auto coordinate = [&](int64_t index) { return static_cast<uint64_t>(row * length + index); };
      const double t = kMinRatio + (1 - kMinRatio) * ratios.uniform(coordinate(at / block_length));
      const bool masked = coins.uniform(coordinate(at)) < t;
      if (!masked && !family.complementary_masks) continue;
      const int64_t copy = masked ? 0 : 1;
      const double share = whole_row * weight_of(batch, row, at);
      const int64_t masked_row = length + copy * masked_length + (at - begin);
      seen[row][masked_row] = mask_id;
      const bool opens_block = at % block_length == 0;
      const int64_t row_before = opens_block ? at - 1 : masked_row - 1;
      predicting.push_back(row * pass_length + (family.shifted_logits ? row_before : masked_row));
      targets.push_back(targets_of[row][at]);
      weights.push_back(
          static_cast<float>(share / (family.complementary_masks ? 1 : std::max(t, kMinWeightRatio))));
    }
  }
  const torch::Tensor positions =
      batch.positions.defined() ? batch.positions : torch::arange(length).repeat({rows, 1});
  const torch::Tensor later = unseen_by_blocks(length, block_length);
  const torch::Tensor earlier = later.t();
  const torch::Tensor other_blocks = later.logical_or(earlier).slice(0, begin).slice(1, begin);
  const torch::Tensor all = torch::ones({masked_length, masked_length}, torch::kBool);
  std::vector<torch::Tensor> unseen = {
      // clean rows, then each copy's
      torch::cat({later, torch::ones({length, copies * masked_length}, torch::kBool)}, 1)};
  for (int64_t copy = 0; copy < copies; ++copy) {
    std::vector<torch::Tensor> of_copy = {earlier.slice(0, begin).logical_not()};
    for (int64_t other = 0; other < copies; ++other) of_copy.push_back(other == copy ? other_blocks : all);
    unseen.push_back(torch::cat(of_copy, 1));
  }
  return {inputs,
          torch::cat({positions, positions.slice(1, begin).repeat({1, copies})}, 1),
          torch::cat(unseen),
          to_tensor(predicting),
          to_tensor(targets),
          torch::tensor(weights, torch::kFloat32)};
}

namespace {

/// The part of a row that interpolation noises: tokens before `begin` stay clean, those from `end` on are
/// pure noise.
struct NoisyWindow {
  int64_t begin = 0;
  int64_t end = 0;
  bool has_own_levels = false;  ///< each token has a noise level of its own, else the row's
};

/// The random numbers of one step, by what they are for.
class NoiseStreams {
 public:
  NoiseStreams(const ObjectiveOptions& options, uint64_t step) : options_(options), step_(step) {}

  /// first  of the row's response
  NoisyWindow window(int64_t row, int64_t first, int64_t length) const {
    const auto index = static_cast<uint64_t>(row);
    const double kind = stream(kNoiseKind).uniform(index);
    NoisyWindow window{first, length, kind >= kWholeShare + kWindowShare};
    if (kind < kWholeShare || window.has_own_levels) return window;
    const int64_t places = std::min(options_.canvas, length - first);
    window.begin += stream(kNoiseBegin).below(index, static_cast<uint32_t>(places));
    const int64_t size = kShortestWindow << stream(kNoiseWindow).below(index, kWindowSizes);
    window.end = std::min(length, window.begin + size);
    return window;
  }
  double level(uint64_t coordinate) const { return stream(kNoiseLevel).uniform(coordinate); }
  double coin(uint64_t coordinate) const { return stream(kNoiseCoin).uniform(coordinate); }
  /// Any token but the mask.
  int64_t token(uint64_t coordinate) const {
    const int64_t sampled =
        stream(kNoiseToken).below(coordinate, static_cast<uint32_t>(options_.vocabulary - 1));
    return sampled + (sampled >= options_.mask_id ? 1 : 0);
  }

 private:
  RngStream stream(Purpose purpose) const { return RngStream(options_.seed, purpose, step_); }

  const ObjectiveOptions& options_;
  uint64_t step_;
};

}  // namespace

Examples interpolation_examples(const FamilyTraits& family, const Batch& batch,
                                const ObjectiveOptions& options, uint64_t step) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const std::vector<double> ratios = spread_ratios(rows, options.seed, step);
  const NoiseStreams noise(options, step);
  torch::Tensor inputs = batch.tokens.clone();
  torch::Tensor clean = torch::zeros_like(batch.response);
  std::vector<int64_t> predicting, targets;
  std::vector<double> weights;
  std::vector<float> log_snr;
  double total = 0;  // of the weights of tokens to be learned
  for (int64_t row = 0; row < rows; ++row) {
    const bool* const response = batch.response.data_ptr<bool>() + row * length;
    int64_t* const tokens = inputs.data_ptr<int64_t>() + row * length;
    const NoisyWindow window =
        noise.window(row, std::find(response, response + length, true) - response, length);
    bool* const is_clean = clean.data_ptr<bool>() + row * length;
    std::fill(is_clean, is_clean + window.begin, true);
    for (int64_t at = window.begin; at < length; ++at) {
      if (!response[at] && at < window.end) {
        is_clean[at] = true;
        continue;
      }
      const auto coordinate = static_cast<uint64_t>(row * length + at);
      const double t = window.has_own_levels ? noise.level(coordinate) : ratios[static_cast<size_t>(row)];
      const double snr = std::clamp(std::log((1 - t) / t), -kMaxLogSnr, kMaxLogSnr);
      const double alpha = at < window.end ? 1 / (1 + std::exp(-snr)) : 0;
      const int64_t target = tokens[at];
      if (noise.coin(coordinate) >= alpha) {
        tokens[at] = family.uniform_noise ? noise.token(coordinate) : options.mask_id;
      }
      if (at >= window.end || !response[at]) continue;
      const double weight = weight_of(batch, row, at);
      total += weight;
      const bool changed = tokens[at] != target;
      if (!family.uniform_noise && !changed) continue;  // no loss
      const double of_kept = 1 / (1 + static_cast<double>(options.vocabulary - 1) * std::exp(snr));
      predicting.push_back(row * length + at);
      targets.push_back(target);
      weights.push_back(weight * (!family.uniform_noise ? alpha : changed ? 1 : of_kept));
      log_snr.push_back(static_cast<float>(snr));
    }
  }
  const torch::Tensor scaled = torch::tensor(weights, torch::kFloat64) / std::max(total, kTailWeight);
  Examples examples{inputs,
                    {},
                    clean.unsqueeze(2).logical_and(clean.logical_not().unsqueeze(1)).unsqueeze(1),
                    to_tensor(predicting),
                    to_tensor(targets),
                    scaled.to(torch::kFloat32),
                    options.mask_id,
                    {}};
  if (family.uniform_noise) examples.log_snr = torch::tensor(log_snr, torch::kFloat32);
  return examples;
}

namespace {

/// Targets of the examples of canvases.
struct Predictions {
  std::vector<int64_t> rows, targets;
  std::vector<double> weights;

  void add(int64_t row, int64_t target, double weight) {
    rows.push_back(row);
    targets.push_back(target);
    weights.push_back(weight);
  }
};

/// Where the canvas of a row begins: one of those that its response needs, without the end tokens that weigh
/// little.
int64_t sample_canvas(const Batch& batch, int64_t row, int64_t canvas_length, const RngStream& stream) {
  const bool* const response = batch.response[row].data_ptr<bool>();
  const int64_t length = batch.tokens.size(1);
  const int64_t first = std::find(response, response + length, true) - response;
  int64_t last = length - 1;
  while (last > first && !(response[last] && weight_of(batch, row, last) == 1)) --last;
  const auto canvases = static_cast<uint32_t>((last - first) / canvas_length + 1);
  return first + canvas_length * stream.below(static_cast<uint64_t>(row), canvases);
}

/// Writes the noisy canvas of one row to `seen` [canvas_length], and predicts its tokens from the rows of the
/// pass from `first_row` on.
void add_canvas(const Batch& batch, const ObjectiveOptions& options, uint64_t step, int64_t row,
                int64_t begin, double ratio, int64_t first_row, int64_t* seen, Predictions& predictions) {
  const RngStream coins(options.seed, kCanvasCoin, step, row);
  const RngStream noise(options.seed, kCanvasToken, step, row);
  const int64_t length = batch.tokens.size(1);
  const bool* const response = batch.response[row].data_ptr<bool>();
  const int64_t* const tokens = batch.tokens[row].data_ptr<int64_t>();
  const bool is_drill =
      std::find(std::find(response, response + length, true), response + length, false) != response + length;
  const size_t first_prediction = predictions.rows.size();
  double total = 0;
  for (int64_t i = 0; i < options.canvas_length; ++i) {
    const int64_t at = begin + i;
    const bool in_row = at < length;
    const int64_t target = in_row ? tokens[at] : options.end_id;
    const bool is_given = in_row && !response[at];
    const bool is_unknown = !in_row && is_drill;
    const auto place = static_cast<uint64_t>(i);
    const bool changes = is_unknown || (!is_given && coins.uniform(place) < ratio);
    seen[i] = changes ? noise.below(place, static_cast<uint32_t>(options.vocabulary)) : target;
    if (is_given || is_unknown) continue;
    predictions.add(first_row + i, target, in_row ? weight_of(batch, row, at) : kTailWeight);
    total += predictions.weights.back();
  }
  const double scale = 1 / (std::max(total, kTailWeight) * static_cast<double>(batch.tokens.size(0)));
  std::for_each(predictions.weights.begin() + static_cast<std::ptrdiff_t>(first_prediction),
                predictions.weights.end(), [&](double& weight) { weight *= scale; });
}

/// 0 for rows that nothing conditions.
torch::Tensor sample_temperatures(int64_t rows, const RngStream& stream) {
  std::vector<float> temperatures;
  for (uint64_t row = 0; row < static_cast<uint64_t>(rows); ++row) {
    const double temperature =
        kLastTemperature + (kFirstTemperature - kLastTemperature) * stream.uniform(2 * row + 1);
    temperatures.push_back(stream.uniform(2 * row) < kConditionedShare ? static_cast<float>(temperature)
                                                                       : 0.0F);
  }
  return torch::tensor(temperatures, torch::kFloat32);
}

}  // namespace

Examples canvas_examples(const Batch& batch, const ObjectiveOptions& options, uint64_t step) {
  const int64_t rows = batch.tokens.size(0);
  const int64_t length = batch.tokens.size(1);
  const int64_t canvas_length = options.canvas_length;
  const int64_t pass_length = length + canvas_length;
  const std::vector<double> ratios = spread_ratios(rows, options.seed, step);
  const RngStream parts(options.seed, kCanvasPart, step);
  const auto with_canvas = [&](const torch::Tensor& x) {
    return torch::cat({x, torch::zeros({rows, canvas_length}, torch::kInt64)}, 1);
  };
  torch::Tensor inputs = with_canvas(batch.tokens);
  torch::Tensor positions =
      with_canvas(batch.positions.defined() ? batch.positions : torch::arange(length).repeat({rows, 1}));
  torch::Tensor unseen = torch::ones({rows, 1, pass_length, pass_length}, torch::kBool);
  unseen.slice(2, 0, length).slice(3, 0, length).copy_(unseen_by_blocks(length, 1));
  unseen.slice(2, length).slice(3, length).fill_(false);

  const Examples next = next_token_examples(batch);
  Predictions predictions;
  for (int64_t i = 0; i < next.rows.size(0); ++i) {
    const int64_t at = next.rows[i].item<int64_t>();
    predictions.add(at / length * pass_length + at % length, next.targets[i].item<int64_t>(),
                    next.weights[i].item<double>());
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = sample_canvas(batch, row, canvas_length, parts);
    unseen[row][0].slice(0, length).slice(1, 0, begin).fill_(false);
    positions[row].slice(0, length).copy_(positions[row][begin] + torch::arange(canvas_length));
    const int64_t first_row = row * pass_length + length;
    add_canvas(batch, options, step, row, begin, ratios[static_cast<size_t>(row)], first_row,
               inputs.data_ptr<int64_t>() + first_row, predictions);
  }
  Examples examples{inputs,
                    positions,
                    unseen,
                    to_tensor(predictions.rows),
                    to_tensor(predictions.targets),
                    torch::tensor(predictions.weights, torch::kFloat64).to(torch::kFloat32)};
  examples.canvas_begin = length;
  examples.temperatures = sample_temperatures(rows, RngStream(options.seed, kConditioning, step));
  return examples;
}

Examples make_examples(const FamilyTraits& family, const Batch& batch, const ObjectiveOptions& options,
                       uint64_t step) {
  if (options.left_to_right) return next_token_examples(batch);
  switch (family.objective) {
    case Objective::kMaskedTokens:
      return with_auxiliary(
          masked_examples(family, batch, options.mask_id, options.seed, step, options.copies_share), batch);
    case Objective::kNextToken:
      return next_token_examples(batch);
    case Objective::kBlocks:
      return block_examples(family, batch, options.block_length, options.mask_id, options.seed, step);
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

Examples part_of(const Examples& examples, int64_t first, int64_t last) {
  const int64_t length = examples.inputs.size(1);
  const torch::Tensor inside = examples.rows.ge(first * length).logical_and(examples.rows.lt(last * length));
  const torch::Tensor &positions = examples.positions, &unseen = examples.unseen, &snr = examples.log_snr;
  const torch::Tensor &temperatures = examples.temperatures, &left = examples.blocks_left;
  return {examples.inputs.slice(0, first, last),
          positions.defined() ? positions.slice(0, first, last) : torch::Tensor(),
          unseen.defined() && unseen.dim() == 4 ? unseen.slice(0, first, last) : unseen,
          examples.rows.masked_select(inside) - first * length,
          examples.targets.masked_select(inside),
          examples.weights.masked_select(inside),
          examples.barred,
          snr.defined() ? snr.masked_select(inside) : torch::Tensor(),
          examples.canvas_begin,
          temperatures.defined() ? temperatures.slice(0, first, last) : torch::Tensor(),
          left.defined() ? left.masked_select(inside) : torch::Tensor()};
}

Examples moved(const Examples& examples, torch::Device device) {
  const auto to_device = [&](const torch::Tensor& x) { return x.defined() ? x.to(device) : x; };
  return {to_device(examples.inputs),
          to_device(examples.positions),
          to_device(examples.unseen),
          to_device(examples.rows),
          to_device(examples.targets),
          to_device(examples.weights),
          examples.barred,
          to_device(examples.log_snr),
          examples.canvas_begin,
          to_device(examples.temperatures),
          to_device(examples.blocks_left)};
}

}  // namespace lacuna::train
