// Measures the kernels of the CUDA backend on a GPU: the machine's peaks, times of kernels as shares of
// them, and whether a row's bits depend on its company. Results are lines of JSON. Everything goes through
// backend/cuda/runtime.h, so that tests run the same code, with small sizes, in the simulator.
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
  int64_t square = 0;        ///< of the library's product, all three sizes
  int64_t rotate_bytes = 0;  ///< timed calls read at least as much before they read the same again
  int timed_calls = 0;       ///< of a kernel, recorded in one graph
  int repeat = 0;            ///< timed launches of a graph; the median counts
  std::vector<WeightShape> weights;
  std::vector<std::string> formats;  ///< of weights; empty: all
  std::vector<int64_t> rows;
  std::vector<AttentionShape> attention;
  std::vector<int64_t> attention_rows;
  std::vector<int64_t> cells;
  int64_t vocabulary = 0;
  int64_t statistics_rows = 0;
  int plans = 0;           ///< random ones, of each kernel whose bits are compared
  int64_t plan_rows = 0;   ///< at most so many in one
  int64_t plan_depth = 0;  ///< inputs of their products
  int64_t plan_cells = 0;  ///< of their sequence
  int chains = 0;          ///< sums of tensor cores that are compared with the published rule
};

/// LLaDA-8B and SDAR-8B, over more weights than the last-level cache holds.
CheckSizes full_sizes();
/// To try everything in the simulator.
CheckSizes tiny_sizes();

/// Collects lines, each with what they have in common.
class CheckReport {
 public:
  using Line = nlohmann::ordered_json;
  CheckReport(Line common, std::function<void(const Line&)> emit);

  /// `what` names the kind of the line.
  void add(const std::string& what, const Line& more);

  /// A share of the copy bandwidth, or null where that is not known.
  Line share_of_copy(double bytes_per_second) const;

  double copy_bytes_per_second = 0;  ///< read and written; 0 until it is measured
  int num_failures = 0;              ///< checks of bits that failed

 private:
  Line common_;
  std::function<void(const Line&)> emit_;
};

/// Copy and read bandwidth, the library's product, the time from one kernel to the next.
void measure_peaks(Stream& stream, const CheckSizes& sizes, CheckReport& report);
void measure_products(Stream& stream, const CheckSizes& sizes, CheckReport& report);
void measure_attention(Stream& stream, const CheckSizes& sizes, CheckReport& report);
void measure_statistics(Stream& stream, const CheckSizes& sizes, CheckReport& report);
/// Random plans: each row alone and in company, a prefix kept and computed again.
void check_invariance(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report);
/// Sums of tensor cores against the rule that is published for Hopper (hopper_sum.h).
void check_sums(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report);

}  // namespace lacuna::cuda
