#include "engine/quoted_arguments_reader.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace lacuna {
namespace {

/// Escapes one byte of a text for a JSON string.
std::string escaped(char c) {
  if (static_cast<unsigned char>(c) >= 0x80) return {c};
  const std::string quoted = nlohmann::json(std::string(1, c)).dump();
  return quoted.substr(1, quoted.size() - 2);
}

std::string json_string_of(const std::string& word) {
  std::string text = "\"";
  for (const char each : word) text += escaped(each);
  return text + "\"";
}

bool is_json_scalar(const std::string& word) {
  const auto value = nlohmann::json::parse(word, nullptr, false);
  return value.is_number() || value.is_boolean() || value.is_null();
}

}  // namespace

std::string QuotedArgumentsReader::advance(std::string& unread, std::string_view quote) {
  std::string json;
  size_t used = 0;
  while (used < unread.size() && !is_over_) {
    const std::string_view rest = std::string_view(unread).substr(used);
    if (rest.starts_with(quote)) {
      json += '"';
      is_in_quotes_ = !is_in_quotes_;
      used += quote.size();
    } else if (quote.starts_with(rest)) {
      break;  // it may become a quote
    } else if (is_in_quotes_) {
      json += escaped(unread[used++]);
    } else {
      take(unread[used++], json);
    }
  }
  unread.erase(0, used);
  return json;
}

void QuotedArgumentsReader::take(char c, std::string& json) {
  switch (c) {
    case '{':
    case '[':
      open_ += c;
      json += c;
      expects_key_ = c == '{';
      return;
    case '}':
    case ']':
      end_word(json);
      json += c;
      if (!open_.empty()) open_.pop_back();
      is_over_ = open_.empty();
      expects_key_ = false;
      return;
    case ',':
      end_word(json);
      json += ", ";
      expects_key_ = open_.ends_with('{');
      return;
    case ':':
      if (!expects_key_) break;
      if (!word_.empty()) json += json_string_of(std::exchange(word_, std::string()));
      json += ": ";
      expects_key_ = false;
      return;
    case ' ':
    case '\t':
    case '\r':
    case '\n':
      if (word_.empty()) return;
      break;
    default:
      break;
  }
  word_ += c;
}

void QuotedArgumentsReader::end_word(std::string& json) {
  word_.erase(word_.find_last_not_of(" \t\r\n") + 1);
  if (word_.empty()) return;
  json += is_json_scalar(word_) ? word_ : json_string_of(word_);
  word_.clear();
}

}  // namespace lacuna
