#include "decode/seeded_diffusion.h"

#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

// Maximum rows of a causal pass; more would only take more memory.
constexpr int32_t kMaxRead = 1024;

/// Cells of prompt and whole blocks, which may extend beyond the answer; self-speculation needs no such
/// cells.
int32_t cells_of(const SeededDiffusion& options, size_t prompt_length) {
  const int32_t block = options.block_length;
  const int64_t blocks = (int64_t{options.gen_length} + block - 1) / block;
  const int64_t answer = options.verifies ? options.gen_length : blocks * block;
  return static_cast<int32_t>(
      std::min<int64_t>(static_cast<int64_t>(prompt_length) + answer, options.max_positions));
}

}  // namespace

SeededDiffusionDecoder::SeededDiffusionDecoder(SeededDiffusion options, std::vector<TokenId> prompt)
    : SequenceDecoder(std::move(prompt), options.gen_length),
      options_(std::move(options)),
      block_{prompt_length_, prompt_length_},
      num_written_(prompt_length_),
      num_read_(prompt_length_) {
  add_masks(cells_of(options_, tokens_.size()), options_.mask_id);
}

int32_t SeededDiffusionDecoder::planned_steps() const {
  const int32_t block = options_.block_length;
  return (options_.gen_length + block - 1) / block * options_.steps;
}

bool SeededDiffusionDecoder::is_end(int32_t position) const {
  const TokenId token = tokens_[static_cast<size_t>(position)];
  return std::ranges::find(options_.end_ids, token) != options_.end_ids.end();
}

int32_t SeededDiffusionDecoder::read_end() const {
  return std::min(num_read_, num_kept_ + kMaxRead);
}

std::vector<int32_t> SeededDiffusionDecoder::masked_positions() const {
  std::vector<int32_t> positions;
  for (int32_t position = block_.begin; position < block_.end; ++position) {
    if (is_masked(position)) positions.push_back(position);
  }
  return positions;
}

// Plans.

void SeededDiffusionDecoder::build_plan() {
  expects(!done_, "plan: the request is not done");
  if (denoises()) {
    plan_denoising();
  } else {
    plan_reading();
  }
}

void SeededDiffusionDecoder::plan_reading() {
  const int32_t end = read_end();
  plan_.add_group(tokens_, num_kept_, end, OwnRows::kCausal).only_kv = end < num_read_;
  if (end < num_read_) return;
  plan_.rules.push_back(options_.sampling);
  // The row before a position samples it, with the random numbers of an autoregressive run.
  const int32_t first = judges() ? 0 : plan_.num_rows() - 1;
  for (int32_t row = first; row < plan_.num_rows(); ++row)
    plan_.logits.push_back({.row = row, .noise = RngStream(options_.seed, num_kept_ + row + 1)});
}

void SeededDiffusionDecoder::plan_denoising() {
  RowGroup group{0, {0, block_.size()}, {}, OwnRows::kBidirectional};
  group.visible.push_back({0, block_.begin});
  plan_.groups.push_back(std::move(group));
  plan_.rules.push_back(options_.drafting);
  for (int32_t position = block_.begin; position < block_.end; ++position) {
    if (is_masked(position)) {
      // Drafts use the random numbers of the causal pass that judges them, so that both agree more often.
      const RngStream noise = options_.verifies ? RngStream(options_.seed, position)
                                                : RngStream(options_.seed, kTokenNoise, num_blocks_ - 1,
                                                            progress_.step, position);
      plan_.logits.push_back({.row = plan_.num_rows(), .noise = noise});
    }
    plan_.add_row(tokens_[static_cast<size_t>(position)], position, position);
  }
}

PassWork SeededDiffusionDecoder::uncached_work() const {
  if (!denoises() && read_end() < num_read_) return {};  // without a cache this pass does not exist
  const double context = denoises() ? block_.begin : num_read_;
  PassWork work;
  work.rows = static_cast<int64_t>(context);
  work.pairs = context * (context + 1) / 2;
  work.cells = context;
  if (!denoises()) {
    work.logit_rows = judges() ? block_.size() : 1;
    return work;
  }
  work.only_kv_rows = work.rows;
  work.only_kv_pairs = work.pairs;
  work.rows += block_.size();
  work.pairs += static_cast<double>(block_.size()) * (context + block_.size());
  work.cells += context + block_.size();
  work.logit_rows = static_cast<double>(masked_positions().size());
  return work;
}

std::vector<int32_t> SeededDiffusionDecoder::sampled_positions() const {
  if (denoises()) return masked_positions();
  std::vector<int32_t> positions;
  for (const LogitRow& logit : plan_.logits)
    positions.push_back(plan_.positions[static_cast<size_t>(logit.row)] + 1);
  return positions;
}

std::vector<TokenId> SeededDiffusionDecoder::judged_drafts() const {
  std::vector<TokenId> drafts;
  if (denoises()) return drafts;
  for (const int32_t position : sampled_positions()) {
    const bool is_draft = judges() && position < block_.end;
    drafts.push_back(is_draft ? tokens_[static_cast<size_t>(position)] : -1);
  }
  return drafts;
}

// Handling of the samples.

StepReport SeededDiffusionDecoder::apply(const PassResult& result) {
  StepReport report = begin_report(result);
  report.block = std::max(num_blocks_ - 1, 0);
  if (denoises()) {
    apply_denoised(result.samples, report);
  } else {
    apply_read(result.samples, report);
  }
  return report;
}

void SeededDiffusionDecoder::write(const Commit& commit, StepReport& report) {
  set(commit);
  if (commit.position < length_) report.committed.push_back(commit);
}

void SeededDiffusionDecoder::apply_denoised(std::span<const RowStatistics> drawn, StepReport& report) {
  report.kind = options_.verifies ? "draft" : "denoise";
  std::vector<Commit> candidates;
  const std::vector<int32_t> positions = masked_positions();
  for (size_t i = 0; i < drawn.size(); ++i)
    candidates.push_back({positions[i], drawn[i].token, drawn[i].confidence});
  progress_.masked_now = static_cast<int32_t>(candidates.size());
  const RngStream noise(options_.seed, kOrderNoise, num_blocks_ - 1, progress_.step);
  for (const Commit& commit : choose(options_.unmask, candidates, progress_, noise, drawn))
    write(commit, report);
  if (options_.verifies) report.committed.clear();  // the causal pass commits
  ++progress_.step;
  if (block_is_done()) finish_block();
}

bool SeededDiffusionDecoder::block_is_done() const {
  for (int32_t position = block_.begin; position < std::min(block_.end, length_); ++position) {
    if (is_masked(position)) return false;
    if (!options_.verifies && is_end(position)) return true;
  }
  return true;
}

bool SeededDiffusionDecoder::ends_before(int32_t end) {
  for (int32_t position = std::max(num_written_, prompt_length_); position < std::min(end, length_);
       ++position) {
    if (is_end(position)) end_at(position);
  }
  if (end >= length_) done_ = true;
  num_written_ = std::min(end, length_);
  return done_;
}

void SeededDiffusionDecoder::finish_block() {
  if (!options_.verifies && ends_before(block_.end)) return;
  num_read_ = block_.end;
}

void SeededDiffusionDecoder::apply_read(std::span<const RowStatistics> drawn, StepReport& report) {
  report.kind = block_.size() == 0 ? "prefill" : options_.verifies ? "verify" : "commit";
  const int32_t end = read_end();
  if (judges()) return verify(drawn, report);
  num_kept_ = end;
  if (end < num_read_) return;
  write({end, drawn[0].token, drawn[0].confidence}, report);
  start_block(end);
}

void SeededDiffusionDecoder::verify(std::span<const RowStatistics> drawn, StepReport& report) {
  size_t accepted = 0;
  bool agrees = true;
  while (agrees && accepted < drawn.size()) {
    const int32_t position = block_.begin + static_cast<int32_t>(accepted) + 1;
    const RowStatistics& judge = drawn[accepted++];
    agrees = position < block_.end && accepts(judge, tokens_[static_cast<size_t>(position)]);
    if (position < length_) write({position, judge.token, judge.confidence}, report);
  }
  const int32_t seed = block_.begin + static_cast<int32_t>(accepted);
  num_kept_ = num_read_ = seed;
  for (int32_t position = seed + 1; position < block_.end; ++position) {
    tokens_[static_cast<size_t>(position)] = options_.mask_id;
    is_masked_[static_cast<size_t>(position)] = true;
  }
  const int32_t length = length_;
  start_block(seed);
  if (length_ < length) {
    std::erase_if(report.committed, [&](const Commit& commit) { return commit.position >= length_; });
  }
}

void SeededDiffusionDecoder::start_block(int32_t begin) {
  block_ = {std::min(begin, length_ - 1), std::min(begin + 1, length_)};
  if (ends_before(block_.end)) return;
  block_.end = std::min(begin + options_.block_length, num_cells());
  ++num_blocks_;
  progress_ = {};
  progress_.num_steps = options_.steps;
  progress_.masked_at_start = progress_.masked_now = block_.size() - 1;
  if (block_is_done()) finish_block();
}

}  // namespace lacuna
