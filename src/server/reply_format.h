// Formats answers as the replies of one API, the counterpart of its parse function. One object serves one
// request; only the engine's thread calls it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/inference_session.h"
#include "server/generation_request.h"
#include "server/http.h"
#include "server/tool_reply.h"
#include "server/transcript.h"

namespace lacuna {

/// The model that answers. Holding it keeps the model loaded.
struct ReplyModel {
  std::string name;         ///< name for clients
  std::string fingerprint;  ///< fingerprint of the program and the weights: "lacuna-0.2.0-28c1f2a65b0d9e47"
  std::shared_ptr<InferenceSession> session;

  const OpenedModel& opened() const { return session->opened(); }
  const ModelConfig& config() const { return opened().config(); }
  const Tokenizer* tokenizer() const { return opened().tokenizer(); }  ///< null: answers have only token ids
  /// Text of tokens, as UTF-8; empty without a tokenizer.
  std::string text_of(std::span<const TokenId> tokens) const;
};

/// Tokens and times of one choice, or of all of a request together.
struct AnswerUsage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  ///< prompt tokens whose K/V come from another request
  int32_t answer_tokens = 0;
  double prompt_ms = 0;
  double answer_ms = 0;
};

/// One answer of a request.
struct AnswerChoice {
  size_t index = 0;
  Piece answer;                         ///< the whole answer; empty in a stream
  std::vector<TokenRecord> scores;      ///< likelihoods of the echoed tokens, if requested
  std::string finish_reason = {};       ///< "stop", "length" or "tool_calls"; empty: it continues
  std::optional<ToolReply> tools = {};  ///< the calls of an answer that may call tools, as a message
  std::string stop_text = {};           ///< stop text that ended the answer; empty: none did
  std::string inserted = {};            ///< text filled in at the cursor (GenerationRequest::fills_cursor)
  int32_t answer_tokens = 0;
  AnswerUsage usage = {};  ///< set when the answer is finished
  RunStatistics statistics = {};
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
};

/// Newly final text of a choice, in a stream.
struct AnswerPart {
  const AnswerChoice& choice;
  const Piece& piece;
  nlohmann::ordered_json event = {};      ///< a step's changes; null: none
  bool is_first = false;                  ///< first piece of its choice
  std::optional<AnswerUsage> usage = {};  ///< set for the request's last part
  /// The piece as text and calls, if the answer may call tools (ToolReply::advance).
  std::vector<ToolCallReader::Piece> tool_pieces = {};
};

/// Data of a request that formats need.
struct AnswerHead {
  ReplyModel model;
  GenerationRequest request;  ///< without its prompts
  int64_t created = 0;        ///< seconds since 1970
};

using AnswerChoices = std::span<const AnswerChoice* const>;

class ReplyFormat {
 public:
  explicit ReplyFormat(AnswerHead head) : head_(std::move(head)) {}
  virtual ~ReplyFormat() = default;
  ReplyFormat(const ReplyFormat&) = delete;
  ReplyFormat& operator=(const ReplyFormat&) = delete;

  virtual nlohmann::ordered_json whole(AnswerChoices choices, const AnswerUsage& usage) = 0;

  virtual std::string_view stream_type() const { return kServerSentEvents; }
  /// Beginning of a stream. The usage has the prompt's tokens.
  virtual std::string begin_stream(const AnswerUsage& /*usage*/) { return {}; }
  /// Formats a part of a stream; empty if this API sends nothing for it.
  virtual std::string part(const AnswerPart& part) = 0;
  /// End of a stream, after the last part of every choice.
  virtual std::string end_stream(AnswerChoices choices, const AnswerUsage& usage) = 0;
  /// End of a stream after a failure.
  virtual std::string fail_stream(const std::string& sentence) = 0;

 protected:
  const AnswerHead& head() const { return head_; }
  const ReplyModel& model() const { return head_.model; }
  const GenerationRequest& request() const { return head_.request; }

 private:
  AnswerHead head_;
};

/// Makes the format of a dialect.
template <typename Format>
std::unique_ptr<ReplyFormat> make_format(AnswerHead head) {
  return std::make_unique<Format>(std::move(head));
}

// Shared by several formats.

/// A unique id that begins with `prefix`.
std::string new_answer_id(std::string_view prefix);

/// A server-sent event: "data: JSON", with an "event:" line if `event` is not empty.
std::string sse(const nlohmann::ordered_json& data, std::string_view event = {});

/// {"token", "logprob", "bytes", "top_logprobs": [...], "id", "step", "order"} for each token.
nlohmann::ordered_json chat_logprobs(const ReplyModel& model, std::span<const TokenRecord> tokens);

/// Token ids.
nlohmann::ordered_json ids_of(std::span<const TokenRecord> tokens);
/// Passes that committed the tokens.
nlohmann::ordered_json steps_of(std::span<const TokenRecord> tokens);
/// Statistics of the answer, as `lacuna run --json` prints them.
nlohmann::ordered_json stats_of(const AnswerChoice& choice);
/// The "lacuna" object of a choice in a whole reply: tokens, stats, and the step map if requested.
nlohmann::ordered_json own_part(const AnswerChoice& choice, const GenerationRequest& request);
/// The "timings" object of llama.cpp.
nlohmann::ordered_json timings_of(const AnswerUsage& usage);

}  // namespace lacuna
