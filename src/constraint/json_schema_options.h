// Limits of JSON Schemas, and how they are compiled.
#pragma once

#include <cstdint>
#include <string>

#include "constraint/json_texts.h"

namespace lacuna {

inline constexpr int kMaxSchemaNesting = 64;     ///< depth of schemas within schemas, following $ref
inline constexpr int kMaxSchemaVisits = 20'000;  ///< schema visits, $ref followed
inline constexpr int kRecursionDepth =
    4;                                ///< nested expansions of one $ref; fewer if the automaton is too large
inline constexpr int kMaxItems = 64;  ///< a larger maxItems is clamped to this
inline constexpr int kMaxTupleItems = 1'000;  ///< number of prefixItems
inline constexpr int kMaxStringLength = 500;  ///< code points; a larger maxLength is clamped to this
inline constexpr int kFreeValueDepth = 2;     ///< nesting of unconstrained values

struct JsonSchemaOptions {
  JsonLayout layout = JsonLayout::kSpaced;
  /// OpenAI's strict mode: the root is an object, every object has "additionalProperties": false and requires
  /// all of its properties; other schemas are refused.
  bool strict = false;
  std::string name = "schema";  ///< begins every message
  /// Remaining work (AutomatonLimits::work) that several schemas share; each subtracts its own. Null: the
  /// schema has its own AutomatonLimits.
  int64_t* shared_work = nullptr;
};

}  // namespace lacuna
