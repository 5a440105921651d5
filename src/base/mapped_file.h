#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lacuna {

/// A file mapped read-only: a page is read from disk when first touched, and processes share it. Replacing
/// the file (by renaming another one to its name) or deleting it is harmless. Writing to the file changes the
/// bytes. Touching a page that was cut off or cannot be read from disk raises SIGBUS.
///
/// The file stays open and registered for the functions below until destruction.
class MappedFile {
 public:
  /// Throws InputError naming `path` if it is not a readable regular file with at least one byte.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// The mapping; its address survives a move of the object.
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Lets the system reclaim the memory of the pages that were read so far; later reads bring them back.
  void release_pages() const;

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

/// Returns the path of a mapped file that was written to or truncated since it was opened; empty if none was.
/// Compares size, mtime and ctime of the open file, not of the file now at its path. Makes one or two calls
/// of stat(2) per file.
std::optional<std::string> find_changed_mapped_file();

/// Installs a SIGBUS handler: if a mapped file was truncated or its disk fails, the program ends with a
/// message and exit code 1.
void report_shortened_mapped_files();

}  // namespace lacuna
