// Translates an answer between the tokens of the model and of its guide.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/token.h"

namespace lacuna {

/// An answer, cut into the guide's tokens. Ends are in one unit for both models (tokens where they share a
/// vocabulary, bytes where not), counted from the start of the answer, ascending.
struct GuideReading {
  std::vector<TokenId> tokens;       ///< tokens of the guide
  std::vector<int32_t> guide_ends;   ///< [tokens] where each ends
  std::vector<int32_t> answer_ends;  ///< [answer] where each of the answer's own tokens ends
};

class TokenAlignment {
 public:
  virtual ~TokenAlignment() = default;

  virtual GuideReading read(std::span<const TokenId> answer) const = 0;

  /// The answer's next token if the guide continues with `guide_token` after `reading`'s first `num_read`
  /// tokens; `answer` is the text before them. Nullopt if no single token of the answer's vocabulary can
  /// express it.
  virtual std::optional<TokenId> write(std::span<const TokenId> answer, const GuideReading& reading,
                                       size_t num_read, TokenId guide_token) const = 0;

  /// Maximum guide tokens per answer token, on average; the guide does not read the rest of a longer text.
  virtual int32_t most_guide_tokens() const { return 4; }

  /// Tokens that the guide cannot read, so that none of them is drafted.
  virtual std::vector<TokenId> unreadable() const = 0;
};

/// Both models have the same token ids; their end tokens may differ and are mapped to each other.
class SharedVocabulary final : public TokenAlignment {
 public:
  struct Side {
    int64_t vocab_size = 0;
    TokenId eos_id = -1;
    std::vector<TokenId> end_ids;
  };
  SharedVocabulary(Side main, Side guide) : main_(std::move(main)), guide_(std::move(guide)) {}

  GuideReading read(std::span<const TokenId> answer) const override;
  std::optional<TokenId> write(std::span<const TokenId> answer, const GuideReading& reading, size_t num_read,
                               TokenId guide_token) const override;
  int32_t most_guide_tokens() const override { return 1; }
  std::vector<TokenId> unreadable() const override;

 private:
  Side main_;
  Side guide_;
};

}  // namespace lacuna
