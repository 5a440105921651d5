// OpenAI's replies to chats and completions, and replies to infills in the same style.
#pragma once

#include <string>

#include "server/reply_format.h"

namespace lacuna {

enum class AnswerStyle : uint8_t { kChat, kText, kInfill };

class OpenAiFormat final : public ReplyFormat {
 public:
  OpenAiFormat(AnswerStyle style, AnswerHead head);

  nlohmann::ordered_json whole(AnswerChoices choices, const AnswerUsage& usage) override;
  std::string part(const AnswerPart& part) override;
  std::string end_stream(AnswerChoices choices, const AnswerUsage& usage) override;
  std::string fail_stream(const std::string& sentence) override;

 private:
  nlohmann::ordered_json envelope(bool is_chunk) const;
  ///   delta  delta of a chunk whose answer may call tools
  nlohmann::ordered_json choice_json(const AnswerChoice& choice, const Piece& piece, bool is_chunk,
                                     bool is_first, const nlohmann::ordered_json& delta = {}) const;
  static nlohmann::ordered_json message_json(const AnswerChoice& choice, const Piece& piece, bool is_chunk,
                                             bool is_first, const nlohmann::ordered_json& delta);
  nlohmann::ordered_json logprobs_json(const Piece& piece) const;

  AnswerStyle style_;
  std::string id_;
};

}  // namespace lacuna
