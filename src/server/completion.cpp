#include "server/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>
#include <span>
#include <utility>

#include "base/json.h"
#include "base/mapped_file.h"
#include "decode/likelihood.h"
#include "engine/infill.h"
#include "server/answer_text.h"
#include "server/events.h"

namespace lacuna {
using nlohmann::ordered_json;

struct Completion::Choice : AnswerChoice {
  Start start;
  std::optional<EventLog> log;
  ordered_json first_event;
  double prefill_seconds = 0;
  // For add_best_of():
  size_t candidates_left = 0;
  double best_score = 0;
  std::optional<size_t> best_candidate;
};

/// Base class of the listeners, which share ownership of their completion.
class Completion::Listener : public RequestListener {
 public:
  Listener(std::shared_ptr<Completion> owner, Choice& choice) : owner_(std::move(owner)), choice_(choice) {
    ++owner_->parts_left_;
  }

  void started(const Decoder& /*decoder*/, double queue_seconds) override {
    owner_->metrics_.observe_queue(queue_seconds);
  }
  bool stepped(const StepEvent& event) override {
    owner_->open();
    owner_->metrics_.count_pass(event.statistics, statistics_);
    statistics_ = event.statistics;
    if (event.report.kind == "prefill") choice_.prefill_seconds += event.pass_seconds;
    return take(event);
  }
  void finished(const Decoder& decoder, const RunStatistics& statistics) override {
    owner_->open();
    RunStatistics& all = choice_.statistics;
    all.steps += statistics.steps;
    all.forward_passes += statistics.forward_passes;
    all.cost += statistics.cost;
    all.baseline += statistics.baseline;
    all.uncached += statistics.uncached;
    owner_->metrics_.count_baseline(statistics.baseline);
    all.guide_rows += statistics.guide_rows;
    all.shared_tokens += statistics.shared_tokens;
    all.seconds = std::max(all.seconds, statistics.seconds);
    complete(decoder);
    owner_->part_finished();
  }
  void failed(const std::string& sentence) override { owner_->fail(sentence); }
  void lost(const std::exception_ptr& /*error*/) noexcept override { owner_->reply_->abandon(); }

 protected:
  /// Returns false to end the request early.
  virtual bool take(const StepEvent& event) = 0;
  virtual void complete(const Decoder& decoder) = 0;

  Completion& owner() { return *owner_; }
  Choice& choice() { return choice_; }
  /// The tokens in an infill's first hole.
  static std::span<const TokenId> inserted_tokens(const Decoder& decoder, const Start& start) {
    const IndexRange range = decoder.holes().empty() ? start.inserted : decoder.holes().front();
    return decoder.canvas().subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
  }
  Transcript new_transcript() {
    const ReplyModel& model = owner_->head_.model;
    const GenerationRequest& request = owner_->head_.request;
    // An infill does not stop at the model's end tokens: its canvas may contain given ones.
    std::vector<TokenId> ends = owner_->is_infill_ ? std::vector<TokenId>() : model.config().end_ids;
    ends.insert(ends.end(), request.stop_tokens.begin(), request.stop_tokens.end());
    return Transcript(
        AnswerText(model.tokenizer(), std::move(ends), request.stop, request.tools.has_value()));
  }

 private:
  std::shared_ptr<Completion> owner_;
  Choice& choice_;
  RunStatistics statistics_;
};

/// Adds the pieces of a choice while it is generated.
class Completion::Writer final : public Listener {
 public:
  Writer(std::shared_ptr<Completion> owner, Choice& choice)
      : Listener(std::move(owner), choice), transcript_(new_transcript()) {}

 private:
  bool take(const StepEvent& event) override {
    transcript_.note(event);
    const Piece piece = transcript_.advance(event.decoder, false);
    owner().note_commit(!piece.tokens.empty());
    owner().add_piece(choice(), piece, choice().log ? choice().log->step(event) : ordered_json());
    return !transcript_.has_ended();
  }

  void complete(const Decoder& decoder) override {
    const Piece piece = transcript_.advance(decoder, decoder.done());
    // If the canvas ends with the answer, the transcript has no end token; the decoder knows why it stopped.
    const bool ends_by_itself = decoder.done() && decoder.stop_reason() == StopReason::kEndToken;
    choice().finish_reason =
        transcript_.has_ended() || owner().is_infill_ || ends_by_itself ? "stop" : "length";
    choice().stop_text = transcript_.stop_text();
    choice().answer_tokens = transcript_.num_tokens() - choice().start.given_tokens;
    if (owner().head_.request.fills_cursor)
      choice().inserted = owner().head_.model.text_of(inserted_tokens(decoder, choice().start));
    owner().add_piece(choice(), piece, {});
  }

  Transcript transcript_;
};

/// Adds the best candidate of a choice when the last candidate is done.
class Completion::Candidate final : public Listener {
 public:
  Candidate(std::shared_ptr<Completion> owner, Choice& choice, size_t index, Start start)
      : Listener(std::move(owner), choice),
        transcript_(new_transcript()),
        index_(index),
        start_(std::move(start)) {
    ++this->choice().candidates_left;
  }

 private:
  bool take(const StepEvent& event) override {
    transcript_.note(event);
    score_.note(event);
    return true;
  }

  void complete(const Decoder& decoder) override {
    Choice& choice = this->choice();
    const double score = score_.mean();
    // Candidates may end in any order; of equal ones the first is taken.
    const bool is_best = !choice.best_candidate || score > choice.best_score ||
                         (score == choice.best_score && index_ < *choice.best_candidate);
    if (is_best) {
      choice.best_candidate = index_;
      choice.best_score = score;
      choice.start = start_;
      choice.finish_reason = "stop";
      if (owner().head_.request.inserts) {
        take_inserted(decoder);
      } else {
        choice.answer = transcript_.advance(decoder, true);
        choice.answer_tokens = transcript_.num_tokens() - start_.given_tokens;
        const bool ends_by_itself = decoder.done() && decoder.stop_reason() == StopReason::kEndToken;
        if (!owner().is_infill_ && !transcript_.has_ended() && !ends_by_itself)
          choice.finish_reason = "length";
        choice.stop_text = transcript_.stop_text();
      }
    }
    if (--choice.candidates_left > 0) return;
    owner().note_commit(true);
    Piece piece = std::move(choice.answer);
    choice.answer = {};
    if (owner().head_.request.echoes) piece.text.insert(0, owner().head_.model.text_of(choice.start.echoed));
    owner().add_piece(choice, piece, {});
  }

  /// Stores only the inserted text as the answer.
  void take_inserted(const Decoder& decoder) {
    const std::span<const TokenId> tokens = inserted_tokens(decoder, start_);
    choice().answer = {};
    choice().answer.text = owner().head_.model.text_of(tokens);
    for (const TokenId token : tokens) choice().answer.tokens.push_back({token, std::nullopt});
    choice().answer_tokens = static_cast<int32_t>(tokens.size());
  }

  Transcript transcript_;
  CandidateScore score_;
  size_t index_;
  Start start_;
};

/// Scores the tokens before an answer.
class Completion::Likelihood final : public Listener {
 public:
  using Listener::Listener;

 private:
  bool take(const StepEvent& /*event*/) override { return true; }

  void complete(const Decoder& decoder) override {
    std::vector<TokenRecord>& scores = choice().scores;
    scores.clear();
    for (const TokenId token : decoder.canvas()) {
      const TokenScore& score = decoder.measurements().scores()[scores.size()];
      TokenRecord& record = scores.emplace_back();
      record.token = token;
      if (score.logprob && std::isfinite(*score.logprob)) record.logprob = score.logprob;
      if (score.best) record.likeliest = {*score.best};
    }
    if (choice().finish_reason.empty()) choice().finish_reason = "length";
  }
};

Completion::Completion(const Dialect& dialect, ReplyModel model, const GenerationRequest& request,
                       std::shared_ptr<HttpReply> reply, std::string request_id, Metrics& metrics)
    : dialect_(dialect),
      head_{std::move(model), request, std::time(nullptr)},
      is_infill_(request.is_infill() && !request.inserts),
      reply_(std::move(reply)),
      request_id_(std::move(request_id)),
      metrics_(metrics) {
  head_.request.prompts.clear();
  head_.request.canvas.clear();
  format_ = dialect.make_format(head_);
  if (head_.request.tools) head_.request.tools->functions.clear();  // only tools.has_value() is needed
}

Completion::~Completion() = default;

Completion::Choice& Completion::new_choice(Start start) {
  auto choice = std::make_unique<Choice>();
  choice->index = choices_.size();
  choice->start = std::move(start);
  if (head_.request.tools)
    choice->tools.emplace(choice->start.tool_call_key, head_.model.opened().tool_call_form());
  choices_.push_back(std::move(choice));
  return *choices_.back();
}

std::shared_ptr<RequestListener> Completion::add_choice(const Decoder& decoder, Start start) {
  Choice& choice = new_choice(std::move(start));
  if (head_.request.events) {
    choice.log.emplace(head_.model.tokenizer(), head_.model.config().mask_id);
    choice.first_event = choice.log->start(decoder);
  }
  return std::make_shared<Writer>(shared_from_this(), choice);
}

std::vector<std::shared_ptr<RequestListener>> Completion::add_best_of(std::vector<Start> starts) {
  Choice& choice = new_choice({});
  std::vector<std::shared_ptr<RequestListener>> listeners;
  for (size_t i = 0; i < starts.size(); ++i) {
    listeners.push_back(std::make_shared<Candidate>(shared_from_this(), choice, i, std::move(starts[i])));
  }
  return listeners;
}

std::shared_ptr<RequestListener> Completion::add_likelihood() {
  return std::make_shared<Likelihood>(shared_from_this(), *choices_.back());
}

void Completion::open() {
  std::call_once(opened_, [this] {
    if (head_.request.stream) {
      reply_->begin_stream(std::string(format_->stream_type()));
      send(format_->begin_stream(usage()));
    }
    for (const auto& choice : choices_) {
      Piece piece;
      // Text alone: scored tokens are sent with their scores, and candidates' tokens are not known yet.
      if (head_.request.echoes) piece.text = head_.model.text_of(choice->start.echoed);
      add_piece(*choice, piece, std::move(choice->first_event), true);
    }
  });
}

void Completion::note_commit(bool has_committed) {
  if (!has_committed || has_committed_) return;
  has_committed_ = true;
  metrics_.observe_first_commit(clock_.seconds());
}

void Completion::add_piece(Choice& choice, const Piece& piece, ordered_json event, bool is_first) {
  std::vector<ToolCallReader::Piece> tool_pieces;
  if (choice.tools) {
    const bool is_all = !choice.finish_reason.empty();
    tool_pieces = choice.tools->advance(piece.text, is_all);
    if (is_all && choice.tools->has_called()) choice.finish_reason = "tool_calls";
  }
  if (!head_.request.stream) {
    choice.answer.text += piece.text;
    choice.answer.tokens.insert(choice.answer.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    if (!event.is_null()) choice.events.push_back(std::move(event));
    return;
  }
  AnswerPart part{choice, piece, std::move(event), is_first};
  part.tool_pieces = std::move(tool_pieces);
  if (!choice.finish_reason.empty() && parts_left_ == 1) part.usage = usage();
  send(format_->part(part));
}

void Completion::send(const std::string& text) {
  if (!text.empty()) reply_->write(text);
}

AnswerUsage Completion::usage_of(const Choice& choice) {
  return {.prompt_tokens = choice.start.prompt_tokens,
          .cached_tokens = choice.statistics.shared_tokens,
          .answer_tokens = choice.answer_tokens,
          .prompt_ms = 1e3 * choice.prefill_seconds,
          .answer_ms = 1e3 * (choice.statistics.seconds - choice.prefill_seconds)};
}

AnswerUsage Completion::usage() const {
  AnswerUsage all;
  for (const auto& choice : choices_) {
    const AnswerUsage own = usage_of(*choice);
    all.prompt_tokens += own.prompt_tokens;
    // A prompt is counted once, with its first choice.
    if (own.prompt_tokens > 0) all.cached_tokens += own.cached_tokens;
    all.answer_tokens += own.answer_tokens;
    all.prompt_ms += own.prompt_ms;
    all.answer_ms = std::max(all.answer_ms, own.answer_ms);
  }
  return all;
}

void Completion::part_finished() {
  if (--parts_left_ == 0 && !has_failed_) finish();
}

void Completion::finish() {
  if (const std::optional<std::string> changed = find_changed_mapped_file()) {
    return fail(fmt::format("{} was changed while the server ran; restart the server", *changed));
  }
  for (const auto& choice : choices_) {
    metrics_.count_tokens(choice->start.prompt_tokens, choice->statistics.shared_tokens,
                          choice->answer_tokens);
  }
  const AnswerUsage all = usage();
  reply_->record({head_.model.name, all.prompt_tokens, all.answer_tokens});
  metrics_.count_request(choices_.front()->finish_reason);
  metrics_.observe_request(clock_.seconds());
  std::vector<const AnswerChoice*> choices;
  for (const auto& choice : choices_) {
    choice->usage = usage_of(*choice);
    choices.push_back(choice.get());
  }
  if (head_.request.stream) {
    send(format_->end_stream(choices, all));
    reply_->end();
  } else {
    reply_->send({200, "application/json"}, dump_json(format_->whole(choices, all)));
  }
}

void Completion::fail(const std::string& sentence) {
  if (std::exchange(has_failed_, true)) return;
  metrics_.count_request("failed");
  if (head_.request.stream) {
    open();
    send(format_->fail_stream(sentence));
    reply_->end();
  } else {
    // 503 after a model failure, since another replica may answer.
    const int status = head_.model.session->scheduler().failure().empty() ? 500 : 503;
    reply_->send({status, "application/json"}, dump_json(dialect_.error(status, sentence, "", request_id_)));
  }
}

}  // namespace lacuna
