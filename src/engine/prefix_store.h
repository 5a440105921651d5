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

/// Keeps the K/V of requests that ran, by the tokens that they belong to, and forgets those that were not
/// asked for the longest where they come to too many bytes. Only whole tiles of cells are kept; a position's
/// cell has its number. Not for several threads at once.
class PrefixStore {
 public:
  /// most_bytes  that all may come to; 0 keeps nothing
  PrefixStore(KvPool& pool, int64_t most_bytes) : pool_(pool), most_bytes_(most_bytes) {}

  /// Bytes that all come to, pages that several share counted once.
  int64_t bytes() const;
  /// Forgets the one that was not asked for the longest. False where there is none.
  bool forget_oldest();

  /// Keeps the K/V of the tokens, which lie in the first cells; their whole pages are shared with `from`.
  /// What begins like them and is shorter is forgotten.
  ///   block_length  what else K/V depend on: those of others are never found
  void keep(int32_t block_length, std::span<const TokenId> tokens, const KvSequence& from);
  /// The K/V of as many of the first tokens as possible, whole tiles; gone with the next call of anything
  /// else.
  KvPrefix find(int32_t block_length, std::span<const TokenId> tokens);

 private:
  struct Entry {
    int32_t block_length;
    std::vector<TokenId> tokens;  // as many as cells
    std::unique_ptr<KvSequence> sequence;
  };

  /// The entry that shares the most tokens; the end where none shares a tile.
  std::list<Entry>::iterator longest(int32_t block_length, std::span<const TokenId> tokens);

  KvPool& pool_;
  int64_t most_bytes_;
  std::list<Entry> entries_;  // the one that was asked for last comes first
};

}  // namespace lacuna
