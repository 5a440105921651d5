// Integer matrices with one scale per group of inputs, as published formats store them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weights/stored_matrix.h"

namespace lacuna {

/// Bits of a word that packs integers.
inline constexpr int32_t kCodeWordBits = 32;

constexpr int64_t divided_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

/// Unpacks integers from little-endian words of 32 bits, lowest bits first. An integer may straddle words.
///   words   the first word; the next ones follow at `distance_bytes`
///   codes   its size is the number of integers to unpack
void unpack_codes(const std::byte* words, int64_t distance_bytes, int32_t bits, std::span<uint8_t> codes);

/// The integer at `index` of the sequence that unpack_codes() unpacks.
uint8_t packed_code(const std::byte* words, int64_t distance_bytes, int32_t bits, int64_t index);

/// Formula that dequantizes the codes of a group.
enum class GroupOffset : uint8_t {
  kZeroCode,    ///< weight = scale * (code - zero), one zero point for the matrix
  kZeroPoints,  ///< weight = scale * (code - zero), one zero point per group
  kBiases,      ///< weight = scale * code + bias
};

/// Source of grouped_matrix(). Dequantized weights are rounded once, to f32.
struct GroupedIntegers {
  std::string place = {};  ///< file and tensor, for messages
  int64_t inputs = 0;
  int32_t bits = 0;   ///< bits of a code, at most 8
  int64_t group = 0;  ///< consecutive inputs that share a scale; the last group may be shorter
  std::vector<int32_t> group_of = {};  ///< [inputs] group of each input if groups are scattered; else empty
  int64_t num_groups = 0;              ///< groups of an output
  GroupOffset offset = GroupOffset::kZeroCode;
  int32_t zero_code = 0;            ///< zero point of kZeroCode
  bool are_f16 = false;             ///< whether f16 holds scales and biases exactly
  bool are_products_exact = false;  ///< whether a scale times an integer of 9 bits is exact in f32
  /// Reads the codes of output n.
  std::function<void(int64_t n, std::span<uint8_t> codes)> read_codes = {};
  /// Reads the groups of output n: scales, and as `offsets` zero points (integers up to 256) or biases. With
  /// kZeroCode, `offsets` is not written.
  std::function<void(int64_t n, std::span<float> scales, std::span<float> offsets)> read_groups = {};
};

/// Makes the matrix. Its quantization() holds exactly these weights for the kernels. It is empty if no format
/// does: for scattered groups, or if f32 would round zero point times scale.
std::unique_ptr<StoredMatrix> grouped_matrix(GroupedIntegers integers);

}  // namespace lacuna
