// Attention rollout (Abnar and Zuidema 2020, arXiv 2005.00928). With A_l the weights of layer l, the mean
// over its heads, plus the identity, each row divided by its sum, and 1 the vector of ones, the shares of the
// cells are 1^T A_L ... A_1. A cell that no row computes keeps what it has: its row of A_l is that of the
// identity. From the last layer to the first, this takes one vector, and the weights of all layers.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "model/pass.h"

namespace lacuna {

int32_t Model::Pass::weights_at(size_t g) const {
  int32_t first = 0;
  for (size_t i = 0; i < g; ++i) {
    if (plan_.groups[i].wants_rollout) first += plan_.groups[i].rows.size();
  }
  return first;
}

Matrix<float> Model::Pass::layer_weights() {
  const int64_t rows = weights_at(plan_.groups.size());
  if (rows == 0) return {};
  if (weights_stride_ == 0) {
    expects(part_.is_whole() && !config_.sliding && !config_.convolution,
            "a rollout is of layers that attend to everything on one rank");
    for (size_t i = 0; i < ws_.attended_groups.size(); ++i) {
      if (!plan_.groups[ws_.attended_groups[i]].wants_rollout) continue;
      const VisibleCells& visible = ws_.everything.attention.visible(i);
      expects(visible.tile_runs().size() == 1 && visible.tile_runs().front().begin == 0,
              "a rollout is of cells from 0 on");
      weights_stride_ = std::max(weights_stride_, visible.num_cells());
    }
    weights_.reserve(config_.num_layers * rows * weights_stride_);
  }
  return {weights_.data() + ws_.layer * rows * weights_stride_, rows, weights_stride_};
}

void Model::Pass::find_rollout(size_t g, std::span<double> shares) const {
  const RowGroup& group = plan_.groups[g];
  const size_t cells = shares.size();
  const auto num_rows = static_cast<size_t>(group.rows.size());
  const std::span<const int32_t> own =
      std::span(plan_.cells).subspan(static_cast<size_t>(group.rows.begin), num_rows);
  for (const int32_t cell : own) expects(static_cast<size_t>(cell) < cells, "a row sees its own cell");
  const int64_t first = weights_at(g), rows = weights_at(plan_.groups.size());
  const auto heads = static_cast<double>(config_.num_heads);
  std::ranges::fill(shares, 1.0);
  std::vector<double> factors(num_rows);  // of the rows of A_l
  for (int64_t layer = config_.num_layers - 1; layer >= 0; --layer) {
    const auto weights_of = [&](size_t i) {
      return weights_.data() + (layer * rows + first + static_cast<int64_t>(i)) * weights_stride_;
    };
    for (size_t i = 0; i < num_rows; ++i) {
      double& share = shares[static_cast<size_t>(own[i])];
      factors[i] = share / (1 + std::accumulate(weights_of(i), weights_of(i) + cells, 0.0) / heads);
      share = factors[i];  // what the identity leaves
    }
    for (size_t i = 0; i < num_rows; ++i) {
      const float* weights = weights_of(i);
      for (size_t cell = 0; cell < cells; ++cell) shares[cell] += factors[i] / heads * weights[cell];
    }
  }
}

void Model::Pass::find_rollouts(std::vector<double>& rollout) {
  rollout.resize(plan_.rollout_size());
  if (rollout.empty()) return;
  std::vector<std::span<double>> parts;
  std::span<double> rest = rollout;
  for (const RowGroup& group : plan_.groups) {
    const auto size = static_cast<size_t>(group.rollout_size());
    parts.push_back(rest.first(size));
    rest = rest.subspan(size);
  }
  context_.threads.parallel_for(std::ssize(parts), [&](int64_t g, int) {
    const auto index = static_cast<size_t>(g);
    if (plan_.groups[index].wants_rollout) find_rollout(index, parts[index]);
  });
  ws_.times.selection += watch_.restart();
}

}  // namespace lacuna
