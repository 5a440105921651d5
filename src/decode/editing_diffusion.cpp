#include "decode/editing_diffusion.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "decode/block_diffusion.h"
#include "decode/unmask.h"

namespace lacuna {
namespace {

// Maximum positions that are changed to leave a repeated state of the block.
constexpr int kMaxEscapes = 5;

// Rules of a plan.
constexpr int32_t kMaskRule = 0;
constexpr int32_t kTokenRule = 1;
constexpr int32_t kPlainRule = 2;  // the best token that edits nothing

}  // namespace

std::vector<EditedToken> carry_out_edits(std::span<const EditedToken> before,
                                         std::span<const TokenId> written, const EditingDiffusion& options,
                                         const EditedToken& filler) {
  std::vector<EditedToken> result;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].is_fixed()) {
      result.push_back(before[i]);
    } else if (written[i] == options.split_id) {
      result.push_back({options.mask_id, false, before[i].hole});
      result.push_back(before[i]);
    } else if (written[i] != options.delete_id) {
      result.push_back({written[i], before[i].is_original, before[i].hole});
    }
  }
  result.resize(before.size(), filler);
  return result;
}

int32_t infill_block_length(int32_t block_length, int32_t prompt_length, int32_t answer_length,
                            int64_t positions) {
  for (int32_t length = block_length; length <= positions; length += block_length) {
    const int64_t end = (int64_t{prompt_length} / length + 1) * length;
    if (prompt_length + answer_length <= end && end <= positions) return length;
  }
  return 0;
}

EditingDiffusionDecoder::EditingDiffusionDecoder(EditingDiffusion options, std::vector<TokenId> prompt,
                                                 std::vector<TokenId> answer, std::vector<GrowingHole> holes)
    : SequenceDecoder(std::move(prompt), options.gen_length),
      options_(std::move(options)),
      first_block_(prompt_length_ / options_.block_length),
      holes_(std::move(holes)) {
  for (GrowingHole& hole : holes_) {
    hole.positions.begin += prompt_length_;
    hole.positions.end += prompt_length_;
    ranges_.push_back(hole.positions);
    keeps_length_.push_back(hole.keeps_length());
  }
  tokens_.insert(tokens_.end(), answer.begin(), answer.end());
  text_end_ = static_cast<int32_t>(tokens_.size());
  const int32_t num_blocks = (length_ + options_.block_length - 1) / options_.block_length;
  tokens_.resize(static_cast<size_t>(begin_of(num_blocks)),
                 is_infill() ? options_.filler_id : options_.mask_id);
  start_block(first_block_);
}

int32_t EditingDiffusionDecoder::num_final() const {
  return done_ ? length_ - prompt_length_
               : std::clamp(begin_of(block_), prompt_length_, length_) - prompt_length_;
}

bool EditingDiffusionDecoder::is_open(size_t i) const {
  return !edited_[i].is_fixed() && edited_[i].token == options_.mask_id;
}

ExactPrefix EditingDiffusionDecoder::exact_prefix() const {
  const int32_t prompt = begin_of(first_block_);
  return {options_.block_length, prompt, prompt, begin_of(num_kept_)};
}

bool EditingDiffusionDecoder::keeps_only() const {
  return block_ - num_kept_ > most_kept_blocks(options_.block_length);
}

void EditingDiffusionDecoder::start_block(int32_t block) {
  block_ = block;
  step_ = 0;
  seen_.clear();
  edited_.clear();
  num_original_ = 0;
  size_t next = 0;  // index into holes_
  for (int32_t position = begin_of(block); position < begin_of(block + 1); ++position) {
    while (next < holes_.size() && holes_[next].positions.end <= position) ++next;
    const bool is_fixed = position < prompt_length_ ||
                          (is_infill() && (next == holes_.size() || position < holes_[next].positions.begin));
    const TokenId token = tokens_[static_cast<size_t>(position)];
    const bool is_original = !is_fixed && token == options_.mask_id;
    edited_.push_back({token, is_original, is_fixed ? EditedToken::kFixed : static_cast<int32_t>(next)});
    num_original_ += is_original ? 1 : 0;
  }
  edit_steps_ = num_original_ == 0 ? 1 : 0;
  number_draws();
}

void EditingDiffusionDecoder::number_draws() {
  draws_.assign(edited_.size(), 0);
  size_t count = 0;
  for (size_t i = 0; i < edited_.size(); ++i) {
    if (!edited_[i].is_fixed()) draws_[i] = count++;
  }
}

void EditingDiffusionDecoder::build_plan() {
  const int32_t kept_end = std::min(block_, num_kept_ + most_kept_blocks(options_.block_length));
  for (int32_t block = num_kept_; block < kept_end; ++block) add_group(block, true);
  if (keeps_only()) return;
  first_row_ = plan_.num_rows();
  add_group(block_, false);
  SamplingRule best = options_.sampling;
  best.temperature = 0;
  best.top_p = 1;
  best.top_k = 0;
  SamplingRule plain = best;
  plain.undrawn.push_back(options_.delete_id);
  plain.undrawn.push_back(options_.split_id);
  plan_.rules = {options_.sampling, best, plain};
  for (size_t i = 0; i < edited_.size(); ++i) {
    if (!edited_[i].is_fixed()) plan_.logits.push_back(draw_at(i, is_open(i) ? kMaskRule : kTokenRule));
  }
}

void EditingDiffusionDecoder::add_group(int32_t block, bool only_kv) {
  plan_.add_group(tokens_, begin_of(block), begin_of(block + 1)).only_kv = only_kv;
}

LogitRow EditingDiffusionDecoder::draw_at(size_t i, int32_t rule) const {
  return {.row = first_row_ + static_cast<int32_t>(i),
          .rule = rule,
          .noise = RngStream(options_.seed, kTokenNoise, block_, step_, i)};
}

PassWork EditingDiffusionDecoder::uncached_work() const {
  if (keeps_only()) return {};  // without a cache this pass does not exist
  const auto num_drawn =
      std::count_if(edited_.begin(), edited_.end(), [](const EditedToken& each) { return !each.is_fixed(); });
  return uncached_blocks_work(block_ + 1, options_.block_length, static_cast<size_t>(num_drawn));
}

std::optional<BaselineRequest> EditingDiffusionDecoder::baseline_request() const {
  std::optional<BaselineRequest> request = SequenceDecoder::baseline_request();
  if (!is_infill()) return request;
  int32_t in_holes = 0;
  for (const IndexRange& range : ranges_) in_holes += range.end - range.begin;
  request->answer_masks = std::max(num_original_, in_holes);
  return request;
}

StepReport EditingDiffusionDecoder::apply(const PassResult& result) {
  StepReport report = begin_report(result);
  further_.clear();
  replaced_.clear();
  report.block = block_ - first_block_;
  if (keeps_only()) {
    report.kind = "prefill";
    num_kept_ += most_kept_blocks(options_.block_length);
    return report;
  }
  report.kind = "denoise";
  num_kept_ = block_;
  if (!choose(result.samples)) write(report);
  return report;
}

bool EditingDiffusionDecoder::choose(std::span<const RowStatistics> drawn) {
  const auto drawn_at = [&](size_t i) -> const RowStatistics& { return drawn[draws_[i]]; };
  std::vector<size_t> open;
  int32_t num_left = 0;  // remaining masks of those that the block began with
  for (size_t i = 0; i < edited_.size(); ++i) {
    if (!is_open(i)) continue;
    open.push_back(i);
    num_left += edited_[i].is_original ? 1 : 0;
  }
  const auto num_open = static_cast<int32_t>(open.size());
  const bool is_out_of_edits = options_.most_edits > 0 && edit_steps_ >= options_.most_edits;

  std::vector<size_t> filled = open;
  if (step_ < options_.steps && !is_out_of_edits) {
    const int32_t share = num_original_ / options_.steps + (step_ < num_original_ % options_.steps ? 1 : 0);
    const auto quota = static_cast<size_t>(std::min(share + num_open - num_left, num_open));
    std::stable_sort(filled.begin(), filled.end(),
                     [&](size_t a, size_t b) { return drawn_at(a).confidence > drawn_at(b).confidence; });
    const auto is_sure = [&](size_t i) { return drawn_at(i).confidence > options_.tau; };
    const auto num_sure = static_cast<size_t>(std::count_if(open.begin(), open.end(), is_sure));
    filled.resize(std::max(num_sure, quota));
  }
  const auto fills = [&](size_t i) { return std::find(filled.begin(), filled.end(), i) != filled.end(); };
  const bool covers_all = num_left > 0 && std::all_of(open.begin(), open.end(), [&](size_t i) {
                            return !edited_[i].is_original || fills(i);
                          });
  // A finished infill has no masks.
  const bool has_to_end = is_infill() && step_ + 1 >= kMaxEditingSteps;
  const bool is_last = has_to_end || (options_.most_edits > 0 ? is_out_of_edits : covers_all);
  if (is_last) filled = open;

  written_.clear();
  for (const EditedToken& each : edited_) written_.push_back(each.token);
  probabilities_.assign(edited_.size(), 0);
  for (size_t i = 0; i < edited_.size(); ++i) {
    if (edited_[i].is_fixed()) continue;
    const RowStatistics& row = drawn_at(i);
    const bool replaces = !is_open(i) && row.token != edited_[i].token && row.confidence > options_.edit_tau;
    if (!replaces && !(is_open(i) && fills(i))) continue;
    written_[i] = row.token;
    probabilities_[i] = row.confidence;
    const bool is_edit = row.token == options_.delete_id || row.token == options_.split_id;
    if (is_last && is_edit) ask_for_plain_token(i);
  }
  if (!is_last) {
    leave_repeated_state(drawn);
    keep_holes_short();
  }
  return !further_.empty();
}

void EditingDiffusionDecoder::ask_for_plain_token(size_t i) {
  further_.push_back(draw_at(i, kPlainRule));
  replaced_.push_back(i);
}

void EditingDiffusionDecoder::keep_holes_short() {
  if (!is_infill()) return;
  std::vector<int32_t> room;
  for (const GrowingHole& hole : holes_) room.push_back(hole.most - hole.positions.size());
  for (size_t i = 0; i < edited_.size(); ++i) {
    if (edited_[i].is_fixed()) continue;
    const auto hole = static_cast<size_t>(edited_[i].hole);
    const bool is_split = written_[i] == options_.split_id;
    if (!is_split && written_[i] != options_.delete_id) continue;
    if (keeps_length_[hole] || (is_split && room[hole] == 0)) {
      ask_for_plain_token(i);
    } else if (is_split) {
      --room[hole];
    }
  }
}

void EditingDiffusionDecoder::leave_repeated_state(std::span<const RowStatistics> drawn) {
  std::vector<size_t> changed;
  for (size_t i = 0; i < edited_.size(); ++i) {
    if (written_[i] != edited_[i].token) changed.push_back(i);
  }
  // Least confident first.
  std::stable_sort(changed.begin(), changed.end(),
                   [&](size_t a, size_t b) { return probabilities_[a] < probabilities_[b]; });
  if (changed.size() > kMaxEscapes) changed.resize(kMaxEscapes);
  for (const size_t i : changed) {
    if (!seen_.contains(written_)) break;
    const RowStatistics& row = drawn[draws_[i]];
    written_[i] = row.best_token != written_[i] ? row.best_token : row.second_token;
  }
  seen_.insert(written_);
}

void EditingDiffusionDecoder::apply_follow_up(const FollowUpResult& result, StepReport& report) {
  for (size_t i = 0; i < replaced_.size(); ++i) {
    written_[replaced_[i]] = result.samples[i].token;
    probabilities_[replaced_[i]] = result.samples[i].confidence;
  }
  further_.clear();
  write(report);
}

void EditingDiffusionDecoder::write(StepReport& report) {
  const EditedToken filler = is_infill() ? EditedToken{options_.filler_id, false, EditedToken::kFixed}
                                         : EditedToken{options_.mask_id, false, 0};
  std::vector<EditedToken> after = carry_out_edits(edited_, written_, options_, filler);
  const int32_t begin = begin_of(block_);
  bool has_changed = false;
  bool has_masks = false;
  int32_t num_left = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    const bool is_mask = !after[i].is_fixed() && after[i].token == options_.mask_id;
    has_masks = has_masks || is_mask;
    num_left += is_mask && after[i].is_original ? 1 : 0;
    if (after[i].token == edited_[i].token) continue;
    has_changed = true;
    const auto position = begin + static_cast<int32_t>(i);
    tokens_[static_cast<size_t>(position)] = after[i].token;
    // Tokens that an edit only moved are not commits: the canvas shows them.
    const bool is_committed = !is_mask && !after[i].is_fixed() && after[i].token == written_[i];
    if (is_committed && position < length_)
      report.committed.push_back({position, after[i].token, probabilities_[i]});
  }
  const bool is_stable = !has_changed && !has_masks && after == edited_;
  if (is_infill()) move_holes(after);
  edited_ = std::move(after);
  number_draws();
  ++step_;
  edit_steps_ = num_left == 0 ? edit_steps_ + 1 : 0;
  const bool is_over = !has_masks && edit_steps_ > options_.most_edits;
  if (is_stable || is_over || step_ >= kMaxEditingSteps) finish_block();
}

void EditingDiffusionDecoder::move_holes(std::span<const EditedToken> after) {
  std::vector<int32_t> sizes(holes_.size());
  for (const EditedToken& each : after) {
    if (!each.is_fixed()) ++sizes[static_cast<size_t>(each.hole)];
  }
  int32_t shift = 0;
  for (size_t i = 0; i < holes_.size(); ++i) {
    IndexRange& positions = holes_[i].positions;
    const int32_t begin = positions.begin + shift;
    shift += sizes[i] - positions.size();
    ranges_[i] = positions = {begin, begin + sizes[i]};
  }
  text_end_ += shift;
}

void EditingDiffusionDecoder::finish_block() {
  if (is_infill()) {
    length_ = text_end_;
    done_ = true;
    return;
  }
  const int32_t begin = std::max(begin_of(block_), prompt_length_);
  const int32_t end = std::min(begin_of(block_ + 1), length_);
  for (int32_t position = begin; position < end; ++position) {
    const TokenId token = tokens_[static_cast<size_t>(position)];
    if (std::ranges::find(options_.end_ids, token) != options_.end_ids.end()) return end_at(position);
  }
  if (begin_of(block_ + 1) >= length_) {
    done_ = true;
  } else {
    start_block(block_ + 1);
  }
}

}  // namespace lacuna
