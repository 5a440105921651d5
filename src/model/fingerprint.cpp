#include "model/fingerprint.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/open_file.h"

namespace lacuna {
namespace {

constexpr int64_t kFirstBytes = 64 << 10;
constexpr int64_t kPiece = 4 << 10;
constexpr int64_t kPieces = 64;
constexpr int64_t kMaxWhole = int64_t{64} << 20;  // larger JSON files are sampled like weights
constexpr size_t kMaxFiles = 10'000;

/// Returns whether the range could be read; bytes beyond the end of the file do not matter.
bool add_range(const FileDescriptor& file, int64_t begin, int64_t size, Fnv1a& hash) {
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t taken = ::pread(file.number(), bytes.data() + filled, bytes.size() - filled,
                                  begin + static_cast<int64_t>(filled));
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) return false;
    if (taken == 0) break;
    filled += static_cast<size_t>(taken);
  }
  bytes.resize(filled);
  hash.add(bytes);
  return true;
}

void add_file(const std::filesystem::path& path, bool is_whole, Fnv1a& hash) {
  const FileDescriptor file = open_to_read(path);
  struct stat status = {};
  if (::fstat(file.number(), &status) != 0) throw InputError("{}: cannot be read", path.string());
  const int64_t size = status.st_size;
  hash.add_piece(std::to_string(size));
  const bool takes_all = is_whole && size <= kMaxWhole;
  bool is_read = add_range(file, 0, takes_all ? size : std::min(size, kFirstBytes), hash);
  for (int64_t piece = 1; piece <= kPieces && size > kFirstBytes && !takes_all && is_read; ++piece) {
    is_read = add_range(file, (size - kPiece) / kPieces * piece, kPiece, hash);
  }
  if (!is_read) throw InputError("{}: cannot be read", path.string());
}

bool is_weights(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" || path.extension() == ".gguf";
}

/// Whether a file affects the model's output. README.md, logs and Lacuna's own files do not.
bool counts(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return is_weights(path) || (path.extension() == ".json" && name != "decisions.json") ||
         name == "merges.txt" || path.extension() == ".jinja" || path.extension() == ".model";
}

}  // namespace

std::string Fnv1a::text() const {
  return fmt::format("{:016x}", hash_);
}

std::string fingerprint_of(const std::filesystem::path& model) {
  Fnv1a hash;
  std::error_code error;
  if (!std::filesystem::is_directory(model, error)) {
    add_file(model, false, hash);
    return hash.text();
  }
  std::vector<std::filesystem::path> files;
  for (auto entry = std::filesystem::directory_iterator(model, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (counts(entry->path()) && files.size() < kMaxFiles) files.push_back(entry->path());
  }
  if (error) throw InputError("{}: cannot be read", model.string());
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    hash.add_piece(file.filename().string());
    add_file(file, !is_weights(file), hash);
  }
  return hash.text();
}

}  // namespace lacuna
