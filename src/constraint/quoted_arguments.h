// Arguments of calls as Gemma 4 writes them: keys as they are, texts between quotes and without escapes.
//
//   {days:2,exact:true,places:[<|"|>Zürich<|"|>,<|"|>Bern<|"|>]}
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "constraint/expression.h"

namespace lacuna {

inline constexpr int kQuotedNesting = 8;  ///< objects and lists within each other that a schema describes

/// Arguments for an object's schema, keys in alphabetical order as templates write them. Of a schema
/// hold "properties", "required", "type", "items" and the texts of "enum" and "const"; what else it says of a
/// value does not narrow the language. Without properties keys are letters, digits, underscores and hyphens.
/// Throws InputError for a property whose name this notation cannot have.
///   quote_text  of the quote, as text_without() takes it   quote  the same as an expression: a special
///   token, or its text place       of the schema, for errors
Expression quoted_arguments(const nlohmann::ordered_json& schema, std::string_view quote_text,
                            const Expression& quote, std::string_view place);

}  // namespace lacuna
