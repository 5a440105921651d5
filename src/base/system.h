// Portable wrappers of system calls that differ between Linux, macOS and FreeBSD.
#pragma once

#include <sys/stat.h>

#include <array>
#include <ctime>
#include <filesystem>

namespace lacuna {

/// Path of the running executable; empty if unknown.
std::filesystem::path running_program();

/// Opens a close-on-exec pipe: ends[0] to read, ends[1] to write. Returns false, with errno, on failure. On
/// macOS a program that another thread starts at this moment may inherit the ends.
bool open_pipe(std::array<int, 2>& ends);

/// Closes all descriptors from `first` on. Safe between fork and exec.
void close_files_from(int first);

/// st_mtime: the last change of a file's content.
inline timespec modification_time(const struct stat& status) {
#ifdef __APPLE__
  return status.st_mtimespec;
#else
  return status.st_mtim;
#endif
}

/// st_ctime: the last change of a file's content, mode, owner or links.
inline timespec change_time(const struct stat& status) {
#ifdef __APPLE__
  return status.st_ctimespec;
#else
  return status.st_ctim;
#endif
}

}  // namespace lacuna
