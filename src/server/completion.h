// Answers on their way to a client: from what the engine did to what a format writes of it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "decode/decoder.h"
#include "engine/scheduler.h"
#include "server/dialect.h"
#include "server/generation_request.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/reply_format.h"
#include "server/transcript.h"

namespace lacuna {

/// One request to a generating endpoint: its choices and its reply. A handler makes it, adds choices, submits
/// the listeners and opens it; from then on the engine's thread alone works on it.
class Completion : public std::enable_shared_from_this<Completion> {
 public:
  ///   metrics  outlive it
  Completion(const Dialect& dialect, ReplyModel model, const GenerationRequest& request,
             std::shared_ptr<HttpReply> reply, std::string request_id, Metrics& metrics);
  ~Completion();

  /// Properties of a choice before it starts.
  struct Start {
    std::vector<TokenId> echoed;  ///< tokens that come before the answer's
    int32_t prompt_tokens = 0;    ///< for usage
    int32_t given_tokens = 0;     ///< given positions of the answer, for usage
    IndexRange inserted = {};     ///< where the hole is, if the answer is what was filled in alone
    uint64_t tool_call_key = 0;   ///< key from which the ids of the answer's tool calls are derived
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
  static AnswerUsage usage_of(const Choice& choice);
  AnswerUsage usage() const;
  /// Sends what came to a choice, or keeps it for the reply.
  void add_piece(Choice& choice, const Piece& piece, nlohmann::ordered_json event, bool is_first = false);
  void send(const std::string& text);
  void note_commit(bool has_committed);
  /// One listener has heard its last call.
  void part_finished();
  void finish();
  void fail(const std::string& sentence);

  const Dialect& dialect_;
  AnswerHead head_;
  bool is_infill_;  // the whole canvas is the answer
  std::unique_ptr<ReplyFormat> format_;
  std::shared_ptr<HttpReply> reply_;
  std::string request_id_;
  Metrics& metrics_;
  Stopwatch clock_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::once_flag opened_;
  size_t parts_left_ = 0;
  bool has_failed_ = false;
  bool has_committed_ = false;
};

}  // namespace lacuna
