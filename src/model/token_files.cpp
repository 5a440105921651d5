#include "model/token_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Collects "id" and "content" of the objects in the outermost object's list "added_tokens", and stops
/// parsing after that list.
class AddedTokensReader : public nlohmann::json_sax<Json> {
 public:
  std::vector<ListedToken> take() { return std::move(tokens_); }
  /// Whether parsing stopped after the list.
  bool is_done() const { return is_done_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t value) override { return take_id(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return take_id(value <= kLastId ? static_cast<int64_t>(value) : -1);
  }
  bool number_float(number_float_t /*value*/, const string_t& /*digits*/) override { return true; }
  bool string(string_t& value) override {
    if (is_in_token() && key_ == "content") tokens_.back().text = std::move(value);
    return true;
  }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON text has none

  bool start_object(size_t /*elements*/) override {
    if (is_in_list_ && depth_ == 2) tokens_.emplace_back();
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(size_t /*elements*/) override {
    if (depth_ == 1 && key_ == "added_tokens") is_in_list_ = true;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    is_done_ = is_in_list_ && depth_ == 1;
    return !is_done_;
  }
  bool key(string_t& key) override {
    key_ = depth_ == 1 || is_in_token() ? key : string_t();
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const Json::exception& /*error*/) override {
    return false;
  }

 private:
  static constexpr uint64_t kLastId = std::numeric_limits<int32_t>::max();

  bool is_in_token() const { return is_in_list_ && depth_ == 3; }
  bool take_id(int64_t value) {
    if (is_in_token() && key_ == "id") tokens_.back().id = value;
    return true;
  }

  std::vector<ListedToken> tokens_;
  std::string key_;
  size_t depth_ = 0;
  bool is_in_list_ = false;
  bool is_done_ = false;
};

int64_t id_of(const std::string& digits) {
  TokenId id = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  return error == std::errc() && end == digits.data() + digits.size() ? id : -1;
}

/// Reads {"5": {"content": "<|mask|>"}}.
std::vector<ListedToken> read_decoder(const JsonObject& tokens) {
  std::vector<ListedToken> listed;
  for (const std::string& key : tokens.keys())
    listed.push_back({id_of(key), tokens.object(key).text("content", "")});
  return listed;
}

/// Reads {"<|mask|>": 5}.
std::vector<ListedToken> read_ids_by_text(const JsonObject& tokens) {
  std::vector<ListedToken> listed;
  for (const std::string& text : tokens.keys()) {
    const Json* const id = tokens.value(text);
    const bool is_id = id != nullptr && id->is_number_unsigned() &&
                       id->get<uint64_t>() <= uint64_t{std::numeric_limits<int32_t>::max()};
    listed.push_back({is_id ? id->get<int64_t>() : -1, text});
  }
  return listed;
}

/// The tokens of a list with one of these texts, in the order of the texts.
std::vector<const ListedToken*> tokens_with(const TokenList& list, std::span<const std::string> texts) {
  std::vector<const ListedToken*> found;
  for (const std::string& text : texts) {
    for (const ListedToken& token : list.tokens) {
      if (token.text == text) found.push_back(&token);
    }
  }
  return found;
}

}  // namespace

std::vector<ListedToken> read_added_tokens(std::string_view text, const std::string& file) {
  AddedTokensReader reader;
  if (!Json::sax_parse(text, &reader) && !reader.is_done())
    throw InputError("{}: is not valid JSON; expected the file of a tokenizer", file);
  return reader.take();
}

TokenFiles::TokenFiles(const ConfigTexts& texts, const fs::path& folder) {
  const auto path = [&](const char* name) { return (folder / name).string(); };
  const auto read_roles = [&](const JsonObject& object) {
    for (const std::string& role : object.keys()) {
      if (!role.ends_with("_token")) continue;
      const Json* const value = object.value(role);
      if (value == nullptr) continue;
      const Json* const text =
          value->is_object() && value->contains("content") ? &(*value)["content"] : value;
      if (text->is_string()) named_.push_back({role, text->get<std::string>()});
    }
  };
  if (!texts.tokenizer.empty()) {
    const std::string file = path("tokenizer.json");
    lists_.push_back({file, read_added_tokens(texts.tokenizer, file)});
  }
  if (!texts.tokenizer_config.empty()) {
    const std::string file = path("tokenizer_config.json");
    const Json parsed = parse_json(texts.tokenizer_config, file);
    const JsonObject object(parsed, file);
    if (object.has("added_tokens_decoder"))
      lists_.push_back({file, read_decoder(object.object("added_tokens_decoder"))});
    read_roles(object);
  }
  if (!texts.special_tokens_map.empty()) {
    const std::string file = path("special_tokens_map.json");
    const Json parsed = parse_json(texts.special_tokens_map, file);
    read_roles(JsonObject(parsed, file));
  }
  if (!texts.added_tokens.empty()) {
    const std::string file = path("added_tokens.json");
    const Json parsed = parse_json(texts.added_tokens, file);
    lists_.push_back({file, read_ids_by_text(JsonObject(parsed, file))});
  }
}

std::vector<std::string> TokenFiles::texts_of(std::string_view role) const {
  std::vector<std::string> texts;
  for (const NamedText& named : named_) {
    if (named.role == role) texts.push_back(named.text);
  }
  return texts;
}

std::optional<TokenClaim> find_token(std::vector<TokenClaim> claims, const TokenFiles& tokens,
                                     std::span<const std::string> texts, int64_t vocab_size,
                                     std::string_view role) {
  const auto disagree = [&](const TokenClaim& a, const TokenClaim& b) {
    throw InputError("the {} token is {} by {} and {} by {}; expected one id", role, a.id, a.source, b.id,
                     b.source);
  };
  for (size_t i = 1; i < claims.size(); ++i) {
    if (claims[i].id != claims[0].id) disagree(claims[0], claims[i]);
  }
  for (const TokenList& list : tokens.lists()) {
    std::vector<TokenClaim> listed;
    for (const ListedToken* const token : tokens_with(list, texts)) {
      if (token->id < 0 || token->id >= vocab_size) {
        throw InputError("{}: the token {} has no id from 0 to {}; expected one", list.file,
                         in_quotes(token->text), vocab_size - 1);
      }
      listed.push_back(
          {static_cast<TokenId>(token->id), fmt::format("{} in {}", in_quotes(token->text), list.file)});
    }
    if (listed.empty()) continue;
    const auto agrees = [&](const TokenClaim& claim) { return claim.id == claims[0].id; };
    if (claims.empty()) {
      claims.push_back(listed.front());
    } else if (std::none_of(listed.begin(), listed.end(), agrees)) {
      disagree(claims[0], listed.front());
    }
  }
  if (claims.empty()) return {};
  return claims.front();
}

}  // namespace lacuna
