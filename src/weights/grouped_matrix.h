// Matrices of integers with a scale for each group of inputs, as published formats store them.
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

/// Bits of a word of packed integers.
inline constexpr int32_t kCodeWordBits = 32;

constexpr int64_t divided_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

/// Unpacks integers from little-endian words of 32 bits, lowest bits first. An integer may straddle words.
///   words   the first word; the next ones follow at this distance
///   codes   as many as are wanted
void unpack_codes(const std::byte* words, int64_t distance_bytes, int32_t bits, std::span<uint8_t> codes);

/// The integer with this index among those that unpack_codes() would give.
uint8_t packed_code(const std::byte* words, int64_t distance_bytes, int32_t bits, int64_t index);

/// How codes of a group become weights.
enum class GroupOffset : uint8_t {
  kZeroCode,    ///< weight = scale * (code - zero), one zero code for the matrix
  kZeroPoints,  ///< weight = scale * (code - zero), a zero code of its own for each group
  kBiases,      ///< weight = scale * code + bias
};

/// Every weight is rounded once, to f32.
struct GroupedIntegers {
  std::string place = {};  ///< file and tensor, for messages
  int64_t inputs = 0;
  int32_t bits = 0;   ///< of a code, at most 8
  int64_t group = 0;  ///< neighbouring inputs that share a scale; the last group may be shorter
  std::vector<int32_t> group_of = {};  ///< [inputs], the group of each if groups are scattered; else empty
  int64_t num_groups = 0;              ///< of an output
  GroupOffset offset = GroupOffset::kZeroCode;
  int32_t zero_code = 0;   ///< with kZeroCode
  bool are_f16 = false;    ///< whether f16 holds scales and biases exactly
  bool are_short = false;  ///< whether a scale times an integer of 9 bits is exact in f32
  /// Codes of output n.
  std::function<void(int64_t n, std::span<uint8_t> codes)> read_codes = {};
  /// Scales of the groups of output n, and their zero codes, integers up to 256, or biases; the last two
  /// are left alone with kZeroCode.
  std::function<void(int64_t n, std::span<float> scales, std::span<float> offsets)> read_groups = {};
};

/// The matrix. Its quantization() is one of the kernels' that holds exactly these weights, and empty where
/// none does: groups whose inputs are scattered, or zero codes whose product with a scale f32 would round.
std::unique_ptr<StoredMatrix> grouped_matrix(GroupedIntegers integers);

}  // namespace lacuna
