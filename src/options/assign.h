// One setting from a value that a program gives, as the library's interfaces do.
#pragma once

#include <string_view>

#include "lacuna/types.h"
#include "options/options.h"

namespace lacuna {

/// Sets the option of this name or alias, dashes and underscores alike. SettingError where there is no such
/// option, or the value is of another type; a whole number is also a number.
void assign_option(GenerationOptions& options, std::string_view name, const OptionValue& value);

/// Options with all of these.
GenerationOptions generation_options(const Options& values);

}  // namespace lacuna
