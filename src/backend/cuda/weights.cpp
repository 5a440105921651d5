#include "backend/cuda/weights.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "backend/cuda/device.h"
#include "backend/cuda/kernels/quantized_product.h"
#include "backend/cuda/kernels/soft_embedding.h"
#include "base/error.h"
#include "base/memory.h"
#include "weights/weight_format.h"

namespace lacuna::cuda {
namespace {

constexpr int64_t kStagingBytes = int64_t{8} << 20;
/// Weight formats with kernels, by the dtype of activations.
constexpr const char* kFormatsOfBf16 = "bf16, int8, int8-group, fp8, int4, int4-group or int4-min";
constexpr const char* kFormatsOfF32 = "f32, as all weights of a model in f32 on a device";

/// One output row of a matrix; zeros if `matrix` is null.
struct MatrixRow {
  const PackedMatrix* matrix = nullptr;
  int64_t row = 0;
};

using Rows = std::vector<MatrixRow>;

void add_rows(const PackedMatrix& matrix, int64_t count, Rows& rows) {
  for (int64_t row = 0; row < count; ++row) rows.push_back({&matrix, row});
}

/// Interleaves outputs of gate and up in groups of eight.
Rows interleaved(const PackedMatrix& gate, const PackedMatrix& up, int64_t outputs) {
  Rows rows;
  for (int64_t first = 0; first < outputs; first += 8) {
    for (const PackedMatrix* matrix : {&gate, &up}) {
      for (int64_t n = first; n < first + 8; ++n) rows.push_back({n < outputs ? matrix : nullptr, n});
    }
  }
  return rows;
}

std::vector<float> interleaved(const std::vector<float>& gate, const std::vector<float>& up,
                               int64_t outputs) {
  std::vector<float> bias;
  if (gate.empty() && up.empty()) return bias;
  for (int64_t first = 0; first < outputs; first += 8) {
    for (const std::vector<float>* part : {&gate, &up}) {
      for (int64_t n = first; n < first + 8; ++n)
        bias.push_back(n < outputs && !part->empty() ? (*part)[static_cast<size_t>(n)] : 0.0F);
    }
  }
  return bias;
}

/// Chooses how a matrix of this format is stored. Returns false if no kernel reads it.
bool choose_kind(const WeightFormat& format, DType dtype, DeviceMatrix& matrix) {
  using Kind = DeviceMatrix::Kind;
  if (format == WeightFormat(dtype)) {
    matrix.kind = dtype == DType::kF32 ? Kind::kF32 : Kind::kBf16;
    return true;
  }
  if (!format.is_quantized() || dtype != DType::kBF16) return false;
  const Quantization& values = format.quantization;
  if (values.group == 0) {
    matrix.kind = values.is_e4m3 ? Kind::kFp8 : Kind::kInt8;
    return values.bits == 8 && !values.has_minimum;
  }
  matrix.kind = Kind::kInGroups;
  matrix.group_format = values.bits == 8     ? GroupFormat::kInt8
                        : values.has_minimum ? GroupFormat::kInt4Min
                                             : GroupFormat::kInt4;
  return values.group == kCodeGroup && (values.bits == 4 || !values.has_minimum);
}

/// Writes one row that is not quantized.
void write_dense(const MatrixRow& from, int64_t inputs, DType dtype, std::byte* out) {
  if (dtype == DType::kF32) return from.matrix->read_row(from.row, reinterpret_cast<float*>(out));
  thread_local std::vector<float> values;
  values.resize(static_cast<size_t>(inputs));
  from.matrix->read_row(from.row, values.data());
  auto* rounded = reinterpret_cast<uint16_t*>(out);
  for (int64_t i = 0; i < inputs; ++i) rounded[i] = bf16(values[static_cast<size_t>(i)]).bits;
}

/// Writes one row of 8-bit values: int8 as signed integers (the host stores them with an offset), fp8 as is.
void write_bytes(const MatrixRow& from, CodeFormat format, uint8_t* out, float* scale) {
  thread_local QuantizedRow row;
  from.matrix->read_codes(from.row, row);
  const int middle = format == CodeFormat::kInt8 ? 128 : 0;
  for (size_t i = 0; i < row.codes.size(); ++i) out[i] = static_cast<uint8_t>(row.codes[i] - middle);
  *scale = row.scales.front();
}

/// Packs two values per byte, the even one in the lower half.
void pack_int4(const std::vector<uint8_t>& codes, uint8_t* out) {
  for (size_t i = 0; i < codes.size(); ++i) {
    const uint8_t code = codes[i];
    out[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? (out[i / 2] & 0xf0U) | code
                                                 : (out[i / 2] & 0x0fU) | (unsigned{code} << 4));
  }
}

/// Writes a row of a format with a scale per group.
///   minimums  only for kInt4Min; relative to values minus 8
void write_groups(const MatrixRow& from, GroupFormat format, uint8_t* out, float* scales, float* minimums) {
  thread_local QuantizedRow row;
  from.matrix->read_codes(from.row, row);
  if (format == GroupFormat::kInt8) {
    for (size_t i = 0; i < row.codes.size(); ++i) out[i] = static_cast<uint8_t>(row.codes[i] - 128);
  } else {
    pack_int4(row.codes, out);
  }
  // Multiplies two levels of scales into one, rounded to f32.
  const bool has_levels = from.matrix->format().quantization.two_levels;
  const double scale_of_output = has_levels ? row.of_output.scale : 1;
  const double minimum_of_output = has_levels ? row.of_output.minimum : 0;
  for (size_t group = 0; group < row.scales.size(); ++group) {
    const double scale = scale_of_output * row.scales[group];
    scales[group] = static_cast<float>(scale);
    if (format != GroupFormat::kInt4Min) continue;
    minimums[group] =
        static_cast<float>(scale_of_output * row.minimums[group] + minimum_of_output + 8 * scale);
  }
}

/// Converts weights to the device's formats and uploads them.
class Uploader {
 public:
  Uploader(Stream& stream, ThreadPool& threads, DType dtype)
      : stream_(stream), threads_(threads), dtype_(dtype) {}

  DeviceBuffer floats(const std::vector<float>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
    DeviceBuffer buffer = allocate(bytes);
    stream_.copy(buffer.as<float>(), values.data(), static_cast<size_t>(bytes));
    stream_.wait();
    return buffer;
  }

  /// Uploads rows of `inputs` numbers that are not quantized, padded with zeros to `stride`.
  DeviceBuffer dense_rows(const Rows& rows, int64_t inputs, int64_t stride) {
    const auto bytes = static_cast<size_t>(stride) * size_of(dtype_);
    DeviceBuffer buffer = allocate(std::ssize(rows) * static_cast<int64_t>(bytes));
    send(std::ssize(rows), bytes, buffer.as<std::byte>(), [&](int64_t n, std::byte* out) {
      std::fill_n(out, bytes, std::byte{0});
      const MatrixRow& row = rows[static_cast<size_t>(n)];
      if (row.matrix != nullptr) write_dense(row, inputs, dtype_, out);
    });
    return buffer;
  }

  /// Uploads a matrix; all rows have one format.
  DeviceMatrix matrix(const Rows& rows, int64_t inputs, const std::vector<float>& bias,
                      const std::string& name) {
    DeviceMatrix made;
    const auto first =
        std::find_if(rows.begin(), rows.end(), [](const MatrixRow& row) { return row.matrix; });
    expects(first != rows.end(), "upload: a matrix has rows");
    const WeightFormat format = first->matrix->format();
    for (const MatrixRow& row : rows) {
      if (row.matrix == nullptr || row.matrix->format() == format) continue;
      throw InputError("{} is stored as {} in a part, and as {} in another; expected one format", name,
                       describe(format), describe(row.matrix->format()));
    }
    if (!choose_kind(format, dtype_, made)) {
      throw InputError("{} is stored as {}, for which there is no CUDA kernel yet; expected {}", name,
                       describe(format), dtype_ == DType::kBF16 ? kFormatsOfBf16 : kFormatsOfF32);
    }
    made.outputs = std::ssize(rows);
    made.depth = padded_depth(inputs);
    if (!bias.empty()) made.bias = floats(bias);
    if (format.is_quantized()) {
      quantized(rows, made);
    } else {
      made.values = dense_rows(rows, inputs, made.depth);
    }
    return made;
  }

  DeviceFeedForward feed_forward(const FeedForward& ffn, const ModelConfig& config, int64_t dim,
                                 const std::string& name) {
    DeviceFeedForward made;
    if (config.activation == Activation::kSquaredRelu) {
      Rows rows;
      add_rows(ffn.up.weight, dim, rows);
      made.up = matrix(rows, config.hidden_dim, ffn.up.bias, name);
    } else {
      made.up = matrix(interleaved(ffn.gate.weight, ffn.up.weight, dim), config.hidden_dim,
                       interleaved(ffn.gate.bias, ffn.up.bias, dim), name);
    }
    Rows down;
    add_rows(ffn.down.weight, config.hidden_dim, down);
    made.down = matrix(down, dim, ffn.down.bias, name);
    return made;
  }

  static DeviceBuffer allocate(int64_t bytes) {
    const DeviceMemory memory = device_memory();
    if (bytes > memory.free) {
      throw InputError(
          "the weights do not fit into the device's memory: {} more are needed and {} are free; "
          "`--weights int8` or int4-group takes less",
          human_bytes(bytes), human_bytes(memory.free));
    }
    return DeviceBuffer(static_cast<size_t>(bytes));
  }

 private:
  void quantized(const Rows& rows, DeviceMatrix& made) {
    const bool in_groups = made.kind == DeviceMatrix::Kind::kInGroups;
    const int bits = in_groups ? bits_of(made.group_format) : 8;
    const bool has_minimums = in_groups && made.group_format == GroupFormat::kInt4Min;
    const auto row_bytes = static_cast<size_t>(made.depth * bits / 8);
    const int64_t groups = in_groups ? made.depth / kCodeGroup : 1;
    made.values = allocate(made.outputs * static_cast<int64_t>(row_bytes));
    // Padding decodes to zero: its quantized values are zero, and padded groups have scale and minimum 0.
    std::vector<float> scales(static_cast<size_t>(made.outputs * groups), 0.0F);
    std::vector<float> minimums(has_minimums ? scales.size() : 0, 0.0F);
    send(made.outputs, row_bytes, made.values.as<std::byte>(), [&](int64_t n, std::byte* out) {
      std::fill_n(out, row_bytes, bits == 8 ? std::byte{0} : std::byte{0x88});
      const MatrixRow& row = rows[static_cast<size_t>(n)];
      if (row.matrix == nullptr) return;
      auto* values = reinterpret_cast<uint8_t*>(out);
      float* scale = scales.data() + n * groups;
      if (in_groups) {
        float* minimum = has_minimums ? minimums.data() + n * groups : nullptr;
        write_groups(row, made.group_format, values, scale, minimum);
      } else {
        write_bytes(row, made.code_format(), values, scale);
      }
    });
    made.scales = floats(scales);
    if (has_minimums) made.minimums = floats(minimums);
  }

  /// Uploads `count` rows of `bytes` bytes in chunks of the staging memory's size; fill(n, out) writes row n.
  template <typename Fill>
  void send(int64_t count, size_t bytes, std::byte* to, Fill&& fill) {
    const int64_t each = std::max<int64_t>(1, kStagingBytes / static_cast<int64_t>(bytes));
    const auto needed = static_cast<size_t>(std::min(each, count)) * bytes;
    if (staging_.bytes() < needed) staging_ = HostBuffer(needed);
    for (int64_t first = 0; first < count; first += each) {
      const int64_t rows = std::min(each, count - first);
      threads_.parallel_for(rows, [&](int64_t i, int) {
        fill(first + i, staging_.as<std::byte>() + static_cast<size_t>(i) * bytes);
      });
      stream_.copy(to + static_cast<size_t>(first) * bytes, staging_.as<std::byte>(),
                   static_cast<size_t>(rows) * bytes);
      stream_.wait();  // before the next rows take the place of these
    }
  }

  Stream& stream_;
  ThreadPool& threads_;
  DType dtype_;
  HostBuffer staging_;
};

void upload_experts(Uploader& uploader, const ModelConfig& config, const LayerParameters& from,
                    const std::string& name, DeviceLayer& to) {
  const MoeConfig& moe = config.moe;
  Rows router;
  add_rows(from.router.weight, moe.num_experts, router);
  if (moe.router_in_f32) {
    std::vector<float> rows(static_cast<size_t>(moe.num_experts * config.hidden_dim));
    for (int64_t expert = 0; expert < moe.num_experts; ++expert)
      from.router.weight.read_row(expert, rows.data() + expert * config.hidden_dim);
    to.router_f32 = uploader.floats(rows);
  } else {
    to.router = uploader.matrix(router, config.hidden_dim, from.router.bias, name + ": the router");
  }
  to.expert_bias = uploader.floats(from.expert_bias);
  to.router_norm = uploader.floats(from.router_norm);
  to.expert_norm = uploader.floats(from.expert_norm);
  to.post_dense_norm = uploader.floats(from.post_dense_norm);
  to.post_expert_norm = uploader.floats(from.post_expert_norm);
  to.expert_scale = uploader.floats(from.expert_scale);
  Rows up, down;
  for (const FeedForward& expert : from.experts) {
    const Rows own = interleaved(expert.gate.weight, expert.up.weight, moe.expert_ffn_dim);
    up.insert(up.end(), own.begin(), own.end());
    add_rows(expert.down.weight, config.hidden_dim, down);
  }
  to.experts.up = uploader.matrix(up, config.hidden_dim, {}, name + ": the experts");
  to.experts.down = uploader.matrix(down, moe.expert_ffn_dim, {}, name + ": the experts");
  if (moe.shared_ffn_dim > 0) {
    to.shared =
        uploader.feed_forward(from.shared_expert, config, moe.shared_ffn_dim, name + ": the shared expert");
  }
}

DeviceLayer upload_layer_as(Uploader& uploader, const ModelConfig& config, int64_t index,
                            const LayerParameters& from) {
  const std::string name = "layer " + std::to_string(index);
  DeviceLayer to;
  to.attn_norm = uploader.floats(from.attn_norm);
  to.ffn_norm = uploader.floats(from.ffn_norm);
  to.q_norm = uploader.floats(from.q_norm);
  to.k_norm = uploader.floats(from.k_norm);
  to.post_attn_norm = uploader.floats(from.post_attn_norm);
  to.post_ffn_norm = uploader.floats(from.post_ffn_norm);
  to.layer_scalar = from.layer_scalar;
  to.encoder_scalar = from.encoder_scalar;
  Rows qkv;
  add_rows(from.q.weight, config.q_dim_of(index), qkv);
  add_rows(from.k.weight, config.kv_dim_of(index), qkv);
  if (config.has_value_projection(index)) add_rows(from.v.weight, config.kv_dim_of(index), qkv);
  std::vector<float> bias = from.q.bias;
  bias.insert(bias.end(), from.k.bias.begin(), from.k.bias.end());
  bias.insert(bias.end(), from.v.bias.begin(), from.v.bias.end());
  to.qkv = uploader.matrix(qkv, config.hidden_dim, bias, name + ": the projection to q, k and v");
  Rows o;
  add_rows(from.o.weight, config.hidden_dim, o);
  to.o = uploader.matrix(o, config.q_dim_of(index), from.o.bias, name + ": the projection after attention");
  const bool has_experts = !from.experts.empty();
  if (!has_experts || config.moe.parallel_dense)
    to.ffn = uploader.feed_forward(from.ffn, config, config.ffn_dim, name + ": the feed-forward layer");
  if (has_experts) upload_experts(uploader, config, from, name, to);
  return to;
}

DeviceMatrix transposed_embedding(Stream& stream, const ModelConfig& config, DType dtype,
                                  const DeviceBuffer& embedding) {
  DeviceMatrix made;
  const bool is_f32 = dtype == DType::kF32;
  made.kind = is_f32 ? DeviceMatrix::Kind::kF32 : DeviceMatrix::Kind::kBf16;
  made.outputs = config.hidden_dim;
  made.depth = padded_depth(config.vocab_size);
  made.values = Uploader::allocate(made.outputs * made.depth * static_cast<int64_t>(size_of(dtype)));
  transpose(stream, {.from = is_f32 ? nullptr : embedding.as<uint16_t>(),
                     .from_f32 = is_f32 ? embedding.as<float>() : nullptr,
                     .to = is_f32 ? nullptr : made.values.as<uint16_t>(),
                     .to_f32 = is_f32 ? made.values.as<float>() : nullptr,
                     .rows = config.vocab_size,
                     .columns = config.hidden_dim,
                     .stride = made.depth});
  return made;
}

int64_t bytes_of(const DeviceLayer& layer) {
  auto bytes = static_cast<int64_t>(layer.router_f32.bytes());
  for (const DeviceMatrix* matrix :
       {&layer.qkv, &layer.o, &layer.ffn.up, &layer.ffn.down, &layer.router, &layer.experts.up,
        &layer.experts.down, &layer.shared.up, &layer.shared.down})
    bytes += matrix->bytes();
  return bytes;
}

}  // namespace

int64_t matrix_bytes(const WeightFormat& format, int64_t outputs, int64_t inputs) {
  const int64_t depth = padded_depth(inputs);
  if (!format.is_quantized()) return outputs * depth * static_cast<int64_t>(size_of(format.dtype));
  const Quantization& values = format.quantization;
  const int64_t groups = values.group == 0 ? 1 : depth / kCodeGroup;
  const int64_t numbers = values.has_minimum ? 2 : 1;  // per group: scale and minimum
  return outputs * (depth * values.bits / 8 + groups * numbers * static_cast<int64_t>(sizeof(float)));
}

DeviceLayer upload_layer(Stream& stream, ThreadPool& threads, const ModelConfig& config, DType dtype,
                         int64_t index, const LayerParameters& layer) {
  Uploader uploader(stream, threads, dtype);
  return upload_layer_as(uploader, config, index, layer);
}

DeviceWeights upload_weights(Stream& stream, ThreadPool& threads, const ModelConfig& config, DType dtype,
                             const Parameters& parameters, std::vector<DeviceLayer> layers) {
  Uploader uploader(stream, threads, dtype);
  DeviceWeights weights;
  Rows head;
  add_rows(parameters.head(), config.vocab_size, head);
  weights.head = uploader.matrix(head, config.hidden_dim, {}, "the head");
  const bool is_tied = parameters.own_head.bytes() == 0;
  if (!is_tied || weights.head.is_quantized() || weights.head.depth != config.hidden_dim) {
    Rows rows;
    add_rows(parameters.embedding, config.vocab_size, rows);
    weights.own_embedding = uploader.dense_rows(rows, config.hidden_dim, config.hidden_dim);
  }
  weights.final_norm = uploader.floats(parameters.final_norm);
  if (parameters.conditioning) {
    weights.conditioning.norm = uploader.floats(parameters.conditioning->norm);
    weights.conditioning.ffn = uploader.feed_forward(
        parameters.conditioning->ffn, config, config.canvas->conditioning_dim, "the self-conditioning layer");
    weights.mean_embedding = transposed_embedding(stream, config, dtype, weights.embedding());
  }
  for (const DeviceLayer& layer : layers) weights.layer_bytes += bytes_of(layer);
  weights.layers = std::move(layers);
  return weights;
}

}  // namespace lacuna::cuda
