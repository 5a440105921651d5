#include "decode/growing_diffusion.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

// Rules of TokenGrowth's plans, by what a position may sample.
constexpr int32_t kGrows = 0;
constexpr int32_t kShrinks = 1;  // its hole is full or out of expansions
constexpr int32_t kFixed = 2;    // the hole keeps its length
// Rules of EndMassGrowth's plans.
constexpr int32_t kTokens = 0;
constexpr int32_t kEnd = 1;

Canvas make_canvas(const GrowingDiffusion& options, std::vector<TokenId> prompt,
                   std::span<const TokenId> answer) {
  const int32_t start = std::visit([](const auto& growth) { return growth.start; }, options.growth);
  const auto length =
      answer.empty() ? std::min(start, options.most_length) : static_cast<int32_t>(answer.size());
  return {std::move(prompt), length, options.mask_id, options.shifted_logits, answer};
}

std::vector<GrowingHole> holes_on(const Canvas& canvas, const GrowingDiffusion& options, bool is_infill,
                                  std::span<const GrowingHole> holes) {
  const int32_t begin = canvas.prompt_length();
  if (!is_infill) return {{{begin, canvas.length()}, options.most_length}};
  std::vector<GrowingHole> moved(holes.begin(), holes.end());
  for (GrowingHole& hole : moved) {
    hole.positions.begin += begin;
    hole.positions.end += begin;
  }
  return moved;
}

/// Maximum positions of the canvas.
int32_t most_positions(const Canvas& canvas, std::span<const GrowingHole> holes) {
  int32_t most = canvas.length();
  for (const GrowingHole& hole : holes) most += hole.most - hole.positions.size();
  return most;
}

/// How often a hole may expand. The published generator reserves positions for the longest hole and the text
/// after it, and allows twice as many expansions: deletions make room again.
int32_t budget_of(const GrowingHole& hole, const Canvas& canvas, const GrowingDiffusion& options) {
  const auto* tokens = std::get_if<TokenGrowth>(&options.growth);
  if (tokens == nullptr) return 0;
  return tokens->budget > 0 ? tokens->budget : 2 * (hole.most + canvas.length() - hole.positions.end);
}

/// The rule that measures the end mass: the best token and its probability.
SamplingRule end_rule(SamplingRule rule) {
  rule.temperature = 0;
  rule.top_p = 1;
  rule.top_k = 0;
  return rule;
}

CanvasPassOptions pass_options(const GrowingDiffusion& options) {
  CanvasPassOptions pass = options.pass;
  SamplingRule rule = pass.sampling;
  if (std::holds_alternative<TokenGrowth>(options.growth)) {
    rule.forbidden.push_back(options.expand_id);
    pass.other_sampling.push_back(rule);
    rule.forbidden.push_back(options.delete_id);
  } else {
    rule = end_rule(rule);
  }
  pass.other_sampling.push_back(std::move(rule));
  return pass;
}

}  // namespace

GrowingDiffusionDecoder::GrowingDiffusionDecoder(GrowingDiffusion options, std::vector<TokenId> prompt,
                                                 std::span<const TokenId> answer,
                                                 std::span<const GrowingHole> holes)
    : options_(std::move(options)),
      canvas_(make_canvas(options_, std::move(prompt), answer)),
      holes_(holes_on(canvas_, options_, !answer.empty(), holes)),
      pass_(pass_options(options_), canvas_, most_positions(canvas_, holes_)),
      is_infill_(!answer.empty()),
      finds_length_(!grows_by_tokens() && !is_infill_) {
  for (const GrowingHole& hole : holes_) {
    budgets_.push_back(budget_of(hole, canvas_, options_));
    fixed_.push_back(is_infill_ && hole.keeps_length());
  }
  draws_measure_end_ = !grows_by_tokens() && options_.pass.sampling == end_rule(options_.pass.sampling);
  block_.begin = canvas_.prompt_length();
  note_holes();
  find_block();
}

StopReason GrowingDiffusionDecoder::stop_reason() const {
  const bool has_end = canvas_.answer_end(options_.end_ids) < canvas_.length();
  const bool leaves_room = grows_by_tokens() && !is_infill_ && room_in(holes_.front()) > 0;
  return has_end || leaves_room ? StopReason::kEndToken : StopReason::kLength;
}

const GrowingHole* GrowingDiffusionDecoder::hole_at(int32_t position) const {
  // The first hole that ends after the position: this skips empty holes before it.
  const auto found = std::partition_point(
      holes_.begin(), holes_.end(), [&](const GrowingHole& hole) { return hole.positions.end <= position; });
  return found == holes_.end() || found->positions.begin > position ? nullptr : &*found;
}

int32_t GrowingDiffusionDecoder::rule_at(int32_t position) {
  const GrowingHole* hole = hole_at(position);
  const size_t index = hole == nullptr ? 0 : static_cast<size_t>(hole - holes_.data());
  if (hole == nullptr || fixed_[index]) return kFixed;
  return room_in(*hole) > 0 && budgets_[index] > 0 ? kGrows : kShrinks;
}

bool GrowingDiffusionDecoder::measures_end() const {
  return finds_length_ || (!is_infill_ && answer_length() < options_.most_length);
}

void GrowingDiffusionDecoder::draw(int32_t position, int32_t rule) {
  drawn_positions_.push_back(position);
  rules_.push_back(rule);
}

void GrowingDiffusionDecoder::prepare_by_tokens() {
  for (const int32_t position : canvas_.masked_positions(0, canvas_.length()))
    draw(position, rule_at(position));
}

void GrowingDiffusionDecoder::prepare_by_end_mass() {
  const bool measures = measures_end();
  for (int32_t position = 0; position < canvas_.length(); ++position) {
    const bool is_candidate = !finds_length_ && position < block_.end && canvas_.is_masked(position);
    if (is_candidate) draw(position, kTokens);
    if (is_candidate && draws_measure_end_) continue;
    if (measures && position >= canvas_.prompt_length()) draw(position, kEnd);
  }
}

const StepPlan& GrowingDiffusionDecoder::plan() {
  expects(!done_, "plan: the request is not done");
  if (is_planned_) return pass_.plan();
  is_planned_ = true;
  drawn_positions_.clear();
  rules_.clear();
  if (grows_by_tokens()) {
    prepare_by_tokens();
  } else {
    prepare_by_end_mass();
  }
  const auto noise = [&](int32_t position) {
    return RngStream(options_.seed, kTokenNoise, block_.index, step_, position);
  };
  pass_.prepare(canvas_, block_, drawn_positions_, noise, {.rules = rules_});
  return pass_.plan();
}

StepReport GrowingDiffusionDecoder::apply(const PassResult& result) {
  const std::span<const RowStatistics> drawn = result.samples;
  expects(is_planned_ && drawn.size() == drawn_positions_.size(),
          "apply: one draw for each that was planned");
  is_planned_ = false;
  StepReport report;
  report.step = step_;
  report.block = block_.index;
  report.kind = finds_length_ ? "grow" : "denoise";
  pass_.count_rows(canvas_);
  if (grows_by_tokens()) {
    apply_by_tokens(drawn, report);
  } else if (finds_length_) {
    find_length(drawn);
  } else {
    apply_by_end_mass(drawn, report);
  }
  ++step_;
  note_holes();
  find_block();
  return report;
}

std::vector<int32_t> GrowingDiffusionDecoder::sampled_positions() const {
  if (grows_by_tokens()) return drawn_positions_;
  std::vector<int32_t> positions = drawn_positions_;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (rules_[i] != kTokens) positions[i] = -1;
  }
  return positions;
}

std::optional<CanvasEdit> GrowingDiffusionDecoder::edit_of(int32_t position, TokenId token) const {
  if (!grows_by_tokens()) return {};
  if (token == options_.expand_id) return CanvasEdit{{position, position + 1}, {-1, -1}};
  const GrowingHole* hole = hole_at(position);
  if (token != options_.delete_id || hole == nullptr) return {};
  CanvasEdit edit{{position, position + 1}};
  if (!std::get<TokenGrowth>(options_.growth).drops_rest) return edit;
  edit.positions.end = hole->positions.end;
  for (int32_t rest = position; rest < edit.positions.end; ++rest) {
    if (!canvas_.is_masked(rest)) edit.tokens.push_back(canvas_[rest]);
  }
  return edit;
}

void GrowingDiffusionDecoder::edit_only_with(AllowsEdit allows) {
  allows_edit_ = std::move(allows);
  // A constraint may replace samples, which then no longer measure the end mass.
  draws_measure_end_ = false;
}

void GrowingDiffusionDecoder::insert(int32_t position, int32_t count, StepReport& report) {
  canvas_.insert_masks(position, count);
  report.edits.inserted.push_back({position, count});
  for (GrowingHole& hole : holes_) {
    if (hole.positions.begin > position) hole.positions.begin += count;
    if (hole.positions.end > position) hole.positions.end += count;
  }
}

void GrowingDiffusionDecoder::drop(int32_t position, StepReport& report) {
  canvas_.drop(position);
  report.edits.dropped.push_back(position);
  for (GrowingHole& hole : holes_) {
    if (hole.positions.begin > position) --hole.positions.begin;
    if (hole.positions.end > position) --hole.positions.end;
  }
}

void GrowingDiffusionDecoder::apply_by_tokens(std::span<const RowStatistics> drawn, StepReport& report) {
  std::vector<Commit> candidates;
  for (size_t i = 0; i < drawn.size(); ++i) {
    candidates.push_back({drawn_positions_[i], drawn[i].token, drawn[i].confidence});
  }
  UnmaskPolicy one = options_.unmask;
  one.count = EvenSplit{};
  const auto num_masked = static_cast<int32_t>(candidates.size());
  const RngStream noise(options_.seed, kOrderNoise, block_.index, step_);
  const Commit chosen = choose(one, candidates, {0, num_masked, num_masked, num_masked}, noise).front();
  const GrowingHole* hole = hole_at(chosen.position);
  if (chosen.token == options_.expand_id) {
    --budgets_[static_cast<size_t>(hole - holes_.data())];
    insert(chosen.position, 1, report);
  } else if (chosen.token == options_.delete_id && hole != nullptr) {
    const int32_t end = edit_of(chosen.position, chosen.token)->positions.end;
    // From right to left, so that no position moves before it is dropped.
    for (int32_t position = end - 1; position >= chosen.position; --position) {
      if (canvas_.is_masked(position)) drop(position, report);
    }
    std::reverse(report.edits.dropped.begin(), report.edits.dropped.end());
  } else {
    canvas_.commit(chosen);
    report.committed.push_back(chosen);
  }
}

double GrowingDiffusionDecoder::end_mass_of(std::span<const RowStatistics> drawn) const {
  const int32_t tail = end_mass().tail;
  int32_t count = 0;
  double sum = 0;
  for (size_t i = drawn.size(); i-- > 0 && count < tail;) {
    const bool is_measured = rules_[i] == kEnd || draws_measure_end_;
    const bool is_end = drawn[i].token == options_.end_id && drawn_positions_[i] >= canvas_.prompt_length();
    if (!is_measured || !is_end) continue;
    sum += drawn[i].confidence;
    ++count;
  }
  return sum / tail;
}

void GrowingDiffusionDecoder::find_length(std::span<const RowStatistics> drawn) {
  const int32_t room = options_.most_length - answer_length();
  const bool is_long_enough = room == 0 || end_mass_of(drawn) >= end_mass().enough;
  if (is_long_enough) {
    canvas_.append(options_.end_id, std::min(end_mass().tail / 2, room));
    finds_length_ = false;
  } else {
    canvas_.append(options_.mask_id, std::min(end_mass().by, room));
  }
  holes_.front().positions.end = canvas_.length();
}

void GrowingDiffusionDecoder::apply_by_end_mass(std::span<const RowStatistics> drawn, StepReport& report) {
  std::vector<Commit> candidates;
  std::vector<RowStatistics> rows;
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (rules_[i] != kTokens) continue;
    candidates.push_back({drawn_positions_[i], drawn[i].token, drawn[i].confidence});
    rows.push_back(drawn[i]);
  }
  BlockProgress progress;
  progress.step = block_.pass;
  progress.masked_now = static_cast<int32_t>(candidates.size());
  const RngStream noise(options_.seed, kOrderNoise, block_.index, step_);
  report.committed = choose(options_.unmask, candidates, progress, noise, rows);
  for (const Commit& commit : report.committed) canvas_.commit(commit);
  if (is_infill_ || (measures_end() && end_mass_of(drawn) < end_mass().plenty))
    expand_unsure(candidates, report);
  ++block_.pass;
}

int32_t GrowingDiffusionDecoder::most_inserted(int32_t position) const {
  const GrowingHole* hole = hole_at(position);
  int32_t count = hole == nullptr ? 0 : std::min(end_mass().by - 1, room_in(*hole));
  const auto is_possible = [&] {
    return !allows_edit_ ||
           allows_edit_({{position, position}, std::vector<TokenId>(static_cast<size_t>(count), -1)});
  };
  while (count > 0 && !is_possible()) --count;
  return count;
}

void GrowingDiffusionDecoder::expand_unsure(std::span<const Commit> candidates, StepReport& report) {
  const Commit* least = nullptr;
  int32_t count = 0;
  for (const Commit& candidate : candidates) {
    const bool is_unsure = candidate.confidence < end_mass().unsure && canvas_.is_masked(candidate.position);
    if (!is_unsure || (least != nullptr && candidate.confidence >= least->confidence)) continue;
    const int32_t most = most_inserted(candidate.position);
    if (most == 0) continue;
    least = &candidate;
    count = most;
  }
  if (least == nullptr) return;
  insert(least->position, count, report);
  for (Commit& commit : report.committed) commit.position += commit.position >= least->position ? count : 0;
}

void GrowingDiffusionDecoder::find_block() {
  const int32_t length = canvas_.length();
  if (grows_by_tokens()) {
    block_.end = length;
    done_ = canvas_.count_masked(0, length) == 0;
    return;
  }
  const auto end_of = [&](int32_t begin) { return std::min(begin + options_.block_length, length); };
  if (!finds_length_) {
    while (block_.begin < length && canvas_.count_masked(0, end_of(block_.begin)) == 0) {
      block_.begin += end_of(block_.begin) - block_.begin;
      ++block_.index;
      block_.pass = 0;
    }
    done_ = block_.begin == length || (options_.eos_exit && canvas_.answer_is_final(options_.end_ids));
  }
  if (!done_) block_.end = end_of(block_.begin);
}

void GrowingDiffusionDecoder::note_holes() {
  if (!is_infill_) return;
  ranges_.clear();
  for (const GrowingHole& hole : holes_) ranges_.push_back(hole.positions);
}

}  // namespace lacuna
