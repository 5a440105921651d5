// The functions that every template has: range, dict, namespace, cycler, joiner, raise_exception,
// strftime_now.
#pragma once

#include <optional>
#include <string_view>

#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

/// The function with this name.
std::optional<Value> find_function(std::string_view name);

}  // namespace lacuna::jinja
