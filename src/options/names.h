// Names of a setting in each interface. Problems name fields as strategies do ("block_length"); the names
// that people type are listed in options.h, with dashes.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "decode/setting_error.h"
#include "options/options.h"

namespace lacuna {

/// "block-length" for "block_length".
std::string with_dashes(std::string_view name);
/// "block_length" for "block-length".
std::string with_underscores(std::string_view name);

/// Name in options.h of the setting with this name or alias, dashes and underscores alike; empty:
/// there is none. "-n", a short flag, is an alias as it stands.
std::string_view setting_named(std::string_view name);

/// Whether the setting of this name in options.h was given. The setting must exist.
bool is_given(const GenerationOptions& options, std::string_view name);

/// "--block-length" for "block_length"; nullopt for a field that is no flag.
std::optional<std::string> flag_name(std::string_view field);

/// The message of an error with an interface's own names: a SettingError's sentence, else what().
std::string sentence_of(const std::exception& error, const FieldNames& names);

/// Runs `action`. Rethrows SettingError as InputError with the fields' own names, without backticks.
template <typename Action>
auto in_plain_names(Action&& action) {
  try {
    return action();
  } catch (const SettingError& error) {
    throw InputError("{}", sentence_of(error, [](std::string_view field) -> std::optional<std::string> {
                       return std::string(field);
                     }));
  }
}

/// Throws SettingError with command-line names. Problem::expected is the text after the last "expected ".
[[noreturn]] void throw_setting_error(std::string_view field, std::string_view value,
                                      const std::string& sentence);

template <typename... Arguments>
[[noreturn]] void refuse_setting(std::string_view field, std::string_view value,
                                 fmt::format_string<Arguments...> sentence, Arguments&&... arguments) {
  throw_setting_error(field, value, fmt::format(sentence, std::forward<Arguments>(arguments)...));
}

}  // namespace lacuna
