// Keys of config.json that no family reads: harmless, or a reason to refuse the file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace lacuna {

/// Whether a key changes no computation in any family: who wrote the file, storage, training, outputs.
bool is_bookkeeping_key(std::string_view key);

/// Throws InputError for a key of `json` that was not read, that `harmless` and the list of keys which change
/// no computation in any family do not name, and that `ignored` does not name either. Such a key may belong
/// to a mechanism that the forward pass does not have: a model that has it would run and write nonsense.
///   json      tracks its reads since before the family's reader saw it
///   harmless  the family's own
///   ignored   keys that the user vouches for
void refuse_unknown_keys(const JsonObject& json, std::span<const std::string_view> harmless,
                         std::span<const std::string> ignored);

}  // namespace lacuna
