// A forward pass of a dense model, made of the kernels alone, for tests: weights on the device, pages of keys
// and values, and from a StepPlan to logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/qkv.h"
#include "backend/cuda/kernels/rows.h"
#include "device_vectors.h"
#include "model/parameters.h"
#include "model/plan.h"

namespace lacuna::cuda {

constexpr int64_t padded(int64_t count, int64_t step) {
  return (count + step - 1) / step * step;
}

/// Rows of bf16 numbers, padded with zeros to whole steps of a product.
class HostRows {
 public:
  HostRows(int64_t inputs, int64_t stride) : inputs_(inputs), stride_(stride) {}

  void add(const PackedMatrix& matrix, int64_t row) {
    std::vector<float> values(static_cast<size_t>(inputs_));
    matrix.read_row(row, values.data());
    const std::vector<uint16_t> numbers = to_bits(values);
    bits_.insert(bits_.end(), numbers.begin(), numbers.end());
    bits_.resize(bits_.size() + static_cast<size_t>(stride_ - inputs_), 0);
  }
  void add_zeros() { bits_.resize(bits_.size() + static_cast<size_t>(stride_), 0); }
  void add_all(const PackedMatrix& matrix, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) add(matrix, row);
  }
  const std::vector<uint16_t>& bits() const { return bits_; }

 private:
  int64_t inputs_;
  int64_t stride_;
  std::vector<uint16_t> bits_;
};

struct ComposedLayer {
  DeviceBuffer attn_norm, ffn_norm, q_norm, k_norm, qkv, qkv_bias, o, o_bias, up, up_bias, down, down_bias;
};

class ComposedModel {
 public:
  ComposedModel(const ModelConfig& config, const Parameters& parameters, int32_t num_pages)
      : config_(config),
        rope_(rope_frequencies(config.rope, config.rotary_dim == 0 ? config.head_dim : config.rotary_dim)),
        hidden_stride_(padded(config.hidden_dim, kDepthStep)),
        q_stride_(padded(config.q_dim(), kDepthStep)),
        ffn_stride_(padded(config.ffn_dim, kDepthStep)) {
    HostRows embedding(config.hidden_dim, config.hidden_dim);
    embedding.add_all(parameters.embedding, config.vocab_size);
    embedding_ = upload(stream_, embedding.bits());
    HostRows head(config.hidden_dim, hidden_stride_);
    head.add_all(parameters.head(), config.vocab_size);
    head_ = upload(stream_, head.bits());
    final_norm_ = upload(stream_, parameters.final_norm);
    for (const LayerParameters& layer : parameters.layers) layers_.push_back(upload_layer(layer));
    pool_ = {nullptr, config.num_layers, config.num_kv_heads, config.head_dim};
    pages_ = DeviceBuffer(static_cast<size_t>(num_pages * pool_.page_elements()) * sizeof(uint16_t));
    pool_.memory = pages_.as<uint16_t>();
    for (int32_t i = 0; i < num_pages; ++i) page_table_.push_back((i * 5 + 2) % num_pages);
  }

  /// Logits [plan.logits.size(), vocab] of a plan of one sequence.
  std::vector<float> logits(const StepPlan& plan) {
    const int64_t rows = plan.num_rows();
    const auto count = static_cast<uint32_t>(rows);
    prepare(plan);
    embed(stream_,
          {tokens_.as<int32_t>(), embedding_.as<uint16_t>(), residual_.as<float>(), config_.hidden_dim,
           config_.embedding_scale},
          count);
    for (size_t layer = 0; layer < layers_.size(); ++layer) run_layer(layer, rows);
    return run_head(plan);
  }

 private:
  ComposedLayer upload_layer(const LayerParameters& layer) {
    ComposedLayer on_device;
    on_device.attn_norm = upload(stream_, layer.attn_norm);
    on_device.ffn_norm = upload(stream_, layer.ffn_norm);
    on_device.q_norm = upload(stream_, layer.q_norm);
    on_device.k_norm = upload(stream_, layer.k_norm);
    HostRows qkv(config_.hidden_dim, hidden_stride_);
    qkv.add_all(layer.q.weight, config_.q_dim());
    qkv.add_all(layer.k.weight, config_.kv_dim());
    qkv.add_all(layer.v.weight, config_.kv_dim());
    on_device.qkv = upload(stream_, qkv.bits());
    std::vector<float> bias = layer.q.bias;
    bias.insert(bias.end(), layer.k.bias.begin(), layer.k.bias.end());
    bias.insert(bias.end(), layer.v.bias.begin(), layer.v.bias.end());
    on_device.qkv_bias = upload(stream_, bias);
    HostRows o(config_.q_dim(), q_stride_);
    o.add_all(layer.o.weight, config_.hidden_dim);
    on_device.o = upload(stream_, o.bits());
    on_device.o_bias = upload(stream_, layer.o.bias);
    HostRows up(config_.hidden_dim, hidden_stride_);
    if (config_.activation == Activation::kSquaredRelu) {
      up.add_all(layer.ffn.up.weight, config_.ffn_dim);
    } else {
      add_interleaved(layer.ffn, up);
    }
    on_device.up = upload(stream_, up.bits());
    on_device.up_bias = upload(stream_, layer.ffn.up.bias);
    HostRows down(config_.ffn_dim, ffn_stride_);
    down.add_all(layer.ffn.down.weight, config_.hidden_dim);
    on_device.down = upload(stream_, down.bits());
    on_device.down_bias = upload(stream_, layer.ffn.down.bias);
    return on_device;
  }

  /// Eight outputs of the gate, the same eight of up, and so on.
  void add_interleaved(const FeedForward& ffn, HostRows& rows) const {
    for (int64_t first = 0; first < config_.ffn_dim; first += 8) {
      for (const PackedMatrix* matrix : {&ffn.gate.weight, &ffn.up.weight}) {
        for (int64_t n = first; n < first + 8; ++n) {
          if (n < config_.ffn_dim) {
            rows.add(*matrix, n);
          } else {
            rows.add_zeros();
          }
        }
      }
    }
  }

  /// Brings the plan to the device and makes room for its rows.
  void prepare(const StepPlan& plan) {
    const auto rows = static_cast<size_t>(plan.num_rows());
    tokens_ = upload(stream_, plan.tokens);
    positions_ = upload(stream_, plan.positions);
    cells_ = upload(stream_, plan.cells);
    first_page_ = upload(stream_, std::vector<int32_t>(rows, 0));
    table_ = upload(stream_, page_table_);
    std::vector<GroupCells> groups;
    groups.reserve(plan.groups.size());
    for (const RowGroup& group : plan.groups) groups.push_back(cells_of(plan, group));
    plan_ = plan_attention(groups, static_cast<int32_t>(config_.num_heads / config_.num_kv_heads));
    tasks_ = upload(stream_, plan_.tasks);
    merges_ = upload(stream_, plan_.merges);
    runs_ = upload(stream_, plan_.runs);
    masks_ = upload(stream_, plan_.masks);
    const size_t partials = plan_.tasks.size() * static_cast<size_t>(config_.num_kv_heads) * kTaskQueries;
    partial_max_ = DeviceBuffer(partials * sizeof(float));
    partial_sum_ = DeviceBuffer(partials * sizeof(float));
    partial_out_ = DeviceBuffer(partials * static_cast<size_t>(config_.head_dim) * sizeof(float));
    residual_ = DeviceBuffer(rows * static_cast<size_t>(config_.hidden_dim) * sizeof(float));
    normed_ = DeviceBuffer(rows * static_cast<size_t>(hidden_stride_) * sizeof(uint16_t));
    qkv_ = DeviceBuffer(rows * static_cast<size_t>(config_.q_dim() + 2 * config_.kv_dim()) * sizeof(float));
    queries_ = DeviceBuffer(rows * static_cast<size_t>(config_.q_dim()) * sizeof(uint16_t));
    attended_ = DeviceBuffer(rows * static_cast<size_t>(q_stride_) * sizeof(uint16_t));
    stream_.fill(attended_.as<uint8_t>(), 0, attended_.bytes());  // the padding
    inner_ = DeviceBuffer(rows * static_cast<size_t>(ffn_stride_) * sizeof(uint16_t));
    upload_angles(*std::max_element(plan.positions.begin(), plan.positions.end()));
  }

  static GroupCells cells_of(const StepPlan& plan, const RowGroup& group) {
    GroupCells cells{
        .first_row = group.rows.begin, .num_rows = group.rows.size(), .first_page = 0, .first_seen_by = {}};
    const auto see = [&](int32_t cell, int32_t row) {
      auto& seen_by = cells.first_seen_by;
      if (static_cast<size_t>(cell) >= seen_by.size())
        seen_by.resize(static_cast<size_t>(cell) + 1, kNeverSeen);
      seen_by[static_cast<size_t>(cell)] = std::min(seen_by[static_cast<size_t>(cell)], row);
    };
    for (const IndexRange& range : group.visible) {
      for (int32_t cell = range.begin; cell < range.end; ++cell) see(cell, 0);
    }
    for (int32_t i = 0; i < group.rows.size() && group.own_rows != OwnRows::kNone; ++i) {
      see(plan.cells[static_cast<size_t>(group.rows.begin + i)], group.own_rows == OwnRows::kCausal ? i : 0);
    }
    return cells;
  }

  /// Cosines and sines as the pass on the CPU has them.
  void upload_angles(int32_t last) {
    std::vector<float> cosines, sines;
    for (int32_t position = 0; position <= last; ++position) {
      for (const float frequency : rope_) {
        const float angle = static_cast<float>(position) * frequency;
        cosines.push_back(static_cast<float>(std::cos(double{angle})) * config_.rope.attention_scaling);
        sines.push_back(static_cast<float>(std::sin(double{angle})) * config_.rope.attention_scaling);
      }
    }
    cosines_ = upload(stream_, cosines);
    sines_ = upload(stream_, sines);
  }

  static const float* or_null(const DeviceBuffer& buffer) {
    return buffer.bytes() == 0 ? nullptr : buffer.as<float>();
  }

  void norm(const DeviceBuffer& weight, int64_t rows, const int32_t* list = nullptr) {
    rms_norm(stream_,
             {.residual = residual_.as<float>(),
              .rows = list,
              .weight = weight.as<float>(),
              .out = normed_.as<uint16_t>(),
              .hidden = config_.hidden_dim,
              .stride = hidden_stride_,
              .epsilon = config_.norm_eps},
             static_cast<uint32_t>(rows));
  }

  /// In parts of as many rows as the product takes, which changes no bits.
  void multiply(ProductArguments whole, int64_t rows) {
    for (int64_t first = 0; first < rows; first += kMostProductRows) {
      ProductArguments part = whole;
      part.x = whole.x + first * whole.depth;
      if (whole.out_f32 != nullptr) part.out_f32 = whole.out_f32 + first * whole.out_stride;
      if (whole.out_bf16 != nullptr) part.out_bf16 = whole.out_bf16 + first * whole.out_stride;
      part.num_rows = std::min(kMostProductRows, rows - first);
      product(stream_, part);
    }
  }

  void run_layer(size_t index, int64_t rows) {
    const ComposedLayer& layer = layers_[index];
    norm(layer.attn_norm, rows);
    multiply({.x = normed_.as<uint16_t>(),
              .weights = layer.qkv.as<uint16_t>(),
              .bias = or_null(layer.qkv_bias),
              .out_f32 = qkv_.as<float>(),
              .num_outputs = config_.q_dim() + 2 * config_.kv_dim(),
              .depth = hidden_stride_,
              .out_stride = config_.q_dim() + 2 * config_.kv_dim()},
             rows);
    attend_rows(layer, static_cast<int64_t>(index), rows);
    add_product(attended_, layer.o, layer.o_bias, q_stride_, rows);
    norm(layer.ffn_norm, rows);
    const bool gated = config_.activation != Activation::kSquaredRelu;
    multiply({.x = normed_.as<uint16_t>(),
              .weights = layer.up.as<uint16_t>(),
              .bias = gated ? nullptr : or_null(layer.up_bias),
              .out_bf16 = inner_.as<uint16_t>(),
              .num_outputs = gated ? 2 * padded(config_.ffn_dim, 8) : config_.ffn_dim,
              .depth = hidden_stride_,
              .out_stride = ffn_stride_,
              .epilogue = gated ? Epilogue::kSwiglu : Epilogue::kSquaredRelu},
             rows);
    add_product(inner_, layer.down, layer.down_bias, ffn_stride_, rows);
  }

  void add_product(const DeviceBuffer& x, const DeviceBuffer& weights, const DeviceBuffer& bias,
                   int64_t depth, int64_t rows) {
    multiply({.x = x.as<uint16_t>(),
              .weights = weights.as<uint16_t>(),
              .bias = or_null(bias),
              .out_f32 = residual_.as<float>(),
              .num_outputs = config_.hidden_dim,
              .depth = depth,
              .out_stride = config_.hidden_dim,
              .scale = config_.residual_scale,
              .epilogue = Epilogue::kAddScaled},
             rows);
  }

  void attend_rows(const ComposedLayer& layer, int64_t index, int64_t rows) {
    finish_qkv(stream_,
               {.qkv = qkv_.as<float>(),
                .positions = positions_.as<int32_t>(),
                .cells = cells_.as<int32_t>(),
                .first_page = first_page_.as<int32_t>(),
                .page_table = table_.as<int32_t>(),
                .pool = pool_,
                .queries = queries_.as<uint16_t>(),
                .q_norm = or_null(layer.q_norm),
                .k_norm = or_null(layer.k_norm),
                .cosines = cosines_.as<float>(),
                .sines = sines_.as<float>(),
                .layer = index,
                .num_heads = config_.num_heads,
                .rotary_dim = 2 * static_cast<int64_t>(rope_.size()),
                .norm_full = config_.qk_norm_full,
                .epsilon = config_.norm_eps,
                .clip = config_.qkv_clip.value_or(0)},
               static_cast<uint32_t>(rows));
    attend(stream_,
           {.pool = pool_,
            .page_table = table_.as<int32_t>(),
            .queries = queries_.as<uint16_t>(),
            .tasks = tasks_.as<AttendTask>(),
            .merges = merges_.as<MergeTask>(),
            .runs = runs_.as<TileRun>(),
            .masks = masks_.as<int32_t>(),
            .partial_out = partial_out_.as<float>(),
            .partial_max = partial_max_.as<float>(),
            .partial_sum = partial_sum_.as<float>(),
            .out = attended_.as<uint16_t>(),
            .out_stride = q_stride_,
            .layer = index,
            .num_heads = config_.num_heads,
            .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim)),
            .soft_cap = config_.attn_soft_cap},
           static_cast<uint32_t>(plan_.tasks.size()), static_cast<uint32_t>(plan_.merges.size()));
  }

  std::vector<float> run_head(const StepPlan& plan) {
    std::vector<int32_t> wanted;
    for (const LogitRow& row : plan.logits) wanted.push_back(row.row);
    const DeviceBuffer list = upload(stream_, wanted);
    const auto rows = static_cast<int64_t>(wanted.size());
    norm(final_norm_, rows, list.as<int32_t>());
    const DeviceBuffer out(wanted.size() * static_cast<size_t>(config_.vocab_size) * sizeof(float));
    multiply({.x = normed_.as<uint16_t>(),
              .weights = head_.as<uint16_t>(),
              .out_f32 = out.as<float>(),
              .num_outputs = config_.vocab_size,
              .depth = hidden_stride_,
              .out_stride = config_.vocab_size},
             rows);
    std::vector<float> logits = download<float>(stream_, out);
    for (float& logit : logits) logit *= config_.logit_scale;
    return logits;
  }

  ModelConfig config_;
  std::vector<float> rope_;
  int64_t hidden_stride_;
  int64_t q_stride_;
  int64_t ffn_stride_;
  Stream stream_;
  DeviceBuffer embedding_, head_, final_norm_, pages_;
  std::vector<ComposedLayer> layers_;
  PagePool pool_;
  std::vector<int32_t> page_table_;
  AttentionPlan plan_;
  DeviceBuffer tokens_, positions_, cells_, first_page_, table_, tasks_, merges_, runs_, masks_;
  DeviceBuffer partial_max_, partial_sum_, partial_out_;
  DeviceBuffer residual_, normed_, qkv_, queries_, attended_, inner_, cosines_, sines_;
};

}  // namespace lacuna::cuda
