#include "tokenizer/bpe.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "base/rng.h"
#include "tokenizer/byte_characters.h"

namespace lacuna {
namespace {

constexpr TokenId kNoToken = -1;

uint64_t pair_key(TokenId left, TokenId right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// A symbol of the pre-token during merging. Merging empties the right one of a pair.
struct Symbol {
  TokenId id;
  int32_t previous;  // index, -1 at the ends
  int32_t next;
};

// A candidate merge. It is stale once either symbol has another id.
struct Candidate {
  int32_t rank;
  int32_t left;  // index of the left symbol
  TokenId left_id;
  TokenId right_id;
  TokenId result;

  /// Orders the queue: lowest rank first, then leftmost.
  bool operator<(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

}  // namespace

size_t Bpe::MixedHash::operator()(uint64_t key) const {
  return mix_bits(key);
}

Bpe::Bpe(BpeParts parts, std::vector<bool> special)
    : vocab_(std::move(parts.vocab)),
      special_(std::move(special)),
      unk_(kNoToken),
      fuse_unk_(parts.fuse_unk),
      ignore_merges_(parts.ignore_merges) {
  bool has_all_bytes = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char bytes = static_cast<char>(byte);
    byte_ids_[byte] = id_of(to_byte_characters({&bytes, 1})).value_or(kNoToken);
    has_all_bytes = has_all_bytes && byte_ids_[byte] != kNoToken;
    if (byte_ids_[byte] != kNoToken && special_[byte_ids_[byte]]) {
      throw InputError("{}: the token of byte 0x{:02x} cannot be a special token", parts.vocab_name, byte);
    }
  }
  if (parts.unk_token && !has_all_bytes) {
    unk_ = id_of(*parts.unk_token).value_or(kNoToken);
    if (unk_ == kNoToken) {
      throw InputError("{}: unk_token '{}' is not in the vocabulary", parts.vocab_name, *parts.unk_token);
    }
  }

  merges_.reserve(parts.merges.size());
  for (size_t rank = 0; rank < parts.merges.size(); ++rank) {
    const std::string& left = parts.merges[rank].first;
    const std::string& right = parts.merges[rank].second;
    const auto needed_id = [&](const std::string& text) {
      const auto id = id_of(text);
      if (id) return *id;
      throw InputError("{}: merge {} ('{}' '{}') needs '{}', which is not in the vocabulary",
                       parts.merges_name, rank, left, right, text);
    };
    const uint64_t key = pair_key(needed_id(left), needed_id(right));
    const TokenId result = needed_id(left + right);
    if (!special_[result]) merges_[key] = {static_cast<int32_t>(rank), result};
  }
}

std::optional<TokenId> Bpe::id_of(std::string_view text) const {
  const auto entry = vocab_.find(std::string(text));
  return entry == vocab_.end() ? std::nullopt : std::optional(entry->second);
}

const Bpe::Merge* Bpe::find_merge(TokenId left, TokenId right) const {
  const auto entry = merges_.find(pair_key(left, right));
  return entry == merges_.end() ? nullptr : &entry->second;
}

std::vector<TokenId> Bpe::single_bytes(std::string_view piece) const {
  std::vector<TokenId> ids;
  ids.reserve(piece.size());
  bool after_unknown = false;
  for (const char byte : piece) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(byte)];
    const bool unknown = id == kNoToken;
    if (!unknown) ids.push_back(id);
    if (unknown && unk_ != kNoToken && !(fuse_unk_ && after_unknown)) ids.push_back(unk_);
    after_unknown = unknown;
  }
  return ids;
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& tokens) const {
  if (ignore_merges_) {
    const auto id = id_of(to_byte_characters(piece));
    if (id && !special_[*id]) return tokens.push_back(*id);
  }
  std::vector<Symbol> symbols;
  for (const TokenId id : single_bytes(piece)) {
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

  std::priority_queue<Candidate> candidates;
  const auto consider = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    const TokenId left_id = symbols[left].id;
    const TokenId right_id = symbols[symbols[left].next].id;
    const Merge* merge = find_merge(left_id, right_id);
    if (merge != nullptr) candidates.push({merge->rank, left, left_id, right_id, merge->result});
  };
  for (int32_t index = 0; index < static_cast<int32_t>(symbols.size()); ++index) consider(index);

  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbols[best.left];
    if (left.id != best.left_id || left.next < 0 || symbols[left.next].id != best.right_id) continue;
    Symbol& right = symbols[left.next];
    left.id = best.result;
    left.next = right.next;
    if (right.next >= 0) symbols[right.next].previous = best.left;
    right.id = kNoToken;
    consider(left.previous);
    consider(best.left);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.id != kNoToken) tokens.push_back(symbol.id);
  }
}

}  // namespace lacuna
