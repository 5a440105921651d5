#include "engine/inference_session.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/gguf.h"
#include "model/locate.h"
#include "options/choose.h"

namespace lacuna {
namespace {

std::shared_ptr<const BackendModel> load(const Device& device, const std::string& name,
                                         const ModelSource& source, const WeightFormats& formats,
                                         const SessionOptions& options) {
  LoadProgress progress;
  if (options.progress) {
    progress = [&](int64_t done, int64_t total) { options.progress(name, done, total); };
  }
  if (!source.folder.empty() && !GgufFile::is_gguf(source.folder)) require_whole_download(source.folder);
  return load_on(device, source.folder, source.config, formats, options.random_seed, progress);
}

/// State of one call, shared with the session's thread, which may use it after the call has returned.
struct PendingCall {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::vector<std::optional<GenerationResult>> results;
  size_t left = 0;  // requests that have not ended
  std::exception_ptr error;
  SessionListener* listener = nullptr;  // null once the call is over

  bool is_over() const { return left == 0 || error != nullptr; }
};

/// Listens to one request of a call.
class CallListener final : public RequestListener {
 public:
  CallListener(std::shared_ptr<PendingCall> call, size_t index, std::shared_ptr<const OpenedModel> opened,
               const GenerateRequest& request)
      : call_(std::move(call)),
        index_(index),
        opened_(std::move(opened)),
        seed_(request.seed),
        stop_(request.stop) {}

  bool stepped(const StepEvent& event) override {
    const std::lock_guard lock(call_->mutex);
    if (call_->listener == nullptr) return true;
    try {
      return call_->listener->stepped(index_, event);
    } catch (...) {
      end(std::current_exception());
      return false;
    }
  }

  void finished(const Decoder& decoder, const RunStatistics& statistics) override {
    const std::lock_guard lock(call_->mutex);
    try {
      call_->results[index_] =
          make_result(decoder, statistics, opened_->config(), opened_->tokenizer(), seed_, stop_);
    } catch (...) {
      end(std::current_exception());
    }
    --call_->left;
    call_->changed.notify_all();
  }

  void failed(const std::string& sentence) override {
    const std::lock_guard lock(call_->mutex);
    end(std::make_exception_ptr(InputError(sentence)));
  }

  void lost(const std::exception_ptr& error) noexcept override {
    const std::lock_guard lock(call_->mutex);
    end(error);
  }

 private:
  /// Ends the call with its first error. Call with the call's mutex held.
  void end(std::exception_ptr error) {
    if (!call_->error) call_->error = std::move(error);
    call_->changed.notify_all();
  }

  std::shared_ptr<PendingCall> call_;
  size_t index_;
  std::shared_ptr<const OpenedModel> opened_;
  uint64_t seed_;
  std::vector<std::string> stop_;
};

/// Scores each candidate layout of a canvas, and forwards events to the caller's listener.
class ScoringListener final : public SessionListener {
 public:
  ScoringListener(SessionListener* next, size_t num_candidates) : next_(next), scores_(num_candidates) {}

  void accepted(size_t index, const Decoder& decoder) override {
    if (next_ != nullptr) next_->accepted(first_ + index, decoder);
  }
  bool stepped(size_t index, const StepEvent& event) override {
    scores_[first_ + index].note(event);
    return next_ == nullptr || next_->stepped(first_ + index, event);
  }

  /// Sets the first candidate of the next call.
  void begin_at(size_t first) { first_ = first; }
  double mean(size_t candidate) const { return scores_[candidate].mean(); }

 private:
  SessionListener* next_;
  std::vector<CandidateScore> scores_;
  size_t first_ = 0;
};

/// Text that was written into each hole of a canvas.
std::vector<FilledHole> filled_holes(std::span<const IndexRange> ranges, std::span<const TokenId> canvas,
                                     const OpenedModel& opened) {
  std::vector<FilledHole> holes;
  for (const IndexRange& range : ranges) {
    const std::span<const TokenId> tokens =
        canvas.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
    holes.push_back({range.begin,
                     {tokens.begin(), tokens.end()},
                     opened.tokenizer() != nullptr ? opened.tokenizer()->decode(tokens) : ""});
  }
  return holes;
}

/// Positions of the holes on a canvas of fixed length.
std::vector<IndexRange> laid_out_holes(const InfillCanvas& canvas) {
  const auto begin = static_cast<int32_t>(canvas.prompt.size());
  std::vector<IndexRange> ranges;
  for (const GrowingHole& hole : canvas.holes) {
    ranges.push_back({hole.positions.begin + begin, hole.positions.end + begin});
  }
  return ranges;
}

std::vector<InfillCanvas> canvases_of(const OpenedModel& opened, const InfillRequest& request,
                                      const Strategy& strategy) {
  const auto constraint = request.constraint ? opened.automaton_of(*request.constraint) : nullptr;
  return infill_canvases(request.canvas, strategy, opened.config(), opened.tokenizer(), constraint.get());
}

/// Adds the cost of another candidate; the time is the longest one.
void add(const RunStatistics& own, RunStatistics& sum) {
  sum.steps += own.steps;
  sum.forward_passes += own.forward_passes;
  sum.cost += own.cost;
  sum.uncached += own.uncached;
  sum.baseline += own.baseline;
  sum.seconds = std::max(sum.seconds, own.seconds);
}

}  // namespace

SchedulerLimits own_limits(int32_t most_running) {
  SchedulerLimits limits;
  limits.max_running = most_running;
  limits.max_queue = std::numeric_limits<int32_t>::max();
  limits.memory = std::numeric_limits<int64_t>::max();
  limits.prefix_memory = -1;
  limits.pass_rows = std::numeric_limits<int32_t>::max();
  return limits;
}

std::vector<GenerateRequest> infill_candidates(const OpenedModel& opened, const InfillRequest& request) {
  const auto is_hole = [](const CanvasPart& part) { return std::holds_alternative<Hole>(part); };
  if (std::none_of(request.canvas.begin(), request.canvas.end(), is_hole)) {
    throw InputError("the canvas has no hole; expected at least one");
  }
  const Strategy strategy = request.strategy ? *request.strategy : choose_strategy(opened.config(), {});
  std::vector<GenerateRequest> candidates;
  for (InfillCanvas& canvas : canvases_of(opened, request, strategy)) {
    GenerateRequest& candidate = candidates.emplace_back();
    candidate.strategy = strategy;
    candidate.seed = request.seed;
    candidate.constraint = request.constraint;
    candidate.gives_literals = request.gives_literals;
    candidate.adjustments = request.adjustments;
    take_canvas(std::move(canvas), opened.config(), candidate);
  }
  return candidates;
}

void take_canvas(InfillCanvas canvas, const ModelConfig& config, GenerateRequest& request) {
  request.prompt = std::move(canvas.prompt);
  request.answer = std::move(canvas.answer);
  request.constrained_prefix = canvas.constrained_prefix;
  if (request.strategy && changes_lengths(*request.strategy, config)) request.holes = std::move(canvas.holes);
}

std::unique_ptr<InferenceSession> InferenceSession::load(std::shared_ptr<const OpenedModel> opened,
                                                         const SessionOptions& options) {
  const Device device =
      open_device(options.device, std::make_shared<const CpuDevice>(options.threads, options.pin));
  Parts parts{lacuna::load(device, opened->name(), opened->source(), options.formats, options)};
  if (const GuideSource* guide = opened->guide()) {
    parts.guide = lacuna::load(device, guide->model, guide->source, options.guide_formats, options);
  }
  return std::make_unique<InferenceSession>(std::move(opened), std::move(parts), options.limits);
}

InferenceSession::InferenceSession(std::shared_ptr<const OpenedModel> opened, Parts parts,
                                   const SchedulerLimits& limits)
    : opened_(std::move(opened)),
      parts_(std::move(parts)),
      scheduler_(std::make_unique<Scheduler>(parts_.model, parts_.guide, limits)) {}

InferenceSession::~InferenceSession() {
  scheduler_->stop();
}

GenerationResult InferenceSession::generate(const GenerateRequest& request, SessionListener* listener,
                                            const std::stop_token& stop) {
  return std::move(generate_all(std::span(&request, 1), listener, stop).front());
}

std::vector<GenerationResult> InferenceSession::generate_all(std::span<const GenerateRequest> requests,
                                                             SessionListener* listener,
                                                             const std::stop_token& stop) {
  const auto call = std::make_shared<PendingCall>();
  call->results.resize(requests.size());
  call->left = requests.size();
  call->listener = listener;
  std::vector<Scheduler::Job> jobs;
  for (size_t i = 0; i < requests.size(); ++i) {
    jobs.push_back(
        {opened_->make_decoder(requests[i]), std::make_shared<CallListener>(call, i, opened_, requests[i])});
  }
  for (size_t i = 0; listener != nullptr && i < jobs.size(); ++i) listener->accepted(i, *jobs[i].decoder);
  const std::vector<uint64_t> ids = scheduler_->submit(std::move(jobs));

  std::unique_lock lock(call->mutex);
  const bool has_ended = call->changed.wait(lock, stop, [&] { return call->is_over(); });
  call->listener = nullptr;
  const std::exception_ptr error = has_ended ? call->error : std::make_exception_ptr(Cancelled());
  lock.unlock();
  if (error) {
    scheduler_->cancel(ids);
    std::rethrow_exception(error);
  }
  std::vector<GenerationResult> results;
  for (std::optional<GenerationResult>& result : call->results) results.push_back(*std::move(result));
  return results;
}

InfillResult InferenceSession::infill(const InfillRequest& request, SessionListener* listener,
                                      const std::stop_token& stop) {
  const std::vector<GenerateRequest> candidates = infill_candidates(*opened_, request);
  ScoringListener scores(listener, candidates.size());
  std::vector<GenerationResult> results;
  const size_t together = request.one_at_a_time ? 1 : candidates.size();
  for (size_t first = 0; first < candidates.size(); first += together) {
    scores.begin_at(first);
    for (GenerationResult& result :
         generate_all(std::span(candidates).subspan(first, together), &scores, stop)) {
      results.push_back(std::move(result));
    }
  }
  size_t best = 0;
  InfillResult found;
  for (size_t i = 0; i < results.size(); ++i) {
    if (scores.mean(i) > scores.mean(best)) best = i;
    add(results[i].statistics, found.statistics);
  }
  found.canvas = std::get<std::vector<TokenId>>(candidates[best].prompt);
  found.canvas.insert(found.canvas.end(), results[best].tokens.begin(), results[best].tokens.end());
  if (opened_->tokenizer() != nullptr) found.text = opened_->tokenizer()->decode(found.canvas);
  std::vector<IndexRange> holes = std::move(results[best].holes);
  if (holes.empty()) {
    holes = laid_out_holes(canvases_of(*opened_, request, *candidates[best].strategy)[best]);
  }
  found.holes = filled_holes(holes, found.canvas, *opened_);
  found.mean_log_confidence = scores.mean(best);
  found.candidates = results.size();
  return found;
}

}  // namespace lacuna
