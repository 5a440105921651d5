#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/json_file.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer_files.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

std::string bytes_of_characters(const std::string& text) {
  const auto byte = byte_of_token(text);
  return byte ? std::string(1, *byte) : unescape_spaces(text);
}

// Collects the bytes of each id. Throws InputError if an id is out of range or has two texts.
std::vector<std::string> bytes_by_id(const TokenizerParts& parts) {
  constexpr size_t kTokenBytesMax = size_t{1} << 14;  // several times the longest published
  std::vector<const std::string*> texts;
  const auto claim = [&](TokenId id, const std::string& text) {
    if (id < 0 || id > kMaxTokenId) {
      throw InputError("{}: token '{}' has id {}, outside [0, {}]", parts.name, text, id, kMaxTokenId);
    }
    if (text.size() > kTokenBytesMax) {
      throw InputError("{}: token {} has {} bytes, more than the {} allowed", parts.name, id, text.size(),
                       kTokenBytesMax);
    }
    if (static_cast<size_t>(id) >= texts.size()) texts.resize(static_cast<size_t>(id) + 1);
    if (texts[id] != nullptr && *texts[id] != text) {
      throw InputError("{}: tokens '{}' and '{}' both have id {}", parts.name, *texts[id], text, id);
    }
    texts[id] = &text;
  };
  for (const auto& [text, id] : parts.bpe.vocab) claim(id, text);
  for (const AddedToken& token : parts.added_tokens) claim(token.id, token.content);

  const bool has_characters = parts.bpe.symbols == BpeSymbols::kCharacters;
  std::vector<std::string> bytes(texts.size());
  for (size_t id = 0; id < texts.size(); ++id) {
    if (texts[id] == nullptr) continue;
    bytes[id] = has_characters ? bytes_of_characters(*texts[id])
                               : from_byte_characters(*texts[id]).value_or(*texts[id]);
  }
  if (has_characters) return bytes;
  // An added token without a vocabulary entry is plain text, even if its letters could spell bytes.
  for (const AddedToken& token : parts.added_tokens) {
    if (!parts.bpe.vocab.contains(token.content)) bytes[token.id] = token.content;
  }
  return bytes;
}

// Ids of added tokens by content. Throws InputError if one has two ids.
std::unordered_map<std::string, TokenId> added_ids(const TokenizerParts& parts) {
  std::unordered_map<std::string, TokenId> ids;
  for (const AddedToken& token : parts.added_tokens) {
    const auto entry = parts.bpe.vocab.find(token.content);
    const TokenId known = entry != parts.bpe.vocab.end() ? entry->second : token.id;
    const TokenId id = ids.emplace(token.content, known).first->second;
    if (id != token.id) {
      throw InputError("{}: token '{}' has two ids, {} and {}", parts.name, token.content, id, token.id);
    }
  }
  return ids;
}

enum class Search { kAsGiven, kAsNormalized, kInTemplates };

AddedTokenFinder finder(const TokenizerParts& parts, const Normalizer& normalizer, Search search) {
  constexpr size_t kAddedTokenBytesMax = 1024;
  const bool normalized = search == Search::kAsNormalized;
  size_t total = 0;
  std::vector<AddedTokenFinder::Pattern> patterns;
  for (const AddedToken& token : parts.added_tokens) {
    const bool is_searched =
        token.normalized == normalized || (search == Search::kInTemplates && token.special);
    if (!is_searched) continue;
    if (token.content.size() > kAddedTokenBytesMax) {
      throw InputError("{}: added token {} has {} bytes, more than the {} allowed", parts.name, token.id,
                       token.content.size(), kAddedTokenBytesMax);
    }
    std::string text = normalized ? normalizer.apply(token.content) : token.content;
    total += text.size();
    if (total > AddedTokenFinder::kTotalBytesMax) {
      throw InputError("{}: added tokens have more than the {} bytes allowed for all of them", parts.name,
                       AddedTokenFinder::kTotalBytesMax);
    }
    if (!text.empty()) patterns.push_back({std::move(text), token});
  }
  return AddedTokenFinder(std::move(patterns));
}

std::optional<AddedTokenFinder> finder_in_templates(const TokenizerParts& parts,
                                                    const Normalizer& normalizer) {
  const bool differs = std::any_of(parts.added_tokens.begin(), parts.added_tokens.end(),
                                   [](const AddedToken& token) { return token.special && token.normalized; });
  return differs ? std::optional(finder(parts, normalizer, Search::kInTemplates)) : std::nullopt;
}

std::vector<bool> special_flags(const TokenizerParts& parts, size_t num_ids) {
  std::vector<bool> special(num_ids);
  for (const AddedToken& token : parts.added_tokens) special[token.id] = token.special;
  return special;
}

}  // namespace

namespace {

/// Reports a folder without supported files, with a hint on how to convert the files that it has.
[[noreturn]] void refuse_files(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const bool is_tiktoken = name.ends_with(".tiktoken");
    const bool is_model = name.ends_with(".model") || name.starts_with("tokenizer.model.");
    const bool is_half = name == "vocab.json" || name == "merges.txt";
    if (!is_tiktoken && !is_model && !is_half && name != "tekken.json" && name != "vocab.txt") continue;
    throw InputError(
        "{}: has {}, which is not read{}, and no tokenizer.json; expected the latter, which {} of the Python "
        "library transformers writes",
        folder.string(), in_quotes(name), is_half ? " by itself" : "",
        is_tiktoken ? "convert_slow_tokenizer.TikTokenConverter"
                    : "AutoTokenizer.from_pretrained(...).save_pretrained(...)");
  }
  throw InputError("{}: has neither tokenizer.json nor vocab.json with merges.txt", folder.string());
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  if (GgufFile::is_gguf(folder)) return Tokenizer(read_gguf_tokenizer(GgufFile::open(folder)));
  const bool has_json = has_file(folder / "tokenizer.json");
  if (!has_json && !(has_file(folder / "vocab.json") && has_file(folder / "merges.txt"))) {
    refuse_files(folder);
  }
  TokenizerParts parts;
  if (has_json) {
    const std::string name = (folder / "tokenizer.json").string();
    const nlohmann::json document = parse_json(read_text_file(name), name);
    parts = read_tokenizer_json(JsonValue(document, name));
  } else {
    parts = read_tokenizer_trio(folder);
  }
  if (const auto path = folder / "tokenizer_config.json"; has_file(path)) {
    const nlohmann::json document = parse_json(read_text_file(path), path.string());
    add_config_tokens(JsonValue(document, path.string()), parts);
  }
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view source_name) {
  const nlohmann::json document = parse_json(json, source_name);
  return Tokenizer(read_tokenizer_json(JsonValue(document, std::string(source_name))));
}

Tokenizer::Tokenizer(TokenizerParts parts)
    : bytes_(bytes_by_id(parts)),
      special_(special_flags(parts, bytes_.size())),
      added_ids_(added_ids(parts)),
      normalizer_(parts.normalization, fmt::format("{}: normalizer", parts.name)),
      added_as_given_(finder(parts, normalizer_, Search::kAsGiven)),
      added_as_normalized_(finder(parts, normalizer_, Search::kAsNormalized)),
      added_in_templates_(finder_in_templates(parts, normalizer_)),
      pre_tokenizer_(parts.pre_tokenizer, parts.bpe.symbols, fmt::format("{}: pre_tokenizer", parts.name)),
      bpe_(std::move(parts.bpe), special_) {}

template <typename Encode>
void Tokenizer::encode_parts(std::string_view text, std::vector<TokenId>& tokens, Encode&& encode) const {
  constexpr size_t kTextBytesMax = size_t{1} << 30;  // symbols of one pre-token are counted in 32 bits
  if (text.size() > kTextBytesMax) {
    throw InputError("the text has {} bytes, more than the {} allowed", text.size(), kTextBytesMax);
  }
  size_t done = 0;
  while (done < text.size()) {
    const size_t length = well_formed_prefix(text.substr(done));
    encode(text.substr(done, length), done);
    done += length;
    if (done == text.size()) break;
    bpe_.encode(text.substr(done, 1), tokens);
    ++done;
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<TokenId> tokens;
  encode_parts(text, tokens, [&](std::string_view part, size_t offset) {
    encode_spans(part, added_as_given_.split(part, special), special, offset == 0, tokens);
  });
  return tokens;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, std::span<const TextRange> literal) const {
  const AddedTokenFinder& finder = added_in_templates_ ? *added_in_templates_ : added_as_given_;
  std::vector<TokenId> tokens;
  auto next = literal.begin();
  encode_parts(text, tokens, [&](std::string_view part, size_t offset) {
    const size_t part_end = offset + part.size();
    std::vector<TextRange> ranges;
    while (next != literal.end() && next->end <= offset) ++next;
    for (auto range = next; range != literal.end() && range->begin < part_end; ++range)
      ranges.push_back({std::max(range->begin, offset) - offset, std::min(range->end, part_end) - offset});
    encode_spans(part, finder.split(part, ranges), SpecialTokens::kAsText, offset == 0, tokens);
  });
  return tokens;
}

void Tokenizer::encode_spans(std::string_view text, std::span<const AddedTokenSpan> spans,
                             SpecialTokens special, bool begins_text, std::vector<TokenId>& tokens) const {
  for (const AddedTokenSpan& given : spans) {
    if (given.token != nullptr) {
      tokens.push_back(given.token->id);
      continue;
    }
    const std::string normalized = normalizer_.apply(given.range.of(text));
    for (const AddedTokenSpan& span : added_as_normalized_.split(normalized, special)) {
      if (span.token != nullptr) {
        tokens.push_back(span.token->id);
      } else {
        const bool is_first = begins_text && given.range.begin == 0 && span.range.begin == 0;
        encode_plain(span.range.of(normalized), is_first, tokens);
      }
    }
  }
}

void Tokenizer::encode_plain(std::string_view text, bool begins_text, std::vector<TokenId>& tokens) const {
  const Pieces pieces = pre_tokenizer_.split(text, begins_text);
  for (const TextRange range : pieces.ranges) bpe_.encode(range.of(pieces.text), tokens);
}

std::string_view Tokenizer::piece(TokenId id, bool skip_special) const {
  if (id < 0 || id >= size() || (skip_special && is_special(id))) return {};
  return bytes_[id];
}

std::string Tokenizer::decode(std::span<const TokenId> tokens, bool skip_special) const {
  std::string text;
  for (const TokenId id : tokens) text += piece(id, skip_special);
  return text;
}

std::optional<TokenId> Tokenizer::token_of(std::string_view text) const {
  const std::vector<TokenId> tokens = encode(text);
  if (tokens.size() != 1) return std::nullopt;
  return tokens.front();
}

size_t Tokenizer::decoded_bytes(std::span<const TokenId> tokens, bool skip_special) const {
  size_t bytes = 0;
  for (const TokenId id : tokens) bytes += piece(id, skip_special).size();
  return bytes;
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  const auto added = added_ids_.find(std::string(token));
  return added != added_ids_.end() ? std::optional(added->second) : bpe_.id_of(token);
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && id < size() && special_[id];
}

}  // namespace lacuna
