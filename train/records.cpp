#include "train/records.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/system.h"
#include "base/written_file.h"
#include "tokenizer/conversation.h"

namespace lacuna::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kFormat = 0x314b4f54'4143414cULL;  // changes with the layout of the cache
constexpr uint64_t kMaxLineBytes = uint64_t{64} << 20;
constexpr auto kProgressEvery = std::chrono::seconds(5);

/// A row in the cache's table, which follows the tokens of all rows.
struct Entry {
  uint64_t first;  // byte offset of the prompt's first token; the answer follows the prompt
  uint32_t prompt, answer;
};

/// The end of the cache, after the table and the summary.
struct Footer {
  uint64_t format, key, rows, summary_bytes;
};

uint64_t mixed(uint64_t key, std::string_view bytes) {
  for (const char c : bytes) key = mix_bits(key ^ static_cast<unsigned char>(c)) + 1;
  return mix_bits(key ^ bytes.size());
}

/// Hash of everything that the ids in a cache depend on.
uint64_t cache_key(const std::filesystem::path& file, const Vocabulary& vocabulary, int64_t row_length) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
    throw InputError("--data {}: expected a file of JSON lines", file.string());
  uint64_t key = mixed(1, vocabulary.chat.program());
  // The token ids of a varied text stand for the vocabulary.
  for (const TokenId token : vocabulary.tokenizer.encode(vocabulary.chat.program() + " The 12 quick été\n\t"))
    key = mix_bits(key ^ static_cast<uint64_t>(token)) + 1;
  const timespec modified = modification_time(status);
  for (const uint64_t number :
       {static_cast<uint64_t>(status.st_size), static_cast<uint64_t>(modified.tv_sec),
        static_cast<uint64_t>(modified.tv_nsec), static_cast<uint64_t>(row_length),
        static_cast<uint64_t>(vocabulary.tokenizer.size()), static_cast<uint64_t>(vocabulary.ids.end)})
    key = mix_bits(key ^ number) + 1;
  return key;
}

/// Encodes lines and writes their rows.
class Encoder {
 public:
  Encoder(const std::filesystem::path& file, const Vocabulary& vocabulary, int64_t row_length,
          WrittenFile& out)
      : file_(file), vocabulary_(vocabulary), row_length_(static_cast<size_t>(row_length)), out_(out) {
    for (const std::optional<TokenId> end : {end_of_turn(vocabulary.tokenizer), {vocabulary.ids.end}}) {
      if (end) ends_.push_back(*end);
    }
  }

  void read(std::string_view text, uint64_t line) {
    const std::string place = fmt::format("{} line {}", file_.string(), line);
    const Json record = parse_ordered_json(text, place);
    if (!record.is_object()) throw InputError("{}: expected an object", place);
    const auto has = [&](const char* key) { return record.contains(key) && !record[key].is_null(); };
    const auto text_of = [&](const char* key) -> std::string {
      if (!record[key].is_string()) throw InputError("{}: expected a text as \"{}\"", place, key);
      return record[key];
    };
    std::set<std::string_view> read_keys;
    if (has("messages")) {
      read_keys = {"messages", "tools"};
      add_conversation(record, place);
    } else if (has("response") && (has("prompt") || has("query"))) {
      const char* const question = has("prompt") ? "prompt" : "query";
      read_keys = {question, "response"};
      add_pair(text_of(question), text_of("response"));
    } else if (has("text")) {
      read_keys = {"text"};
      add_text(text_of("text"));
    } else {
      throw InputError(
          "{}: expected \"messages\", \"prompt\" and \"response\", \"query\" and \"response\", or \"text\"",
          place);
    }
    for (const auto& [key, value] : record.items()) {
      if (!read_keys.contains(key)) unread_.insert(key.substr(0, kShownKey));
    }
  }

  /// Writes the last row, the table, the summary and the footer.
  void finish(uint64_t key) {
    flush_text(/*is_last=*/true);
    if (table_.empty()) throw InputError("--data {}: no row; {}", file_.string(), left_out());
    const std::string summary =
        fmt::format("{}: {} rows, {} tokens{}{}", file_.filename().string(), table_.size(), tokens_,
                    left_out().empty() ? "" : "; ", left_out());
    out_.write(std::as_bytes(std::span(table_)));
    out_.write(summary);
    const Footer footer{kFormat, key, table_.size(), summary.size()};
    out_.write(std::as_bytes(std::span(&footer, 1)));
  }

  size_t rows() const { return table_.size(); }

 private:
  static constexpr size_t kShownKey = 40, kMaxShownKeys = 8;

  std::string left_out() const {
    std::string text;
    const auto add = [&](uint64_t count, const std::string& why) {
      if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "left out: " : ", ", count, why);
    };
    add(too_long_, fmt::format("of more than {} tokens (--row-length)", row_length_));
    add(no_answer_, "without an answer");
    add(rewritten_, "whose chat template writes an answer otherwise once it is there");
    if (!unread_.empty()) {
      text += text.empty() ? "not read: " : "; not read: ";
      size_t shown = 0;
      for (const std::string& key : unread_) {
        if (shown == kMaxShownKeys) break;
        text += fmt::format("{}{}", shown++ == 0 ? "" : ", ", in_quotes(key));
      }
    }
    return text;
  }

  void add_row(std::span<const TokenId> prompt, std::span<const TokenId> answer) {
    if (answer.empty() || prompt.empty()) {
      ++no_answer_;
    } else if (prompt.size() + answer.size() > row_length_) {
      ++too_long_;
    } else {
      table_.push_back({sizeof(TokenId) * tokens_, static_cast<uint32_t>(prompt.size()),
                        static_cast<uint32_t>(answer.size())});
      out_.write(std::as_bytes(prompt));
      out_.write(std::as_bytes(answer));
      tokens_ += prompt.size() + answer.size();
    }
  }

  void add_conversation(const Json& record, const std::string& place) {
    const Json& messages = record["messages"];
    const auto is_message = [](const Json& message) {
      return message.is_object() && message.contains("role") && message["role"].is_string();
    };
    if (!messages.is_array() || !std::all_of(messages.begin(), messages.end(), is_message))
      throw InputError("{}: expected \"messages\" as a list of objects with \"role\"", place);
    Conversation conversation;
    if (record.contains("tools")) conversation.tools = record["tools"];
    for (const Json& message : messages) {
      if (message["role"] == "assistant" && !conversation.messages.empty())
        add_turn(conversation, message, place);
      conversation.messages.push_back(message);
    }
  }

  /// The assistant's message that follows a conversation.
  void add_turn(Conversation conversation, const Json& message, const std::string& place) {
    if (vocabulary_.chat.is_none())
      throw InputError("{}: the model has no chat template for \"messages\"; expected \"text\"", place);
    const std::vector<TokenId> prompt =
        render_prompt(vocabulary_.chat, vocabulary_.tokenizer, conversation).tokens;
    conversation.messages.push_back(message);
    conversation.add_generation_prompt = false;
    std::vector<TokenId> whole = render_prompt(vocabulary_.chat, vocabulary_.tokenizer, conversation).tokens;
    if (whole.size() < prompt.size() || !std::equal(prompt.begin(), prompt.end(), whole.begin())) {
      ++rewritten_;
      return;
    }
    whole.erase(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
    // Text that a template writes after a turn's end token belongs to the next turn.
    const auto end = std::find_first_of(whole.begin(), whole.end(), ends_.begin(), ends_.end());
    if (end == whole.end()) {
      whole.push_back(vocabulary_.ids.end);
    } else {
      whole.erase(end + 1, whole.end());
    }
    add_row(prompt, whole);
  }

  void add_pair(const std::string& question, const std::string& answer) {
    if (!vocabulary_.chat.is_none()) {
      Conversation conversation;
      conversation.add("user", question);
      return add_turn(conversation, Json{{"role", "assistant"}, {"content", answer}}, "");
    }
    std::vector<TokenId> tokens = vocabulary_.tokenizer.encode(answer);
    tokens.push_back(vocabulary_.ids.end);
    add_row(vocabulary_.tokenizer.encode(question), tokens);
  }

  void add_text(const std::string& text) {
    const std::vector<TokenId> tokens = vocabulary_.tokenizer.encode(text);
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    text_.push_back(vocabulary_.ids.end);
    flush_text(/*is_last=*/false);
  }

  void flush_text(bool is_last) {
    std::span<const TokenId> left = text_;
    while (left.size() >= row_length_ || (is_last && left.size() > 1)) {
      const std::span<const TokenId> row = left.first(std::min(row_length_, left.size()));
      add_row(row.first(1), row.subspan(1));
      left = left.subspan(row.size());
    }
    text_.erase(text_.begin(), text_.end() - static_cast<std::ptrdiff_t>(left.size()));
  }

  const std::filesystem::path& file_;
  const Vocabulary& vocabulary_;
  const size_t row_length_;
  WrittenFile& out_;
  std::vector<TokenId> ends_;
  std::vector<TokenId> text_;  // tokens of texts that are not yet in a row
  std::vector<Entry> table_;
  uint64_t tokens_ = 0;
  uint64_t too_long_ = 0, no_answer_ = 0, rewritten_ = 0;
  std::set<std::string> unread_;
};

void write_cache(const std::filesystem::path& file, const Vocabulary& vocabulary, int64_t row_length,
                 const std::filesystem::path& cache, uint64_t key) {
  std::ifstream lines(file);
  if (!lines) throw InputError("--data {}: cannot be read", file.string());
  WrittenFile out(cache);
  Encoder encoder(file, vocabulary, row_length, out);
  auto shown = std::chrono::steady_clock::now();
  uint64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.size() > kMaxLineBytes)
      throw InputError("{} line {}: {} bytes; expected at most {}", file.string(), number, line.size(),
                       kMaxLineBytes);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    encoder.read(line, number);
    if (std::chrono::steady_clock::now() - shown < kProgressEvery) continue;
    shown = std::chrono::steady_clock::now();
    fmt::print(stderr, "{}: {} lines, {} rows\n", file.filename().string(), number, encoder.rows());
  }
  encoder.finish(key);
  out.commit();
}

/// The footer of a cache; empty if the file is not a cache.
std::optional<Footer> read_footer(std::span<const std::byte> bytes) {
  Footer footer;
  if (bytes.size() < sizeof footer) return {};
  std::memcpy(&footer, bytes.last(sizeof footer).data(), sizeof footer);
  const size_t room = bytes.size() - sizeof footer;
  if (footer.format != kFormat || footer.summary_bytes > room ||
      footer.rows > (room - footer.summary_bytes) / sizeof(Entry))
    return {};
  return footer;
}

bool is_current(const std::filesystem::path& cache, uint64_t key) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(cache, error) || std::filesystem::file_size(cache, error) == 0)
    return false;
  const MappedFile mapped = MappedFile::open(cache);
  const std::optional<Footer> footer = read_footer(mapped.bytes());
  return footer && footer->key == key;
}

}  // namespace

Records Records::open(const std::filesystem::path& file, const Vocabulary& vocabulary, int64_t row_length,
                      const std::filesystem::path& cache) {
  const uint64_t key = cache_key(file, vocabulary, row_length);
  if (!is_current(cache, key)) write_cache(file, vocabulary, row_length, cache, key);
  Records records(MappedFile::open(cache));
  const std::span<const std::byte> bytes = records.cache_.bytes();
  const std::optional<Footer> footer = read_footer(bytes);
  expects(footer.has_value(), "a cache that was just written can be read");
  const size_t table_bytes = footer->rows * sizeof(Entry);
  const size_t table = bytes.size() - sizeof(Footer) - footer->summary_bytes - table_bytes;
  records.size_ = footer->rows;
  records.table_ = bytes.subspan(table, table_bytes);
  records.summary_ = std::string(records.cache_.text().substr(table + table_bytes, footer->summary_bytes));
  return records;
}

Records::Row Records::row(uint64_t index) const {
  expects(index < size_, "rows are numbered from 0");
  Entry entry;
  std::memcpy(&entry, table_.data() + index * sizeof entry, sizeof entry);
  const size_t end = entry.first + sizeof(TokenId) * (uint64_t{entry.prompt} + entry.answer);
  if (end > cache_.bytes().size())
    throw InputError("the cached rows were changed; remove them to have the data encoded again");
  const auto* const tokens = reinterpret_cast<const TokenId*>(cache_.bytes().data() + entry.first);
  return {{tokens, entry.prompt}, {tokens + entry.prompt, entry.answer}};
}

}  // namespace lacuna::train
