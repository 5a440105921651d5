#include "base/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include "base/error.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kNewFile = 0666;  // less what the umask takes
constexpr mode_t kPrivateFile = 0600;

/// -1, and errno, where the file cannot be opened.
int open_again(const fs::path& path, int flags, mode_t mode = 0) {
  for (;;) {
    const int number = ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, mode);
    if (number >= 0 || errno != EINTR) return number;
  }
}

[[noreturn]] void fail_to_read(const fs::path& path) {
  throw InputError("{}: cannot be read: {}", path.string(), std::strerror(errno));
}

[[noreturn]] void fail_to_write(const fs::path& path) {
  throw InputError("{}: cannot be written: {}", path.string(), std::strerror(errno));
}

bool is_regular(const FileDescriptor& file) {
  struct stat status = {};
  return ::fstat(file.number(), &status) == 0 && S_ISREG(status.st_mode);
}

/// Whether the system itself made the links to a file.
bool is_of_system(const fs::path& path) {
  const std::string name = fs::absolute(path).lexically_normal().string();
  return name.starts_with("/dev/") || name.starts_with("/proc/");
}

}  // namespace

bool FileDescriptor::close() {
  const int closed = release();
  // On Linux the descriptor is free even where a signal interrupted the call.
  return closed < 0 || ::close(closed) == 0 || errno == EINTR;
}

FileDescriptor open_to_read(const fs::path& path, FileKind kind) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  FileDescriptor file(open_again(path, O_RDONLY | (kind == FileKind::kRegular ? O_NONBLOCK : 0)));
  const bool is_socket = file.number() < 0 && errno == ENXIO;  // which cannot be opened
  if (file.number() < 0 && !is_socket) fail_to_read(path);
  if (is_socket || (kind == FileKind::kRegular && !is_regular(file)))
    throw InputError("{}: is not a regular file", path.string());
  return file;
}

FileDescriptor open_partial(const fs::path& path, fs::path& made) {
  constexpr int kAttempts = 100;
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    made = path.string() + fmt::format(".{:08x}{:08x}.partial", random(), random());
    FileDescriptor file(open_again(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kNewFile));
    if (file.number() >= 0) return file;
    if (errno != EEXIST) break;
  }
  fail_to_write(path);
}

FileDescriptor open_to_write(const fs::path& path, WriteFrom from, bool is_private) {
  const bool appends = from == WriteFrom::kEnd;
  const int links = is_of_system(path) ? 0 : O_NOFOLLOW;
  const int flags = links | O_CREAT | (appends ? O_RDWR | O_APPEND : O_WRONLY);
  FileDescriptor file(open_again(path, flags, is_private ? kPrivateFile : kNewFile));
  if (file.number() < 0 && errno == ELOOP)
    throw InputError("{}: is a symbolic link; expected a file, or a name that is free", path.string());
  if (file.number() < 0) fail_to_write(path);
  // Emptied after it is open: never a file that a link leads to.
  if (!appends && is_regular(file) && ::ftruncate(file.number(), 0) != 0) fail_to_write(path);
  return file;
}

FileDescriptor open_shared(const fs::path& path) {
  FileDescriptor file(open_again(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, kNewFile));
  if (file.number() < 0) throw InputError("{}: cannot be opened: {}", path.string(), std::strerror(errno));
  if (!is_regular(file)) throw InputError("{}: is not a regular file", path.string());
  return file;
}

}  // namespace lacuna
