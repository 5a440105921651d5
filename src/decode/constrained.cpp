#include "decode/constrained.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr uint64_t kWitnessNoise = 20;  // what random numbers are for, besides kTokenNoise
constexpr double kLeastProbability = 1e-9;

/// How sure a decoder is of a token that has this probability among those that are allowed.
double confidence_by(ConfidenceMeasure measure, double probability) {
  switch (measure) {
    case ConfidenceMeasure::kProbability:
      return probability;
    case ConfidenceMeasure::kMargin:
      return std::max(0.0, 2 * probability - 1);
    case ConfidenceMeasure::kNegativeEntropy:
      return std::log(std::max(probability, kLeastProbability));
  }
  return probability;
}

TokenClasses classes_of(const TokenAutomaton& automaton) {
  TokenClasses classes;
  const int never = automaton.num_classes();
  classes.count = never + 1;
  for (const ClassId each : automaton.token_classes())
    classes.of_token.push_back(static_cast<uint16_t>(each == kNoClass ? never : each));
  return classes;
}

/// Scores of one row, in arrays that they view.
struct RowScores {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs, lse;

  RowScores(std::span<const ClassStatistics> row, size_t num_classes, float temperature) {
    const double inverse = temperature > 0 ? 1 / double{temperature} : 1;
    double most = -std::numeric_limits<double>::infinity();
    for (const ClassStatistics& each : row) most = std::max(most, each.log_sum);
    double sum = 0;
    for (const ClassStatistics& each : row) sum += std::exp(each.log_sum - most);
    const double total = most + std::log(sum);
    for (const ClassStatistics& each : row.first(num_classes)) {
      tokens.push_back(each.token);
      logprobs.push_back(static_cast<float>(each.logit * inverse - total));
      lse.push_back(static_cast<float>(each.log_sum - total));
    }
  }

  ClassScores view() const { return {tokens, logprobs, lse, {}}; }
};

}  // namespace

ConstrainedDecoder::ConstrainedDecoder(std::unique_ptr<Decoder> wrapped, AnswerConstraint constraint)
    : DecoderWrapper(std::move(wrapped)),
      constraint_(std::move(constraint)),
      classes_(classes_of(*constraint_.automaton)),
      end_(prompt_length() + constraint_.gen_length),
      first_open_(prompt_length()) {
  inner().finish_blocks_with(
      [this](IndexRange positions, std::span<TokenId> tokens) { finish_block(positions, tokens); });
}

void ConstrainedDecoder::open_window(std::span<const int32_t> sampled) {
  const std::span<const TokenId> canvas = inner().canvas();
  const TokenAutomaton& automaton = *constraint_.automaton;
  for (; first_open_ < end_ && !inner().is_open(first_open_); ++first_open_) {
    state_ = automaton.next(state_, canvas[static_cast<size_t>(first_open_)]);
    expects(state_ != kNoState, "what is written can be completed");
  }
  int32_t last = first_open_;
  const auto known_end = std::min(end_, static_cast<int32_t>(canvas.size()));
  for (int32_t position = first_open_; position < known_end; ++position) {
    if (!inner().is_open(position)) last = position + 1;
  }
  constrained_.clear();
  for (size_t i = 0; i < sampled.size(); ++i) {
    const int32_t position = sampled[i];
    if (position < inner().prompt_length() || position >= end_) continue;
    const bool is_open = inner().is_open(position);
    if (is_open) last = std::max(last, position + 1);
    constrained_.push_back({i, position, is_open});
  }
  window_.assign(static_cast<size_t>(last - first_open_), -1);
  for (int32_t position = first_open_; position < std::min(last, known_end); ++position) {
    if (!inner().is_open(position)) window_[place_of(position)] = canvas[static_cast<size_t>(position)];
  }
}

void ConstrainedDecoder::keep_written() {
  for (const Sample& sample : constrained_) {
    if (sample.is_open) continue;
    RowStatistics& row = samples_[sample.index];
    row.token = row.best_token = inner().canvas()[static_cast<size_t>(sample.position)];
  }
}

ConstrainedCanvas ConstrainedDecoder::canvas_of(std::span<const TokenId> tokens) const {
  const auto written = static_cast<int64_t>(tokens.size());
  return {.tokens = tokens, .tokens_after = end_ - first_open_ - written, .start = &start_};
}

TokenId ConstrainedDecoder::target_of(const Sample& sample) const {
  const RowStatistics& row = samples_[sample.index];
  return inner().commits_best_tokens() ? row.best_token : row.token;
}

StepReport ConstrainedDecoder::apply(const PassResult& result) {
  const std::vector<int32_t> sampled = inner().sampled_positions();
  samples_.assign(result.samples.begin(), result.samples.end());
  kv_drift_.assign(result.kv_drift.begin(), result.kv_drift.end());
  is_replaced_ = false;
  open_window(sampled);
  if (constrained_.empty()) return apply_samples();
  keep_written();
  start_ = StateSet(static_cast<size_t>(constraint_.automaton->num_states()));
  start_.insert(state_);
  targets_ = window_;
  for (const Sample& sample : constrained_) {
    if (sample.is_open) targets_[place_of(sample.position)] = target_of(sample);
  }
  if (is_completable(*constraint_.automaton, canvas_of(targets_))) return apply_samples();
  ask_for_classes();
  return {};
}

StepReport ConstrainedDecoder::apply_samples() {
  ++num_passes_;
  return inner().apply({samples_, kv_drift_});
}

void ConstrainedDecoder::ask_for_classes() {
  const StepPlan& plan = inner().plan();
  for (const Sample& sample : constrained_) {
    if (!sample.is_open) continue;
    class_rows_.push_back({plan.logits[sample.index], &classes_, !inner().commits_best_tokens()});
  }
}

FollowUp ConstrainedDecoder::follow_up() const {
  if (!class_rows_.empty()) return {.classes = class_rows_};
  return inner().follow_up();
}

void ConstrainedDecoder::apply_follow_up(const FollowUpResult& result, StepReport& report) {
  if (class_rows_.empty()) {
    apply_own_follow_up(result, report);
    return;
  }
  take(find_witness(result.classes));
  class_rows_.clear();
  report = apply_samples();
  if (inner().remembers_outputs() && inner().follow_up().empty()) inner().apply_follow_up({}, report);
}

void ConstrainedDecoder::apply_own_follow_up(const FollowUpResult& result, StepReport& report) {
  if (!is_replaced_) {
    inner().apply_follow_up(result, report);
    return;
  }
  // Further samples of positions that the witness has decided.
  std::vector<RowStatistics> samples(result.samples.begin(), result.samples.end());
  const std::span<const LogitRow> logits = inner().follow_up().logits;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = 0; j < constrained_.size(); ++j) {
      if (constrained_rows_[j] != logits[i].row) continue;
      samples[i].token = samples[i].best_token = samples_[constrained_[j].index].token;
    }
  }
  FollowUpResult decided = result;
  decided.samples = samples;
  inner().apply_follow_up(decided, report);
}

Witness ConstrainedDecoder::find_witness(std::span<const ClassStatistics> classes) const {
  const TokenAutomaton& automaton = *constraint_.automaton;
  const StepPlan& plan = inner().plan();
  const auto num_classes = static_cast<size_t>(automaton.num_classes());
  std::vector<RowScores> rows;
  std::vector<size_t> places;
  bool samples = false;
  for (const Sample& sample : constrained_) {
    if (!sample.is_open) continue;
    const SamplingRule& rule = plan.rules[static_cast<size_t>(plan.logits[sample.index].rule)];
    samples = samples || (rule.temperature > 0 && rule.draws && !inner().commits_best_tokens());
    rows.emplace_back(classes.first(num_classes + 1), num_classes, rule.temperature);
    classes = classes.subspan(num_classes + 1);
    places.push_back(place_of(sample.position));
  }
  std::vector<ClassScores> scores(window_.size());
  for (size_t i = 0; i < rows.size(); ++i) scores[places[i]] = rows[i].view();
  const FeasibleSets sets(automaton, canvas_of(window_));
  if (!samples) return best_witness(sets, scores);
  return sample_witness(sets, scores, RngStream(constraint_.seed, kWitnessNoise, num_passes_));
}

void ConstrainedDecoder::take(const Witness& witness) {
  const TokenAutomaton& automaton = *constraint_.automaton;
  const StepPlan& plan = inner().plan();
  is_replaced_ = true;
  targets_ = witness.tokens;
  size_t text_end = 0;     // places of the witness before its end token
  bool is_written = true;  // and all of them have their token
  for (StateId state = state_; text_end < targets_.size(); ++text_end) {
    state = automaton.next(state, targets_[text_end]);
    if (state == automaton.ended()) break;
    is_written = is_written && window_[text_end] >= 0;
  }
  constrained_rows_.clear();
  for (const Sample& sample : constrained_) {
    constrained_rows_.push_back(plan.logits[sample.index].row);
    if (!sample.is_open) continue;
    const size_t place = place_of(sample.position);
    const TokenId token = targets_[place];
    RowStatistics& row = samples_[sample.index];
    if (token != target_of(sample)) row.token = token;
    row.best_token = token;
    // The answer ends before the position, or will: nothing depends on its token, or it has time.
    double probability = witness.probability[place];
    if (place >= text_end && constraint_.writes_ends_last) probability = is_written ? 1 : 0;
    const SamplingRule& rule = plan.rules[static_cast<size_t>(plan.logits[sample.index].rule)];
    row.confidence = confidence_by(rule.measure, probability);
  }
}

void ConstrainedDecoder::finish_block(IndexRange positions, std::span<TokenId> tokens) {
  const auto count = std::min(static_cast<size_t>(end_ - positions.begin), tokens.size());
  const std::span<TokenId> written = tokens.first(count);
  expects(positions.begin == first_open_ && targets_.size() >= count, "a pass sampled the whole block");
  if (is_completable(*constraint_.automaton, canvas_of(written))) return;
  std::copy_n(targets_.begin(), count, written.begin());
}

}  // namespace lacuna
