// The settings of a generation as JSON: the command line's, from the same list (options/options.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "options/options.h"

namespace lacuna {

/// Reads a key as the flag of that name or of one of its aliases, dashes and underscores alike:
/// "block_length", 8. null leaves a setting as it is. Throws InputError, which names `place`, the key, its
/// value and what was expected, also for a key that is not a setting.
void expect_setting(std::string_view key, const nlohmann::ordered_json& value, std::string_view place,
                    GenerationOptions& options);

/// Reads one setting; false if there is none of that name.
bool read_setting(std::string_view name, const nlohmann::ordered_json& value, std::string_view place,
                  GenerationOptions& options);

/// The same of a setting that the request has under another key, which errors name.
bool read_setting_as(std::string_view name, const nlohmann::ordered_json& value, std::string_view place,
                     std::string_view key, GenerationOptions& options);

/// Whether other programs know this setting under this very name (n_predict, diffusion_steps, remasking,
/// steps
/// ...), so that it means the same at the top level of a request.
bool is_common_name(std::string_view name);

/// Name of a field in messages to a client that sent none of its names: "max_tokens" for "gen_length",
/// another setting that requests have at their top level by its own name ("block_length"), and the others
/// stand in the request's own object ("lacuna.slot_size"). Nothing for what is not a setting.
std::optional<std::string> request_name(std::string_view field);

/// One object for each setting: name, aliases, type, help.
nlohmann::ordered_json describe_settings();

}  // namespace lacuna
