// A short name for the content of a model's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lacuna {

/// FNV-1a, 64 bits, over any number of pieces.
class Fnv1a {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  /// With the length, so that pieces do not run into each other.
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

/// Fingerprint of a checkpoint folder or a .gguf file: 16 hexadecimal digits. It covers the JSON files of the
/// model and its tokenizer whole, and of each file of weights the size, the first 64 KiB and 64 further
/// pieces of 4 KiB at equal distances, so that it takes a few milliseconds for any size. Two models that
/// differ in their tensors, their training or their format have different ones; it does not protect against
/// somebody who wants two files to look alike. Files that Lacuna writes about a model (decisions.json) do not
/// count. Throws InputError if the folder cannot be read.
std::string fingerprint_of(const std::filesystem::path& model);

}  // namespace lacuna
