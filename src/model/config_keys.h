// Keys of config.json that no reader asked for: harmless, a word for what is computed anyway, or a reason to
// refuse the file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lacuna {

struct ModelConfig;

/// Whether a key changes no computation in any family, whatever its value: who wrote the file, storage,
/// training, which kernels run, outputs.
bool is_bookkeeping_key(std::string_view key);

/// Whether a key with this value can switch no mechanism on: false, 0, "", [], {}, and 1 for a key whose name
/// says that it is a scale, for which 0 is refused instead.
bool switches_nothing_on(std::string_view key, const nlohmann::json& value);

/// Throws InputError for a key of `object` that was not read and that may belong to a mechanism which the
/// forward pass does not have: a model that has it would run and write nonsense. These pass:
///   - the family's own harmless keys, and those that no family minds (is_bookkeeping_key());
///   - keys of known mechanisms (biases, activations, caps, scales, windows, sizes) with the value that is
///     computed; any other is refused by name and value, even one that switches something off;
///   - keys that the user vouches for;
///   - keys that nobody knows whose value switches nothing on, which are returned, for a warning.
///   object    tracks its reads since before the family's reader saw it
///   config    as it was read
///   harmless  the family's own
///   ignored   keys that the user vouches for
std::vector<std::string> check_unread_keys(const JsonObject& object, const ModelConfig& config,
                                           std::span<const std::string_view> harmless,
                                           std::span<const std::string> ignored);

}  // namespace lacuna
