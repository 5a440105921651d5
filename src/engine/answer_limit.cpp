#include "engine/answer_limit.h"

#include <algorithm>
#include <utility>

#include "decode/make_decoder.h"
#include "decode/make_parts.h"
#include "options/choose.h"

namespace lacuna {
namespace {

/// Options for a limit that does not fit a canvas denoised as a whole: the default length.
LimitedOptions with_default_length(const ModelConfig& config, const GenerationOptions& options,
                                   const Strategy& strategy, int64_t prompt_length,
                                   const GuideContext* guide) {
  LimitedOptions limited{options, {}};
  const int32_t usual = default_gen_length(config, strategy, prompt_length, guide);
  limited.most = std::min(usual, *options.gen_length);
  limited.options.gen_length = AnswerLength();
  if (*limited.most < usual) limited.options.gen_length = *limited.most;
  return limited;
}

}  // namespace

std::vector<LimitedOptions> with_fitting_limit(const OpenedModel& opened, const GenerationOptions& options,
                                               bool has_guide, const Prompt& prompt,
                                               const std::vector<TokenId>& tokens, int64_t most,
                                               bool chose_blocks) {
  LimitedOptions as_asked{options, {}};
  if (!options.gen_length || *options.gen_length < 1) return {as_asked};
  const ModelConfig& config = opened.config();
  const Strategy strategy = choose_strategy(config, options, has_guide);
  const auto* masked = std::get_if<MaskedStrategy>(&strategy);
  std::optional<GuideContext> guide;
  if (has_guide && opened.guide() != nullptr)
    guide = opened.guide()->guide.context(tokens, std::get_if<Conversation>(&prompt));
  const int64_t prompt_length =
      static_cast<int64_t>(tokens.size()) + (begins_with_bos(config, tokens) ? 0 : 1);
  const int64_t room =
      std::min(most, room_for_answer(config, strategy, prompt_length, guide ? &*guide : nullptr));
  const bool is_canvas =
      (masked != nullptr && !masked->growth) || std::holds_alternative<UniformStrategy>(strategy);
  const int64_t wanted = *options.gen_length;
  const bool fits = wanted <= std::min<int64_t>(room, is_canvas ? kMaxGrownLength : kMaxGenLength);
  if (fits && is_canvas) {
    const int32_t block = masked != nullptr ? masked->block_length.value_or(1) : 1;
    const auto length = static_cast<int32_t>(wanted);
    if (!chose_blocks && block > 1 && block <= length) as_asked.options.gen_length = length / block * block;
    if (!chose_blocks && block > length) as_asked.options.block_length = length;
  }
  if (fits && (!is_canvas || wanted <= kMaxLimitCanvas)) return {as_asked};
  LimitedOptions limited{options, {}};
  if (!fits) {
    limited.most = static_cast<int32_t>(std::min<int64_t>(room, is_canvas ? kMaxGrownLength : kMaxGenLength));
    limited.options.gen_length = *limited.most;
  }
  if (!is_canvas) return {limited};
  LimitedOptions other = as_asked;
  if (!fits) {
    other = with_default_length(config, options, strategy, prompt_length, guide ? &*guide : nullptr);
    if (*other.most > room) {
      other.most = static_cast<int32_t>(room);
      other.options.gen_length = *other.most;
    }
  }
  if (masked == nullptr || guide) return {other};
  limited.options.gen_length.is_auto = true;
  try {
    choose_strategy(config, limited.options, false);
  } catch (const SettingError&) {  // such as `grow` none
    return {other};
  }
  return {limited, other};
}

}  // namespace lacuna
