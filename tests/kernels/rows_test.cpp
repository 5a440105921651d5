// The row operations of every instruction set's table.
#include <array>
#include <numbers>

#include "definitions.h"

namespace lacuna::rows_test {
namespace {

using test::Expected;
using test::kEpsilon;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Around every vector length (1, 8, 16) and over a few vectors.
const std::vector<int64_t> kCounts = {1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 33, 64, 100, 1000, 1025};

/// values starting `start` elements into their memory, so that vectors are not aligned
struct Unaligned {
  Unaligned(const std::vector<float>& values, int64_t start) : memory(values) {
    memory.insert(memory.begin(), static_cast<size_t>(start), 0.0F);
    memory.push_back(kNan);  // reads past the end are noticed
    data = memory.data() + start;
  }
  std::vector<float> memory;
  float* data;
};

class Rows : public testing::TestWithParam<KernelTable> {
 protected:
  const KernelTable& table_ = GetParam();
};

TEST_P(Rows, RmsNormEqualsTheDefinition) {
  for (const int64_t count : kCounts) {
    const Unaligned x(test::random_values(1, count, 3), count % 3);
    const Unaligned weight(test::random_values(2, count), 1);
    constexpr float kNormEpsilon = 1e-5F;
    double squares = 0;
    for (int64_t i = 0; i < count; ++i) squares += static_cast<double>(x.data[i]) * x.data[i];
    const double rms = std::sqrt(squares / static_cast<double>(count) + kNormEpsilon);
    std::vector<Expected> expected;
    for (int64_t i = 0; i < count; ++i) {
      const double value = x.data[i] / rms * weight.data[i];
      expected.push_back({value, static_cast<double>(count + 6) * kEpsilon * std::abs(value)});
    }
    std::vector<float> out(static_cast<size_t>(count) + 1, -1.0F);
    table_.rms_norm(x.data, weight.data, count, kNormEpsilon, out.data());
    EXPECT_TRUE(test::meets(out.data(), count, expected.data(), 1, count)) << "count " << count;
    EXPECT_EQ(out.back(), -1.0F);

    table_.rms_norm(x.data, weight.data, count, kNormEpsilon, x.data);
    EXPECT_TRUE(test::same_bits(x.data, out.data(), count)) << "in place, count " << count;
  }
}

TEST_P(Rows, RmsNormOfZerosIsZero) {
  std::vector<float> x(33, 0.0F);
  const std::vector<float> weight(33, 2.0F);
  table_.rms_norm(x.data(), weight.data(), 33, 1e-6F, x.data());
  EXPECT_EQ(x, std::vector<float>(33, 0.0F));
}

TEST_P(Rows, RopeRotatesEachPair) {
  for (const int64_t half : {1, 4, 7, 8, 12, 16, 20, 31, 32, 33, 64}) {
    const Unaligned x(test::random_values(1, 2 * half), half % 4);
    std::vector<float> cosines;
    std::vector<float> sines;
    std::vector<Expected> first;
    std::vector<Expected> second;
    for (int64_t j = 0; j < half; ++j) {
      cosines.push_back(static_cast<float>(std::cos(0.37 * static_cast<double>(j + 1))));
      sines.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(j + 1))));
      const double a = x.data[j];
      const double b = x.data[half + j];
      const double bound = 2 * kEpsilon * (std::abs(a) + std::abs(b));
      first.push_back({a * cosines.back() - b * sines.back(), bound});
      second.push_back({b * cosines.back() + a * sines.back(), bound});
    }
    table_.rope(x.data, cosines.data(), sines.data(), half);
    EXPECT_TRUE(test::meets(x.data, half, first.data(), 1, half)) << "first members, half " << half;
    EXPECT_TRUE(test::meets(x.data + half, half, second.data(), 1, half)) << "second members, half " << half;
  }
}

TEST_P(Rows, SwigluEqualsTheDefinition) {
  for (const int64_t count : kCounts) {
    const Unaligned gate(test::random_values(1, count, 30), count % 3);
    const Unaligned up(test::random_values(2, count), 1);
    std::vector<Expected> expected;
    for (int64_t i = 0; i < count; ++i) {
      const double z = gate.data[i];
      const double value = z / (1 + std::exp(-z)) * up.data[i];
      expected.push_back({value, 8 * kEpsilon * std::abs(value)});
    }
    std::vector<float> out(static_cast<size_t>(count));
    table_.swiglu(gate.data, up.data, count, out.data());
    EXPECT_TRUE(test::meets(out.data(), count, expected.data(), 1, count)) << "count " << count;

    Unaligned other_gate = Unaligned(std::vector<float>(gate.data, gate.data + count), 0);
    table_.swiglu(other_gate.data, up.data, count, other_gate.data);
    EXPECT_TRUE(test::same_bits(other_gate.data, out.data(), count)) << "over gate, count " << count;
    table_.swiglu(gate.data, up.data, count, up.data);
    EXPECT_TRUE(test::same_bits(up.data, out.data(), count)) << "over up, count " << count;
  }
}

TEST_P(Rows, SwigluOfLargeGatesIsZeroOrTheGate) {
  std::vector<float> gate(34, 1000.0F);
  for (size_t i = 0; i < gate.size(); i += 2) gate[i] = -1000.0F;
  const std::vector<float> up(34, 1.0F);
  table_.swiglu(gate.data(), up.data(), 34, gate.data());
  for (size_t i = 0; i < gate.size(); ++i) EXPECT_NEAR(gate[i], i % 2 == 0 ? 0.0F : 1000.0F, 1e-30F) << i;
}

TEST_P(Rows, GegluEqualsTheDefinition) {
  for (const int64_t count : kCounts) {
    const Unaligned gate(test::random_values(1, count, 6), count % 3);
    const Unaligned up(test::random_values(2, count), 1);
    std::vector<Expected> expected;
    for (int64_t i = 0; i < count; ++i) {
      const double z = gate.data[i];
      const double slope = std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z);
      const double value = z / 2 * (1 + std::tanh(slope)) * up.data[i];
      // exp(-2 slope) is off by as many epsilons as its exponent is large.
      expected.push_back({value, (8 + 8 * std::abs(slope)) * kEpsilon * std::abs(value) + 1e-37});
    }
    std::vector<float> out(static_cast<size_t>(count));
    table_.geglu(gate.data, up.data, count, out.data());
    EXPECT_TRUE(test::meets(out.data(), count, expected.data(), 1, count)) << "count " << count;

    table_.geglu(gate.data, up.data, count, up.data);
    EXPECT_TRUE(test::same_bits(up.data, out.data(), count)) << "over up, count " << count;
  }
}

TEST_P(Rows, GegluOfLargeGatesIsZeroOrTheGate) {
  std::vector<float> gate(34, 1000.0F);
  for (size_t i = 0; i < gate.size(); i += 2) gate[i] = -1000.0F;
  const std::vector<float> up(34, 1.0F);
  table_.geglu(gate.data(), up.data(), 34, gate.data());
  for (size_t i = 0; i < gate.size(); ++i) EXPECT_NEAR(gate[i], i % 2 == 0 ? 0.0F : 1000.0F, 1e-30F) << i;
}

TEST_P(Rows, AddSumsElementByElement) {
  for (const int64_t count : kCounts) {
    const Unaligned x(test::random_values(1, count), count % 3);
    const Unaligned y(test::random_values(2, count), 1);
    std::vector<float> expected;
    for (int64_t i = 0; i < count; ++i) expected.push_back(x.data[i] + y.data[i]);
    table_.add_scaled(x.data, y.data, 1, count);
    EXPECT_TRUE(test::same_bits(x.data, expected.data(), count)) << "count " << count;
  }
}

TEST_P(Rows, AddScaledAddsMultiples) {
  for (const int64_t count : kCounts) {
    const Unaligned x(test::random_values(1, count), count % 3);
    const Unaligned y(test::random_values(2, count), 1);
    std::vector<double> expected;
    for (int64_t i = 0; i < count; ++i) expected.push_back(x.data[i] + 0.21 * double{y.data[i]});
    table_.add_scaled(x.data, y.data, 0.21F, count);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_NEAR(x.data[i], expected[static_cast<size_t>(i)], 1e-6) << "count " << count;
    }
  }
}

TEST_P(Rows, MultiplyMultipliesInPlace) {
  for (const int64_t count : kCounts) {
    const Unaligned x(test::random_values(1, count), count % 3);
    const Unaligned y(test::random_values(2, count), 1);
    std::vector<float> expected;
    for (int64_t i = 0; i < count; ++i) expected.push_back(x.data[i] * y.data[i]);
    table_.multiply(x.data, y.data, count);
    EXPECT_TRUE(test::same_bits(x.data, expected.data(), count)) << "count " << count;
  }
}

TEST_P(Rows, WidenCodesHoldsEveryCodeExactly) {
  std::vector<int8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int8_t>(static_cast<int>(i) - 128);
  for (const int64_t count : {0, 1, 31, 256}) {
    std::vector<float> floats(257, 0.5F);
    std::vector<bf16> halves(257, bf16(0.5F));
    table_.widen_codes_f32(codes.data(), count, floats.data());
    table_.widen_codes_bf16(codes.data(), count, halves.data());
    for (size_t i = 0; i < floats.size(); ++i) {
      const float expected = static_cast<int64_t>(i) < count ? static_cast<float>(codes[i]) : 0.5F;
      EXPECT_EQ(floats[i], expected);
      EXPECT_EQ(static_cast<float>(halves[i]), expected);
    }
  }
}

TEST_P(Rows, SquaredReluIsTheSquareOfWhatIsPositive) {
  for (const int64_t count : kCounts) {
    const Unaligned x(test::random_values(1, count, 3), count % 3);
    std::vector<float> expected;
    for (int64_t i = 0; i < count; ++i) expected.push_back(x.data[i] > 0 ? x.data[i] * x.data[i] : 0);
    table_.squared_relu(x.data, count);
    EXPECT_TRUE(test::same_bits(x.data, expected.data(), count)) << "count " << count;
  }
}

TEST_P(Rows, SoftCapIsAScaledTanh) {
  constexpr float kScale = 0.125F;
  constexpr float kCap = 30;
  for (const int64_t count : kCounts) {
    const Unaligned x(test::random_values(1, count, 2000), count % 3);
    if (count > 2) {
      x.data[0] = 1e30F;
      x.data[1] = -1e30F;
      x.data[2] = 0;
    }
    std::vector<double> expected;
    for (int64_t i = 0; i < count; ++i)
      expected.push_back(kCap * std::tanh(kScale * double{x.data[i]} / kCap));
    table_.soft_cap(x.data, count, kScale, kCap);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_NEAR(x.data[i], expected[static_cast<size_t>(i)], 1e-5) << "count " << count;
    }
  }
}

// Column 0 holds 0, the largest, so the others become their plain exponentials.
TEST_P(Rows, ExponentialsOfSoftmaxHaveARelativeErrorBelowEpsilon) {
  constexpr int64_t kCount = 1 << 18;
  std::vector<float> x = test::random_values(1, kCount, 43.65);
  for (float& value : x) value -= 43.65F;                                              // [-87.3, 0]
  for (int i = 0; i < 40; ++i) x[static_cast<size_t>(i)] = -std::ldexp(1.0F, i - 33);  // down to -64
  for (int i = 0; i < 252; ++i) x[static_cast<size_t>(i + 40)] = -0.3465735903F * static_cast<float>(i);
  x[0] = 0;
  std::vector<float> e = x;
  const std::vector<int32_t> visible(x.size(), 0);
  const float sum = table_.softmax_numerators(e.data(), visible.data(), kCount, 0, 1.0F);
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(static_cast<double>(x[i]));
    total += expected;
    ASSERT_LE(std::abs(e[i] - expected), kEpsilon * expected) << "exp(" << x[i] << "), index " << i;
  }
  EXPECT_NEAR(sum, total, kCount * kEpsilon * total);
}

TEST_P(Rows, ExponentialsBelowTheSmallestNormalAreZero) {
  std::vector<float> x = {0,      -87.31F, -87.4F,     -88, -100, -103, -104, -1000,
                          -1e10F, -3e38F,  -kInfinity, 0,   0,    0,    0,    0};
  const std::vector<int32_t> visible(x.size(), 0);
  table_.softmax_numerators(x.data(), visible.data(), 16, 0, 1.0F);
  for (size_t i = 1; i < 11; ++i) EXPECT_EQ(x[i], 0.0F) << i;
  EXPECT_EQ(x[0], 1.0F);
}

TEST_P(Rows, SoftmaxSeesTheColumnsThatARowSees) {
  constexpr int32_t kHidden = std::numeric_limits<int32_t>::max();
  constexpr float kScale = 0.25F;
  const RngStream random(7);
  for (const int64_t count : {16, 32, 48, 64, 160}) {
    std::vector<int32_t> first_row;
    for (int64_t c = 0; c < count; ++c) {
      const uint32_t kind = random.below(static_cast<uint64_t>(c), 4);
      first_row.push_back(kind == 0 ? kHidden : static_cast<int32_t>(kind * 3));
    }
    first_row[static_cast<size_t>(count) - 5] = 0;
    for (const int32_t row : {0, 3, 5, 6, 100}) {
      std::vector<float> scores = test::random_values(8, count, 20);
      for (int64_t c = 0; c < count; ++c) {
        // Hidden cells hold large values, which would win the maximum.
        if (first_row[static_cast<size_t>(c)] > row) scores[static_cast<size_t>(c)] *= 1e30F;
      }
      double largest = -kInfinity;
      for (size_t c = 0; c < scores.size(); ++c) {
        if (first_row[c] <= row) largest = std::max<double>(largest, scores[c]);
      }
      std::vector<Expected> expected;
      double sum = 0;
      for (size_t c = 0; c < scores.size(); ++c) {
        const double value = first_row[c] <= row ? std::exp(kScale * (scores[c] - largest)) : 0;
        // Rounding of scale * max, which all columns share, and of the argument.
        expected.push_back({value, value * kEpsilon * (3 + 2 * kScale * 20)});
        sum += value;
      }
      const float actual = table_.softmax_numerators(scores.data(), first_row.data(), count, row, kScale);
      EXPECT_TRUE(test::meets(scores.data(), count, expected.data(), 1, count)) << "row " << row;
      EXPECT_NEAR(actual, sum, sum * kEpsilon * (13 + static_cast<double>(count)));
      for (size_t c = 0; c < scores.size(); ++c) {
        ASSERT_TRUE(first_row[c] <= row || scores[c] == 0) << "hidden column " << c;
      }
    }
  }
}

TEST_P(Rows, MaxIndexFindsTheLargestWhereverItIs) {
  for (const int64_t count : kCounts) {
    const Unaligned x(test::random_values(1, count), count % 3);
    for (int64_t place = 0; place < count; place += 1 + count / 100) {
      const float before = std::exchange(x.data[place], 2.0F);
      const MaxIndex found = table_.max_index(x.data, count);
      EXPECT_EQ(found.value, 2.0F);
      EXPECT_EQ(found.index, place) << "count " << count;
      x.data[place] = before;
    }
  }
}

TEST_P(Rows, MaxIndexTakesTheLowestOfEqualValues) {
  for (const int64_t first : {0, 1, 7, 8, 15, 16, 30, 39, 40}) {
    std::vector<float> x(41, -1.0F);
    for (size_t i = static_cast<size_t>(first); i < x.size(); i += 2) x[i] = 3.0F;
    x.back() = 3.0F;
    EXPECT_EQ(table_.max_index(x.data(), 41).index, first);
  }
}

TEST_P(Rows, MaxIndexNeverTakesNan) {
  std::vector<float> x(35, kNan);
  x[19] = -5.0F;
  EXPECT_EQ(table_.max_index(x.data(), 35).index, 19);
  x[34] = 1.0F;
  x[3] = 1.0F;
  EXPECT_EQ(table_.max_index(x.data(), 35).index, 3);
  EXPECT_EQ(table_.max_index(x.data(), 35).value, 1.0F);
}

TEST_P(Rows, MaxIndexOfRowsWithInfinities) {
  std::vector<float> x(37, -kInfinity);
  EXPECT_EQ(table_.max_index(x.data(), 37).index, 0);
  EXPECT_EQ(table_.max_index(x.data(), 37).value, -kInfinity);
  x[36] = -3e38F;
  EXPECT_EQ(table_.max_index(x.data(), 37).index, 36);
  x[12] = kInfinity;
  EXPECT_EQ(table_.max_index(x.data(), 37).index, 12);
}

/// exp_sums in double.
ExpSums plain_exp_sums(const float* x, int64_t count, float max) {
  ExpSums sums{0, 0};
  for (int64_t i = 0; i < count; ++i) {
    const double difference = static_cast<double>(x[i]) - max;
    const double e = std::exp(difference);
    sums.sum += e;
    if (e > 0) sums.weighted += e * difference;
  }
  return sums;
}

// Runs of 1,024 are summed in f32 and terms below the smallest normal number are dropped.
constexpr double kSumsBound = 1100 * kEpsilon;

TEST_P(Rows, ExpSumsEqualTheDefinition) {
  for (const int64_t count : kCounts) {
    const Unaligned x(test::random_values(1, count, 10), count % 3);
    const float max = table_.max_index(x.data, count).value;
    const ExpSums expected = plain_exp_sums(x.data, count, max);
    const ExpSums actual = table_.exp_sums(x.data, count, max);
    EXPECT_NEAR(actual.sum, expected.sum, kSumsBound * expected.sum) << "count " << count;
    EXPECT_NEAR(actual.weighted, expected.weighted, kSumsBound * std::abs(expected.weighted))
        << "count " << count;
  }
}

TEST_P(Rows, ExpSumsKeepTheManySmallTermsNextToAHugeOne) {
  constexpr int64_t kCount = 150'000;
  std::vector<float> x = test::random_values(1, kCount);
  x[777] = 15;  // its term is 1, each of the others about 3e-7: less than half of the last place of 1 apiece
  const ExpSums expected = plain_exp_sums(x.data(), kCount, 15);
  const ExpSums actual = table_.exp_sums(x.data(), kCount, 15);
  EXPECT_GT(expected.sum, 1.04);
  EXPECT_NEAR(actual.sum, expected.sum, 1e-4 * (expected.sum - 1));
  EXPECT_NEAR(actual.weighted, expected.weighted, 1e-4 * std::abs(expected.weighted));
}

TEST_P(Rows, ExpSumsIgnoreEntriesAtMinusInfinity) {
  std::vector<float> x = test::random_values(1, 5000, 3);
  std::vector<float> finite;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 3 == 0) {
      x[i] = -kInfinity;
    } else {
      finite.push_back(x[i]);
    }
  }
  x.back() = -kInfinity;
  finite.pop_back();
  const float max = table_.max_index(x.data(), 5000).value;
  const ExpSums expected = plain_exp_sums(finite.data(), static_cast<int64_t>(finite.size()), max);
  const ExpSums actual = table_.exp_sums(x.data(), 5000, max);
  EXPECT_NEAR(actual.sum, expected.sum, kSumsBound * expected.sum);
  EXPECT_NEAR(actual.weighted, expected.weighted, kSumsBound * std::abs(expected.weighted));
}

/// The packed row as floats.
std::vector<float> packed_bf16(const KernelTable& table, const std::vector<float>& x, int64_t padded_count) {
  Buffer<std::byte> memory(padded_count * table.bf16_row_element_bytes);
  std::memset(memory.data(), 0xff, static_cast<size_t>(memory.size()));
  table.pack_row_bf16(x.data(), static_cast<int64_t>(x.size()), padded_count, memory.data());
  std::vector<float> widened;
  for (int64_t i = 0; i < padded_count; ++i) {
    widened.push_back(table.bf16_row_element_bytes == 2
                          ? static_cast<float>(reinterpret_cast<const bf16*>(memory.data())[i])
                          : reinterpret_cast<const float*>(memory.data())[i]);
  }
  return widened;
}

TEST_P(Rows, SumsAreOfWhatIsPacked) {
  for (const int64_t count : {1, 7, 8, 15, 16, 17, 40, 4099}) {
    const std::vector<float> x = test::random_values(9, count);
    Buffer<std::byte> memory(round_up(count, 32) * table_.bf16_row_element_bytes);
    const float of_packed = table_.pack_row_bf16(x.data(), count, round_up(count, 32), memory.data());
    const std::vector<float> packed = packed_bf16(table_, x, round_up(count, 32));
    const auto expect_sum = [&](float sum, const std::vector<float>& values) {
      double expected = 0;
      for (const float value : values) expected += value;
      EXPECT_NEAR(sum, expected, test::kEpsilon * static_cast<double>(count)) << count;
    };
    expect_sum(of_packed, packed);
    expect_sum(table_.sum(x.data(), count), x);
  }
}

float from_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

/// A row quantized to integers.
struct IntegerRow {
  float sum;
  std::vector<float> scales;
  std::vector<int32_t> numbers;
};

// Inputs are stored in the order 0, 2, 1, 3.
constexpr std::array<int64_t, 4> kPlaces = {0, 2, 1, 3};

/// Reads the integer of input k from the high bytes and then the low bytes of each `run` inputs.
int32_t int16_of_two_bytes(const std::byte* row, int64_t k, int64_t run) {
  const int64_t in_run = k % run / 4 * 4 + kPlaces[static_cast<size_t>(k % 4)];
  const std::byte* high = row + k / run * 2 * run + in_run;
  return 256 * static_cast<int8_t>(high[0]) + static_cast<int8_t>(high[run]);
}

/// Quantizes a multiple of 32 values that bf16 holds.
IntegerRow as_integers(const KernelTable& table, const IntegerActivations& activations,
                       const std::vector<float>& x) {
  const auto count = static_cast<int64_t>(x.size());
  const RowStrides strides = RowStrides::in_rows(count);
  Buffer<std::byte> packed(count * table.bf16_row_element_bytes);
  Buffer<std::byte> whole(count * table.bf16_row_element_bytes);
  table.pack_row_bf16(x.data(), count, count, packed.data());
  std::memset(whole.data(), 0xff, static_cast<size_t>(whole.size()));
  IntegerRow result;
  result.scales.resize(static_cast<size_t>(activations.scales_per_row(count)));
  result.sum = activations.quantize_row(packed.data(), strides, count, whole.data(), result.scales.data());
  for (int64_t k = 0; k < count; ++k) {
    result.numbers.push_back(
        &activations == &table.int8_activations
            ? static_cast<int8_t>(whole.data()[k / 4 * 4 + kPlaces[static_cast<size_t>(k % 4)]])
        : table.name == "avx2" ? reinterpret_cast<const int16_t*>(whole.data())[k]
                               : int16_of_two_bytes(whole.data(), k, table.name.starts_with("neon") ? 8 : 4));
  }
  return result;
}

IntegerRow quantize_to_int16(const KernelTable& table, const std::vector<float>& x) {
  return as_integers(table, table.int16_activations, x);
}

/// Tables with int16 activations.
class Int16Activations : public Rows {};

TEST_P(Int16Activations, AreExactAboveA128thOfTheRowMaximum) {
  for (const double scale : {1.0, 1e34, 1e-30, 1e-37, 0.0}) {
    for (const int64_t count : {32, 96, 4096}) {
      std::vector<float> x = test::random_values(21, count, scale);
      test::round_all(DType::kBF16, x);
      float maximum = 0;
      for (const float value : x) maximum = std::max(maximum, std::abs(value));
      const IntegerRow row = quantize_to_int16(table_, x);
      int exponent = 0;
      EXPECT_EQ(std::frexp(row.scales[0], &exponent), 0.5F) << scale;
      double sum = 0;
      for (size_t k = 0; k < x.size(); ++k) {
        const double value = static_cast<double>(row.scales[0]) * row.numbers[k];
        sum += value;
        if (std::abs(x[k]) >= maximum / 128 && scale >= 1e-30) {
          EXPECT_EQ(value, x[k]) << "input " << k << " of " << count << ", scale " << scale;
        } else {
          // Packing may flush subnormals to zero.
          EXPECT_LE(std::abs(value - x[k]), std::max(row.scales[0] / 2, 0x1p-126F))
              << "input " << k << ", scale " << scale;
        }
      }
      EXPECT_NEAR(row.sum, sum, test::kEpsilon * std::abs(sum));
    }
  }
}

TEST_P(Int16Activations, LoseAtMostOneStepAtTheLargestMantissa) {
  std::vector<float> x(32, 1.9921875F);
  x[7] = -1.9921875F;
  const IntegerRow row = quantize_to_int16(table_, x);
  EXPECT_EQ(row.scales[0], 0x1p-14F);
  EXPECT_EQ(row.numbers[3], 32639);
  EXPECT_EQ(row.numbers[7], -32640);
}

TEST_P(Int16Activations, HaveANanScaleIfTheyHoldInfinityOrNan) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(64, 1.0F);
    x[40] = bad;
    EXPECT_TRUE(std::isnan(quantize_to_int16(table_, x).scales[0])) << bad;
    x.assign(64, bad);
    EXPECT_TRUE(std::isnan(quantize_to_int16(table_, x).scales[0])) << bad;
  }
}

/// Tables with int8 activations.
class Int8Activations : public Rows {};

TEST_P(Int8Activations, AreRoundedToMultiplesOfAScaleForEvery256Inputs) {
  for (const double scale : {1.0, 1e34, 1e-30, 1e-37, 0.0}) {
    for (const int64_t count : {32, 256, 288, 4096}) {
      std::vector<float> x = test::random_values(22, count, scale);
      x[static_cast<size_t>(count / 2)] *= 1000;  // an outlier makes only its own 256 values coarse
      test::round_all(DType::kBF16, x);
      const IntegerRow row = as_integers(table_, table_.int8_activations, x);
      double sum = 0;
      for (int64_t begin = 0; begin < count; begin += 256) {
        const auto first = x.begin() + begin;
        const auto end = x.begin() + std::min(begin + 256, count);
        float maximum = 0;
        for (auto at = first; at != end; ++at) maximum = std::max(maximum, std::abs(*at));
        const float row_scale = row.scales[static_cast<size_t>(begin / 256)];
        EXPECT_EQ(row_scale, maximum < 0x1p-112F ? 0 : maximum / 127) << scale;
        for (auto at = first; at != end; ++at) {
          const int32_t number = row.numbers[static_cast<size_t>(at - x.begin())];
          const double value = double{row_scale} * number;
          sum += value;
          ASSERT_LE(std::abs(number), 127);
          if (row_scale == 0) {
            EXPECT_EQ(number, 0);
          } else {
            EXPECT_LE(std::abs(value - *at), row_scale * (0.5 + 300 * kEpsilon))
                << "input " << at - x.begin();
          }
        }
      }
      EXPECT_NEAR(row.sum, sum, kEpsilon * std::abs(sum));
    }
  }
}

TEST_P(Int8Activations, AreZerosIfTheMaximumIsTiny) {
  std::vector<float> x(32, 0x1p-120F);
  x[5] = -0x1p-112F;
  EXPECT_EQ(as_integers(table_, table_.int8_activations, x).scales[0], 0x1p-112F / 127);
  EXPECT_EQ(as_integers(table_, table_.int8_activations, x).numbers[5], -127);
  x[5] = -0x1.fep-113F;
  EXPECT_EQ(as_integers(table_, table_.int8_activations, x).scales[0], 0);
  EXPECT_EQ(as_integers(table_, table_.int8_activations, x).numbers[5], 0);
}

TEST_P(Int8Activations, InTilesAreStoredBy64AndPaddedWithZeros) {
  if (!table_.takes_bf16_rows_in_tiles) GTEST_SKIP() << "no tiles";
  constexpr int64_t kRows = 3;
  for (const int64_t count : {32, 64, 96, 288}) {
    const RowStrides strides = RowStrides::in_tiles(kRows, count);
    Buffer<bf16> packed(strides.tile);
    Buffer<std::byte> whole(strides.tile * int64_t{sizeof(bf16)});
    std::memset(whole.data(), 0xff, static_cast<size_t>(whole.size()));
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<float> x = test::random_values(23 + static_cast<uint64_t>(row), count);
      test::round_all(DType::kBF16, x);
      for (int64_t k = 0; k < count; ++k)
        packed.data()[strides.offset(row, k)] = bf16(x[static_cast<size_t>(k)]);
      const IntegerRow expected = as_integers(table_, table_.int8_activations, x);
      std::vector<float> scales(expected.scales.size());
      const int64_t begin = strides.offset(row, 0);
      std::byte* const out = whole.data() + begin * int64_t{sizeof(bf16)};
      table_.int8_activations.quantize_row(packed.data() + begin, strides, count, out, scales.data());
      EXPECT_EQ(scales, expected.scales);
      const auto* const bytes = reinterpret_cast<const int8_t*>(out);
      for (int64_t k = 0; k < round_up(count, 64); ++k) {
        const int64_t place = k / 4 * 4 + kPlaces[static_cast<size_t>(k % 4)];
        const int32_t number = k < count ? expected.numbers[static_cast<size_t>(k)] : 0;
        EXPECT_EQ(bytes[place / 64 * strides.k_step * 2 + place % 64], number)
            << "input " << k << " of " << count;
      }
    }
  }
}

TEST_P(Int8Activations, HaveANanScaleOnlyForInputsNextToInfinityOrNan) {
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    std::vector<float> x(544, 1.0F);
    x[300] = bad;
    const IntegerRow row = as_integers(table_, table_.int8_activations, x);
    EXPECT_EQ(row.scales[0], 1.0F / 127);
    EXPECT_TRUE(std::isnan(row.scales[1])) << bad;
    EXPECT_TRUE(std::isnan(row.sum)) << bad;
    EXPECT_TRUE(std::isnan(as_integers(table_, table_.int8_activations, std::vector<float>(64, bad)).sum));
  }
}

TEST_P(Rows, PackingToBf16RoundsToNearestAndTiesToEven) {
  const std::vector<std::pair<float, float>> cases = {
      {1.0F, 1.0F},
      {from_bits(0x3f800001), 1.0F},
      {from_bits(0x3f808000), 1.0F},                   // half way, 1.0 is even
      {from_bits(0x3f808001), from_bits(0x3f810000)},  // just above half
      {from_bits(0x3f817fff), from_bits(0x3f810000)},  // just below half
      {from_bits(0x3f818000), from_bits(0x3f820000)},  // half way, the upper one is even
      {from_bits(0xbf818000), from_bits(0xbf820000)},  // the same below zero
      {from_bits(0xbf808000), -1.0F},
      {from_bits(0x3fffffff), 2.0F},  // carries into the exponent
      {0.0F, 0.0F},
      {3.4028235e38F, kInfinity},  // nearer to the next power of two
      {-3.4028235e38F, -kInfinity},
      {from_bits(0x7f7f7fff), from_bits(0x7f7f0000)},  // the largest finite
      {kInfinity, kInfinity},
      {-kInfinity, -kInfinity},
      {from_bits(0x00800000), from_bits(0x00800000)},  // the smallest normal
  };
  // Every case in a whole vector and in what is left after one.
  for (const auto& [value, expected] : cases) {
    const std::vector<float> packed = packed_bf16(table_, std::vector<float>(35, value), 64);
    for (size_t i = 0; i < 35; ++i) EXPECT_EQ(packed[i], expected) << value << " at " << i;
    for (size_t i = 35; i < 64; ++i)
      EXPECT_TRUE(test::same_bits(&packed[i], std::vector{0.0F}.data(), 1)) << i;
  }
}

TEST_P(Rows, PackingToBf16KeepsNanAndSign) {
  for (const uint32_t nan : {0x7fc00000U, 0x7f800001U, 0xffffffffU, 0x7fffffffU}) {
    for (const float value : packed_bf16(table_, std::vector<float>(19, from_bits(nan)), 19)) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
  for (const float value : packed_bf16(table_, std::vector<float>(19, -0.0F), 19)) {
    EXPECT_EQ(std::bit_cast<uint32_t>(value), 0x80000000U);
  }
}

TEST_P(Rows, PackingToBf16TakesRandomValuesToTheNearestAndMayFlushSubnormals) {
  const RngStream random(5);
  std::vector<float> x;
  for (uint64_t i = 0; i < 20'000; ++i) x.push_back(from_bits(static_cast<uint32_t>(random.bits(i))));
  const std::vector<float> packed = packed_bf16(table_, x, 20'000);
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) continue;
    const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0xffff0000U;
    const double below = from_bits(bits);
    const double above = from_bits(bits + 0x10000U);
    if (!std::isfinite(above)) continue;
    const double nearest = std::min(std::abs(x[i] - below), std::abs(x[i] - above));
    const bool flushed = std::fpclassify(x[i]) == FP_SUBNORMAL && packed[i] == 0;
    EXPECT_TRUE(flushed || std::abs(static_cast<double>(packed[i]) - x[i]) == nearest)
        << x[i] << " gave " << packed[i];
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTable, Rows, testing::ValuesIn(supported_tables()), test::table_name);

std::vector<KernelTable> tables_with(IntegerActivations KernelTable::*activations) {
  std::vector<KernelTable> tables = supported_tables();
  std::erase_if(tables, [&](const KernelTable& table) { return !(table.*activations); });
  return tables;
}

INSTANTIATE_TEST_SUITE_P(EveryTable, Int16Activations,
                         testing::ValuesIn(tables_with(&KernelTable::int16_activations)), test::table_name);
INSTANTIATE_TEST_SUITE_P(EveryTable, Int8Activations,
                         testing::ValuesIn(tables_with(&KernelTable::int8_activations)), test::table_name);
// Where scalar is the only table there are none.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Int16Activations);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Int8Activations);

}  // namespace
}  // namespace lacuna::rows_test
