// Models that read from left to right: autoregressive ones and ReFusion.
#include <algorithm>
#include <utility>

#include "decode/make_parts.h"
#include "decode/refusion.h"
#include "decode/strided_decoding.h"
#include "decode/window_decoding.h"

namespace lacuna {

void check(const CausalStrategy& strategy, const ModelConfig& config, const Asked* asked,
           Problems& problems) {
  if (asked != nullptr)
    check_not_empty(asked->request.prompt, "an autoregressive model needs at least one token", problems);
  check_sampling(strategy.sampling, config, false, problems);
  problems.refuse(strategy.block_length && config.mask_drafts == 0, "block_length",
                  "an autoregressive model writes one token after the other");
  problems.refuse(strategy.token_threshold && !config.drafts_see_each_other, "token_threshold",
                  "the model does not write its drafts by their probability");
  problems.refuse(asked != nullptr && asked->request.context.constraint != nullptr &&
                      config.drafts_see_each_other && strategy.block_length != 1,
                  "constraint",
                  "a window of masks writes several tokens of one pass (`block_length` 1 writes one)");
}

namespace {

/// Settings that all of these decoders have.
template <typename Settings>
Settings left_to_right(const CausalStrategy& strategy, const ModelConfig& config, Asked& asked) {
  Settings settings;
  settings.end_ids = config.end_ids;
  settings.gen_length = asked.gen_length;
  settings.ignore_end = strategy.ignore_eos;
  settings.sampling = sampling_rule(strategy.sampling);
  settings.seed = asked.request.seed;
  settings.find_stop = std::move(asked.request.context.find_stop);
  return settings;
}

std::unique_ptr<Decoder> make_strided(const CausalStrategy& strategy, const ModelConfig& config,
                                      int32_t num_drafts, Asked asked) {
  auto settings = left_to_right<StridedDecoding>(strategy, config, asked);
  settings.mask_id = config.mask_id;
  settings.num_drafts = num_drafts;
  return std::make_unique<StridedDecoder>(std::move(settings), std::move(asked.request.prompt));
}

std::unique_ptr<Decoder> make_windows(const CausalStrategy& strategy, const ModelConfig& config,
                                      int32_t num_masks, Asked asked) {
  auto settings = left_to_right<WindowDecoding>(strategy, config, asked);
  settings.sampling.source = ConfidenceSource::kSampled;
  settings.mask_id = config.mask_id;
  settings.max_positions = static_cast<int32_t>(std::min<int64_t>(config.max_positions, kMaxGenLength));
  settings.num_masks = num_masks;
  settings.threshold = strategy.token_threshold.value_or(settings.threshold);
  return std::make_unique<WindowDecoder>(std::move(settings), std::move(asked.request.prompt));
}

}  // namespace

std::unique_ptr<Decoder> make(const CausalStrategy& strategy, const ModelConfig& config, Asked asked) {
  const auto trained = static_cast<int32_t>(std::min<int64_t>(config.mask_drafts + 1, kMaxGenLength));
  const int32_t num_drafts = strategy.block_length.value_or(trained) - 1;
  if (num_drafts > 0 && config.drafts_see_each_other)
    return make_windows(strategy, config, num_drafts, std::move(asked));
  return make_strided(strategy, config, std::max(num_drafts, 0), std::move(asked));
}

void check(const SlotStrategy& strategy, const ModelConfig& config, const Asked* asked, Problems& problems) {
  if (asked != nullptr) check_whole_prompt(config, asked->request.prompt, "ReFusion", problems);
  check_sampling(strategy.sampling, config, false, problems);
  problems.refuse(strategy.recomputes_apart && !strategy.recomputes_kv, "kv", "nothing is recomputed");
  if (strategy.rules == RefusionRules::kLacuna) {
    problems.refuse(strategy.suppress_mask, "suppress_mask", "`refusion` lacuna never draws the mask token");
    problems.refuse(strategy.verifies_fills && strategy.recomputes_kv, "kv",
                    "`fill` verified leaves exact K/V");
    return;
  }
  constexpr std::string_view kReason = "it belongs to `refusion` lacuna";
  problems.refuse(!strategy.verifies_fills, "fill", kReason);
  problems.refuse(strategy.accepts_exactly, "accept", kReason);
  problems.refuse(strategy.revoke > 0, "revoke", kReason);
}

std::unique_ptr<Decoder> make(const SlotStrategy& strategy, const ModelConfig& config, Asked asked) {
  Refusion settings;
  static_cast<SlotPolicy&>(settings) = strategy;
  settings.advances_together = strategy.rules == RefusionRules::kReleased;
  settings.mask_id = config.mask_id;
  settings.end_ids = config.end_ids;
  settings.gen_length = asked.gen_length;
  settings.seed = asked.request.seed;
  settings.sampling = sampling_rule(strategy.sampling);
  if (strategy.rules == RefusionRules::kLacuna || strategy.suppress_mask) {
    settings.sampling.undrawn.push_back(config.mask_id);
  }
  settings.find_stop = std::move(asked.request.context.find_stop);
  return std::make_unique<RefusionDecoder>(std::move(settings), std::move(asked.request.prompt));
}

}  // namespace lacuna
