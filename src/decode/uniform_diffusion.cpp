#include "decode/uniform_diffusion.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "decode/unmask.h"

namespace lacuna {
namespace {

// Noise streams by purpose, besides kTokenNoise.
constexpr uint64_t kPriorNoise = 16;
constexpr uint64_t kMixtureNoise = 17;
constexpr uint64_t kCorrectionNoise = 18;

// Rules of a plan. Each is followed by its variant for positions that cannot hold an end token.
constexpr int32_t kMeasureRule = 0;
constexpr int32_t kDrawRule = 2;

/// The `index`-th token id if `left_out` is skipped; -1 skips none.
TokenId skip(TokenId index, TokenId left_out) {
  return left_out < 0 || index < left_out ? index : index + 1;
}

std::vector<TokenId> fill_with_noise(const UniformDiffusion& options, std::vector<TokenId> prompt) {
  std::vector<TokenId> allowed;
  for (TokenId id = 0; id < options.vocab_size; ++id) {
    const auto& excluded = options.noise_excludes;
    if (std::find(excluded.begin(), excluded.end(), id) == excluded.end()) allowed.push_back(id);
  }
  const NoiseLevel pure = NoiseSchedule(options.noise, options.schedule, options.steps).level(options.steps);
  const auto prompt_length = static_cast<int32_t>(prompt.size());
  for (int32_t position = prompt_length; position < options.context; ++position) {
    const RngStream stream(options.seed, kPriorNoise, position);
    const bool shows_token = stream.uniform(0) < pure.uniform;
    prompt.push_back(shows_token ? allowed[stream.below(1, static_cast<uint32_t>(allowed.size()))]
                                 : options.mask_id);
  }
  std::copy(options.closing.begin(), options.closing.end(),
            prompt.begin() + prompt_length + options.gen_length);
  return prompt;
}

}  // namespace

UniformDiffusionDecoder::UniformDiffusionDecoder(UniformDiffusion options, std::vector<TokenId> prompt)
    : options_(std::move(options)),
      schedule_(options_.noise, options_.schedule, options_.steps),
      prompt_length_(static_cast<int32_t>(prompt.size())),
      length_(prompt_length_ + options_.gen_length),
      tokens_(fill_with_noise(options_, std::move(prompt))),
      movements_(options_.drift ? tokens_.size() : 0) {}

std::span<const TokenId> UniformDiffusionDecoder::canvas() const {
  return std::span(tokens_).first(static_cast<size_t>(length_));
}

StopReason UniformDiffusionDecoder::stop_reason() const {
  if (options_.ignore_eos) return StopReason::kLength;
  const std::span<const TokenId> answer = canvas().subspan(static_cast<size_t>(prompt_length_));
  const auto end =
      std::find_first_of(answer.begin(), answer.end(), options_.end_ids.begin(), options_.end_ids.end());
  return end == answer.end() ? StopReason::kLength : StopReason::kEndToken;
}

int32_t UniformDiffusionDecoder::num_final() const {
  if (done()) return length_ - prompt_length_;
  return options_.self_correct ? 0 : std::min(block().begin, length_) - prompt_length_;
}

int32_t UniformDiffusionDecoder::num_blocks() const {
  return (options_.gen_length + options_.block_length - 1) / options_.block_length;
}

IndexRange UniformDiffusionDecoder::block() const {
  if (phase_ != Phase::kDenoise) return {prompt_length_, length_};
  const int32_t begin = prompt_length_ + block_ * options_.block_length;
  return {begin, std::min(begin + options_.block_length, options_.context)};
}

bool UniformDiffusionDecoder::is_closing(int32_t position) const {
  const int32_t first = prompt_length_ + options_.gen_length;
  return position >= first && position < first + static_cast<int32_t>(options_.closing.size());
}

// Which rows a pass computes (section 4).

bool UniformDiffusionDecoder::refreshes_next_block() const {
  return !options_.drift && options_.refresh > 0 && step_ % options_.refresh == 0 &&
         (denoises_all() || block_ + 1 < num_blocks());
}

void UniformDiffusionDecoder::add_next_blocks(int32_t count, std::vector<Part>& parts) const {
  const int32_t begin = block().end;
  parts.push_back({{begin, std::min(begin + count * options_.block_length, options_.context)}});
}

void UniformDiffusionDecoder::add_drifting_pages(std::vector<Part>& parts) const {
  struct Page {
    IndexRange positions;
    double expected_drift;
  };
  std::vector<Page> pages;
  for (int32_t begin = block().end; begin < options_.context; begin += options_.drift->page) {
    Page page{{begin, std::min(begin + options_.drift->page, options_.context)}, 0};
    bool is_known = true;
    for (int32_t position = begin; position < page.positions.end; ++position) {
      const Movement& movement = movements_[static_cast<size_t>(position)];
      is_known = is_known && movement.rate >= 0;
      page.expected_drift += movement.rate * (global_step() - movement.computed_at);
    }
    page.expected_drift /= page.positions.size();
    if (is_known && page.expected_drift > options_.drift->tau) pages.push_back(page);
  }
  std::stable_sort(pages.begin(), pages.end(),
                   [](const Page& a, const Page& b) { return a.expected_drift > b.expected_drift; });
  const size_t first = parts.size();
  int32_t left = options_.drift->budget;
  for (const Page& page : pages) {
    if (page.positions.size() > left) continue;
    left -= page.positions.size();
    parts.push_back({page.positions});
  }
  std::sort(parts.begin() + static_cast<std::ptrdiff_t>(first), parts.end(),
            [](const Part& a, const Part& b) { return a.positions.begin < b.positions.begin; });
}

void UniformDiffusionDecoder::add_changed_blocks(std::vector<Part>& parts) const {
  for (int32_t begin = prompt_length_; begin < length_; begin += options_.block_length) {
    const IndexRange range{begin, std::min(begin + options_.block_length, length_)};
    const bool has_changed = std::any_of(corrected_.begin(), corrected_.end(), [&](int32_t position) {
      return position >= range.begin && position < range.end;
    });
    if (has_changed) parts.push_back({range, false, false});
  }
}

std::vector<UniformDiffusionDecoder::Part> UniformDiffusionDecoder::parts_of_whole_canvas(bool cached) const {
  const bool is_full = step_ == 1 || options_.cache == UniformCacheKind::kNone || refreshes_next_block();
  if (cached && !is_full) return {{block(), false, false}};
  return {{{0, prompt_length_}, false, true}, {{prompt_length_, options_.context}, false, false}};
}

std::vector<UniformDiffusionDecoder::Part> UniformDiffusionDecoder::parts(bool cached) const {
  if (denoises_all() && phase_ == Phase::kDenoise) return parts_of_whole_canvas(cached);
  const IndexRange current = block();
  const Part clean{{0, current.begin}, !denoises_all(), true};
  const Part whole{current, false, false};
  const Part rest{{current.end, options_.context}};
  if (phase_ == Phase::kCorrect) {
    std::vector<Part> changed;
    if (cached && iteration_ % options_.self_correct->full_every != 0) add_changed_blocks(changed);
    return changed.empty() ? std::vector{clean, whole, rest} : changed;
  }
  const bool is_uniform = options_.cache == UniformCacheKind::kUniform;
  if (step_ == 1) {
    const bool at_boundary = is_uniform && options_.boundary && block_ % options_.boundary->full_every != 0;
    if (!cached || !at_boundary) return {clean, whole, rest};
    std::vector<Part> boundary = {{{current.begin - options_.block_length, current.begin}, true, true},
                                  whole};
    add_next_blocks(options_.boundary->blocks - 2, boundary);
    return boundary;
  }
  if (!cached || options_.cache == UniformCacheKind::kNone) return {clean, whole, rest};
  if (!is_uniform) return {whole, rest};
  std::vector<Part> result = {whole};
  if (refreshes_next_block()) add_next_blocks(1, result);
  if (options_.drift) add_drifting_pages(result);
  return result;
}

bool UniformDiffusionDecoder::repeats_last_step() const {
  if (!options_.leaves_at_fixed_point || options_.sampler == UniformSampler::kAncestral || !takes_best()) {
    return false;
  }
  if (step_ == 1 || changed_in_last_step_) return false;
  if (options_.cache != UniformCacheKind::kUniform) return true;
  if (options_.drift) return parts(true).size() == 1;
  return !refreshes_next_block() || next_block_is_current_;
}

// Plans.

RngStream UniformDiffusionDecoder::noise_at(uint64_t purpose, int32_t position) const {
  return RngStream(options_.seed, purpose, block_, step_ - 1, position);
}

void UniformDiffusionDecoder::add_rules(StepPlan& plan) const {
  SamplingRule draw = options_.sampling;
  draw.source = ConfidenceSource::kSampled;
  if (options_.mask_id >= 0) draw.forbidden = {options_.mask_id};
  SamplingRule measure = draw;
  if (phase_ == Phase::kCorrect) {
    measure = {};
    measure.temperature = options_.self_correct->temperature;
    measure.source = ConfidenceSource::kSampled;
  } else if (options_.sampler != UniformSampler::kAncestral) {
    measure = {};  // scores use neither temperature nor filters
  } else {
    measure.draws = false;
  }
  measure.forbidden = draw.forbidden;
  for (const SamplingRule& rule : {measure, draw}) {
    SamplingRule without_end = rule;
    without_end.forbidden.insert(without_end.forbidden.end(), options_.end_ids.begin(),
                                 options_.end_ids.end());
    plan.rules.push_back(rule);
    plan.rules.push_back(std::move(without_end));
  }
}

void UniformDiffusionDecoder::build_plan(bool cached, StepPlan& plan) const {
  plan.clear();
  add_rules(plan);
  plan.measures_kv_drift = cached && options_.drift && phase_ == Phase::kDenoise;
  for (const Part& part : parts(cached)) {
    if (part.positions.size() <= 0) continue;
    const int32_t first_row = plan.num_rows();
    for (int32_t position = part.positions.begin; position < part.positions.end; ++position) {
      if (!part.only_kv && !is_closing(position)) plan.logits.push_back(logit_row(plan.num_rows(), position));
      plan.add_row(tokens_[static_cast<size_t>(position)], position, position);
    }
    RowGroup group;
    group.rows = {first_row, plan.num_rows()};
    group.visible = {{0, part.clean ? block().begin : options_.context}};
    group.own_rows = OwnRows::kNone;
    group.only_kv = part.only_kv && !options_.whole_last_layer;
    plan.groups.push_back(std::move(group));
  }
}

LogitRow UniformDiffusionDecoder::logit_row(int32_t row, int32_t position) const {
  LogitRow logit;
  logit.row = row;
  if (phase_ == Phase::kCorrect) {
    logit.noise = RngStream(options_.seed, kCorrectionNoise, iteration_, position);
    logit.rule = kMeasureRule;
    return logit;
  }
  logit.noise = noise_at(kTokenNoise, position);
  logit.rule = kMeasureRule + (position < prompt_length_ + options_.min_length ? 1 : 0);
  logit.scored = tokens_[static_cast<size_t>(position)];
  return logit;
}

const StepPlan& UniformDiffusionDecoder::plan() {
  expects(!done(), "plan: the request is not done");
  if (!is_planned_) build_plan(/*cached=*/true, plan_);
  is_planned_ = true;
  return plan_;
}

std::optional<StepPlan> UniformDiffusionDecoder::uncached_plan() const {
  StepPlan everything;
  build_plan(/*cached=*/false, everything);
  return everything;
}

PassWork UniformDiffusionDecoder::uncached_work() const {
  return work_of(*uncached_plan());
}

std::optional<BaselineRequest> UniformDiffusionDecoder::baseline_request() const {
  BaselineRequest request{prompt_length_, options_.gen_length, length_ - prompt_length_};
  request.context = options_.context;
  return request;
}

// Changes of the tokens (section 3).

std::vector<UniformDiffusionDecoder::Candidate> UniformDiffusionDecoder::candidates(
    std::span<const RowStatistics> drawn) const {
  const NoiseLevel level = schedule_.level(options_.steps - step_ + 1);
  const int64_t num_tokens = num_noise_tokens(options_.vocab_size, options_.mask_id);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const int32_t position = drawn_position(i);
    const TokenId token = tokens_[static_cast<size_t>(position)];
    const double probability = prior(level, token == options_.mask_id, num_tokens);
    const double preference = drawn[i].confidence - drawn[i].scored_probability;
    if (!(probability * preference > 0)) continue;
    candidates.push_back({probability, preference, {position, drawn[i].token, drawn[i].confidence}});
  }
  return candidates;
}

template <typename Takes>
std::vector<Commit> UniformDiffusionDecoder::take_largest(std::vector<Candidate> candidates, Takes&& takes) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  std::vector<Commit> chosen;
  for (size_t i = 0; i < candidates.size() && takes(i, candidates[i].score); ++i)
    chosen.push_back(candidates[i].commit);
  std::ranges::sort(chosen, {}, &Commit::position);
  return chosen;
}

std::vector<Commit> UniformDiffusionDecoder::choose_adaptive(std::span<const RowStatistics> drawn) const {
  std::vector<Candidate> found = candidates(drawn);
  for (Candidate& candidate : found) candidate.score *= candidate.prior;
  return take_largest(std::move(found), [&](size_t index, double) {
    return index < static_cast<size_t>(options_.tokens_per_step);
  });
}

std::vector<Commit> UniformDiffusionDecoder::choose_above_threshold(
    std::span<const RowStatistics> drawn) const {
  const PreferenceThreshold& threshold = options_.threshold;
  std::vector<Candidate> found = candidates(drawn);
  std::vector<Commit> chosen = take_largest(found, [&](size_t index, double score) {
    return score > threshold.tau || index < static_cast<size_t>(threshold.least);
  });
  if (!chosen.empty()) return chosen;
  // Fills at least the best mask: an answer must not keep a mask that the model can fill.
  std::erase_if(found, [&](const Candidate& candidate) {
    return tokens_[static_cast<size_t>(candidate.commit.position)] != options_.mask_id;
  });
  return take_largest(std::move(found), [](size_t index, double) { return index == 0; });
}

std::vector<Commit> UniformDiffusionDecoder::choose_ancestral(std::span<const RowStatistics> drawn) {
  const NoiseLevel of_block = schedule_.level(options_.steps - step_ + 1);
  const NoiseLevel of_rest = schedule_.level(options_.steps - rest_step_);
  const NoiseLevel cleaner = schedule_.level(options_.steps - step_);
  const int64_t num_tokens = num_noise_tokens(options_.vocab_size, options_.mask_id);
  const int32_t end = block().end;
  std::vector<Commit> chosen;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const int32_t position = drawn_position(i);
    const TokenId token = tokens_[static_cast<size_t>(position)];
    const double one_hot = drawn[i].token == token ? 1 : 0;
    const double prediction = takes_best() ? one_hot : drawn[i].scored_probability;
    const AncestralMixture mixture = ancestral_mixture(position < end ? of_block : of_rest, cleaner,
                                                       token == options_.mask_id, prediction, num_tokens);
    const RngStream coins = noise_at(kMixtureNoise, position);
    const double coin = coins.uniform(0);
    if (coin < mixture.stay) continue;
    Commit commit{position, drawn[i].token, drawn[i].confidence};
    if (coin < mixture.stay + mixture.predict) {
      if (!takes_best()) want_draw(position);
    } else if (coins.uniform(1) < cleaner.uniform) {
      const auto index = static_cast<TokenId>(coins.below(2, static_cast<uint32_t>(num_tokens)));
      commit = {position, skip(index, options_.mask_id), 0};
    } else {
      commit = {position, options_.mask_id, 0};
    }
    chosen.push_back(commit);
  }
  return chosen;
}

std::vector<Commit> UniformDiffusionDecoder::choose_best(std::span<const RowStatistics> drawn) const {
  std::vector<Commit> chosen;
  for (size_t i = 0; i < drawn.size(); ++i)
    chosen.push_back({drawn_position(i), drawn[i].token, drawn[i].confidence});
  return chosen;
}

int32_t UniformDiffusionDecoder::drawn_position(size_t i) const {
  return plan_.positions[static_cast<size_t>(plan_.logits[i].row)];
}

void UniformDiffusionDecoder::want_draw(int32_t position) {
  const auto planned = std::find_if(plan_.logits.begin(), plan_.logits.end(), [&](const LogitRow& logit) {
    return plan_.positions[static_cast<size_t>(logit.row)] == position;
  });
  further_.push_back(*planned);
  further_.back().rule += kDrawRule - kMeasureRule;
  further_.back().scored = -1;
}

StepReport UniformDiffusionDecoder::apply(const PassResult& result) {
  const std::span<const RowStatistics> drawn = result.samples;
  expects(is_planned_ && drawn.size() == plan_.logits.size(), "apply: one draw for each that was planned");
  if (plan_.measures_kv_drift) record_movements(result.kv_drift);
  if (phase_ == Phase::kCorrect) return correct(drawn);
  const std::vector<Part> computed = parts(/*cached=*/true);
  const bool computes_next = std::any_of(computed.begin(), computed.end(),
                                         [&](const Part& part) { return part.positions.end > block().end; });
  if (computes_next) next_block_is_current_ = true;

  StepReport report;
  report.step = global_step() - 1;
  report.block = block_;
  report.kind = "denoise";
  switch (options_.sampler) {
    case UniformSampler::kAdaptive:
    case UniformSampler::kThreshold:
      chosen_ = options_.sampler == UniformSampler::kAdaptive ? choose_adaptive(drawn)
                                                              : choose_above_threshold(drawn);
      for (const Commit& chosen : chosen_) {
        if (!takes_best()) want_draw(chosen.position);
      }
      break;
    case UniformSampler::kAncestral:
      chosen_ = choose_ancestral(drawn);
      break;
    case UniformSampler::kGreedy:
      chosen_ = choose_best(drawn);
      break;
  }
  if (computes_next) rest_step_ = step_;
  if (further_.empty()) commit(chosen_, report);
  return report;
}

void UniformDiffusionDecoder::apply_follow_up(const FollowUpResult& result, StepReport& report) {
  const std::span<const RowStatistics> drawn = result.samples;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const int32_t position = plan_.positions[static_cast<size_t>(further_[i].row)];
    const auto chosen = std::find_if(chosen_.begin(), chosen_.end(),
                                     [&](const Commit& commit) { return commit.position == position; });
    chosen->token = drawn[i].token;
    chosen->confidence = drawn[i].confidence;
  }
  further_.clear();
  commit(chosen_, report);
}

void UniformDiffusionDecoder::commit(const std::vector<Commit>& chosen, StepReport& report) {
  changed_in_last_step_ = false;
  for (const Commit& commit : chosen) {
    TokenId& token = tokens_[static_cast<size_t>(commit.position)];
    if (token == commit.token) continue;
    token = commit.token;
    changed_in_last_step_ = true;
    if (commit.position < length_) report.committed.push_back(commit);
  }
  if (changed_in_last_step_) next_block_is_current_ = false;
  is_planned_ = false;
  const bool leaves =
      options_.sampler == UniformSampler::kThreshold && options_.leaves_at_fixed_point && chosen.empty();
  do {
    ++step_;
  } while (step_ <= options_.steps && repeats_last_step());
  if (step_ > options_.steps || leaves) finish_block(report);
}

void UniformDiffusionDecoder::finish_block(StepReport& report) {
  const int32_t written = std::min(block().end, length_);
  if (finish_with_) replace_block({block().begin, written}, report);
  const std::span<const TokenId> answer = std::span(tokens_).subspan(
      static_cast<size_t>(prompt_length_), static_cast<size_t>(written - prompt_length_));
  const bool has_end = std::find_first_of(answer.begin(), answer.end(), options_.end_ids.begin(),
                                          options_.end_ids.end()) != answer.end();
  const bool ends = has_end && !options_.ignore_eos;
  if (!ends && block_ + 1 < num_blocks()) {
    ++block_;
    step_ = 1;
    next_block_is_current_ = false;  // the next block is another one now
    return;
  }
  length_ = written;
  phase_ = options_.self_correct ? Phase::kCorrect : Phase::kDone;
  suggestions_.resize(static_cast<size_t>(length_ - prompt_length_));
}

void UniformDiffusionDecoder::replace_block(IndexRange positions, StepReport& report) {
  const std::span<TokenId> tokens =
      std::span(tokens_).subspan(static_cast<size_t>(positions.begin), static_cast<size_t>(positions.size()));
  const std::vector<TokenId> before(tokens.begin(), tokens.end());
  finish_with_(positions, tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == before[i]) continue;
    const Commit commit{positions.begin + static_cast<int32_t>(i), tokens[i], 0};
    const auto same = [&](const Commit& each) { return each.position == commit.position; };
    std::erase_if(report.committed, same);
    report.committed.push_back(commit);
  }
  std::ranges::sort(report.committed, {}, &Commit::position);
}

std::vector<int32_t> UniformDiffusionDecoder::sampled_positions() const {
  std::vector<int32_t> positions;
  if (phase_ != Phase::kDenoise) return positions;
  for (const LogitRow& logit : plan_.logits)
    positions.push_back(plan_.positions[static_cast<size_t>(logit.row)]);
  return positions;
}

void UniformDiffusionDecoder::record_movements(std::span<const float> kv_drift) {
  const size_t per_row = kv_drift.size() / plan_.tokens.size();
  for (size_t row = 0; row < plan_.tokens.size(); ++row) {
    const std::span<const float> drifts = kv_drift.subspan(row * per_row, per_row);
    const float mean =
        std::accumulate(drifts.begin(), drifts.end(), 0.0F) / static_cast<float>(drifts.size());
    Movement& movement = movements_[static_cast<size_t>(plan_.positions[row])];
    const int32_t age = global_step() - movement.computed_at;
    if (movement.computed_at > 0) movement.rate = double{mean} / age;
    movement.computed_at = global_step();
  }
}

// Self-correction (section 5).

StepReport UniformDiffusionDecoder::correct(std::span<const RowStatistics> drawn) {
  is_planned_ = false;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const int32_t position = drawn_position(i);
    suggestions_[static_cast<size_t>(position - prompt_length_)] = {drawn[i].token, drawn[i].confidence,
                                                                    drawn[i].best_token};
  }
  std::vector<Commit> candidates;
  for (int32_t position = prompt_length_; position < length_; ++position) {
    const Suggestion& suggestion = suggestions_[static_cast<size_t>(position - prompt_length_)];
    if (suggestion.token == tokens_[static_cast<size_t>(position)] || suggestion.probability <= 0) continue;
    candidates.push_back({position, suggestion.token, suggestion.probability});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Commit& a, const Commit& b) { return a.confidence > b.confidence; });
  candidates.resize(std::min(candidates.size(), static_cast<size_t>(options_.self_correct->tokens)));
  std::ranges::sort(candidates, {}, &Commit::position);

  std::vector<TokenId> corrected = tokens_;
  for (const Commit& commit : candidates) corrected[static_cast<size_t>(commit.position)] = commit.token;
  int32_t agreeing = 0;
  for (int32_t position = prompt_length_; position < length_; ++position) {
    const Suggestion& suggestion = suggestions_[static_cast<size_t>(position - prompt_length_)];
    agreeing += corrected[static_cast<size_t>(position)] == suggestion.likeliest ? 1 : 0;
  }
  const double accuracy = static_cast<double>(agreeing) / (length_ - prompt_length_);

  StepReport report;
  report.step = num_blocks() * options_.steps + iteration_;
  report.block = block_;
  report.kind = "correct";
  if (accuracy > best_accuracy_) {
    best_accuracy_ = accuracy;
    patience_used_ = 0;
  } else {
    ++patience_used_;
  }
  ++iteration_;
  const bool gives_up = patience_used_ > options_.self_correct->patience;
  if (!gives_up) {
    tokens_ = std::move(corrected);
    report.committed = candidates;
    corrected_.clear();
    for (const Commit& commit : candidates) corrected_.push_back(commit.position);
  }
  if (gives_up || candidates.empty() || iteration_ == options_.self_correct->most) phase_ = Phase::kDone;
  return report;
}

}  // namespace lacuna
