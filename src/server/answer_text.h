// The final text of an answer that does not grow from left to right.
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

/// Number of bytes of `text` without an incomplete UTF-8 character at its end.
size_t whole_characters(std::string_view text);

/// Turns final tokens into final text: whole characters up to the first end token or stop text, without a
/// suffix that may become a stop text, and without thoughts. The concatenated text does not depend on how the
/// tokens are split into calls.
class AnswerText {
 public:
  ///   tokenizer      null: tokens have no text      stop  texts before which the answer ends, none empty
  ///   shows_special  keeps special tokens in the text, since tags of tool calls may be special tokens
  AnswerText(const Tokenizer* tokenizer, std::vector<TokenId> end_ids, std::vector<std::string> stop,
             bool shows_special = false);

  /// Takes all final tokens of the answer so far and returns the text that became final since the last call.
  /// Ill-formed UTF-8 becomes U+FFFD.
  ///   is_all  no further tokens follow
  std::string advance(std::span<const TokenId> final, bool is_all);

  /// Whether an end token or a stop text has ended the answer.
  bool has_ended() const { return has_ended_; }
  /// The stop text that ended the answer; empty: none did.
  const std::string& stop_text() const { return stop_text_; }
  /// Number of tokens before an end token, including those cut off by a stop text.
  int32_t num_tokens() const { return num_tokens_; }

 private:
  void find_stop(size_t from);
  size_t held_back() const;

  const Tokenizer* tokenizer_;
  std::vector<TokenId> end_ids_;
  std::vector<std::string> stop_;
  bool shows_special_;
  ThoughtFilter thoughts_;
  std::string bytes_;  // text of the tokens so far
  size_t given_ = 0;   // bytes that were returned
  int32_t num_tokens_ = 0;
  bool has_ended_ = false;
  std::string stop_text_;
};

}  // namespace lacuna
