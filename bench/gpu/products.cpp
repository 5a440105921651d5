#include <algorithm>

#include "backend/cuda/kernels/wide_product.h"
#include "bench/gpu/device_timing.h"
#include "bench/gpu/device_vectors.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/library_product.h"

namespace lacuna::cuda {
namespace {

enum class Format : uint8_t { kBf16, kInt8, kFp8, kInt4 };

struct FormatTraits {
  Format format;
  const char* name;
  int64_t bits;  ///< per weight
};
constexpr FormatTraits kFormats[] = {{Format::kBf16, "bf16", 16},
                                     {Format::kInt8, "int8", 8},
                                     {Format::kFp8, "fp8", 8},
                                     {Format::kInt4, "int4", 4}};

/// A GEMM over rotating copies of one weight matrix.
class TimedProduct {
 public:
  TimedProduct(Stream& stream, const CheckSizes& sizes, const WeightShape& shape, const FormatTraits& traits)
      : stream_(stream), shape_(shape), format_(traits.format), num_scales_(shape.outputs) {
    if (format_ == Format::kInt4) num_scales_ = shape.outputs * shape.inputs / kCodeGroup;
    weight_bytes_ = shape.outputs * shape.inputs * traits.bits / 8;
    copies_ = num_copies(weight_bytes_, sizes.rotate_bytes);
    if (format_ == Format::kBf16) {
      weights_ = repeated(stream, copies_ * weight_bytes_, random_bf16(kPatternNumbers, 4, 0.05F));
    } else {
      const bool is_fp8 = format_ == Format::kFp8;
      weights_ = repeated(stream, copies_ * weight_bytes_,
                          is_fp8 ? random_e4m3(kPatternNumbers, 5) : random_bytes(kPatternNumbers, 5));
      scales_ = repeated(stream, copies_ * num_scales_ * 4, random_numbers(kPatternNumbers, 6, 0.01F));
    }
    const int64_t most_rows = *std::max_element(sizes.rows.begin(), sizes.rows.end());
    x_ = repeated(stream, most_rows * shape.inputs * 2, random_bf16(kPatternNumbers, 7));
    out_ = DeviceBuffer(static_cast<size_t>(most_rows * shape.outputs) * sizeof(float));
    const int64_t split = num_split({.num_outputs = shape.outputs, .depth = shape.inputs});
    const int64_t split_rows = std::min(most_rows, kMaxProductRows);
    partials_ = DeviceBuffer(static_cast<size_t>(split * split_rows * shape.outputs) * sizeof(float));
    stream.fill(out_.as<uint8_t>(), 0, out_.bytes());
    stream.wait();
  }

  double seconds(const CheckSizes& sizes, int64_t rows) {
    return seconds_of_call(stream_, calls(sizes), sizes.repeat, [&](int i) { send(rows, i % copies_); });
  }

  LibraryTime library(const CheckSizes& sizes, int64_t rows) const {
    LibraryProduct same{rows, shape_.outputs, shape_.inputs, x_.as<uint16_t>(), {}, out_.as<uint16_t>()};
    for (int copy = 0; copy < copies_; ++copy) same.weights.push_back(weights_of(copy));
    return time_of_library(stream_, same, calls(sizes), sizes.repeat);
  }

  /// Least number of bytes that a call has to read and write.
  int64_t bytes(int64_t rows) const {
    int64_t out = rows * shape_.outputs * 4;
    if (shape_.use == WeightShape::Use::kAdd) out *= 2;
    if (shape_.use == WeightShape::Use::kSwiglu) out = rows * shape_.outputs;
    const int64_t scales = format_ == Format::kBf16 ? 0 : num_scales_ * 4;
    return weight_bytes_ + scales + rows * shape_.inputs * 2 + out;
  }

 private:
  int calls(const CheckSizes& sizes) const { return std::max(sizes.timed_calls, copies_); }
  const uint16_t* weights_of(int copy) const {
    return reinterpret_cast<const uint16_t*>(weights_.as<uint8_t>() + copy * weight_bytes_);
  }

  void send(int64_t rows, int copy) {
    ProductArguments a;
    a.x = x_.as<uint16_t>();
    a.num_rows = rows;
    a.num_outputs = shape_.outputs;
    a.depth = shape_.inputs;
    a.out_stride = shape_.outputs;
    a.out_f32 = out_.as<float>();
    if (shape_.use == WeightShape::Use::kAdd) {
      a.epilogue = Epilogue::kAddScaled;
      a.scale = 0x1p-20F;  // keeps the repeatedly added result small
    } else if (shape_.use == WeightShape::Use::kSwiglu) {
      a.epilogue = Epilogue::kSwiglu;
      a.out_f32 = nullptr;
      a.out_bf16 = out_.as<uint16_t>();
      a.out_stride = shape_.outputs / 2;
    }
    a.partials = partials_.as<float>();
    const bool is_wide = rows > kMaxProductRows;
    const float* scales = scales_.as<float>() + copy * num_scales_;
    if (format_ == Format::kInt4) {
      const uint8_t* values = weights_.as<uint8_t>() + copy * weight_bytes_;
      const QuantizedProductArguments codes{a, {.values = values, .scales = scales}};
      return is_wide ? wide_quantized_product(stream_, codes) : quantized_product(stream_, codes);
    }
    if (format_ == Format::kBf16) {
      a.weights = weights_of(copy);
    } else {
      a.codes = weights_.as<uint8_t>() + copy * weight_bytes_;
      a.code_format = format_ == Format::kFp8 ? CodeFormat::kE4m3 : CodeFormat::kInt8;
      a.scales = scales;
    }
    is_wide ? wide_product(stream_, a) : product(stream_, a);
  }

  Stream& stream_;
  WeightShape shape_;
  Format format_;
  int64_t num_scales_;  // of one copy
  int64_t weight_bytes_ = 0;
  int copies_ = 1;
  DeviceBuffer weights_, scales_, x_, out_, partials_;
};

}  // namespace

void measure_products(Stream& stream, const CheckSizes& sizes, CheckReport& report) {
  for (const WeightShape& shape : sizes.weights) {
    for (const FormatTraits& traits : kFormats) {
      const bool is_wanted =
          sizes.formats.empty() || std::count(sizes.formats.begin(), sizes.formats.end(), traits.name) > 0;
      if (!is_wanted) continue;
      TimedProduct timed(stream, sizes, shape, traits);
      for (const int64_t rows : sizes.rows) {
        const double seconds = timed.seconds(sizes, rows);
        const double bytes_per_second = static_cast<double>(timed.bytes(rows)) / seconds;
        CheckReport::Line line = {{"shape", shape.name},
                                  {"outputs", shape.outputs},
                                  {"inputs", shape.inputs},
                                  {"format", traits.name},
                                  {"rows", rows},
                                  {"us", 1e6 * seconds},
                                  {"gbs", bytes_per_second / 1e9},
                                  {"share_of_copy", report.share_of_copy(bytes_per_second)}};
        if (traits.format == Format::kBf16) {
          const LibraryTime library = timed.library(sizes, rows);
          if (library.why_not.empty()) line["library_us"] = 1e6 * library.seconds;
        }
        report.add("product", line);
      }
    }
  }
}

}  // namespace lacuna::cuda
