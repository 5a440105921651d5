#include <cmath>

#include "kernels/generic/float_table.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

/// Vectors of one lane; defines the operations that the generic kernels use.
struct Scalar {
  using Vec = float;
  static constexpr int kLanes = 1;
  static constexpr int kTilePanels = 1;  // panels and rows of a tile of accumulators in registers
  static constexpr int kTileRows = 2;    // 2 rows x 16 outputs fit the 16 SSE registers
  static constexpr int kTileRowsOfPairs = 2;
  static constexpr int kPanelsOfFewRows = 1;
  static constexpr int64_t kBytesAhead = 0;

  static Vec zero() { return 0; }
  static Vec broadcast(float x) { return x; }
  static Vec load(const float* p) { return *p; }
  static void store(float* p, Vec x) { *p = x; }
  static Vec add(Vec a, Vec b) { return a + b; }
  static Vec subtract(Vec a, Vec b) { return a - b; }
  static Vec multiply(Vec a, Vec b) { return a * b; }
  static Vec divide(Vec a, Vec b) { return a / b; }
  static Vec multiply_add(Vec a, Vec b, Vec c) { return a * b + c; }
  /// Returns b if a or b is NaN, as the vector instructions do.
  static Vec max(Vec a, Vec b) { return a > b ? a : b; }
  static Vec min(Vec a, Vec b) { return a < b ? a : b; }
  static Vec round(Vec x) { return std::nearbyint(x); }
  static float reduce_add(Vec x) { return x; }
  static float reduce_max(Vec x) { return x; }

  /// x * 2^n, n an integer in [-126, 127].
  static Vec scale_by_power_of_two(Vec x, Vec n) {
    return x * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  }
  /// x, or 0 in lanes where a < b.
  static Vec zero_where_less(Vec x, Vec a, Vec b) { return a < b ? 0 : x; }
  /// x, or `replacement` in lanes where keys[lane] > bound.
  static Vec replace_where_greater(Vec x, Vec replacement, const int32_t* keys, int32_t bound) {
    return *keys > bound ? replacement : x;
  }
  static Vec round_to_bf16(Vec x) { return static_cast<float>(bf16(x)); }
  /// Loads the first, or the second, members of kLanes pairs of bf16.
  static Vec load_even_bf16(const bf16* p) { return static_cast<float>(p[0]); }
  static Vec load_odd_bf16(const bf16* p) { return static_cast<float>(p[1]); }
  static Vec load_f16(const f16* p) { return static_cast<float>(*p); }
  static Vec load_u8(const uint8_t* p) { return *p; }

  using Words = uint32_t;
  static Words load_words(const uint32_t* p) { return *p; }
  /// The quantized value of the kIndex-th input of each word, as a float.
  template <int kBits, int kIndex>
  static Vec quantized_value(Words words) {
    return static_cast<float>(words >> code_shift<kBits>(kIndex) & ((1U << kBits) - 1));
  }
};

constexpr KernelTable kTable = generic::float_table<Scalar>("scalar");

}  // namespace

const KernelTable& scalar_table() {
  return kTable;
}

}  // namespace lacuna
