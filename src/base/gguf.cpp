#include "base/gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr int64_t kMaxAlignment = 1 << 20;
constexpr uint32_t kMaxDims = 4;
constexpr size_t kMaxNameBytes = 1024;
constexpr int64_t kMaxSplits = 10'000;
// Limit on the elements of all lists of a header. The largest vocabularies need less than half of it. Without
// a limit, a sparse file that takes no disk space could exhaust memory.
constexpr uint64_t kMaxListValues = uint64_t{1} << 22;

constexpr std::array kTypes = {
    GgmlType{kGgmlF32, "F32", 1, 4},           GgmlType{kGgmlF16, "F16", 1, 2},
    GgmlType{kGgmlBf16, "BF16", 1, 2},         GgmlType{kGgmlQ8_0, "Q8_0", 32, 34},
    GgmlType{kGgmlQ4_0, "Q4_0", 32, 18},       GgmlType{kGgmlQ4_1, "Q4_1", 32, 20},
    GgmlType{kGgmlQ5_0, "Q5_0", 32, 22},       GgmlType{kGgmlQ5_1, "Q5_1", 32, 24},
    GgmlType{kGgmlQ2_K, "Q2_K", 256, 84},      GgmlType{kGgmlQ3_K, "Q3_K", 256, 110},
    GgmlType{kGgmlQ4_K, "Q4_K", 256, 144},     GgmlType{kGgmlQ5_K, "Q5_K", 256, 176},
    GgmlType{kGgmlQ6_K, "Q6_K", 256, 210},     GgmlType{kGgmlIq1S, "IQ1_S", 256, 50},
    GgmlType{kGgmlIq1M, "IQ1_M", 256, 56},     GgmlType{kGgmlIq2Xxs, "IQ2_XXS", 256, 66},
    GgmlType{kGgmlIq2Xs, "IQ2_XS", 256, 74},   GgmlType{kGgmlIq2S, "IQ2_S", 256, 82},
    GgmlType{kGgmlIq3Xxs, "IQ3_XXS", 256, 98}, GgmlType{kGgmlIq3S, "IQ3_S", 256, 110},
    GgmlType{kGgmlIq4Nl, "IQ4_NL", 32, 18},    GgmlType{kGgmlIq4Xs, "IQ4_XS", 256, 136},
    GgmlType{kGgmlQ1_0, "Q1_0", 128, 18},      GgmlType{kGgmlQ2_0, "Q2_0", 64, 18},
    GgmlType{kGgmlTq1_0, "TQ1_0", 256, 54},    GgmlType{kGgmlTq2_0, "TQ2_0", 256, 66},
    GgmlType{kGgmlMxfp4, "MXFP4", 32, 17},     GgmlType{kGgmlNvfp4, "NVFP4", 64, 36},
};

/// Types that weights never have: integers, doubles, llama.cpp's temporary formats of activations, and
/// removed types.
struct OtherType {
  uint32_t id;
  std::string_view name;
};
constexpr std::array kOtherTypes = {
    OtherType{4, "Q4_2, which llama.cpp gave up"},
    OtherType{5, "Q4_3, which llama.cpp gave up"},
    OtherType{9, "Q8_1, which llama.cpp has for activations alone"},
    OtherType{15, "Q8_K, which llama.cpp has for activations alone"},
    OtherType{24, "I8"},
    OtherType{25, "I16"},
    OtherType{26, "I32"},
    OtherType{27, "I64"},
    OtherType{28, "F64"},
    OtherType{31, "Q4_0_4_4, which llama.cpp gave up"},
    OtherType{32, "Q4_0_4_8, which llama.cpp gave up"},
    OtherType{33, "Q4_0_8_8, which llama.cpp gave up"},
    OtherType{36, "IQ4_NL_4_4, which llama.cpp gave up"},
    OtherType{37, "IQ4_NL_4_8, which llama.cpp gave up"},
    OtherType{38, "IQ4_NL_8_8, which llama.cpp gave up"},
};

// Numbers of GGUF's types of values; all others are numbers and flags.
constexpr uint32_t kF32 = 6, kString = 8, kArray = 9, kF64 = 12;

/// Reads forward through a file and never past its end.
class Reader {
 public:
  Reader(std::span<const std::byte> file, std::string_view name) : file_(file), name_(name) {}

  size_t place() const { return place_; }
  size_t left() const { return file_.size() - place_; }

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }

  std::string_view text() {
    const auto length = number<uint64_t>();
    if (length > left()) ends_early();
    return {reinterpret_cast<const char*>(take(static_cast<size_t>(length))), static_cast<size_t>(length)};
  }

  /// Reads a count of elements, each of which takes at least `bytes_each` bytes.
  uint64_t count(uint64_t bytes_each, std::string_view what) {
    const auto count = number<uint64_t>();
    if (count > left() / bytes_each) {
      throw InputError("{}: claims {} {}, but only {} bytes follow; expected a complete GGUF file", name_,
                       count, what, left());
    }
    return count;
  }

  GgufValue value() {
    const auto type = number<uint32_t>();
    if (type != kArray) return scalar(type);
    const auto element = number<uint32_t>();
    if (element > kF64 || element == kArray) {
      throw InputError(
          "{}: a list holds values of type {}; expected a GGUF file with lists of numbers or texts", name_,
          element);
    }
    if (element == kString) {
      const uint64_t size = list_size(sizeof(uint64_t), "texts");
      std::vector<std::string_view> texts;
      texts.reserve(static_cast<size_t>(size));
      for (uint64_t i = 0; i < size; ++i) texts.push_back(text());
      return texts;
    }
    const uint64_t size = list_size(1, "numbers");
    if (element == kF32 || element == kF64) {
      std::vector<double> numbers;
      for (uint64_t i = 0; i < size; ++i) numbers.push_back(std::get<double>(scalar(element)));
      return numbers;
    }
    std::vector<int64_t> numbers;
    for (uint64_t i = 0; i < size; ++i) {
      const GgufValue number = scalar(element);
      const bool* flag = std::get_if<bool>(&number);
      numbers.push_back(flag != nullptr ? int64_t{*flag} : std::get<int64_t>(number));
    }
    return numbers;
  }

 private:
  uint64_t list_size(uint64_t bytes_each, std::string_view what) {
    const uint64_t size = count(bytes_each, what);
    if (size > kMaxListValues - num_list_values_) {
      throw InputError("{}: the lists of its header hold more than {} values; expected fewer", name_,
                       kMaxListValues);
    }
    num_list_values_ += size;
    return size;
  }

  /// A larger integer than int64_t holds counts as its largest value.
  template <typename T>
  GgufValue integer() {
    const T value = number<T>();
    constexpr auto kMax = std::numeric_limits<int64_t>::max();
    return std::cmp_greater(value, kMax) ? kMax : static_cast<int64_t>(value);
  }
  template <typename T>
  GgufValue real() {
    return double{number<T>()};
  }
  GgufValue flag() { return number<uint8_t>() != 0; }
  GgufValue text_value() { return text(); }

  GgufValue scalar(uint32_t type) {
    using R = Reader;
    using Read = GgufValue (R::*)();
    constexpr Read kReads[] = {&R::integer<uint8_t>,  &R::integer<int8_t>,
                               &R::integer<uint16_t>, &R::integer<int16_t>,
                               &R::integer<uint32_t>, &R::integer<int32_t>,
                               &R::real<float>,       &R::flag,
                               &R::text_value,        nullptr,
                               &R::integer<uint64_t>, &R::integer<int64_t>,
                               &R::real<double>};  // by the types' numbers
    if (type < std::size(kReads) && kReads[type] != nullptr) return (this->*kReads[type])();
    throw InputError("{}: a value has type {}; expected one of GGUF's types, 0 to 12", name_, type);
  }

  const std::byte* take(size_t count) {
    if (count > left()) ends_early();
    const std::byte* begin = file_.data() + place_;
    place_ += count;
    return begin;
  }

  [[noreturn]] void ends_early() const {
    throw InputError("{}: ends after {} bytes in the middle of its header; expected a complete GGUF file",
                     name_, file_.size());
  }

  std::span<const std::byte> file_;
  std::string_view name_;
  size_t place_ = 0;
  uint64_t num_list_values_ = 0;
};

int64_t alignment_of(const GgufContent& content, std::string_view file_name) {
  const auto found = content.metadata.find("general.alignment");
  if (found == content.metadata.end()) return 32;
  const auto* alignment = std::get_if<int64_t>(&found->second);
  const bool fits = alignment != nullptr && *alignment >= 8 && *alignment <= kMaxAlignment &&
                    (*alignment & (*alignment - 1)) == 0;
  if (!fits) {
    throw InputError("{}: general.alignment is not a power of two from 8 to {}", file_name, kMaxAlignment);
  }
  return *alignment;
}

struct Claim {
  GgufTensor tensor;
  uint64_t offset;
};

Claim read_claim(Reader& reader, std::string_view file_name) {
  Claim claim;
  GgufTensor& tensor = claim.tensor;
  tensor.file = file_name;
  tensor.name = reader.text();
  if (tensor.name.size() > kMaxNameBytes) {
    throw InputError("{}: tensor {} has a name of {} bytes; expected at most {}", file_name,
                     in_quotes(tensor.name), tensor.name.size(), kMaxNameBytes);
  }
  const auto dims = reader.number<uint32_t>();
  if (dims > kMaxDims) {
    throw InputError("{}: tensor {} has {} dimensions; expected at most {}", file_name,
                     in_quotes(tensor.name), dims, kMaxDims);
  }
  int64_t elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    const auto size = reader.number<uint64_t>();
    constexpr uint64_t kMaxElements = uint64_t{1} << 48;
    if (size == 0 || size > kMaxElements / static_cast<uint64_t>(elements)) {
      throw InputError("{}: tensor {} has a dimension of {}; expected 1 to 2^48 elements in all", file_name,
                       in_quotes(tensor.name), size);
    }
    elements *= static_cast<int64_t>(size);
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  tensor.type = reader.number<uint32_t>();
  claim.offset = reader.number<uint64_t>();
  return claim;
}

void place(Claim& claim, std::span<const std::byte> data, int64_t alignment) {
  GgufTensor& tensor = claim.tensor;
  const GgmlType* type = ggml_type(tensor.type);
  if (type == nullptr) return;
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % type->block != 0) {
    throw InputError("{}: tensor {} has rows of {} in blocks of {}; expected a multiple", tensor.file,
                     in_quotes(tensor.name), row, type->block);
  }
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  const auto bytes = static_cast<uint64_t>(elements / type->block * type->block_bytes);
  if (claim.offset % static_cast<uint64_t>(alignment) != 0 || claim.offset > data.size() ||
      bytes > data.size() - claim.offset) {
    throw InputError("{}: tensor {} claims {} bytes at {} of {}; expected a complete GGUF file", tensor.file,
                     in_quotes(tensor.name), bytes, claim.offset, data.size());
  }
  tensor.bytes = data.subspan(static_cast<size_t>(claim.offset), static_cast<size_t>(bytes));
}

/// Paths of all files of a split GGUF, from the path of one.
std::vector<std::filesystem::path> split_paths(const std::filesystem::path& path, int64_t count) {
  const std::string name = path.filename().string();
  const std::string tail = fmt::format("-of-{:05}.gguf", count);
  constexpr size_t kIndexLength = 6;  // "-00001"
  if (!name.ends_with(tail) || name.size() < tail.size() + kIndexLength) {
    throw InputError("{}: is one of {} files; expected a name that ends in -00001{}", path.string(), count,
                     tail);
  }
  const std::string stem = name.substr(0, name.size() - tail.size() - kIndexLength);
  std::vector<std::filesystem::path> paths;
  for (int64_t i = 1; i <= count; ++i) {
    paths.push_back(path.parent_path() / fmt::format("{}-{:05}{}", stem, i, tail));
  }
  return paths;
}

int64_t split_count(const GgufContent& content, const std::string& name) {
  const auto found = content.metadata.find("split.count");
  if (found == content.metadata.end()) return 1;
  const auto* count = std::get_if<int64_t>(&found->second);
  if (count == nullptr || *count < 0 || *count > kMaxSplits) {
    throw InputError("{}: split.count is not a number from 0 to {}", name, kMaxSplits);
  }
  return std::max<int64_t>(1, *count);
}

}  // namespace

const GgmlType* ggml_type(uint32_t id) {
  const auto* found = std::ranges::find(kTypes, id, &GgmlType::id);
  return found == kTypes.end() ? nullptr : found;
}

std::string ggml_type_names() {
  std::vector<std::string_view> names;
  for (const GgmlType& type : kTypes) names.push_back(type.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string describe_ggml_type(uint32_t id) {
  if (const GgmlType* type = ggml_type(id)) return std::string(type->name);
  for (const OtherType& type : kOtherTypes) {
    if (type.id == id) return std::string(type.name);
  }
  return fmt::format("{}, which has no known name", id);
}

GgufContent GgufContent::parse(std::span<const std::byte> file, std::string_view file_name) {
  constexpr std::string_view kMagic = "GGUF";
  if (file.size() < kMagic.size() || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    throw InputError("{}: does not begin with \"GGUF\"; expected a GGUF file", file_name);
  }
  Reader reader(file, file_name);
  reader.number<uint32_t>();
  const auto version = reader.number<uint32_t>();
  if (version != 2 && version != 3) {
    throw InputError("{}: is GGUF version {}; expected 2 or 3, little-endian", file_name, version);
  }
  constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;
  constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
  const uint64_t num_tensors = reader.count(kMinTensorBytes, "tensors");
  const uint64_t num_keys = reader.count(kMinKeyBytes, "keys");
  GgufContent content;
  for (uint64_t i = 0; i < num_keys; ++i) {
    const std::string_view key = reader.text();
    if (key.size() > kMaxNameBytes) {
      throw InputError("{}: key {} has {} bytes; expected at most {}", file_name,
                       in_quotes(key.substr(0, kMaxNameBytes)), key.size(), kMaxNameBytes);
    }
    const auto [entry, is_new] = content.metadata.emplace(key, reader.value());
    if (!is_new) throw InputError("{}: holds the key {} twice", file_name, in_quotes(key));
  }
  std::vector<Claim> claims;
  std::set<std::string_view> names;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    claims.push_back(read_claim(reader, file_name));
    const std::string_view name = claims.back().tensor.name;
    if (!names.insert(name).second) throw InputError("{}: holds tensor {} twice", file_name, in_quotes(name));
  }
  const int64_t alignment = alignment_of(content, file_name);
  const size_t begin = (reader.place() + static_cast<size_t>(alignment) - 1) /
                       static_cast<size_t>(alignment) * static_cast<size_t>(alignment);
  const auto data = begin < file.size() ? file.subspan(begin) : std::span<const std::byte>();
  for (Claim& claim : claims) {
    place(claim, data, alignment);
    content.tensors.push_back(std::move(claim.tensor));
  }
  return content;
}

void GgufFile::release_pages() const {
  for (const MappedFile& file : files_) file.release_pages();
}

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile result;
  result.name_ = path.string();
  std::vector<std::filesystem::path> paths = {path};
  {
    const MappedFile file = MappedFile::open(path);
    const int64_t count = split_count(GgufContent::parse(file.bytes(), result.name_), result.name_);
    if (count > 1) paths = split_paths(path, count);
  }
  for (const std::filesystem::path& part : paths) result.file_names_.push_back(part.string());
  for (size_t i = 0; i < paths.size(); ++i) {
    const MappedFile& file = result.files_.emplace_back(MappedFile::open(paths[i]));
    GgufContent content = GgufContent::parse(file.bytes(), result.file_names_[i]);
    for (GgufTensor& tensor : content.tensors) {
      const std::string name(tensor.name);
      if (!result.tensors_.emplace(name, std::move(tensor)).second) {
        throw InputError("{}: holds tensor {}, as does a file before it", result.file_names_[i],
                         in_quotes(name));
      }
    }
    if (i == 0) result.metadata_ = std::move(content.metadata);
  }
  return result;
}

const GgufTensor* GgufFile::find(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : &found->second;
}

bool GgufFile::holds_list(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found != metadata_.end() && std::holds_alternative<std::vector<int64_t>>(found->second);
}

template <typename T>
const T* GgufFile::value(std::string_view key, std::string_view expected, bool may_be_absent) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) {
    if (may_be_absent) return nullptr;
    refuse(key, expected);
  }
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) refuse(key, expected);
  return value;
}

int64_t GgufFile::integer(std::string_view key, Range<int64_t> range, std::optional<int64_t> fallback) const {
  const std::string expected = fmt::format("a whole number from {} to {}", range.first, range.last);
  const auto* held = value<int64_t>(key, expected, fallback.has_value());
  if (held == nullptr) return *fallback;
  if (*held < range.first || *held > range.last) refuse(key, expected);
  return *held;
}

double GgufFile::number(std::string_view key, std::optional<double> fallback) const {
  const auto* held = value<double>(key, "a number", fallback.has_value());
  return held == nullptr ? *fallback : *held;
}

bool GgufFile::flag(std::string_view key, std::optional<bool> fallback) const {
  const auto* held = value<bool>(key, "true or false", fallback.has_value());
  return held == nullptr ? *fallback : *held;
}

std::string_view GgufFile::text(std::string_view key, std::optional<std::string_view> fallback) const {
  const auto* held = value<std::string_view>(key, "a text", fallback.has_value());
  return held == nullptr ? *fallback : *held;
}

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : metadata_) names.push_back(name);
  return names;
}

const std::vector<std::string_view>& GgufFile::texts(std::string_view key) const {
  return *value<std::vector<std::string_view>>(key, "a list of texts", false);
}

const std::vector<int64_t>& GgufFile::integers(std::string_view key) const {
  return *value<std::vector<int64_t>>(key, "a list of integers", false);
}

const std::vector<double>& GgufFile::numbers(std::string_view key) const {
  return *value<std::vector<double>>(key, "a list of numbers", false);
}

void GgufFile::refuse(std::string_view key, std::string_view expected) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end())
    throw InputError("{}: {} is missing; expected {}", name_, in_quotes(key), expected);
  std::string held = "a list";
  if (const auto* integer = std::get_if<int64_t>(&found->second)) held = fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&found->second)) held = fmt::format("{:g}", *number);
  if (const auto* flag = std::get_if<bool>(&found->second)) held = *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string_view>(&found->second)) held = in_quotes(*text);
  throw InputError("{}: {} is {}; expected {}", name_, in_quotes(key), held, expected);
}

}  // namespace lacuna
