// Times attention of rows to KV cells, compared with the machine's roofline and with oneDNN's primitives.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "kernels/attention.h"

namespace lacuna {

/// Storage format of a layer's keys and values.
struct CellFormat {
  std::string_view name;
  DType dtype = DType::kBF16;  ///< of queries, softmax weights and GEMMs
  bool is_int8 = false;
};

inline constexpr CellFormat kCellFormats[] = {
    {"f32", DType::kF32, false},
    {"bf16", DType::kBF16, false},
    {"int8", DType::kBF16, true},
};

struct AttentionBenchOptions {
  AttentionShape shape = {32, 32, 128};  ///< LLaDA-8B's; shape.scale is ignored: 1 / sqrt(head_dim)
  std::vector<int32_t> rows = {1, 32, 256, 1024};
  int32_t cells = 1024;                                             ///< cells that every row sees
  std::vector<std::string> cell_formats = {"bf16", "f32", "int8"};  ///< names of kCellFormats
  int repeat = 9;                                                   ///< timed pairs, after one to warm up
  bool quick_roofline = false;                                      ///< as in MatmulBenchOptions
};

/// Timed calls of one row count and cell format.
struct AttentionTiming {
  int32_t rows = 0;
  CellFormat cells;
  double flops = 0;     ///< of both GEMMs; the softmax is not counted
  double kv_bytes = 0;  ///< of the cells, each read once
  std::vector<double> seconds;
  std::string onednn_implementation;   ///< empty if oneDNN has none
  std::vector<double> onednn_seconds;  ///< paired with `seconds`; empty if oneDNN was not timed

  /// Speedup over oneDNN: median over pairs; above 1, ours is faster.
  double ratio_to_onednn() const;
};

struct AttentionReport {
  double peak_flops_f32 = 0;
  double peak_flops_bf16 = 0;
  std::vector<AttentionTiming> timings;
};

/// Checks each call on a sample of its outputs (std::logic_error if one is wrong), then times it and, for
/// dense cells, interleaves it with oneDNN's two GEMMs and softmax.
AttentionReport bench_attention(const KernelContext& context, const AttentionBenchOptions& options);

nlohmann::ordered_json to_json(const AttentionReport& report, const KernelContext& context,
                               const AttentionBenchOptions& options);

}  // namespace lacuna
