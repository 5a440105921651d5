// Parses untrusted JSON within limits, and reads it key by key with actionable errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lacuna {

/// `text` in double quotes for a message: control characters escaped, long text shortened.
std::string in_quotes(std::string_view text);

/// Default limit on values: several times the largest published vocabulary and merges.
inline constexpr size_t kMaxJsonValues = size_t{1} << 22;

/// 2^53: a JSON number, read as a double, holds every integer up to this one exactly.
inline constexpr double kMaxExactInteger = 9007199254740992.0;

/// Describes a value for a message: strings in quotes, "an object", "a list of 3".
std::string shown_json(const nlohmann::json& value);

/// JSON text of a value, on one line or with `indent` spaces for each level. Incomplete UTF-8 in strings
/// becomes U+FFFD.
std::string dump_json(const nlohmann::json& value, int indent = -1);
std::string dump_json(const nlohmann::ordered_json& value, int indent = -1);

/// Parses `text`. Throws InputError naming `file` if it is not JSON, repeats a key within an object, nests
/// too deeply, or exceeds the limits on bytes or values. Takes time and memory in proportion to the text.
///   max_values  limit on values of any kind, nested ones included
nlohmann::json parse_json(std::string_view text, std::string_view file, size_t max_values = kMaxJsonValues);

/// parse_json(), but objects keep the order of their keys, and a key is looked up in linear time.
nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view file,
                                          size_t max_values = kMaxJsonValues);

template <typename T>
struct Range {
  T first, last;  ///< both inclusive
};

/// An expected value, for expect() and require().
using JsonScalar = std::variant<bool, int, std::string_view>;

/// A JSON object whose values are read by key. An absent key and a null value both count as not given. Every
/// member throws InputError naming file, key, value and what was expected. A view: the JSON value, file and
/// prefix must outlive it.
class JsonObject {
 public:
  /// `prefix` precedes keys in messages: "rope_scaling.".
  JsonObject(const nlohmann::json& object, std::string file, std::string prefix = "");

  const std::string& file() const { return file_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// The raw value, for keys that accept several types; null if not given.
  const nlohmann::json* value(std::string_view key) const { return find(key); }
  /// The key as messages name it: "rope_scaling.factor".
  std::string path(std::string_view key) const { return prefix_ + std::string(key); }
  bool is_object(std::string_view key) const;
  bool is_flag(std::string_view key) const;

  /// With a fallback the key need not be given.
  int64_t integer(std::string_view key, Range<int64_t> range, std::optional<int64_t> fallback = {}) const;
  float number(std::string_view key, Range<double> range, std::optional<float> fallback = {}) const;
  bool flag(std::string_view key, std::optional<bool> fallback = {}) const;
  std::string text(std::string_view key, std::optional<std::string> fallback = {}) const;
  JsonObject object(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key, Range<int64_t> range) const;
  std::vector<std::string> texts(std::string_view key) const;
  /// One integer or a list of them; empty if not given.
  std::vector<int64_t> one_or_more_integers(std::string_view key, Range<int64_t> range) const;
  std::vector<std::string> keys() const;
  /// Starts to record which keys are read, in this object and in nested ones. keys() reads none.
  void track_reads() { read_ = std::make_shared<std::set<std::string>>(); }
  struct Unread {
    std::string path;             ///< key with its prefix: "rope_scaling.mscale"
    const nlohmann::json* value;  ///< within this object; never null
  };
  /// The values not read since track_reads(), in this object and in nested objects that were read. Null
  /// values count as absent.
  std::vector<Unread> unread() const;
  /// Marks every key of this object and of nested objects as read.
  void read_all() const;

  /// Throws unless the key has this value or is absent.
  void expect(std::string_view key, JsonScalar value) const;
  /// Throws unless the key is given and has this value.
  void require(std::string_view key, JsonScalar value) const;
  /// expect() for a key that has one value, or a list with one value per layer.
  void expect_each(std::string_view key, JsonScalar value) const;
  void expect_absent(std::string_view key) const;

  /// Throws InputError: `key` has another value than `expected`, or is missing.
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

 private:
  const nlohmann::json* find(std::string_view key) const;
  int64_t checked_integer(const nlohmann::json& value, std::string_view key, Range<int64_t> range) const;

  const nlohmann::json* object_;
  std::string file_;
  std::string prefix_;
  std::shared_ptr<std::set<std::string>> read_;  // keys with their prefixes; null: not tracked
};

}  // namespace lacuna
