#include "bench/matmul_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/rng.h"
#include "bench/machine.h"
#include "bench/onednn.h"
#include "bench/timing.h"
#include "weights/packed_matrix.h"

namespace lacuna {
namespace {

constexpr int64_t kRotatedBytes = int64_t{1} << 30;

/// Random values uniform in (-1, 1), rounded to `dtype`.
Buffer<float> random_matrix(ThreadPool& threads, DType dtype, int64_t rows, int64_t cols) {
  Buffer<float> matrix(rows * cols);
  threads.parallel_for(rows, [&](int64_t row, int) {
    const RngStream random(0, rows, row);
    for (int64_t i = 0; i < cols; ++i) {
      const auto value = static_cast<float>(2 * random.uniform(static_cast<uint64_t>(i)) - 1);
      matrix.data()[row * cols + i] = dtype == DType::kBF16 ? static_cast<float>(bf16(value)) : value;
    }
  });
  return matrix;
}

DType dtype_of_rows(const WeightFormat& format) {
  return format == WeightFormat(DType::kF32) ? DType::kF32 : DType::kBF16;
}

/// One matrix, packed, and copies of it to rotate over.
class RotatedWeights {
 public:
  RotatedWeights(ThreadPool& threads, const WeightFormat& format, const MatmulShape& shape,
                 const float* values, bool in_cache)
      : matrix_(threads, format, shape.outputs, shape.inputs, [&](int64_t n, float* row) {
          std::memcpy(row, values + n * shape.inputs, static_cast<size_t>(shape.inputs) * sizeof(float));
        }) {
    copies_ = in_cache ? 1 : (kRotatedBytes + matrix_.bytes() - 1) / matrix_.bytes();
    further_.reserve((copies_ - 1) * matrix_.bytes());
    for (int64_t copy = 1; copy < copies_; ++copy) {
      std::memcpy(further_.data() + (copy - 1) * matrix_.bytes(), matrix_.view().data,
                  static_cast<size_t>(matrix_.bytes()));
    }
  }

  int64_t copies() const { return copies_; }
  const PackedMatrix& matrix() const { return matrix_; }
  PanelView view(int64_t copy) const {
    PanelView view = matrix_.view();
    if (copy > 0) view.data = further_.data() + (copy - 1) * matrix_.bytes();
    return view;
  }

 private:
  PackedMatrix matrix_;
  int64_t copies_ = 1;
  Buffer<std::byte> further_;
};

/// Compares a sample of out's elements with the definition in double precision. `rounding`: relative rounding
/// error of the factors.
void check(const ProductToTime& product, const float* out, int64_t out_stride, double rounding,
           const char* failure) {
  for (int64_t row = 0; row < product.rows; row += 1 + product.rows / 5) {
    for (int64_t n = 0; n < product.outputs; n += 1 + product.outputs / 41) {
      double sum = 0;
      double absolute = 0;
      for (int64_t k = 0; k < product.inputs; ++k) {
        const double term = static_cast<double>(product.x[row * product.inputs + k]) *
                            product.weights[n * product.inputs + k];
        sum += term;
        absolute += std::abs(term);
      }
      const double bound =
          (static_cast<double>(product.inputs) * std::numeric_limits<float>::epsilon() + rounding) * absolute;
      expects(std::abs(out[row * out_stride + n] - sum) <= bound, failure);
    }
  }
}

///   bf16_weights  timed interleaved with `weights`, or null
MatmulTiming time_product(const KernelContext& context, const ProductToTime& product,
                          const RotatedWeights& weights, const RotatedWeights* bf16_weights, int repeat) {
  MatmulTiming timing;
  timing.shape = {product.inputs, product.outputs};
  timing.rows = product.rows;
  timing.format = weights.matrix().format();
  timing.weight_bytes = weights.matrix().bytes();
  const bool is_quantized = timing.format.is_quantized();
  const int64_t out_stride = output_stride(product.outputs);
  Buffer<float> out(product.rows * out_stride);
  PackedRows rows;
  const auto run = [&](const RotatedWeights& matrix, int64_t copy) {
    rows.pack(context, {product.x, product.rows, product.inputs}, {}, product.dtype);
    multiply(context, rows, matrix.view(copy), nullptr,
             {out.data(), product.rows, product.outputs, out_stride});
  };
  run(weights, 0);
  // Relative rounding error of weights dequantized to bf16 and of int16 activations, or of int8 activations,
  // for which the mean magnitude is half the maximum.
  const bool rounds = is_quantized && context.kernels.bf16_row_element_bytes == sizeof(bf16);
  const KernelTable& kernels = context.kernels;
  timing.rows_of_bytes = product.dtype == DType::kBF16 &&
                         kernels.integer_activations(timing.format.quantization, context.int8_activations) ==
                             &kernels.int8_activations;
  const double rounding = timing.rows_of_bytes ? 0x1p-6 : rounds ? 0x1p-8 : 0;
  check(product, out.data(), out_stride, rounding, "bench matmul: the product is right");

  std::unique_ptr<OneDnnProduct> onednn;
  if (!is_quantized) onednn = make_onednn_product(product, context.threads.size());
  if (onednn != nullptr) {
    timing.onednn_implementation = onednn->implementation();
    if (timing.onednn_implementation.find("ref") != std::string::npos) {
      onednn = nullptr;
    } else {
      onednn->run(0);
      check(product, onednn->out(), product.outputs, 0, "bench matmul: oneDNN's product is right");
    }
  }

  int64_t turn = 0;
  const auto timed = [&](auto&& multiply_with) {
    const auto next = [&] { multiply_with(++turn); };
    if (onednn != nullptr) warm_up(next);
    return seconds_of(next);
  };
  for (int i = 0; i < repeat; ++i) {
    timing.seconds.push_back(timed([&](int64_t copy) { run(weights, copy % weights.copies()); }));
    if (onednn != nullptr)
      timing.onednn_seconds.push_back(timed([&](int64_t copy) { onednn->run(copy % weights.copies()); }));
    if (bf16_weights != nullptr)
      timing.bf16_seconds.push_back(
          timed([&](int64_t copy) { run(*bf16_weights, copy % bf16_weights->copies()); }));
  }
  return timing;
}

nlohmann::ordered_json to_json(const MatmulTiming& timing, const MatmulReport& report) {
  const double seconds = median(timing.seconds);
  const auto [least, most] = std::minmax_element(timing.seconds.begin(), timing.seconds.end());
  const bool is_f32 = dtype_of_rows(timing.format) == DType::kF32;
  const double peak = is_f32 ? report.peak_flops_f32 : report.peak_flops_bf16;
  nlohmann::ordered_json json{
      {"shape", fmt::format("{}x{}", timing.shape.inputs, timing.shape.outputs)},
      {"rows", timing.rows},
      {"dtype", describe(timing.format)},
      {"rows_of_bytes", timing.rows_of_bytes},
      {"seconds_median", seconds},
      {"seconds_min", *least},
      {"seconds_max", *most},
      {"gflops", timing.flops() / seconds / 1e9},
      {"gbps", static_cast<double>(timing.weight_bytes) / seconds / 1e9},
      {"peak_share", nullptr},  // only for float GEMM: the peaks are those of float instructions
      {"onednn", nullptr},
      {"ratio_to_onednn", nullptr},
      {"ratio_to_bf16", nullptr},
  };
  if (!timing.rows_of_bytes) json["peak_share"] = timing.flops() / seconds / peak;
  if (!timing.onednn_implementation.empty()) {
    json["onednn"]["implementation"] = timing.onednn_implementation;
  }
  if (!timing.onednn_seconds.empty()) {
    const double onednn_seconds = median(timing.onednn_seconds);
    json["onednn"]["seconds_median"] = onednn_seconds;
    json["onednn"]["gflops"] = timing.flops() / onednn_seconds / 1e9;
    json["ratio_to_onednn"] = timing.ratio_to_onednn();
  }
  if (!timing.bf16_seconds.empty()) json["ratio_to_bf16"] = timing.ratio_to_bf16();
  return json;
}

}  // namespace

double MatmulTiming::flops() const {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(shape.inputs) *
         static_cast<double>(shape.outputs);
}

double MatmulTiming::ratio_to_onednn() const {
  return median_ratio(onednn_seconds, seconds);
}

double MatmulTiming::ratio_to_bf16() const {
  return median_ratio(bf16_seconds, seconds);
}

MatmulShape parse_matmul_shape(const std::string& text) {
  const auto number = [&](size_t begin, size_t end) {
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    const bool whole = error == std::errc() && stop == text.data() + end;
    return whole && value >= 1 && value <= (1 << 20) ? value : 0;
  };
  const size_t cross = text.find('x');
  if (cross != std::string::npos) {
    const MatmulShape shape{number(0, cross), number(cross + 1, text.size())};
    if (shape.inputs > 0 && shape.outputs > 0) return shape;
  }
  throw InputError("--shape holds '{}'; expected inputs x outputs, such as 4096x12288", text);
}

MatmulReport bench_matmul(const KernelContext& context, const MatmulBenchOptions& options) {
  MatmulReport report;
  const int tries = options.quick_roofline ? 1 : 20;
  report.peak_flops_f32 = measure_peak_flops(context.threads, context.kernels.name, DType::kF32, tries);
  report.peak_flops_bf16 = measure_peak_flops(context.threads, context.kernels.name, DType::kBF16, tries);
  report.read_bandwidth =
      measure_read_bandwidth(context.threads, int64_t{1} << (options.quick_roofline ? 24 : 30));
  for (const MatmulShape& shape : options.shapes) {
    std::unique_ptr<RotatedWeights> bf16_weights;
    for (const WeightFormat& format : options.formats) {
      const DType dtype = dtype_of_rows(format);
      const Buffer<float> values = random_matrix(context.threads, dtype, shape.outputs, shape.inputs);
      if (format.is_quantized() && bf16_weights == nullptr) {
        bf16_weights = std::make_unique<RotatedWeights>(context.threads, DType::kBF16, shape, values.data(),
                                                        options.in_cache);
      }
      const RotatedWeights weights(context.threads, format, shape, values.data(), options.in_cache);
      // The check uses the packed weights, dequantized.
      context.threads.parallel_for(shape.outputs, [&](int64_t n, int) {
        weights.matrix().read_row(n, values.data() + n * shape.inputs);
      });
      const RotatedWeights* yardstick = format.is_quantized() ? bf16_weights.get() : nullptr;
      for (const int64_t rows : options.rows) {
        const Buffer<float> x = random_matrix(context.threads, dtype, rows, shape.inputs);
        const ProductToTime product{dtype,    rows,          shape.inputs,    shape.outputs,
                                    x.data(), values.data(), weights.copies()};
        report.timings.push_back(time_product(context, product, weights, yardstick, options.repeat));
      }
    }
  }
  return report;
}

nlohmann::ordered_json to_json(const MatmulReport& report, const KernelContext& context,
                               const MatmulBenchOptions& options) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const MatmulTiming& timing : report.timings) results.push_back(to_json(timing, report));
  return {{"bench", "matmul"},
          {"machine", processor_name()},
          {"isa", context.kernels.name},
          {"threads", context.threads.size()},
          {"in_cache", options.in_cache},
          {"activations", context.int8_activations ? "int8" : "auto"},
          {"peak_gflops_f32", report.peak_flops_f32 / 1e9},
          {"peak_gflops_bf16", report.peak_flops_bf16 / 1e9},
          {"read_gbps", report.read_bandwidth / 1e9},
          {"onednn", onednn_description()},
          {"results", results}};
}

}  // namespace lacuna
