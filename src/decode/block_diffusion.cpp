#include "decode/block_diffusion.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "decode/canvas.h"
#include "kernels/attention.h"
#include "kernels/panels.h"

namespace lacuna {
namespace {

constexpr int32_t kSampled = 0;  // rules of a plan
constexpr int32_t kBest = 1;

int32_t round_up_to_tile(int32_t cells) {
  return static_cast<int32_t>(round_up(cells, kCellTile));
}

bool writes_same(std::span<const Commit> a, std::span<const Commit> b) {
  return std::ranges::equal(a, b, [](const Commit& one, const Commit& other) {
    return one.position == other.position && one.token == other.token;
  });
}

}  // namespace

int32_t most_kept_blocks(int32_t block_length) {
  constexpr int32_t kMaxRows = 1024;
  return std::max(1, kMaxRows / block_length);
}

PassWork uncached_blocks_work(int32_t num_blocks, int32_t block_length, size_t logit_rows) {
  const double blocks = num_blocks;
  const double block_pairs = blocks * (blocks + 1) / 2;
  return {.rows = int64_t{num_blocks} * block_length,
          .pairs = block_pairs * block_length * block_length,
          .cells = block_pairs * block_length,
          .logit_rows = static_cast<double>(logit_rows)};
}

BlockDiffusionDecoder::BlockDiffusionDecoder(BlockDiffusion options, std::vector<TokenId> prompt)
    : SequenceDecoder(std::move(prompt), options.gen_length),
      options_(std::move(options)),
      first_block_(prompt_length_ / options_.block_length),
      sparse_({}, 0, 0) {
  expects(!options_.shifted_logits || (options_.commits_apart && prompt_length_ > 0),
          "a block's first token comes from the pass that keeps the block before");
  expects(!options_.commits_sparsely || options_.commits_apart,
          "a pass has one group of a sequence that is sparse");
  const int32_t num_blocks = (length_ + options_.block_length - 1) / options_.block_length;
  add_masks(begin_of(num_blocks), options_.mask_id);
  sparse_ =
      SparseSchedule(options_.sparse, (num_blocks - first_block_) * options_.steps, options_.sparse_after);
  start_block(first_block_);
}

void BlockDiffusionDecoder::start_block(int32_t block) {
  block_ = block;
  step_ = 0;
  edit_steps_ = 0;
  if (soft() != nullptr) weights_.assign(static_cast<size_t>(options_.block_length), 1);
  drafts_.clear();
  read_.assign(static_cast<size_t>(options_.block_length), false);
  unread_ = begin_of(block_);
  written_ = writing_steps_ = 0;
  const int32_t num_sub_blocks = options_.block_length / options_.sub_block_length;
  progress_ = {0, options_.steps / num_sub_blocks, options_.sub_block_length, 0};
  if (options_.lock) restart_lock();
}

void BlockDiffusionDecoder::restart_lock() {
  const int32_t begin = begin_of(block_);
  const int32_t fixed = std::clamp(prompt_length_ - begin, 0, options_.block_length);
  std::vector<TokenId> prompt(tokens_.begin() + begin, tokens_.begin() + begin + fixed);
  locked_block_.emplace(std::move(prompt), options_.block_length - fixed, options_.mask_id,
                        options_.shifted_logits);
  if (lock_) {
    lock_->restart(*locked_block_, begin);
  } else {
    lock_.emplace(*options_.lock, *locked_block_, begin);
  }
}

int32_t BlockDiffusionDecoder::num_final() const {
  const int32_t written = revises() && !done_ ? begin_of(block_) : first_masked();
  return std::clamp(written, prompt_length_, length_) - prompt_length_;
}

int32_t BlockDiffusionDecoder::num_cells() const {
  if (most_drafts() == 0) return num_positions();
  // Drafts begin less than a tile behind the canvas.
  return num_positions() + most_drafts() * round_up_to_tile(options_.block_length) +
         static_cast<int32_t>(kCellTile) - 1;
}

int32_t BlockDiffusionDecoder::most_kept() const {
  return most_kept_blocks(options_.block_length);
}

bool BlockDiffusionDecoder::keeps_only() const {
  return block_ - num_kept_ > (options_.commits_apart ? 0 : most_kept());
}

int32_t BlockDiffusionDecoder::first_masked() const {
  int32_t position = begin_of(block_);
  while (position < begin_of(block_ + 1) && !is_masked(position)) ++position;
  return position;
}

IndexRange BlockDiffusionDecoder::sub_block() const {
  const int32_t size = options_.sub_block_length;
  const int32_t last = begin_of(block_ + 1) - size;
  const int32_t begin = std::min(first_masked() / size * size, last);
  return {begin, begin + size};
}

std::vector<int32_t> BlockDiffusionDecoder::drawn_positions() const {
  const IndexRange range = sub_block();
  std::vector<int32_t> positions;
  for (int32_t position = range.begin; position < range.end; ++position) {
    if (is_masked(position) || (revises() && !is_fixed(position))) positions.push_back(position);
  }
  return positions;
}

std::vector<int32_t> BlockDiffusionDecoder::sampled_positions() const {
  if (!keeps_only()) return drawn_positions();
  return plan_.logits.empty() ? std::vector<int32_t>() : std::vector{begin_of(block_)};
}

ExactPrefix BlockDiffusionDecoder::exact_prefix() const {
  // The pass that keeps the last block of the prompt may sample the first token of the answer.
  const bool draws_first = options_.shifted_logits && begin_of(first_block_) == prompt_length_;
  const int32_t wanted = draws_first ? first_block_ - 1 : first_block_;
  const int32_t kept = options_.commits_sparsely ? std::min(num_kept_, first_block_) : num_kept_;
  return {options_.block_length, begin_of(wanted), begin_of(first_block_), begin_of(kept)};
}

void BlockDiffusionDecoder::build_plan() {
  if (keeps_only()) {
    plan_keeping();
  } else {
    plan_denoising();
  }
}

void BlockDiffusionDecoder::add_group(std::span<const int32_t> positions, int32_t prefix,
                                      const SparseAttention& sparse, bool only_kv) {
  RowGroup group;
  group.rows = {plan_.num_rows(), plan_.num_rows() + static_cast<int32_t>(positions.size())};
  for (const int32_t position : positions) {
    plan_.add_row(tokens_[static_cast<size_t>(position)], position, position);
  }
  const int32_t chosen_among = sparse.among.end;
  if (chosen_among > 0) group.visible.push_back(sparse.among);
  if (prefix > chosen_among) group.visible.push_back({chosen_among, prefix});
  if (group.rows.size() < options_.block_length) {
    group.visible.push_back({prefix, prefix + options_.block_length});
    group.own_rows = OwnRows::kNone;
  }
  group.sparse = sparse;
  group.only_kv = only_kv;
  plan_.groups.push_back(std::move(group));
}

void BlockDiffusionDecoder::plan_keeping() {
  const int32_t end = kept_end();
  const bool draws_next = options_.shifted_logits && end == block_ && is_masked(begin_of(block_));
  for (int32_t block = num_kept_; block < end; ++block) {
    const int32_t prefix = begin_of(block);
    const bool is_sparse = options_.commits_sparsely && block >= first_block_;
    add_group(positions_in(prefix, begin_of(block + 1)), prefix,
              is_sparse ? sparse_.commit(prefix) : SparseAttention(), !(draws_next && block + 1 == end));
  }
  if (!draws_next) return;
  plan_.rules.push_back(options_.sampling);
  plan_.rules.push_back(options_.sampling);
  plan_.rules[kBest].temperature = 0;
  plan_.logits.push_back({.row = plan_.num_rows() - 1, .rule = kBest});
}

void BlockDiffusionDecoder::plan_denoising() {
  for (int32_t block = num_kept_; block < block_; ++block) {
    add_group(positions_in(begin_of(block), begin_of(block + 1)), begin_of(block), {}, true);
  }
  const std::vector<int32_t> rows = denoised_rows();
  const int32_t first_row = plan_.num_rows();
  attention_ = sparse_.denoise(begin_of(block_), step_, static_cast<int32_t>(rows.size()));
  add_group(rows, begin_of(block_), attention_, false);
  if (options_.focus) plan_eviction(rows);
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] < 1) plan_.mixed.push_back({first_row + static_cast<int32_t>(i), weights_[i]});
  }
  plan_.rules.push_back(options_.sampling);
  for (const int32_t position : drawn_positions()) {
    const auto row = std::lower_bound(rows.begin(), rows.end(), position - (options_.shifted_logits ? 1 : 0));
    add_sample(first_row + static_cast<int32_t>(row - rows.begin()), position, step_);
  }
  if (lock_) watch_rows(rows, first_row);
  plan_drafts();
}

void BlockDiffusionDecoder::plan_eviction(std::span<const int32_t> rows) {
  RowGroup& group = plan_.groups.back();
  const int32_t begin = begin_of(block_), end = begin_of(block_ + 1), behind = rows.back() + 1;
  group.own_rows = OwnRows::kNone;
  group.visible.clear();
  for (const IndexRange& range : {IndexRange{0, begin}, IndexRange{begin, behind}, IndexRange{behind, end}})
    if (range.size() > 0) group.visible.push_back(range);
  const double average = writing_steps_ == 0 ? 1 : static_cast<double>(written_) / writing_steps_;
  const auto target = static_cast<int32_t>(std::ceil(average * *options_.focus));
  if (std::ssize(drawn_positions()) > target) group.eviction = {target, unread_};
}

void BlockDiffusionDecoder::note_read(std::span<const int32_t> rows, std::span<const RowStatistics> drawn) {
  const std::vector<int32_t> masks = drawn_positions();
  for (const int32_t row : rows) {
    const auto mask = std::ranges::lower_bound(masks, row);
    const bool is_mask = mask != masks.end() && *mask == row;
    if (!is_mask) read_[static_cast<size_t>(row - begin_of(block_))] = true;
    if (!is_mask || drawn[static_cast<size_t>(mask - masks.begin())].token >= 0)
      unread_ = std::max(unread_, row + 1);
  }
}

void BlockDiffusionDecoder::add_sample(int32_t row, int32_t position, int32_t step) {
  plan_.logits.push_back(
      {.row = row, .rule = kSampled, .noise = RngStream(options_.seed, kTokenNoise, block_, step, position)});
}

void BlockDiffusionDecoder::plan_drafts() {
  if (drafts_.empty()) return;
  const int32_t begin = begin_of(block_), end = begin_of(block_ + 1);
  std::vector<TokenId> tokens = tokens_;
  std::vector<int32_t> masked = drawn_positions();
  // By whole tiles, so that a row has the bits that it has at its position.
  int32_t shift = round_up_to_tile(num_positions() - begin);
  int32_t step = step_;
  for (const std::vector<Commit>& written : drafts_) {
    for (const Commit& commit : written) {
      tokens[static_cast<size_t>(commit.position)] = commit.token;
      std::erase(masked, commit.position);
    }
    ++step;
    const int32_t first_row = plan_.num_rows();
    RowGroup& group = plan_.groups.emplace_back();
    group.rows = {first_row, first_row + end - begin};
    if (begin > 0) group.visible.push_back({0, begin});
    for (int32_t position = begin; position < end; ++position)
      plan_.add_row(tokens[static_cast<size_t>(position)], position, position + shift);
    const int32_t row_of_begin = first_row - (options_.shifted_logits ? 1 : 0);
    for (const int32_t position : masked) add_sample(row_of_begin + position - begin, position, step);
    shift += round_up_to_tile(end - begin);
  }
}

bool BlockDiffusionDecoder::computes_block() const {
  const bool may_compute_part = options_.caches_block && options_.sub_block_length < options_.block_length;
  return !may_compute_part || step_ == 0 || is_masked(sub_block().begin);
}

std::vector<int32_t> BlockDiffusionDecoder::denoised_rows() const {
  const IndexRange part = computes_block() ? block() : sub_block();
  std::vector<int32_t> rows = positions_in(part.begin, part.end);
  if (lock_) std::erase_if(rows, [&](int32_t row) { return lock_->is_locked(row - begin_of(block_)); });
  if (options_.focus) {
    std::erase_if(rows, [&](int32_t row) {
      const auto place = static_cast<size_t>(row - begin_of(block_));
      return read_[place] && (place + 1 == read_.size() || read_[place + 1]);
    });
  }
  return rows;
}

void BlockDiffusionDecoder::watch_rows(std::span<const int32_t> positions, int32_t first_row) {
  const auto in_block = [&](std::span<const int32_t> all) {
    std::vector<int32_t> rows(all.begin(), all.end());
    for (int32_t& row : rows) row -= begin_of(block_);
    return rows;
  };
  const auto logit_of = [](int32_t plan_row) { return LogitRow{.row = plan_row}; };
  lock_->watch(*locked_block_, {in_block(positions), {}, first_row}, computes_block(),
               in_block(drawn_positions()), logit_of, plan_);
}

PassWork BlockDiffusionDecoder::uncached_work() const {
  if (keeps_only()) return {};  // without a cache this pass does not exist
  const size_t num_masked = drawn_positions().size();
  PassWork work = uncached_blocks_work(block_ + 1, options_.block_length, num_masked);
  auto masked = static_cast<double>(num_masked);
  for (const std::vector<Commit>& written : drafts_) {
    masked -= static_cast<double>(written.size());
    const double cells = begin_of(block_ + 1);
    work.rows += options_.block_length;
    work.pairs += options_.block_length * cells;
    work.cells += cells;
    work.logit_rows += masked;
  }
  return work;
}

StepReport BlockDiffusionDecoder::apply(const PassResult& result) {
  const std::span<const RowStatistics> drawn = result.samples;
  StepReport report = begin_report(result);
  report.block = block_ - first_block_;
  const int32_t block = block_;
  const bool denoises = !keeps_only();
  if (denoises) {
    apply_denoised(drawn, report);
  } else {
    apply_kept(drawn, report);
  }
  may_lock_ = lock_ && denoises && !done_ && block_ == block;
  if (may_lock_) lock_->close_gate(*locked_block_, drawn);
  std::erase_if(report.committed, [&](const Commit& commit) { return commit.position >= length_; });
  return report;
}

FollowUp BlockDiffusionDecoder::follow_up() const {
  return {.probes = may_lock_ ? lock_->drift_probes() : std::span<const DriftProbe>()};
}

void BlockDiffusionDecoder::apply_follow_up(const FollowUpResult& result, StepReport& report) {
  if (may_lock_) lock_->apply_drift(*locked_block_, result.drifts, report);
  may_lock_ = false;
}

const DriftEstimate* BlockDiffusionDecoder::drift_estimate() const {
  return lock_ && options_.lock->delta ? &lock_->estimate() : nullptr;
}

void BlockDiffusionDecoder::write(const Commit& commit, StepReport& report) {
  set(commit);
  if (lock_) locked_block_->commit({commit.position - begin_of(block_), commit.token, commit.confidence});
  report.committed.push_back(commit);
}

void BlockDiffusionDecoder::apply_kept(std::span<const RowStatistics> drawn, StepReport& report) {
  report.kind = num_kept_ < first_block_ ? "prefill" : "commit";
  num_kept_ = kept_end();
  if (!drawn.empty()) write({begin_of(block_), drawn.front().token, drawn.front().confidence}, report);
  finish_if_ended();
}

void BlockDiffusionDecoder::apply_denoised(std::span<const RowStatistics> drawn, StepReport& report) {
  report.kind = "denoise";
  num_kept_ = block_;
  if (lock_) locked_block_->count_pass(lock_->rows());
  if (options_.focus) note_read(denoised_rows(), drawn);
  const std::vector<std::vector<Commit>> drafts = std::exchange(drafts_, {});
  const int32_t block = block_;
  for (size_t state = 0;; ++state) {
    const size_t count = drawn_positions().size();
    const std::vector<Commit> chosen = take_step(drawn.first(count), report);
    drawn = drawn.subspan(count);
    finish_if_ended();
    const bool goes_on = !done_ && block_ == block;
    // The pass has computed the block's next state if the step has written what was drafted.
    if (!goes_on || state == drafts.size() || !writes_same(chosen, drafts[state])) break;
  }
  std::ranges::sort(report.committed, {}, &Commit::position);
}

std::vector<Commit> BlockDiffusionDecoder::take_step(std::span<const RowStatistics> drawn,
                                                     StepReport& report) {
  const std::vector<int32_t> positions = drawn_positions();
  std::vector<Commit> candidates;
  std::vector<RowStatistics> rows;  // of the candidates
  std::vector<Commit> edits;
  int32_t num_masks = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const Commit commit{positions[i], drawn[i].token, drawn[i].confidence};
    num_masks += is_masked(commit.position) ? 1 : 0;
    if (commit.token < 0) continue;  // evicted
    if (is_masked(commit.position)) {
      candidates.push_back(commit);
      rows.push_back(drawn[i]);
    } else if (commit.token != tokens_[static_cast<size_t>(commit.position)] &&
               (soft() != nullptr || commit.confidence > options_.edit->tau)) {
      edits.push_back(commit);
    }
  }
  const bool had_masks = num_masks > 0;
  progress_.masked_now = num_masks;
  std::vector<Commit> chosen = choose(options_.unmask, candidates, progress_,
                                      RngStream(options_.seed, kOrderNoise, block_, step_), rows);
  for (const Commit& commit : chosen) write(commit, report);
  for (const Commit& commit : edits) write(commit, report);
  sparse_.advance(attention_, static_cast<int32_t>(chosen.size() + edits.size()));
  for (size_t i = 0; soft() != nullptr && i < positions.size(); ++i) {
    if (!is_masked(positions[i]))
      weights_[static_cast<size_t>(positions[i] - begin_of(block_))] =
          static_cast<float>(drawn[i].confidence);
  }

  ++step_;
  ++progress_.step;
  written_ += static_cast<int32_t>(chosen.size());
  writing_steps_ += chosen.empty() ? 0 : 1;
  if (std::ssize(chosen) == num_masks) progress_.step = 0;  // begin the next sub-block
  if (!had_masks) ++edit_steps_;
  if (first_masked() < begin_of(block_ + 1)) {
    if (most_drafts() > 0) draft_steps(std::move(candidates), chosen);
    return chosen;
  }
  if (!is_done(had_masks || !edits.empty(), drawn)) return chosen;
  if (begin_of(block_ + 1) >= length_) {
    done_ = true;
  } else {
    start_block(block_ + 1);
  }
  return chosen;
}

void BlockDiffusionDecoder::draft_steps(std::vector<Commit> candidates, std::vector<Commit> written) {
  drafts_.clear();
  BlockProgress progress = progress_;
  for (int32_t step = step_; std::ssize(drafts_) < most_drafts(); ++step, ++progress.step) {
    std::erase_if(candidates, [&](const Commit& candidate) {
      return std::ranges::find(written, candidate.position, &Commit::position) != written.end();
    });
    progress.masked_now = static_cast<int32_t>(candidates.size());
    written =
        choose(options_.unmask, candidates, progress, RngStream(options_.seed, kOrderNoise, block_, step));
    if (written.size() == candidates.size()) return;  // a state without masks predicts nothing
    drafts_.push_back(written);
  }
}

bool BlockDiffusionDecoder::is_done(bool changed, std::span<const RowStatistics> drawn) const {
  if (options_.edit) return !changed || edit_steps_ >= options_.edit->most;
  if (soft() == nullptr || !changed || step_ >= options_.block_length) return true;
  return std::ranges::all_of(drawn,
                             [&](const RowStatistics& row) { return row.confidence >= soft()->accept; });
}

/// Ends the answer at its first end token once no mask precedes it and, if tokens may change, its block is
/// finished.
void BlockDiffusionDecoder::finish_if_ended() {
  const int32_t final_end = revises() && !done_ ? begin_of(block_) : length_;
  for (int32_t position = prompt_length_; position < final_end && !is_masked(position); ++position) {
    const TokenId token = tokens_[static_cast<size_t>(position)];
    if (std::ranges::find(options_.end_ids, token) != options_.end_ids.end()) return end_at(position);
  }
}

}  // namespace lacuna
