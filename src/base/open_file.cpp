#include "base/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "base/error.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kNewFile = 0666;  // reduced by the umask
constexpr mode_t kPrivateFile = 0600;

/// open(2), repeated after EINTR; -1 with errno on failure.
int open_retrying(const fs::path& path, int flags, mode_t mode = 0) {
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

mode_t kind_of(const FileDescriptor& file) {
  struct stat status = {};
  return ::fstat(file.number(), &status) == 0 ? status.st_mode & S_IFMT : 0;
}

bool is_regular(const FileDescriptor& file) {
  return kind_of(file) == S_IFREG;
}

/// Time-out for another process to open the other end of a named pipe.
class PipeWait {
 public:
  bool is_over() const { return std::chrono::steady_clock::now() - begin_ > std::chrono::seconds(2); }
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Whether a pipe, opened with O_NONBLOCK, has or had a writer or holds bytes.
bool has_writer(const FileDescriptor& pipe) {
#ifndef __APPLE__  // there poll() also reports end-of-file for a pipe that never had a writer
  pollfd ready = {pipe.number(), POLLIN, 0};
  if (::poll(&ready, 1, 0) > 0) return true;  // bytes, or end-of-file after a writer closed
#endif
  // Without a writer, read() returns 0. With one it fails: EAGAIN if the pipe is empty, else EFAULT, because
  // the null buffer leaves a byte that has just arrived in the pipe.
  char* volatile const nowhere = nullptr;
  return ::read(pipe.number(), nowhere, 1) != 0;
}

/// Makes reads and writes block again.
void let_wait(const FileDescriptor& file) {
  const int flags = ::fcntl(file.number(), F_GETFL);
  if (flags >= 0) ::fcntl(file.number(), F_SETFL, flags & ~O_NONBLOCK);
}

/// Opens with O_NONBLOCK. A named pipe gets some time for a reader.
int open_to_write_now(const fs::path& path, int flags, mode_t mode) {
  for (const PipeWait wait;; PipeWait::pause()) {
    const int number = open_retrying(path, flags | O_NONBLOCK, mode);
    std::error_code error;
    if (number >= 0 || errno != ENXIO || !fs::is_fifo(path, error)) return number;
    if (wait.is_over()) throw InputError("{}: is a pipe that nobody reads", path.string());
  }
}

/// Whether the system itself made the links to a file.
bool is_of_system(const fs::path& path) {
  const std::string name = fs::absolute(path).lexically_normal().string();
  return name.starts_with("/dev/") || name.starts_with("/proc/");
}

}  // namespace

bool FileDescriptor::close() {
  const int closed = release();
  // On Linux close() releases the descriptor even if a signal interrupts it.
  return closed < 0 || ::close(closed) == 0 || errno == EINTR;
}

FileDescriptor open_to_read(const fs::path& path, FileKind kind) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  FileDescriptor file(open_retrying(path, O_RDONLY | O_NONBLOCK));
  const bool is_socket = file.number() < 0 && errno == ENXIO;  // sockets cannot be opened
  if (file.number() < 0 && !is_socket) fail_to_read(path);
  if (is_socket || (kind == FileKind::kRegular && !is_regular(file)))
    throw InputError("{}: is not a regular file", path.string());
  if (kind == FileKind::kRegular) return file;
  if (kind_of(file) == S_IFIFO) {
    for (const PipeWait wait; !has_writer(file); PipeWait::pause())
      if (wait.is_over()) throw InputError("{}: is a pipe that nobody writes to", path.string());
  }
  let_wait(file);
  return file;
}

FileDescriptor open_partial(const fs::path& path, fs::path& made) {
  constexpr int kAttempts = 100;
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    made = path.string() + fmt::format(".{:08x}{:08x}.partial", random(), random());
    FileDescriptor file(open_retrying(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kNewFile));
    if (file.number() >= 0) return file;
    if (errno != EEXIST) break;
  }
  fail_to_write(path);
}

FileDescriptor open_to_write(const fs::path& path, WriteFrom from, bool is_private) {
  const bool appends = from == WriteFrom::kEnd;
  const int links = is_of_system(path) ? 0 : O_NOFOLLOW;
  const int flags = links | O_CREAT | (appends ? O_RDWR | O_APPEND : O_WRONLY);
  FileDescriptor file(open_to_write_now(path, flags, is_private ? kPrivateFile : kNewFile));
  if (file.number() < 0 && errno == ELOOP)
    throw InputError("{}: is a symbolic link; expected a file, or a name that is free", path.string());
  if (file.number() < 0) fail_to_write(path);
  if (appends && !is_regular(file)) throw InputError("{}: is not a regular file", path.string());
  let_wait(file);
  // Truncates only after the checks above, instead of O_TRUNC.
  if (!appends && is_regular(file) && ::ftruncate(file.number(), 0) != 0) fail_to_write(path);
  return file;
}

FileDescriptor open_shared(const fs::path& path) {
  FileDescriptor file(open_retrying(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, kNewFile));
  if (file.number() < 0) throw InputError("{}: cannot be opened: {}", path.string(), std::strerror(errno));
  if (!is_regular(file)) throw InputError("{}: is not a regular file", path.string());
  return file;
}

}  // namespace lacuna
