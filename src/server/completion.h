// Answers on their way to a client: from what the engine did to the JSON of OpenAI's protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "decode/decoder.h"
#include "engine/scheduler.h"
#include "model/config.h"
#include "server/api_request.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/transcript.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// What answers say about the model, and what it takes to read them.
struct ServedModel {
  std::string name;
  std::string fingerprint;  ///< of the program: "lacuna-0.2.0"
  const ModelConfig& config;
  const Tokenizer* tokenizer = nullptr;  ///< null: answers have ids alone
};

enum class AnswerStyle : uint8_t { kChat, kText, kInfill };

/// One request to a generating endpoint: its choices and its reply. A handler makes it, adds choices, submits
/// the listeners and opens it; from then on the engine's thread alone works on it.
class Completion : public std::enable_shared_from_this<Completion> {
 public:
  Completion(const ServedModel& model, AnswerStyle style, const GenerationRequest& request,
             std::shared_ptr<HttpReply> reply, Metrics& metrics);
  ~Completion();

  /// What is known of a choice before it starts.
  struct Start {
    std::vector<TokenId> echoed;  ///< tokens that come before the answer's
    int32_t prompt_tokens = 0;    ///< for usage
    int32_t given_tokens = 0;     ///< of the answer's positions, for usage
    IndexRange inserted = {};     ///< where the hole is, if the answer is what was filled in alone
    uint64_t tool_call_key = 0;   ///< of the ids of the answer's tool calls
  };

  /// A new choice, written by this decoder, which has not started.
  std::shared_ptr<RequestListener> add_choice(const Decoder& decoder, Start start);
  /// A new choice: the best of several that are tried, by the mean of ln confidence (of the confidence, where
  /// it is a negative entropy) of what was filled in; of equal ones the first.
  std::vector<std::shared_ptr<RequestListener>> add_best_of(std::vector<Start> starts);
  /// Scores the echoed tokens of the choice that was added last with a LikelihoodDecoder; the reply waits for
  /// it.
  std::shared_ptr<RequestListener> add_likelihood();
  /// A new choice that is its echoed tokens alone.
  void add_echo(Start start) { new_choice(std::move(start)); }

  /// Begins a stream. After the jobs were accepted.
  void open();

 private:
  struct Choice;
  class Listener;
  class Writer;
  class Candidate;
  class Likelihood;

  Choice& new_choice(Start start);
  nlohmann::ordered_json envelope(bool is_chunk) const;
  ///   delta  what a chunk says of an answer that may call tools
  nlohmann::ordered_json choice_json(const Choice& choice, const Piece& piece, bool is_chunk, bool is_first,
                                     const nlohmann::ordered_json& delta = {}) const;
  nlohmann::ordered_json message_json(const Choice& choice, const Piece& piece, bool is_chunk, bool is_first,
                                      const nlohmann::ordered_json& delta) const;
  /// What a piece says of an answer that may call tools, as deltas; sets the finish reason of calls.
  static std::vector<nlohmann::ordered_json> read_tools(Choice& choice, const Piece& piece);
  nlohmann::ordered_json logprobs_json(const Piece& piece) const;
  static nlohmann::ordered_json stats_json(const Choice& choice);
  void add_usage(nlohmann::ordered_json& json) const;
  /// Sends what came to a choice, or keeps it for the reply.
  void add_piece(Choice& choice, const Piece& piece, nlohmann::ordered_json event, bool is_first = false);
  void send_delta(const Choice& choice, const nlohmann::ordered_json& delta);
  void send(const nlohmann::ordered_json& chunk);
  void note_commit(bool has_committed);
  std::string text_of(std::span<const TokenId> tokens) const;
  /// One listener has heard its last call.
  void part_finished();
  void finish();
  void fail(const std::string& sentence);

  ServedModel model_;
  AnswerStyle style_;
  GenerationRequest request_;  // without its prompts
  std::shared_ptr<HttpReply> reply_;
  Metrics& metrics_;
  std::string id_;
  int64_t created_;
  Stopwatch clock_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::once_flag opened_;
  size_t parts_left_ = 0;
  bool has_failed_ = false;
  bool has_committed_ = false;
};

}  // namespace lacuna
