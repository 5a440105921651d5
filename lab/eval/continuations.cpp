#include "eval/continuations.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/error.h"
#include "eval/benchmarks.h"

namespace lacuna {
namespace {

/// Bytes of text that are tokenized per requested token.
constexpr size_t kMaxBytesPerToken = 256;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

/// Length of the text without an incomplete UTF-8 character at its end.
size_t whole_characters(std::string_view text) {
  size_t begin = text.size();  // of the last character
  while (begin > 0 && text.size() - begin < 4) {
    const auto byte = static_cast<unsigned char>(text[--begin]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    return text.size() - begin < length ? begin : text.size();
  }
  return text.size();
}

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = read_plain_or_gzip(path);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (is_blank(line)) continue;
    if (lines.size() == kMaxBenchmarkItems) {
      throw InputError("{}: expected at most {} lines", path, kMaxBenchmarkItems);
    }
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

std::vector<std::string> read_records(const std::string& path) {
  std::vector<std::string> records;
  if (path.find(".jsonl") == std::string::npos) {
    records = read_lines(path);
  } else {
    read_json_lines(path, [&](const nlohmann::json&, const JsonObject& object) {
      std::string text = object.text("text");
      if (!is_blank(text)) records.push_back(std::move(text));
    });
  }
  if (records.empty()) throw InputError("{}: expected at least one record with a text", path);
  return records;
}

std::string beginning_of(const Tokenizer& tokenizer, const std::string& record, int32_t length) {
  const auto most = static_cast<size_t>(length);
  const std::vector<TokenId> tokens = tokenizer.encode(record.substr(0, most * kMaxBytesPerToken));
  if (tokens.size() <= most && record.size() <= most * kMaxBytesPerToken) return record;
  std::string text = tokenizer.decode(std::span(tokens).first(std::min(most, tokens.size())));
  text.resize(whole_characters(text));
  return text;
}

}  // namespace lacuna
