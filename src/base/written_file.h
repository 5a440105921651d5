// Files that programs write. A file that is of use only when it is whole appears under its name when it is
// (WrittenFile); a log, of which every line is of use, grows under its name (GrowingFile).
//
// A file that cannot be made is the caller's choice of a place: InputError. One that cannot be written
// further, because the disk is full, say, is a failure: std::runtime_error with the system's reason.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/open_file.h"

namespace lacuna {

/// Writes all bytes, whatever part of them a call of write(2) takes, and again where a signal interrupted
/// one. Throws std::runtime_error naming `path`, and the system's reason.
void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path);

/// Written as NAME.RANDOM.partial in the folder of its name, and renamed by commit(): whoever opens the name
/// finds the old file or the whole new one, also after the program or the machine was stopped. What is no
/// regular file (a pipe, a device) is written directly.
class WrittenFile {
 public:
  /// Throws InputError where the file cannot be made. A symbolic link is followed, and the mode of a file
  /// that is replaced is kept.
  explicit WrittenFile(const std::filesystem::path& path);
  /// Removes what was written, unless commit() has returned.
  ~WrittenFile();
  WrittenFile(const WrittenFile&) = delete;
  WrittenFile& operator=(const WrittenFile&) = delete;

  /// Throws std::runtime_error where the bytes cannot be written.
  void write(std::string_view bytes);
  void write(std::span<const std::byte> bytes);
  /// Brings everything to the disk and gives the file its name. Throws std::runtime_error where that fails;
  /// then the name leads to what it led to before. Nothing is written afterwards.
  void commit();

 private:
  std::filesystem::path path_;     // where links were followed
  std::filesystem::path partial_;  // empty: written directly
  FileDescriptor file_;
};

/// Writes a small file in one step.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

/// A log that replaces the file of its name at once and grows line by line.
class GrowingFile {
 public:
  /// Throws InputError where the file cannot be made. A link is not followed (open_to_write).
  explicit GrowingFile(const std::filesystem::path& path);

  /// Throws std::runtime_error where it cannot be written.
  void append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace lacuna
