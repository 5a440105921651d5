// How an answer looks in one API's replies: the part of an API that is written, as parse functions are the
// part that is read. One object serves one request, called by the engine's thread alone.
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
  std::string name;         ///< as clients see it
  std::string fingerprint;  ///< fingerprint of the program and the weights: "lacuna-0.2.0-28c1f2a65b0d9e47"
  std::shared_ptr<InferenceSession> session;

  const OpenedModel& opened() const { return session->opened(); }
  const ModelConfig& config() const { return opened().config(); }
  const Tokenizer* tokenizer() const { return opened().tokenizer(); }  ///< null: answers have ids alone
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
  Piece answer;  ///< the whole answer; empty in a stream
  std::vector<TokenRecord>
      scores;                      ///< of the tokens before the answer, where their likelihoods are asked for
  std::string finish_reason = {};  ///< "stop", "length" or "tool_calls"; empty: it continues
  std::optional<ToolReply> tools = {};  ///< the calls of an answer that may call tools, as a message
  std::string stop_text = {};           ///< the stop text that ended it; empty: none did
  std::string inserted = {};            ///< what stands at the cursor (GenerationRequest::fills_cursor)
  int32_t answer_tokens = 0;
  AnswerUsage usage = {};  ///< once it is written
  RunStatistics statistics = {};
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
};

/// Newly final text of a choice, in a stream.
struct AnswerPart {
  const AnswerChoice& choice;
  const Piece& piece;
  nlohmann::ordered_json event = {};      ///< a step's changes; null: none
  bool is_first = false;                  ///< first piece of its choice
  std::optional<AnswerUsage> usage = {};  ///< with the last part of all
  /// The piece as text and calls, where the answer may call tools (ToolReply::advance).
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
  /// Empty: the part says nothing that clients of this API are told.
  virtual std::string part(const AnswerPart& part) = 0;
  /// End of a stream, after the last part of every choice.
  virtual std::string end_stream(AnswerChoices choices, const AnswerUsage& usage) = 0;
  /// The same where the answer fails.
  virtual std::string fail_stream(const std::string& sentence) = 0;

 protected:
  const AnswerHead& head() const { return head_; }
  const ReplyModel& model() const { return head_.model; }
  const GenerationRequest& request() const { return head_.request; }

 private:
  AnswerHead head_;
};

// Parts of several formats.

/// "PREFIX" and a number that no other answer has.
std::string new_answer_id(std::string_view prefix);

/// "data: JSON" as a server-sent event, named where an event is given.
std::string sse(const nlohmann::ordered_json& data, std::string_view event = {});

/// {"token", "logprob", "bytes", "top_logprobs": [...], "id", "step", "order"} for each token.
nlohmann::ordered_json chat_logprobs(const ReplyModel& model, std::span<const TokenRecord> tokens);

/// The ids of the tokens, and the passes that committed them.
nlohmann::ordered_json ids_of(std::span<const TokenRecord> tokens);
nlohmann::ordered_json steps_of(std::span<const TokenRecord> tokens);
/// Statistics of the answer, as `lacuna run --json` prints them.
nlohmann::ordered_json stats_of(const AnswerChoice& choice);
/// The "lacuna" object of a choice in a whole reply: tokens, stats, and the step map where it is asked for.
nlohmann::ordered_json own_part(const AnswerChoice& choice, const GenerationRequest& request);
/// llama.cpp's names for times.
nlohmann::ordered_json timings_of(const AnswerUsage& usage);

}  // namespace lacuna
