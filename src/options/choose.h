// From what a user typed to a strategy, or to a sentence that says why not. Sentences name flags; a surface
// with other names words SettingError::problem() itself.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "constraint/constraint.h"
#include "decode/make_decoder.h"
#include "options/options.h"

namespace lacuna {

/// Fills in what was not chosen: the preset's settings first (as with_preset()), then the model's own
/// decoding defaults (ModelConfig::default_unmask, default_tokens_per_step), then the family's --unmask. The
/// model's --unmask does not apply where --steps, --eps or --alg-temp choose a schedule; with a guide, which
/// decides what is committed, --unmask stays empty. Throws SettingError for an unknown preset, or naming
/// generation_config.json if the model's --unmask is not a valid rule.
GenerationOptions with_defaults(const ModelConfig& config, GenerationOptions options, bool has_guide);

/// The strategy that the options ask for: theirs, then the preset's, then the model's, then the family's.
/// Throws SettingError, which names the setting, its value and what was expected: for an invalid value, and
/// for a setting that the model would ignore.
///   has_guide  a guide confirms what is drafted
Strategy choose_strategy(const ModelConfig& config, const GenerationOptions& options, bool has_guide = false);

/// The setting or field that asks for a constraint: json_schema, json_object, regex, choice, grammar or
/// tools.
std::string_view setting_of(const Constraint& constraint);
/// Constraint that the options put on the answer's text. Throws SettingError if they give more than one.
std::optional<Constraint> choose_constraint(const GenerationOptions& options);

/// How an unguided masked model's canvas changes its length: as asked for, else by the tokens that it has for
/// that, else, where its answer ends by itself, by its end mass; empty: it keeps its length. Throws
/// SettingError.
std::optional<CanvasGrowth> choose_growth(const ModelConfig& config, const GenerationOptions& options);

/// Changes of logits. Throws SettingError if a logit_bias is not TOKEN=BIAS.
LogitAdjustments choose_adjustments(const GenerationOptions& options);

/// Whether literal texts of a constraint are given (DecoderContext::encode_literal). Throws SettingError.
bool choose_literals(const GenerationOptions& options);
/// The request that the options make, apart from its strategy. Throws SettingError if they constrain the
/// answer and the context has no automaton for it.
DecodeRequest make_request(const GenerationOptions& options, std::vector<TokenId> prompt,
                           DecoderContext context = {});

/// A decoder for the options. SettingError also where the strategy or the request is not valid.
std::unique_ptr<Decoder> make_decoder(const ModelConfig& config, const GenerationOptions& options,
                                      std::vector<TokenId> prompt, const DecoderContext& context = {});

/// Refuses options that make_decoder() would refuse for every prompt.
void check_options(const ModelConfig& config, const GenerationOptions& options);

}  // namespace lacuna
