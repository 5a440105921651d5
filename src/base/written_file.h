// Files that programs write. A WrittenFile appears under its name only when it is complete. A GrowingFile is
// a log that grows in place.
//
// Failing to create a file is a bad choice of path: InputError. Failing to write, for example because the
// disk is full, throws std::runtime_error with the system's reason.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/open_file.h"

namespace lacuna {

/// Writes all bytes, despite short writes and EINTR. Throws std::runtime_error naming `path` and the system's
/// reason.
void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path);

/// Writes NAME.RANDOM.partial in the same folder, which commit() renames to NAME. NAME is always the old file
/// or the complete new one, even after a crash. Pipes and devices are written directly.
class WrittenFile {
 public:
  /// Throws InputError if the file cannot be created. Follows symbolic links; keeps the mode of a file that
  /// it replaces.
  explicit WrittenFile(const std::filesystem::path& path);
  /// Removes the partial file, unless commit() has returned.
  ~WrittenFile();
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;

  /// Throws std::runtime_error if the bytes cannot be written.
  void write(std::string_view bytes);
  void write(std::span<const std::byte> bytes);
  /// Flushes the file to disk and renames it. Throws std::runtime_error on failure; then the old file stays.
  /// Call no write() afterwards.
  void commit();

 private:
  std::filesystem::path path_;     // after following links
  std::filesystem::path partial_;  // empty if the target is written directly
  FileDescriptor file_;
};

/// Writes a small file in one step.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

/// A log that truncates an existing file and grows by appends.
class GrowingFile {
 public:
  /// Throws InputError if the file cannot be opened. Links: see open_to_write().
  explicit GrowingFile(const std::filesystem::path& path);

  /// Throws std::runtime_error if the bytes cannot be written.
  void append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace lacuna
