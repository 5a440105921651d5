// Clients send a maximum number of answer tokens by habit. If the model or the server has room for fewer, the
// maximum is lowered to fit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/token.h"
#include "engine/opened_model.h"
#include "options/options.h"

namespace lacuna {

/// Longest canvas, denoised as a whole, that is made for a client's limit. Every pass computes the whole
/// canvas, and clients that send larger limits expect shorter answers.
inline constexpr int32_t kMaxLimitCanvas = 512;

struct LimitedOptions {
  GenerationOptions options;
  std::optional<int32_t> most;  ///< lowered limit in tokens; empty: as requested
};

/// Reads `options.gen_length` as a limit on the answer and fits it. A model that writes from left to right
/// gets the free positions. A canvas that is denoised as a whole has the limit's length up to
/// kMaxLimitCanvas. Above, it grows with the answer (`gen_length` auto), up to the smallest of the limit, the
/// free positions and kMaxGrownLength. If it cannot grow, it has the limit's length, or the default one if
/// the limit does not fit. The canvas is shortened to a multiple of the block length.
///   prompt, tokens  the prompt and its tokens
///   most            answer positions that the caller allows, at least 1
///   chose_blocks    whether the request set the block length, which then stays
/// Returns one or two candidates, the preferred one first: use the second if make_decoder() throws
/// SettingError for the first. Throws SettingError if the prompt leaves no room or a setting is invalid.
std::vector<LimitedOptions> with_fitting_limit(const OpenedModel& opened, const GenerationOptions& options,
                                               bool has_guide, const Prompt& prompt,
                                               const std::vector<TokenId>& tokens, int64_t most,
                                               bool chose_blocks);

}  // namespace lacuna
