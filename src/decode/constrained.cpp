#include "decode/constrained.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr uint64_t kWitnessNoise = 20;  // noise stream by purpose, besides kTokenNoise
constexpr double kMinProbability = 1e-9;

/// Confidence of a token with this probability among the allowed ones.
double confidence_by(ConfidenceMeasure measure, double probability) {
  switch (measure) {
    case ConfidenceMeasure::kProbability:
      return probability;
    case ConfidenceMeasure::kMargin:
      return std::max(0.0, 2 * probability - 1);
    case ConfidenceMeasure::kNegativeEntropy:
      return std::log(std::max(probability, kMinProbability));
  }
  return probability;
}

}  // namespace

TokenClasses classes_of(const TokenAutomaton& automaton) {
  TokenClasses classes;
  const int never = automaton.num_classes();
  classes.count = never + 1;
  for (const ClassId each : automaton.token_classes())
    classes.of_token.push_back(static_cast<uint16_t>(each == kNoClass ? never : each));
  return classes;
}

RowScores::RowScores(std::span<const ClassStatistics> row, size_t num_classes, float temperature)
    : scale_(temperature > 0 ? 1 / double{temperature} : 1) {
  double most = -std::numeric_limits<double>::infinity();
  for (const ClassStatistics& each : row) most = std::max(most, each.log_sum);
  double sum = 0;
  for (const ClassStatistics& each : row) sum += std::exp(each.log_sum - most);
  log_sum_ = most + std::log(sum);
  for (const ClassStatistics& each : row.first(num_classes)) {
    tokens_.push_back(each.token);
    logprobs_.push_back(static_cast<float>(each.logit * scale_ - log_sum_));
    lse_.push_back(static_cast<float>(each.log_sum - log_sum_));
  }
}

double RowScores::probability_among(const ClassSet& allowed, float logit) const {
  double sum = 0;
  allowed.for_each([&](size_t each) { sum += std::exp(double{lse_[each]}); });
  return sum > 0 ? std::min(1.0, std::exp(logit * scale_ - log_sum_) / sum) : 1;
}

ConstrainedDecoder::ConstrainedDecoder(std::unique_ptr<Decoder> wrapped, AnswerConstraint constraint)
    : FollowUpWrapper(std::move(wrapped)),
      constraint_(std::move(constraint)),
      classes_(classes_of(*constraint_.automaton)),
      end_(prompt_length() + constraint_.gen_length),
      first_open_(prompt_length()),
      state_(constraint_.start),
      start_(static_cast<size_t>(constraint_.automaton->num_states())) {
  start_.insert(state_);
  answer().finish_blocks_with(
      [this](IndexRange positions, std::span<TokenId> tokens) { finish_block(positions, tokens); });
  answer().write_only_with([this](int32_t position, TokenId token) { return allows(position, token); });
  answer().edit_only_with([this](const CanvasEdit& edit) { return allows(edit); });
  StepReport before;
  write_literal(before);
}

// Known tokens, and the tokens that the samples would add.

void ConstrainedDecoder::begin_samples(std::span<const RowStatistics> samples, std::span<const LogitRow> rows,
                                       std::span<const int32_t> positions, std::span<const TokenId> drafts) {
  samples_.assign(samples.begin(), samples.end());
  rows_.assign(rows.begin(), rows.end());
  judges_ = !drafts.empty();
  constrained_.clear();
  for (size_t i = 0; i < positions.size(); ++i) {
    const int32_t position = positions[i];
    if (position < prompt_length() || position >= end_) continue;
    const bool is_known = position < static_cast<int32_t>(inner().canvas().size());
    const bool is_open = !is_known || inner().held_token(position) < 0;
    constrained_.push_back(
        {.index = i, .position = position, .is_open = is_open, .draft = judges_ ? drafts[i] : -1});
  }
  open_window();
}

void ConstrainedDecoder::open_window() {
  const std::span<const TokenId> canvas = inner().canvas();
  const TokenAutomaton& automaton = *constraint_.automaton;
  if (constraint_.changes_length) end_ = static_cast<int32_t>(canvas.size());
  const int32_t final_end = std::min(end_, prompt_length() + inner().num_final());
  if (first_open_ < final_end) {
    start_.erase(state_);
    for (; first_open_ < final_end; ++first_open_) {
      state_ = automaton.next(state_, canvas[static_cast<size_t>(first_open_)]);
      expects(state_ != kNoState, "what is written can be completed");
    }
    start_.insert(state_);
  }
  const auto known_end = std::min(end_, static_cast<int32_t>(canvas.size()));
  window_.clear();
  for (int32_t position = first_open_; position < known_end; ++position)
    window_.push_back(inner().held_token(position));
  int32_t last = known_end;
  while (!constraint_.only_text && last > first_open_ && window_[place_of(last - 1)] < 0) --last;
  for (const Sample& sample : constrained_) {
    if (sample.is_open) last = std::max(last, sample.position + 1);
  }
  window_.resize(static_cast<size_t>(last - first_open_), -1);
}

void ConstrainedDecoder::keep_held() {
  for (const Sample& sample : constrained_) {
    if (sample.is_open) continue;
    RowStatistics& row = samples_[sample.index];
    row.token = row.best_token = inner().held_token(sample.position);
  }
}

ConstrainedCanvas ConstrainedDecoder::canvas_of(std::span<const TokenId> tokens) const {
  const auto written = static_cast<int64_t>(tokens.size());
  return {.tokens = tokens,
          .tokens_after = end_ - first_open_ - written,
          .start = &start_,
          .only_text = constraint_.only_text};
}

TokenId ConstrainedDecoder::target_of(const Sample& sample) const {
  const RowStatistics& row = samples_[sample.index];
  return answer().commits_best_tokens() ? row.best_token : row.token;
}

void ConstrainedDecoder::set_targets() {
  targets_ = window_;
  int32_t refused_before = -1;  // in a run: the position after a rejected draft
  for (const Sample& sample : constrained_) {
    if (!sample.is_open) continue;
    if (judges_ && sample.position == refused_before) {
      ++refused_before;
      continue;
    }
    if (sample.is_edit) continue;
    const bool is_accepted = sample.draft >= 0 && answer().accepts(samples_[sample.index], sample.draft);
    targets_[place_of(sample.position)] = is_accepted ? sample.draft : target_of(sample);
    if (!is_accepted) refused_before = sample.position + 1;
  }
}

bool ConstrainedDecoder::are_possible() {
  if (constrained_.empty()) return true;
  keep_held();
  const bool edits_are_allowed = find_edits();
  set_targets();
  if (edits_are_allowed && is_completable(*constraint_.automaton, canvas_of(targets_))) return true;
  for (const Sample& sample : constrained_) {
    if (!sample.is_open) continue;
    class_rows_.push_back({rows_[sample.index], &classes_, !answer().commits_best_tokens()});
  }
  return false;
}

bool ConstrainedDecoder::allows(int32_t position, TokenId token) {
  constrained_ = {{.position = position}};
  open_window();
  window_[place_of(position)] = token;
  return is_completable(*constraint_.automaton, canvas_of(window_));
}

// Canvases that change their length.

const FeasibleSets& ConstrainedDecoder::sets_of_window() {
  if (!window_sets_ || edit_state_ != state_ || edit_window_ != window_) {
    edit_window_ = window_;
    edit_state_ = state_;
    window_sets_.emplace(*constraint_.automaton, canvas_of(edit_window_));
  }
  return *window_sets_;
}

bool ConstrainedDecoder::allows(const CanvasEdit& edit) {
  // After the witness's text, low confidence is no uncertainty: its end tokens are held back.
  if (is_replaced_ && edit.positions.begin >= replaced_end_) return false;
  constrained_.clear();
  open_window();
  // The window covers the whole canvas: an edit may be anywhere.
  window_.resize(static_cast<size_t>(end_ - first_open_), -1);
  const FeasibleSets& sets = sets_of_window();
  StateSet states = sets.forward(place_of(edit.positions.begin));
  for (const TokenId token : edit.tokens)
    states = states_after(*constraint_.automaton, states, token, constraint_.only_text);
  return states.intersects(sets.backward(place_of(edit.positions.end)));
}

bool ConstrainedDecoder::find_edits() {
  if (!constraint_.changes_length) return true;
  bool are_possible = true;
  std::vector<Sample> samples = std::move(constrained_);
  for (Sample& sample : samples) {
    if (!sample.is_open) continue;
    const std::optional<CanvasEdit> edit = answer().edit_of(sample.position, target_of(sample));
    if (!edit) continue;
    sample.is_edit = allows(*edit);
    are_possible = are_possible && sample.is_edit;
  }
  constrained_ = std::move(samples);
  open_window();
  return are_possible;
}

// The course of a pass.

StepReport ConstrainedDecoder::apply(const PassResult& result) {
  plan_ = &inner().plan();
  kv_drift_.assign(result.kv_drift.begin(), result.kv_drift.end());
  rollout_.assign(result.rollout.begin(), result.rollout.end());
  is_replaced_ = in_follow_up_ = false;
  begin_samples(result.samples, plan_->logits, answer().sampled_positions(), answer().judged_drafts());
  if (!are_possible()) return {};
  StepReport report = apply_samples();
  write_literal(report);
  return report;
}

int64_t ConstrainedDecoder::constraint_steps() const {
  return static_cast<int64_t>(constraint_.automaton->num_edges()) * std::max(0, end_ - first_open_);
}

void ConstrainedDecoder::write_literal(StepReport& report) {
  if (!constraint_.encode_literal || inner().done() || !inner().follow_up().empty()) return;
  constrained_.clear();
  open_window();
  std::vector<TokenId> tokens = constraint_.encode_literal(constraint_.automaton->literal(state_));
  if (tokens.size() < 2) return;
  tokens.pop_back();  // the last token may merge with the text after it
  size_t count = 0;
  const auto room = static_cast<size_t>(end_ - first_open_);
  while (count < std::min(tokens.size(), room) && (count >= window_.size() || window_[count] < 0)) ++count;
  std::vector<TokenId> written;
  for (; count > 0; --count) {
    written = window_;
    written.resize(std::max(written.size(), count), -1);
    std::copy_n(tokens.begin(), count, written.begin());
    if (is_completable(*constraint_.automaton, canvas_of(written))) break;
  }
  std::vector<Commit> commits;
  for (size_t i = 0; i < count; ++i)
    commits.push_back({first_open_ + static_cast<int32_t>(i), written[i], 1.0});
  if (commits.empty() || !answer().write_given(commits)) return;
  report.committed.insert(report.committed.end(), commits.begin(), commits.end());
  std::ranges::sort(report.committed, {}, &Commit::position);
}

StepReport ConstrainedDecoder::apply_samples() {
  ++num_passes_;
  return apply_inner({samples_, kv_drift_, rollout_});
}

void ConstrainedDecoder::apply_own_follow_up(const FollowUpResult& result, StepReport& report) {
  if (judges_) {
    judge(result.classes);
  } else {
    take(find_witness(result.classes));
  }
  class_rows_.clear();
  if (in_follow_up_) {
    inner().apply_follow_up({.samples = samples_}, report);
  } else {
    report = apply_samples();
  }
  write_literal(report);
}

void ConstrainedDecoder::apply_inner_follow_up(const FollowUpResult& result, StepReport& report) {
  const std::span<const LogitRow> logits = inner().follow_up().logits;
  const std::vector<int32_t> positions = answer().follow_up_positions();
  if (!positions.empty()) {
    in_follow_up_ = true;
    begin_samples(result.samples, logits, positions, {});
    if (are_possible()) inner().apply_follow_up(result, report);
    return;
  }
  if (!is_replaced_) {
    inner().apply_follow_up(result, report);
    write_literal(report);
    return;
  }
  // The witness has decided these positions: their further samples are replaced.
  std::vector<RowStatistics> samples(result.samples.begin(), result.samples.end());
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = 0; j < constrained_.size(); ++j) {
      if (constrained_rows_[j] != logits[i].row) continue;
      samples[i].token = samples[i].best_token = samples_[constrained_[j].index].token;
    }
  }
  FollowUpResult decided = result;
  decided.samples = samples;
  inner().apply_follow_up(decided, report);
  write_literal(report);
}

// Replacement of samples that the constraint rules out.

const SamplingRule& ConstrainedDecoder::rule_of(const Sample& sample) const {
  return plan_->rules[static_cast<size_t>(rows_[sample.index].rule)];
}

bool ConstrainedDecoder::is_random(const Sample& sample) const {
  return rule_of(sample).temperature > 0 && rule_of(sample).draws && !answer().commits_best_tokens();
}

Witness ConstrainedDecoder::find_witness(std::span<const ClassStatistics> classes) const {
  const TokenAutomaton& automaton = *constraint_.automaton;
  const auto num_classes = static_cast<size_t>(automaton.num_classes());
  std::vector<RowScores> rows;
  std::vector<size_t> places;
  bool samples = false;
  for (const Sample& sample : constrained_) {
    if (!sample.is_open) continue;
    samples = samples || is_random(sample);
    rows.emplace_back(classes.first(num_classes + 1), num_classes, rule_of(sample).temperature);
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
  is_replaced_ = true;
  targets_ = witness.tokens;
  size_t text_end = 0;     // length of the witness without its end tokens
  bool is_written = true;  // whether that text is written
  for (StateId state = state_; text_end < targets_.size(); ++text_end) {
    state = automaton.next(state, targets_[text_end]);
    if (state == automaton.ended()) break;
    is_written = is_written && window_[text_end] >= 0;
  }
  replaced_end_ = first_open_ + static_cast<int32_t>(text_end);
  constrained_rows_.clear();
  for (const Sample& sample : constrained_) {
    constrained_rows_.push_back(rows_[sample.index].row);
    if (!sample.is_open || sample.is_edit) continue;
    const size_t place = place_of(sample.position);
    const TokenId token = targets_[place];
    RowStatistics& row = samples_[sample.index];
    if (token != target_of(sample)) row.token = token;
    row.best_token = token;
    // End tokens after the text are certain once the text is written; before that they are held back.
    double probability = witness.probability[place];
    if (place >= text_end && constraint_.writes_ends_last) probability = is_written ? 1 : 0;
    row.confidence = confidence_by(rule_of(sample).measure, probability);
  }
}

Witness ConstrainedDecoder::choose_token(const FeasibleSets& sets, const Sample& sample,
                                         const ClassScores& scores) const {
  const size_t place = place_of(sample.position);
  const std::span<const TokenId> rest = std::span(targets_).subspan(place);
  ConstrainedCanvas canvas = canvas_of(targets_);
  canvas.tokens = rest;
  canvas.start = &sets.forward(place);
  std::vector<ClassScores> all(rest.size());
  all[0] = scores;
  const FeasibleSets behind(*constraint_.automaton, canvas);
  if (!is_random(sample)) return best_witness(behind, all);
  return sample_witness(behind, all, RngStream(constraint_.seed, kWitnessNoise, sample.position));
}

void ConstrainedDecoder::judge(std::span<const ClassStatistics> classes) {
  const TokenAutomaton& automaton = *constraint_.automaton;
  const auto num_classes = static_cast<size_t>(automaton.num_classes());
  targets_ = window_;
  FeasibleSets sets(automaton, canvas_of(window_));
  int32_t refused_before = -1;
  for (const Sample& sample : constrained_) {
    if (!sample.is_open) continue;
    const std::span<const ClassStatistics> own = classes.first(num_classes + 1);
    classes = classes.subspan(num_classes + 1);
    if (sample.position == refused_before) {
      ++refused_before;
      continue;
    }
    const size_t place = place_of(sample.position);
    RowStatistics& row = samples_[sample.index];
    const RowScores scores(own, num_classes, rule_of(sample).temperature);
    const bool draft_is_possible = sample.draft >= 0 && sets.allows(place, sample.draft);
    row.scored_probability =
        draft_is_possible ? scores.probability_among(sets.allowed(place), row.scored_logit) : 0;
    if (!sets.allows(place, row.token)) {
      const Witness chosen = choose_token(sets, sample, scores.view());
      row.token = row.best_token = chosen.tokens[0];
      row.confidence = confidence_by(rule_of(sample).measure, chosen.probability[0]);
    }
    const bool is_accepted = draft_is_possible && answer().accepts(row, sample.draft);
    if (!is_accepted) refused_before = sample.position + 1;
    targets_[place] = is_accepted ? sample.draft : row.token;
    sets.set(place, targets_[place]);
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
