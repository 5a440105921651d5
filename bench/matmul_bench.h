// Times GEMM with packed weights, compared with the machine's roofline and with oneDNN.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/matmul.h"
#include "weights/weight_format.h"

namespace lacuna {

struct MatmulShape {
  int64_t inputs = 0;
  int64_t outputs = 0;
};

struct MatmulBenchOptions {
  std::vector<MatmulShape> shapes = {{4096, 4096}, {4096, 12288}, {12288, 4096}};
  std::vector<int64_t> rows = {1, 8, 32, 128, 512, 2048};
  std::vector<WeightFormat> formats = {DType::kBF16, DType::kF32};  ///< rows are f32 for f32, else bf16
  /// Keeps one copy of the weights, which stays in the last-level cache if it fits. Otherwise matmuls rotate
  /// over at least 1 GiB of weights, as the layers of a model do.
  bool in_cache = false;
  int repeat = 9;               ///< timed pairs, after one to warm up
  bool quick_roofline = false;  ///< measure the roofline quickly and less precisely, for tests
};

/// Timed matmuls of one shape, row count and format.
struct MatmulTiming {
  MatmulShape shape;
  int64_t rows = 0;
  WeightFormat format;
  int64_t weight_bytes = 0;  ///< of one packed copy
  bool rows_of_bytes = false;
  std::vector<double> seconds;
  std::string onednn_implementation;   ///< empty if oneDNN has none
  std::vector<double> onednn_seconds;  ///< paired with `seconds`; empty if oneDNN was not timed

  std::vector<double> bf16_seconds;  ///< paired likewise: the same matmul with bf16 weights

  double flops() const;
  /// Speedup over oneDNN: median over pairs; above 1, ours is faster.
  double ratio_to_onednn() const;
  /// Speedup over bf16: median over pairs; above 1, the quantized format is faster.
  double ratio_to_bf16() const;
};

struct MatmulReport {
  double peak_flops_f32 = 0;
  double peak_flops_bf16 = 0;
  double read_bandwidth = 0;  ///< bytes per second
  std::vector<MatmulTiming> timings;
};

/// Parses "4096x12288" (inputs x outputs). Throws InputError if it is something else.
MatmulShape parse_matmul_shape(const std::string& text);

/// Checks each matmul on a sample of its elements (std::logic_error if one is wrong), then times it
/// interleaved with oneDNN's or, for quantized weights, which oneDNN lacks, with the bf16 matmul. Packing the
/// rows is included. oneDNN's reference implementations ("ref") are named, not timed.
MatmulReport bench_matmul(const KernelContext& context, const MatmulBenchOptions& options);

nlohmann::ordered_json to_json(const MatmulReport& report, const KernelContext& context,
                               const MatmulBenchOptions& options);

}  // namespace lacuna
