#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lacuna {

/// A file's bytes, read-only and mapped: a page is read from disk when it is first touched, and processes
/// share it. Replacing the file (by renaming another one to its name) or deleting it is harmless. Writing to
/// it changes the bytes; where its pages are missing or cannot be read from disk, reading raises SIGBUS.
///
/// While it lives the file stays open and registered, for the functions below.
class MappedFile {
 public:
  /// Throws InputError naming `path` if it is not a readable regular file with at least one byte.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// Stays at its address when the object is moved.
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Lets the system reclaim the memory of the pages that were read so far; later reads bring them back.
  void release_pages() const;

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

/// Returns the path of a mapped file that was written to or shortened since it was opened, judged by its size
/// and its times of modification and change, whatever its name leads to now; empty if there is none. One or
/// two calls of stat(2) per file.
std::optional<std::string> find_changed_mapped_file();

/// Installs a handler so that SIGBUS within a mapped file, which was shortened or whose disk fails, ends the
/// program with a message and exit code 1.
void report_shortened_mapped_files();

}  // namespace lacuna
