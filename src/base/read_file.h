// Small files, read at once.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace lacuna {

/// The bytes of a file, or of a pipe up to its end. Throws InputError naming `path` with the system's reason
/// where it cannot be read to its end, and where it has more than `most_bytes`.
std::string read_whole_file(const std::filesystem::path& path, size_t most_bytes);

}  // namespace lacuna
