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

int64_t PrefixStore::measure() const {
  std::vector<const KvSequence*> sequences;
  for (const Entry& entry : entries_) sequences.push_back(entry.sequence.get());
  return pool_.bytes_of(sequences);
}

bool PrefixStore::evict() {
  if (entries_.empty()) return false;
  entries_.pop_back();
  bytes_ = measure();
  return true;
}

void PrefixStore::clear() noexcept {
  entries_.clear();
  bytes_ = 0;
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

void PrefixStore::keep(int32_t block_length, std::span<const TokenId> tokens, const KvSequence& from) {
  const int32_t count = whole_tiles(static_cast<int64_t>(tokens.size()));
  tokens = tokens.first(static_cast<size_t>(count));
  if (count == 0 || pool_.bytes_for({count}) > most_bytes_) return;
  if (find(block_length, tokens).count == count) return;  // already stored; find() has marked it as used
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.block_length == block_length &&
           common_prefix(entry.tokens, tokens) == static_cast<int32_t>(entry.tokens.size());
  });
  std::unique_ptr<KvSequence> kept = pool_.make_sequence({count}, {&from, count});
  if (kept != nullptr) entries_.push_front({block_length, {tokens.begin(), tokens.end()}, std::move(kept)});
  bytes_ = measure();
  while (bytes_ > most_bytes_) evict();
}

KvPrefix PrefixStore::find(int32_t block_length, std::span<const TokenId> tokens) {
  const auto found = longest(block_length, tokens);
  if (found == entries_.end()) return {};
  entries_.splice(entries_.begin(), entries_, found);
  return {found->sequence.get(), whole_tiles(common_prefix(found->tokens, tokens))};
}

}  // namespace lacuna
