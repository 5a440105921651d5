// The tests of templates: what stands behind `is`.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

using Test = bool (*)(Runtime& runtime, const Value& value, const Arguments& arguments);

/// The test `name`, or null.
Test find_test(std::string_view name);
std::string test_names();  ///< with commas between them

/// `value is name(arguments)`. Throws RenderError where there is no such test.
bool apply_test(Runtime& runtime, std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace lacuna::jinja
