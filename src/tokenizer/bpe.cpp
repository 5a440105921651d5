#include "tokenizer/bpe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <tuple>

#include "base/budget.h"
#include "base/error.h"
#include "base/rng.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

constexpr TokenId kNoToken = -1;

// Costs in steps of a Budget.
constexpr size_t kStepsPerByte = 16;
constexpr size_t kStepsPerMerge = 64;

uint64_t pair_key(TokenId left, TokenId right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// A symbol of the pre-token during merging. A merge replaces the left symbol and empties the right one.
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
      symbols_(parts.symbols),
      special_(std::move(special)),
      unk_(kNoToken),
      fuse_unk_(parts.fuse_unk),
      ignore_merges_(parts.ignore_merges),
      whole_newline_runs_(parts.whole_newline_runs) {
  read_byte_ids(parts);
  const bool has_best_path = parts.best_path;
  if (!parts.scores.empty()) prepare_scores(parts);
  if (has_best_path) prepare_best_path();
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

void Bpe::read_byte_ids(const BpeParts& parts) {
  size_t count = 0;
  for (unsigned byte = 0; byte < byte_ids_.size(); ++byte) {
    const char bytes = static_cast<char>(byte);
    const std::string text = symbols_ == BpeSymbols::kBytes ? to_byte_characters({&bytes, 1})
                                                            : byte_token(static_cast<unsigned char>(byte));
    byte_ids_[byte] = id_of(text).value_or(kNoToken);
    if (byte_ids_[byte] == kNoToken) continue;
    ++count;
    if (special_[byte_ids_[byte]]) {
      throw InputError("{}: the token of byte 0x{:02x} cannot be a special token", parts.vocab_name, byte);
    }
  }
  has_all_bytes_ = count == byte_ids_.size();
  // `tokenizers` orders byte tokens and unk_token wrongly if a text needs both.
  if (symbols_ == BpeSymbols::kCharacters && !has_all_bytes_ && count > 0) {
    throw InputError("{} has {} of the byte tokens <0x00> to <0xFF>; expected all 256 or none",
                     parts.vocab_name, count);
  }
  if (!parts.unk_token || has_all_bytes_) return;
  unk_ = id_of(*parts.unk_token).value_or(kNoToken);
  if (unk_ == kNoToken) {
    throw InputError("{}: unk_token '{}' is not in the vocabulary", parts.vocab_name, *parts.unk_token);
  }
}

void Bpe::prepare_scores(BpeParts& parts) {
  const bool has_scores = parts.best_path || parts.scores.size() >= special_.size();
  if (symbols_ != BpeSymbols::kCharacters || !has_scores) {
    throw InputError("{}: {} scores for {} tokens; expected one for each, of text in characters",
                     parts.vocab_name, parts.scores.size(), special_.size());
  }
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  // SentencePiece scores a character without an entry this much below the lowest score.
  constexpr double kUnknownPenalty = 10;
  unknown_score_ = *std::min_element(parts.scores.begin(), parts.scores.end()) - kUnknownPenalty;
  scores_ = std::move(parts.scores);
  scores_.resize(std::max(scores_.size(), special_.size()), kNever);  // added tokens after the vocabulary
  for (size_t id = 0; id < special_.size(); ++id) {
    if (special_[id]) scores_[id] = kNever;
  }
  for (const TokenId id : byte_ids_) {
    if (id != kNoToken) scores_[static_cast<size_t>(id)] = kNever;
  }
  if (parts.unk_token) {
    if (const auto unk = id_of(*parts.unk_token)) scores_[static_cast<size_t>(*unk)] = kNever;
  }
  for (const auto& [text, id] : vocab_) longest_entry_bytes_ = std::max(longest_entry_bytes_, text.size());
}

void Bpe::prepare_best_path() {
  std::vector<BestPath::Entry> entries;
  for (const auto& [text, id] : vocab_) {
    const double score = scores_[static_cast<size_t>(id)];
    if (std::isfinite(score) && !text.empty()) entries.push_back({text, id, score});
  }
  best_path_.emplace(std::move(entries), unknown_score_);
}

std::optional<TokenId> Bpe::id_of(std::string_view text) const {
  const auto entry = vocab_.find(std::string(text));
  return entry == vocab_.end() ? std::nullopt : std::optional(entry->second);
}

std::optional<TokenId> Bpe::unknown() const {
  return unk_ == kNoToken ? std::nullopt : std::optional(unk_);
}

const Bpe::Merge* Bpe::find_merge(TokenId left, TokenId right) const {
  const auto entry = merges_.find(pair_key(left, right));
  return entry == merges_.end() ? nullptr : &entry->second;
}

std::vector<TokenId> Bpe::symbols_of(std::string_view piece) const {
  std::vector<TokenId> ids;
  ids.reserve(piece.size());
  bool after_unknown = false;
  const auto add = [&](TokenId id) {
    const bool unknown = id == kNoToken;
    if (!unknown) ids.push_back(id);
    if (unknown && unk_ != kNoToken && !(fuse_unk_ && after_unknown)) ids.push_back(unk_);
    after_unknown = unknown;
  };
  const auto add_bytes = [&](std::string_view bytes) {
    for (const char byte : bytes) add(byte_ids_[static_cast<unsigned char>(byte)]);
  };
  if (symbols_ == BpeSymbols::kBytes) {
    add_bytes(piece);
    return ids;
  }
  while (!piece.empty()) {
    const size_t length = std::max<size_t>(1, first_character_bytes(piece));  // 1 for an ill-formed byte
    const std::string_view character = piece.substr(0, length);
    const auto id = id_of(character);
    if (id && !special_[*id]) {
      add(*id);
    } else if (has_all_bytes_) {
      add_bytes(character);
    } else {
      add(kNoToken);
    }
    piece.remove_prefix(length);
  }
  return ids;
}

// Appends the token of a piece that is an entry and needs no merges; returns false for other pieces.
bool Bpe::append_whole_entry(std::string_view piece, std::vector<TokenId>& tokens) const {
  const bool is_newlines = piece.find_first_not_of('\n') == std::string_view::npos;
  if (!ignore_merges_ && !(whole_newline_runs_ && is_newlines)) return false;
  const auto id = symbols_ == BpeSymbols::kBytes ? id_of(to_byte_characters(piece)) : id_of(piece);
  if (!id || special_[*id]) return false;
  tokens.push_back(*id);
  return true;
}

namespace {

/// A symbol of the pre-token during merging by scores: a range of its text.
struct ScoredSymbol {
  uint32_t begin;
  uint32_t bytes;  // 0 once it is merged into the previous symbol
  int32_t previous;
  int32_t next;
};

struct ScoredCandidate {
  double score;
  int32_t left;
  uint32_t bytes;  // sum of both symbols; the candidate is stale if it has changed

  /// Orders the queue: largest score first, then leftmost.
  bool operator<(const ScoredCandidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

}  // namespace

void Bpe::encode_by_scores(std::string_view piece, std::vector<TokenId>& tokens) const {
  spend_steps(piece.size() * kStepsPerByte);
  std::vector<ScoredSymbol> symbols;
  for (size_t begin = 0; begin < piece.size();) {
    const size_t bytes = std::max<size_t>(1, first_character_bytes(piece.substr(begin)));
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(bytes), index - 1, index + 1});
    begin += bytes;
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

  std::priority_queue<ScoredCandidate> candidates;
  const auto consider = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    const uint32_t bytes = symbols[left].bytes + symbols[symbols[left].next].bytes;
    if (bytes > longest_entry_bytes_) return;
    const auto id = id_of(piece.substr(symbols[left].begin, bytes));
    if (id && std::isfinite(scores_[static_cast<size_t>(*id)]))
      candidates.push({scores_[static_cast<size_t>(*id)], left, bytes});
  };
  for (int32_t index = 0; index < static_cast<int32_t>(symbols.size()); ++index) consider(index);
  while (!candidates.empty()) {
    spend_steps(kStepsPerMerge);
    const ScoredCandidate best = candidates.top();
    candidates.pop();
    ScoredSymbol& left = symbols[best.left];
    if (left.bytes == 0 || left.next < 0 || left.bytes + symbols[left.next].bytes != best.bytes) continue;
    ScoredSymbol& right = symbols[left.next];
    left.bytes = best.bytes;
    left.next = right.next;
    if (right.next >= 0) symbols[right.next].previous = best.left;
    right.bytes = 0;
    consider(left.previous);
    consider(best.left);
  }
  for (const ScoredSymbol& symbol : symbols) {
    if (symbol.bytes == 0) continue;
    const std::string_view text = piece.substr(symbol.begin, symbol.bytes);
    const auto id = id_of(text);
    if (id && std::isfinite(scores_[static_cast<size_t>(*id)])) {
      tokens.push_back(*id);
    } else {
      for (const TokenId byte : symbols_of(text)) tokens.push_back(byte);
    }
  }
}

void Bpe::encode_by_best_path(std::string_view piece, std::vector<TokenId>& tokens) const {
  for (const BestPath::Part& part : best_path_->cut(piece)) {
    if (part.id != BestPath::kUnknown) {
      tokens.push_back(part.id);
    } else {
      for (const TokenId symbol : symbols_of(part.range.of(piece))) tokens.push_back(symbol);
    }
  }
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& tokens) const {
  if (best_path_) return encode_by_best_path(piece, tokens);
  if (!scores_.empty()) return encode_by_scores(piece, tokens);
  spend_steps(piece.size() * kStepsPerByte);
  if (append_whole_entry(piece, tokens)) return;
  std::vector<Symbol> symbols;
  for (const TokenId id : symbols_of(piece)) {
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
    spend_steps(kStepsPerMerge);
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
