// Makes a strategy from a user's options, or throws an error that says why not. Its sentences name flags; an
// interface with other names renames the fields of SettingError::problem().
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "constraint/constraint.h"
#include "decode/make_decoder.h"
#include "options/options.h"

namespace lacuna {

/// Fills in settings that were not given: the preset's first (as with_preset()), then the model's own
/// decoding defaults (ModelConfig::default_unmask, default_tokens_per_step), then the family's --unmask. The
/// model's --unmask does not apply where --steps, --eps or --alg-temp choose a schedule; with a guide,
/// --unmask stays empty where it decides what is committed, and is low-confidence where it drafts. Throws
/// SettingError for an unknown preset, or naming generation_config.json if the model's --unmask is not a
/// valid rule.
GenerationOptions with_defaults(const ModelConfig& config, GenerationOptions options, bool has_guide);

/// The strategy of the options; settings not given come from the preset, else the model, else the family.
/// Throws SettingError, which names the setting, its value and the accepted ones, for an invalid value and
/// for a setting that the model would ignore.
///   has_guide  whether a guide confirms drafts, or makes them
Strategy choose_strategy(const ModelConfig& config, const GenerationOptions& options, bool has_guide = false);

/// The setting or field that asks for a constraint: json_schema, json_object, regex, choice, grammar or
/// tools.
std::string_view setting_of(const Constraint& constraint);
/// Constraint that the options put on the answer's text. Throws SettingError if they give more than one.
std::optional<Constraint> choose_constraint(const GenerationOptions& options);

/// How an unguided masked model's canvas changes its length: as requested, else by the model's tokens for it,
/// else, if the model decides where the answer ends, by end mass; empty: not at all. Throws SettingError.
std::optional<CanvasGrowth> choose_growth(const ModelConfig& config, const GenerationOptions& options);

/// Logit adjustments. Throws SettingError if a logit_bias is not TOKEN=BIAS.
LogitAdjustments choose_adjustments(const GenerationOptions& options);

/// Whether text that a constraint determines is written without a pass (DecoderContext::encode_literal).
/// Throws SettingError.
bool choose_literals(const GenerationOptions& options);
/// The request that the options make, apart from its strategy. Throws SettingError if they constrain the
/// answer and the context has no automaton for it.
DecodeRequest make_request(const GenerationOptions& options, std::vector<TokenId> prompt,
                           DecoderContext context = {});

/// A decoder for the options. Throws SettingError if they, the strategy or the request are invalid.
std::unique_ptr<Decoder> make_decoder(const ModelConfig& config, const GenerationOptions& options,
                                      std::vector<TokenId> prompt, const DecoderContext& context = {});

/// Refuses options that make_decoder() would refuse for every prompt.
void check_options(const ModelConfig& config, const GenerationOptions& options);

}  // namespace lacuna
