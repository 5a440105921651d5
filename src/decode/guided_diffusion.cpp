#include "decode/guided_diffusion.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/overloaded.h"
#include "decode/unmask.h"

namespace lacuna {

bool matches(const GuideMatch& match, const RowStatistics& judged, float draft_best) {
  return std::visit(
      Overloaded{[&](const MatchTopK& rule) { return judged.scored_rank < rule.k; },
                 [&](const MatchRelative& rule) {
                   const double ratio = std::exp(double{judged.scored_logit} - judged.best_logit);
                   return judged.scored_rank < 2 && ratio >= rule.ratio;
                 },
                 [&](const MatchTauLiteral& rule) { return draft_best > rule.tau * judged.best_logit; }},
      match);
}

GuidedDiffusionDecoder::GuidedDiffusionDecoder(GuidedDiffusion options, std::vector<TokenId> prompt)
    : options_(std::move(options)),
      canvas_(std::move(prompt), options_.gen_length, options_.mask_id, options_.shifted_logits),
      pass_(options_.pass, canvas_) {
  const int64_t answer_cells = int64_t{options_.alignment->most_guide_tokens()} * options_.gen_length;
  const int64_t wanted = static_cast<int64_t>(options_.guide_prompt.size()) + answer_cells;
  num_guide_cells_ = static_cast<int32_t>(std::min(wanted, options_.guide_positions));
  start_round();
}

StopReason GuidedDiffusionDecoder::stop_reason() const {
  return canvas_.answer_end(options_.end_ids) < canvas_.length() ? StopReason::kEndToken
                                                                 : StopReason::kLength;
}

std::span<const TokenId> GuidedDiffusionDecoder::answer() const {
  return canvas_.tokens().subspan(static_cast<size_t>(canvas_.prompt_length()));
}

void GuidedDiffusionDecoder::start_round() {
  role_ = ModelRole::kMain;
  is_planned_ = false;
  const bool ended = options_.eos_exit && canvas_.answer_is_final(options_.end_ids);
  if (num_committed_ == options_.gen_length || ended) {
    done_ = true;
    return;
  }
  const int32_t index = num_committed_ / options_.block_length;
  if (index != block_.index || round_ == 0) {
    const int32_t begin = canvas_.prompt_length() + index * options_.block_length;
    block_ = {index, begin, begin + options_.block_length, 0};
  }
  drawn_positions_ = canvas_.masked_positions(block_.begin, block_.end);
}

const StepPlan& GuidedDiffusionDecoder::plan() {
  expects(!done_, "plan: the request is not done");
  if (!is_planned_) {
    if (role_ == ModelRole::kMain) {
      pass_.prepare(canvas_, block_, drawn_positions_, [&](int32_t position) {
        return RngStream(options_.seed, kTokenNoise, block_.index, round_, position);
      });
    } else {
      plan_guide();
    }
    is_planned_ = true;
  }
  return role_ == ModelRole::kMain ? pass_.plan() : guide_plan_;
}

PassWork GuidedDiffusionDecoder::uncached_work() const {
  if (role_ == ModelRole::kMain) return pass_.uncached_work(canvas_);
  // The guide without K/V reads its sequence from the start.
  const int64_t count = guide_plan_.positions.back() + 1;
  const auto rows = static_cast<double>(count);
  return {.rows = count,
          .pairs = rows * (rows + 1) / 2,
          .cells = rows,
          .logit_rows = static_cast<double>(guide_plan_.logits.size())};
}

StepReport GuidedDiffusionDecoder::apply(const PassResult& result) {
  const std::span<const RowStatistics> drawn = result.samples;
  expects(is_planned_ && drawn.size() == plan().logits.size(), "apply: one draw for each that was planned");
  applied_role_ = role_;
  is_planned_ = false;
  StepReport report;
  report.step = round_;
  report.block = block_.index;
  report.kind = role_ == ModelRole::kMain ? "draft" : "verify";
  if (role_ == ModelRole::kMain) {
    take_drafts(drawn);
    if (num_accepted_ >= num_readable()) finish_round(report);
  } else if (judge(drawn)) {
    finish_round(report);
  }
  return report;
}

void GuidedDiffusionDecoder::take_drafts(std::span<const RowStatistics> drawn) {
  drafts_.clear();
  std::vector<TokenId> text(answer().begin(), answer().begin() + num_committed_);
  for (size_t i = 0; i < drawn_positions_.size(); ++i) {
    drafts_.push_back({{drawn_positions_[i], drawn[i].token, drawn[i].confidence}, drawn[i].best_logit});
    text.push_back(drawn[i].token);
  }
  pass_.count_rows(canvas_);
  pass_.close_gate(canvas_, drawn);
  ++block_.pass;

  reading_ = options_.alignment->read(text);
  const int32_t committed_end =
      num_committed_ == 0 ? 0 : reading_.answer_ends[static_cast<size_t>(num_committed_) - 1];
  num_accepted_ = 0;
  while (num_accepted_ < reading_.tokens.size() && reading_.guide_ends[num_accepted_] <= committed_end) {
    ++num_accepted_;
  }
  guide_choice_.reset();
  role_ = ModelRole::kGuide;
}

size_t GuidedDiffusionDecoder::drafts_covered(size_t num_read) const {
  // Tokens that end at the same byte are accepted or rejected together.
  const std::vector<int32_t>& ends = reading_.guide_ends;
  while (num_read > 0 && num_read < ends.size() && ends[num_read] == ends[num_read - 1]) --num_read;
  if (num_read == 0) return 0;
  const int32_t end = ends[num_read - 1];
  size_t covered = 0;
  while (covered < drafts_.size() &&
         reading_.answer_ends[static_cast<size_t>(num_committed_) + covered] <= end) {
    ++covered;
  }
  return covered;
}

size_t GuidedDiffusionDecoder::num_readable() const {
  const size_t room = static_cast<size_t>(num_guide_cells_) - options_.guide_prompt.size();
  return std::min(reading_.tokens.size(), room);
}

void GuidedDiffusionDecoder::plan_guide() {
  const std::vector<TokenId>& prompt = options_.guide_prompt;
  std::vector<TokenId> sequence = prompt;
  sequence.insert(sequence.end(), reading_.tokens.begin(), reading_.tokens.end());
  pass_end_ = std::min(num_accepted_ + static_cast<size_t>(options_.guide_block), num_readable());

  // The row before each judged token scores it; rows whose inputs are those of kept cells need not run again.
  const size_t first_scoring = prompt.size() + num_accepted_ - 1;
  const auto same = std::mismatch(kept_.begin(), kept_.end(), sequence.begin(), sequence.end());
  const size_t begin = std::min(static_cast<size_t>(same.first - kept_.begin()), first_scoring);
  const size_t end = prompt.size() + pass_end_ - 1;

  guide_plan_.clear();
  guide_plan_.rules.emplace_back();
  guide_plan_.add_group(sequence, static_cast<int32_t>(begin), static_cast<int32_t>(end), OwnRows::kCausal);
  for (size_t token = num_accepted_; token < pass_end_; ++token)
    guide_plan_.logits.push_back(
        {.row = static_cast<int32_t>(prompt.size() + token - 1 - begin), .scored = reading_.tokens[token]});
  kept_.assign(sequence.begin(), sequence.begin() + static_cast<std::ptrdiff_t>(end));
}

bool GuidedDiffusionDecoder::judge(std::span<const RowStatistics> drawn) {
  for (const RowStatistics& judged : drawn) {
    // The draft in which the guide's token begins.
    const size_t draft = std::min(drafts_covered(num_accepted_), drafts_.size() - 1);
    if (!matches(options_.match, judged, drafts_[draft].best_logit)) {
      guide_choice_ = judged.token;
      return true;
    }
    ++num_accepted_;
  }
  return num_accepted_ == num_readable();
}

void GuidedDiffusionDecoder::finish_round(StepReport& report) {
  const size_t num_standing = drafts_covered(num_accepted_);
  std::vector<TokenId> text(answer().begin(), answer().begin() + num_committed_);
  const auto commit = [&](const Commit& next) {
    report.committed.push_back(next);
    canvas_.commit(next);
    text.push_back(next.token);
  };
  for (size_t i = 0; i < num_standing; ++i) commit(drafts_[i].commit);
  std::optional<TokenId> own;
  if (options_.fallback == GuideFallback::kGuide && guide_choice_) {
    own = options_.alignment->write(text, reading_, num_accepted_, *guide_choice_);
  }
  const auto may_write = [&](TokenId token) {
    return token != options_.mask_id && (!allows_ || allows_(drafts_[num_standing].commit.position, token));
  };
  if (own && may_write(*own)) {
    commit({drafts_[num_standing].commit.position, *own, 0});
  } else if (report.committed.empty()) {
    commit(drafts_.front().commit);
  }
  num_committed_ += static_cast<int32_t>(report.committed.size());
  ++round_;
  start_round();
}

FollowUp GuidedDiffusionDecoder::follow_up() const {
  if (applied_role_ == ModelRole::kGuide) return {};
  return {.probes = pass_.drift_probes()};
}

void GuidedDiffusionDecoder::apply_follow_up(const FollowUpResult& result, StepReport& report) {
  if (applied_role_ == ModelRole::kMain) pass_.apply_drift(canvas_, result.drifts, report);
}

}  // namespace lacuna
