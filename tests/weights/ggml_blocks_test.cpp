// Blocks of every quantized type, compared with the weights that llama.cpp's Python package gives them
// (tests/reference/make_golden_ggml.py).
#include "weights/ggml_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "weights/packed_matrix.h"
#include "weights/stored_matrix.h"

namespace lacuna::ggml_blocks_test {
namespace {

struct Case {
  std::string name;
  uint32_t type;
  const std::byte* blocks;
  std::vector<float> values;
};

std::vector<Case> cases_of(const GgufFile& file) {
  std::vector<Case> cases;
  for (const auto& [name, tensor] : file.tensors()) {
    if (!name.ends_with(".blocks")) continue;
    const std::string type = name.substr(0, name.find('.'));
    const GgufTensor* values = file.find(type + ".values");
    Case known{type, tensor.type, tensor.bytes.data(), std::vector<float>(values->bytes.size() / 4)};
    std::memcpy(known.values.data(), values->bytes.data(), values->bytes.size());
    cases.push_back(std::move(known));
  }
  return cases;
}

class GgmlBlocks : public testing::Test {
 protected:
  GgufFile file_ = GgufFile::open(LACUNA_SOURCE_DIR "/tests/golden/ggml_blocks.gguf");
  std::vector<Case> cases_ = cases_of(file_);
};

TEST_F(GgmlBlocks, OfEveryTypeHaveTheWeightsOfTheReference) {
  ASSERT_EQ(cases_.size(), 24U);
  for (const Case& known : cases_) {
    EXPECT_EQ(ggml_type(known.type)->name, known.name);
    std::vector<float> values(known.values.size());
    widen_blocks(known.type, known.blocks, values);
    EXPECT_EQ(values, known.values) << known.name;
  }
}

TEST_F(GgmlBlocks, GoIntoPanelsWithoutLoss) {
  ThreadPool threads(1);
  for (const Case& known : cases_) {
    const auto inputs = static_cast<int64_t>(known.values.size());
    const PackedMatrix matrix = PackedMatrix::from_codes(
        threads, *block_quantization(known.type), 1, inputs,
        [&](int64_t, QuantizedRow& out) { read_blocks(known.type, known.blocks, out); });
    std::vector<float> values(known.values.size());
    matrix.read_row(0, values.data());
    EXPECT_EQ(values, known.values) << known.name;
  }
}

// The package does not know this type: 64 weights of two bits each, lowest first, and 0 stands for -1.
TEST(GgmlBlock, OfQ2_0CountsFromMinusOne) {
  std::vector<std::byte> block(18, std::byte{0b11100100});
  block[0] = std::byte{0x00};
  block[1] = std::byte{0x38};  // 0.5
  std::vector<float> values(64);
  widen_blocks(kGgmlQ2_0, block.data(), values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 0.5F * (static_cast<float>(i % 4) - 1));
}

TEST(GgmlBlock, OfAnyBytesIsReadIntoCodesOfItsWidth) {
  const RngStream random(3);
  for (uint32_t type = 0; type < 64; ++type) {
    const auto quantization = block_quantization(type);
    if (!quantization) continue;
    const GgmlType& layout = *ggml_type(type);
    for (uint64_t round = 0; round < 200; ++round) {
      std::vector<std::byte> block(static_cast<size_t>(layout.block_bytes));
      for (size_t i = 0; i < block.size(); ++i)
        block[i] = static_cast<std::byte>(round == 0 ? 0xff : random.bits(1000 * round + i));
      QuantizedRow row;
      row.resize(*quantization, layout.block);
      read_blocks(type, block.data(), row);
      for (const uint8_t code : row.codes) ASSERT_LT(code, 1 << quantization->bits) << layout.name;
    }
  }
}

/// A matrix of one row of blocks.
class OneRow : public StoredMatrix {
 public:
  OneRow(uint32_t type, std::vector<std::byte> blocks) : type_(type), blocks_(std::move(blocks)) {}
  void read(int64_t, float* out) const override {
    widen_blocks(type_, blocks_.data(), {out, static_cast<size_t>(ggml_type(type_)->block)});
  }
  std::optional<Quantization> quantization() const override { return block_quantization(type_); }
  void read_codes(int64_t, QuantizedRow& out) const override { read_blocks(type_, blocks_.data(), out); }

 private:
  uint32_t type_;
  std::vector<std::byte> blocks_;
};

TEST(GgmlBlock, WithScalesThatAreNotFiniteOrOverflowIsRefused) {
  ThreadPool threads(1);
  for (const uint32_t type : {kGgmlQ2_K, kGgmlIq1M, kGgmlIq3S, kGgmlTq1_0, kGgmlMxfp4}) {
    const OneRow row(type, std::vector<std::byte>(static_cast<size_t>(ggml_type(type)->block_bytes),
                                                  type == kGgmlMxfp4 ? std::byte{254} : std::byte{255}));
    const int64_t inputs = ggml_type(type)->block;
    for (const WeightFormat& format : {WeightFormat(*row.quantization()), WeightFormat(DType::kF32)})
      EXPECT_THROW(pack(threads, format, row, 0, 1, inputs), InputError) << ggml_type(type)->name;
  }
}

}  // namespace
}  // namespace lacuna::ggml_blocks_test
