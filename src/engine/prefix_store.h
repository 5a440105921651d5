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

/// Keeps copies of K/V, by the tokens that they belong to, and forgets those that were not asked for the
/// longest where they come to too many bytes. Only whole tiles of cells are kept; a position's cell has its
/// number. Not for several threads at once.
class PrefixStore {
 public:
  struct Match {
    const KvSequence* sequence = nullptr;  ///< null: nothing; gone with the next call of anything else
    int32_t count = 0;                     ///< cells of it, whole tiles
  };

  /// Bytes that all may come to; 0 keeps nothing.
  void limit(int64_t bytes);
  /// Bytes that all come to.
  int64_t bytes() const { return bytes_; }
  /// Forgets until all come to no more than this.
  void shrink_to(int64_t bytes);

  /// Copies the K/V of the tokens, which lie in the first cells. What begins like them and is shorter is
  /// forgotten.
  ///   block_length  what else K/V depend on: those of others are never found
  void keep(KvPool& pool, int32_t block_length, std::span<const TokenId> tokens, const KvSequence& from);
  /// The K/V of as many of the first tokens as possible.
  Match find(int32_t block_length, std::span<const TokenId> tokens);

 private:
  struct Entry {
    int32_t block_length;
    std::vector<TokenId> tokens;  // as many as cells
    std::unique_ptr<KvSequence> sequence;
    int64_t bytes;
  };

  /// The entry that shares the most tokens; the end where none shares a tile.
  std::list<Entry>::iterator longest(int32_t block_length, std::span<const TokenId> tokens);
  void forget(std::list<Entry>::iterator entry);

  std::list<Entry> entries_;  // the one that was asked for last comes first
  int64_t most_bytes_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace lacuna
