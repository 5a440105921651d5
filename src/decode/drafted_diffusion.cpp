#include "decode/drafted_diffusion.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lacuna {

DraftedDiffusionDecoder::DraftedDiffusionDecoder(BlockDiffusion options, std::vector<TokenId> prompt)
    : SequenceDecoder(std::move(prompt), options.gen_length),
      options_(std::move(options)),
      first_block_(prompt_length_ / options_.block_length),
      block_(first_block_) {
  const int32_t num_blocks = (length_ + options_.block_length - 1) / options_.block_length;
  add_masks(begin_of(num_blocks), options_.mask_id);
  start_round();
}

ExactPrefix DraftedDiffusionDecoder::exact_prefix() const {
  return {options_.block_length, begin_of(first_block_), begin_of(first_block_), begin_of(num_kept_)};
}

int32_t DraftedDiffusionDecoder::first_masked() const {
  const auto first = std::find(is_masked_.begin() + begin_of(block_), is_masked_.end(), true);
  return static_cast<int32_t>(first - is_masked_.begin());
}

int32_t DraftedDiffusionDecoder::num_final() const {
  return std::clamp(first_masked(), prompt_length_, length_) - prompt_length_;
}

void DraftedDiffusionDecoder::start_round() {
  role_ = ModelRole::kGuide;
  const int32_t known = first_masked();
  block_ = known / options_.block_length;
  drafts_.clear();
  BlockDiffusion drafting = options_;
  drafting.gen_length = begin_of(block_ + 1) - known;
  drafting.end_ids.clear();
  drafter_.emplace(std::move(drafting), std::vector(tokens_.begin(), tokens_.begin() + known));
  if (num_kept_by_guide_ > 0) drafter_->skip_prefix(begin_of(num_kept_by_guide_));
}

const StepPlan& DraftedDiffusionDecoder::plan() {
  return role_ == ModelRole::kGuide ? drafter_->plan() : SequenceDecoder::plan();
}

void DraftedDiffusionDecoder::build_plan() {
  const int32_t end = keeps_only() ? num_kept_ + most_kept_blocks(options_.block_length) : block_;
  for (int32_t block = num_kept_; block < end; ++block)
    plan_.add_group(tokens_, begin_of(block), begin_of(block + 1)).only_kv = true;
  if (end == block_) plan_drafts();
}

void DraftedDiffusionDecoder::plan_drafts() {
  const int32_t known = first_masked();
  if (known > begin_of(block_)) plan_.add_group(tokens_, begin_of(block_), known).only_kv = true;
  plan_.rules.push_back(options_.sampling);
  // Scratch cells hold the masks, then the drafts, both in the order of the steps: the state of the block
  // after w written tokens is then the range of as many cells as there are drafts, from the w-th on.
  const auto count = static_cast<int32_t>(drafts_.size());
  const int32_t masks = num_positions(), tokens = masks + count;
  int32_t previous = 0;
  for (int32_t begin = 0; begin < count;) {
    const int32_t step = drafts_[static_cast<size_t>(begin)].step;
    int32_t end = begin;
    while (end < count && drafts_[static_cast<size_t>(end)].step == step) ++end;
    RowGroup& group = plan_.groups.emplace_back();
    group.own_rows = OwnRows::kNone;
    if (known > 0) group.visible.push_back({0, known});
    group.visible.push_back({masks + begin, tokens + begin});
    group.rows.begin = plan_.num_rows();
    for (int32_t i = previous; i < begin; ++i) {
      const Draft& draft = drafts_[static_cast<size_t>(i)];
      plan_.add_row(draft.token, draft.position, tokens + i);
    }
    for (int32_t i = begin; i < end; ++i) {
      const Draft& draft = drafts_[static_cast<size_t>(i)];
      plan_.logits.push_back({.row = plan_.num_rows(), .noise = draft.noise});
      plan_.add_row(options_.mask_id, draft.position, masks + i);
    }
    group.rows.end = plan_.num_rows();
    previous = begin;
    begin = end;
  }
}

PassWork DraftedDiffusionDecoder::uncached_work() const {
  if (role_ == ModelRole::kGuide) return drafter_->uncached_work();
  if (keeps_only()) return {};  // without a cache this pass does not exist
  PassWork work = uncached_blocks_work(block_ + 1, options_.block_length, drafts_.size());
  const double drafted = static_cast<double>(drafts_.size());
  work.rows += std::ssize(drafts_);
  work.pairs += drafted * begin_of(block_ + 1);
  work.cells += begin_of(block_ + 1);
  return work;
}

StepReport DraftedDiffusionDecoder::apply(const PassResult& result) {
  StepReport report;
  if (role_ == ModelRole::kGuide) {
    apply_drafts(result);
    report.kind = "draft";
  } else {
    report = begin_report(result);
    report.kind = keeps_only() ? "prefill" : "verify";
  }
  report.step = round_;
  report.block = block_ - first_block_;
  if (report.kind == "prefill") num_kept_ += most_kept_blocks(options_.block_length);
  if (report.kind == "verify") judge(result.samples, report);
  return report;
}

void DraftedDiffusionDecoder::apply_drafts(const PassResult& result) {
  const std::vector<LogitRow> sampled = drafter_->plan().logits;
  const std::vector<int32_t> positions = drafter_->sampled_positions();
  const int32_t step = drafts_.empty() ? 0 : drafts_.back().step + 1;
  for (const Commit& commit : drafter_->apply(result).committed) {
    const auto place = std::ranges::find(positions, commit.position) - positions.begin();
    drafts_.push_back({commit.position, commit.token, step, sampled[static_cast<size_t>(place)].noise});
  }
  if (!drafter_->done()) return;
  num_kept_by_guide_ = block_;
  role_ = ModelRole::kMain;
}

void DraftedDiffusionDecoder::judge(std::span<const RowStatistics> judged, StepReport& report) {
  num_kept_ = block_;
  std::vector<size_t> order(drafts_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return drafts_[i].position; });
  for (const size_t i : order) {
    const Commit commit{drafts_[i].position, judged[i].token, judged[i].confidence};
    if (commit.position >= length_) break;
    set(commit);
    report.committed.push_back(commit);
    if (std::ranges::find(options_.end_ids, commit.token) != options_.end_ids.end())
      return end_at(commit.position);
    if (commit.token != drafts_[i].token) break;
  }
  ++round_;
  if (first_masked() >= length_) {
    done_ = true;
  } else {
    start_round();
  }
}

}  // namespace lacuna
