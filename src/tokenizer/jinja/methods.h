// Methods of texts, dictionaries, lists and tuples.
#pragma once

#include <optional>
#include <string_view>

#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

using Method = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

/// The method `name` of a value, bound to the value; empty if its type lacks the method. A method that would
/// modify the value is undefined, as in jinja2's sandbox.
std::optional<Value> find_method(Runtime& runtime, const Value& value, std::string_view name);

/// The method of str with this name, or null.
Method text_method(std::string_view name);
/// Whether markup's method `name` escapes its second argument.
bool escapes_second_argument(std::string_view name);

/// Texts of `items` with `separator` between them. Throws RenderError for items other than texts.
Value join(Runtime& runtime, const Text& separator, const Value& items);
/// `text` between `before` and `after` copies of the character `fill`.
Value pad(Runtime& runtime, const Text& text, int64_t before, int64_t after, const Text& fill);
/// str.center()
Value center(Runtime& runtime, const Text& text, int64_t width, const Text& fill);
/// The argument as a text. Throws RenderError otherwise; `what` names it.
const Text& text_of(const Value& value, std::string_view what);

}  // namespace lacuna::jinja
