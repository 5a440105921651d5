// Byte-pair encoding: a vocabulary of byte strings, and the merges that build its entries from single bytes.
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

namespace lacuna {

/// Contents of the vocabulary and merges files. Texts are spelled in byte characters.
struct BpeParts {
  std::string vocab_name;   ///< begins errors about the vocabulary
  std::string merges_name;  ///< begins errors about merges
  std::unordered_map<std::string, TokenId> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  ///< the first one merges first
  bool ignore_merges = false;                               ///< a pre-token that is an entry needs no merges
  std::optional<std::string> unk_token;                     ///< stands for bytes without an entry
  bool fuse_unk = false;                                    ///< one unk_token for several such bytes in a row
};

class Bpe {
 public:
  /// Refuses merges that need what the vocabulary lacks. `special` has a flag for every id of the vocabulary;
  /// special ids are never produced: the merges that would are left out.
  Bpe(BpeParts parts, std::vector<bool> special);

  /// Appends the tokens of one pre-token (any bytes) to `tokens`, in O(n log n). Bytes that have neither an
  /// entry nor an unk_token are left out, as the reference does; published vocabularies have all 256.
  void encode(std::string_view piece, std::vector<TokenId>& tokens) const;

  std::optional<TokenId> id_of(std::string_view text) const;

 private:
  struct Merge {
    int32_t rank = 0;
    TokenId result = 0;
  };
  struct MixedHash {
    size_t operator()(uint64_t key) const;
  };

  std::vector<TokenId> single_bytes(std::string_view piece) const;
  const Merge* find_merge(TokenId left, TokenId right) const;

  std::unordered_map<std::string, TokenId> vocab_;
  std::unordered_map<uint64_t, Merge, MixedHash> merges_;  // by both ids
  std::array<TokenId, 256> byte_ids_{};                    // kNoToken where the vocabulary lacks the byte
  std::vector<bool> special_;
  TokenId unk_;
  bool fuse_unk_;
  bool ignore_merges_;
};

}  // namespace lacuna
