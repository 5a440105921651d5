// How files are opened. Sources open files here and nowhere else (tests/check_open_files.py), so that a name
// can neither make the program wait nor lead what it writes to another file.
#pragma once

#include <filesystem>
#include <utility>

namespace lacuna {

/// Closes the file when it ends.
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
  /// Returns false, and sets errno, where the system reports that something was not written.
  bool close();

 private:
  int number_ = -1;
};

enum class FileKind {
  kRegular,   ///< files of a folder that others may have written
  kAnything,  ///< what somebody named on the command line: a pipe is read to its end
};

/// Opens a file to read it. Waits for no file, but up to two seconds for somebody who writes to a named pipe.
/// Throws InputError naming `path`: the system's reason, that the file is not a regular one, or that nobody
/// writes to the pipe.
FileDescriptor open_to_read(const std::filesystem::path& path, FileKind kind = FileKind::kRegular);

/// Makes a file NAME.RANDOM.partial next to `path`, which did not exist, and returns its name in `made`.
/// Throws InputError naming `path`.
FileDescriptor open_partial(const std::filesystem::path& path, std::filesystem::path& made);

enum class WriteFrom {
  kBeginning,  ///< a regular file is emptied
  kEnd,        ///< whatever is written is appended; a regular file, which can be read, too
};

/// Opens a file that grows under its own name, and makes it where it does not exist. Links are followed below
/// /dev and /proc alone ("/dev/stdout"): elsewhere a link may be somebody else's. A named pipe gets two
/// seconds for its reader. Throws InputError naming `path`.
///   is_private  a file that is made can be read by its owner alone
FileDescriptor open_to_write(const std::filesystem::path& path, WriteFrom from, bool is_private = false);

/// Opens a file of a cache that other processes share, to read and write it; makes it where it does not
/// exist. Never follows a link. Throws InputError naming `path`.
FileDescriptor open_shared(const std::filesystem::path& path);

}  // namespace lacuna
