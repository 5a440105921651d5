#include "base/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace lacuna {
namespace {

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) : path_(path) {
    do {
      descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) fail();
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// At least one byte; 0 at the end.
  size_t read(char* bytes, size_t count) const {
    for (;;) {
      const ssize_t taken = ::read(descriptor_, bytes, count);
      if (taken >= 0) return static_cast<size_t>(taken);
      if (errno != EINTR) fail();
    }
  }

 private:
  [[noreturn]] void fail() const {
    throw InputError("{}: cannot be read: {}", path_.string(), std::strerror(errno));
  }

  const std::filesystem::path& path_;
  int descriptor_ = -1;
};

}  // namespace

std::string read_whole_file(const std::filesystem::path& path, size_t most_bytes) {
  constexpr size_t kFirstBytes = 1 << 16;
  const OpenFile file(path);
  std::string bytes;
  size_t size = 0;
  for (;;) {
    if (size == bytes.size()) bytes.resize(std::min(std::max(kFirstBytes, 2 * size), most_bytes + 1));
    const size_t taken = file.read(bytes.data() + size, bytes.size() - size);
    if (taken == 0) break;
    size += taken;
    if (size > most_bytes) throw InputError("{}: is larger than {} bytes", path.string(), most_bytes);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace lacuna
