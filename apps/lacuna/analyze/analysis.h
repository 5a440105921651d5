// `lacuna analyze`, for other commands.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lacuna {

/// Findings of `lacuna analyze` run with these arguments: "drift -m mini-gidd --cache uniform". A list of
/// flat objects.
nlohmann::ordered_json run_analysis(const std::string& words);

}  // namespace lacuna
