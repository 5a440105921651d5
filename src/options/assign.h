// One setting by its name: from a value that a program gives, as the library's interfaces do, or from a text.
#pragma once

#include <string_view>

#include "lacuna/types.h"
#include "options/options.h"

namespace lacuna {

/// Sets the option of this name or alias, dashes and underscores alike. Throws SettingError if there is no
/// such option, or the value is of another type; a whole number is also a number.
void assign_option(GenerationOptions& options, std::string_view name, const OptionValue& value);

/// Gives the option of this name, as visit_options() has it, a value as the command line takes it, where
/// nothing was given; of a flag the value is ignored. Throws SettingError for an unknown name or a value of
/// another type.
void set_if_unset(GenerationOptions& options, std::string_view name, std::string_view value);

/// Options with all of these.
GenerationOptions generation_options(const Options& values);

}  // namespace lacuna
