// Classifies keys of config.json that no reader asked for: harmless, a statement of what is computed anyway,
// or a reason to refuse the file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lacuna {

struct ModelConfig;

/// Whether a key changes no computation in any family, whatever its value: origin of the file, storage,
/// training, choice of kernels, outputs.
bool is_bookkeeping_key(std::string_view key);

/// Whether a key with this value switches no mechanism on: null, false, 0, "", [], {}. For a key with the
/// name of a scale, 1 counts instead of 0.
bool switches_nothing_on(std::string_view key, const nlohmann::json& value);

/// Throws InputError for an unread key of `object` that may belong to a mechanism missing from the forward
/// pass, whose output would then be wrong. These pass:
///   - harmless keys of the family, and of all families (is_bookkeeping_key());
///   - keys of known mechanisms (biases, activations, caps, scales, windows, sizes) with the value that is
///     computed; any other value is refused, even one that switches something off;
///   - keys in `ignored`;
///   - unknown keys whose value switches nothing on; these are returned, for a warning.
///   object    has tracked all reads, including the family reader's
///   config    the result of reading `object`
///   harmless  the family's harmless keys
///   ignored   keys that the user declared harmless
std::vector<std::string> check_unread_keys(const JsonObject& object, const ModelConfig& config,
                                           std::span<const std::string_view> harmless,
                                           std::span<const std::string> ignored);

}  // namespace lacuna
