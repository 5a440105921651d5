// The text of an answer that does not grow from left to right: what of it is final and can be shown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/thoughts.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// Bytes of `text` without a character that is cut off at its end.
size_t whole_characters(std::string_view text);

/// Turns tokens that are final into text that is: whole characters, up to the first end token or stop text,
/// less what might become a stop text. Thoughts are no part of it. The pieces add up to the same text however
/// the tokens arrive.
class AnswerText {
 public:
  ///   tokenizer      null: tokens have no text      stop  texts before which the answer ends, none empty
  ///   shows_special  whether special tokens are a part of the text: the tags of tool calls may be such
  ///   tokens
  AnswerText(const Tokenizer* tokenizer, std::vector<TokenId> end_ids, std::vector<std::string> stop,
             bool shows_special = false);

  /// Takes the answer's tokens that are final so far (those of the last call, then further ones) and returns
  /// the text that became sure, as UTF-8: what is none becomes U+FFFD.
  ///   is_all  no other tokens follow
  std::string advance(std::span<const TokenId> final, bool is_all);

  /// Whether an end token or a stop text was met: nothing that follows belongs to the answer.
  bool has_ended() const { return has_ended_; }
  /// The stop text that ended it; empty: none did.
  const std::string& stop_text() const { return stop_text_; }
  /// Tokens before an end token, those that a stop text cut off included.
  int32_t num_tokens() const { return num_tokens_; }

 private:
  void find_stop(size_t from);
  size_t held_back() const;

  const Tokenizer* tokenizer_;
  std::vector<TokenId> end_ids_;
  std::vector<std::string> stop_;
  bool shows_special_;
  ThoughtFilter thoughts_;
  std::string bytes_;  // of the tokens so far
  size_t given_ = 0;   // bytes that were returned
  int32_t num_tokens_ = 0;
  bool has_ended_ = false;
  std::string stop_text_;
};

}  // namespace lacuna
