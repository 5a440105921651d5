// Compiles a JSON Schema to the language of JSON texts that a model may write.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "constraint/expression.h"
#include "constraint/json_schema_options.h"

namespace lacuna {

/// JSON texts that are valid against `schema` (draft 2020-12, with the older list form of `items` and
/// `additionalItems`). Every text of the language is valid, but not every valid text is in it: keys come in
/// the order of `properties`, additional keys appear only if none is named, numbers have no exponent. Lengths
/// that the schema does not bound (of strings, of lists) are unbounded. docs/methods/structured_output.md
/// lists the keywords. Throws InputError with the keyword's path in the schema ("#/properties/a/not") if a
/// keyword that restricts values is unsupported, the schema is malformed, or no text is left;
/// AutomatonTooLarge.
Expression json_schema_expression(const nlohmann::ordered_json& schema,
                                  const JsonSchemaOptions& options = {});

/// Any object: keys and values of any kind, nested up to kJsonObjectDepth. Keys may repeat.
Expression any_json_object(JsonLayout layout = JsonLayout::kSpaced);

}  // namespace lacuna
