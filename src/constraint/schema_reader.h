// Reads a JSON Schema keyword by keyword, with errors that name the path.
#pragma once

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
#include "constraint/schema_keywords.h"

namespace lacuna {

/// Thrown for a valid schema with an unsupported feature; an InputError.
class UnsupportedSchema : public InputError {
 public:
  using InputError::InputError;
};

JsonTypes json_type(const nlohmann::ordered_json& value);

/// Canonical text of a value: two values have the same text exactly if they are equal.
std::string canonical_json(const nlohmann::ordered_json& value);

/// Values that "enum" and "const" allow, in their order.
struct ListedValues {
  std::vector<const nlohmann::ordered_json*> values;
  std::vector<std::string> canonical;  ///< canonical_json() of each
};

/// A list of strings, and the same strings as a set.
struct TextList {
  std::vector<std::string_view> texts;
  std::unordered_set<std::string_view> members;
};

/// A schema within a document. All readers that stem from the same root reader share a cache, so that
/// visiting a schema again is cheap. Charges the thread's Budget.
class SchemaReader {
 public:
  /// `name` begins messages: the flag or field that holds the document. Both must outlive all readers.
  SchemaReader(const nlohmann::ordered_json& document, const std::string& name);

  const nlohmann::ordered_json& value() const { return *value_; }
  /// The schema's JSON pointer, built on each call.
  std::string path() const;

  /// The value of a keyword; nullptr if it is absent or null, since generators write null for unset keywords.
  /// Only for "const" null is a value.
  const nlohmann::ordered_json* find(std::string_view keyword) const;
  bool has(std::string_view keyword) const { return find(keyword) != nullptr; }

  /// Throws InputError if this is neither an object nor a boolean, or has an unsupported keyword that
  /// restricts values.
  void check() const;

  /// Typed access to keywords; empty if absent. Throws InputError if the value has another type.
  std::optional<int64_t> count(std::string_view keyword) const;  ///< at least 0; clamped to 2^31
  std::optional<std::string> text(std::string_view keyword) const;
  const TextList& texts(std::string_view keyword) const;  ///< empty if absent
  std::optional<SchemaReader> schema(std::string_view keyword) const;
  std::vector<SchemaReader> schemas(std::string_view keyword) const;  ///< list of schemas; empty if absent
  std::vector<std::pair<std::string_view, SchemaReader>> named_schemas(
      std::string_view keyword) const;  ///< object of schemas
  /// The member `key` of an object of schemas; empty if the keyword or the member is absent.
  std::optional<SchemaReader> named_schema(std::string_view keyword, std::string_view key) const;
  bool is_true(std::string_view keyword) const;                          ///< false if absent
  const nlohmann::ordered_json* number(std::string_view keyword) const;  ///< null if absent

  /// Types that "type" allows, in any letter case ("OBJECT"), plus null if OpenAPI's "nullable" is true;
  /// empty if "type" is absent.
  std::optional<JsonTypes> types() const;
  /// Types to which at least one keyword of the schema is specific.
  JsonTypes described_types() const;
  /// Values that "enum" and "const" allow; null if both are absent.
  const ListedValues* values() const;

  /// The schema that a reference keyword points to; empty if it is absent.
  std::optional<SchemaReader> reference(std::string_view keyword = "$ref") const;

  /// A schema created by `make` that has the path of this one. Cached by `key`.
  template <typename Make>
  SchemaReader derived(const std::string& key, Make&& make) const;
  /// derived() of a schema whose result has is_within() false: a negated schema evaluates nothing.
  template <typename Make>
  SchemaReader derived_apart(const std::string& key, Make&& make) const;
  /// Whether this schema lies within `other`. If both apply to one value, the items and properties that this
  /// one describes count as evaluated in `other`.
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
  /// A reader of `value`, which is below a keyword of this schema: its value, member `key` or item `index`.
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
  std::optional<std::set<std::string>> values;        ///< allowed values in canonical form; empty: any
  std::map<std::string, std::set<std::string>> tags;  ///< required members with few allowed values
};
SchemaOutline outline(const SchemaReader& schema);

/// True if no value is valid against both.
bool are_disjoint(const SchemaOutline& a, const SchemaOutline& b);

}  // namespace lacuna
