#include "decode/adjusted.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lacuna {

AdjustedDecoder::AdjustedDecoder(std::unique_ptr<Decoder> wrapped, LogitAdjustments adjustments,
                                 std::vector<TokenId> exempt)
    : DecoderWrapper(std::move(wrapped)), adjustments_(std::move(adjustments)), exempt_(std::move(exempt)) {
  if (adjustments_.repeat_penalty == 1) return;
  const auto prompt = inner().canvas().first(static_cast<size_t>(prompt_length()));
  of_prompt_.assign(prompt.begin(), prompt.end());
}

const StepPlan& AdjustedDecoder::plan() {
  if (!plan_) {
    plan_ = inner().plan();
    adjust(*plan_);
  }
  return *plan_;
}

std::optional<StepPlan> AdjustedDecoder::uncached_plan() const {
  std::optional<StepPlan> plan = inner().uncached_plan();
  if (plan) adjust(*plan);
  return plan;
}

StepReport AdjustedDecoder::apply(const PassResult& result) {
  StepReport report = inner().apply(result);
  plan_.reset();
  return report;
}

void AdjustedDecoder::adjust(StepPlan& plan) const {
  const std::vector<LogitAdjustment> adjusted = current();
  for (SamplingRule& rule : plan.rules) {
    rule.min_p = static_cast<float>(adjustments_.min_p);
    rule.adjusted = adjusted;
  }
}

std::vector<LogitAdjustment> AdjustedDecoder::current() const {
  std::map<TokenId, LogitAdjustment> adjusted;
  const auto of = [&](TokenId token) -> LogitAdjustment& {
    LogitAdjustment& own = adjusted[token];
    own.token = token;
    return own;
  };
  const auto is_exempt = [&](TokenId token) {
    return std::find(exempt_.begin(), exempt_.end(), token) != exempt_.end();
  };
  const auto factor = static_cast<float>(adjustments_.repeat_penalty);
  for (const TokenId token : of_prompt_) {
    if (!is_exempt(token)) of(token).factor = factor;
  }
  std::map<TokenId, int> counts;
  const auto length = static_cast<int32_t>(inner().canvas().size());
  for (int32_t position = prompt_length(); position < length; ++position) {
    const TokenId token = inner().held_token(position);
    if (token >= 0 && !is_exempt(token)) ++counts[token];
  }
  const bool penalizes =
      factor != 1 || adjustments_.presence_penalty != 0 || adjustments_.frequency_penalty != 0;
  for (const auto& [token, count] : counts) {
    if (!penalizes) break;
    LogitAdjustment& own = of(token);
    own.factor = factor;
    own.offset = -static_cast<float>(adjustments_.presence_penalty + adjustments_.frequency_penalty * count);
  }
  std::map<TokenId, double> biases;
  for (const auto& [token, bias] : adjustments_.biases) biases[token] = bias;
  for (const auto& [token, bias] : biases) of(token).offset += static_cast<float>(bias);
  std::vector<LogitAdjustment> list;
  for (const auto& [token, each] : adjusted) list.push_back(each);
  return list;
}

}  // namespace lacuna
