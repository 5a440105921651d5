// Writes GGUF files for tests, as docs/gguf.md of ggml describes them.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna::test {

class GgufBytes {
 public:
  template <typename T>
  static void append(std::string& to, const T& value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void append_text(std::string& to, std::string_view text) {
    append(to, static_cast<uint64_t>(text.size()));
    to += text;
  }

  void number(std::string_view key, uint32_t value) { append(begin(key, 4), value); }
  void real(std::string_view key, float value) { append(begin(key, 6), value); }
  void flag(std::string_view key, bool value) { append(begin(key, 7), static_cast<uint8_t>(value)); }
  void text(std::string_view key, std::string_view value) { append_text(begin(key, 8), value); }
  void texts(std::string_view key, const std::vector<std::string>& values) {
    std::string& to = begin(key, 9);
    append(to, uint32_t{8});
    append(to, static_cast<uint64_t>(values.size()));
    for (const std::string& value : values) append_text(to, value);
  }
  void numbers(std::string_view key, const std::vector<int32_t>& values) {
    std::string& to = begin(key, 9);
    append(to, uint32_t{5});
    append(to, static_cast<uint64_t>(values.size()));
    for (const int32_t value : values) append(to, value);
  }

  void reals(std::string_view key, const std::vector<float>& values) {
    std::string& to = begin(key, 9);
    append(to, uint32_t{6});
    append(to, static_cast<uint64_t>(values.size()));
    for (const float value : values) append(to, value);
  }

  /// shape: outermost first
  void tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape,
              const std::string& bytes) {
    append_text(tensors_, name);
    append(tensors_, static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i > 0; --i) append(tensors_, shape[i - 1]);
    append(tensors_, type);
    append(tensors_, static_cast<uint64_t>(data_.size()));
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
    ++num_tensors_;
  }

  std::string bytes() const {
    std::string file = "GGUF";
    append(file, uint32_t{3});
    append(file, num_tensors_);
    append(file, num_keys_);
    file += keys_;
    file += tensors_;
    file.resize((file.size() + 31) / 32 * 32);
    return file + data_;
  }

  void write(const std::filesystem::path& path) const { std::ofstream(path, std::ios::binary) << bytes(); }

 private:
  std::string& begin(std::string_view key, uint32_t type) {
    append_text(keys_, key);
    append(keys_, type);
    ++num_keys_;
    return keys_;
  }

  std::string keys_;
  std::string tensors_;
  std::string data_;
  uint64_t num_keys_ = 0;
  uint64_t num_tensors_ = 0;
};

}  // namespace lacuna::test
