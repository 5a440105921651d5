#include "decode/canvas_diffusion.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "decode/noise_schedule.h"
#include "decode/unmask.h"

namespace lacuna {
namespace {

// Maximum context rows per pass; more would only take more memory.
constexpr int32_t kReadRows = 1024;

// Noise streams by purpose, besides kTokenNoise.
constexpr uint64_t kCanvasNoise = 19;
constexpr uint64_t kPosteriorNoise = 21;

constexpr double kMinTime = 1e-3;  // published; the schedule is linear in time

}  // namespace

double AncestralSteps::signal(int32_t index) const {
  const double left = static_cast<double>(count - index) / count;
  return 1 - (1 - kMinTime) * (kMinTime + (1 - kMinTime) * std::pow(left, exponent));
}

std::vector<int32_t> accept_by_entropy(std::span<const double> entropies, double bound) {
  std::vector<int32_t> order(entropies.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return entropies[static_cast<size_t>(a)] < entropies[static_cast<size_t>(b)];
  });
  size_t count = 0;
  for (double before = 0; count < order.size() && before <= bound; ++count)
    before += entropies[static_cast<size_t>(order[count])];
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

CanvasDiffusionDecoder::CanvasDiffusionDecoder(CanvasDiffusion options, std::vector<TokenId> prompt)
    : SequenceDecoder(std::move(prompt), options.gen_length), options_(std::move(options)) {
  start_canvas(0);
}

int32_t CanvasDiffusionDecoder::num_canvases() const {
  return (options_.gen_length + options_.canvas_length - 1) / options_.canvas_length;
}

int32_t CanvasDiffusionDecoder::begin_of(int32_t canvas) const {
  const int64_t begin = prompt_length_ + int64_t{canvas} * options_.canvas_length;
  return static_cast<int32_t>(std::min<int64_t>(begin, options_.max_positions));
}

int32_t CanvasDiffusionDecoder::answer_length() const {
  return std::min(static_cast<int32_t>(tokens_.size()) - prompt_length_, options_.gen_length);
}

std::span<const TokenId> CanvasDiffusionDecoder::canvas() const {
  const int32_t length = prompt_length_ + answer_length();
  return std::span(tokens_).first(static_cast<size_t>(length));
}

int32_t CanvasDiffusionDecoder::num_final() const {
  return done_ ? answer_length() : std::min(block().begin - prompt_length_, options_.gen_length);
}

void CanvasDiffusionDecoder::start_canvas(int32_t canvas) {
  canvas_ = canvas;
  step_ = 0;
  num_stable_ = 0;
  inputs_.clear();
  for (int32_t position = block().begin; position < block().end; ++position)
    inputs_.push_back(random_token(0, position));
  tokens_.insert(tokens_.end(), inputs_.begin(), inputs_.end());
}

TokenId CanvasDiffusionDecoder::random_token(int32_t step, int32_t position) const {
  const RngStream stream(options_.seed, kCanvasNoise, step, position);
  return static_cast<TokenId>(stream.below(0, static_cast<uint32_t>(options_.vocab_size)));
}

float noise_level(double signal) {
  return static_cast<float>(-std::log(signal));
}

std::pair<double, double> CanvasDiffusionDecoder::signals() const {
  const AncestralSteps& steps = *options_.ancestral;
  if (step_ < steps.count) return {steps.signal(step_), steps.signal(step_ + 1)};
  return {std::min(steps.signal(step_), std::exp(-steps.readout_noise)), 1};
}

float CanvasDiffusionDecoder::temperature() const {
  if (options_.ancestral) {
    const int32_t last = std::max(options_.ancestral->count - 1, 1);
    const float share = static_cast<float>(std::min(step_, last)) / static_cast<float>(last);
    const bool is_readout = step_ == options_.ancestral->count;
    return options_.first_temperature +
           (is_readout ? 1 : share) * (options_.last_temperature - options_.first_temperature);
  }
  const auto left = static_cast<float>(options_.steps - step_) / static_cast<float>(options_.steps);
  return options_.last_temperature + (options_.first_temperature - options_.last_temperature) * left;
}

bool CanvasDiffusionDecoder::reads_only() const {
  return block().begin - num_kept_ > kReadRows;
}

void CanvasDiffusionDecoder::build_plan() {
  const int32_t end = std::min(block().begin, num_kept_ + kReadRows);
  if (num_kept_ < end) plan_.add_group(tokens_, num_kept_, end, OwnRows::kCausal).only_kv = true;
  if (!reads_only()) add_denoising(plan_);
}

void CanvasDiffusionDecoder::add_denoising(StepPlan& plan) const {
  const IndexRange positions = block();
  const int32_t first = plan.num_rows();
  RowGroup group{0, {first, first + positions.size()}, {}, OwnRows::kBidirectional};
  if (positions.begin > 0) group.visible.push_back({0, positions.begin});
  group.canvas = step_ == 0 ? CanvasRows::kFresh : CanvasRows::kConditioned;
  if (options_.ancestral) group.noise_level = noise_level(signals().first);
  plan.groups.push_back(std::move(group));

  SamplingRule rule;
  rule.temperature = temperature();
  rule.draws = options_.draws;
  rule.source = ConfidenceSource::kTempered;
  rule.measure = ConfidenceMeasure::kNegativeEntropy;
  rule.forbidden = options_.forbidden;
  plan.rules.push_back(rule);
  const bool is_last = step_ + 1 == options_.steps;
  for (int32_t position = positions.begin; position < positions.end; ++position) {
    LogitRow logit;
    logit.row = plan.num_rows();
    logit.noise = RngStream(options_.seed, kTokenNoise, step_, position);
    if (options_.ancestral) logit.scored = inputs_[static_cast<size_t>(position - positions.begin)];
    if (!is_last) logit.soft_embedding_slack = options_.soft_embedding_slack;
    plan.logits.push_back(logit);
    plan.add_row(inputs_[static_cast<size_t>(position - positions.begin)], position, position);
  }
}

std::vector<int32_t> CanvasDiffusionDecoder::sampled_positions() const {
  std::vector<int32_t> positions(plan_.logits.size());
  std::iota(positions.begin(), positions.end(), block().begin);
  return positions;
}

PassWork CanvasDiffusionDecoder::uncached_work() const {
  if (reads_only()) return {};  // without a cache this pass does not exist
  const double read = block().begin;
  const double rows = block().size();
  const double read_pairs = read * (read + 1) / 2;
  return {.rows = block().end,
          .pairs = read_pairs + rows * (read + rows),
          .cells = read + (read + rows),
          .logit_rows = rows,
          .only_kv_rows = block().begin,
          .only_kv_pairs = read_pairs};
}

StepReport CanvasDiffusionDecoder::apply(const PassResult& result) {
  StepReport report = begin_report(result);
  report.block = canvas_;
  report.kind = reads_only() ? "prefill" : "denoise";
  num_kept_ = std::min(block().begin, num_kept_ + kReadRows);
  if (!result.samples.empty()) take(result.samples, report);
  return report;
}

void CanvasDiffusionDecoder::take(std::span<const RowStatistics> drawn, StepReport& report) {
  report.canvas_in = inputs_;
  if (options_.ancestral) return step_back(drawn, report);
  const int32_t begin = block().begin;
  const size_t num_shown = canvas().size() - static_cast<size_t>(begin);
  std::vector<double> entropies;
  bool is_stable = step_ > 0;
  for (size_t i = 0; i < drawn.size(); ++i) {
    entropies.push_back(-drawn[i].confidence);
    const TokenId best = drawn[i].best_token;
    const TokenId before = std::exchange(tokens_[static_cast<size_t>(begin) + i], best);
    if (step_ > 0 && best == before) continue;
    is_stable = false;
    if (i < num_shown)
      report.committed.push_back({begin + static_cast<int32_t>(i), best, drawn[i].confidence});
  }
  num_stable_ = is_stable ? num_stable_ + 1 : 0;
  ++step_;
  const double sum = std::accumulate(entropies.begin(), entropies.end(), 0.0);
  const bool is_sure = sum / static_cast<double>(drawn.size()) < options_.stop_entropy;
  if (step_ == options_.steps || (num_stable_ >= options_.stable_steps && is_sure))
    return finish_canvas(report);

  for (size_t i = 0; i < inputs_.size(); ++i)
    inputs_[i] = random_token(step_, begin + static_cast<int32_t>(i));
  for (const int32_t i : accept_by_entropy(entropies, options_.entropy_bound))
    inputs_[static_cast<size_t>(i)] = drawn[static_cast<size_t>(i)].token;
}

TokenId CanvasDiffusionDecoder::posterior_token(const RowStatistics& drawn, int32_t position,
                                                TokenId held) const {
  if (!options_.draws) return drawn.best_token;
  const auto [before, after] = signals();
  const AncestralMixture mixture =
      ancestral_mixture({before}, {after}, false, drawn.scored_probability, options_.vocab_size);
  const RngStream stream(options_.seed, kPosteriorNoise, step_, position);
  const double u = stream.uniform(0);
  if (u < mixture.stay) return held;
  if (u < mixture.stay + mixture.predict) return drawn.token;
  return static_cast<TokenId>(stream.below(1, static_cast<uint32_t>(options_.vocab_size)));
}

void CanvasDiffusionDecoder::step_back(std::span<const RowStatistics> drawn, StepReport& report) {
  const int32_t begin = block().begin;
  const size_t num_shown = canvas().size() - static_cast<size_t>(begin);
  for (size_t i = 0; i < drawn.size(); ++i) {
    const int32_t position = begin + static_cast<int32_t>(i);
    const TokenId token = posterior_token(drawn[i], position, inputs_[i]);
    if ((step_ == 0 || token != inputs_[i]) && i < num_shown)
      report.committed.push_back({position, token, drawn[i].confidence});
    inputs_[i] = token;
    tokens_[static_cast<size_t>(position)] = token;
  }
  if (++step_ == options_.steps) finish_canvas(report);
}

void CanvasDiffusionDecoder::finish_canvas(StepReport& report) {
  const std::span<const TokenId> written = canvas().subspan(static_cast<size_t>(block().begin));
  const auto end =
      std::find_first_of(written.begin(), written.end(), options_.end_ids.begin(), options_.end_ids.end());
  if (end != written.end()) {
    tokens_.resize(static_cast<size_t>(block().begin + (end - written.begin()) + 1));
    stop_reason_ = StopReason::kEndToken;
    done_ = true;
  } else if (canvas_ + 1 == num_canvases() || begin_of(canvas_ + 1) == begin_of(canvas_ + 2)) {
    done_ = true;
  } else {
    return start_canvas(canvas_ + 1);
  }
  std::erase_if(report.committed,
                [&](const Commit& commit) { return commit.position >= std::ssize(canvas()); });
}

}  // namespace lacuna
