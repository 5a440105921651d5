#include "weights/stored_matrix.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/error.h"

namespace lacuna {
namespace {

/// Whether no value is infinite or NaN. 0 * x is NaN for these and 0 otherwise, so one sum tests all values
/// without a branch.
bool all_finite(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += 0 * values[i + lane];
  }
  for (; i < values.size(); ++i) sums[0] += 0 * values[i];
  float sum = 0;
  for (const float lane : sums) sum += lane;
  return sum == 0;
}

/// Whether the row has no infinite or NaN weight, and the kernels' products of scales and values do not
/// overflow.
bool all_finite(const QuantizedRow& row) {
  constexpr float kLargestScale = 0x1p119F;
  const bool are_small = std::all_of(row.scales.begin(), row.scales.end(),
                                     [](float scale) { return std::abs(scale) <= kLargestScale; });
  return are_small && all_finite(row.minimums) && std::isfinite(row.of_output.scale) &&
         std::isfinite(row.of_output.minimum);
}

/// First row with a value that is not finite, recorded by packing threads.
class DamagedRow {
 public:
  void note(int64_t row) {
    int64_t first = first_;
    while (row < first && !first_.compare_exchange_weak(first, row)) {
    }
  }
  void refuse(const StoredMatrix& stored) const {
    if (first_ == kNone) return;
    throw InputError("{}: row {} holds an infinite or NaN weight; expected finite ones", stored.place(),
                     first_.load());
  }

 private:
  static constexpr int64_t kNone = INT64_MAX;
  std::atomic<int64_t> first_ = kNone;
};

}  // namespace

void StoredMatrix::read_codes(int64_t /*n*/, QuantizedRow& /*out*/) const {
  expects(false, "codes are read of quantized matrices");
}

std::optional<PackedMatrix> StoredMatrix::panels(const WeightFormat& /*format*/, int64_t /*first*/,
                                                 int64_t /*count*/) const {
  return {};
}

PackedMatrix pack(ThreadPool& threads, const WeightFormat& format, const StoredMatrix& stored, int64_t first,
                  int64_t count, int64_t inputs) {
  if (std::optional<PackedMatrix> panels = stored.panels(format, first, count)) return std::move(*panels);
  DamagedRow damaged;
  const auto packed = [&]() -> PackedMatrix {
    if (format.is_quantized() && stored.quantization() == format.quantization) {
      return PackedMatrix::from_codes(threads, format.quantization, count, inputs,
                                      [&](int64_t n, QuantizedRow& row) {
                                        stored.read_codes(first + n, row);
                                        if (!all_finite(row)) damaged.note(first + n);
                                      });
    }
    return {threads, format, count, inputs, [&](int64_t n, float* row) {
              stored.read(first + n, row);
              if (!all_finite({row, static_cast<size_t>(inputs)})) damaged.note(first + n);
            }};
  };
  PackedMatrix result = packed();
  damaged.refuse(stored);
  return result;
}

void expect_finite(std::span<const float> values, std::string_view place) {
  if (!all_finite(values))
    throw InputError("{}: holds an infinite or NaN value; expected finite ones", place);
}

}  // namespace lacuna
