#include "input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/open_file.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

/// The start of a text, short enough for an error message.
std::string excerpt(std::string_view text) {
  constexpr size_t kMax = 60;
  const std::string start = replace_ill_formed(text.substr(0, kMax));
  return text.size() > kMax ? start + "..." : start;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

/// Most bytes of a file or of standard input.
constexpr size_t kMaxInputBytes = size_t{64} << 20;

/// Reads a file or a pipe to its end.
///   place  its name, for messages
std::string read_bounded(int descriptor, std::string_view place) {
  std::string text;
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw InputError("{}: cannot be read to its end: {}", place, std::strerror(errno));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
    if (text.size() > kMaxInputBytes)
      throw InputError("{}: has more than {} bytes; expected a shorter file", place, kMaxInputBytes);
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  const FileDescriptor file = open_to_read(path, FileKind::kAnything);
  return read_bounded(file.number(), path);
}

std::string read_standard_input() {
  return read_bounded(STDIN_FILENO, "standard input");
}

std::string read_prompt_from_standard_input() {
  constexpr size_t kMaxBytes = size_t{16} << 20;
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    text.append(buffer, count);
    if (text.size() > kMaxBytes) {
      throw InputError("standard input has more than {} bytes; expected a prompt", kMaxBytes);
    }
  }
  if (std::ferror(stdin) != 0) throw InputError("standard input cannot be read");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (is_blank(text)) {
    throw InputError(
        "no prompt: standard input is empty; expected text there, or --prompt, --prompt-file, "
        "--prompt-tokens or --prompts-file");
  }
  return text;
}

std::string read_text_of(const std::optional<std::string>& file, const std::string& expected) {
  if (!file && isatty(STDIN_FILENO) != 0) throw InputError(expected);
  if (!file || *file == kStandardInput) return read_prompt_from_standard_input();
  std::string text = read_file(*file);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void expect_prompt(std::string_view text, std::string_view place) {
  if (is_blank(text)) throw InputError("no prompt: {} is empty; expected text", place);
}

std::vector<TokenId> parse_token_list(std::string_view text, std::string_view source) {
  const bool has_brackets = text.find('[') != std::string_view::npos;
  const std::string list = has_brackets ? std::string(text) : fmt::format("[{}]", text);
  nlohmann::json json;
  try {
    json = parse_json(list, source);
  } catch (const InputError&) {
    json = nullptr;  // the message below says more
  }
  const auto is_token = [](const nlohmann::json& value) {
    return value.is_number_integer() && value >= 0 && value <= std::numeric_limits<TokenId>::max();
  };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_token)) {
    throw InputError("{}: '{}' is not a list of token ids; expected integers separated by commas", source,
                     excerpt(text));
  }
  return json.get<std::vector<TokenId>>();
}

}  // namespace lacuna
