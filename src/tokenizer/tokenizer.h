// Converts text to token ids and back: BPE or Unigram as in published checkpoints, over bytes (GPT-2) or over
// characters with byte tokens for the rest (Gemma).
//
// Read from `tokenizer.json` or from the trio `vocab.json`, `merges.txt`, `added_tokens.json`, in both cases
// with the added tokens of `tokenizer_config.json`. Ids equal those of the Python library `tokenizers` called
// with add_special_tokens=False (post-processors are ignored). An unsupported key
// that would change results is refused by name.
//
// Text need not be UTF-8: each ill-formed byte becomes the token of that byte, and the texts before and after
// it are tokenized separately.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/token.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

namespace lacuna {

class GgufFile;

/// Whether the metadata of a GGUF file holds a tokenizer.
bool has_gguf_tokenizer(const GgufFile& file);

/// The metadata of a GGUF file as the files of a checkpoint folder, which load() reads to an equal tokenizer.
struct TokenizerTexts {
  std::string tokenizer;         ///< contents of tokenizer.json
  std::string tokenizer_config;  ///< contents of tokenizer_config.json: the chat template and special
                                 ///< tokens
};
TokenizerTexts gguf_tokenizer_texts(const GgufFile& file);

/// Immutable once built; threads may share it.
class Tokenizer {
 public:
  /// Reads `folder`: tokenizer.json where present, else the trio; or the metadata of a GGUF file. Throws
  /// InputError.
  static Tokenizer load(const std::filesystem::path& folder);

  /// Reads the text of a tokenizer.json. `source_name` begins errors.
  static Tokenizer from_json(std::string_view json, std::string_view source_name);

  /// Checks the parts against each other and throws InputError for ids outside [0, kMaxTokenId],
  /// two tokens with one id, one added token with two ids, or merges without their entries.
  explicit Tokenizer(TokenizerParts parts);

  /// With kAsText, the only special token that any text can produce is unknown(). Throws InputError if the
  /// text exceeds the limits of Normalizer::apply() or Regex::find_all().
  std::vector<TokenId> encode(std::string_view text, SpecialTokens special = SpecialTokens::kAsText) const;
  /// encode(text, kAsAtoms), except in literal parts of the text (AddedTokenFinder::split()). All
  /// special tokens are matched in the given text, also those with AddedToken::normalized.
  ///   literal  ascending, not touching
  std::vector<TokenId> encode(std::string_view text, std::span<const TextRange> literal) const;

  /// The bytes of the tokens, one after the other; they may begin or end inside a UTF-8 character (see
  /// replace_ill_formed). Added tokens give their content. Ids without a token, such as unused rows of an
  /// embedding table or negative ids, give nothing.
  std::string decode(std::span<const TokenId> tokens, bool skip_special = true) const;
  /// The length of decode() in bytes, without its memory.
  size_t decoded_bytes(std::span<const TokenId> tokens, bool skip_special = true) const;

  /// The id of an added token, or of a vocabulary entry by its exact text in the file (" the" is "Ġthe" or
  /// "▁the").
  std::optional<TokenId> id_of(std::string_view token) const;

  /// The token that encode() gives for the whole text, if it is a single one.
  std::optional<TokenId> token_of(std::string_view text) const;

  bool is_special(TokenId id) const;

  /// The token for characters with neither an entry nor byte tokens in the vocabulary.
  std::optional<TokenId> unknown() const { return bpe_.unknown(); }

  /// One more than the largest id. Some ids below may have no token.
  TokenId size() const { return static_cast<TokenId>(bytes_.size()); }

 private:
  /// The bytes of a token; empty if it has none or is skipped.
  std::string_view piece(TokenId id, bool skip_special) const;

  /// Calls `encode` for each well-formed part and its offset; appends the tokens of the other bytes.
  template <typename Encode>
  void encode_parts(std::string_view text, std::vector<TokenId>& tokens, Encode&& encode) const;
  ///   begins_text  whether `text` begins the whole encoded text
  void encode_spans(std::string_view text, std::span<const AddedTokenSpan> spans, SpecialTokens special,
                    bool begins_text, std::vector<TokenId>& tokens) const;
  void encode_plain(std::string_view text, bool begins_text, std::vector<TokenId>& tokens) const;

  std::vector<std::string> bytes_;  // by id
  std::vector<bool> special_;       // by id
  std::unordered_map<std::string, TokenId> added_ids_;
  Normalizer normalizer_;
  AddedTokenFinder added_as_given_;
  AddedTokenFinder added_as_normalized_;
  std::optional<AddedTokenFinder>
      added_in_templates_;  // all special tokens; empty if added_as_given_ has them all
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
};

}  // namespace lacuna
