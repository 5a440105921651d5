// Summarizes a checkpoint's files without reading weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lacuna {

/// Files, tensors, the type of most bytes and bytes: of a .gguf file, or of a folder with .safetensors files.
/// Null for a folder without. Throws InputError.
nlohmann::ordered_json checkpoint_json(const std::filesystem::path& folder);

/// "8.02 billion"
std::string human_count(int64_t count);

}  // namespace lacuna
