// Values as text: str(), repr(), JSON, the % operator and str.format().
#pragma once

#include <string>

#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

/// Python's str() of a float: the shortest digits that give the same number.
std::string format_real(double value);
/// A character as a Python escape by its number: \x0a, \u2028 or \U0001f600.
std::string escape_of(char32_t character);

/// Python's str(): a text is unchanged, but no longer markup.
Value to_text(Runtime& runtime, const Value& value);
/// to_text(), but markup stays markup (markupsafe's soft_str).
Value to_soft_text(Runtime& runtime, const Value& value);
/// Python's repr(). The whole text counts as the caller's if any part does.
Text repr(Runtime& runtime, const Value& value);

struct JsonStyle {
  bool is_ascii = false;    ///< ensure_ascii
  bool sorts_keys = false;  ///< sort_keys
  bool has_indent = false;  ///< one line per item, each after `indent` for each level
  std::string indent = {};
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
/// Python's json.dumps(). Throws RenderError for values without a JSON form.
Text to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

/// `text % values`: one value, a tuple of values, or a dictionary for %(name)s.
Value percent_format(Runtime& runtime, const Text& text, const Value& values);
/// str.format(), with attributes and items of values.
Value brace_format(Runtime& runtime, const Text& text, const Arguments& arguments);

}  // namespace lacuna::jinja
