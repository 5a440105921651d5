// K/V of prefixes that later requests may begin with.
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

/// A cache of K/V of finished requests, by their tokens. The least recently used entry is evicted first. Only
/// whole tiles of cells are stored; a position's cell has its number. Not thread-safe.
class PrefixStore {
 public:
  /// most_bytes  of all entries; 0: nothing is stored
  PrefixStore(KvPool& pool, int64_t most_bytes) : pool_(pool), most_bytes_(most_bytes) {}

  /// Size of all entries; a page that several share counts once.
  int64_t bytes() const { return bytes_; }
  /// Evicts the least recently used entry. False if the store is empty.
  bool evict();
  /// Evicts all.
  void clear() noexcept;

  /// Stores the K/V of the tokens, which are in the first cells of `from`; whole pages are shared with it.
  /// Replaces entries that are a prefix of the tokens.
  ///   block_length  K/V depend on it too: find() returns entries of the same length only
  void keep(int32_t block_length, std::span<const TokenId> tokens, const KvSequence& from);
  /// The longest stored prefix of the tokens, in whole tiles. Valid until the next non-const call.
  KvPrefix find(int32_t block_length, std::span<const TokenId> tokens);

 private:
  struct Entry {
    int32_t block_length;
    std::vector<TokenId> tokens;  // one for each cell
    std::unique_ptr<KvSequence> sequence;
  };

  /// The entry that shares the most tokens; the end where none shares a tile.
  std::list<Entry>::iterator longest(int32_t block_length, std::span<const TokenId> tokens);

  int64_t measure() const;

  KvPool& pool_;
  int64_t most_bytes_;
  std::list<Entry> entries_;  // most recently used first
  int64_t bytes_ = 0;         // measure(), which walks all pages, of the entries
};

}  // namespace lacuna
