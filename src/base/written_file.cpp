#include "base/written_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/error.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_write(const fs::path& path, int error) {
  throw std::runtime_error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error)));
}

/// Whether a link belongs to this user or to its folder's owner. In a world-writable folder, another user's
/// link could redirect the write.
bool is_trusted_link(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  struct stat link = {}, around = {};
  if (::lstat(path.c_str(), &link) != 0 || ::stat(folder.c_str(), &around) != 0) return false;
  return link.st_uid == ::geteuid() || link.st_uid == around.st_uid;
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
    file_ = open_to_write(path_, WriteFrom::kBeginning);
    return;
  }
  // Replaces the links' target and keeps the links. ELOOP was excluded.
  for (std::error_code error; fs::is_symlink(path_, error);) {
    if (!is_trusted_link(path_)) {
      throw InputError("{}: is another user's symbolic link; expected a file, or a name that is free",
                       path_.string());
    }
    path_ = path_.parent_path() / fs::read_symlink(path_);
  }
  // Does not replace a read-only file, though the folder's mode would allow it.
  if (is_there && ::access(path_.c_str(), W_OK) != 0) {
    throw InputError("{}: cannot be written: {}", path_.string(), std::strerror(errno));
  }
  file_ = open_partial(path_, partial_);
  constexpr mode_t kPermissions = 07777;
  if (is_there) (void)::fchmod(file_.number(), present.st_mode & kPermissions);
}

WrittenFile::~WrittenFile() {
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

void WrittenFile::write(std::string_view bytes) {
  write_all(file_.number(), bytes, path_);
}

void WrittenFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void WrittenFile::commit() {
  if (partial_.empty()) {
    if (!file_.close()) fail_to_write(path_, errno);
    return;
  }
  while (::fsync(file_.number()) != 0) {
    if (errno == EINVAL || errno == ENOTSUP) break;  // the file system does not support fsync
    if (errno != EINTR) fail_to_write(path_, errno);
  }
  if (!file_.close()) fail_to_write(path_, errno);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
  partial_.clear();
}

void write_whole_file(const fs::path& path, std::string_view text) {
  WrittenFile file(path);
  file.write(text);
  file.commit();
}

GrowingFile::GrowingFile(const fs::path& path)
    : path_(path), file_(open_to_write(path, WriteFrom::kBeginning)) {}

void GrowingFile::append(std::string_view bytes) {
  write_all(file_.number(), bytes, path_);
}

}  // namespace lacuna
