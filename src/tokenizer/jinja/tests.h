// The tests of templates: the operators after `is`.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

bool has_test(std::string_view name);
std::string test_names();  ///< separated by commas

/// `value is name(arguments)`. Throws RenderError for an unknown test.
bool apply_test(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace lacuna::jinja
