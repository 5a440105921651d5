// Converts the values of the C++ interface from and to the JSON of the C interface.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lacuna/session.h"
#include "lacuna/types.h"

namespace lacuna {

// `place` is the argument's name in errors. All throw InputError for an unknown key or a value of another
// type.

LoadOptions load_options(const nlohmann::ordered_json& object, const std::string& place);
/// Generation settings by name.
Options options_of(const nlohmann::ordered_json& object, const std::string& place);
/// Reads one of "prompt", "messages" and "tokens", then "stop" and the keys for tools (api/tools.h); every
/// other key is a setting.
Request request_of(const nlohmann::ordered_json& object, const std::string& place);

nlohmann::ordered_json to_json(const ModelInfo& info);
/// {"text", "tokens", ..., "stats"}: the keys of `lacuna run --json`.
nlohmann::ordered_json to_json(const Answer& answer);

}  // namespace lacuna
