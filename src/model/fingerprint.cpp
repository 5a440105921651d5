#include "model/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr int64_t kFirstBytes = 64 << 10;
constexpr std::streamsize kPiece = 4 << 10;
constexpr int64_t kPieces = 64;
constexpr int64_t kMaxWhole = int64_t{64} << 20;  // larger JSON files are sampled, as weights are
constexpr size_t kMaxFiles = 10'000;

/// Returns whether the range could be read; what lies behind the end of the file counts as read.
bool add_range(std::ifstream& stream, int64_t begin, std::streamsize size, Fnv1a& hash) {
  std::string bytes(static_cast<size_t>(size), '\0');
  stream.clear();
  stream.seekg(begin);
  stream.read(bytes.data(), size);
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(0, stream.gcount())));
  hash.add(bytes);
  return !stream.bad();
}

void add_file(const std::filesystem::path& path, bool is_whole, Fnv1a& hash) {
  std::ifstream stream(path, std::ios::binary);
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (!stream || error) throw InputError("{}: cannot be read", path.string());
  hash.add_piece(std::to_string(size));
  const bool takes_all = is_whole && size <= kMaxWhole;
  bool is_read = add_range(
      stream, 0, static_cast<std::streamsize>(takes_all ? size : std::min(size, kFirstBytes)), hash);
  for (int64_t piece = 1; piece <= kPieces && size > kFirstBytes && !takes_all && is_read; ++piece) {
    is_read = add_range(stream, (size - kPiece) / kPieces * piece, kPiece, hash);
  }
  if (!is_read) throw InputError("{}: cannot be read", path.string());
}

bool is_weights(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" || path.extension() == ".gguf";
}

/// Files that decide what the model answers. README.md, logs and what Lacuna itself keeps do not.
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
