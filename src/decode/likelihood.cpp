#include "decode/likelihood.h"

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace lacuna {
namespace {

// Noise streams by purpose.
enum Purpose : uint8_t { kOffset, kOrder };

}  // namespace

CausalLikelihood::CausalLikelihood(std::vector<TokenId> tokens, int32_t most_rows)
    : LikelihoodDecoder(std::move(tokens)), most_rows_(most_rows) {
  expects(!tokens_.empty() && most_rows_ > 0, "a text has a token, and a pass a row");
}

const StepPlan& CausalLikelihood::plan() {
  plan_.clear();
  plan_.rules.emplace_back();
  plan_.add_group(tokens_, num_read_, pass_end(), OwnRows::kCausal);
  for (int32_t row = 0; row < plan_.num_rows(); ++row)
    plan_.logits.push_back({.row = row, .scored = tokens_[static_cast<size_t>(num_read_ + row) + 1]});
  return plan_;
}

StepReport CausalLikelihood::apply(const PassResult& result) {
  const std::span<const RowStatistics> drawn = result.samples;
  expects(!done() && static_cast<int32_t>(drawn.size()) == pass_end() - num_read_,
          "apply: one draw for each token that is scored");
  for (const RowStatistics& row : drawn) {
    scores_[static_cast<size_t>(++num_read_)] = {std::log(row.scored_probability),
                                                 {{row.token, std::log(row.confidence)}}};
  }
  StepReport report;
  report.step = num_passes_++;
  report.kind = "prefill";
  return report;
}

MaskedLikelihood::MaskedLikelihood(Options options, std::vector<TokenId> tokens)
    : LikelihoodDecoder(std::move(tokens)), options_(options) {
  expects(options_.given >= 1 && num_scored() >= 1, "a token is given, and another one scored");
}

std::vector<int32_t> MaskedLikelihood::masked() const {
  const int32_t count = num_scored();
  std::vector<int32_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), options_.given);
  if (options_.draws == 0) {
    positions.erase(positions.begin(), positions.begin() + num_passes_);
    return positions;
  }
  const double offset = RngStream(options_.seed, kOffset).uniform(0);
  const double evenly = offset + static_cast<double>(num_passes_) / options_.draws;
  const auto masks = std::min(count, 1 + static_cast<int32_t>((evenly - std::floor(evenly)) * count));
  const RngStream keys(options_.seed, kOrder, num_passes_);
  const auto key = [&](int32_t position) { return keys.bits(static_cast<uint64_t>(position)); };
  std::sort(positions.begin(), positions.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
  positions.resize(static_cast<size_t>(masks));
  std::sort(positions.begin(), positions.end());
  return positions;
}

const StepPlan& MaskedLikelihood::plan() {
  masked_ = masked();
  plan_.clear();
  plan_.rules.emplace_back().undrawn = {options_.mask_id};
  plan_.add_group(tokens_, 0, length());
  for (const int32_t position : masked_) plan_.tokens[static_cast<size_t>(position)] = options_.mask_id;
  const auto scored = std::span(masked_).first(options_.draws > 0 ? masked_.size() : 1);
  for (const int32_t position : scored)
    plan_.logits.push_back({.row = position - (options_.shifted_logits ? 1 : 0),
                            .scored = tokens_[static_cast<size_t>(position)]});
  return plan_;
}

StepReport MaskedLikelihood::apply(const PassResult& result) {
  const std::span<const RowStatistics> drawn = result.samples;
  expects(!done() && drawn.size() == plan_.logits.size(), "apply: one draw for each token that is scored");
  for (size_t i = 0; i < drawn.size(); ++i) {
    TokenScore& score = scores_[static_cast<size_t>(masked_[i])];
    const double logprob = std::log(drawn[i].scored_probability);
    if (options_.draws == 0) {
      score = {logprob, {{drawn[i].token, std::log(drawn[i].confidence)}}};
    } else {
      const double weight = num_scored() / (static_cast<double>(masked_.size()) * options_.draws);
      score.logprob = score.logprob.value_or(0) + weight * logprob;
    }
  }
  StepReport report;
  report.step = num_passes_++;
  report.kind = "prefill";
  if (done() && options_.draws > 0) {  // a token that no draw masked adds 0
    for (size_t i = static_cast<size_t>(options_.given); i < scores_.size(); ++i) {
      scores_[i].logprob = scores_[i].logprob.value_or(0);
    }
  }
  return report;
}

}  // namespace lacuna
