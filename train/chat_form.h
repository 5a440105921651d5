// Special tokens and chat templates of the families' checkpoints.
#pragma once

#include <span>
#include <string_view>

#include "base/token.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace lacuna::train {

inline constexpr std::string_view kStartToken = "<|startoftext|>";
inline constexpr std::string_view kEndToken = "<|endoftext|>";  // also pads

/// Ids of a checkpoint's special tokens.
struct SpecialIds {
  TokenId end = -1;  ///< ends and fills answers
  TokenId mask = -1;
  TokenId start = -1;  ///< begins texts, if a template says so
};

struct ChatForm {
  /// In id order after the vocabulary: kStartToken, kEndToken, the tokens of turns, the mask.
  std::span<const std::string_view> special_tokens;
  std::string_view program;  ///< Jinja chat template for tokenizer_config.json
};

/// ChatML: `<|im_start|>user`, a newline, the text, `<|im_end|>`, a newline.
extern const ChatForm kChatMlForm;

/// SDAR's and Qwen3's: ChatML without the reasoning of earlier answers.
extern const ChatForm kThinkingForm;

/// Dream's and Qwen2.5's: ChatML in which a conversation without a system turn begins with "You are a helpful
/// assistant.".
extern const ChatForm kAssistantForm;

/// LLaDA's: the start token, then for each turn `<|start_header_id|>user<|end_header_id|>`, an empty line,
/// the trimmed text, `<|eot_id|>`. The assistant's next turn is always opened.
extern const ChatForm kHeaderForm;

/// LLaDA2's: `<role>HUMAN</role>`, the text, `<|role_end|>`. The first turn is SYSTEM's, with the words
/// "detailed thinking off".
extern const ChatForm kRoleTagForm;

/// Tokens, chat template and special tokens of a checkpoint.
struct Vocabulary {
  Tokenizer tokenizer;
  ChatTemplate chat;
  SpecialIds ids;
};

}  // namespace lacuna::train
