#include "server/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <optional>

#include "base/mapped_file.h"
#include "decode/likelihood.h"
#include "engine/infill.h"
#include "engine/result.h"
#include "server/answer_text.h"
#include "server/api_error.h"
#include "server/events.h"
#include "server/tool_reply.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

std::string new_id(AnswerStyle style) {
  static std::atomic<uint64_t> count{0};
  const char* prefix = style == AnswerStyle::kChat   ? "chatcmpl"
                       : style == AnswerStyle::kText ? "cmpl"
                                                     : "infill";
  return fmt::format("{}-{:x}{:08x}", prefix, std::time(nullptr), count++);
}

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

double per_second(double count, double milliseconds) {
  return milliseconds > 0 ? 1e3 * count / milliseconds : 0;
}

}  // namespace

struct Completion::Choice {
  size_t index = 0;
  Start start;
  std::optional<EventLog> log;
  std::optional<ToolReply> tools;  // where the answer may call tools
  ordered_json first_event;
  Piece answer;  // all of it so far; not kept of a stream
  ordered_json events = ordered_json::array();
  std::vector<TokenRecord> scores;  // of the echoed tokens
  std::string finish_reason;        // empty: it continues
  int32_t answer_tokens = 0;
  RunStatistics statistics;
  double prefill_seconds = 0;
  // The best of several:
  size_t candidates_left = 0;
  double best_score = 0;
  std::optional<size_t> best_candidate;
};

/// What all listeners share. They keep their completion alive; it does not keep them.
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

 protected:
  /// False: the rest is not wanted.
  virtual bool take(const StepEvent& event) = 0;
  virtual void complete(const Decoder& decoder) = 0;

  Completion& owner() { return *owner_; }
  Choice& choice() { return choice_; }
  Transcript new_transcript() {
    const ServedModel& model = owner_->model_;
    // An infill continues after end tokens: those in it were given.
    const bool ends = owner_->style_ != AnswerStyle::kInfill;
    return Transcript(AnswerText(model.tokenizer, ends ? model.config.end_ids : std::vector<TokenId>(),
                                 owner_->request_.stop, owner_->request_.tools.has_value()));
  }

 private:
  std::shared_ptr<Completion> owner_;
  Choice& choice_;
  RunStatistics statistics_;
};

/// Shows a choice while it is written.
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
    const bool is_infill = owner().style_ == AnswerStyle::kInfill;
    // An answer on a canvas of its own length has no end token to meet.
    const bool ends_by_itself = decoder.done() && decoder.stop_reason() == StopReason::kEndToken;
    choice().finish_reason = transcript_.has_ended() || is_infill || ends_by_itself ? "stop" : "length";
    choice().answer_tokens = transcript_.num_tokens() - choice().start.given_tokens;
    owner().add_piece(choice(), piece, {});
  }

  Transcript transcript_;
};

/// Shows a choice at once, when the last of its candidates is done.
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
      if (owner().request_.inserts) {
        take_inserted(decoder);
      } else {
        choice.answer = transcript_.advance(decoder, true);
        choice.answer_tokens = transcript_.num_tokens() - start_.given_tokens;
      }
    }
    if (--choice.candidates_left > 0) return;
    choice.finish_reason = "stop";
    owner().note_commit(true);
    Piece piece = std::move(choice.answer);
    choice.answer = {};
    if (owner().request_.echoes) piece.text.insert(0, owner().text_of(choice.start.echoed));
    owner().add_piece(choice, piece, {});
  }

  /// What was filled in alone.
  void take_inserted(const Decoder& decoder) {
    const IndexRange range = decoder.holes().empty() ? start_.inserted : decoder.holes().front();
    const std::span<const TokenId> tokens =
        decoder.canvas().subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
    choice().answer = {};
    choice().answer.text = owner().text_of(tokens);
    for (const TokenId token : tokens) choice().answer.tokens.push_back({token, std::nullopt});
    choice().answer_tokens = range.size();
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
      const TokenScore& score = decoder.scores()[scores.size()];
      TokenRecord& record = scores.emplace_back();
      record.token = token;
      if (score.logprob && std::isfinite(*score.logprob)) record.logprob = score.logprob;
      record.best = score.best;
    }
    if (choice().finish_reason.empty()) choice().finish_reason = "length";
  }
};

Completion::Completion(const ServedModel& model, AnswerStyle style, const GenerationRequest& request,
                       std::shared_ptr<HttpReply> reply, Metrics& metrics)
    : model_(model),
      style_(style),
      request_(request),
      reply_(std::move(reply)),
      metrics_(metrics),
      id_(new_id(style)),
      created_(std::time(nullptr)) {
  request_.prompts.clear();
  request_.canvas.clear();
  if (request_.tools) request_.tools->functions.clear();  // what matters here is that there are some
}

Completion::~Completion() = default;

Completion::Choice& Completion::new_choice(Start start) {
  auto choice = std::make_unique<Choice>();
  choice->index = choices_.size();
  choice->start = std::move(start);
  if (request_.tools) choice->tools.emplace(choice->start.tool_call_key);
  choices_.push_back(std::move(choice));
  return *choices_.back();
}

std::shared_ptr<RequestListener> Completion::add_choice(const Decoder& decoder, Start start) {
  Choice& choice = new_choice(std::move(start));
  if (request_.events) {
    choice.log.emplace(model_.tokenizer, model_.config.mask_id);
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
    if (request_.stream) reply_->begin_stream("text/event-stream");
    for (const auto& choice : choices_) {
      Piece piece;
      // The tokens of several candidates are not known yet, and scored ones come with their scores.
      if (request_.echoes) piece.text = text_of(choice->start.echoed);
      if (style_ == AnswerStyle::kChat || !piece.text.empty() || choice->log) {
        add_piece(*choice, piece, std::move(choice->first_event), true);
      }
    }
  });
}

std::string Completion::text_of(std::span<const TokenId> tokens) const {
  return model_.tokenizer == nullptr ? std::string() : replace_ill_formed(model_.tokenizer->decode(tokens));
}

void Completion::note_commit(bool has_committed) {
  if (!has_committed || has_committed_) return;
  has_committed_ = true;
  metrics_.observe_first_commit(clock_.seconds());
}

ordered_json Completion::envelope(bool is_chunk) const {
  const char* object = "text_completion";
  if (style_ == AnswerStyle::kChat) object = is_chunk ? "chat.completion.chunk" : "chat.completion";
  if (style_ == AnswerStyle::kInfill) object = is_chunk ? "infill.chunk" : "infill";
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_.name},
          {"system_fingerprint", model_.fingerprint}};
}

ordered_json Completion::logprobs_json(const Piece& piece) const {
  const auto value = [](const std::optional<double>& logprob) {
    return logprob ? ordered_json(*logprob) : ordered_json();
  };
  const auto text = [&](TokenId token) { return text_of(std::span(&token, 1)); };
  if (style_ == AnswerStyle::kChat) {
    ordered_json content = ordered_json::array();
    for (const TokenRecord& record : piece.tokens) {
      content.push_back({{"token", text(record.token)},
                         {"logprob", value(record.logprob)},
                         {"bytes", nullptr},
                         {"top_logprobs", ordered_json::array()},
                         {"id", record.token},
                         {"step", record.step},
                         {"order", record.order}});
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
  ordered_json json;
  for (const char* key :
       {"tokens", "token_logprobs", "top_logprobs", "text_offset", "ids", "steps", "orders"}) {
    json[key] = ordered_json::array();
  }
  size_t offset = 0;
  for (const TokenRecord& record : piece.tokens) {
    const std::string token = text(record.token);
    json["tokens"].push_back(token);
    json["token_logprobs"].push_back(value(record.logprob));
    ordered_json top;  // null for a token without one
    if (record.logprob) top[token] = *record.logprob;
    if (record.best) top[text(record.best->first)] = record.best->second;
    json["top_logprobs"].push_back(std::move(top));
    json["text_offset"].push_back(offset);
    json["ids"].push_back(record.token);
    json["steps"].push_back(record.step);
    json["orders"].push_back(record.order);
    offset += token.size();
  }
  return json;
}

ordered_json Completion::message_json(const Choice& choice, const Piece& piece, bool is_chunk, bool is_first,
                                      const ordered_json& delta) const {
  ordered_json message = ordered_json::object();
  if (!is_chunk || is_first) message["role"] = "assistant";
  if (!choice.tools) {
    if (!is_chunk || is_first || !piece.text.empty()) message["content"] = piece.text;
  } else if (!is_chunk) {
    choice.tools->add_to(message);
  } else if (is_first) {
    message["content"] = nullptr;  // whether there is any text is not known yet
  } else if (!delta.is_null()) {
    message.update(delta);
  }
  return message;
}

ordered_json Completion::choice_json(const Choice& choice, const Piece& piece, bool is_chunk, bool is_first,
                                     const ordered_json& delta) const {
  ordered_json json{{"index", choice.index}};
  if (style_ == AnswerStyle::kChat) {
    json[is_chunk ? "delta" : "message"] = message_json(choice, piece, is_chunk, is_first, delta);
  } else {
    json["text"] = piece.text;
  }
  json["logprobs"] = request_.wants_logprobs ? logprobs_json(piece) : ordered_json();
  json["finish_reason"] = choice.finish_reason.empty() ? ordered_json() : ordered_json(choice.finish_reason);
  return json;
}

std::vector<ordered_json> Completion::read_tools(Choice& choice, const Piece& piece) {
  if (!choice.tools) return {};
  const bool is_all = !choice.finish_reason.empty();
  std::vector<ordered_json> deltas = choice.tools->advance(piece.text, is_all);
  if (is_all && choice.tools->has_called()) choice.finish_reason = "tool_calls";
  return deltas;
}

void Completion::send_delta(const Choice& choice, const ordered_json& delta) {
  ordered_json chunk = envelope(true);
  chunk["choices"].push_back(
      {{"index", choice.index}, {"delta", delta}, {"logprobs", nullptr}, {"finish_reason", nullptr}});
  send(chunk);
}

void Completion::add_piece(Choice& choice, const Piece& piece, ordered_json event, bool is_first) {
  const std::vector<ordered_json> deltas = read_tools(choice, piece);
  if (!request_.stream) {
    choice.answer.text += piece.text;
    choice.answer.tokens.insert(choice.answer.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    if (!event.is_null()) choice.events.push_back(std::move(event));
    return;
  }
  const bool has_text = choice.tools ? !deltas.empty() : !piece.text.empty();
  const bool says_something = has_text || !event.is_null() || !choice.finish_reason.empty() || is_first ||
                              (request_.wants_logprobs && !piece.tokens.empty());
  if (!says_something) return;
  for (size_t i = 0; i + 1 < deltas.size(); ++i) send_delta(choice, deltas[i]);
  ordered_json chunk = envelope(true);
  chunk["choices"] = {
      choice_json(choice, piece, true, is_first, deltas.empty() ? ordered_json() : deltas.back())};
  ordered_json own;
  if (!event.is_null()) own["event"] = std::move(event);
  if (!choice.finish_reason.empty()) own["stats"] = stats_json(choice);
  if (!own.is_null()) chunk["lacuna"] = std::move(own);
  const bool is_last = !choice.finish_reason.empty() && parts_left_ == 1;
  if (is_last && !request_.include_usage) add_usage(chunk);
  send(chunk);
}

ordered_json Completion::stats_json(const Choice& choice) {
  ordered_json stats = to_json(choice.statistics);
  stats["cached_tokens"] = choice.statistics.shared_tokens;
  stats["seconds"] = choice.statistics.seconds;
  return stats;
}

void Completion::send(const ordered_json& chunk) {
  reply_->write("data: " + dump(chunk) + "\n\n");
}

void Completion::add_usage(ordered_json& json) const {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t answer_tokens = 0;
  double prompt_ms = 0;
  double answer_ms = 0;
  for (const auto& choice : choices_) {
    prompt_tokens += choice->start.prompt_tokens;
    // A prompt counts once, with its first choice.
    if (choice->start.prompt_tokens > 0) cached_tokens += choice->statistics.shared_tokens;
    answer_tokens += choice->answer_tokens;
    prompt_ms += 1e3 * choice->prefill_seconds;
    answer_ms = std::max(answer_ms, 1e3 * (choice->statistics.seconds - choice->prefill_seconds));
  }
  json["usage"] = {{"prompt_tokens", prompt_tokens},
                   {"completion_tokens", answer_tokens},
                   {"total_tokens", prompt_tokens + answer_tokens},
                   {"prompt_tokens_details", {{"cached_tokens", cached_tokens}}}};
  json["timings"] = {{"prompt_n", prompt_tokens - cached_tokens},
                     {"prompt_ms", prompt_ms},
                     {"prompt_per_second", per_second(prompt_tokens - cached_tokens, prompt_ms)},
                     {"predicted_n", answer_tokens},
                     {"predicted_ms", answer_ms},
                     {"predicted_per_second", per_second(answer_tokens, answer_ms)},
                     {"cache_n", cached_tokens}};
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
  metrics_.count_request(choices_.front()->finish_reason);
  metrics_.observe_request(clock_.seconds());
  if (request_.stream) {
    if (request_.include_usage) {
      ordered_json chunk = envelope(true);
      chunk["choices"] = ordered_json::array();
      add_usage(chunk);
      send(chunk);
    }
    reply_->write("data: [DONE]\n\n");
    reply_->end();
    return;
  }
  ordered_json json = envelope(false);
  json["choices"] = ordered_json::array();
  for (const auto& choice : choices_) {
    Piece& piece = choice->answer;
    ordered_json ids = ordered_json::array();
    for (const TokenRecord& record : piece.tokens) ids.push_back(record.token);
    piece.tokens.insert(piece.tokens.begin(), choice->scores.begin(), choice->scores.end());
    ordered_json each = choice_json(*choice, piece, false, false);
    ordered_json own{{"tokens", std::move(ids)}, {"stats", stats_json(*choice)}};
    if (request_.events) own["events"] = std::move(choice->events);
    each["lacuna"] = std::move(own);
    json["choices"].push_back(std::move(each));
  }
  add_usage(json);
  reply_->send({200, "application/json"}, dump(json));
}

void Completion::fail(const std::string& sentence) {
  if (std::exchange(has_failed_, true)) return;
  metrics_.count_request("failed");
  if (request_.stream) {
    open();
    send(error_json(500, sentence));
    reply_->write("data: [DONE]\n\n");
    reply_->end();
  } else {
    reply_->send({500, "application/json"}, dump(error_json(500, sentence)));
  }
}

}  // namespace lacuna
