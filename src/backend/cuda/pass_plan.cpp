// Converts the plan of a pass to device arrays: rows, cells, windows, and attention tasks.
#include <algorithm>
#include <iterator>
#include <vector>

#include "backend/cuda/pass.h"
#include "backend/cuda/seen_cells.h"
#include "backend/cuda/soft_embeddings.h"

namespace lacuna::cuda {
namespace {

static_assert(kGraphRowStep <= kPageCells, "rows that pad a pass have a cell each");

/// Appends windows of one row each for padding rows.
void pad_windows(std::vector<RowWindow>& windows, size_t size) {
  while (windows.size() < size) {
    const auto row = static_cast<int32_t>(windows.size());
    windows.push_back({row, row + 1});
  }
}
}  // namespace

bool DevicePass::pads_to_graph(int64_t num_pages) {
  const bool fits = num_rows_ <= kMaxGraphRows && !sparse_.chooses();
  if (!model_.uses_graphs || !fits) return false;
  shape_ = rounded_up({.rows = num_rows_,
                       .output_rows = num_output_rows_,
                       .conditioned_rows = num_conditioned_,
                       .pages = num_pages + 1,
                       .attention = attention_.front().size(),
                       .sliding = sliding_ ? sliding_->size() : AttentionSize{},
                       .measures_kv_drift = plan_.measures_kv_drift,
                       .mixes = !plan_.mixed.empty()});
  if (!memory_.graphs.has_seen(shape_)) return false;
  num_rows_ = shape_.rows;
  num_output_rows_ = shape_.output_rows;
  num_conditioned_ = shape_.conditioned_rows;
  attention_.front().pad_to(shape_.attention);
  if (sliding_) sliding_->pad_to(shape_.sliding);
  return true;
}

AttentionSize DevicePass::AttentionOfLayers::size() const {
  return {.tasks = std::ssize(plan.tasks),
          .merges = std::ssize(plan.merges),
          .output_tasks = static_cast<int64_t>(num_output_tasks),
          .output_merges = static_cast<int64_t>(num_output_merges),
          .runs = std::ssize(plan.runs),
          .masks = std::ssize(plan.masks)};
}

void DevicePass::AttentionOfLayers::pad_to(const AttentionSize& size) {
  // Empty tasks and merges compute nothing. The padded output counts may include tasks of K/V-only rows; the
  // last layer computes them, but nothing reads their results.
  plan.tasks.resize(static_cast<size_t>(size.tasks));
  plan.merges.resize(static_cast<size_t>(size.merges));
  plan.runs.resize(static_cast<size_t>(size.runs));
  plan.masks.resize(static_cast<size_t>(size.masks));
  num_output_tasks = static_cast<size_t>(size.output_tasks);
  num_output_merges = static_cast<size_t>(size.output_merges);
}

void DevicePass::AttentionOfLayers::stage(Staging& staging) {
  tasks = staging.add(plan.tasks);
  merges = staging.add(plan.merges);
  runs = staging.add(plan.runs);
  masks = staging.add(plan.masks);
  mask_ends = staging.add(plan.mask_ends);
}

std::vector<DevicePass::AttentionOfLayers*> DevicePass::attentions() {
  std::vector<AttentionOfLayers*> all;
  for (AttentionOfLayers& attention : attention_) all.push_back(&attention);
  if (sliding_) all.push_back(&*sliding_);
  return all;
}

void DevicePass::pad_output_rows(std::vector<int32_t>& rows) const {
  std::vector<bool> is_output(static_cast<size_t>(num_rows_));
  for (const int32_t row : rows) is_output[static_cast<size_t>(row)] = true;
  for (int32_t row = 0; std::ssize(rows) < num_output_rows_; ++row) {
    if (!is_output[static_cast<size_t>(row)]) rows.push_back(row);
  }
}

void DevicePass::add_windows(const RowGroup& group, std::vector<RowWindow>& windows) const {
  const auto window_of = [&](int32_t row) {
    return plan_.positions[static_cast<size_t>(row)] / config_.moe.window;
  };
  for (int32_t row = group.rows.begin; row < group.rows.end;) {
    int32_t end = row + 1;
    while (end < group.rows.end && window_of(end) == window_of(row)) ++end;
    const auto first = static_cast<int32_t>(windows.size());
    const int32_t count = end - row;
    windows.insert(windows.end(), static_cast<size_t>(count), {first, first + count});
    row = end;
  }
}

void DevicePass::send_plan(std::span<const LogitRow> drawn) {
  std::vector<int32_t> table;
  std::vector<int32_t> first_page_of_sequence;
  for (const CudaSequence* sequence : sequences_) {
    first_page_of_sequence.push_back(static_cast<int32_t>(table.size()));
    sequence->add_page_table(table);
  }
  std::vector<int32_t> first_pages(plan_.tokens.size());
  std::vector<int32_t> output_rows;
  std::vector<RowWindow> windows, output_windows;
  std::vector<int32_t> is_denoised(plan_.tokens.size());
  for (const RowGroup& group : plan_.groups) {
    if (config_.moe.window > 0) add_windows(group, windows);
    if (config_.moe.window > 0 && !group.only_kv) add_windows(group, output_windows);
    for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
      first_pages[static_cast<size_t>(row)] = first_page_of_sequence[static_cast<size_t>(group.sequence)];
      is_denoised[static_cast<size_t>(row)] = group.canvas == CanvasRows::kNone ? 0 : 1;
      if (!group.only_kv) output_rows.push_back(row);
    }
  }
  num_output_rows_ = std::ssize(output_rows);
  sparse_.prepare(first_page_of_sequence);
  for (const int64_t layer : sparse_.first_layers())
    attention_.push_back(plan_attention_from(layer, false, first_page_of_sequence));
  if (config_.sliding) sliding_ = plan_attention_from(0, true, first_page_of_sequence);
  std::vector<int32_t> tokens = plan_.tokens;
  std::vector<int32_t> positions = plan_.positions;
  std::vector<int32_t> cells = plan_.cells;
  std::vector<float> weights(plan_.mixed.empty() ? 0 : tokens.size(), 1);
  for (const MixedRow& mixed : plan_.mixed) weights[static_cast<size_t>(mixed.row)] = mixed.weight;
  std::vector<int32_t> conditioned_rows;
  std::vector<const float*> soft_embeddings;
  list_conditioned_rows(conditioned_rows, soft_embeddings);
  num_conditioned_ = std::ssize(conditioned_rows);
  is_graph_ = pads_to_graph(std::ssize(table));
  if (is_graph_) {
    // Padding entries add to spare rows after the rows of the residual stream.
    for (auto row = static_cast<int32_t>(num_rows_); std::ssize(conditioned_rows) < num_conditioned_; ++row) {
      conditioned_rows.push_back(row);
      soft_embeddings.push_back(soft_embeddings.front());
    }
    // Padding rows write to distinct cells of the spare page, which no row reads.
    const auto spare = static_cast<int32_t>(table.size());
    table.push_back(sequences_.front()->arena()->spare_page());
    table.resize(static_cast<size_t>(shape_.pages), table.back());
    first_pages.resize(static_cast<size_t>(num_rows_), spare);
    tokens.resize(first_pages.size());
    if (!weights.empty()) weights.resize(first_pages.size(), 1);
    positions.resize(first_pages.size());
    is_denoised.resize(first_pages.size());
    for (int32_t cell = 0; cells.size() < first_pages.size(); ++cell) cells.push_back(cell);
    pad_output_rows(output_rows);
    if (config_.moe.window > 0) pad_windows(windows, first_pages.size());
    if (config_.moe.window > 0) pad_windows(output_windows, output_rows.size());
  }

  Staging& staging = memory_.plan;
  staging.clear();
  tokens_ = staging.add(tokens);
  weights_ = staging.add(weights);
  positions_ = staging.add(positions);
  cells_ = staging.add(cells);
  first_pages_ = staging.add(first_pages);
  page_table_ = staging.add(table);
  output_rows_ = staging.add(output_rows);
  windows_ = staging.add(windows);
  output_windows_ = staging.add(output_windows);
  is_denoised_ = staging.add(is_denoised);
  conditioned_rows_ = staging.add(conditioned_rows);
  soft_embeddings_ = staging.add(soft_embeddings);
  sparse_.stage(staging);
  for (AttentionOfLayers* attention : attentions()) {
    // Layers with a window always have mask_ends, so that all graphs of one shape read the same arrays.
    if (sliding_ && attention == &*sliding_)
      attention->plan.mask_ends.resize(attention->plan.masks.size(), kNoRow);
    attention->stage(staging);
  }
  head_.stage_draws(plan_, drawn, soft_embeddings_of(plan_, sequences_, drawn), staging);
  staging.send(stream_);
  const auto statistics_bytes = static_cast<int64_t>(drawn.size() * sizeof(DrawStatistics));
  grow(stream_, memory_.statistics, statistics_bytes);
}

DevicePass::AttentionOfLayers DevicePass::plan_attention_from(int64_t first_layer, bool slides,
                                                              std::span<const int32_t> first_pages) const {
  std::vector<GroupCells> groups, only_kv;
  for (const RowGroup& group : plan_.groups) {
    (group.only_kv ? only_kv : groups)
        .push_back(cells_of(group, first_pages[static_cast<size_t>(group.sequence)], first_layer, slides));
  }
  const int64_t kv_heads = slides ? config_.sliding->num_kv_heads : config_.num_kv_heads;
  const auto heads = static_cast<int32_t>(config_.num_heads / kv_heads);
  AttentionOfLayers made;
  made.first = first_layer;
  const size_t num_output_groups = groups.size();
  groups.insert(groups.end(), std::make_move_iterator(only_kv.begin()),
                std::make_move_iterator(only_kv.end()));
  made.plan = plan_attention(groups, heads);
  for (size_t i = 0; i < num_output_groups; ++i) made.num_output_merges += num_merges(groups[i], heads);
  if (made.num_output_merges > 0) {
    const MergeTask& last = made.plan.merges[made.num_output_merges - 1];
    made.num_output_tasks = static_cast<size_t>(last.first_task + last.num_tasks);
  }
  return made;
}

const DevicePass::AttentionOfLayers& DevicePass::attention_of(int64_t layer) const {
  if (config_.slides(layer)) return *sliding_;
  size_t last = attention_.size() - 1;
  while (attention_[last].first > layer) --last;
  return attention_[last];
}

GroupCells DevicePass::cells_of(const RowGroup& group, int32_t first_page, int64_t layer, bool slides) const {
  GroupCells cells{
      .first_row = group.rows.begin, .num_rows = group.rows.size(), .first_page = first_page, .seen = {}};
  if (SparsePass::is_confined(group, layer)) {
    sparse_.confine(group, cells);
    return cells;
  }
  const int32_t sink = sequences_[static_cast<size_t>(group.sequence)]->sink_cell();
  cells.seen = seen_cells(plan_, group, slides ? config_.sliding->window : 0, sink);
  return cells;
}

}  // namespace lacuna::cuda
