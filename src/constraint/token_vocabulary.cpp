#include "constraint/token_vocabulary.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr size_t kMaxTokenBytes = 0xFFFF;

std::vector<TokenId> checked_ids(std::vector<TokenId> ids, size_t vocab_size, std::string_view kind) {
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= vocab_size)
      throw InputError("the {} token {} is outside the vocabulary of {} tokens", kind, id, vocab_size);
  }
  return ids;
}

std::vector<TokenId> ascending(std::vector<TokenId> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

TokenVocabulary::TokenVocabulary(const TokenTable& table)
    : vocab_size_(static_cast<int>(table.bytes.size())) {
  expects(!table.bytes.empty(), "a vocabulary has tokens");
  if (table.end_ids.empty())
    throw InputError("the model has no end token; constrained answers need one to fill what they leave over");
  if (table.specials.size() > kMaxSpecials)
    throw InputError("{} special tokens in a constraint; expected at most {}", table.specials.size(),
                     kMaxSpecials);
  end_ids_ = ascending(checked_ids(table.end_ids, table.bytes.size(), "end"));
  excluded_ = ascending(checked_ids(table.excluded, table.bytes.size(), "excluded"));
  specials_ = checked_ids(table.specials, table.bytes.size(), "special");

  std::vector<uint8_t> writes(table.bytes.size());
  for (size_t id = 0; id < writes.size(); ++id) writes[id] = table.bytes[id].empty() ? 0 : 1;
  for (const auto* ids : {&end_ids_, &excluded_, &specials_}) {
    for (const TokenId id : *ids) writes[static_cast<size_t>(id)] = 0;
  }
  for (size_t id = 0; id < writes.size(); ++id) {
    if (writes[id] == 0) continue;
    if (table.bytes[id].size() > kMaxTokenBytes)
      throw InputError("token {} has {} bytes; expected at most {}", id, table.bytes[id].size(),
                       kMaxTokenBytes);
    tokens_.push_back(static_cast<TokenId>(id));
  }
  const auto bytes_of = [&](TokenId id) -> std::string_view { return table.bytes[static_cast<size_t>(id)]; };
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [&](TokenId a, TokenId b) { return bytes_of(a) < bytes_of(b); });
  add_nodes(table);
}

void TokenVocabulary::add_nodes(const TokenTable& table) {
  std::vector<size_t> path;  // nodes from a child of the root to the last added node
  std::string_view previous;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view bytes = table.bytes[static_cast<size_t>(tokens_[i])];
    const size_t shared = common_prefix(previous, bytes);
    while (path.size() > shared) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
    for (size_t k = shared; k < bytes.size(); ++k) {
      path.push_back(nodes_.size());
      // Inner nodes without tokens have the same first_token as the next node.
      nodes_.push_back({.end = 0,
                        .first_token = static_cast<uint32_t>(i),
                        .depth = static_cast<uint16_t>(k + 1),
                        .byte = static_cast<uint8_t>(bytes[k])});
    }
    previous = bytes;
  }
  for (const size_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
}

size_t TokenVocabulary::memory_bytes() const {
  return sizeof *this + nodes_.size() * sizeof(Node) +
         (tokens_.size() + end_ids_.size() + excluded_.size() + specials_.size()) * sizeof(TokenId);
}

}  // namespace lacuna
