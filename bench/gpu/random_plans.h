// Batch-invariance checks: rows of random plans must be bitwise identical to those of a plan of all rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/gpu_check.h"

namespace lacuna::cuda {

using Rows = std::vector<int32_t>;

Rows all_rows(int64_t count);
/// A random non-empty subset of the rows, in random order.
Rows random_rows(int64_t count, const RngStream& random);

/// Compares rows of random plans with those of a plan of all rows.
///   run  computes the given rows: [rows.size(), width] values
template <typename Value>
void compare(const std::string& kernel, const CheckSizes& sizes, uint64_t seed, CheckReport& report,
             const std::function<std::vector<Value>(const Rows&)>& run) {
  const std::vector<Value> whole = run(all_rows(sizes.plan_rows));
  const auto width = static_cast<int64_t>(whole.size()) / sizes.plan_rows;
  int64_t rows_compared = 0;
  int64_t different = 0;
  for (int plan = 0; plan < sizes.plans; ++plan) {
    const Rows rows = random_rows(sizes.plan_rows, RngStream(seed, plan));
    const std::vector<Value> some = run(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto one = some.begin() + static_cast<int64_t>(i) * width;
      different += std::equal(one, one + width, whole.begin() + rows[i] * width) ? 0 : 1;
    }
    rows_compared += static_cast<int64_t>(rows.size());
  }
  report.num_failures += different > 0 ? 1 : 0;
  report.add("invariance",
             {{"kernel", kernel}, {"plans", sizes.plans}, {"rows", rows_compared}, {"different", different}});
}

/// Checks GEMMs in every format and with every epilogue, and those of experts.
void compare_products(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report);
/// Checks attention and the kernel that turns QKV results into queries and cells, for both cell formats.
void compare_cells(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report);

}  // namespace lacuna::cuda
