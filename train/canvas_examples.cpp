// Canvases of DiffusionGemma: canvas_examples() of objective.h.
#include <algorithm>

#include "base/rng.h"
#include "train/model.h"
#include "train/objective_parts.h"

namespace lacuna::train {
namespace {

/// Samples the first position of a row's canvas, among the canvases that its response needs without end
/// tokens of low weight.
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

/// [rows] temperatures of the first pass; 0 for rows without self-conditioning.
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
                    predictions.weight_tensor()};
  examples.canvas_begin = length;
  examples.temperatures = sample_temperatures(rows, RngStream(options.seed, kConditioning, step));
  return examples;
}

}  // namespace lacuna::train
