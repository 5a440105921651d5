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

/// Grows a buffer and fills it with zeros, because the padding of its rows is never written.
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
  const EmbedArguments embedded = {.tokens = memory_.plan.at(tokens_),
                                   .table = model_.bf16_rows(model_.weights.embedding()),
                                   .residual = memory_.residual.as<float>(),
                                   .hidden = config_.hidden_dim,
                                   .scale = model_.embedding_scale(),
                                   .table_f32 = model_.f32_rows(model_.weights.embedding())};
  embed(stream_, embedded, static_cast<uint32_t>(num_rows_));
  if (!plan_.mixed.empty()) {
    mix_with_mask(stream_,
                  {.embedded = embedded, .weights = memory_.plan.at(weights_), .mask_id = config_.mask_id},
                  static_cast<uint32_t>(num_rows_));
  }
  if (config_.canvas) condition_canvases();
  for (int64_t layer = 0; layer < config_.num_layers && num_rows_ > 0; ++layer) run_layer(layer);
}

void DevicePass::condition_canvases() {
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
    multiply(model_, conditioning.ffn.down,
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
      // The angle in f32, its cosine and sine in double, as on the CPU.
      const float angle = static_cast<float>(position) * frequency;
      cosines.push_back(static_cast<float>(std::cos(double{angle})) * rope.attention_scaling);
      sines.push_back(static_cast<float>(std::sin(double{angle})) * rope.attention_scaling);
    }
    if (rope.query_growth != 0) query_scales.push_back(query_scale(rope, position));
  }
  rotations.num_positions = 0;  // tables are invalid until all are written: the next lines may throw
  const auto send = [&](const std::vector<float>& values, DeviceBuffer& to) {
    const auto bytes = static_cast<int64_t>(values.size()) * kFloat;
    grow(stream_, to, bytes);
    stream_.copy(to.as<float>(), values.data(), static_cast<size_t>(bytes));
  };
  send(cosines, rotations.cosines);
  send(sines, rotations.sines);
  if (!query_scales.empty()) send(query_scales, rotations.query_scales);
  stream_.wait();  // the copies read local vectors
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
  for (const DeviceLayer& layer : model_.weights.layers) {
    for (const DeviceMatrix* matrix :
         {&layer.qkv, &layer.o, &layer.ffn.down, &layer.shared.down, &layer.router})
      reserve_partials(model_, *matrix, rows);
  }
  reserve_partials(model_, model_.weights.conditioning.ffn.down, rows);
  const int64_t conditioning_dim = config_.canvas ? config_.canvas->conditioning_dim : 0;
  const int64_t widest = std::max({config_.ffn_dim, config_.moe.shared_ffn_dim, conditioning_dim});
  grow(stream_, scratch_.inner, rows * padded_depth(widest) * model_.number_bytes());
  if (!config_.has_experts()) return;
  const MoeConfig& moe = config_.moe;
  const int64_t entries = rows * moe.experts_per_token;
  // Worst case: the last layer may have fewer rows, and then more but smaller tiles.
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
  multiply(model_, matrix,
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
  multiply(model_, matrix,
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
  if (num_rows_ == 0) return;  // last layer of a pass that wants only K/V
  feed_forward(layer);
  if (config_.layer_scalars) scale_by_layer(layer);
}

void DevicePass::project_and_attend(const DeviceLayer& layer, int64_t index) {
  multiply(model_, layer.qkv,
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
  sparse_.choose_pages(a, is_output_rows_only_);
  if (num_rows_ == 0) return;
  const bool all = !is_output_rows_only_;
  attend(stream_, a, static_cast<uint32_t>(all ? attention.plan.tasks.size() : attention.num_output_tasks),
         static_cast<uint32_t>(all ? attention.plan.merges.size() : attention.num_output_merges));
  sparse_.remember(a, is_output_rows_only_);
  add_product(layer.o, attended, rows_, layer.post_attn_norm);
}

void DevicePass::drop_kv_only_rows() {
  is_output_rows_only_ = true;
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
  multiply(model_, ffn.up,
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
    multiply(model_, layer.router,
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
