#include "api/running.h"

#include <algorithm>
#include <span>
#include <utility>

#include "api/tools.h"

namespace lacuna {
namespace {

void expect_candidates(std::span<const int32_t> chosen, std::span<const int32_t> positions) {
  if (chosen.empty()) throw InputError("unmask chose no position; expected at least one of the candidates");
  for (const int32_t position : chosen) {
    if (std::binary_search(positions.begin(), positions.end(), position)) continue;
    throw InputError("unmask chose position {}, which is not a candidate; expected some of {} to {}",
                     position, positions.front(), positions.back());
  }
}

Statistics statistics_of(const GenerationResult& result) {
  const RunStatistics& run = result.statistics;
  Statistics statistics;
  statistics.steps = run.steps;
  statistics.forward_passes = run.forward_passes;
  statistics.rows = run.cost.rows;
  statistics.rows_baseline = run.baseline.rows;
  statistics.flops = run.cost.flops();
  statistics.flops_baseline = run.baseline.flops();
  statistics.seconds = run.seconds;
  statistics.tokens_per_second = result.tokens_per_second();
  return statistics;
}

}  // namespace

std::vector<int32_t> GuardedUnmask::choose(const Candidates& candidates) {
  std::vector<int32_t> first = {candidates.position.front()};
  if (!function_) return first;
  try {
    std::vector<int32_t> chosen = function_(candidates);
    expect_candidates(chosen, candidates.position);
    return chosen;
  } catch (...) {
    error_ = std::current_exception();
    drop();
    return first;
  }
}

Answer answer_of(GenerationResult result) {
  Answer answer;
  answer.statistics = statistics_of(result);
  answer.text = std::move(result.text);
  answer.tokens = std::move(result.tokens);
  answer.prompt_tokens = result.prompt_tokens;
  answer.answer_tokens = result.answer_tokens;
  answer.stop_reason = result.stop_reason;
  answer.seed = result.seed;
  return answer;
}

bool call(const PassCallback& callback, const StepEvent& event) {
  PassEvent shown;
  shown.step = event.report.step;
  shown.kind = event.report.kind;
  shown.canvas = event.decoder.canvas();
  shown.prompt_tokens = event.decoder.prompt_length();
  shown.final_tokens = event.decoder.prompt_length() + event.decoder.num_final();
  shown.committed = event.report.committed;
  shown.rows = event.cost.rows;
  shown.seconds = event.pass_seconds;
  return callback(shown);
}

bool Running::stepped(const StepEvent& event) {
  if (is_cancelled_) return false;
  try {
    if (const std::exception_ptr error = unmask_ ? unmask_->take_error() : nullptr)
      std::rethrow_exception(error);
    return !callback_ || call(callback_, event);
  } catch (...) {
    const MutexLock lock(mutex_);
    error_ = std::current_exception();
    return false;
  }
}

void Running::finished(const Decoder& decoder, const RunStatistics& statistics) {
  try {
    GenerationResult result = make_result(decoder, statistics, opened_->config(), opened_->tokenizer(), seed_,
                                          stop_, may_call_tools_);
    if (may_call_tools_) result.text = with_tagged_calls(result.text, opened_->tool_call_form());
    end(answer_of(std::move(result)), nullptr);
  } catch (...) {
    end({}, std::current_exception());
  }
}

void Running::failed(const std::string& sentence) {
  end({}, std::make_exception_ptr(InputError("{}", sentence)));
}

Answer Running::wait() {
  const MutexLock lock(mutex_);
  while (!is_over_) ended_.wait(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::move(answer_);
}

void Running::end(Answer answer, const std::exception_ptr& error) {
  callback_ = nullptr;
  if (unmask_) unmask_->drop();
  const MutexLock lock(mutex_);
  answer_ = std::move(answer);
  if (!error_) error_ = error;
  is_over_ = true;
  ended_.notify_all();
}

}  // namespace lacuna
