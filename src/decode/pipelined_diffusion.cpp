#include "decode/pipelined_diffusion.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

bool passes_threshold(const CountRule& rule, double confidence) {
  if (const auto* dynamic = std::get_if<Dynamic>(&rule)) return confidence > dynamic->tau;
  if (const auto* threshold = std::get_if<Threshold>(&rule)) return confidence >= threshold->tau;
  return false;
}

}  // namespace

bool has_threshold(const CountRule& rule) {
  return std::holds_alternative<Dynamic>(rule) || std::holds_alternative<Threshold>(rule);
}

PipelinedDecoder::PipelinedDecoder(BlockDiffusion options, std::vector<TokenId> prompt)
    : SequenceDecoder(std::move(prompt), options.gen_length),
      options_(std::move(options)),
      pipeline_(options_.pipeline.value_or(Pipeline{.add = 1, .full = 1})),
      grid_{options_.block_length, options_.whole_prompt ? prompt_length_ : 0, options_.max_positions},
      first_block_(grid_.block_of(prompt_length_)),
      num_blocks_(grid_.block_of(length_ - 1) + 1),
      open_(first_block_),
      begun_end_(first_block_ + 1),
      steps_(static_cast<size_t>(num_blocks_), 0) {
  expects(options_.gen_length > 0, "an answer has positions");
  expects(!options_.shifted_logits || prompt_length_ > 0, "the row before a position samples it");
  add_masks(grid_.begin_of(num_blocks_), options_.mask_id);
}

// The canvas.

int32_t PipelinedDecoder::num_masked(int32_t block) const {
  return static_cast<int32_t>(std::count(is_masked_.begin() + grid_.begin_of(block),
                                         is_masked_.begin() + grid_.begin_of(block + 1), true));
}

double PipelinedDecoder::written_share(int32_t block) const {
  if (block < first_block_) return 1;
  const int32_t count = grid_.begin_of(block + 1) - std::max(grid_.begin_of(block), prompt_length_);
  return static_cast<double>(count - num_masked(block)) / count;
}

bool PipelinedDecoder::is_full(int32_t block) const {
  return block == first_block_ || written_share(block - 1) >= pipeline_.full;
}

int32_t PipelinedDecoder::num_final() const {
  int32_t position = grid_.begin_of(std::min(open_, num_blocks_));
  while (position < num_cells() && !is_masked(position)) ++position;
  return std::clamp(position, prompt_length_, length_) - prompt_length_;
}

IndexRange PipelinedDecoder::block() const {
  return {grid_.begin_of(std::min(open_, begun_end_ - 1)), grid_.begin_of(begun_end_)};
}

ExactPrefix PipelinedDecoder::exact_prefix() const {
  if (grid_.prompt > 0) return {};
  const int32_t prompt = grid_.begin_of(first_block_);
  // The pass that reads the prompt's last block samples the answer's first token.
  const bool samples_first = options_.shifted_logits && prompt == prompt_length_;
  const int32_t wanted = samples_first ? first_block_ - 1 : first_block_;
  return {options_.block_length, grid_.begin_of(wanted), prompt, grid_.begin_of(num_kept_)};
}

// Plans.

bool PipelinedDecoder::keeps_only() const {
  return open_ - num_kept_ > most_kept_blocks(options_.block_length);
}

int32_t PipelinedDecoder::kept_end() const {
  return std::min(open_, num_kept_ + most_kept_blocks(options_.block_length));
}

bool PipelinedDecoder::needs_row_before() const {
  return options_.shifted_logits && num_kept_ == open_ && is_masked(grid_.begin_of(open_));
}

std::vector<int32_t> PipelinedDecoder::sampled_positions() const {
  std::vector<int32_t> positions;
  if (keeps_only()) return positions;
  for (int32_t position = grid_.begin_of(open_); position < grid_.begin_of(begun_end_); ++position) {
    if (is_masked(position)) positions.push_back(position);
  }
  return positions;
}

void PipelinedDecoder::build_plan() {
  if (keeps_only()) {
    plan_keeping();
  } else {
    plan_denoising();
  }
}

void PipelinedDecoder::add_block(int32_t block, bool only_kv) {
  plan_.add_group(tokens_, grid_.begin_of(block), grid_.begin_of(block + 1)).only_kv = only_kv;
}

void PipelinedDecoder::plan_keeping() {
  for (int32_t block = num_kept_; block < kept_end(); ++block) add_block(block, true);
}

void PipelinedDecoder::plan_denoising() {
  if (needs_row_before()) {
    const int32_t position = grid_.begin_of(open_) - 1;
    plan_.add_row(tokens_[static_cast<size_t>(position)], position, position);
    RowGroup group;
    group.rows = {0, 1};
    group.visible.push_back({0, position + 1});  // its cell already holds its K/V
    group.own_rows = OwnRows::kNone;
    plan_.groups.push_back(std::move(group));
  }
  const std::vector<int32_t> sampled = sampled_positions();
  const int32_t shift = options_.shifted_logits ? 1 : 0;
  for (int32_t block = num_kept_; block < begun_end_; ++block) {
    const auto next = std::lower_bound(sampled.begin(), sampled.end(), grid_.begin_of(block) + shift);
    add_block(block, next == sampled.end() || *next >= grid_.begin_of(block + 1) + shift);
  }
  plan_.rules.push_back(options_.sampling);
  const int32_t first = plan_.positions.front() + shift;  // rows are consecutive positions
  for (const int32_t position : sampled) {
    const int32_t block = grid_.block_of(position);
    const int32_t step = steps_[static_cast<size_t>(block)];
    plan_.logits.push_back(
        {.row = position - first, .noise = RngStream(options_.seed, kTokenNoise, block, step, position)});
  }
}

PassWork PipelinedDecoder::uncached_work() const {
  if (keeps_only()) return {};  // without a cache this pass does not exist
  PassWork work;
  work.rows = grid_.begin_of(begun_end_);
  for (int32_t block = 0; block < begun_end_; ++block) {
    const double end = grid_.begin_of(block + 1);
    work.pairs += (end - grid_.begin_of(block)) * end;
    work.cells += end;
  }
  work.logit_rows = static_cast<double>(sampled_positions().size());
  return work;
}

// Results.

StepReport PipelinedDecoder::apply(const PassResult& result) {
  StepReport report = begin_report(result);
  report.block = open_ - first_block_;
  if (keeps_only()) {
    report.kind = num_kept_ < first_block_ ? "prefill" : "commit";
    num_kept_ = kept_end();
  } else {
    report.kind = "denoise";
    apply_denoised(result.samples, report);
  }
  std::erase_if(report.committed, [&](const Commit& commit) { return commit.position >= length_; });
  return report;
}

void PipelinedDecoder::apply_denoised(std::span<const RowStatistics> drawn, StepReport& report) {
  const std::vector<int32_t> positions = sampled_positions();
  std::vector<bool> full;  // before any block has changed
  for (int32_t block = open_; block < begun_end_; ++block) full.push_back(is_full(block));
  size_t at = 0;
  for (int32_t block = open_; block < begun_end_; ++block) {
    std::vector<Commit> candidates;
    const size_t first = at;
    for (; at < positions.size() && positions[at] < grid_.begin_of(block + 1); ++at)
      candidates.push_back({positions[at], drawn[at].token, drawn[at].confidence});
    if (candidates.empty()) continue;
    for (const Commit& commit : chosen_in(block, full[static_cast<size_t>(block - open_)], candidates,
                                          drawn.subspan(first, at - first))) {
      set(commit);
      report.committed.push_back(commit);
    }
    ++steps_[static_cast<size_t>(block)];
  }
  num_kept_ = open_;
  move_on();
}

std::vector<Commit> PipelinedDecoder::chosen_in(int32_t block, bool is_full,
                                                std::span<const Commit> candidates,
                                                std::span<const RowStatistics> rows) const {
  const int32_t step = steps_[static_cast<size_t>(block)];
  const BlockProgress progress{step, options_.steps, options_.block_length,
                               static_cast<int32_t>(candidates.size())};
  std::vector<Commit> chosen =
      choose(options_.unmask, candidates, progress, RngStream(options_.seed, kOrderNoise, block, step), rows);
  if (!is_full) {
    std::erase_if(chosen, [&](const Commit& commit) {
      return !passes_threshold(options_.unmask.count, commit.confidence);
    });
  }
  return chosen;
}

void PipelinedDecoder::move_on() {
  while (open_ < begun_end_ && num_masked(open_) == 0) ++open_;
  finish_if_ended();
  if (done_) return;
  if (open_ == num_blocks_) {
    done_ = true;
    return;
  }
  if (const std::optional<int32_t> end = first_end()) {
    begun_end_ = std::min(begun_end_, grid_.block_of(*end) + 1);  // later positions are cut
  } else if (begun_end_ < num_blocks_ && written_share(begun_end_ - 1) >= pipeline_.add) {
    ++begun_end_;
  }
}

std::optional<int32_t> PipelinedDecoder::first_end() const {
  const int32_t behind = std::min(length_, grid_.begin_of(begun_end_));
  for (int32_t position = prompt_length_; position < behind; ++position) {
    const TokenId token = held_token(position);
    if (std::ranges::find(options_.end_ids, token) != options_.end_ids.end()) return position;
  }
  return {};
}

/// Ends the answer at its first end token once no mask precedes it.
void PipelinedDecoder::finish_if_ended() {
  const std::optional<int32_t> end = first_end();
  if (end && *end - prompt_length_ <= num_final()) end_at(*end);
}

}  // namespace lacuna
