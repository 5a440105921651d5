// Limits of JSON Schemas, and how they are compiled.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace lacuna
