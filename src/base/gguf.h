// The GGUF container (versions 2 and 3): metadata by key, then a list of tensors, then their bytes. Every
// size, offset and type in a file is checked before it is used.
//
// Layout as in ggml-org/ggml, docs/gguf.md: little-endian; "GGUF", u32 version, u64 tensor count, u64 key
// count; keys; tensors; from the next multiple of `general.alignment` (32 where absent) the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/variant.h"

namespace lacuna {

/// Storage of a tensor's elements: blocks of `block` neighbouring elements of a row.
struct GgmlType {
  uint32_t id = 0;
  std::string_view name;
  int64_t block = 1;
  int64_t block_bytes = 0;
};

inline constexpr uint32_t kGgmlF32 = 0, kGgmlF16 = 1, kGgmlQ4_0 = 2, kGgmlQ4_1 = 3, kGgmlQ5_0 = 6,
                          kGgmlQ5_1 = 7, kGgmlQ8_0 = 8, kGgmlQ2_K = 10, kGgmlQ3_K = 11, kGgmlQ4_K = 12,
                          kGgmlQ5_K = 13, kGgmlQ6_K = 14, kGgmlIq2Xxs = 16, kGgmlIq2Xs = 17, kGgmlIq3Xxs = 18,
                          kGgmlIq1S = 19, kGgmlIq4Nl = 20, kGgmlIq3S = 21, kGgmlIq2S = 22, kGgmlIq4Xs = 23,
                          kGgmlIq1M = 29, kGgmlBf16 = 30, kGgmlTq1_0 = 34, kGgmlTq2_0 = 35, kGgmlMxfp4 = 39,
                          kGgmlNvfp4 = 40, kGgmlQ1_0 = 41, kGgmlQ2_0 = 42;

/// Returns the type's layout; null for unsupported types.
const GgmlType* ggml_type(uint32_t id);
/// The names of the supported types, in one text.
std::string ggml_type_names();
/// Describes any type for messages: its name if known, with a note if unsupported; else its number.
std::string describe_ggml_type(uint32_t id);

struct GgufTensor {
  std::string_view name;
  uint32_t type = 0;
  std::vector<int64_t> shape;        ///< outermost first (reversed in the file)
  std::span<const std::byte> bytes;  ///< row-major, exactly as long as shape and type say; empty for types
                                     ///< that ggml_type() does not know
  std::string_view file;             ///< name of the file, for messages
};

/// A metadata value: a number of any of the format's types, a string, or a list of either.
using GgufValue = Variant<int64_t, double, bool, std::string_view, std::vector<int64_t>, std::vector<double>,
                          std::vector<std::string_view>>;

/// Contents of one file, as views into it. parse() throws InputError naming `file_name`, the value found and
/// the one expected. Takes time and memory in proportion to the file's size.
struct GgufContent {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  ///< in the file's order; names are unique

  static GgufContent parse(std::span<const std::byte> file, std::string_view file_name);
};

/// A GGUF file, or all files of a split one (NAME-00001-of-0000N.gguf), opened by the name of any of them.
/// The metadata is the first file's.
class GgufFile {
 public:
  static GgufFile open(const std::filesystem::path& path);
  static bool is_gguf(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

  const std::string& name() const { return name_; }
  void release_pages() const;  ///< calls MappedFile::release_pages() of each file
  int64_t num_files() const { return static_cast<int64_t>(files_.size()); }
  const GgufTensor* find(std::string_view tensor) const;
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }

  bool has(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }
  bool holds_list(std::string_view key) const;
  std::vector<std::string_view> keys() const;  ///< ascending
  // Members throw InputError naming file, key and what was expected. With a fallback the key is optional.
  int64_t integer(std::string_view key, Range<int64_t> range, std::optional<int64_t> fallback = {}) const;
  double number(std::string_view key, std::optional<double> fallback = {}) const;
  bool flag(std::string_view key, std::optional<bool> fallback = {}) const;
  std::string_view text(std::string_view key, std::optional<std::string_view> fallback = {}) const;
  const std::vector<std::string_view>& texts(std::string_view key) const;
  const std::vector<int64_t>& integers(std::string_view key) const;
  const std::vector<double>& numbers(std::string_view key) const;
  /// Throws InputError: `key` has another value than expected, or is missing.
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

 private:
  template <typename T>
  const T* value(std::string_view key, std::string_view expected, bool may_be_absent) const;

  std::string name_;
  std::vector<MappedFile> files_;
  std::vector<std::string> file_names_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

}  // namespace lacuna
