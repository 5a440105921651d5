#include "base/read_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace lacuna {
namespace {

/// Reads at least one byte and returns the number read; 0 at end-of-file.
size_t read_some(const FileDescriptor& file, char* bytes, size_t count, const std::filesystem::path& path) {
  for (;;) {
    const ssize_t taken = ::read(file.number(), bytes, count);
    if (taken >= 0) return static_cast<size_t>(taken);
    if (errno != EINTR) throw InputError("{}: cannot be read: {}", path.string(), std::strerror(errno));
  }
}

}  // namespace

std::string read_whole_file(const std::filesystem::path& path, size_t max_bytes, FileKind kind) {
  constexpr size_t kFirstBytes = 1 << 16;
  const FileDescriptor file = open_to_read(path, kind);
  std::string bytes;
  size_t size = 0;
  for (;;) {
    if (size == bytes.size()) bytes.resize(std::min(std::max(kFirstBytes, 2 * size), max_bytes + 1));
    const size_t taken = read_some(file, bytes.data() + size, bytes.size() - size, path);
    if (taken == 0) break;
    size += taken;
    if (size > max_bytes) throw InputError("{}: is larger than {} bytes", path.string(), max_bytes);
  }
  bytes.resize(size);
  return bytes;
}

std::string read_kernel_file(const std::filesystem::path& path) {
  constexpr size_t kMaxKernelBytes = 64 << 10;
  try {
    return read_whole_file(path, kMaxKernelBytes);
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace lacuna
