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

/// The sources that set_token_ids() asks, in this order.
struct TokenSources {
  const JsonObject& config;      ///< config.json, whose ids the family's reader has taken
  const JsonObject& generation;  ///< generation_config.json, or an empty object
  const TokenFiles& files;
  const FamilyEntry& family;
  bool paradigm_is_chosen;               ///< by a user, who knows that a mask may be left over
  bool may_list_masks;                   ///< ConfigChoices::reads_other_texts
  std::span<const std::string> ignored;  ///< keys that the user vouches for
};

/// Sets the mask, the tokens that edit and those that end an answer. Where no file names the mask, it is the
/// published one if the vocabulary has the published size.
/// Throws InputError
///   - where two files disagree, naming both; --ignore-config-keys mask_token_id takes the first;
///   - for a model with masks to fill that has no mask, and for a left-to-right model that has one;
///   - for tokens that edit which are not two, or which the model does not have the experts for.
void set_token_ids(const TokenSources& sources, ModelConfig& config);

}  // namespace lacuna
