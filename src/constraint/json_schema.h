// JSON Schema to the language of JSON texts that a model may write.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"
#include "constraint/json_schema_options.h"

namespace lacuna {

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
