// Small files, read at once.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "base/open_file.h"

namespace lacuna {

/// The bytes of a file or, with FileKind::kAnything, of a pipe up to its end. Throws InputError naming `path`
/// if it cannot be read or has more than `max_bytes`.
std::string read_whole_file(const std::filesystem::path& path, size_t max_bytes,
                            FileKind kind = FileKind::kRegular);

/// The text of a file in /proc or /sys; empty if there is no such file, as on macOS.
std::string read_kernel_file(const std::filesystem::path& path);

}  // namespace lacuna
