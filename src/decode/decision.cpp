#include "decode/decision.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "decode/canvas_diffusion.h"

namespace lacuna {
namespace {

// Maximum rows of several branches or a part of a prefix in a pass; more would only take more memory.
constexpr int32_t kDecisionRows = 1024;

int32_t length_of(const DecisionBranch& branch) {
  return static_cast<int32_t>(branch.tokens.size());
}

}  // namespace

DecisionDecoder::DecisionDecoder(const ModelConfig& config, std::vector<DecisionCanvas> canvases)
    : paradigm_(config.paradigm()),
      block_length_(paradigm_ == Paradigm::kBlocks ? static_cast<int32_t>(config.block_length) : 0),
      row_before_(config.causal || config.shifted_logits),
      noise_level_(config.knows_noise_levels() ? noise_level(AncestralSteps().signal(0)) : 0),
      canvases_(std::move(canvases)),
      num_cells_(most_cells()) {
  expects(!canvases_.empty(), "a decision has a canvas");
  size_t num_slots = 0;
  for (const DecisionCanvas& canvas : canvases_) {
    expects(!canvas.branches.empty(), "a canvas has a branch");
    for (const DecisionBranch& branch : canvas.branches) num_slots += branch.slots.size();
  }
  readings_.resize(num_slots);
  show();
}

int32_t DecisionDecoder::first_cell(int64_t end) const {
  if (paradigm_ == Paradigm::kCanvases)
    return static_cast<int32_t>(end);  // a cell has the index of its position
  return static_cast<int32_t>((end + kCellTile - 1) / kCellTile * kCellTile);
}

int32_t DecisionDecoder::most_cells() const {
  int64_t most = 0;
  for (const DecisionCanvas& canvas : canvases_) {
    const int32_t begin = first_cell(static_cast<int64_t>(canvas.prefix.size()));
    // For each `last` branch, the branches [first, last] that one pass may take together.
    int64_t rows = 0, cells = 0;
    size_t first = 0;
    for (size_t last = 0; last < canvas.branches.size(); ++last) {
      rows += length_of(canvas.branches[last]);
      cells += first_cell(length_of(canvas.branches[last]));
      const auto is_too_much = [&] { return paradigm_ == Paradigm::kCanvases || rows > kDecisionRows; };
      for (; first < last && is_too_much(); ++first) {
        rows -= length_of(canvas.branches[first]);
        cells -= first_cell(length_of(canvas.branches[first]));
      }
      most = std::max(most, begin + cells);
    }
  }
  return static_cast<int32_t>(most);
}

const DecisionCanvas& DecisionDecoder::current() const {
  return canvases_[std::min(canvas_, canvases_.size() - 1)];
}

void DecisionDecoder::show() {
  const DecisionBranch& first = current().branches.front();
  shown_ = current().prefix;
  shown_.insert(shown_.end(), first.tokens.begin(), first.tokens.end());
}

IndexRange DecisionDecoder::block() const {
  return {prefix_length(), static_cast<int32_t>(shown_.size())};
}

ExactPrefix DecisionDecoder::exact_prefix() const {
  const bool is_causal = paradigm_ == Paradigm::kCausal || paradigm_ == Paradigm::kSlots;
  if (canvases_.size() > 1 || (!is_causal && block_length_ == 0)) return {};
  return {is_causal ? 1 : block_length_, prefix_length(), prefix_length(), num_kept_};
}

int32_t DecisionDecoder::kept_end(int32_t begin) const {
  if (paradigm_ == Paradigm::kUniform) return prefix_length();  // its rows attend to the whole prefix
  const int32_t block = std::max(1, block_length_);
  const int32_t most = std::max(1, kDecisionRows / block) * block;
  return std::min(prefix_length(), begin + most);
}

const StepPlan& DecisionDecoder::plan() {
  if (is_planned_) return plan_;
  is_planned_ = true;
  plan_.clear();
  planned_branches_ = next_branch_;
  const int32_t end = kept_end(num_kept_);
  add_prefix(num_kept_, end);
  if (end == prefix_length()) add_branches();
  return plan_;
}

void DecisionDecoder::add_prefix(int32_t begin, int32_t end) {
  const bool is_bidirectional = paradigm_ == Paradigm::kUniform || block_length_ > 0;
  const int32_t step = block_length_ > 0 ? block_length_ : end - begin;
  for (; begin < end; begin += step) {
    plan_
        .add_group(current().prefix, begin, std::min(end, begin + step),
                   is_bidirectional ? OwnRows::kBidirectional : OwnRows::kCausal)
        .only_kv = true;
  }
}

void DecisionDecoder::add_branches() {
  const std::vector<DecisionBranch>& branches = current().branches;
  int32_t cell = first_cell(prefix_length());
  while (planned_branches_ < branches.size()) {
    const DecisionBranch& branch = branches[planned_branches_];
    const int32_t rows = plan_.num_rows() + length_of(branch);
    if (plan_.num_rows() > 0 && rows > kDecisionRows) return;
    add_branch(branch, cell);
    cell = first_cell(cell + length_of(branch));
    ++planned_branches_;
    if (paradigm_ == Paradigm::kCanvases) return;
  }
}

void DecisionDecoder::add_branch(const DecisionBranch& branch, int32_t begin_cell) {
  const bool is_causal = paradigm_ == Paradigm::kCausal || paradigm_ == Paradigm::kSlots;
  const int32_t begin = prefix_length();
  const int32_t end = begin + length_of(branch);
  const int32_t first_row = plan_.num_rows();
  const int32_t step = block_length_ > 0 ? block_length_ : end - begin;
  for (int32_t group_begin = begin; group_begin < end; group_begin += step) {
    const int32_t first = plan_.num_rows();
    for (int32_t position = group_begin; position < std::min(end, group_begin + step); ++position) {
      const int32_t offset = position - begin;
      plan_.add_row(branch.tokens[static_cast<size_t>(offset)], position, begin_cell + offset);
    }
    add_group({first, plan_.num_rows()}, begin_cell, is_causal ? OwnRows::kCausal : OwnRows::kBidirectional);
  }
  for (const DecisionSlot& slot : branch.slots) {
    const int32_t predictor = slot.position - (row_before_ ? 1 : 0);
    expects(predictor >= begin && predictor < end, "a slot is predicted by a row of its branch");
    add_slot(slot, first_row + predictor - begin);
  }
}

void DecisionDecoder::add_group(IndexRange rows, int32_t begin_cell, OwnRows own_rows) {
  RowGroup group{0, rows, {}, own_rows};
  const int32_t cell = plan_.cells[static_cast<size_t>(rows.begin)];
  if (prefix_length() > 0) group.visible.push_back({0, prefix_length()});
  if (cell > begin_cell) group.visible.push_back({begin_cell, cell});
  if (paradigm_ == Paradigm::kCanvases) group.canvas = CanvasRows::kFresh;
  group.noise_level = noise_level_;
  plan_.groups.push_back(std::move(group));
}

void DecisionDecoder::add_slot(const DecisionSlot& slot, int32_t row) {
  const auto is_same = [&](const SamplingRule& rule) { return rule.listed == slot.labels; };
  auto rule = std::find_if(plan_.rules.begin(), plan_.rules.end(), is_same);
  if (rule == plan_.rules.end()) {
    plan_.rules.emplace_back().listed = slot.labels;
    rule = plan_.rules.end() - 1;
  }
  plan_.logits.push_back({.row = row, .rule = static_cast<int32_t>(rule - plan_.rules.begin())});
}

StepReport DecisionDecoder::apply(const PassResult& result) {
  expects(is_planned_ && result.samples.size() == plan_.logits.size(),
          "apply: one draw for each that was planned");
  is_planned_ = false;
  for (const RowStatistics& sample : result.samples)
    readings_[next_reading_++].logprobs = sample.listed_logprobs;
  StepReport report;
  report.step = num_passes_++;
  report.block = static_cast<int32_t>(canvas_);
  report.kind = planned_branches_ > next_branch_ ? "decide" : "prefill";
  num_kept_ = kept_end(num_kept_);
  next_branch_ = planned_branches_;
  if (num_kept_ < prefix_length() || next_branch_ < current().branches.size()) return report;
  ++canvas_;
  if (done()) return report;
  num_kept_ = 0;
  next_branch_ = 0;
  show();
  return report;
}

}  // namespace lacuna
