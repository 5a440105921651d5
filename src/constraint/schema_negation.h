// The complement of a JSON Schema, written as a schema.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "constraint/schema_reader.h"

namespace lacuna {

/// A schema of values that are not valid against `schema`: {"anyOf": [...]} with one part per keyword that a
/// value can violate, using the keywords of derived schemas (kNotPattern, ...). Sound but incomplete:
/// uniqueItems, format, and keys of patternProperties, additional and unevaluated properties have no part, so
/// that the result may allow nothing. Throws InputError if the schema is malformed.
nlohmann::ordered_json negation(const SchemaReader& schema);

/// A reader of negation(schema).
SchemaReader negated(const SchemaReader& schema);

}  // namespace lacuna
