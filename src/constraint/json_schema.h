// JSON Schema to the language of JSON texts that a model may write.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"
#include "constraint/json_texts.h"

namespace lacuna {

inline constexpr int kMaxSchemaNesting = 64;     ///< depth of schemas within schemas, following $ref
inline constexpr int kMaxSchemaVisits = 20'000;  ///< schemas visited, $ref followed
inline constexpr int kRecursionDepth =
    4;                                ///< times that a $ref may lie within itself; fewer if that is too large
inline constexpr int kMaxItems = 64;  ///< larger maxItems are taken as this
inline constexpr int kMaxTupleItems = 1'000;  ///< schemas of single items (prefixItems)
inline constexpr int kMaxStringLength = 500;  ///< code points; larger maxLength are taken as this
inline constexpr int kFreeValueDepth = 2;     ///< nesting of a value that a schema does not constrain

struct JsonSchemaOptions {
  JsonLayout layout = JsonLayout::kSpaced;
  /// OpenAI's rules: the root is an object, every object has "additionalProperties": false and requires all
  /// of its properties; other schemas are refused.
  bool strict = false;
  std::string name = "schema";  ///< begins every message
  /// Visits of states and transitions (AutomatonLimits::work) that are left to several schemas together; each
  /// subtracts its own. Null: the schema has AutomatonLimits of its own.
  int64_t* shared_work = nullptr;
};

/// JSON texts that are valid against `schema` (draft 2020-12; `items` as a list and `additionalItems` as
/// before). Every text of the language is valid; not every valid text is in it: keys come in the order of
/// `properties`, additional ones are not written, numbers have no exponent. What the schema does not bound
/// (characters of a string, items of a list) the language does not bound either.
/// docs/methods/structured_output.md has the keywords. Throws InputError that names the path of the keyword
/// in the schema ("#/properties/a/not") where a keyword that narrows is not supported, the schema is
/// malformed, or no text is left; AutomatonTooLarge.
Expression json_schema_expression(const nlohmann::ordered_json& schema,
                                  const JsonSchemaOptions& options = {});

/// The same, compiled.
ByteAutomaton compile_json_schema(const nlohmann::ordered_json& schema,
                                  const JsonSchemaOptions& options = {});

/// Any object: keys and values of any kind, nested up to kJsonObjectDepth. Keys may repeat.
Expression any_json_object(JsonLayout layout = JsonLayout::kSpaced);

}  // namespace lacuna
