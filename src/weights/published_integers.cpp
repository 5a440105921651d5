// Published formats whose codes are integers: MLX, GPTQ, AWQ, compressed-tensors, LLM.int8().
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "weights/grouped_matrix.h"
#include "weights/published_tensors.h"
#include "weights/stored_floats.h"
#include "weights/tensor_files.h"

namespace lacuna {
namespace {

constexpr int64_t kWordBytes = 4;

/// Inputs per group if `groups` equal groups (the last may be shorter) cover all inputs, else 0.
int64_t group_length(int64_t inputs, int64_t groups) {
  if (groups < 1 || groups > inputs) return 0;
  const int64_t length = divided_up(inputs, groups);
  return divided_up(inputs, length) == groups ? length : 0;
}

/// Scales in a matrix [outputs, groups], or [groups, outputs] if `are_transposed`.
struct ScaleGrid {
  StoredFloats values;
  int64_t outputs, groups;
  bool are_transposed = false;

  void read(int64_t n, std::span<float> out) const {
    for (int64_t g = 0; g < groups; ++g) {
      out[static_cast<size_t>(g)] = values[are_transposed ? g * outputs + n : n * groups + g];
    }
  }
};

void use_scales(const ScaleGrid& grid, GroupedIntegers& integers) {
  integers.place = grid.values.place();
  integers.are_f16 = grid.values.type() == FloatType::kF16;
  integers.are_products_exact = grid.values.is_short();
  integers.num_groups = grid.groups;
  integers.read_groups = [grid](int64_t n, std::span<float> scales, std::span<float> /*offsets*/) {
    grid.read(n, scales);
  };
}

/// [inputs] group numbers from a tensor; empty without the tensor or if groups are consecutive inputs. Throws
/// InputError if a number is out of range.
std::vector<int32_t> read_group_numbers(const PublishedModule& module, std::string_view suffix,
                                        int64_t groups, int64_t group) {
  if (!module.holds(suffix)) return {};
  const RawTensor raw = module.raw(suffix);
  const size_t width = raw.type == "I32" ? 4 : raw.type == "I64" ? 8 : 0;
  if (width == 0 || raw.shape != std::vector<int64_t>{module.inputs})
    module.refuse(suffix, fmt::format("I32 of shape [{}]", module.inputs));
  std::vector<int32_t> numbers(static_cast<size_t>(module.inputs));
  bool are_in_order = true;
  bool are_unset = true;  // all -1, as some libraries write for consecutive groups
  for (size_t k = 0; k < numbers.size(); ++k) {
    int64_t number = 0;
    if (width == 4) {
      std::memcpy(&numbers[k], raw.bytes.data() + 4 * k, 4);
      number = numbers[k];
    } else {
      std::memcpy(&number, raw.bytes.data() + 8 * k, 8);
    }
    are_unset = are_unset && number == -1;
    if (!are_unset && (number < 0 || number >= groups)) {
      throw InputError("{}: tensor {} holds {} at {}; expected the number of a group, below {}", raw.file,
                       in_quotes(module.tensor(suffix)), number, k, groups);
    }
    numbers[k] = static_cast<int32_t>(number);
    are_in_order = are_in_order && number == static_cast<int64_t>(k) / group;
  }
  if (are_in_order || are_unset) return {};
  return numbers;
}

/// Zero points of GPTQ and AWQ: for each group a row of words with those of all outputs.
struct ZeroRows {
  std::span<const std::byte> bytes;
  int64_t words_of_group;
  int32_t bits;
  const std::array<int64_t, 8>* order = nullptr;  // of nibbles in a word; null: ascending
  int32_t added = 0;

  int32_t at(int64_t n, int64_t g) const {
    const std::byte* const row = bytes.data() + static_cast<size_t>(g * words_of_group * kWordBytes);
    const int64_t index = order == nullptr ? n : n / 8 * 8 + (*order)[static_cast<size_t>(n % 8)];
    return packed_code(row, kWordBytes, bits, index) + added;
  }
  /// Whether all zero points are equal.
  bool are_equal(int64_t outputs, int64_t groups) const {
    const int32_t first = at(0, 0);
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t n = 0; n < outputs; ++n) {
        if (at(n, g) != first) return false;
      }
    }
    return true;
  }
};

void use_zeros(const ScaleGrid& grid, const ZeroRows& zeros, GroupedIntegers& integers) {
  use_scales(grid, integers);
  if (zeros.are_equal(grid.outputs, grid.groups)) {
    integers.zero_code = zeros.at(0, 0);
    return;
  }
  integers.offset = GroupOffset::kZeroPoints;
  integers.read_groups = [grid, zeros](int64_t n, std::span<float> scales, std::span<float> offsets) {
    grid.read(n, scales);
    for (int64_t g = 0; g < grid.groups; ++g)
      offsets[static_cast<size_t>(g)] = static_cast<float>(zeros.at(n, g));
  };
}

/// Bits per code if `codes` of them fill `words` words; 0 if none of `accepted` does.
int32_t bits_of(int64_t words, int64_t codes, std::initializer_list<int32_t> accepted) {
  for (const int32_t bits : accepted) {
    if (codes * bits == words * kCodeWordBits) return bits;
  }
  return 0;
}

/// Scales [groups, outputs] of GPTQ and AWQ.
ScaleGrid transposed_scales(const PublishedModule& module) {
  StoredFloats scales(module.files, module.tensor(".scales"));
  const int64_t groups = scales.shape().size() == 2 ? scales.shape()[0] : 0;
  if (group_length(module.inputs, groups) == 0 || scales.shape()[1] != module.outputs)
    module.refuse(".scales", fmt::format("floats of shape [groups, {}]", module.outputs));
  return {std::move(scales), module.outputs, groups, true};
}

RawTensor zero_words(const PublishedModule& module, int64_t groups, int32_t bits) {
  const RawTensor zeros = module.raw(".qzeros");
  const std::vector<int64_t> expected = {groups, module.outputs * bits / kCodeWordBits};
  if (zeros.type != "I32" || zeros.shape != expected || module.outputs * bits % kCodeWordBits != 0)
    module.refuse(".qzeros", fmt::format("I32 of shape {}", shown(expected)));
  return zeros;
}

/// Scales of compressed-tensors: [outputs, groups], [outputs], or one for the matrix.
ScaleGrid compressed_scales(const PublishedModule& module) {
  constexpr std::string_view kTensor = ".weight_scale";
  StoredFloats scales(module.files, module.tensor(kTensor));
  const std::vector<int64_t>& shape = scales.shape();
  const bool is_grid = (shape.size() == 2 || shape.size() == 3) &&
                       group_length(module.inputs, shape.back()) != 0 &&
                       scales.size() == module.outputs * shape.back();
  const int64_t groups = is_grid ? shape.back() : 1;
  const bool is_column = shape == std::vector<int64_t>{module.outputs};
  if (!is_grid && !is_column && scales.size() != 1)
    module.refuse(kTensor, fmt::format("floats of shape [{}, groups]", module.outputs));
  return {std::move(scales), module.outputs, groups};
}

/// Checks the shape that compressed-tensors may store next to packed codes.
void check_shape(const PublishedModule& module) {
  constexpr std::string_view kTensor = ".weight_shape";
  if (!module.holds(kTensor)) return;
  const RawTensor raw = module.raw(kTensor);
  std::array<int64_t, 2> sizes{};
  if (raw.type == "I64" && raw.bytes.size() == 16) {
    std::memcpy(sizes.data(), raw.bytes.data(), 16);
  } else if (raw.type == "I32" && raw.bytes.size() == 8) {
    std::array<int32_t, 2> narrow{};
    std::memcpy(narrow.data(), raw.bytes.data(), 8);
    sizes = {narrow[0], narrow[1]};
  }
  if (sizes != std::array{module.outputs, module.inputs}) {
    throw InputError("{}: tensor {} holds {}; expected {} and {}", raw.file,
                     in_quotes(module.tensor(kTensor)), shown(sizes), module.outputs, module.inputs);
  }
}

/// Uses the grid's scales; a single scale applies to every output.
void use_compressed_scales(const ScaleGrid& grid, GroupedIntegers& integers) {
  use_scales(grid, integers);
  if (grid.values.size() != 1 || grid.outputs == 1) return;
  integers.read_groups = [grid](int64_t /*n*/, std::span<float> scales, std::span<float> /*offsets*/) {
    scales[0] = grid.values[0];
  };
}

/// Reader for rows of signed bytes, offset by 128 to unsigned codes.
auto read_signed_bytes(const RawTensor& codes) {
  return [bytes = codes.bytes](int64_t n, std::span<uint8_t> out) {
    const std::byte* const row = bytes.data() + static_cast<size_t>(n) * out.size();
    for (size_t k = 0; k < out.size(); ++k) out[k] = std::to_integer<uint8_t>(row[k]) ^ 0x80U;
  };
}

/// Reader for packed codes; the first word of output n is at n * `output_bytes`.
auto read_packed(const RawTensor& words, int64_t output_bytes, int64_t distance_bytes, int32_t bits) {
  return [bytes = words.bytes, output_bytes, distance_bytes, bits](int64_t n, std::span<uint8_t> codes) {
    unpack_codes(bytes.data() + n * output_bytes, distance_bytes, bits, codes);
  };
}

}  // namespace

std::unique_ptr<StoredMatrix> open_mlx(const PublishedModule& module) {
  const RawTensor words = module.raw(".weight");
  const int64_t columns = module.columns_of(words);
  const int32_t bits = bits_of(columns, module.inputs, {2, 3, 4, 5, 6, 8});
  if (bits == 0) {
    module.refuse(".weight", fmt::format("U32 of shape [{}, {} * bits / 32] with 2, 3, 4, 5, 6 or 8 bits",
                                         module.outputs, module.inputs));
  }
  const auto grid_of = [&](std::string_view suffix, int64_t groups) {
    StoredFloats values(module.files, module.tensor(suffix));
    std::vector<int64_t> expected = words.shape;
    expected.back() = groups;
    values.expect_shape({expected});
    return ScaleGrid{std::move(values), module.outputs, groups};
  };
  const RawTensor scales = module.raw(".scales");
  const int64_t groups = scales.shape.empty() ? 0 : scales.shape.back();
  if (groups < 1 || module.inputs % groups != 0)
    module.refuse(".scales", fmt::format("floats of shape [{}, groups]", module.outputs));
  const ScaleGrid grid = grid_of(".scales", groups);
  const ScaleGrid biases = grid_of(".biases", groups);
  module.expect_sizes(".weight", bits, module.inputs / groups);
  GroupedIntegers integers{.inputs = module.inputs,
                           .bits = bits,
                           .group = module.inputs / groups,
                           .offset = GroupOffset::kBiases,
                           .read_codes = read_packed(words, columns * kWordBytes, kWordBytes, bits)};
  use_scales(grid, integers);
  integers.are_f16 = integers.are_f16 && biases.values.type() == FloatType::kF16;
  integers.read_groups = [grid, biases](int64_t n, std::span<float> out, std::span<float> offsets) {
    grid.read(n, out);
    biases.read(n, offsets);
  };
  return grouped_matrix(std::move(integers));
}

std::unique_ptr<StoredMatrix> open_gptq(const PublishedModule& module) {
  const RawTensor words = module.raw(".qweight");
  const bool is_matrix = words.shape.size() == 2 && words.shape[1] == module.outputs && words.type == "I32";
  const int32_t bits = is_matrix ? bits_of(words.shape[0], module.inputs, {2, 3, 4, 8}) : 0;
  if (bits == 0) {
    module.refuse(".qweight", fmt::format("I32 of shape [{} * bits / 32, {}] with 2, 3, 4 or 8 bits",
                                          module.inputs, module.outputs));
  }
  const ScaleGrid grid = transposed_scales(module);
  const RawTensor zeros = zero_words(module, grid.groups, bits);
  const int64_t group = group_length(module.inputs, grid.groups);
  module.expect_sizes(".qweight", bits, group);
  GroupedIntegers integers{.inputs = module.inputs,
                           .bits = bits,
                           .group = group,
                           .group_of = read_group_numbers(module, ".g_idx", grid.groups, group),
                           .read_codes = read_packed(words, kWordBytes, module.outputs * kWordBytes, bits)};
  use_zeros(grid,
            {zeros.bytes, zeros.shape[1], bits, nullptr, module.quantization.stores_zeros_less_one ? 1 : 0},
            integers);
  return grouped_matrix(std::move(integers));
}

std::unique_ptr<StoredMatrix> open_awq(const PublishedModule& module) {
  // Nibble of output c of eight, counted from the lowest.
  static constexpr std::array<int64_t, 8> kOrder = {0, 4, 1, 5, 2, 6, 3, 7};
  constexpr int32_t kBits = 4;
  const RawTensor words = module.raw(".qweight");
  const std::vector<int64_t> expected = {module.inputs, module.outputs / 8};
  if (words.type != "I32" || words.shape != expected || module.outputs % 8 != 0)
    module.refuse(".qweight", fmt::format("I32 of shape {}", shown(expected)));
  const ScaleGrid grid = transposed_scales(module);
  const RawTensor zeros = zero_words(module, grid.groups, kBits);
  const int64_t group = group_length(module.inputs, grid.groups);
  module.expect_sizes(".qweight", kBits, group);
  GroupedIntegers integers{.inputs = module.inputs, .bits = kBits, .group = group};
  use_zeros(grid, {zeros.bytes, zeros.shape[1], kBits, &kOrder}, integers);
  integers.read_codes = [bytes = words.bytes, row_bytes = expected[1] * kWordBytes](
                            int64_t n, std::span<uint8_t> codes) {
    const int64_t nibble = kOrder[static_cast<size_t>(n % 8)];
    const std::byte* byte = bytes.data() + n / 8 * kWordBytes + nibble / 2;
    for (uint8_t& code : codes) {
      code = static_cast<uint8_t>(std::to_integer<uint32_t>(*byte) >> (4 * (nibble % 2)) & 15U);
      byte += row_bytes;
    }
  };
  return grouped_matrix(std::move(integers));
}

std::unique_ptr<StoredMatrix> open_compressed_int8(const PublishedModule& module) {
  const RawTensor codes = module.raw(".weight");
  if (module.columns_of(codes) != module.inputs)
    module.refuse(".weight", fmt::format("I8 of shape [{}, {}]", module.outputs, module.inputs));
  const ScaleGrid grid = compressed_scales(module);
  GroupedIntegers integers{.inputs = module.inputs,
                           .bits = 8,
                           .group = group_length(module.inputs, grid.groups),
                           .zero_code = 128,
                           .read_codes = read_signed_bytes(codes)};
  use_compressed_scales(grid, integers);
  if (!module.holds(".weight_zero_point")) return grouped_matrix(std::move(integers));
  const RawTensor zeros = module.raw(".weight_zero_point");
  const bool has_all = std::ssize(zeros.bytes) == module.outputs * grid.groups;
  if (zeros.type != "I8" || (!has_all && zeros.bytes.size() != 1))
    module.refuse(".weight_zero_point", "I8 of the shape of the scales");
  const auto zero_at = [bytes = zeros.bytes, has_all, groups = grid.groups](int64_t n, int64_t g) {
    return std::to_integer<uint32_t>(bytes[has_all ? static_cast<size_t>(n * groups + g) : 0]) ^ 0x80U;
  };
  const bool are_zero = std::ranges::all_of(zeros.bytes, [](std::byte zero) { return zero == std::byte{0}; });
  if (are_zero) return grouped_matrix(std::move(integers));
  integers.offset = GroupOffset::kZeroPoints;
  integers.read_groups = [read = integers.read_groups, zero_at](int64_t n, std::span<float> scales,
                                                                std::span<float> offsets) {
    read(n, scales, offsets);
    for (size_t g = 0; g < offsets.size(); ++g)
      offsets[g] = static_cast<float>(zero_at(n, static_cast<int64_t>(g)));
  };
  return grouped_matrix(std::move(integers));
}

std::unique_ptr<StoredMatrix> open_compressed_packed(const PublishedModule& module) {
  const RawTensor words = module.raw(".weight_packed");
  const int64_t columns = module.columns_of(words);
  int32_t bits = 0;
  for (const int32_t candidate : {2, 4, 8}) {
    if (columns == divided_up(module.inputs * candidate, kCodeWordBits)) bits = candidate;
  }
  if (bits == 0) {
    module.refuse(".weight_packed", fmt::format("I32 of shape [{}, {} * bits / 32] with 2, 4 or 8 bits",
                                                module.outputs, module.inputs));
  }
  const ScaleGrid grid = compressed_scales(module);
  const int64_t group = group_length(module.inputs, grid.groups);
  module.expect_sizes(".weight_packed", bits, group);
  check_shape(module);
  GroupedIntegers integers{.inputs = module.inputs,
                           .bits = bits,
                           .group = group,
                           .group_of = read_group_numbers(module, ".weight_g_idx", grid.groups, group),
                           .zero_code = 1 << (bits - 1),
                           .read_codes = read_packed(words, columns * kWordBytes, kWordBytes, bits)};
  use_compressed_scales(grid, integers);
  constexpr std::string_view kZeros = ".weight_zero_point";
  if (!module.holds(kZeros)) return grouped_matrix(std::move(integers));
  const RawTensor zeros = module.raw(kZeros);
  // Symmetric weights may come with zero points that are all 0, unpacked.
  const bool are_zero = std::ranges::all_of(zeros.bytes, [](std::byte zero) { return zero == std::byte{0}; });
  if (zeros.type == "I8" && are_zero) return grouped_matrix(std::move(integers));
  const std::vector<int64_t> expected = {divided_up(module.outputs * bits, kCodeWordBits), grid.groups};
  if (zeros.type != "I32" || zeros.shape != expected)
    module.refuse(kZeros, fmt::format("I32 of shape {}", shown(expected)));
  integers.offset = GroupOffset::kZeroPoints;
  integers.read_groups = [read = integers.read_groups, bytes = zeros.bytes, bits,
                          row_bytes = grid.groups * kWordBytes](int64_t n, std::span<float> scales,
                                                                std::span<float> offsets) {
    read(n, scales, offsets);
    for (size_t g = 0; g < offsets.size(); ++g) {
      const std::byte* const column = bytes.data() + g * kWordBytes;
      offsets[g] = static_cast<float>(packed_code(column, row_bytes, bits, n));
    }
  };
  return grouped_matrix(std::move(integers));
}

std::unique_ptr<StoredMatrix> open_bnb_int8(const PublishedModule& module) {
  const RawTensor codes = module.raw(".weight");
  if (codes.shape != std::vector<int64_t>{module.outputs, module.inputs})
    module.refuse(".weight", fmt::format("I8 of shape [{}, {}]", module.outputs, module.inputs));
  StoredFloats largest(module.files, module.tensor(".SCB"));
  largest.expect_shape({{module.outputs}});
  if (module.holds(".weight_format")) {
    const RawTensor format = module.raw(".weight_format");
    if (format.bytes.size() != 1 || format.bytes[0] != std::byte{0})
      module.refuse(".weight_format", "one U8 that is 0: rows of codes, as newer versions write them");
  }
  const auto read_groups = [largest](int64_t n, std::span<float> scales, std::span<float> /*offsets*/) {
    scales[0] = largest[n] / 127;
  };
  return grouped_matrix({.place = largest.place(),
                         .inputs = module.inputs,
                         .bits = 8,
                         .group = module.inputs,
                         .num_groups = 1,
                         .zero_code = 128,
                         .read_codes = read_signed_bytes(codes),
                         .read_groups = read_groups});
}

}  // namespace lacuna
