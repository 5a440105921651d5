// An autoregressive model that reads another model's prompts and answers (see decode/guided_diffusion.h).
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

/// A model's config with its texts. Tokenizers are held by whoever loaded them.
struct TextModel {
  const ModelConfig& config;
  const Tokenizer* tokenizer = nullptr;  ///< null: none
  ChatTemplate chat_template = {};
};

/// How a guide reads what `main` writes. Where both number their tokens alike, the guide is given the main
/// model's ids, as Dream and Qwen2.5 are paired; otherwise it reads text. A prompt with special tokens that
/// are others for the guide, as those of another chat template are, is rendered again in its own.
class Guide {
 public:
  /// Both models must outlive the guide. Where neither has a tokenizer they are taken to share their ids.
  /// Throws InputError where one has a tokenizer and the other none.
  Guide(const TextModel& main, const TextModel& guide);

  bool shares_vocabulary() const { return shares_vocabulary_; }

  /// For one request.
  ///   prompt        the main model's tokens
  ///   conversation  what the prompt was rendered from; null: the prompt's text is taken as it is
  GuideContext context(std::span<const TokenId> prompt, const Conversation* conversation = nullptr) const;
  /// The same for plain turns; empty: none.
  GuideContext context(std::span<const TokenId> prompt, std::span<const Message> turns) const;

 private:
  /// Whether each token of the prompt is the same text for both, special tokens included.
  bool reads_alike(std::span<const TokenId> prompt) const;

  TextModel main_;
  TextModel guide_;
  bool shares_vocabulary_ = false;
  std::shared_ptr<const TokenAlignment> alignment_;
};

/// Two vocabularies: the answer is turned into text and cut again by the guide's tokenizer. End tokens cut
/// the text and stand for each other. Ends count bytes, an end token as one.
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
