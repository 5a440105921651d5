// Arguments of tool calls in Gemma 4's notation: unquoted keys, and strings between quote tokens, unescaped.
//
//   {days:2,exact:true,places:[<|"|>Zürich<|"|>,<|"|>Bern<|"|>]}
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "constraint/expression.h"

namespace lacuna {

inline constexpr int kQuotedNesting = 8;  ///< nesting of objects and lists that a schema describes

/// Arguments for an object's schema, keys in alphabetical order as templates write them. Honors "properties",
/// "required", "type", "items" and the scalars of "enum" and "const"; other keywords do not restrict the
/// language. Without properties, keys consist of letters, digits, underscores and hyphens. Throws InputError
/// for a property name that this notation cannot write.
///   quote_text  text of the quote, an argument of text_without()
///   quote       the quote as an expression: a special token, or its text
///   place       path of the schema, for errors
Expression quoted_arguments(const nlohmann::ordered_json& schema, std::string_view quote_text,
                            const Expression& quote, std::string_view place);

}  // namespace lacuna
