#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace lacuna {

/// A file's bytes, read-only and mapped: a page is read from disk when it is first touched, and processes
/// share it. Whoever shortens the file while it is mapped kills the process (SIGBUS); replacing it is
/// harmless.
class MappedFile {
 public:
  /// Throws InputError naming `path` if it is not a readable regular file with at least one byte.
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  /// Stays at its address when the object is moved.
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Lets the system take back the memory of the pages that were read so far; who reads them again brings
  /// them back.
  void release_pages() const;

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace lacuna
