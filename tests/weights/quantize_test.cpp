#include "weights/quantize.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "weights/packed_matrix.h"

namespace lacuna::quantize_test {
namespace {

std::vector<float> random_row(uint64_t seed, int64_t count) {
  const RngStream random(seed);
  std::vector<float> row;
  for (int64_t i = 0; i < count; ++i)
    row.push_back(static_cast<float>(2 * random.uniform(static_cast<uint64_t>(i)) - 1));
  return row;
}

std::vector<float> normal_row(uint64_t seed, int64_t count) {
  std::vector<float> row;
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;  // of twelve uniform numbers: variance 1
    for (uint64_t j = 0; j < 12; ++j) sum += RngStream(seed).uniform(static_cast<uint64_t>(i) * 12 + j) - 0.5;
    row.push_back(static_cast<float>(sum));
  }
  return row;
}

std::vector<float> there_and_back(const Quantization& quantization, const std::vector<float>& row) {
  QuantizedRow codes;
  quantize(quantization, row, codes);
  std::vector<float> back(row.size());
  dequantize(quantization, codes, back);
  return back;
}

double relative_error(const std::vector<float>& row, const std::vector<float>& other) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    error += std::pow(double{row[i]} - other[i], 2);
    size += std::pow(double{row[i]}, 2);
  }
  return std::sqrt(error / size);
}

Quantization named(std::string_view name) {
  return weight_format(name)->quantization;
}

TEST(Quantize, RoundsToF16AsTheFormatHasIt) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    f16 half;
    half.bits = static_cast<uint16_t>(bits);
    f16 next;
    next.bits = static_cast<uint16_t>(bits + 1);
    const auto value = static_cast<float>(half);
    ASSERT_EQ(to_f16(value).bits, bits);
    ASSERT_EQ(to_f16(-value).bits, bits | 0x8000U);
    if (bits + 1 == 0x7c00) continue;
    const float between = (value + static_cast<float>(next)) / 2;
    ASSERT_EQ(to_f16(between).bits, bits % 2 == 0 ? bits : bits + 1) << "halfway goes to the even one";
    ASSERT_EQ(to_f16(std::nextafter(between, 0.0F)).bits, bits);
    ASSERT_EQ(to_f16(std::nextafter(between, 1e9F)).bits, bits + 1);
  }
  EXPECT_EQ(to_f16(65519).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520).bits, 0x7c00);
  EXPECT_EQ(to_f16(std::numeric_limits<float>::infinity()).bits, 0x7c00);
  EXPECT_TRUE(std::isnan(static_cast<float>(to_f16(std::nanf("")))));
}

TEST(Quantize, KeepsEveryWeightWithinHalfAScale) {
  const std::vector<float> row = random_row(1, 320);
  for (const char* name : {"int8", "int8-group"}) {
    const std::vector<float> back = there_and_back(named(name), row);
    for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(back[i], row[i], 0.51 / 127) << name;
  }
  const std::vector<float> back = there_and_back(named("int4-min"), row);
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(back[i], row[i], 1.6 / 15);
}

TEST(Quantize, LosesAsLittleAsTheFormatAllows) {
  const std::vector<float> row = random_row(2, 4096);
  EXPECT_LT(relative_error(row, there_and_back(named("int8-group"), row)), 0.004);
  EXPECT_LT(relative_error(row, there_and_back(named("int4-group"), row)), 0.069);
  EXPECT_LT(relative_error(row, there_and_back(named("int4"), row)), 0.069);
  EXPECT_LT(relative_error(row, there_and_back(named("int4-min"), row)), 0.066);
}

TEST(Quantize, ClipsExtremesIfThatReducesTheError) {
  const std::vector<float> row = normal_row(5, 32 * 1024);
  EXPECT_LT(relative_error(row, there_and_back(named("int4-group"), row)), 0.0818);
  EXPECT_LT(relative_error(row, there_and_back(named("int4-min"), row)), 0.0709);
}

/// Squared error of an exhaustive search: every scale and minimum for each group.
double least_error_of_two_levels(const std::vector<float>& row) {
  const auto [least, most] = std::minmax_element(row.begin(), row.end());
  const double step = (double{*most} - *least) / 240;
  double error = 0;
  double size = 0;
  for (size_t begin = 0; begin < row.size(); begin += 32) {
    double best = std::numeric_limits<double>::infinity();
    for (int scale = 1; scale <= 16; ++scale) {
      for (int minimum = 0; minimum + 15 * scale <= 255; ++minimum) {
        double squares = 0;
        for (size_t i = begin; i < begin + 32; ++i) {
          const double value = (double{row[i]} - *least) / step;
          const double code = std::clamp(std::round((value - minimum) / scale), 0.0, 15.0);
          squares += std::pow((value - minimum - scale * code) * step, 2);
        }
        best = std::min(best, squares);
      }
    }
    error += best;
  }
  for (const float value : row) size += std::pow(double{value}, 2);
  return std::sqrt(error / size);
}

TEST(Quantize, FindsNearlyTheBestOfTwoLevels) {
  for (const bool has_outlier : {false, true}) {
    std::vector<float> row = normal_row(7, 32 * 128);
    if (has_outlier) row[99] = 12;
    const double found = relative_error(row, there_and_back(named("int4"), row));
    const double best = least_error_of_two_levels(row);
    EXPECT_LT(found, 1.02 * best);
    EXPECT_LT(found, has_outlier ? 0.09 : 0.075);
  }
}

TEST(Quantize, KeepsValuesOfTwoLevelsInTheirRange) {
  std::vector<float> row = normal_row(8, 200);
  for (const float extreme : {1e-40F, 1.0F, 1e30F, std::numeric_limits<float>::max()}) {
    row[7] = extreme;
    row[150] = -extreme;
    QuantizedRow codes;
    quantize(named("int4"), row, codes);
    for (size_t g = 0; g < codes.scales.size(); ++g) {
      EXPECT_GE(codes.minimums[g], 0);
      EXPECT_LE(codes.minimums[g] + 15 * codes.scales[g], 255);
    }
    const std::vector<float> back = there_and_back(named("int4"), row);
    EXPECT_NEAR(back[7], extreme, 0.01 * extreme + 0.2);
  }
}

TEST(Quantize, KeepsGroupsWhoseErrorOverflows) {
  for (const float size : {1e30F, 1e36F}) {
    std::vector<float> row(32, size);
    row[0] = -3 * size;
    Quantization quantization = named("int4-min");
    quantization.wide_scales = true;
    for (const bool has_minimum : {true, false}) {
      quantization.has_minimum = has_minimum;
      EXPECT_LT(relative_error(row, there_and_back(quantization, row)), 0.2) << size;
    }
  }
}

TEST(Quantize, NeverPrefersAScaleThatF16CannotHold) {
  for (const float extreme : {4.9e5F, 5.2e5F, 5.5e5F}) {
    std::vector<float> row = random_row(6, 32);
    row[7] = extreme;
    const std::vector<float> back = there_and_back(named("int4-group"), row);
    EXPECT_NEAR(back[7], extreme, 0.13 * extreme);
    EXPECT_EQ(back[8], 0);
  }
}

TEST(Quantize, KeepsRepresentableValues) {
  std::vector<float> row(64);
  for (size_t i = 0; i < row.size(); ++i) row[i] = 0.5F * static_cast<float>(static_cast<int>(i % 16) - 8);
  for (const char* name : {"int4", "int4-group", "int4-min"})
    EXPECT_EQ(there_and_back(named(name), row), row) << name;
  for (const std::string& name : quantized_format_names()) {
    EXPECT_EQ(there_and_back(named(name), std::vector<float>(40)), std::vector<float>(40)) << name;
  }
}

TEST(Quantize, GivesOutliersOnlyTheirOwnGroup) {
  std::vector<float> row = random_row(3, 96);
  row[40] = 1000;
  const std::vector<float> back = there_and_back(named("int8-group"), row);
  EXPECT_NEAR(back[40], 1000, 0.5);
  for (const size_t i : {0, 31, 64, 95}) EXPECT_NEAR(back[i], row[i], 0.005);
}

TEST(Quantize, TurnsAGroupWithNanIntoNan) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> row = random_row(4, 64);
    row[3] = bad;
    for (const std::string& name : quantized_format_names()) {
      const std::vector<float> back = there_and_back(named(name), row);
      EXPECT_TRUE(std::isnan(back[3])) << name;
      EXPECT_EQ(std::isnan(back[32]), named(name).scales_sums()) << name;
    }
  }
}

/// The value of an e4m3 code, by its definition; codes of NaN left out.
double value_of_e4m3(int code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code >= 128 ? -magnitude : magnitude;
}

bool is_nan_of_e4m3(int code) {
  return (code & 0x7f) == 0x7f;
}

TEST(E4m3, HasTheValuesOfItsDefinition) {
  for (int code = 0; code < 256; ++code) {
    const float value = from_e4m3(static_cast<uint8_t>(code));
    if (is_nan_of_e4m3(code)) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    EXPECT_EQ(value, value_of_e4m3(code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
    EXPECT_EQ(to_e4m3(value), code);
    EXPECT_EQ(static_cast<float>(bf16(value)), value) << "bf16 holds it";
  }
}

TEST(E4m3, RoundsToTheNearestAndTiesToEven) {
  for (int code = 0; code < 0x7e; ++code) {
    const auto low = static_cast<float>(value_of_e4m3(code));
    const auto high = static_cast<float>(value_of_e4m3(code + 1));
    const float middle = (low + high) / 2;  // exact in f32
    const int even = code % 2 == 0 ? code : code + 1;
    for (const int sign : {0, 128}) {
      const auto rounded = [&](float value) { return int{to_e4m3(sign == 0 ? value : -value)}; };
      EXPECT_EQ(rounded(std::nextafter(middle, 0.0F)), sign + code);
      EXPECT_EQ(rounded(middle), sign + even);
      EXPECT_EQ(rounded(std::nextafter(middle, 1e9F)), sign + code + 1);
    }
  }
}

TEST(E4m3, EndsAtItsLargestValue) {
  EXPECT_EQ(kLargestE4m3, value_of_e4m3(0x7e));
  for (const float beyond :
       {std::nextafter(448.0F, 1e9F), 464.0F, 480.0F, 1e30F, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(to_e4m3(beyond), 0x7e) << beyond;
    EXPECT_EQ(to_e4m3(-beyond), 0xfe) << beyond;
  }
  EXPECT_TRUE(is_nan_of_e4m3(to_e4m3(std::nanf(""))));
}

TEST(QuantizeToE4m3, PutsTheLargestWeightAtTheEndOfTheRange) {
  for (const float size : {1.0F, 1e-3F, 1e30F, 1e-38F}) {
    std::vector<float> row = normal_row(8, 300);
    for (float& value : row) value *= size;
    const auto largest =
        std::max_element(row.begin(), row.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
    QuantizedRow codes;
    quantize(named("fp8"), row, codes);
    ASSERT_THAT(codes.scales, testing::SizeIs(1));
    EXPECT_FLOAT_EQ(codes.scales[0], std::abs(*largest) / 448);
    EXPECT_EQ(codes.codes[static_cast<size_t>(largest - row.begin())] & 0x7f, 0x7e) << size;
    for (const uint8_t code : codes.codes) EXPECT_FALSE(is_nan_of_e4m3(code)) << size;
    std::vector<float> back(row.size());
    dequantize(named("fp8"), codes, back);
    for (size_t i = 0; i < row.size(); ++i) {
      // Half a unit of the last place: 2^-4 of a normal value, 2^-10 of the scale below.
      const double bound = std::max(0x1p-4 * std::abs(row[i]), 0x1p-10 * codes.scales[0]);
      EXPECT_LE(std::abs(double{back[i]} - row[i]), bound * 1.0001 + 2e-45) << size << ", " << i;
    }
  }
}

TEST(QuantizeToE4m3, KeepsZerosAndMakesARowWithNanNan) {
  EXPECT_EQ(there_and_back(named("fp8"), std::vector<float>(40)), std::vector<float>(40));
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> row = random_row(4, 64);
    row[3] = bad;
    for (const float value : there_and_back(named("fp8"), row)) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(QuantizeToE4m3, ErrsOnNormalWeightsAsThreeBitsOfMantissaDo) {
  // A value of a binade errs by 2^-4 of the binade's begin at most, uniformly: by 2^-4 / sqrt(3) / sqrt(7 /
  // 3) of itself in the root mean square where values are spread evenly over the binade.
  const std::vector<float> row = normal_row(9, 4096);
  EXPECT_NEAR(relative_error(row, there_and_back(named("fp8"), row)), 0.0236, 0.003);
}

TEST(QuantizedMatrix, HoldsTheWeightsThatItsRowsQuantizeTo) {
  ThreadPool threads(2);
  constexpr int64_t kInputs = 70;
  for (const NamedWeightFormat& known : kWeightFormats) {
    const PackedMatrix matrix(threads, known.format, 35, kInputs, [](int64_t n, float* row) {
      const std::vector<float> values = random_row(static_cast<uint64_t>(n), kInputs);
      std::copy(values.begin(), values.end(), row);
    });
    EXPECT_EQ(matrix.format(), known.format);
    EXPECT_EQ(matrix.bytes(), packed_bytes(known.format, 35, kInputs)) << known.name;
    for (int64_t n = 0; n < 35; ++n) {
      std::vector<float> expected = random_row(static_cast<uint64_t>(n), kInputs);
      if (known.format.is_quantized()) {
        expected = there_and_back(known.format.quantization, expected);
      } else if (known.format.dtype == DType::kBF16) {
        for (float& value : expected) value = static_cast<float>(bf16(value));
      }
      std::vector<float> row(kInputs);
      matrix.read_row(n, row.data());
      ASSERT_EQ(row, expected) << known.name << ", row " << n;
    }
  }
}

TEST(QuantizedMatrix, PacksQuantizedValuesWithoutLoss) {
  ThreadPool threads(2);
  const Quantization quantization{.bits = 8, .group = 16, .has_minimum = true, .wide_scales = true};
  const auto fill = [](int64_t n, QuantizedRow& row) {
    for (size_t k = 0; k < row.codes.size(); ++k)
      row.codes[k] = static_cast<uint8_t>(static_cast<size_t>(n) * 37 + k);
    for (size_t g = 0; g < row.scales.size(); ++g) {
      row.scales[g] = 1.2345678F + static_cast<float>(g);
      row.minimums[g] = -7.654321F * static_cast<float>(n);
    }
  };
  const PackedMatrix matrix = PackedMatrix::from_codes(threads, quantization, 20, 50, fill);
  for (int64_t n = 0; n < 20; ++n) {
    QuantizedRow codes;
    codes.resize(quantization, 50);
    fill(n, codes);
    std::vector<float> expected(50);
    dequantize(quantization, codes, expected);
    std::vector<float> row(50);
    matrix.read_row(n, row.data());
    EXPECT_EQ(row, expected);
  }
}

}  // namespace
}  // namespace lacuna::quantize_test
