#include "weights/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "weights/checkpoint.h"

namespace lacuna {
namespace {

// Block layouts as in ggml-org/ggml, src/ggml-common.h and src/ggml-quants.c. The `read` of a type unpacks
// one block into quantized values, scales and minimums.

constexpr size_t kSmall = 32;   // elements of a plain block
constexpr size_t kSuper = 256;  // elements of a K-quant block

float half_at(const std::byte* from) {
  f16 value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<float>(value);
}

uint32_t byte_at(const std::byte* from, size_t index) {
  return std::to_integer<uint32_t>(from[index]);
}

uint32_t word_at(const std::byte* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

struct BlockOut {
  uint8_t* codes;
  float* scales;
  float* minimums;  // null if the type has none
};

/// Element j is in the low nibble of byte j, element j + 16 in the high one.
uint32_t nibble(const std::byte* halves, size_t j) {
  return j < kSmall / 2 ? byte_at(halves, j) & 15U : byte_at(halves, j - kSmall / 2) >> 4U;
}

void read_q8_0(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  // Converts two's complement to values around 128.
  for (size_t j = 0; j < kSmall; ++j) out.codes[j] = static_cast<uint8_t>(byte_at(block + 2, j) ^ 0x80U);
}

void read_q4_0(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  for (size_t j = 0; j < kSmall; ++j) out.codes[j] = static_cast<uint8_t>(nibble(block + 2, j));
}

void read_q4_1(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  out.minimums[0] = half_at(block + 2);
  for (size_t j = 0; j < kSmall; ++j) out.codes[j] = static_cast<uint8_t>(nibble(block + 4, j));
}

/// The fifth bits of all elements are a separate word.
void read_q5_0(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  const uint32_t fifths = word_at(block + 2);
  for (size_t j = 0; j < kSmall; ++j) {
    const uint32_t code = nibble(block + 6, j) | (fifths >> j & 1U) << 4U;
    out.codes[j] = static_cast<uint8_t>(code + 128 - 16);
  }
}

void read_q5_1(const std::byte* block, const BlockOut& out) {
  out.scales[0] = half_at(block);
  out.minimums[0] = half_at(block + 2);
  const uint32_t fifths = word_at(block + 4);
  for (size_t j = 0; j < kSmall; ++j)
    out.codes[j] = static_cast<uint8_t>(nibble(block + 8, j) | (fifths >> j & 1U) << 4U);
}

/// Eight scales and minimums of six bits each, packed into twelve bytes.
void read_k_scales(const std::byte* block, const BlockOut& out) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  const std::byte* packed = block + 4;
  for (size_t i = 0; i < 8; ++i) {
    uint32_t six_scale = 0;
    uint32_t six_minimum = 0;
    if (i < 4) {
      six_scale = byte_at(packed, i) & 63U;
      six_minimum = byte_at(packed, i + 4) & 63U;
    } else {
      six_scale = (byte_at(packed, i + 4) & 15U) | byte_at(packed, i - 4) >> 6U << 4U;
      six_minimum = byte_at(packed, i + 4) >> 4U | byte_at(packed, i) >> 6U << 4U;
    }
    // Both products are exact: 11 by 6 bits.
    out.scales[i] = scale * static_cast<float>(six_scale);
    out.minimums[i] = -(minimum * static_cast<float>(six_minimum));
  }
}

/// 64 elements share 32 bytes: the first 32 have the low nibbles.
uint32_t k_nibble(const std::byte* halves, size_t element) {
  const uint32_t byte = byte_at(halves, element / 64 * 32 + element % 32);
  return element % 64 < 32 ? byte & 15U : byte >> 4U;
}

void read_q4_k(const std::byte* block, const BlockOut& out) {
  read_k_scales(block, out);
  for (size_t j = 0; j < kSuper; ++j) out.codes[j] = static_cast<uint8_t>(k_nibble(block + 16, j));
}

void read_q5_k(const std::byte* block, const BlockOut& out) {
  read_k_scales(block, out);
  for (size_t j = 0; j < kSuper; ++j) {
    const uint32_t fifth = byte_at(block + 16, j % 32) >> (j / 32) & 1U;
    out.codes[j] = static_cast<uint8_t>(k_nibble(block + 48, j) | fifth << 4U);
  }
}

void read_q6_k(const std::byte* block, const BlockOut& out) {
  const std::byte* high = block + 128;
  const std::byte* scales = block + 192;
  const float scale = half_at(block + 208);
  for (size_t i = 0; i < 16; ++i)
    out.scales[i] = scale * static_cast<float>(static_cast<int8_t>(byte_at(scales, i)));
  for (size_t j = 0; j < kSuper; ++j) {
    // In each half of 128 elements, four quarters of 32 share bytes for their two high bits, and two quarters
    // share bytes for their four low bits.
    const size_t half = j / 128;
    const size_t quarter = j % 128 / 32;
    const size_t l = j % 32;
    const uint32_t low = byte_at(block, half * 64 + quarter % 2 * 32 + l) >> (quarter / 2 * 4) & 15U;
    const uint32_t upper = byte_at(high, half * 32 + l) >> (quarter * 2) & 3U;
    out.codes[j] = static_cast<uint8_t>((low | upper << 4U) + 128 - 32);
  }
}

struct BlockType {
  uint32_t type;
  Quantisation quantisation;
  void (*read)(const std::byte* block, const BlockOut& out);
};

constexpr std::array kBlockTypes = {
    BlockType{kGgmlQ8_0, {.bits = 8, .group = 32}, read_q8_0},
    BlockType{kGgmlQ4_0, {.bits = 4, .group = 32}, read_q4_0},
    BlockType{kGgmlQ4_1, {.bits = 4, .group = 32, .has_minimum = true}, read_q4_1},
    BlockType{kGgmlQ5_0, {.bits = 8, .group = 32}, read_q5_0},
    BlockType{kGgmlQ5_1, {.bits = 8, .group = 32, .has_minimum = true}, read_q5_1},
    BlockType{kGgmlQ4_K, {.bits = 4, .group = 32, .has_minimum = true, .wide_scales = true}, read_q4_k},
    BlockType{kGgmlQ5_K, {.bits = 8, .group = 32, .has_minimum = true, .wide_scales = true}, read_q5_k},
    BlockType{kGgmlQ6_K, {.bits = 8, .group = 16, .wide_scales = true}, read_q6_k},
};

const BlockType* block_type(uint32_t type) {
  const auto* found = std::find_if(kBlockTypes.begin(), kBlockTypes.end(),
                                   [&](const BlockType& candidate) { return candidate.type == type; });
  return found == kBlockTypes.end() ? nullptr : found;
}

template <typename Stored>
void widen_plain(const std::byte* row, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, row + i * sizeof value, sizeof value);
    out[i] = static_cast<float>(value);
  }
}

int64_t row_bytes(uint32_t type, int64_t inputs) {
  return inputs / ggml_type(type)->block * ggml_type(type)->block_bytes;
}

std::string place_of(const GgufTensor& tensor) {
  return fmt::format("{}: tensor {}", tensor.file, in_quotes(tensor.name));
}

class GgufMatrix : public StoredMatrix {
 public:
  /// head_rows: rows of a head if rows are interleaved; 0 if they are in order.
  GgufMatrix(const GgufTensor& tensor, int64_t inputs, int64_t head_rows)
      : tensor_(tensor), inputs_(inputs), head_rows_(head_rows) {}

  void read(int64_t n, float* out) const override {
    widen_blocks(tensor_.type, row(n), {out, static_cast<size_t>(inputs_)});
  }
  std::optional<Quantisation> quantisation() const override { return block_quantisation(tensor_.type); }
  void read_codes(int64_t n, QuantisedRow& out) const override { read_blocks(tensor_.type, row(n), out); }
  std::string place() const override { return place_of(tensor_); }

 private:
  const std::byte* row(int64_t n) const {
    int64_t stored = n;
    if (head_rows_ > 0) {
      const int64_t r = n % head_rows_;
      const int64_t half = head_rows_ / 2;
      stored = n - r + 2 * (r % half) + r / half;
    }
    return tensor_.bytes.data() + stored * row_bytes(tensor_.type, inputs_);
  }

  const GgufTensor& tensor_;
  int64_t inputs_;
  int64_t head_rows_;
};

}  // namespace

std::optional<Quantisation> block_quantisation(uint32_t type) {
  const BlockType* found = block_type(type);
  if (found == nullptr) return {};
  return found->quantisation;
}

void read_blocks(uint32_t type, const std::byte* row, QuantisedRow& out) {
  const BlockType* found = block_type(type);
  expects(found != nullptr, "read_blocks: the type is quantised");
  const auto block = static_cast<size_t>(ggml_type(type)->block);
  const auto bytes = static_cast<size_t>(ggml_type(type)->block_bytes);
  const size_t groups = block / static_cast<size_t>(found->quantisation.group);
  for (size_t b = 0; b < out.codes.size() / block; ++b) {
    float* minimums = out.minimums.empty() ? nullptr : out.minimums.data() + b * groups;
    found->read(row + b * bytes, {out.codes.data() + b * block, out.scales.data() + b * groups, minimums});
  }
}

void widen_blocks(uint32_t type, const std::byte* row, std::span<float> out) {
  if (type == kGgmlF32) return widen_plain<float>(row, out);
  if (type == kGgmlF16) return widen_plain<f16>(row, out);
  if (type == kGgmlBf16) return widen_plain<bf16>(row, out);
  const std::optional<Quantisation> quantisation = block_quantisation(type);
  expects(quantisation.has_value(), "widen_blocks: the type is one that is computed with");
  thread_local QuantisedRow codes;
  codes.resize(*quantisation, static_cast<int64_t>(out.size()));
  read_blocks(type, row, codes);
  dequantise(*quantisation, codes, out);
}

const GgufTensor& GgufWeights::tensor(std::string_view name, std::span<const int64_t> shape) const {
  const GgufTensor* found = file_.find(name);
  if (found == nullptr) {
    throw InputError("{}: tensor {} is missing; expected shape {}", file_.name(), in_quotes(name),
                     shown(shape));
  }
  if (ggml_type(found->type) == nullptr) {
    throw InputError(
        "{}: tensor {} has type {}; expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or "
        "Q6_K",
        found->file, in_quotes(name), found->type);
  }
  // Matrices may be stacked: all dimensions but the innermost count as rows.
  std::vector<int64_t> folded = found->shape;
  while (shape.size() == 2 && folded.size() > 2) {
    folded[1] *= folded[0];
    folded.erase(folded.begin());
  }
  if (!std::equal(shape.begin(), shape.end(), folded.begin(), folded.end())) {
    throw InputError("{}: tensor {} has shape {}; expected {}", found->file, in_quotes(name),
                     shown(found->shape), shown(shape));
  }
  return *found;
}

std::vector<float> GgufWeights::values(std::string_view name, std::span<const int64_t> shape) const {
  const GgufTensor& stored = tensor(name, shape);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<float> values(static_cast<size_t>(count));
  widen_blocks(stored.type, stored.bytes.data(), values);
  expect_finite(values, place_of(stored));
  return values;
}

std::unique_ptr<StoredMatrix> GgufWeights::matrix(std::string_view module, int64_t outputs,
                                                  int64_t inputs) const {
  const std::string name = std::string(module) + ".weight";
  const GgufTensor& stored = tensor(name, std::array{outputs, inputs});
  const auto heads = interleaved_.find(module);
  int64_t head_rows = 0;
  if (heads != interleaved_.end()) {
    head_rows = outputs / heads->second;
    expects(outputs % heads->second == 0 && head_rows % 2 == 0, "GgufWeights: heads have even widths");
  }
  return std::make_unique<GgufMatrix>(stored, inputs, head_rows);
}

}  // namespace lacuna
