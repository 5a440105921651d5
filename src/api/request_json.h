// The values of the public interface as JSON: what the C interface takes and gives.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lacuna/session.h"
#include "lacuna/types.h"

namespace lacuna {

// `place` is what errors name: an argument. Throws InputError for a key that is not known, or a value of
// another type.

LoadOptions load_options(const nlohmann::ordered_json& object, const std::string& place);
/// Settings of a generation by their names.
Options options_of(const nlohmann::ordered_json& object, const std::string& place);
/// One of "prompt", "messages" and "tokens", "stop", and what a chat says of tools (api/tools.h); every other
/// key is a setting.
Request request_of(const nlohmann::ordered_json& object, const std::string& place);

nlohmann::ordered_json to_json(const ModelInfo& info);
/// {"text", "tokens", ..., "stats"}: the keys of `lacuna run --json`.
nlohmann::ordered_json to_json(const Answer& answer);

}  // namespace lacuna
