// A guide that reads another model's prompts and answers (see decode/guided_diffusion.h).
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "decode/make_decoder.h"
#include "decode/token_alignment.h"
#include "model/config.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// A model's config, tokenizer and chat template. Does not own the tokenizer.
struct TextModel {
  const ModelConfig& config;
  const Tokenizer* tokenizer = nullptr;  ///< null: none
  ChatTemplate chat_template = {};
};

/// Translates the main model's text for the guide. With the same vocabulary (Dream and Qwen2.5) the guide
/// gets the main model's ids; otherwise the text is encoded again. A prompt with special tokens that differ
/// in the guide is rendered again with the guide's chat template.
class Guide {
 public:
  /// Both models must outlive the guide. Without tokenizers they are assumed to share ids. Throws InputError
  /// if only one has a tokenizer.
  Guide(const TextModel& main, const TextModel& guide);

  bool shares_vocabulary() const { return shares_vocabulary_; }

  /// The guide's context for one request.
  ///   prompt        the main model's tokens
  ///   conversation  the prompt's source; null: the prompt's text is used as it is
  GuideContext context(std::span<const TokenId> prompt, const Conversation* conversation = nullptr) const;
  /// context() for plain turns; if empty, without a conversation.
  GuideContext context(std::span<const TokenId> prompt, std::span<const Message> turns) const;

 private:
  /// Whether each token of the prompt, special ones included, has the same text in both vocabularies.
  bool has_same_tokens(std::span<const TokenId> prompt) const;

  TextModel main_;
  TextModel guide_;
  bool shares_vocabulary_ = false;
  std::shared_ptr<const TokenAlignment> alignment_;
};

/// Aligns different vocabularies: decodes the answer and encodes the text with the guide's tokenizer. End
/// tokens split the text and map to each other. Token ends are byte offsets; an end token counts as one byte.
class ByteAlignment final : public TokenAlignment {
 public:
  ByteAlignment(const TextModel& main, const TextModel& guide) : main_(main), guide_(guide) {}

  GuideReading read(std::span<const TokenId> answer) const override;
  std::optional<TokenId> write(std::span<const TokenId> answer, const GuideReading& reading, size_t num_read,
                               TokenId guide_token) const override;
  std::vector<TokenId> unreadable() const override;

 private:
  TextModel main_;
  TextModel guide_;
};

}  // namespace lacuna
