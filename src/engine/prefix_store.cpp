#include "engine/prefix_store.h"

#include <algorithm>
#include <utility>

namespace lacuna {
int32_t whole_tiles(int64_t count) {
  return static_cast<int32_t>(count / kCellTile * kCellTile);
}

int32_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<int32_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

void PrefixStore::limit(int64_t bytes) {
  most_bytes_ = bytes;
  shrink_to(bytes);
}

void PrefixStore::shrink_to(int64_t bytes) {
  while (bytes_ > bytes && !entries_.empty()) forget(std::prev(entries_.end()));
}

void PrefixStore::forget(std::list<Entry>::iterator entry) {
  bytes_ -= entry->bytes;
  entries_.erase(entry);
}

std::list<PrefixStore::Entry>::iterator PrefixStore::longest(int32_t block_length,
                                                             std::span<const TokenId> tokens) {
  auto best = entries_.end();
  int32_t most = kCellTile - 1;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->block_length != block_length) continue;
    const int32_t count = common_prefix(entry->tokens, tokens);
    if (count > most) {
      best = entry;
      most = count;
    }
  }
  return best;
}

void PrefixStore::keep(KvPool& pool, int32_t block_length, std::span<const TokenId> tokens,
                       const KvSequence& from) {
  const int32_t count = whole_tiles(static_cast<int64_t>(tokens.size()));
  tokens = tokens.first(static_cast<size_t>(count));
  const int64_t bytes = pool.bytes_for({count});
  if (count == 0 || bytes > most_bytes_) return;
  const Match known = find(block_length, tokens);
  if (known.count == count) return;  // and it was asked for just now
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto here = entry++;
    const bool is_part = here->block_length == block_length &&
                         common_prefix(here->tokens, tokens) == static_cast<int32_t>(here->tokens.size());
    if (is_part) forget(here);
  }
  shrink_to(most_bytes_ - bytes);
  std::unique_ptr<KvSequence> kept = pool.make_sequence({count});
  if (kept == nullptr) return;
  pool.take_prefix(*kept, from, count);
  entries_.push_front({block_length, {tokens.begin(), tokens.end()}, std::move(kept), bytes});
  bytes_ += bytes;
}

PrefixStore::Match PrefixStore::find(int32_t block_length, std::span<const TokenId> tokens) {
  const auto found = longest(block_length, tokens);
  if (found == entries_.end()) return {};
  entries_.splice(entries_.begin(), entries_, found);
  return {found->sequence.get(), whole_tiles(common_prefix(found->tokens, tokens))};
}

}  // namespace lacuna
