#include "base/written_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kNewFile = 0666;  // less what the umask takes

[[noreturn]] void fail_to_write(const fs::path& path, int error) {
  throw std::runtime_error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error)));
}

int open_to_write(const fs::path& path, const fs::path& shown) {
  for (;;) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kNewFile);
    if (descriptor >= 0) return descriptor;
    if (errno == EINTR) continue;
    throw InputError("{}: cannot be written: {}", shown.string(), std::strerror(errno));
  }
}

/// close(2) reports what a network file system could not write. On Linux the descriptor is free even so.
bool close_file(int& descriptor) {
  const int closed = std::exchange(descriptor, -1);
  return closed < 0 || ::close(closed) == 0 || errno == EINTR;
}

}  // namespace

void write_all(int descriptor, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_to_write(path, count < 0 ? errno : EIO);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

WrittenFile::WrittenFile(const fs::path& path) : path_(path) {
  struct stat present = {};
  const bool is_there = ::stat(path_.c_str(), &present) == 0;
  if (!is_there && errno == ELOOP) {
    throw InputError("{}: cannot be written: {}", path_.string(), std::strerror(ELOOP));
  }
  if (S_ISDIR(present.st_mode)) throw InputError("{}: is a folder; expected a file", path_.string());
  if (is_there && !S_ISREG(present.st_mode)) {
    descriptor_ = open_to_write(path_, path_);
    return;
  }
  // The file is replaced where the links lead, and the links stay. ELOOP was excluded.
  for (std::error_code error; fs::is_symlink(path_, error);)
    path_ = path_.parent_path() / fs::read_symlink(path_);
  // A file that may not be written is not replaced, though its folder would allow it.
  if (is_there && ::access(path_.c_str(), W_OK) != 0) {
    throw InputError("{}: cannot be written: {}", path_.string(), std::strerror(errno));
  }
  partial_ = path_.string() + fmt::format(".{}.partial", ::getpid());
  descriptor_ = open_to_write(partial_, path_);
  constexpr mode_t kPermissions = 07777;
  if (is_there) (void)::fchmod(descriptor_, present.st_mode & kPermissions);
}

WrittenFile::~WrittenFile() {
  close_file(descriptor_);
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

void WrittenFile::write(std::string_view bytes) {
  write_all(descriptor_, bytes, path_);
}

void WrittenFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void WrittenFile::commit() {
  if (partial_.empty()) {
    if (!close_file(descriptor_)) fail_to_write(path_, errno);
    return;
  }
  while (::fsync(descriptor_) != 0) {
    if (errno == EINVAL || errno == ENOTSUP) break;  // a file system that cannot promise it
    if (errno != EINTR) fail_to_write(path_, errno);
  }
  if (!close_file(descriptor_)) fail_to_write(path_, errno);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
  partial_.clear();
}

void write_whole_file(const fs::path& path, std::string_view text) {
  WrittenFile file(path);
  file.write(text);
  file.commit();
}

GrowingFile::GrowingFile(const fs::path& path) : path_(path), descriptor_(open_to_write(path, path)) {}

GrowingFile::~GrowingFile() {
  close_file(descriptor_);
}

void GrowingFile::append(std::string_view bytes) {
  write_all(descriptor_, bytes, path_);
}

}  // namespace lacuna
