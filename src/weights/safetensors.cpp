#include "weights/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace lacuna {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // same limit as the reference implementation
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxNameBytes = 1024;

struct StoredType {
  std::string_view name;
  int64_t bits;
  std::optional<DType> dtype;
};

constexpr std::array kStoredTypes = {
    StoredType{"F32", 32, DType::kF32},
    StoredType{"F16", 16, DType::kF16},
    StoredType{"BF16", 16, DType::kBF16},
    StoredType{"F64", 64, {}},
    StoredType{"I64", 64, {}},
    StoredType{"U64", 64, {}},
    StoredType{"I32", 32, {}},
    StoredType{"U32", 32, {}},
    StoredType{"I16", 16, {}},
    StoredType{"U16", 16, {}},
    StoredType{"I8", 8, {}},
    StoredType{"U8", 8, {}},
    StoredType{"BOOL", 8, {}},
    StoredType{"F8_E4M3", 8, {}},
    StoredType{"F8_E5M2", 8, {}},
    StoredType{"F8_E8M0", 8, {}},
    StoredType{"C64", 64, {}},
    StoredType{"F6_E2M3", 6, {}},
    StoredType{"F6_E3M2", 6, {}},
    StoredType{"F4", 4, {}},
};

/// A tensor as described by the header: bytes [begin, end) of the data after the header.
struct Claim {
  SafetensorsEntry entry;
  int64_t begin = 0;
  int64_t end = 0;
};

/// Bytes of a tensor; empty if the size is no whole number of bytes or overflows.
std::optional<int64_t> stored_bytes(std::span<const int64_t> shape, int64_t bits) {
  int64_t total_bits = bits;
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(total_bits, dim, &total_bits)) return {};
  }
  if (total_bits % 8 != 0) return {};
  return total_bits / 8;
}

Claim read_claim(const JsonObject& header, const std::string& name, int64_t data_bytes) {
  const JsonObject json = header.object(name);
  Claim claim;
  SafetensorsEntry& entry = claim.entry;
  entry.name = name;
  entry.dtype_name = json.text("dtype");
  const auto* type = std::ranges::find(kStoredTypes, entry.dtype_name, &StoredType::name);
  if (type == kStoredTypes.end())
    json.refuse("dtype", "a type that the safetensors format defines, such as BF16");
  entry.dtype = type->dtype;

  entry.shape = json.integers("shape", {0, INT64_MAX});
  if (entry.shape.size() > kMaxRank) json.refuse("shape", fmt::format("at most {} dimensions", kMaxRank));

  const std::vector<int64_t> offsets = json.integers("data_offsets", {0, INT64_MAX});
  if (offsets.size() != 2) json.refuse("data_offsets", "a list of 2: begin and end");
  claim.begin = offsets[0];
  claim.end = offsets[1];
  const auto describe = [&] { return fmt::format("{}: tensor {}", header.file(), in_quotes(name)); };
  if (claim.begin > claim.end) {
    throw InputError("{} begins at byte {} and ends before that, at byte {}", describe(), claim.begin,
                     claim.end);
  }
  if (claim.end > data_bytes) {
    throw InputError(
        "{} ends at byte {} of the data, but the file holds {} bytes of data; expected a complete file",
        describe(), claim.end, data_bytes);
  }
  const std::optional<int64_t> expected = stored_bytes(entry.shape, type->bits);
  if (expected != claim.end - claim.begin) {
    throw InputError("{} has {} bytes; expected {} for {} {}", describe(), claim.end - claim.begin,
                     expected ? std::to_string(*expected) : "a number that fits a file", entry.dtype_name,
                     fmt::format("[{}]", fmt::join(entry.shape, ", ")));
  }
  return claim;
}

/// The JSON text between the length and the data.
std::string_view header_text(std::span<const std::byte> file, std::string_view file_name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    throw InputError("{}: is a Git LFS pointer; expected the weights that it stands for (git lfs pull)",
                     file_name);
  }
  constexpr size_t kLengthBytes = 8;
  if (file.size() < kLengthBytes) {
    throw InputError(
        "{}: has {} bytes; expected a safetensors file, which starts with {} bytes of header length",
        file_name, file.size(), kLengthBytes);
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  if (length > kMaxHeaderBytes) {
    throw InputError(
        "{}: claims a header of {} bytes; expected a safetensors file, whose header has at most {}",
        file_name, length, kMaxHeaderBytes);
  }
  if (length > file.size() - kLengthBytes) {
    throw InputError("{}: claims a header of {} bytes, but only {} follow; expected a complete file",
                     file_name, length, file.size() - kLengthBytes);
  }
  return text.substr(kLengthBytes, length);
}

/// Checks that the claims, sorted by their bytes, cover the data without gaps or overlaps.
void check_tiling(std::span<const Claim> claims, int64_t data_bytes, std::string_view file_name) {
  int64_t covered = 0;
  std::string last = "the header";
  for (const Claim& claim : claims) {
    if (claim.begin != covered) {
      throw InputError("{}: tensor {} begins at byte {} of the data and so {} {}; expected byte {}",
                       file_name, in_quotes(claim.entry.name), claim.begin,
                       claim.begin < covered ? "overlaps" : "leaves a hole after", last, covered);
    }
    covered = claim.end;
    last = in_quotes(claim.entry.name);
  }
  if (covered != data_bytes) {
    throw InputError("{}: holds {} bytes of data; expected {}, where the last tensor ends", file_name,
                     data_bytes, covered);
  }
}

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors(std::span<const std::byte> file, std::string_view file_name) {
  const std::string_view text = header_text(file, file_name);
  const std::span<const std::byte> data = file.subspan(sizeof(uint64_t) + text.size());
  const auto data_bytes = static_cast<int64_t>(data.size());
  const nlohmann::json parsed = parse_json(text, file_name);
  const JsonObject header(parsed, std::string(file_name));

  std::vector<Claim> claims;
  for (const std::string& name : header.keys()) {
    if (name == "__metadata__") continue;
    if (name.size() > kMaxNameBytes) {
      throw InputError("{}: tensor {} has a name of {} bytes; expected at most {}", file_name,
                       in_quotes(name), name.size(), kMaxNameBytes);
    }
    claims.push_back(read_claim(header, name, data_bytes));
  }
  std::sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_tiling(claims, data_bytes, file_name);

  std::vector<SafetensorsEntry> entries;
  entries.reserve(claims.size());
  for (Claim& claim : claims) {
    claim.entry.bytes =
        data.subspan(static_cast<size_t>(claim.begin), static_cast<size_t>(claim.end - claim.begin));
    entries.push_back(std::move(claim.entry));
  }
  return entries;
}

}  // namespace lacuna
