// Reads a JSON Schema keyword by keyword, with errors that name the path.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// Kinds of JSON values as bits. A number without a fraction is an integer, however it is written.
using JsonTypes = unsigned;
inline constexpr JsonTypes kTypeNull = 1, kTypeBoolean = 2, kTypeInteger = 4, kTypeFraction = 8,
                           kTypeString = 16, kTypeArray = 32, kTypeObject = 64, kAllTypes = 127;
JsonTypes json_type(const nlohmann::ordered_json& value);

/// A text that equal values share, and no others.
std::string canonical_json(const nlohmann::ordered_json& value);

/// A schema within a document. The document must outlive it.
class SchemaReader {
 public:
  /// `name` begins messages: the flag or field that holds the document.
  SchemaReader(const nlohmann::ordered_json& document, const std::string& name)
      : document_(&document), name_(&name), value_(&document), path_("#") {}

  const nlohmann::ordered_json& value() const { return *value_; }
  const std::string& path() const { return path_; }

  /// The value of a keyword; null if it is absent.
  const nlohmann::ordered_json* find(std::string_view keyword) const;
  bool has(std::string_view keyword) const { return find(keyword) != nullptr; }

  /// Throws InputError if this is neither an object nor a boolean, or has a keyword that narrows and is not
  /// supported.
  void check() const;

  /// Readers of keywords; none if absent. They throw InputError where the value has another form.
  std::optional<int64_t> count(std::string_view keyword) const;  ///< at least 0; larger ones are 2^31
  std::optional<std::string> text(std::string_view keyword) const;
  std::vector<std::string> texts(std::string_view keyword) const;  ///< empty if absent
  std::optional<SchemaReader> schema(std::string_view keyword) const;
  std::vector<SchemaReader> schemas(std::string_view keyword) const;  ///< of a list; empty if absent
  std::vector<std::pair<std::string, SchemaReader>> named_schemas(
      std::string_view keyword) const;                                   ///< of an object
  bool is_true(std::string_view keyword) const;                          ///< false if absent
  const nlohmann::ordered_json* number(std::string_view keyword) const;  ///< null if absent

  /// Types that "type" allows; none if it is absent.
  std::optional<JsonTypes> types() const;
  /// Types about which some keyword says something.
  JsonTypes described_types() const;
  /// Values that "enum" and "const" allow; none if both are absent.
  std::optional<std::vector<const nlohmann::ordered_json*>> values() const;

  /// The schema that "$ref" points to.
  std::optional<SchemaReader> reference() const;

  /// Throws InputError that names the keyword's path.
  [[noreturn]] void refuse(std::string_view keyword, std::string_view expected) const;
  [[noreturn]] void refuse_unsupported(std::string_view keyword, std::string_view instead = "") const;

 private:
  SchemaReader at(const nlohmann::ordered_json& value, const std::string& path) const;
  std::string path_of(std::string_view keyword) const;

  const nlohmann::ordered_json* document_;
  const std::string* name_;
  const nlohmann::ordered_json* value_;
  std::string path_;
};

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
