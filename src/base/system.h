// Calls that each system names in its own way: Linux, macOS and FreeBSD.
#pragma once

#include <sys/stat.h>

#include <array>
#include <ctime>
#include <filesystem>

namespace lacuna {

/// The file of the program that runs; empty where the system does not say.
std::filesystem::path running_program();

/// A pipe whose ends, to read and to write, no other program inherits; false, and errno, where there is none.
/// On macOS a program that another thread starts at this moment does inherit them.
bool open_pipe(std::array<int, 2>& ends);

/// Closes this and all later descriptors. Safe between fork and exec.
void close_files_from(int first);

/// When the content of a file was changed last.
inline timespec modification_time(const struct stat& status) {
#ifdef __APPLE__
  return status.st_mtimespec;
#else
  return status.st_mtim;
#endif
}

/// When the content of a file, its mode, its owner or its names were changed last.
inline timespec change_time(const struct stat& status) {
#ifdef __APPLE__
  return status.st_ctimespec;
#else
  return status.st_ctim;
#endif
}

}  // namespace lacuna
