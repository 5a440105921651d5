// Token ids from other files than config.json: lists of added tokens with their texts, and the texts of the
// mask and end tokens.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace lacuna {

struct ConfigTexts;

/// A token that a file lists by its text.
struct ListedToken {
  int64_t id = -1;  ///< unchecked; -1: the file has no numeric id
  std::string text;
};

/// The tokens that one file lists.
struct TokenList {
  std::string file;
  std::vector<ListedToken> tokens;
};

/// Reads "added_tokens" of a tokenizer.json, without parsing anything after that list, in time proportional
/// to the text before it. Throws InputError if that part is not JSON.
std::vector<ListedToken> read_added_tokens(std::string_view text, const std::string& file);

/// Special tokens in the files of a tokenizer.
class TokenFiles {
 public:
  /// Throws InputError if a file is not JSON.
  TokenFiles(const ConfigTexts& texts, const std::filesystem::path& folder);

  /// The lists of tokenizer.json, tokenizer_config.json and added_tokens.json, in this order, if present.
  const std::vector<TokenList>& lists() const { return lists_; }

  /// The texts of a role such as "mask_token" in tokenizer_config.json and special_tokens_map.json.
  std::vector<std::string> texts_of(std::string_view role) const;

 private:
  struct NamedText {
    std::string role, text;
  };

  std::vector<TokenList> lists_;
  std::vector<NamedText> named_;
};

/// A token id and its source.
struct TokenClaim {
  TokenId id = -1;
  std::string source;  ///< for messages: `"mask_token_id" in FOLDER/config.json`
};

/// The token on which all sources agree; empty if no source names one.
///   claims  from config.json and generation_config.json; the first one is returned
///   tokens  tokens with one of `texts` count, earlier texts first
/// Throws InputError naming both sources if two disagree, and for an id outside of the vocabulary.
std::optional<TokenClaim> find_token(std::vector<TokenClaim> claims, const TokenFiles& tokens,
                                     std::span<const std::string> texts, int64_t vocab_size,
                                     std::string_view role);

}  // namespace lacuna
