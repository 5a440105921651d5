// Blocks of every type, packed here from random quantized values and scales, compared with the values that
// the format's description gives them.
#include "weights/gguf.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "base/rng.h"
#include "gguf_bytes.h"
#include "temporary_folder.h"

namespace lacuna::gguf_test {
namespace {

using test::GgufBytes;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Values that f16 holds, and their bits.
struct Half {
  float value;
  uint16_t bits;
};
Half half(int64_t n) {
  const auto value = static_cast<float>(n) / 64;
  return {value, to_f16(value).bits};
}

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}
  uint32_t below(uint32_t count) { return static_cast<uint32_t>(random_.bits(next_++) % count); }
  Half half() { return gguf_test::half(1 + below(400)); }

 private:
  RngStream random_;
  uint64_t next_ = 0;
};

/// A block of some type with random content.
struct Block {
  std::string bytes;
  std::vector<float> values;
};

/// Q4_0, Q4_1, Q5_0, Q5_1.
Block plain_block(Draws& draws, uint32_t bits, bool has_minimum) {
  Block block;
  const Half scale = draws.half();
  const Half minimum = draws.half();
  GgufBytes::append(block.bytes, scale.bits);
  if (has_minimum) GgufBytes::append(block.bytes, minimum.bits);
  std::vector<uint32_t> codes;
  for (int j = 0; j < 32; ++j) codes.push_back(draws.below(1U << bits));
  uint32_t fifths = 0;
  for (size_t j = 0; j < 32; ++j) fifths |= (codes[j] >> 4U) << j;
  if (bits == 5) GgufBytes::append(block.bytes, fifths);
  for (size_t j = 0; j < 16; ++j)
    block.bytes += static_cast<char>((codes[j] & 15U) | (codes[j + 16] & 15U) << 4U);
  for (const uint32_t code : codes) {
    const int centre = has_minimum ? 0 : 1 << (bits - 1);
    block.values.push_back(scale.value * static_cast<float>(static_cast<int>(code) - centre) +
                           (has_minimum ? minimum.value : 0));
  }
  return block;
}

Block q8_0_block(Draws& draws) {
  Block block;
  const Half scale = draws.half();
  GgufBytes::append(block.bytes, scale.bits);
  for (int j = 0; j < 32; ++j) {
    const auto code = static_cast<int8_t>(static_cast<int>(draws.below(256)) - 128);
    block.bytes += static_cast<char>(code);
    block.values.push_back(scale.value * code);
  }
  return block;
}

/// Q4_K, Q5_K.
Block k_block(Draws& draws, uint32_t bits) {
  Block block;
  const Half scale = draws.half();
  const Half minimum = draws.half();
  uint32_t scales[8];
  uint32_t minimums[8];
  for (int b = 0; b < 8; ++b) {
    scales[b] = draws.below(64);
    minimums[b] = draws.below(64);
  }
  GgufBytes::append(block.bytes, scale.bits);
  GgufBytes::append(block.bytes, minimum.bits);
  for (int b = 0; b < 4; ++b) block.bytes += static_cast<char>(scales[b] | (scales[b + 4] >> 4U) << 6U);
  for (int b = 0; b < 4; ++b) block.bytes += static_cast<char>(minimums[b] | (minimums[b + 4] >> 4U) << 6U);
  for (int b = 4; b < 8; ++b) block.bytes += static_cast<char>((scales[b] & 15U) | (minimums[b] & 15U) << 4U);
  uint32_t codes[256];
  for (uint32_t& code : codes) code = draws.below(1U << bits);
  for (size_t l = 0; bits == 5 && l < 32; ++l) {
    uint32_t fifths = 0;
    for (size_t b = 0; b < 8; ++b) fifths |= (codes[32 * b + l] >> 4U) << b;
    block.bytes += static_cast<char>(fifths);
  }
  for (size_t g = 0; g < 4; ++g) {
    for (size_t l = 0; l < 32; ++l)
      block.bytes += static_cast<char>((codes[64 * g + l] & 15U) | (codes[64 * g + 32 + l] & 15U) << 4U);
  }
  for (size_t j = 0; j < 256; ++j) {
    block.values.push_back(scale.value * static_cast<float>(scales[j / 32]) * static_cast<float>(codes[j]) -
                           minimum.value * static_cast<float>(minimums[j / 32]));
  }
  return block;
}

Block q6_k_block(Draws& draws) {
  Block block;
  const Half scale = draws.half();
  uint32_t codes[256];
  for (uint32_t& code : codes) code = draws.below(64);
  int8_t scales[16];
  for (int8_t& value : scales) value = static_cast<int8_t>(static_cast<int>(draws.below(256)) - 128);
  std::string high;
  for (size_t n = 0; n < 256; n += 128) {
    for (size_t l = 0; l < 32; ++l)
      block.bytes += static_cast<char>((codes[n + l] & 15U) | (codes[n + l + 64] & 15U) << 4U);
    for (size_t l = 0; l < 32; ++l)
      block.bytes += static_cast<char>((codes[n + l + 32] & 15U) | (codes[n + l + 96] & 15U) << 4U);
    for (size_t l = 0; l < 32; ++l) {
      uint32_t byte = 0;
      for (size_t quarter = 0; quarter < 4; ++quarter)
        byte |= (codes[n + 32 * quarter + l] >> 4U) << (2 * quarter);
      high += static_cast<char>(byte);
    }
  }
  block.bytes += high;
  for (const int8_t value : scales) block.bytes += static_cast<char>(value);
  GgufBytes::append(block.bytes, scale.bits);
  for (size_t j = 0; j < 256; ++j) {
    block.values.push_back(scale.value * static_cast<float>(scales[j / 16]) *
                           static_cast<float>(static_cast<int>(codes[j]) - 32));
  }
  return block;
}

Block random_block(uint32_t type, Draws& draws) {
  switch (type) {
    case kGgmlQ8_0:
      return q8_0_block(draws);
    case kGgmlQ4_0:
      return plain_block(draws, 4, false);
    case kGgmlQ4_1:
      return plain_block(draws, 4, true);
    case kGgmlQ5_0:
      return plain_block(draws, 5, false);
    case kGgmlQ5_1:
      return plain_block(draws, 5, true);
    case kGgmlQ4_K:
      return k_block(draws, 4);
    case kGgmlQ5_K:
      return k_block(draws, 5);
    default:
      return q6_k_block(draws);
  }
}

constexpr uint32_t kQuantisedTypes[] = {kGgmlQ8_0, kGgmlQ4_0, kGgmlQ4_1, kGgmlQ5_0,
                                        kGgmlQ5_1, kGgmlQ4_K, kGgmlQ5_K, kGgmlQ6_K};

struct Row {
  std::string bytes;
  std::vector<float> values;
};
Row random_row(uint32_t type, uint64_t seed, int64_t inputs) {
  Draws draws(seed);
  Row row;
  while (static_cast<int64_t>(row.values.size()) < inputs) {
    const Block block = random_block(type, draws);
    row.bytes += block.bytes;
    row.values.insert(row.values.end(), block.values.begin(), block.values.end());
  }
  return row;
}

class GgufWeightsTest : public testing::Test {
 protected:
  GgufFile written(const GgufBytes& bytes) const {
    bytes.write(path_);
    return GgufFile::open(path_);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "weights.gguf";
};

TEST(GgufBlocks, OfEveryTypeHaveTheValuesThatTheFormatGivesThem) {
  for (const uint32_t type : kQuantisedTypes) {
    const Row row = random_row(type, type, 512);
    ASSERT_EQ(static_cast<int64_t>(row.bytes.size()),
              512 / ggml_type(type)->block * ggml_type(type)->block_bytes);
    std::vector<float> values(512);
    widen_blocks(type, reinterpret_cast<const std::byte*>(row.bytes.data()), values);
    EXPECT_EQ(values, row.values) << ggml_type(type)->name;
  }
}

TEST(GgufBlocks, GoIntoPanelsWithoutLoss) {
  ThreadPool threads(1);
  for (const uint32_t type : kQuantisedTypes) {
    std::vector<Row> rows;
    for (uint64_t n = 0; n < 20; ++n) rows.push_back(random_row(type, 100 + n, 256));
    const PackedMatrix matrix = PackedMatrix::from_codes(
        threads, *block_quantisation(type), 20, 256, [&](int64_t n, QuantisedRow& out) {
          read_blocks(type, reinterpret_cast<const std::byte*>(rows[static_cast<size_t>(n)].bytes.data()),
                      out);
        });
    for (int64_t n = 0; n < 20; ++n) {
      std::vector<float> values(256);
      matrix.read_row(n, values.data());
      ASSERT_EQ(values, rows[static_cast<size_t>(n)].values) << ggml_type(type)->name;
    }
  }
}

TEST_F(GgufWeightsTest, StackMatricesAndUndoTheOrderOfRotation) {
  GgufBytes bytes;
  std::string values;
  for (int i = 0; i < 16; ++i) GgufBytes::append(values, static_cast<float>(i));
  bytes.tensor("experts.weight", kGgmlF32, {2, 4, 2}, values);
  bytes.tensor("q.weight", kGgmlF32, {8, 2}, values);
  const GgufFile file = written(bytes);
  const GgufWeights weights(file, {{"q", 2}});
  float row[2];
  weights.matrix("experts", 8, 2)->read(5, row);
  EXPECT_EQ(row[0], 10);
  // Heads of 4 rows: model rows 0, 1, 2, 3 are the file's 0, 2, 1, 3.
  const std::vector<float> expected = {0, 4, 2, 6, 8, 12, 10, 14};
  const auto q = weights.matrix("q", 8, 2);
  for (int64_t n = 0; n < 8; ++n) {
    q->read(n, row);
    EXPECT_EQ(row[0], expected[static_cast<size_t>(n)]) << "row " << n;
  }
}

TEST_F(GgufWeightsTest, NameWhatIsMissingOrDiffers) {
  GgufBytes bytes;
  bytes.tensor("a.weight", kGgmlF32, {2, 2}, std::string(16, 'x'));
  bytes.tensor("b.weight", 10, {1, 256}, std::string(84, 'x'));
  const GgufFile file = written(bytes);
  const GgufWeights weights(file);
  EXPECT_THAT([&] { weights.matrix("a", 2, 3); },
              ThrowsMessage<InputError>(HasSubstr("\"a.weight\" has shape [2, 2]; expected [2, 3]")));
  EXPECT_THAT([&] { weights.matrix("b", 1, 256); }, ThrowsMessage<InputError>(HasSubstr("has type 10")));
  EXPECT_THAT([&] { weights.matrix("c", 1, 1); },
              ThrowsMessage<InputError>(HasSubstr("\"c.weight\" is missing")));
}

}  // namespace
}  // namespace lacuna::gguf_test
