#include "backend/cuda/pass.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/qkv.h"
#include "backend/cuda/kernels/rows.h"

namespace lacuna::cuda {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kBf16 = sizeof(uint16_t);
static_assert(kGraphRowStep <= kPageCells, "rows that pad a pass have a cell each");

/// Makes room, and fills it with zeros where there was less: what lies behind a row's numbers is never
/// written.
void grow_with_zeros(Stream& stream, DeviceBuffer& buffer, int64_t bytes) {
  if (static_cast<int64_t>(buffer.bytes()) >= bytes) return;
  grow(stream, buffer, bytes);
  stream.fill(buffer.as<uint8_t>(), 0, buffer.bytes());
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
      pool_(sequences.front()->arena()->pool()),
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
        {memory_.plan.at(tokens_), model_.weights.embedding(), memory_.residual.as<float>(),
         config_.hidden_dim, config_.embedding_scale},
        static_cast<uint32_t>(num_rows_));
  for (int64_t layer = 0; layer < config_.num_layers && num_rows_ > 0; ++layer) run_layer(layer);
}

bool DevicePass::pads_to_graph(int64_t num_pages) {
  const bool fits = num_rows_ <= kMostGraphRows && num_output_rows_ == num_rows_;
  if (!model_.uses_graphs || !fits) return false;
  shape_ = rounded_up({.rows = num_rows_,
                       .tasks = std::ssize(attention_.tasks),
                       .merges = std::ssize(attention_.merges),
                       .pages = num_pages + 1,
                       .runs = std::ssize(attention_.runs),
                       .masks = std::ssize(attention_.masks),
                       .measures_kv_drift = plan_.measures_kv_drift});
  if (!memory_.graphs.has_seen(shape_)) return false;
  num_rows_ = num_output_rows_ = shape_.rows;
  // Tasks and merges of no rows compute nothing.
  attention_.tasks.resize(static_cast<size_t>(shape_.tasks));
  attention_.merges.resize(static_cast<size_t>(shape_.merges));
  attention_.runs.resize(static_cast<size_t>(shape_.runs));
  attention_.masks.resize(static_cast<size_t>(shape_.masks));
  num_tasks_ = attention_.tasks.size();
  num_merges_ = attention_.merges.size();
  return true;
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
  for (const RowGroup& group : plan_.groups) {
    for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
      first_pages[static_cast<size_t>(row)] = first_page_of_sequence[static_cast<size_t>(group.sequence)];
      if (!group.only_kv) output_rows.push_back(row);
    }
  }
  num_output_rows_ = std::ssize(output_rows);
  plan_attention_of_groups(first_page_of_sequence);
  std::vector<int32_t> tokens = plan_.tokens;
  std::vector<int32_t> positions = plan_.positions;
  std::vector<int32_t> cells = plan_.cells;
  is_graph_ = pads_to_graph(std::ssize(table));
  if (is_graph_) {
    // Rows that pad the pass write to a page that no row reads, each to a cell of its own.
    const auto spare = static_cast<int32_t>(table.size());
    table.push_back(sequences_.front()->arena()->spare_page());
    table.resize(static_cast<size_t>(shape_.pages), table.back());
    first_pages.resize(static_cast<size_t>(num_rows_), spare);
    tokens.resize(first_pages.size());
    positions.resize(first_pages.size());
    for (int32_t cell = 0; cells.size() < first_pages.size(); ++cell) cells.push_back(cell);
    output_rows.clear();
  }

  Staging& staging = memory_.plan;
  staging.clear();
  tokens_ = staging.add(tokens);
  positions_ = staging.add(positions);
  cells_ = staging.add(cells);
  first_pages_ = staging.add(first_pages);
  page_table_ = staging.add(table);
  tasks_ = staging.add(attention_.tasks);
  merges_ = staging.add(attention_.merges);
  runs_ = staging.add(attention_.runs);
  masks_ = staging.add(attention_.masks);
  output_rows_ = staging.add(output_rows);
  head_.stage_draws(plan_, drawn, staging);
  staging.send(stream_);
  const auto statistics_bytes = static_cast<int64_t>(drawn.size() * sizeof(DrawStatistics));
  grow(stream_, memory_.statistics, statistics_bytes);
}

void DevicePass::plan_attention_of_groups(std::span<const int32_t> first_pages) {
  std::vector<GroupCells> groups, only_kv;
  for (const RowGroup& group : plan_.groups) {
    (group.only_kv ? only_kv : groups)
        .push_back(cells_of(group, first_pages[static_cast<size_t>(group.sequence)]));
  }
  const auto heads = static_cast<int32_t>(config_.num_heads / config_.num_kv_heads);
  attention_ = plan_attention(groups, heads);
  num_output_tasks_ = attention_.tasks.size();
  num_output_merges_ = attention_.merges.size();
  num_tasks_ = num_output_tasks_;
  num_merges_ = num_output_merges_;
  if (only_kv.empty()) return;
  groups.insert(groups.end(), only_kv.begin(), only_kv.end());
  attention_ = plan_attention(groups, heads);  // the same tasks, and those of the others behind them
  num_tasks_ = attention_.tasks.size();
  num_merges_ = attention_.merges.size();
}

GroupCells DevicePass::cells_of(const RowGroup& group, int32_t first_page) const {
  GroupCells cells{.first_row = group.rows.begin,
                   .num_rows = group.rows.size(),
                   .first_page = first_page,
                   .first_seen_by = {}};
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
  const int32_t sink = sequences_[static_cast<size_t>(group.sequence)]->sink_cell();
  if (sink >= 0) see(sink, 0);
  return cells;
}

void DevicePass::extend_rotations() {
  const int64_t needed = int64_t{*std::max_element(plan_.positions.begin(), plan_.positions.end())} + 1;
  if (needed <= scratch_.num_rotations) return;
  const int64_t positions = std::max(needed, 2 * scratch_.num_rotations);
  std::vector<float> cosines, sines;
  for (int64_t position = 0; position < positions; ++position) {
    for (const float frequency : model_.rope) {
      // The product in f32 and the functions in double, as on the CPU.
      const float angle = static_cast<float>(position) * frequency;
      cosines.push_back(static_cast<float>(std::cos(double{angle})) * config_.rope.attention_scaling);
      sines.push_back(static_cast<float>(std::sin(double{angle})) * config_.rope.attention_scaling);
    }
  }
  const auto bytes = static_cast<int64_t>(cosines.size()) * kFloat;
  scratch_.num_rotations = 0;  // until both tables are written: what follows may throw
  grow(stream_, scratch_.cosines, bytes);
  grow(stream_, scratch_.sines, bytes);
  stream_.copy(scratch_.cosines.as<float>(), cosines.data(), static_cast<size_t>(bytes));
  stream_.copy(scratch_.sines.as<float>(), sines.data(), static_cast<size_t>(bytes));
  stream_.wait();  // the tables on the host end here; it happens when contexts grow
  scratch_.num_rotations = positions;
}

void DevicePass::reserve_scratch() {
  const int64_t rows = num_rows_;
  grow(stream_, memory_.residual, rows * config_.hidden_dim * kFloat);
  if (plan_.measures_kv_drift) grow(stream_, memory_.kv_drift, 2 * rows * config_.num_layers * kFloat);
  grow(stream_, scratch_.normed, rows * model_.hidden_depth() * kBf16);
  grow(stream_, scratch_.qkv, rows * (config_.q_dim() + 2 * config_.kv_dim()) * kFloat);
  grow(stream_, scratch_.queries, rows * config_.q_dim() * kBf16);
  grow_with_zeros(stream_, scratch_.attended, rows * padded_depth(config_.q_dim()) * kBf16);
  const int64_t widest = std::max(config_.ffn_dim, config_.moe.shared_ffn_dim);
  grow(stream_, scratch_.inner, rows * padded_depth(widest) * kBf16);
  const int64_t partials = std::ssize(attention_.tasks) * config_.num_kv_heads * kTaskQueries;
  grow(stream_, scratch_.partial_max, partials * kFloat);
  grow(stream_, scratch_.partial_sum, partials * kFloat);
  grow(stream_, scratch_.partial_out, partials * config_.head_dim * kFloat);
  if (!config_.has_experts()) return;
  const MoeConfig& moe = config_.moe;
  const int64_t entries = rows * moe.experts_per_token;
  const int32_t tiles = most_tiles(static_cast<int32_t>(entries), static_cast<int32_t>(moe.num_experts));
  grow(stream_, scratch_.normed_f32, moe.router_in_f32 ? rows * config_.hidden_dim * kFloat : 0);
  grow(stream_, scratch_.router_logits, rows * moe.num_experts * kFloat);
  grow(stream_, scratch_.chosen, entries * static_cast<int64_t>(sizeof(ChosenExpert)));
  grow(stream_, scratch_.sorted_entries, entries * static_cast<int64_t>(sizeof(int32_t)));
  grow(stream_, scratch_.sorted_rows, entries * static_cast<int64_t>(sizeof(int32_t)));
  grow(stream_, scratch_.tiles, tiles * static_cast<int64_t>(sizeof(ExpertTile)));
  grow(stream_, scratch_.expert_inner, entries * padded_depth(moe.expert_ffn_dim) * kBf16);
  grow(stream_, scratch_.expert_out, entries * config_.hidden_dim * kFloat);
}

void DevicePass::norm(const DeviceBuffer& weight, bool wants_f32) {
  rms_norm(stream_,
           {.residual = memory_.residual.as<float>(),
            .rows = rows_,
            .weight = weight.as<float>(),
            .out = scratch_.normed.as<uint16_t>(),
            .out_f32 = wants_f32 ? scratch_.normed_f32.as<float>() : nullptr,
            .hidden = config_.hidden_dim,
            .stride = model_.hidden_depth(),
            .epsilon = config_.norm_eps},
           static_cast<uint32_t>(num_rows_));
}

void DevicePass::add_product(const DeviceMatrix& matrix, const uint16_t* x, const int32_t* rows_of_x) {
  multiply(stream_, matrix,
           {.x = x,
            .rows = rows_of_x,
            .out_f32 = memory_.residual.as<float>(),
            .out_rows = rows_,
            .out_stride = config_.hidden_dim,
            .scale = config_.residual_scale,
            .epilogue = Epilogue::kAddScaled},
           num_rows_);
}

void DevicePass::run_layer(int64_t index) {
  const DeviceLayer& layer = model_.weights.layers[static_cast<size_t>(index)];
  norm(layer.attn_norm);
  project_and_attend(layer, index);
  if (num_rows_ == 0) return;  // the last layer; nobody asked for more than K/V
  feed_forward(layer);
}

void DevicePass::project_and_attend(const DeviceLayer& layer, int64_t index) {
  multiply(stream_, layer.qkv,
           {.x = scratch_.normed.as<uint16_t>(),
            .out_f32 = scratch_.qkv.as<float>(),
            .out_stride = config_.q_dim() + 2 * config_.kv_dim()},
           num_rows_);
  const Staging& plan = memory_.plan;
  finish_qkv(stream_,
             {.qkv = scratch_.qkv.as<float>(),
              .positions = plan.at(positions_),
              .cells = plan.at(cells_),
              .first_page = plan.at(first_pages_),
              .page_table = plan.at(page_table_),
              .pool = pool_,
              .queries = scratch_.queries.as<uint16_t>(),
              .q_norm = floats_or_null(layer.q_norm),
              .k_norm = floats_or_null(layer.k_norm),
              .cosines = scratch_.cosines.as<float>(),
              .sines = scratch_.sines.as<float>(),
              .drift = plan_.measures_kv_drift ? memory_.kv_drift.as<float>() : nullptr,
              .layer = index,
              .num_heads = config_.num_heads,
              .rotary_dim = 2 * std::ssize(model_.rope),
              .norm_full = config_.qk_norm_full,
              .epsilon = config_.norm_eps,
              .clip = config_.qkv_clip.value_or(0)},
             static_cast<uint32_t>(num_rows_));
  if (index + 1 == config_.num_layers) drop_kv_only_rows();
  if (num_rows_ == 0) return;
  const float scale =
      config_.attn_scale > 0 ? config_.attn_scale : 1 / std::sqrt(static_cast<float>(config_.head_dim));
  attend(stream_,
         {.pool = pool_,
          .page_table = plan.at(page_table_),
          .queries = scratch_.queries.as<uint16_t>(),
          .tasks = plan.at(tasks_),
          .merges = plan.at(merges_),
          .runs = plan.at(runs_),
          .masks = plan.at(masks_),
          .partial_out = scratch_.partial_out.as<float>(),
          .partial_max = scratch_.partial_max.as<float>(),
          .partial_sum = scratch_.partial_sum.as<float>(),
          .out = scratch_.attended.as<uint16_t>(),
          .out_stride = layer.o.depth,
          .layer = index,
          .num_heads = config_.num_heads,
          .scale = scale,
          .soft_cap = config_.attn_soft_cap},
         static_cast<uint32_t>(num_tasks_), static_cast<uint32_t>(num_merges_));
  add_product(layer.o, scratch_.attended.as<uint16_t>(), rows_);
}

void DevicePass::drop_kv_only_rows() {
  if (num_output_rows_ == num_rows_) return;
  num_rows_ = num_output_rows_;
  rows_ = memory_.plan.at(output_rows_);
  num_tasks_ = num_output_tasks_;
  num_merges_ = num_output_merges_;
}

void DevicePass::feed_forward(const DeviceLayer& layer) {
  if (layer.ffn.up.outputs > 0) {
    norm(layer.ffn_norm);
    return run_dense(layer.ffn, config_.ffn_dim);
  }
  norm(layer.ffn_norm, config_.moe.router_in_f32);
  run_experts(layer);
  if (config_.moe.shared_ffn_dim > 0) run_dense(layer.shared, config_.moe.shared_ffn_dim);
}

void DevicePass::run_dense(const DeviceFeedForward& ffn, int64_t dim) {
  const bool is_gated = config_.activation != Activation::kSquaredRelu;
  multiply(stream_, ffn.up,
           {.x = scratch_.normed.as<uint16_t>(),
            .out_bf16 = scratch_.inner.as<uint16_t>(),
            .out_stride = padded_depth(dim),
            .epilogue = is_gated ? Epilogue::kSwiglu : Epilogue::kSquaredRelu},
           num_rows_);
  add_product(ffn.down, scratch_.inner.as<uint16_t>(), nullptr);
}

void DevicePass::run_experts(const DeviceLayer& layer) {
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
             {.x = scratch_.normed.as<uint16_t>(), .out_f32 = logits, .out_stride = moe.num_experts},
             num_rows_);
  }
  route(stream_,
        {.logits = logits,
         .bias = floats_or_null(layer.expert_bias),
         .chosen = chosen,
         .experts = experts,
         .choices = choices,
         .groups = static_cast<int32_t>(moe.num_groups),
         .groups_per_row = static_cast<int32_t>(moe.groups_per_token),
         .sigmoid = moe.sigmoid_scores,
         .normalize = moe.normalize_weights,
         .scale = moe.routed_scale},
        rows);
  const SortArguments sorted{.chosen = chosen,
                             .sorted_entries = scratch_.sorted_entries.as<int32_t>(),
                             .sorted_rows = scratch_.sorted_rows.as<int32_t>(),
                             .tiles = scratch_.tiles.as<ExpertTile>(),
                             .entries = entries,
                             .choices = choices,
                             .experts = experts};
  sort_by_expert(stream_, sorted);
  const int64_t depth = model_.hidden_depth();
  const int64_t inner = padded_depth(moe.expert_ffn_dim);
  const int64_t up_outputs = gated_outputs(moe.expert_ffn_dim);
  const auto run = [&](const ProductArguments& product, const int32_t* x_rows) {
    grouped_product(stream_,
                    {.product = product,
                     .tiles = sorted.tiles,
                     .rows = x_rows,
                     .out_rows = sorted.sorted_entries,
                     .expert_stride = product.num_outputs * product.depth},
                    most_tiles(entries, experts));
  };
  run({.x = scratch_.normed.as<uint16_t>(),
       .weights = layer.expert_up.as<uint16_t>(),
       .out_bf16 = scratch_.expert_inner.as<uint16_t>(),
       .num_outputs = up_outputs,
       .depth = depth,
       .out_stride = inner,
       .epilogue = Epilogue::kSwiglu},
      sorted.sorted_rows);
  run({.x = scratch_.expert_inner.as<uint16_t>(),
       .weights = layer.expert_down.as<uint16_t>(),
       .out_f32 = scratch_.expert_out.as<float>(),
       .num_outputs = config_.hidden_dim,
       .depth = inner,
       .out_stride = config_.hidden_dim},
      sorted.sorted_entries);
  combine(stream_,
          {.chosen = chosen,
           .outputs = scratch_.expert_out.as<float>(),
           .residual = memory_.residual.as<float>(),
           .hidden = config_.hidden_dim,
           .choices = choices,
           .scale = config_.residual_scale,
           .rows = rows_},
          rows);
}

}  // namespace lacuna::cuda
