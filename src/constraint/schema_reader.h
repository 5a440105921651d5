// Reads a JSON Schema keyword by keyword, with errors that name the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lacuna {

/// Thrown where a schema means something that is not supported; an InputError.
class UnsupportedSchema : public InputError {
 public:
  using InputError::InputError;
};

/// Keywords that only derived schemas have (negated()). All of them narrow.
inline constexpr std::string_view kNotListed = "\1notEnum";            ///< values that are not allowed
inline constexpr std::string_view kNotPattern = "\1notPattern";        ///< matches nowhere in the string
inline constexpr std::string_view kNotMultipleOf = "\1notMultipleOf";  ///< an integer above 0
inline constexpr std::string_view kNotReference = "\1notRef";    ///< "$ref" to a schema that must not hold
inline constexpr std::string_view kFractionType = "\1fraction";  ///< a type: numbers that are no integers

/// Kinds of JSON values as bits. A number without a fraction is an integer, however it is written.
using JsonTypes = unsigned;
inline constexpr JsonTypes kTypeNull = 1, kTypeBoolean = 2, kTypeInteger = 4, kTypeFraction = 8,
                           kTypeString = 16, kTypeArray = 32, kTypeObject = 64, kAllTypes = 127;
JsonTypes json_type(const nlohmann::ordered_json& value);

/// A text that equal values share, and no others.
std::string canonical_json(const nlohmann::ordered_json& value);

/// Values that "enum" and "const" allow, in their order.
struct ListedValues {
  std::vector<const nlohmann::ordered_json*> values;
  std::vector<std::string> canonical;  ///< canonical_json() of each
};

/// A list of texts, and its members.
struct TextList {
  std::vector<std::string_view> texts;
  std::unordered_set<std::string_view> members;
};

/// A schema within a document. What has been found out about a place of the document is kept and shared by
/// all readers that came from one, so that visiting a schema again costs little. Charges the thread's Budget.
class SchemaReader {
 public:
  /// `name` begins messages: the flag or field that holds the document. Both must outlive all readers.
  SchemaReader(const nlohmann::ordered_json& document, const std::string& name);

  const nlohmann::ordered_json& value() const { return *value_; }
  /// A JSON pointer. Put together when it is asked for.
  std::string path() const;

  /// The value of a keyword; null if it is absent, or null: generators write keywords that way that they do
  /// not set. Null is a value of "const" alone.
  const nlohmann::ordered_json* find(std::string_view keyword) const;
  bool has(std::string_view keyword) const { return find(keyword) != nullptr; }

  /// Throws InputError if this is neither an object nor a boolean, or has a keyword that narrows and is not
  /// supported.
  void check() const;

  /// Readers of keywords; none if absent. They throw InputError where the value has another form.
  std::optional<int64_t> count(std::string_view keyword) const;  ///< at least 0; larger ones are 2^31
  std::optional<std::string> text(std::string_view keyword) const;
  const TextList& texts(std::string_view keyword) const;  ///< empty if absent
  std::optional<SchemaReader> schema(std::string_view keyword) const;
  std::vector<SchemaReader> schemas(std::string_view keyword) const;  ///< of a list; empty if absent
  std::vector<std::pair<std::string_view, SchemaReader>> named_schemas(
      std::string_view keyword) const;  ///< of an object
  /// The member `key` of an object of schemas; none if either is absent.
  std::optional<SchemaReader> named_schema(std::string_view keyword, std::string_view key) const;
  bool is_true(std::string_view keyword) const;                          ///< false if absent
  const nlohmann::ordered_json* number(std::string_view keyword) const;  ///< null if absent

  /// Types that "type" allows, in any case ("OBJECT"), and null where OpenAPI's "nullable" is true; none if
  /// it is absent.
  std::optional<JsonTypes> types() const;
  /// Types about which some keyword says something.
  JsonTypes described_types() const;
  /// Values that "enum" and "const" allow; null if both are absent.
  const ListedValues* values() const;

  /// The schema that "$ref" points to, or another keyword like it.
  std::optional<SchemaReader> reference(std::string_view keyword = "$ref") const;

  /// A schema that stands at the place of this one. Each `key` is made once.
  template <typename Make>
  SchemaReader derived(const std::string& key, Make&& make) const;
  /// The same of a schema that does not hold where this one does, so that it evaluates nothing there.
  template <typename Make>
  SchemaReader derived_apart(const std::string& key, Make&& make) const;
  /// Whether this schema is reached from `other` by keywords that speak of the same value, so that what it
  /// says about items and properties counts as evaluated there.
  bool is_within(const SchemaReader& other) const;

  /// Throws InputError that names the keyword's path.
  [[noreturn]] void refuse(std::string_view keyword, std::string_view expected) const;
  [[noreturn]] void refuse_unsupported(std::string_view keyword, std::string_view instead = "") const;

 private:
  struct Memory;
  struct Place;
  friend struct SchemaOutliner;

  SchemaReader(std::shared_ptr<Memory> memory, const nlohmann::ordered_json& value,
               std::shared_ptr<const Place> place)
      : memory_(std::move(memory)), value_(&value), place_(std::move(place)) {}
  /// The schema that `value` is, below a keyword: itself, its member `key` or its item `index`.
  SchemaReader at(const nlohmann::ordered_json& value, Place place) const;
  std::string path_of(std::string_view keyword) const;
  /// The value to which a JSON pointer leads.
  const nlohmann::ordered_json* resolve(std::string_view keyword, std::string_view target) const;
  const nlohmann::ordered_json* find_derived(const std::string& key) const;
  const nlohmann::ordered_json& keep_derived(const std::string& key, nlohmann::ordered_json made) const;
  SchemaReader at_this_place(const nlohmann::ordered_json& value) const;
  SchemaReader apart(const nlohmann::ordered_json& value) const;

  std::shared_ptr<Memory> memory_;
  const nlohmann::ordered_json* value_;
  std::shared_ptr<const Place> place_;
};

template <typename Make>
SchemaReader SchemaReader::derived(const std::string& key, Make&& make) const {
  const nlohmann::ordered_json* known = find_derived(key);
  return at_this_place(known != nullptr ? *known : keep_derived(key, make()));
}

template <typename Make>
SchemaReader SchemaReader::derived_apart(const std::string& key, Make&& make) const {
  const nlohmann::ordered_json* known = find_derived(key);
  return apart(known != nullptr ? *known : keep_derived(key, make()));
}

/// Properties that all valid values of a schema share, found without compiling it.
struct SchemaOutline {
  JsonTypes types = kAllTypes;
  std::optional<std::set<std::string>> values;  ///< allowed values in canonical form; empty: any
  std::map<std::string, std::set<std::string>>
      tags;  ///< required members of objects that have one of a few values
};
SchemaOutline outline(const SchemaReader& schema);

/// True if no value is valid against both.
bool are_disjoint(const SchemaOutline& a, const SchemaOutline& b);

}  // namespace lacuna
