#include "engine/logits.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

/// First rows of the groups, then the number of rows. A group's rows attend to each other and to earlier
/// groups.
std::vector<int32_t> bounds_of(const ModelConfig& config, int32_t rows, const LogitsGroups& groups) {
  std::vector<int32_t> bounds = {0};
  if (config.block_causal && !config.causal_context) {
    // Blocks are counted in rows, even if the caller gives other positions.
    const int32_t block =
        groups.block_length > 0 ? groups.block_length : static_cast<int32_t>(config.block_length);
    const int32_t first = groups.clean_prefix > 0 ? groups.clean_prefix : block;
    for (int32_t begin = first; begin < rows; begin += block) bounds.push_back(begin);
  } else if (groups.clean_prefix > 0 && groups.clean_prefix < rows) {
    bounds.push_back(groups.clean_prefix);
  } else if (groups.canvas_begin > 0) {
    bounds.push_back(groups.canvas_begin);
  }
  bounds.push_back(rows);
  return bounds;
}

}  // namespace

StepPlan logits_plan(const ModelConfig& config, std::span<const TokenId> tokens,
                     std::span<const int32_t> positions, const LogitsGroups& groups) {
  StepPlan plan;
  plan.rules.emplace_back();
  const auto rows = static_cast<int32_t>(tokens.size());
  for (int32_t row = 0; row < rows; ++row) {
    const auto index = static_cast<size_t>(row);
    plan.add_row(tokens[index], positions.empty() ? row : positions[index], row);
  }
  const std::vector<int32_t> bounds = bounds_of(config, rows, groups);
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    RowGroup group;
    group.rows = {bounds[i], bounds[i + 1]};
    const bool is_canvas = groups.canvas_begin >= 0 && bounds[i] == groups.canvas_begin;
    const bool reads = config.canvas || config.causal_context;  // rows outside of the canvas are causal
    const bool is_causal = config.causal || (reads && !is_canvas);
    group.own_rows = is_causal ? OwnRows::kCausal : OwnRows::kBidirectional;
    if (is_canvas && config.canvas) {
      group.canvas = groups.is_conditioned ? CanvasRows::kConditioned : CanvasRows::kFresh;
      group.noise_level = groups.noise_level;
    }
    if (bounds[i] > 0) group.visible.push_back({0, bounds[i]});
    plan.groups.push_back(std::move(group));
  }
  return plan;
}

void compute_logits(const BackendModel& model, const StepPlan& plan, Matrix<float> out,
                    ConstMatrix<float> distributions) {
  const int32_t rows = plan.num_rows();
  expects(out.rows == rows && out.cols == model.config().vocab_size, "compute_logits: there is room");
  const std::unique_ptr<KvPool> pool = model.make_pool();
  const std::unique_ptr<KvSequence> sequence = pool->make_sequence({rows});
  KvSequence* const sequences[] = {sequence.get()};
  if (distributions.rows > 0) {
    std::vector<int32_t> cells;
    for (int32_t row = rows - static_cast<int32_t>(distributions.rows); row < rows; ++row)
      cells.push_back(plan.cells[static_cast<size_t>(row)]);
    model.keep_soft_embeddings(*sequence, cells, distributions);
  }
  const std::unique_ptr<PassTicket> ticket = model.submit(plan, sequences);
  ticket->wait();
  std::vector<LogitRow> wanted(static_cast<size_t>(rows));
  for (int32_t row = 0; row < rows; ++row) wanted[static_cast<size_t>(row)].row = row;
  ticket->read_logits(wanted, out);
}

}  // namespace lacuna
