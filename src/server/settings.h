// Generation settings in JSON, from the command line's list (options/options.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "options/options.h"

namespace lacuna {

/// Reads the setting with this name or alias ("block_length"); dashes and underscores are equivalent. null
/// changes nothing. Throws InputError, which names `place`, key and value, also for an unknown key.
void expect_setting(std::string_view key, const nlohmann::ordered_json& value, std::string_view place,
                    GenerationOptions& options);

/// Reads one setting; returns false if the name is unknown.
bool read_setting(std::string_view name, const nlohmann::ordered_json& value, std::string_view place,
                  GenerationOptions& options);

/// read_setting() for a setting that was sent as `key`; errors name `key`.
bool read_setting_as(std::string_view name, const nlohmann::ordered_json& value, std::string_view place,
                     std::string_view key, GenerationOptions& options);

/// Whether other programs use this name with the same meaning (n_predict, diffusion_steps, remasking, steps,
/// ...), so that it is accepted at the top level of a request.
bool is_common_name(std::string_view name);

/// Name of a setting in messages if the client sent none of its names: "max_tokens" for "gen_length", the
/// name itself for common settings ("block_length"), "lacuna.slot_size" for the others. Empty if it is no
/// setting.
std::optional<std::string> request_name(std::string_view field);

/// A list with one object per setting: name, aliases, type, help.
nlohmann::ordered_json describe_settings();

}  // namespace lacuna
