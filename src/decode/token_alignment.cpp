#include "decode/token_alignment.h"

#include <algorithm>

namespace lacuna {
namespace {

bool contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

}  // namespace

GuideReading SharedVocabulary::read(std::span<const TokenId> answer) const {
  GuideReading reading;
  for (const TokenId token : answer) {
    const bool ends = contains(main_.end_ids, token) && !contains(guide_.end_ids, token);
    reading.tokens.push_back(ends && guide_.eos_id >= 0 ? guide_.eos_id : token);
    reading.guide_ends.push_back(static_cast<int32_t>(reading.tokens.size()));
  }
  reading.answer_ends = reading.guide_ends;
  return reading;
}

std::optional<TokenId> SharedVocabulary::write(std::span<const TokenId> /*answer*/,
                                               const GuideReading& /*reading*/, size_t /*num_read*/,
                                               TokenId guide_token) const {
  if (contains(guide_.end_ids, guide_token) && !contains(main_.end_ids, guide_token)) {
    if (main_.eos_id < 0) return {};
    return main_.eos_id;
  }
  if (guide_token >= main_.vocab_size) return {};
  return guide_token;
}

std::vector<TokenId> SharedVocabulary::unreadable() const {
  std::vector<TokenId> tokens;
  for (int64_t token = guide_.vocab_size; token < main_.vocab_size; ++token) {
    const bool has_twin = guide_.eos_id >= 0 && contains(main_.end_ids, static_cast<TokenId>(token));
    if (!has_twin) tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

}  // namespace lacuna
