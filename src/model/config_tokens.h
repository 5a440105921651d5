// The token ids of a checkpoint, from all files that name them.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/json.h"
#include "base/token.h"
#include "model/config.h"
#include "model/family.h"
#include "model/token_files.h"

namespace lacuna {

/// The sources of token ids, in the order of set_token_ids().
struct TokenSources {
  const JsonObject& config;      ///< config.json; the family's reader has taken its ids
  const JsonObject& generation;  ///< generation_config.json, or an empty object
  const TokenFiles& files;
  const FamilyEntry& family;
  bool paradigm_is_chosen;  ///< chosen by the user, so a left-to-right model may have an unused mask
  bool may_list_masks;      ///< ConfigChoices::reads_other_texts
  std::span<const std::string> ignored;  ///< keys that the user declared harmless
};

/// Sets the mask, the editing tokens and those that end an answer. If no file names the mask, uses the
/// published one, provided that the vocabulary has the published size.
///   - if two files disagree, naming both; --ignore-config-keys mask_token_id takes the first;
///   - for a model with masks to fill that has no mask, and for a left-to-right model that has one;
///   - if the two editing tokens are not distinct from each other and the mask, or their experts are missing.
void set_token_ids(const TokenSources& sources, ModelConfig& config);

}  // namespace lacuna
