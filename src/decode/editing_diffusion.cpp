#include "decode/editing_diffusion.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "decode/block_diffusion.h"
#include "decode/unmask.h"

namespace lacuna {
namespace {

// A block that is not done by then is taken as it is.
constexpr int32_t kMostSteps = 1000;
// Positions that are changed to leave a state which the block has been in.
constexpr int kMostEscapes = 5;

// Rules of a plan.
constexpr int32_t kMaskRule = 0;
constexpr int32_t kTokenRule = 1;
constexpr int32_t kPlainRule = 2;  // the best token that edits nothing

}  // namespace

std::vector<EditedToken> carry_out_edits(std::span<const EditedToken> before,
                                         std::span<const TokenId> written, int32_t num_fixed,
                                         const EditingDiffusion& options) {
  std::vector<EditedToken> result;
  for (size_t i = 0; i < before.size(); ++i) {
    if (static_cast<int32_t>(i) < num_fixed) {
      result.push_back(before[i]);
    } else if (written[i] == options.split_id) {
      result.push_back({options.mask_id, false});
      result.push_back(before[i]);
    } else if (written[i] != options.delete_id) {
      result.push_back({written[i], before[i].is_original});
    }
  }
  result.resize(before.size(), {options.mask_id, false});
  return result;
}

EditingDiffusionDecoder::EditingDiffusionDecoder(EditingDiffusion options, std::vector<TokenId> prompt)
    : options_(std::move(options)),
      prompt_length_(static_cast<int32_t>(prompt.size())),
      length_(prompt_length_ + options_.gen_length),
      tokens_(std::move(prompt)),
      first_block_(prompt_length_ / options_.block_length) {
  const int32_t num_blocks = (length_ + options_.block_length - 1) / options_.block_length;
  tokens_.resize(static_cast<size_t>(begin_of(num_blocks)), options_.mask_id);
  start_block(first_block_);
}

std::span<const TokenId> EditingDiffusionDecoder::canvas() const {
  return std::span(tokens_).first(static_cast<size_t>(length_));
}

int32_t EditingDiffusionDecoder::num_final() const {
  return done_ ? length_ - prompt_length_
               : std::clamp(begin_of(block_), prompt_length_, length_) - prompt_length_;
}

int32_t EditingDiffusionDecoder::num_fixed() const {
  return std::clamp(prompt_length_ - begin_of(block_), 0, options_.block_length);
}

bool EditingDiffusionDecoder::is_open(size_t i) const {
  return static_cast<int32_t>(i) >= num_fixed() && edited_[i].token == options_.mask_id;
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
  for (int32_t position = begin_of(block); position < begin_of(block + 1); ++position) {
    const bool is_original = position >= prompt_length_;
    edited_.push_back({tokens_[static_cast<size_t>(position)], is_original});
    num_original_ += is_original ? 1 : 0;
  }
  edit_steps_ = num_original_ == 0 ? 1 : 0;
}

const StepPlan& EditingDiffusionDecoder::plan() {
  if (is_planned_) return plan_;
  is_planned_ = true;
  plan_.clear();
  const int32_t kept_end = std::min(block_, num_kept_ + most_kept_blocks(options_.block_length));
  for (int32_t block = num_kept_; block < kept_end; ++block) add_group(block, true);
  if (keeps_only()) return plan_;
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
  for (auto i = static_cast<size_t>(num_fixed()); i < edited_.size(); ++i)
    plan_.logits.push_back(draw_at(i, is_open(i) ? kMaskRule : kTokenRule));
  return plan_;
}

void EditingDiffusionDecoder::add_group(int32_t block, bool only_kv) {
  RowGroup group;
  group.rows = {plan_.num_rows(), plan_.num_rows() + options_.block_length};
  for (int32_t position = begin_of(block); position < begin_of(block + 1); ++position)
    plan_.add_row(tokens_[static_cast<size_t>(position)], position, position);
  if (block > 0) group.visible.push_back({0, begin_of(block)});
  group.only_kv = only_kv;
  plan_.groups.push_back(std::move(group));
}

LogitRow EditingDiffusionDecoder::draw_at(size_t i, int32_t rule) const {
  LogitRow logit;
  logit.row = first_row_ + static_cast<int32_t>(i);
  logit.rule = rule;
  logit.noise = RngStream(options_.seed, kTokenNoise, block_, step_, i);
  return logit;
}

PassWork EditingDiffusionDecoder::uncached_work() const {
  if (keeps_only()) return {};  // without a cache nothing is kept
  return uncached_blocks_work(block_ + 1, options_.block_length,
                              edited_.size() - static_cast<size_t>(num_fixed()));
}

StepReport EditingDiffusionDecoder::apply(const PassResult& result) {
  expects(is_planned_ && result.samples.size() == plan_.logits.size(),
          "apply: one draw for each that was planned");
  is_planned_ = false;
  further_.clear();
  replaced_.clear();
  StepReport report;
  report.step = num_passes_++;
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
  const auto fixed = static_cast<size_t>(num_fixed());
  const auto drawn_at = [&](size_t i) -> const RowStatistics& { return drawn[i - fixed]; };
  std::vector<size_t> open;
  int32_t num_left = 0;  // remaining masks of those that the block began with
  for (size_t i = fixed; i < edited_.size(); ++i) {
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
  const bool is_last = options_.most_edits > 0 ? is_out_of_edits : covers_all;
  if (is_last) filled = open;

  written_.clear();
  for (const EditedToken& each : edited_) written_.push_back(each.token);
  probabilities_.assign(edited_.size(), 0);
  for (size_t i = fixed; i < edited_.size(); ++i) {
    const RowStatistics& row = drawn_at(i);
    const bool replaces = !is_open(i) && row.token != edited_[i].token && row.confidence > options_.edit_tau;
    if (!replaces && !(is_open(i) && fills(i))) continue;
    written_[i] = row.token;
    probabilities_[i] = row.confidence;
    const bool is_edit = row.token == options_.delete_id || row.token == options_.split_id;
    if (!is_last || !is_edit) continue;
    further_.push_back(draw_at(i, kPlainRule));
    replaced_.push_back(i);
  }
  if (!is_last) leave_repeated_state(drawn);
  return !further_.empty();
}

void EditingDiffusionDecoder::leave_repeated_state(std::span<const RowStatistics> drawn) {
  const auto fixed = static_cast<size_t>(num_fixed());
  std::vector<size_t> changed;
  for (size_t i = fixed; i < edited_.size(); ++i) {
    if (written_[i] != edited_[i].token) changed.push_back(i);
  }
  // The least sure first.
  std::stable_sort(changed.begin(), changed.end(),
                   [&](size_t a, size_t b) { return probabilities_[a] < probabilities_[b]; });
  if (changed.size() > kMostEscapes) changed.resize(kMostEscapes);
  for (const size_t i : changed) {
    if (!seen_.contains(written_)) break;
    const RowStatistics& row = drawn[i - fixed];
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
  std::vector<EditedToken> after = carry_out_edits(edited_, written_, num_fixed(), options_);
  const int32_t begin = begin_of(block_);
  bool has_changed = false;
  bool has_masks = false;
  int32_t num_left = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    const bool is_mask = static_cast<int32_t>(i) >= num_fixed() && after[i].token == options_.mask_id;
    has_masks = has_masks || is_mask;
    num_left += is_mask && after[i].is_original ? 1 : 0;
    if (after[i].token == edited_[i].token) continue;
    has_changed = true;
    const auto position = begin + static_cast<int32_t>(i);
    tokens_[static_cast<size_t>(position)] = after[i].token;
    // Where an edit moved the tokens after it, nothing was committed: they are told as changes of the
    // canvas.
    const bool is_committed = !is_mask && after[i].token == written_[i];
    if (is_committed && position < length_)
      report.committed.push_back({position, after[i].token, probabilities_[i]});
  }
  const bool is_stable = !has_changed && !has_masks && after == edited_;
  edited_ = std::move(after);
  ++step_;
  edit_steps_ = num_left == 0 ? edit_steps_ + 1 : 0;
  const bool is_over = !has_masks && edit_steps_ > options_.most_edits;
  if (is_stable || is_over || step_ >= kMostSteps) finish_block();
}

void EditingDiffusionDecoder::finish_block() {
  const int32_t begin = std::max(begin_of(block_), prompt_length_);
  const int32_t end = std::min(begin_of(block_ + 1), length_);
  for (int32_t position = begin; position < end; ++position) {
    const TokenId token = tokens_[static_cast<size_t>(position)];
    if (std::find(options_.end_ids.begin(), options_.end_ids.end(), token) == options_.end_ids.end())
      continue;
    length_ = position + 1;
    stop_reason_ = StopReason::kEndToken;
    done_ = true;
    return;
  }
  if (begin_of(block_ + 1) >= length_) {
    done_ = true;
  } else {
    start_block(block_ + 1);
  }
}

}  // namespace lacuna
