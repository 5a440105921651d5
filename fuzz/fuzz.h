// Helpers of all fuzz targets: checks, and splitting one input into several texts or files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace fuzz {

/// Ends the program where a promise is broken, which the fuzzer reports as a crash.
inline void check(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: a check failed\n", file, line);
  std::abort();
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Cuts `rest` after its first zero byte and returns what was before it.
inline std::string_view next_text(std::string_view& rest) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view text = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return text;
}

/// The files of a folder in one input: each begins with the line "--- NAME".
using Files = std::vector<std::pair<std::string, std::string>>;
inline constexpr std::string_view kFileMark = "--- ";

inline Files split_files(std::string_view input) {
  Files files;
  while (input.starts_with(kFileMark)) {
    const size_t line = std::min(input.find('\n'), input.size());
    const std::string_view name = input.substr(kFileMark.size(), line - kFileMark.size());
    input.remove_prefix(std::min(line + 1, input.size()));
    const size_t next = input.find("\n--- ");
    files.emplace_back(name, input.substr(0, next));
    input.remove_prefix(next == std::string_view::npos ? input.size() : next + 1);
  }
  return files;
}

inline std::string join_files(const Files& files) {
  std::string input;
  for (const auto& [name, content] : files) {
    if (!input.empty()) input += '\n';
    input.append(kFileMark).append(name).append("\n").append(content);
  }
  return input;
}

/// A folder of the process's own, in memory where the system can do that.
class ScratchFolder {
 public:
  ScratchFolder() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code ignored;
    const auto base =
        std::filesystem::is_directory(memory, ignored) ? memory : std::filesystem::temp_directory_path();
    std::string name = (base / "lacuna-fuzz-XXXXXX").string();
    check(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view file, std::string_view content) const {
    std::ofstream(path_ / file, std::ios::binary) << content;
  }
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::filesystem::remove_all(entry.path());
    }
  }
  /// Holds these files and no others. Files whose names lead elsewhere are left out.
  void replace(const Files& files) const {
    clear();
    for (const auto& [name, content] : files) {
      const bool is_plain = !name.empty() && name.size() < 100 && name != "." && name != ".." &&
                            name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
      if (is_plain) write(name, content);
    }
  }

 private:
  std::filesystem::path path_;
};

}  // namespace fuzz
