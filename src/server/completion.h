// Turns the engine's step events into the reply to a client, in the format of its API.
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

/// One request to a generating endpoint: its choices and its reply. A handler creates it, adds choices,
/// submits the listeners and calls open(); afterwards only the engine's thread uses it.
class Completion : public std::enable_shared_from_this<Completion> {
 public:
  ///   metrics  must outlive this object
  Completion(const Dialect& dialect, ReplyModel model, const GenerationRequest& request,
             std::shared_ptr<HttpReply> reply, std::string request_id, Metrics& metrics);
  ~Completion();

  /// Properties of a choice before it starts.
  struct Start {
    std::vector<TokenId> echoed;  ///< tokens that the reply shows before the answer
    int32_t prompt_tokens = 0;    ///< for usage
    int32_t given_tokens = 0;     ///< positions of the answer that the request gave, for usage
    IndexRange inserted = {};     ///< the hole, if the answer is the filled-in text alone
    uint64_t tool_call_key = 0;   ///< key from which the ids of the answer's tool calls are derived
  };

  /// Adds a choice that `decoder` generates. The decoder has not started.
  std::shared_ptr<RequestListener> add_choice(const Decoder& decoder, Start start);
  /// Adds a choice that is the best of several candidates: the highest mean of ln confidence over the
  /// generated tokens (of the confidence itself if it is a negative entropy); the first one in a tie.
  std::vector<std::shared_ptr<RequestListener>> add_best_of(std::vector<Start> starts);
  /// Listener of a LikelihoodDecoder that scores the echoed tokens of the choice added last. The reply waits
  /// for it.
  std::shared_ptr<RequestListener> add_likelihood();
  /// Adds a choice that consists of its echoed tokens alone.
  void add_echo(Start start) { new_choice(std::move(start)); }

  /// Begins a stream. Call it after the scheduler has accepted the jobs.
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
  /// Sends a piece of a choice in a stream; otherwise keeps it for the whole reply.
  void add_piece(Choice& choice, const Piece& piece, nlohmann::ordered_json event, bool is_first = false);
  void send(const std::string& text);
  void note_commit(bool has_committed);
  /// Called when one listener is done; finishes the reply after the last one.
  void part_finished();
  void finish();
  void fail(const std::string& sentence);

  const Dialect& dialect_;
  AnswerHead head_;
  bool is_infill_;  // the answer is the whole canvas
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
