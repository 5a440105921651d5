#include "weights/grouped_matrix.h"

#include <gmock/gmock.h>

#include <cstring>

#include "weights/packed_matrix.h"

namespace lacuna::grouped_matrix_test {
namespace {

using testing::ElementsAre;

std::vector<std::byte> words(std::initializer_list<uint32_t> values) {
  std::vector<std::byte> bytes(values.size() * 4);
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

TEST(UnpackCodes, ReadsFromTheLowestBitsAndAcrossWords) {
  std::vector<uint8_t> codes(4);
  unpack_codes(words({0x87654321}).data(), 4, 4, codes);
  EXPECT_THAT(codes, ElementsAre(1, 2, 3, 4));
  codes.resize(12);  // of 3 bits: the eleventh lies in both words
  unpack_codes(words({0xc0000000U | 5U, 0x1U | 6U << 1}).data(), 4, 3, codes);
  EXPECT_EQ(codes[0], 5);
  EXPECT_EQ(codes[9], 0);
  EXPECT_EQ(codes[10], 7);
  EXPECT_EQ(codes[11], 6);
}

TEST(UnpackCodes, ReadsColumnsAndSingleCodes) {
  const std::vector<std::byte> matrix = words({0x21, 0x43, 0x65, 0x87});  // two columns
  std::vector<uint8_t> codes(9);
  unpack_codes(matrix.data() + 4, 8, 4, codes);
  EXPECT_THAT(codes, ElementsAre(3, 4, 0, 0, 0, 0, 0, 0, 7));
  for (size_t i = 0; i < codes.size(); ++i)
    EXPECT_EQ(packed_code(matrix.data() + 4, 8, 4, static_cast<int64_t>(i)), codes[i]) << i;
  for (int64_t i = 0; i < 12; ++i) {
    const std::vector<std::byte> bits = words({0xdeadbeef, 0x12345678});
    std::vector<uint8_t> all(12);
    unpack_codes(bits.data(), 4, 5, all);
    EXPECT_EQ(packed_code(bits.data(), 4, 5, i), all[static_cast<size_t>(i)]) << i;
  }
}

constexpr int64_t kInputs = 96;

/// Codes k mod 2^bits, scales 1.5 and up, zero codes that alternate.
GroupedIntegers integers(int32_t bits, int64_t group, GroupOffset offset) {
  GroupedIntegers result;
  result.inputs = kInputs;
  result.bits = bits;
  result.group = group;
  result.num_groups = (kInputs + group - 1) / group;
  result.offset = offset;
  result.zero_code = 1 << (bits - 1);
  result.are_products_exact = true;
  result.read_codes = [bits](int64_t n, std::span<uint8_t> codes) {
    for (size_t k = 0; k < codes.size(); ++k)
      codes[k] = static_cast<uint8_t>((k + static_cast<size_t>(n)) % (size_t{1} << bits));
  };
  result.read_groups = [offset](int64_t n, std::span<float> scales, std::span<float> offsets) {
    for (size_t g = 0; g < scales.size(); ++g) {
      scales[g] = 1.5F + static_cast<float>(g) + static_cast<float>(n) / 8;
      if (offset != GroupOffset::kZeroCode) offsets[g] = static_cast<float>(g % 2 + 1);
    }
  };
  return result;
}

void expect_same_weights(const StoredMatrix& matrix) {
  constexpr int64_t kRows = 17;
  ThreadPool threads(1);
  const PackedMatrix packed = pack(threads, WeightFormat(*matrix.quantization()), matrix, 0, kRows, kInputs);
  std::vector<float> expected(kInputs);
  std::vector<float> found(kInputs);
  for (int64_t n = 0; n < kRows; ++n) {
    matrix.read(n, expected.data());
    packed.read_row(n, found.data());
    EXPECT_EQ(found, expected) << n;
  }
}

TEST(GroupedMatrix, IsHeldWithoutLossByTheKernelsQuantization) {
  for (const int32_t bits : {2, 3, 4, 6, 8}) {
    for (const int64_t group : {16, 32, 64, 96, 128}) {
      for (const GroupOffset offset :
           {GroupOffset::kZeroCode, GroupOffset::kZeroPoints, GroupOffset::kBiases}) {
        const auto matrix = grouped_matrix(integers(bits, group, offset));
        const std::optional<Quantization> held = matrix->quantization();
        ASSERT_TRUE(held);
        EXPECT_EQ(held->bits, bits <= 4 ? 4 : 8);
        EXPECT_EQ(held->group, group >= kInputs ? 0 : group == 16 ? 16 : 32);
        EXPECT_EQ(held->has_minimum, offset != GroupOffset::kZeroCode);
        expect_same_weights(*matrix);
      }
    }
  }
}

TEST(GroupedMatrix, HasNarrowScalesWhereF16HoldsThem) {
  GroupedIntegers some = integers(4, 32, GroupOffset::kZeroCode);
  EXPECT_TRUE(grouped_matrix(some)->quantization()->wide_scales);
  some.are_f16 = true;
  EXPECT_FALSE(grouped_matrix(some)->quantization()->wide_scales);
  expect_same_weights(*grouped_matrix(some));
}

TEST(GroupedMatrix, OfScalesInF32CentresCodesInsteadOfRoundingMinimums) {
  GroupedIntegers some = integers(4, 32, GroupOffset::kZeroPoints);
  some.are_products_exact = false;
  const auto matrix = grouped_matrix(some);
  EXPECT_EQ(matrix->quantization()->bits, 8);
  EXPECT_FALSE(matrix->quantization()->has_minimum);
  expect_same_weights(*matrix);
  some.bits = 8;
  EXPECT_FALSE(grouped_matrix(some)->quantization()) << "differences of 8-bit codes take nine bits";
}

TEST(GroupedMatrix, OfScatteredGroupsIsDense) {
  GroupedIntegers some = integers(4, 32, GroupOffset::kZeroCode);
  some.group_of.assign(kInputs, 0);
  for (int64_t k = 0; k < kInputs; ++k) some.group_of[static_cast<size_t>(k)] = static_cast<int32_t>(k / 32);
  std::swap(some.group_of[0], some.group_of[95]);
  const auto scattered = grouped_matrix(some);
  EXPECT_FALSE(scattered->quantization());
  std::vector<float> row(kInputs);
  scattered->read(0, row.data());
  EXPECT_EQ(row[0], 3.5F * (0 - 8)) << "with the scale of the last group";
  // Whole runs in another order are no obstacle.
  for (int64_t k = 0; k < kInputs; ++k)
    some.group_of[static_cast<size_t>(k)] = static_cast<int32_t>(2 - k / 32);
  EXPECT_TRUE(grouped_matrix(some)->quantization());
  expect_same_weights(*grouped_matrix(some));
}

}  // namespace
}  // namespace lacuna::grouped_matrix_test
