// Assigns one setting by its name, from a typed value (the library's interfaces) or from a text.
#pragma once

#include <string_view>

#include "lacuna/types.h"
#include "options/options.h"

namespace lacuna {

/// Sets the option of this name or alias, dashes and underscores alike. Throws SettingError if there is no
/// such option, or the value is of another type; a whole number is also a number.
void assign_option(GenerationOptions& options, std::string_view name, const OptionValue& value);

/// Sets the option of this name (as in visit_options()) to a command-line value unless it was given; flags
/// ignore the value. Throws SettingError for an unknown name or a value of another type.
void set_if_unset(GenerationOptions& options, std::string_view name, std::string_view value);

/// Options with all of `values` assigned.
GenerationOptions generation_options(const Options& values);

}  // namespace lacuna
