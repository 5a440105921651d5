// Summarizes a checkpoint's files without reading weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lacuna {

/// Counts files, tensors and bytes, and names the type of most bytes, of a .gguf file or a folder of
/// .safetensors files. Null if the folder has none. Throws InputError.
nlohmann::ordered_json checkpoint_json(const std::filesystem::path& folder);

/// Formats a count: "8.02 billion".
std::string human_count(int64_t count);

}  // namespace lacuna
