#include "weights/grouped_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

uint32_t load_word(const std::byte* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// Representation of the integers in the kernels' quantization.
struct Mapping {
  Quantization quantization;
  /// Whether codes are shifted so that the zero point is the middle code.
  bool is_centred = false;
};

/// Whether each run of this many inputs lies in one group.
bool has_whole_runs(const GroupedIntegers& integers, int64_t run) {
  if (integers.group_of.empty()) return integers.num_groups == 1 || integers.group % run == 0;
  for (int64_t k = 0; k < integers.inputs; ++k) {
    const auto first = static_cast<size_t>(k / run * run);
    if (integers.group_of[static_cast<size_t>(k)] != integers.group_of[first]) return false;
  }
  return true;
}

std::optional<Mapping> map_to_kernels(const GroupedIntegers& integers) {
  Mapping mapping;
  Quantization& quantization = mapping.quantization;
  quantization.bits = integers.bits <= 4 ? 4 : 8;
  if (integers.num_groups > 1) {
    const int32_t group = has_whole_runs(integers, 32) ? 32 : has_whole_runs(integers, 16) ? 16 : 0;
    if (group == 0) return {};
    quantization.group = group;
  }
  switch (integers.offset) {
    case GroupOffset::kZeroCode: {
      const int32_t shift = (1 << (quantization.bits - 1)) - integers.zero_code;
      const int32_t largest = (1 << integers.bits) - 1 + shift;
      mapping.is_centred = shift >= 0 && largest < 1 << quantization.bits;
      break;
    }
    case GroupOffset::kZeroPoints:
      if (integers.are_products_exact) break;
      // Minimums would be rounded; differences of codes are exact.
      if (integers.bits == 8) return {};
      quantization.bits = 8;
      mapping.is_centred = true;
      break;
    case GroupOffset::kBiases:
      break;
  }
  quantization.has_minimum = !mapping.is_centred;
  if (quantization.has_minimum && integers.offset == GroupOffset::kZeroCode && !integers.are_products_exact)
    return {};
  const bool has_products = quantization.has_minimum && integers.offset != GroupOffset::kBiases;
  quantization.wide_scales = quantization.group == 0 || has_products || !integers.are_f16;
  return mapping;
}

class GroupedMatrix : public StoredMatrix {
 public:
  explicit GroupedMatrix(GroupedIntegers integers)
      : integers_(std::move(integers)), mapping_(map_to_kernels(integers_)) {}

  std::string place() const override { return integers_.place; }

  std::optional<Quantization> quantization() const override {
    if (!mapping_) return {};
    return mapping_->quantization;
  }

  void read(int64_t n, float* out) const override {
    const Row& row = read_row(n);
    for (int64_t k = 0; k < integers_.inputs; ++k) {
      const auto g = static_cast<size_t>(group_of(k));
      const auto code = static_cast<float>(row.codes[static_cast<size_t>(k)]);
      out[k] = integers_.offset == GroupOffset::kBiases ? std::fma(row.scales[g], code, row.offsets[g])
                                                        : row.scales[g] * (code - row.offsets[g]);
    }
  }

  void read_codes(int64_t n, QuantizedRow& out) const override {
    expects(mapping_.has_value(), "codes are read of matrices that the kernels' quantization holds");
    const Quantization& quantization = mapping_->quantization;
    const Row& row = read_row(n);
    const auto middle = static_cast<float>(1 << (quantization.bits - 1));
    const int64_t length = quantization.group == 0 ? integers_.inputs : quantization.group;
    for (size_t run = 0; run < out.scales.size(); ++run) {
      const int64_t first = static_cast<int64_t>(run) * length;
      const auto g = static_cast<size_t>(group_of(first));
      const float offset = row.offsets[g];
      out.scales[run] = row.scales[g];
      if (quantization.has_minimum) {
        out.minimums[run] = integers_.offset == GroupOffset::kBiases ? offset : -offset * row.scales[g];
      }
      const int64_t end = std::min(first + length, integers_.inputs);
      const auto shift = mapping_->is_centred ? static_cast<int32_t>(middle - offset) : 0;
      for (auto k = static_cast<size_t>(first); k < static_cast<size_t>(end); ++k)
        out.codes[k] = static_cast<uint8_t>(row.codes[k] + shift);
    }
  }

 private:
  struct Row {
    std::vector<uint8_t> codes;
    std::vector<float> scales, offsets;
  };

  int64_t group_of(int64_t k) const {
    return integers_.group_of.empty() ? k / integers_.group : integers_.group_of[static_cast<size_t>(k)];
  }

  const Row& read_row(int64_t n) const {
    thread_local Row row;
    row.codes.resize(static_cast<size_t>(integers_.inputs));
    row.scales.resize(static_cast<size_t>(integers_.num_groups));
    row.offsets.assign(row.scales.size(), static_cast<float>(integers_.zero_code));
    integers_.read_codes(n, row.codes);
    integers_.read_groups(n, row.scales, row.offsets);
    return row;
  }

  GroupedIntegers integers_;
  std::optional<Mapping> mapping_;
};

}  // namespace

void unpack_codes(const std::byte* words, int64_t distance_bytes, int32_t bits, std::span<uint8_t> codes) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t held = 0;
  int32_t num_held = 0;
  for (uint8_t& code : codes) {
    if (num_held < bits) {
      held |= uint64_t{load_word(words)} << num_held;
      words += distance_bytes;
      num_held += kCodeWordBits;
    }
    code = static_cast<uint8_t>(held & mask);
    held >>= bits;
    num_held -= bits;
  }
}

uint8_t packed_code(const std::byte* words, int64_t distance_bytes, int32_t bits, int64_t index) {
  const int64_t first_bit = index * bits;
  const std::byte* const word = words + first_bit / kCodeWordBits * distance_bytes;
  const auto shift = static_cast<int32_t>(first_bit % kCodeWordBits);
  uint64_t held = load_word(word);
  if (shift + bits > kCodeWordBits) held |= uint64_t{load_word(word + distance_bytes)} << kCodeWordBits;
  return static_cast<uint8_t>((held >> shift) & ((uint64_t{1} << bits) - 1));
}

std::unique_ptr<StoredMatrix> grouped_matrix(GroupedIntegers integers) {
  expects(integers.bits >= 1 && integers.bits <= 8 && integers.num_groups >= 1 && integers.group >= 1,
          "grouped_matrix: codes of 1 to 8 bits in groups");
  return std::make_unique<GroupedMatrix>(std::move(integers));
}

}  // namespace lacuna
