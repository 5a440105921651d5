// The complement of a JSON Schema, written as a schema.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "constraint/schema_reader.h"

namespace lacuna {

/// A schema of values that are not valid against `schema`: {"anyOf": [...]}, one part for each keyword that a
/// value can violate, with the keywords of derived schemas (kNotPattern, ...). Sound and not complete: what
/// cannot be said as a schema has no part (uniqueItems, format, keys of patternProperties, additional and
/// unevaluated ones), so that the result may allow nothing. Throws InputError where the schema is malformed.
nlohmann::ordered_json negation(const SchemaReader& schema);

/// A reader of negation(): a schema of the values that this one does not allow, or of fewer of them.
SchemaReader negated(const SchemaReader& schema);

}  // namespace lacuna
