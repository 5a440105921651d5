#include "backend/cuda/pass.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/qkv.h"
#include "backend/cuda/kernels/rows.h"
#include "backend/cuda/soft_embeddings.h"
#include "base/error.h"

namespace lacuna::cuda {
namespace {

constexpr int64_t kFloat = sizeof(float);
static_assert(kGraphRowStep <= kPageCells, "rows that pad a pass have a cell each");

/// Makes room, and fills it with zeros where there was less: what lies behind a row's numbers is never
/// written.
void grow_with_zeros(Stream& stream, DeviceBuffer& buffer, int64_t bytes) {
  if (static_cast<int64_t>(buffer.bytes()) >= bytes) return;
  grow(stream, buffer, bytes);
  stream.fill(buffer.as<uint8_t>(), 0, buffer.bytes());
}

/// Windows of one row, which belong to rows that only pad.
void pad_windows(std::vector<RowWindow>& windows, size_t size) {
  while (windows.size() < size) {
    const auto row = static_cast<int32_t>(windows.size());
    windows.push_back({row, row + 1});
  }
}

}  // namespace

DevicePass::DevicePass(DeviceModel& model, const StepPlan& plan,
                       std::span<const CudaSequence* const> sequences, PassMemory& memory)
    : model_(model),
      config_(model.config),
      plan_(plan),
      sequences_(sequences),
      memory_(memory),
      stream_(model.stream()),
      scratch_(model.scratch),
      head_(model, memory.residual),
      sparse_(model, plan, sequences),
      num_rows_(plan.num_rows()) {}

void DevicePass::send(std::span<const LogitRow> drawn) {
  send_plan(drawn);
  extend_rotations();
  reserve_scratch();
  if (is_graph_) {
    memory_.graphs.launch(stream_, shape_, num_moves, [&] { send_layers(); });
    ++model_.device->num_graph_passes;
  } else {
    send_layers();
  }
  if (drawn.empty()) return;
  head_.draw_all(memory_.plan, memory_.statistics.as<DrawStatistics>());
}

void DevicePass::send_layers() {
  embed(stream_,
        {.tokens = memory_.plan.at(tokens_),
         .table = model_.bf16_rows(model_.weights.embedding()),
         .residual = memory_.residual.as<float>(),
         .hidden = config_.hidden_dim,
         .scale = model_.embedding_scale(),
         .table_f32 = model_.f32_rows(model_.weights.embedding())},
        static_cast<uint32_t>(num_rows_));
  if (config_.canvas) enter_canvases();
  for (int64_t layer = 0; layer < config_.num_layers && num_rows_ > 0; ++layer) run_layer(layer);
}

void DevicePass::enter_canvases() {
  const DeviceConditioning& conditioning = model_.weights.conditioning;
  if (num_conditioned_ > 0) {
    rms_norm(stream_,
             {.row_pointers = memory_.plan.at(soft_embeddings_),
              .weight = conditioning.norm.as<float>(),
              .out = model_.bf16_rows(scratch_.normed),
              .hidden = config_.hidden_dim,
              .stride = model_.hidden_depth(),
              .epsilon = config_.norm_eps,
              .out_padded = model_.f32_rows(scratch_.normed)},
             static_cast<uint32_t>(num_conditioned_));
    activate(conditioning.ffn, config_.canvas->conditioning_dim, num_conditioned_);
    multiply(stream_, conditioning.ffn.down,
             {.x = model_.bf16_rows(scratch_.inner),
              .x_f32 = model_.f32_rows(scratch_.inner),
              .out_f32 = memory_.residual.as<float>(),
              .out_rows = memory_.plan.at(conditioned_rows_),
              .out_stride = config_.hidden_dim,
              .epilogue = Epilogue::kAddScaled},
             num_conditioned_);
  }
  norm_canvases(stream_,
                {.residual = memory_.residual.as<float>(),
                 .is_denoised = memory_.plan.at(is_denoised_),
                 .hidden = config_.hidden_dim,
                 .epsilon = config_.norm_eps},
                static_cast<uint32_t>(num_rows_));
}

void DevicePass::list_conditioned_rows(std::vector<int32_t>& rows,
                                       std::vector<const float*>& soft_embeddings) const {
  for (const RowGroup& group : plan_.groups) {
    if (!config_.canvas || group.canvas != CanvasRows::kConditioned) continue;
    for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
      rows.push_back(row);
      soft_embeddings.push_back(sequences_[static_cast<size_t>(group.sequence)]->soft_embedding(
          plan_.cells[static_cast<size_t>(row)]));
    }
  }
}

bool DevicePass::pads_to_graph(int64_t num_pages) {
  const bool fits = num_rows_ <= kMaxGraphRows && !sparse_.chooses();
  if (!model_.uses_graphs || !fits) return false;
  shape_ = rounded_up({.rows = num_rows_,
                       .output_rows = num_output_rows_,
                       .conditioned_rows = num_conditioned_,
                       .pages = num_pages + 1,
                       .attention = attention_.front().size(),
                       .sliding = sliding_ ? sliding_->size() : AttentionSize{},
                       .measures_kv_drift = plan_.measures_kv_drift});
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
  // Tasks and merges of no rows compute nothing; those of rows that only want keys and values may join the
  // last layer's, where what they write is not read.
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
  std::vector<int32_t> conditioned_rows;
  std::vector<const float*> soft_embeddings;
  list_conditioned_rows(conditioned_rows, soft_embeddings);
  num_conditioned_ = std::ssize(conditioned_rows);
  is_graph_ = pads_to_graph(std::ssize(table));
  if (is_graph_) {
    // Behind the rows of the residual stream, there is a place for what these add.
    for (auto row = static_cast<int32_t>(num_rows_); std::ssize(conditioned_rows) < num_conditioned_; ++row) {
      conditioned_rows.push_back(row);
      soft_embeddings.push_back(soft_embeddings.front());
    }
    // Rows that pad the pass write to a page that no row reads, each to a cell of its own.
    const auto spare = static_cast<int32_t>(table.size());
    table.push_back(sequences_.front()->arena()->spare_page());
    table.resize(static_cast<size_t>(shape_.pages), table.back());
    first_pages.resize(static_cast<size_t>(num_rows_), spare);
    tokens.resize(first_pages.size());
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
    // Layers with a window always have these, so that graphs of one shape read the same arrays.
    if (sliding_ && attention == &*sliding_)
      attention->plan.mask_ends.resize(attention->plan.masks.size(), kNeverSeen);
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
  made.plan = plan_attention(groups, heads);
  made.num_output_tasks = made.plan.tasks.size();
  made.num_output_merges = made.plan.merges.size();
  if (only_kv.empty()) return made;
  groups.insert(groups.end(), only_kv.begin(), only_kv.end());
  made.plan = plan_attention(groups, heads);  // the same tasks, and those of the others behind them
  return made;
}

const DevicePass::AttentionOfLayers& DevicePass::attention_of(int64_t layer) const {
  if (config_.slides(layer)) return *sliding_;
  size_t last = attention_.size() - 1;
  while (attention_[last].first > layer) --last;
  return attention_[last];
}

GroupCells DevicePass::cells_of(const RowGroup& group, int32_t first_page, int64_t layer, bool slides) const {
  GroupCells cells{.first_row = group.rows.begin,
                   .num_rows = group.rows.size(),
                   .first_page = first_page,
                   .first_seen_by = {}};
  if (SparsePass::is_confined(group, layer)) {
    sparse_.confine(group, cells);
    return cells;
  }
  std::vector<int32_t>& seen_by = cells.first_seen_by;
  const auto see = [&](int32_t cell, int32_t row) {
    const auto index = static_cast<size_t>(cell);
    if (index >= seen_by.size()) seen_by.resize(index + 1, kNeverSeen);
    seen_by[index] = std::min(seen_by[index], row);
  };
  for (const IndexRange& range : group.visible) {
    for (int32_t cell = range.begin; cell < range.end; ++cell) see(cell, 0);
  }
  for (int32_t i = 0; i < group.rows.size() && group.own_rows != OwnRows::kNone; ++i) {
    const int32_t row = group.rows.begin + i;
    const int32_t cell = plan_.cells[static_cast<size_t>(row)];
    see(cell, group.own_rows == OwnRows::kCausal ? i : 0);
  }
  if (slides) narrow_to_window(group, cells);
  const int32_t sink = sequences_[static_cast<size_t>(group.sequence)]->sink_cell();
  if (sink >= 0) see(sink, 0);
  if (!cells.end_seen_by.empty()) cells.end_seen_by.resize(seen_by.size(), kNeverSeen);
  return cells;
}

void DevicePass::narrow_to_window(const RowGroup& group, GroupCells& cells) const {
  const auto begin_of = [&](int32_t index) {  // of the window of a row of the group
    const int32_t row = group.rows.begin + index;
    const int64_t position = plan_.positions[static_cast<size_t>(row)];
    return std::max<int64_t>(0, position + 1 - config_.sliding->window);
  };
  // Cells before the first row's window are hidden from all. A group's own cells are not, unless it is
  // causal.
  const int64_t first_begin = begin_of(0);
  std::vector<int32_t>& seen_by = cells.first_seen_by;
  const bool is_causal = group.own_rows == OwnRows::kCausal;
  std::vector<bool> is_own(seen_by.size());
  for (int32_t row = group.rows.begin; row < group.rows.end && group.own_rows != OwnRows::kNone; ++row)
    is_own[static_cast<size_t>(plan_.cells[static_cast<size_t>(row)])] = true;
  for (size_t cell = 0; cell < seen_by.size(); ++cell) {
    if (static_cast<int64_t>(cell) < first_begin && !is_own[cell]) seen_by[cell] = kNeverSeen;
  }
  if (!is_causal || begin_of(group.rows.size() - 1) == 0) return;
  cells.end_seen_by.assign(seen_by.size(), kNeverSeen);
  const auto positions = plan_.positions.begin();
  expects(std::is_sorted(positions + group.rows.begin, positions + group.rows.end),
          "rows that see each other causally through a window have ascending positions");
  int32_t end = 0;  // the first row whose window begins behind the cell: windows follow the rows
  for (size_t cell = 0; cell < seen_by.size(); ++cell) {
    while (end < group.rows.size() && begin_of(end) <= static_cast<int64_t>(cell)) ++end;
    if (end < group.rows.size()) cells.end_seen_by[cell] = end;
  }
}

void DevicePass::extend_rotations() {
  extend_rotations(config_.rope, model_.rope, scratch_.rotations);
  if (config_.sliding)
    extend_rotations(config_.sliding->rope, model_.sliding_rope, scratch_.sliding_rotations);
}

void DevicePass::extend_rotations(const RopeConfig& rope, std::span<const float> frequencies,
                                  Rotations& rotations) {
  const int64_t needed = int64_t{*std::max_element(plan_.positions.begin(), plan_.positions.end())} + 1;
  if (needed <= rotations.num_positions) return;
  const int64_t positions = std::max(needed, 2 * rotations.num_positions);
  std::vector<float> cosines, sines, query_scales;
  for (int64_t position = 0; position < positions; ++position) {
    for (const float frequency : frequencies) {
      // The product in f32 and the functions in double, as on the CPU.
      const float angle = static_cast<float>(position) * frequency;
      cosines.push_back(static_cast<float>(std::cos(double{angle})) * rope.attention_scaling);
      sines.push_back(static_cast<float>(std::sin(double{angle})) * rope.attention_scaling);
    }
    if (rope.query_growth != 0) query_scales.push_back(query_scale(rope, position));
  }
  rotations.num_positions = 0;  // until all tables are written: what follows may throw
  const auto send = [&](const std::vector<float>& values, DeviceBuffer& to) {
    const auto bytes = static_cast<int64_t>(values.size()) * kFloat;
    grow(stream_, to, bytes);
    stream_.copy(to.as<float>(), values.data(), static_cast<size_t>(bytes));
  };
  send(cosines, rotations.cosines);
  send(sines, rotations.sines);
  if (!query_scales.empty()) send(query_scales, rotations.query_scales);
  stream_.wait();  // the tables on the host end here; it happens when contexts grow
  rotations.num_positions = positions;
}

void DevicePass::reserve_scratch() {
  const int64_t rows = num_rows_;
  const int64_t spare_rows = num_conditioned_ > 0 ? kGraphRowStep : 0;
  grow(stream_, memory_.residual, (rows + spare_rows) * config_.hidden_dim * kFloat);
  if (config_.norms_outputs) grow(stream_, scratch_.projected, rows * config_.hidden_dim * kFloat);
  if (config_.moe.parallel_dense) grow(stream_, scratch_.dense, rows * config_.hidden_dim * kFloat);
  if (plan_.measures_kv_drift) grow(stream_, memory_.kv_drift, 2 * rows * config_.num_layers * kFloat);
  grow(stream_, scratch_.normed, rows * model_.hidden_depth() * model_.number_bytes());
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) reserve_attention(layer);
  const int64_t conditioning_dim = config_.canvas ? config_.canvas->conditioning_dim : 0;
  const int64_t widest = std::max({config_.ffn_dim, config_.moe.shared_ffn_dim, conditioning_dim});
  grow(stream_, scratch_.inner, rows * padded_depth(widest) * model_.number_bytes());
  if (!config_.has_experts()) return;
  const MoeConfig& moe = config_.moe;
  const int64_t entries = rows * moe.experts_per_token;
  // The last layer may have fewer rows, and then more tiles, which are smaller.
  const int64_t tiles = moe.num_experts + entries / kFewTileRows;
  grow(stream_, scratch_.normed_f32, moe.router_in_f32 ? rows * config_.hidden_dim * kFloat : 0);
  grow(stream_, scratch_.router_logits, rows * moe.num_experts * kFloat);
  grow(stream_, scratch_.chosen, entries * static_cast<int64_t>(sizeof(ChosenExpert)));
  grow(stream_, scratch_.sorted_entries, entries * static_cast<int64_t>(sizeof(int32_t)));
  grow(stream_, scratch_.sorted_rows, entries * static_cast<int64_t>(sizeof(int32_t)));
  grow(stream_, scratch_.tiles, tiles * static_cast<int64_t>(sizeof(ExpertTile)));
  grow(stream_, scratch_.expert_inner, entries * padded_depth(moe.expert_ffn_dim) * model_.number_bytes());
  grow(stream_, scratch_.expert_out, entries * config_.hidden_dim * kFloat);
}

void DevicePass::reserve_attention(int64_t layer) {
  const int64_t rows = num_rows_;
  const int64_t q_dim = config_.q_dim_of(layer);
  grow(stream_, scratch_.qkv, rows * model_.weights.layers[static_cast<size_t>(layer)].qkv.outputs * kFloat);
  grow(stream_, scratch_.queries, rows * q_dim * model_.number_bytes());
  grow_with_zeros(stream_, attended_of(layer), rows * padded_depth(q_dim) * model_.number_bytes());
  const int64_t tasks = std::ssize(attention_of(layer).plan.tasks);
  const int64_t partials = tasks * config_.num_kv_heads_of(layer) * kTaskQueries;
  grow(stream_, scratch_.partial_max, partials * kFloat);
  grow(stream_, scratch_.partial_sum, partials * kFloat);
  grow(stream_, scratch_.partial_out, partials * config_.head_dim_of(layer) * kFloat);
}

DeviceBuffer& DevicePass::attended_of(int64_t layer) {
  return config_.slides(layer) ? scratch_.sliding_attended : scratch_.attended;
}

void DevicePass::norm(const DeviceBuffer& weight, bool wants_f32) {
  rms_norm(stream_,
           {.residual = memory_.residual.as<float>(),
            .rows = rows_,
            .weight = weight.as<float>(),
            .out = model_.bf16_rows(scratch_.normed),
            .out_f32 = wants_f32 ? scratch_.normed_f32.as<float>() : nullptr,
            .hidden = config_.hidden_dim,
            .stride = model_.hidden_depth(),
            .epsilon = config_.norm_eps,
            .out_padded = model_.f32_rows(scratch_.normed)},
           static_cast<uint32_t>(num_rows_));
}

void DevicePass::add_product(const DeviceMatrix& matrix, const DeviceBuffer& x, const int32_t* rows_of_x,
                             const DeviceBuffer& output_norm) {
  if (output_norm.bytes() > 0) {
    project(matrix, x, rows_of_x, scratch_.projected);
    return add_projected(output_norm);
  }
  multiply(stream_, matrix,
           {.x = model_.bf16_rows(x),
            .x_f32 = model_.f32_rows(x),
            .rows = rows_of_x,
            .out_f32 = memory_.residual.as<float>(),
            .out_rows = rows_,
            .out_stride = config_.hidden_dim,
            .scale = config_.residual_scale,
            .epilogue = Epilogue::kAddScaled},
           num_rows_);
}

void DevicePass::project(const DeviceMatrix& matrix, const DeviceBuffer& x, const int32_t* rows_of_x,
                         const DeviceBuffer& out) {
  multiply(stream_, matrix,
           {.x = model_.bf16_rows(x),
            .x_f32 = model_.f32_rows(x),
            .rows = rows_of_x,
            .out_f32 = out.as<float>(),
            .out_stride = config_.hidden_dim},
           num_rows_);
}

void DevicePass::add_projected(const DeviceBuffer& output_norm) {
  add_normed(stream_,
             {.x = scratch_.projected.as<float>(),
              .weight = output_norm.as<float>(),
              .residual = memory_.residual.as<float>(),
              .rows = rows_,
              .hidden = config_.hidden_dim,
              .scale = config_.residual_scale,
              .epsilon = config_.norm_eps},
             static_cast<uint32_t>(num_rows_));
}

void DevicePass::scale_by_layer(const DeviceLayer& layer) {
  scale_rows(stream_,
             {.residual = memory_.residual.as<float>(),
              .is_denoised = memory_.plan.at(is_denoised_),
              .rows = rows_,
              .hidden = config_.hidden_dim,
              .read_factor = layer.encoder_scalar,
              .denoised_factor = layer.layer_scalar},
             static_cast<uint32_t>(num_rows_));
}

void DevicePass::run_layer(int64_t index) {
  const DeviceLayer& layer = model_.weights.layers[static_cast<size_t>(index)];
  norm(layer.attn_norm);
  project_and_attend(layer, index);
  if (num_rows_ == 0) return;  // the last layer; nobody asked for more than K/V
  feed_forward(layer);
  if (config_.layer_scalars) scale_by_layer(layer);
}

void DevicePass::project_and_attend(const DeviceLayer& layer, int64_t index) {
  multiply(stream_, layer.qkv,
           {.x = model_.bf16_rows(scratch_.normed),
            .x_f32 = model_.f32_rows(scratch_.normed),
            .out_f32 = scratch_.qkv.as<float>(),
            .out_stride = layer.qkv.outputs},
           num_rows_);
  const bool slides = config_.slides(index);
  const Rotations& rotations = slides ? scratch_.sliding_rotations : scratch_.rotations;
  const Staging& plan = memory_.plan;
  finish_qkv(stream_,
             {.qkv = scratch_.qkv.as<float>(),
              .positions = plan.at(positions_),
              .cells = plan.at(cells_),
              .first_page = plan.at(first_pages_),
              .page_table = plan.at(page_table_),
              .pool = pool_of(index),
              .queries = model_.bf16_rows(scratch_.queries),
              .queries_f32 = model_.f32_rows(scratch_.queries),
              .q_norm = floats_or_null(layer.q_norm),
              .k_norm = floats_or_null(layer.k_norm),
              .cosines = rotations.cosines.as<float>(),
              .sines = rotations.sines.as<float>(),
              .query_scales = floats_or_null(rotations.query_scales),
              .drift = plan_.measures_kv_drift ? memory_.kv_drift.as<float>() : nullptr,
              .layer = index,
              .num_heads = config_.num_heads,
              .rotary_dim = 2 * std::ssize(slides ? model_.sliding_rope : model_.rope),
              .norm_full = config_.qk_norm_full,
              .epsilon = config_.norm_eps,
              .shares_keys = !config_.has_value_projection(index),
              .v_norm = config_.v_norm,
              .clip = config_.qkv_clip.value_or(0)},
             static_cast<uint32_t>(num_rows_));
  if (index + 1 == config_.num_layers) drop_kv_only_rows();
  attend_rows(layer, index);
}

void DevicePass::attend_rows(const DeviceLayer& layer, int64_t index) {
  const Staging& plan = memory_.plan;
  const AttentionOfLayers& attention = attention_of(index);
  const DeviceBuffer& attended = attended_of(index);
  const float scale = config_.attn_scale > 0 ? config_.attn_scale
                                             : 1 / std::sqrt(static_cast<float>(config_.head_dim_of(index)));
  AttendArguments a{.pool = pool_of(index),
                    .page_table = plan.at(page_table_),
                    .queries = model_.bf16_rows(scratch_.queries),
                    .queries_f32 = model_.f32_rows(scratch_.queries),
                    .tasks = plan.at(attention.tasks),
                    .merges = plan.at(attention.merges),
                    .runs = plan.at(attention.runs),
                    .masks = plan.at(attention.masks),
                    .mask_ends = config_.slides(index) ? plan.at(attention.mask_ends) : nullptr,
                    .partial_out = scratch_.partial_out.as<float>(),
                    .partial_max = scratch_.partial_max.as<float>(),
                    .partial_sum = scratch_.partial_sum.as<float>(),
                    .out = model_.bf16_rows(attended),
                    .out_f32 = model_.f32_rows(attended),
                    .out_stride = layer.o.depth,
                    .layer = index,
                    .num_heads = config_.num_heads,
                    .scale = scale,
                    .soft_cap = config_.attn_soft_cap};
  sparse_.complete(plan, a);
  sparse_.choose_pages(a, wants_outputs_alone_);
  if (num_rows_ == 0) return;
  const bool all = !wants_outputs_alone_;
  attend(stream_, a, static_cast<uint32_t>(all ? attention.plan.tasks.size() : attention.num_output_tasks),
         static_cast<uint32_t>(all ? attention.plan.merges.size() : attention.num_output_merges));
  sparse_.remember(a, wants_outputs_alone_);
  add_product(layer.o, attended, rows_, layer.post_attn_norm);
}

void DevicePass::drop_kv_only_rows() {
  wants_outputs_alone_ = true;
  if (num_output_rows_ == num_rows_) return;
  num_rows_ = num_output_rows_;
  rows_ = memory_.plan.at(output_rows_);
}

void DevicePass::feed_forward(const DeviceLayer& layer) {
  if (layer.experts.up.outputs == 0) {
    norm(layer.ffn_norm);
    return run_dense(layer.ffn, config_.ffn_dim, layer.post_ffn_norm);
  }
  if (config_.moe.parallel_dense) return feed_forward_in_parallel(layer);
  norm(layer.ffn_norm, config_.moe.router_in_f32);
  run_experts(layer, route_rows(layer));
  add_experts();
  if (config_.moe.shared_ffn_dim > 0) run_dense(layer.shared, config_.moe.shared_ffn_dim, {});
}

void DevicePass::feed_forward_in_parallel(const DeviceLayer& layer) {
  norm(layer.ffn_norm);
  activate(layer.ffn, config_.ffn_dim, num_rows_);
  project(layer.ffn.down, scratch_.inner, nullptr, scratch_.dense);
  norm(layer.router_norm, config_.moe.router_in_f32);
  const SortArguments sorted = route_rows(layer);
  norm(layer.expert_norm);
  run_experts(layer, sorted);
  auto* sum = scratch_.projected.as<float>();
  combine(stream_,
          {.chosen = sorted.chosen,
           .outputs = scratch_.expert_out.as<float>(),
           .residual = sum,
           .hidden = config_.hidden_dim,
           .choices = sorted.choices,
           .adds = false},
          static_cast<uint32_t>(num_rows_));
  sum_of_norms(stream_,
               {.x = sum,
                .y = scratch_.dense.as<float>(),
                .x_weight = layer.post_expert_norm.as<float>(),
                .y_weight = layer.post_dense_norm.as<float>(),
                .out = sum,
                .hidden = config_.hidden_dim,
                .epsilon = config_.norm_eps},
               static_cast<uint32_t>(num_rows_));
  add_projected(layer.post_ffn_norm);
}

Epilogue DevicePass::activation() const {
  switch (config_.activation) {
    case Activation::kSilu:
      return Epilogue::kSwiglu;
    case Activation::kGeluTanh:
      return Epilogue::kGeglu;
    case Activation::kSquaredRelu:
      return Epilogue::kSquaredRelu;
  }
  return Epilogue::kSwiglu;
}

void DevicePass::run_dense(const DeviceFeedForward& ffn, int64_t dim, const DeviceBuffer& output_norm) {
  activate(ffn, dim, num_rows_);
  add_product(ffn.down, scratch_.inner, nullptr, output_norm);
}

void DevicePass::activate(const DeviceFeedForward& ffn, int64_t dim, int64_t rows) {
  multiply(stream_, ffn.up,
           {.x = model_.bf16_rows(scratch_.normed),
            .x_f32 = model_.f32_rows(scratch_.normed),
            .out_f32 = model_.f32_rows(scratch_.inner),
            .out_bf16 = model_.bf16_rows(scratch_.inner),
            .out_stride = padded_depth(dim),
            .epilogue = activation()},
           rows);
}

void DevicePass::multiply_experts(const DeviceMatrix& matrix, ProductArguments product,
                                  const SortArguments& sorted, const int32_t* x_rows) {
  product.num_outputs = matrix.outputs / sorted.experts;
  product.depth = matrix.depth;
  GroupedArguments a{.product = product,
                     .tiles = sorted.tiles,
                     .rows = x_rows,
                     .out_rows = sorted.sorted_entries,
                     .expert_stride = product.num_outputs * product.depth,
                     .tile_rows = expert_tile_rows(sorted.entries, sorted.experts)};
  switch (matrix.kind) {
    case DeviceMatrix::Kind::kBf16:
      a.product.weights = matrix.values.as<uint16_t>();
      break;
    case DeviceMatrix::Kind::kF32:
      a.product.weights_f32 = matrix.values.as<float>();
      break;
    case DeviceMatrix::Kind::kInt8:
    case DeviceMatrix::Kind::kFp8:
      a.product.codes = matrix.values.as<uint8_t>();
      a.product.code_format = matrix.code_format();
      a.product.scales = matrix.scales.as<float>();
      break;
    case DeviceMatrix::Kind::kInGroups:
      a.codes = matrix.codes();
      break;
  }
  grouped_product(stream_, a, most_tiles(sorted.entries, sorted.experts));
}

SortArguments DevicePass::route_rows(const DeviceLayer& layer) {
  const MoeConfig& moe = config_.moe;
  const auto experts = static_cast<int32_t>(moe.num_experts);
  const auto choices = static_cast<int32_t>(moe.experts_per_token);
  const auto entries = static_cast<int32_t>(num_rows_) * choices;
  const auto rows = static_cast<uint32_t>(num_rows_);
  float* logits = scratch_.router_logits.as<float>();
  auto* chosen = scratch_.chosen.as<ChosenExpert>();
  if (moe.router_in_f32) {
    multiply_router(
        stream_,
        {scratch_.normed_f32.as<float>(), layer.router_f32.as<float>(), logits, config_.hidden_dim, experts},
        rows);
  } else {
    multiply(stream_, layer.router,
             {.x = model_.bf16_rows(scratch_.normed),
              .x_f32 = model_.f32_rows(scratch_.normed),
              .out_f32 = logits,
              .out_stride = moe.num_experts},
             num_rows_);
  }
  const Staged<RowWindow>& windows = rows_ == nullptr ? windows_ : output_windows_;
  route(stream_,
        {.logits = logits,
         .bias = floats_or_null(layer.expert_bias),
         .chosen = chosen,
         .experts = experts,
         .choices = choices,
         .groups = static_cast<int32_t>(moe.num_groups),
         .groups_per_row = static_cast<int32_t>(moe.groups_per_token),
         .windows = moe.window > 0 ? memory_.plan.at(windows) : nullptr,
         .experts_per_window = static_cast<int32_t>(moe.experts_per_window),
         .sigmoid = moe.sigmoid_scores,
         .normalize = moe.normalize_weights,
         .scale = moe.routed_scale,
         .expert_scale = floats_or_null(layer.expert_scale)},
        rows);
  const SortArguments sorted{.chosen = chosen,
                             .sorted_entries = scratch_.sorted_entries.as<int32_t>(),
                             .sorted_rows = scratch_.sorted_rows.as<int32_t>(),
                             .tiles = scratch_.tiles.as<ExpertTile>(),
                             .entries = entries,
                             .choices = choices,
                             .experts = experts};
  sort_by_expert(stream_, sorted);
  return sorted;
}

void DevicePass::run_experts(const DeviceLayer& layer, const SortArguments& sorted) {
  multiply_experts(layer.experts.up,
                   {.x = model_.bf16_rows(scratch_.normed),
                    .x_f32 = model_.f32_rows(scratch_.normed),
                    .out_f32 = model_.f32_rows(scratch_.expert_inner),
                    .out_bf16 = model_.bf16_rows(scratch_.expert_inner),
                    .out_stride = layer.experts.down.depth,
                    .epilogue = activation()},
                   sorted, sorted.sorted_rows);
  multiply_experts(layer.experts.down,
                   {.x = model_.bf16_rows(scratch_.expert_inner),
                    .x_f32 = model_.f32_rows(scratch_.expert_inner),
                    .out_f32 = scratch_.expert_out.as<float>(),
                    .out_stride = config_.hidden_dim},
                   sorted, sorted.sorted_entries);
}

void DevicePass::add_experts() {
  combine(stream_,
          {.chosen = scratch_.chosen.as<ChosenExpert>(),
           .outputs = scratch_.expert_out.as<float>(),
           .residual = memory_.residual.as<float>(),
           .hidden = config_.hidden_dim,
           .choices = static_cast<int32_t>(config_.moe.experts_per_token),
           .scale = config_.residual_scale,
           .rows = rows_},
          static_cast<uint32_t>(num_rows_));
}

}  // namespace lacuna::cuda
