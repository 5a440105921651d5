// Measures the kernels of the CUDA backend on a GPU: the machine's peaks, times of kernels relative to them,
// and batch invariance. Results are lines of JSON. Everything goes through backend/cuda/runtime.h, so that
// tests run the same code, with small sizes, in the simulator.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/runtime.h"
#include "base/rng.h"

namespace lacuna::cuda {

/// A matrix of a published model.
struct WeightShape {
  enum class Use : uint8_t { kStore, kAdd, kSwiglu };

  std::string name;
  int64_t outputs = 0;
  int64_t inputs = 0;
  Use use = Use::kStore;
};

struct AttentionShape {
  std::string name;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
};

struct CheckSizes {
  int64_t copy_bytes = 0;
  int64_t square = 0;        ///< M, N and K of the library's GEMM
  int64_t rotate_bytes = 0;  ///< timed calls read at least this much before they read the same data again
  int timed_calls = 0;       ///< calls of a kernel, recorded in one graph
  int repeat = 0;            ///< timed launches of a graph; the median counts
  std::vector<WeightShape> weights;
  std::vector<std::string> formats;  ///< weight formats; empty: all
  std::vector<int64_t> rows;
  std::vector<AttentionShape> attention;
  std::vector<int64_t> attention_rows;
  std::vector<int64_t> cells;
  int64_t vocabulary = 0;
  int64_t statistics_rows = 0;
  int plans = 0;           ///< random plans for each kernel in the invariance check
  int64_t plan_rows = 0;   ///< maximum rows of a plan
  int64_t plan_k_dim = 0;  ///< K of the plans' GEMMs
  int64_t plan_cells = 0;  ///< KV cells of the plans' sequence
  int chains = 0;          ///< tensor-core accumulations to compare with the published rule
};

/// Sizes of LLaDA-8B and SDAR-8B; timed calls rotate over more weights than the last-level cache holds.
CheckSizes full_sizes();
/// Sizes for tests in the simulator.
CheckSizes tiny_sizes();

/// Emits result lines, each with the fields of `common`.
class CheckReport {
 public:
  using Line = nlohmann::ordered_json;
  CheckReport(Line common, std::function<void(const Line&)> emit);

  /// Emits a line of kind `what`.
  void add(const std::string& what, const Line& more);

  /// Share of the copy bandwidth, or null if that was not measured.
  Line share_of_copy(double bytes_per_second) const;

  double copy_bytes_per_second = 0;  ///< bytes read plus written; 0 until measured
  int num_failures = 0;              ///< number of failed bitwise checks

 private:
  Line common_;
  std::function<void(const Line&)> emit_;
};

/// Measures copy and read bandwidth, the library's GEMM, and the time between consecutive kernels.
void measure_peaks(Stream& stream, const CheckSizes& sizes, CheckReport& report);
void measure_products(Stream& stream, const CheckSizes& sizes, CheckReport& report);
void measure_attention(Stream& stream, const CheckSizes& sizes, CheckReport& report);
void measure_statistics(Stream& stream, const CheckSizes& sizes, CheckReport& report);
/// Checks batch invariance with random plans: rows of partial plans, and a cached prefix against a recomputed
/// one, must be bitwise identical to a plan of all rows.
void check_invariance(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report);
/// Compares tensor-core sums with the rule published for Hopper (hopper_sum.h).
void check_sums(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report);

}  // namespace lacuna::cuda
