// Chat templates: messages to the tokens of a prompt.
//
// Checkpoints carry their template as a Jinja program. We run no Jinja: the templates of the supported
// families are built in, and the program's text only tells which one it is and what varies inside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/types.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

enum class ChatFormat : uint8_t {
  kNone,      ///< the text alone
  kLlada,     ///< bos, then <|start_header_id|>role<|end_header_id|>, blank line, trimmed content, <|eot_id|>
  kChatMl,    ///< <|im_start|>role, newline, content, <|im_end|>, newline
  kNemotron,  ///< as kChatMl, but for thoughts: a system turn always, <think></think> before each answer
  kSeedCoder,  ///< bos, role, newline, content, eos: a turn; the system's ends with a blank line
  kGemma,  ///< <bos>, then <|turn>role, newline, trimmed content, <turn|>, newline; the assistant is "model"
};

std::optional<ChatFormat> chat_format_named(std::string_view name);  ///< see kChatFormatNames
std::string_view name_of(ChatFormat format);
inline constexpr std::string_view kChatFormatNames = "llada, chatml, nemotron, seed-coder, gemma or none";

struct ChatTemplate {
  ChatFormat format = ChatFormat::kNone;
  std::string bos_token = "<|startoftext|>";  ///< kLlada: opens the first turn
  std::string default_system =
      {};               ///< kChatMl: the system turn where messages bring none; empty for no such turn
  bool thinks = false;  ///< kNemotron: the answer begins within <think>, not behind an empty one
  bool skips_thoughts = false;  ///< kChatMl: the answer begins behind an empty <think></think>
  std::string reason = {};      ///< kNone: why, as a sentence for the user
};

/// Recognises the Jinja program of a checkpoint. Anything unknown is kNone with its reason.
ChatTemplate recognise_chat_template(std::string_view jinja);

/// The template of a checkpoint folder: `chat_template` in tokenizer_config.json (of several named ones, the
/// one called "default"), else chat_template.jinja. Tiny-A2D's skips thoughts where the program has that
/// choice, because its models were trained so and its own tokenizer always makes it. Throws InputError where
/// these files are damaged.
ChatTemplate load_chat_template(const std::filesystem::path& folder);

/// The prompt for an assistant's answer to `messages`. The template's own special tokens are atoms; roles and
/// contents are encoded as text, so that no message can imitate them. Ids equal those of the whole rendered
/// text, except where a message contains the text of a special token.
/// kNone takes one message and gives its content. Throws InputError where the tokenizer lacks a token of the
/// template, or for roles other than system, user and assistant, which LLaDA's
/// alone takes.
std::vector<TokenId> render(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                            std::span<const Message> messages);

/// The token that ends a chat turn, by the names under which the supported families know it.
std::optional<TokenId> end_of_turn(const Tokenizer& tokenizer);

}  // namespace lacuna
