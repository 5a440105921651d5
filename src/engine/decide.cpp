#include "engine/decide.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "decode/decision.h"

namespace lacuna {
namespace {

/// State of one call, shared with the session's thread, which may use it after the call has returned.
struct PendingDecisions {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::vector<std::unique_ptr<PreparedDecision>> prepared;
  std::vector<DecideResult> results;
  size_t num_done = 0;
  std::exception_ptr error;
  std::function<void(size_t)> progress;  // empty once the call is over

  bool is_over() const { return num_done == results.size() || error != nullptr; }
};

class DecisionListener final : public RequestListener {
 public:
  DecisionListener(std::shared_ptr<PendingDecisions> call, size_t index)
      : call_(std::move(call)), index_(index) {}

  bool stepped(const StepEvent& /*event*/) override { return true; }

  void finished(const Decoder& decoder, const RunStatistics& statistics) override {
    const std::lock_guard lock(call_->mutex);
    try {
      call_->results[index_] = call_->prepared[index_]->result(decoder.measurements().readings(), statistics);
      ++call_->num_done;
      if (call_->progress) call_->progress(call_->num_done);
    } catch (...) {
      if (!call_->error) call_->error = std::current_exception();
    }
    call_->changed.notify_all();
  }

  void failed(const std::string& sentence) override {
    const std::lock_guard lock(call_->mutex);
    if (!call_->error) call_->error = std::make_exception_ptr(InputError(sentence));
    call_->changed.notify_all();
  }

  void lost(const std::exception_ptr& error) noexcept override {
    const std::lock_guard lock(call_->mutex);
    if (!call_->error) call_->error = error;
    call_->changed.notify_all();
  }

 private:
  std::shared_ptr<PendingDecisions> call_;
  size_t index_;
};

bool has_choice(const DecideRequest& request) {
  return std::any_of(request.questions.begin(), request.questions.end(),
                     [](const DecisionQuestion& question) { return question.kind == QuestionKind::kChoice; });
}

/// Mean of one option's probability over noise samples, and the variance of that mean.
struct MeanOfDraws {
  double mean = 0;
  double variance = 0;
};

MeanOfDraws mean_of(std::span<const std::vector<double>> draws, size_t option) {
  const auto n = static_cast<double>(draws.size());
  MeanOfDraws result;
  for (const std::vector<double>& draw : draws) result.mean += draw[option] / n;
  if (draws.size() < 2) return result;
  for (const std::vector<double>& draw : draws)
    result.variance += (draw[option] - result.mean) * (draw[option] - result.mean) / (n - 1) / n;
  return result;
}

}  // namespace

DecisionAnswer answer_of(const DecisionQuestion& question, std::span<const std::vector<double>> logprobs,
                         bool both_orders, double temperature) {
  const size_t num_orders = both_orders ? 2 : 1;
  const size_t num_draws = logprobs.size() / num_orders;
  expects(num_draws > 0 && num_draws * num_orders == logprobs.size(), "each order has as many readings");
  DecisionAnswer answer;
  std::vector<std::vector<double>> probabilities;
  for (const std::vector<double>& reading : logprobs) {
    double mass = 0;
    for (const double logprob : reading) mass += std::exp(logprob);
    answer.label_mass += std::min(1.0, mass) / static_cast<double>(logprobs.size());
    probabilities.push_back(label_probabilities(reading, temperature));
  }
  answer.probabilities.resize(question.options.size());
  double largest_variance = 0;
  for (size_t option = 0; option < question.options.size(); ++option) {
    double variance = 0;
    for (size_t order = 0; order < num_orders; ++order) {
      const MeanOfDraws drawn =
          mean_of(std::span(probabilities).subspan(order * num_draws, num_draws), option);
      answer.probabilities[option] += drawn.mean / static_cast<double>(num_orders);
      variance += drawn.variance / static_cast<double>(num_orders * num_orders);
    }
    largest_variance = std::max(largest_variance, variance);
  }
  if (num_draws > 1) answer.standard_error = std::sqrt(largest_variance);
  return answer;
}

PreparedDecision::PreparedDecision(const OpenedModel& opened, DecideRequest request)
    : request_(std::move(request)), temperatures_(opened.decision_temperatures()) {
  const AnswerLabels& labels = opened.answer_labels();
  // Only choices are reversed: without one, both canvases would be equal.
  request_.both_orders = request_.both_orders && has_choice(request_);
  DecisionLayout layout =
      lay_out_decision({opened.config(), *opened.tokenizer(), opened.chat_template(), labels}, request_);
  sources_ = std::move(layout.sources);
  prompt_tokens_ = layout.prompt_tokens;
  decoder_ = std::make_unique<DecisionDecoder>(opened.config(), std::move(layout.canvases));
}

DecideResult PreparedDecision::result(std::span<const SlotReading> readings,
                                      const RunStatistics& statistics) const {
  expects(readings.size() == sources_.size(), "every slot was read");
  DecideResult result;
  result.temperatures = temperatures_;
  result.prompt_tokens = prompt_tokens_;
  result.statistics = statistics;
  result.logprobs.resize(request_.questions.size());
  for (const bool reversed : {false, true}) {
    for (size_t slot = 0; slot < readings.size(); ++slot) {
      const SlotSource& source = sources_[slot];
      if (source.reversed != reversed) continue;
      const DecisionQuestion& question = request_.questions[source.question];
      const std::vector<size_t> options = options_of_labels(question, reversed);
      std::vector<double> by_option(options.size());
      for (size_t label = 0; label < options.size(); ++label)
        by_option[options[label]] = readings[slot].logprobs.at(label);
      result.logprobs[source.question].push_back(std::move(by_option));
    }
  }
  for (size_t i = 0; i < request_.questions.size(); ++i) {
    const DecisionQuestion& question = request_.questions[i];
    result.answers.push_back(
        answer_of(question, result.logprobs[i], request_.both_orders, temperatures_.of(question.kind)));
  }
  return result;
}

std::vector<DecideResult> decide_all(InferenceSession& session, std::span<const DecideRequest> requests,
                                     const std::function<void(size_t done)>& done,
                                     const std::stop_token& stop) {
  const auto call = std::make_shared<PendingDecisions>();
  call->results.resize(requests.size());
  call->progress = done;
  std::vector<Scheduler::Job> jobs;
  for (const DecideRequest& request : requests) {
    call->prepared.push_back(std::make_unique<PreparedDecision>(session.opened(), request));
    jobs.push_back(
        {call->prepared.back()->take_decoder(), std::make_shared<DecisionListener>(call, jobs.size())});
  }
  const std::vector<uint64_t> ids = session.scheduler().submit(std::move(jobs));
  std::unique_lock lock(call->mutex);
  const bool has_ended = call->changed.wait(lock, stop, [&] { return call->is_over(); });
  call->progress = {};
  const std::exception_ptr error = has_ended ? call->error : std::make_exception_ptr(Cancelled());
  lock.unlock();
  if (error) {
    session.scheduler().cancel(ids);
    std::rethrow_exception(error);
  }
  return std::move(call->results);
}

DecideResult decide(InferenceSession& session, const DecideRequest& request, const std::stop_token& stop) {
  return std::move(decide_all(session, std::span(&request, 1), {}, stop).front());
}

}  // namespace lacuna
