// Prefix cache: K/V of finished requests, for later requests with a common prefix.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token.h"

namespace lacuna {

/// Length of the longest common prefix, tokens.
int32_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b);

/// The largest number of cells up to `count` that fills whole tiles.
int32_t whole_tiles(int64_t count);

/// LRU cache of finished requests' K/V, by their tokens. Stores whole tiles of cells only; position i is in
/// cell i. Not thread-safe.
class PrefixStore {
 public:
  /// most_bytes  of all entries; 0: nothing is stored
  PrefixStore(KvPool& pool, int64_t most_bytes) : pool_(pool), most_bytes_(most_bytes) {}

  /// Size of all entries; a shared page counts once.
  int64_t bytes() const { return bytes_; }
  /// Evicts the least recently used entry. False if the store is empty.
  bool evict();
  /// Evicts all.
  void clear() noexcept;

  /// Stores the K/V of the tokens from the first cells of `from`; shares its whole pages. Replaces entries
  /// that are a prefix of the tokens.
  ///   block_length  K/V depend on it: find() returns entries with the same one only
  void keep(int32_t block_length, std::span<const TokenId> tokens, const KvSequence& from);
  /// The longest stored prefix of the tokens, in whole tiles. Valid until the next non-const call.
  KvPrefix find(int32_t block_length, std::span<const TokenId> tokens);

 private:
  struct Entry {
    int32_t block_length;
    std::vector<TokenId> tokens;  // one for each cell
    std::unique_ptr<KvSequence> sequence;
  };

  /// The entry with the longest common prefix; end() if none shares a whole tile.
  std::list<Entry>::iterator longest(int32_t block_length, std::span<const TokenId> tokens);

  int64_t measure() const;

  KvPool& pool_;
  int64_t most_bytes_;
  std::list<Entry> entries_;  // most recently used first
  int64_t bytes_ = 0;         // cached measure(), which walks all pages
};

}  // namespace lacuna
