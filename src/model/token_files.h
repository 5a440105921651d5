// Token ids that stand in other files than config.json: lists of added tokens with their texts, and which
// text is the mask or the end.
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
  int64_t id = -1;  ///< not checked; -1: the file gives none that is a number
  std::string text;
};

/// The tokens that one file lists.
struct TokenList {
  std::string file;
  std::vector<ListedToken> tokens;
};

/// "added_tokens" of a tokenizer.json, of which nothing behind that list is parsed. Takes time in proportion
/// to what comes before it. Throws InputError where that is not JSON.
std::vector<ListedToken> read_added_tokens(std::string_view text, const std::string& file);

/// Special tokens as the files of a tokenizer name them, in the order in which they are asked.
class TokenFiles {
 public:
  /// Throws InputError for files that are not JSON.
  TokenFiles(const ConfigTexts& texts, const std::filesystem::path& folder);

  /// tokenizer.json, tokenizer_config.json, added_tokens.json: those that are there.
  const std::vector<TokenList>& lists() const { return lists_; }

  /// The texts that tokenizer_config.json and special_tokens_map.json give a role such as "mask_token".
  std::vector<std::string> texts_of(std::string_view role) const;

 private:
  struct NamedText {
    std::string role, text;
  };

  std::vector<TokenList> lists_;
  std::vector<NamedText> named_;
};

/// The id of a token, and where it was found.
struct TokenClaim {
  TokenId id = -1;
  std::string source;  ///< for messages: `"mask_token_id" in FOLDER/config.json`
};

/// The token that all sources mean; empty if none names it.
///   claims  of config.json and generation_config.json, the first is preferred
///   tokens  those with one of `texts` are meant, the earlier text the more
/// Throws InputError that names both sources where two disagree, and for an id outside of the vocabulary.
std::optional<TokenClaim> find_token(std::vector<TokenClaim> claims, const TokenFiles& tokens,
                                     std::span<const std::string> texts, int64_t vocab_size,
                                     std::string_view role);

}  // namespace lacuna
