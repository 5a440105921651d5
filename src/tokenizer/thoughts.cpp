#include "tokenizer/thoughts.h"

#include <optional>

namespace lacuna {

ThoughtFilter::ThoughtFilter(const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return;
  const std::optional<TokenId> begin = tokenizer->id_of("<|channel>");
  const std::optional<TokenId> end = tokenizer->id_of("<channel|>");
  if (!begin || !end) return;
  begin_ = *begin;
  end_ = *end;
}

std::vector<TokenId> ThoughtFilter::remove(std::span<const TokenId> tokens) {
  std::vector<TokenId> kept;
  for (const TokenId token : tokens) {
    const bool begins = begin_ >= 0 && token == begin_;
    const bool ends = is_in_thought_ && token == end_;
    if (begins) is_in_thought_ = true;
    if (!is_in_thought_) kept.push_back(token);
    if (ends) is_in_thought_ = false;
  }
  return kept;
}

}  // namespace lacuna
