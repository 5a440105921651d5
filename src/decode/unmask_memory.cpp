#include "decode/unmask_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/error.h"

namespace lacuna {
namespace {

/// At most `count` positions with the lowest values; ties: lower positions first.
std::vector<int32_t> lowest(std::vector<std::pair<double, int32_t>> values, size_t count) {
  std::sort(values.begin(), values.end());
  std::vector<int32_t> positions;
  for (size_t i = 0; i < std::min(count, values.size()); ++i) positions.push_back(values[i].second);
  return positions;
}

}  // namespace

StablePasses::StablePasses(const Klass& rule, int32_t num_positions)
    : rule_(rule), passes_(static_cast<size_t>(num_positions)) {}

void StablePasses::start_block() {
  std::fill(passes_.begin(), passes_.end(), 0);
}

std::vector<bool> StablePasses::count(std::span<const Commit> candidates, std::span<const Drift> drifts) {
  expects(drifts.empty() || drifts.size() == candidates.size(), "count: one drift for each candidate");
  std::vector<bool> is_stable;
  for (size_t i = 0; i < candidates.size(); ++i) {
    int32_t& passes = passes_[static_cast<size_t>(candidates[i].position)];
    passes = !drifts.empty() && drifts[i].kl < rule_.kl ? passes + 1 : 0;
    is_stable.push_back(passes >= rule_.history);
  }
  return is_stable;
}

std::vector<int32_t> Verdicts::revoked(std::span<const int32_t> verified,
                                       std::span<const double> probabilities, size_t num_committed) {
  expects(verified.size() == probabilities.size(), "revoked: one probability for each position");
  const size_t limit = last_accepted_;
  last_accepted_ = num_committed;
  if (num_committed <= 1) return {};
  std::vector<std::pair<double, int32_t>> unsure;
  for (size_t i = 0; i < verified.size(); ++i) {
    if (probabilities[i] < rule_.back) unsure.emplace_back(probabilities[i], verified[i]);
  }
  // Remasks fewer tokens than the previous step committed, so that the canvas fills up.
  return lowest(std::move(unsure), limit - 1);
}

ConfidenceTrace::ConfidenceTrace(const Saber& rule, int32_t num_positions)
    : rule_(rule),
      last_(static_cast<size_t>(num_positions), kNone),
      written_(static_cast<size_t>(num_positions), kNone) {}

void ConfidenceTrace::open(std::span<const int32_t> positions, bool is_first_block) {
  if (!is_first_block) return;
  for (const int32_t position : positions) last_[static_cast<size_t>(position)] = 0;
}

void ConfidenceTrace::see(std::span<const Commit> predictions) {
  growth_.clear();
  for (const Commit& each : predictions) {
    double& last = last_[static_cast<size_t>(each.position)];
    if (std::isfinite(last)) growth_.emplace_back(each.confidence - last, each.position);
    last = each.confidence;
  }
}

double ConfidenceTrace::mean_written() const {
  double sum = 0;
  size_t count = 0;
  for (const double confidence : written_) {
    if (confidence == kNone) continue;
    sum += confidence;
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 1;
}

void ConfidenceTrace::write(std::span<const Commit> commits) {
  for (const Commit& commit : commits) written_[static_cast<size_t>(commit.position)] = commit.confidence;
}

std::vector<int32_t> ConfidenceTrace::revoked(const Canvas& canvas, size_t num_committed) const {
  const auto least = static_cast<size_t>(rule_.least);
  const size_t written = std::max(least, num_committed);
  const size_t count = std::min(std::max(least / 2, (written + 7) / 8), written - 1);
  std::vector<std::pair<double, int32_t>> growth = growth_;
  std::erase_if(growth, [&](const auto& each) { return canvas.is_masked(each.second); });
  return lowest(std::move(growth), count);
}

CreditLedger::CreditLedger(const TraceCredit& rule, int32_t num_positions)
    : rule_(rule), credits_(static_cast<size_t>(num_positions)) {}

void CreditLedger::start_block() {
  for (auto& credits : credits_) credits.clear();
}

std::vector<TokenId> CreditLedger::credited(int32_t position) const {
  std::vector<TokenId> tokens;
  for (const auto& [token, credit] : credits_[static_cast<size_t>(position)]) tokens.push_back(token);
  return tokens;
}

std::vector<Commit> CreditLedger::with_credit(std::span<const Commit> candidates,
                                              std::span<const RowStatistics> rows) {
  expects(rows.size() == candidates.size(), "with_credit: one row for each candidate");
  std::vector<Commit> result;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Commit& candidate = candidates[i];
    auto& credits = credits_[static_cast<size_t>(candidate.position)];
    expects(rows[i].listed_logprobs.size() == credits.size(), "with_credit: a logprob for each token");
    std::map<TokenId, double> probabilities;
    size_t next = 0;
    for (auto& [token, credit] : credits) {
      credit *= rule_.beta;
      probabilities[token] = std::exp(rows[i].listed_logprobs[next++]);
    }
    probabilities[candidate.token] = candidate.confidence;
    credits[candidate.token] += std::pow(candidate.confidence, rule_.gamma);
    // Tokens without credit keep their weight, so that all weights add up to 1 plus what credit has added.
    double total = 1;
    Commit best{candidate.position, candidate.token, -1};
    for (const auto& [token, probability] : probabilities) {
      const double weight = probability * std::pow(1 + credits[token], rule_.alpha);
      total += weight - probability;
      if (weight > best.confidence) best = {candidate.position, token, weight};
    }
    best.confidence = std::min(best.confidence / total, 1.0);
    result.push_back(best);
  }
  return result;
}

void SpanCycle::start_block(const Block& block) {
  block_end_ = block.end;
  start(block.begin);
}

void SpanCycle::start(int32_t position) {
  start_ = position;
  pass_ = 0;
  estimate_.reset();
  is_exploring_ = true;
  is_settled_ = false;
}

void SpanCycle::see(std::span<const Commit> predictions) {
  if (!is_exploring_ || is_settled_) return;
  int32_t end = std::min(start_ + 1, block_end_);
  for (const Commit& each : predictions) {
    if (each.position >= start_ && each.confidence >= rule_.span) end = each.position + 1;
  }
  // The published test: the standard deviation of two estimates, half their difference, is below 1.
  is_settled_ = estimate_ && std::abs(end - *estimate_) < 2;
  span_end_ =
      estimate_ && !is_settled_ ? std::midpoint(std::min(end, *estimate_), std::max(end, *estimate_)) : end;
  estimate_ = end;
}

void SpanCycle::finish_pass(const Canvas& canvas) {
  ++pass_;
  if (is_exploring_ && pass_ == rule_.explore) {
    is_exploring_ = false;
    pass_ = 0;
  }
  if (!is_exploring_ && canvas.count_masked(0, span_end_) == 0) start(span_end_);
}

void SlidingEnd::start_block(const Canvas& canvas, const Block& block) {
  block_begin_ = block.begin;
  block_end_ = block.end;
  masked_at_start_ = static_cast<size_t>(canvas.count_masked(0, block.end));
}

int32_t SlidingEnd::end(const Canvas& canvas) const {
  const std::vector<int32_t> masked = canvas.masked_positions(0, block_end_);
  if (masked.empty()) return block_end_;
  const int64_t first = masked.front();
  const auto num_written = static_cast<int64_t>(masked_at_start_ - masked.size());
  int64_t end = block_begin_ + int64_t{rule_.start} + num_written;
  if (rule_.most) end = std::min(end, first + *rule_.most);
  return static_cast<int32_t>(std::clamp(end, first + 1, int64_t{block_end_}));
}

void BegunBlocks::start(const Canvas& canvas) {
  end_ = canvas.prompt_length() + length_;
  finish_pass(canvas);
}

int32_t BegunBlocks::first_end(const Canvas& canvas) const {
  int32_t end = canvas.prompt_length() + length_;
  while (end < end_ && canvas.count_masked(0, end) == 0) end += length_;
  return end;
}

void BegunBlocks::finish_pass(const Canvas& canvas) {
  // Rounded like the published code.
  const double written = 1 - static_cast<double>(canvas.count_masked(end_ - length_, end_)) / length_;
  if (end_ < canvas.length() && written >= rule_.add) end_ += length_;
}

void BegunBlocks::skip_written(const Canvas& canvas) {
  while (end_ < canvas.length() && canvas.count_masked(0, end_) == 0) end_ += length_;
}

int32_t delimited_end(const AdaptiveBlock& rule, std::span<const TokenId> delimiters,
                      std::span<const Commit> predictions, IndexRange window, int32_t usual_end) {
  double most = 0;
  int32_t end = usual_end;
  for (const Commit& each : predictions) {
    const bool is_inside = each.position >= window.begin && each.position < window.end;
    if (!is_inside || std::ranges::find(delimiters, each.token) == delimiters.end()) continue;
    if (each.confidence < rule.delimiter.value() || each.confidence <= most) continue;
    most = each.confidence;
    end = each.position + 1;
  }
  return end;
}

double mean_lead(std::span<const RowStatistics> rows) {
  double sum = 0;
  for (const RowStatistics& row : rows) {
    if (row.likeliest.size() < 2) return std::numeric_limits<double>::infinity();
    sum += row.likeliest[0].second - row.likeliest[1].second;
  }
  return sum / static_cast<double>(rows.size());
}

double lead_to_exit(const Prophet& rule, double progress) {
  if (progress < 0.33) return rule.early;
  return progress < 0.67 ? rule.mid : rule.late;
}

}  // namespace lacuna
