// All files are opened here (checked by tests/check_open_files.py), so that no file name can block the
// program or redirect its writes to another file.
#pragma once

#include <filesystem>
#include <utility>

namespace lacuna {

/// Owns a file descriptor and closes it in the destructor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  ~FileDescriptor() { close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  /// Returns false, and sets errno, if data could not be written.
  bool close();

 private:
  int number_ = -1;
};

enum class FileKind {
  kRegular,   ///< regular files only: for folders that others may have written
  kAnything,  ///< any file that the user named, pipes included
};

/// Opens a file to read it, without blocking; a named pipe gets up to two seconds for a writer. Throws
/// InputError naming `path` if the file cannot be opened, is of another kind, or is a pipe without a writer.
FileDescriptor open_to_read(const std::filesystem::path& path, FileKind kind = FileKind::kRegular);

/// Creates a new file NAME.RANDOM.partial next to `path` and returns its path in `made`. Throws InputError
/// naming `path`.
FileDescriptor open_partial(const std::filesystem::path& path, std::filesystem::path& made);

enum class WriteFrom {
  kBeginning,  ///< truncates a regular file
  kEnd,        ///< appends; regular files only, opened for reading too
};

/// Opens a file to write it in place, and creates it if it does not exist. Follows links only below /dev and
/// /proc ("/dev/stdout"): elsewhere another user may have made the link. A named pipe gets two seconds for a
/// reader. Throws InputError naming `path`.
///   is_private  a created file is readable by its owner only
FileDescriptor open_to_write(const std::filesystem::path& path, WriteFrom from, bool is_private = false);

/// Opens a cache file that processes share, to read and write it; creates it if it does not exist. Follows no
/// link. Throws InputError naming `path`.
FileDescriptor open_shared(const std::filesystem::path& path);

}  // namespace lacuna
