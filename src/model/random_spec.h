// Models with published shapes and random weights, for benchmarks without a download.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "model/config.h"

namespace lacuna {

/// Whether a MODEL argument names such a model: "random:llada-8b".
bool is_random_spec(std::string_view argument);

/// The config.json of the published model NAME of random:NAME; null if unknown.
nlohmann::json published_config(std::string_view name);

/// The config of "random:NAME[,layers=N]": the published config of NAME, with N layers if given. Throws
/// InputError that lists the names.
ModelConfig parse_random_spec(std::string_view argument);

}  // namespace lacuna
