// How fast rows are multiplied with packed weights, beside this machine's roof and beside oneDNN.
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
  /// One copy of the weights, which stays in the last-level cache if it fits. Otherwise products rotate over
  /// at least 1 GiB of weights, as the layers of a model do.
  bool in_cache = false;
  int repeat = 9;           ///< timed pairs, after one to warm up
  bool rough_roof = false;  ///< find the machine's limits in a hurry, to try things
};

/// The timed products of one shape, row count and format.
struct MatmulTiming {
  MatmulShape shape;
  int64_t rows = 0;
  WeightFormat format;
  int64_t weight_bytes = 0;  ///< of one copy, as packed
  bool rows_of_bytes = false;
  std::vector<double> seconds;
  std::string onednn_implementation;   ///< empty where oneDNN has none
  std::vector<double> onednn_seconds;  ///< paired with `seconds`; empty where oneDNN was not timed

  std::vector<double> bf16_seconds;  ///< paired likewise: the same product with bf16 weights

  double flops() const;
  /// The median over pairs of oneDNN's time by ours: above 1, ours is faster.
  double ratio_to_onednn() const;
  /// The same by bf16's time.
  double ratio_to_bf16() const;
};

struct MatmulReport {
  double peak_flops_f32 = 0;
  double peak_flops_bf16 = 0;
  double read_bandwidth = 0;  ///< bytes per second
  std::vector<MatmulTiming> timings;
};

/// Parses "4096x12288" (inputs x outputs). InputError where it is something else.
MatmulShape parse_matmul_shape(const std::string& text);

/// Checks each product on a sample of its elements (std::logic_error if one is wrong), then times it and
/// oneDNN's in turns; products with quantised weights in turns with those of bf16, as oneDNN has no such
/// product. Packing the rows is part of a product. Plain loops of oneDNN ("ref") are named, not timed.
MatmulReport bench_matmul(const KernelContext& context, const MatmulBenchOptions& options);

nlohmann::ordered_json to_json(const MatmulReport& report, const KernelContext& context,
                               const MatmulBenchOptions& options);

}  // namespace lacuna
