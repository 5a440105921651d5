// The most tokens that an answer may have, as clients send it by habit: where the model, or the server, has
// room for fewer, the limit becomes what there is room for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/token.h"
#include "engine/opened_model.h"
#include "options/options.h"

namespace lacuna {

/// A canvas that is denoised as a whole is made this long at most because of a limit. Every pass computes all
/// of it, and programs that send more expect answers that are shorter.
inline constexpr int32_t kMaxLimitCanvas = 512;

struct LimitedOptions {
  GenerationOptions options;
  std::optional<int32_t> most;  ///< what the limit became, tokens; none: it is as it was asked for
};

/// Options whose `gen_length` is the most tokens that the answer may have, with a limit that fits. A model
/// that writes from left to right gets the room that there is. A canvas that is denoised as a whole is as
/// long as its limit up to kMaxLimitCanvas; above, it grows with the answer (`gen_length` auto) to at most
/// the limit, the room and kMaxGrownLength. Where it cannot grow it has the limit's length, or the default
/// one where that does not fit. A block length that does not divide the canvas shortens it.
///   prompt, tokens  what is answered, and its tokens
///   most            positions of the answer that the caller has room for, at least 1
///   chose_blocks    whether the block length is the request's own, which is not worked around
/// Returns one or two, the preferred one first: the second is for a request that the first refuses
/// (SettingError of make_decoder). Throws SettingError where the prompt leaves no room, or a setting is
/// invalid.
std::vector<LimitedOptions> with_fitting_limit(const OpenedModel& opened, const GenerationOptions& options,
                                               bool has_guide, const Prompt& prompt,
                                               const std::vector<TokenId>& tokens, int64_t most,
                                               bool chose_blocks);

}  // namespace lacuna
