// Byte-pair encoding by ranked merges or by scores (SentencePiece), over bytes or characters; and
// SentencePiece's Unigram, which chooses the entries with the best total score.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/token.h"
#include "tokenizer/best_path.h"

namespace lacuna {

/// The initial symbols of merging, and their spelling in the vocabulary.
enum class BpeSymbols : uint8_t {
  kBytes,       ///< bytes, spelled in byte characters (GPT-2)
  kCharacters,  ///< UTF-8 characters; one without an entry becomes bytes, <0x00> to <0xFF> (SentencePiece)
};

/// Contents of the vocabulary and merges files.
struct BpeParts {
  BpeSymbols symbols = BpeSymbols::kBytes;
  std::string vocab_name;   ///< begins errors about the vocabulary
  std::string merges_name;  ///< begins errors about merges
  std::unordered_map<std::string, TokenId> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  ///< in order of priority
  bool ignore_merges = false;       ///< a pre-token that is an entry becomes that token without merges
  bool whole_newline_runs = false;  ///< ignore_merges for pre-tokens of newlines only
  /// Score per id, instead of merges: two neighbors merge if their joined text is an entry, largest score
  /// first (SentencePiece). Only with kCharacters.
  std::vector<double> scores;
  bool best_path = false;                ///< choose the entries with the largest sum of scores (Unigram)
  std::optional<std::string> unk_token;  ///< stands for symbols without an entry
  bool fuse_unk = false;                 ///< one unk_token for a run of symbols without an entry
};

class Bpe {
 public:
  /// Throws InputError if a merge lacks an entry in the vocabulary, or a vocabulary of characters has only
  /// some of the 256 byte tokens. `special` has a flag per id; special ids are never produced, and merges
  /// into them are dropped.
  Bpe(BpeParts parts, std::vector<bool> special);

  /// Appends the tokens of one pre-token (any bytes) to `tokens`, in O(n log n). Symbols with neither an
  /// entry nor an unk_token are dropped, as in `tokenizers`; published vocabularies have all 256 bytes.
  void encode(std::string_view piece, std::vector<TokenId>& tokens) const;

  std::optional<TokenId> id_of(std::string_view text) const;
  /// The token for symbols without an entry, if there is one.
  std::optional<TokenId> unknown() const;

 private:
  struct Merge {
    int32_t rank = 0;
    TokenId result = 0;
  };
  struct MixedHash {
    size_t operator()(uint64_t key) const;
  };

  void read_byte_ids(const BpeParts& parts);
  bool append_whole_entry(std::string_view piece, std::vector<TokenId>& tokens) const;
  std::vector<TokenId> symbols_of(std::string_view piece) const;
  void prepare_scores(BpeParts& parts);
  void prepare_best_path();
  void encode_by_best_path(std::string_view piece, std::vector<TokenId>& tokens) const;
  void encode_by_scores(std::string_view piece, std::vector<TokenId>& tokens) const;
  const Merge* find_merge(TokenId left, TokenId right) const;

  std::unordered_map<std::string, TokenId> vocab_;
  std::unordered_map<uint64_t, Merge, MixedHash> merges_;  // by left and right id
  std::array<TokenId, 256> byte_ids_{};                    // kNoToken if the vocabulary lacks the byte
  BpeSymbols symbols_;
  bool has_all_bytes_ = true;
  std::vector<bool> special_;
  TokenId unk_;
  bool fuse_unk_;
  bool ignore_merges_;
  bool whole_newline_runs_;
  std::vector<double> scores_;      // by id; minus infinity for tokens that no merge produces
  size_t longest_entry_bytes_ = 0;  // with scores
  std::optional<BestPath> best_path_;
  double unknown_score_ = 0;
};

}  // namespace lacuna
