// A short name for the content of a model's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lacuna {

/// Incremental 64-bit FNV-1a hash.
class Fnv1a {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  /// Adds the length too, so that different divisions into pieces hash differently.
  void add_piece(std::string_view bytes) {
    add(bytes);
    add(std::to_string(bytes.size()) + ';');
  }
  uint64_t value() const { return hash_; }
  /// 16 hexadecimal digits.
  std::string text() const;

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

/// Fingerprint of a checkpoint folder or a .gguf file: 16 hexadecimal digits. It covers the JSON files of
/// model and tokenizer whole (JSON over 64 MiB is sampled). Of each weight file it covers the size, the first
/// 64 KiB and 64 evenly spaced pieces of 4 KiB, which takes a few milliseconds. It distinguishes models,
/// trainings and formats, but does not resist deliberate collisions. Files that Lacuna writes about a model
/// (decisions.json) do not count. Throws InputError if the folder cannot be read.
std::string fingerprint_of(const std::filesystem::path& model);

}  // namespace lacuna
