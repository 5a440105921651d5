#include "decode/masked_diffusion.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

// What a step draws numbers for, so that draws and choices never share one.
constexpr uint64_t kTokenNoise = 1;
constexpr uint64_t kOrderNoise = 2;

}  // namespace

MaskedDiffusionDecoder::MaskedDiffusionDecoder(MaskedDiffusion options, std::vector<TokenId> prompt)
    : options_(std::move(options)),
      canvas_(std::move(prompt)),
      prompt_length_(static_cast<int32_t>(canvas_.size())) {
  canvas_.resize(canvas_.size() + static_cast<size_t>(options_.gen_length), options_.mask_id);
  for (const TokenId token : canvas_) given_.push_back(token != options_.mask_id);
  start_block();
  plan_next_step();
}

int32_t MaskedDiffusionDecoder::count_masked(int32_t begin, int32_t end) const {
  return static_cast<int32_t>(std::count(canvas_.begin() + begin, canvas_.begin() + end, options_.mask_id));
}

int32_t MaskedDiffusionDecoder::answer_end() const {
  const auto end = std::find_first_of(canvas_.begin() + prompt_length_, canvas_.end(),
                                      options_.end_ids.begin(), options_.end_ids.end());
  return static_cast<int32_t>(end - canvas_.begin());
}

bool MaskedDiffusionDecoder::answer_is_final() const {
  // A drawn mask token leaves its position masked, and later blocks may still fill it.
  const int32_t end = answer_end();
  return end < num_cells() && count_masked(prompt_length_, end) == 0;
}

StopReason MaskedDiffusionDecoder::stop_reason() const {
  return answer_end() < num_cells() ? StopReason::kEndToken : StopReason::kLength;
}

void MaskedDiffusionDecoder::start_block() {
  progress_ = {};
  progress_.num_steps = options_.steps / num_blocks();
  progress_.masked_at_start = count_masked(block_begin(), block_end());
}

void MaskedDiffusionDecoder::finish_block() {
  const bool leaves_the_rest = options_.early_exit && answer_is_final();
  finished_steps_ += options_.unmask.runs_until_done() ? progress_.step : progress_.num_steps;
  ++block_;
  if (leaves_the_rest || block_ == num_blocks()) {
    done_ = true;
  } else {
    start_block();
  }
}

std::vector<int32_t> MaskedDiffusionDecoder::candidate_positions() const {
  // Quotas may also fill what earlier blocks or the prompt left masked, as the published samplers do;
  // parallel rules keep to the block.
  const int32_t begin = options_.unmask.runs_until_done() && block_ > 0 ? block_begin() : 0;
  std::vector<int32_t> positions;
  for (int32_t position = begin; position < block_end(); ++position) {
    if (is_masked(position)) positions.push_back(position);
  }
  return positions;
}

RngStream MaskedDiffusionDecoder::step_noise(uint64_t purpose) const {
  return RngStream(options_.seed, purpose, block_, progress_.step);
}

void MaskedDiffusionDecoder::plan_next_step() {
  for (; !done_; finish_block()) {
    for (; options_.unmask.runs_until_done() || progress_.step < progress_.num_steps; ++progress_.step) {
      drawn_positions_ = candidate_positions();
      progress_.masked_now = static_cast<int32_t>(drawn_positions_.size());
      if (drawn_positions_.empty()) break;
      if (options_.unmask.chooses_blindly()) {
        std::vector<Commit> blind;
        for (const int32_t position : drawn_positions_) blind.push_back({position, 0, 0});
        drawn_positions_.clear();
        for (const Commit& chosen : choose(options_.unmask, blind, progress_, step_noise(kOrderNoise))) {
          drawn_positions_.push_back(chosen.position);
        }
      } else if (!options_.unmask.runs_until_done() && fixed_count(options_.unmask.count, progress_) == 0) {
        continue;
      }
      if (!drawn_positions_.empty()) return build_plan(drawn_positions_);
    }
  }
}

void MaskedDiffusionDecoder::build_plan(std::span<const int32_t> drawn_positions) {
  plan_.clear();
  plan_.rules.push_back(options_.sampling);
  const int32_t length = num_cells();
  for (int32_t sequence = 0; sequence < num_sequences(); ++sequence) {
    const bool unconditional = sequence == 1;
    const int32_t first_row = plan_.num_rows();
    for (int32_t position = 0; position < length; ++position) {
      const auto index = static_cast<size_t>(position);
      plan_.add_row(unconditional && given_[index] ? options_.mask_id : canvas_[index], position, position);
    }
    plan_.groups.push_back({sequence, {first_row, plan_.num_rows()}, {}, OwnRows::kBidirectional});
  }
  for (const int32_t position : drawn_positions) {
    LogitRow logit;
    logit.row = options_.shifted_logits ? std::max(position - 1, 0) : position;
    if (options_.cfg_scale > 0) {
      logit.unconditional_row = length + logit.row;
      logit.guidance = options_.cfg_scale;
    }
    logit.noise = RngStream(options_.seed, kTokenNoise, block_, progress_.step, position);
    plan_.logits.push_back(logit);
  }
}

StepReport MaskedDiffusionDecoder::apply(std::span<const RowStatistics> drawn) {
  expects(!done_ && drawn.size() == drawn_positions_.size(), "apply: one draw for each position planned");
  std::vector<Commit> candidates;
  for (size_t i = 0; i < drawn.size(); ++i) {
    candidates.push_back({drawn_positions_[i], drawn[i].token, drawn[i].confidence});
  }
  StepReport report;
  report.step = finished_steps_ + progress_.step;
  report.block = block_;
  report.kind = "denoise";
  report.committed = options_.unmask.chooses_blindly()
                         ? std::move(candidates)
                         : choose(options_.unmask, candidates, progress_, step_noise(kOrderNoise));
  for (const Commit& commit : report.committed) canvas_[static_cast<size_t>(commit.position)] = commit.token;

  ++progress_.step;
  plan_next_step();
  return report;
}

}  // namespace lacuna
