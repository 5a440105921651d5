// Small files, read at once.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "base/open_file.h"

namespace lacuna {

/// The bytes of a file, or, with FileKind::kAnything, of a pipe up to its end. Throws InputError naming
/// `path` with the system's reason where it cannot be read to its end, and where it has more than
/// `max_bytes`.
std::string read_whole_file(const std::filesystem::path& path, size_t max_bytes,
                            FileKind kind = FileKind::kRegular);

/// The text of a file in /proc or /sys; empty where there is none, as on other systems than Linux.
std::string read_kernel_file(const std::filesystem::path& path);

}  // namespace lacuna
