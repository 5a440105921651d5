// Output folder of a subcommand that writes a model.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace lacuna {

inline constexpr double kMebi = 1 << 20;

/// Throws InputError if --out exists and holds more than the leftovers of an interrupted run.
void expect_new_folder(const std::string& out);
/// Creates the folder, after expect_new_folder(). Throws InputError if it cannot.
void make_folder(const std::string& out);

/// Copies tokenizer, generation config and the other files next to the weights.
void copy_companions(const std::filesystem::path& from, const std::filesystem::path& to);

/// The config.json of a checkpoint folder.
nlohmann::ordered_json read_config_json(const std::filesystem::path& folder);

}  // namespace lacuna
