// Makes a decoder from a strategy and a request, or lists their problems.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "constraint/token_automaton.h"
#include "decode/adjusted.h"
#include "decode/decoder.h"
#include "decode/setting_error.h"
#include "decode/stop_text.h"
#include "decode/strategy.h"
#include "decode/token_alignment.h"
#include "model/config.h"

namespace lacuna {

/// Length of the answer if neither the request nor the model gives one.
inline constexpr int32_t kDefaultGenLength = 128;
/// Maximum length of a masked model's answer if the model decides where it ends.
inline constexpr int32_t kMaxGrownLength = 2048;

/// The model that confirms drafts (FlashDLM's guided diffusion), or makes them (SimSD).
struct GuideContext {
  const ModelConfig* config = nullptr;
  std::vector<TokenId> prompt;  ///< prompt in the guide's tokens
  std::shared_ptr<const TokenAlignment> alignment;
};

/// Inputs of a decoder besides the model's config.
struct DecoderContext {
  TokenId end_of_turn = -1;  ///< the token that ends a chat turn, -1 if the tokenizer has none
  /// The token that is exactly this text, if there is one; empty: no delimiters are looked up.
  std::function<std::optional<TokenId>(std::string_view)> token_of = {};
  std::optional<GuideContext> guide = {};  ///< set if and only if uses_guide()
  StopFinder find_stop = {};               ///< empty: no text ends the answer
  /// Initial tokens of an infill, with the mask token in its holes; empty: no infill, all masks. An infill
  /// needs a model that fills single positions (LLaDA, Dream) or edits its blocks (LLaDA 2.2), and never
  /// samples a token that ends an answer.
  std::vector<TokenId> answer = {};
  /// Constraint on the answer, with the model's end tokens; null: none. LLaDA 2.2 then inserts and deletes no
  /// tokens, and fills no holes. Not for ReFusion's published rules or settings that continue after an end
  /// token. An infill's constrained text begins with the last `constrained_prefix` tokens of the prompt and
  /// ends with the canvas; its holes get no end token.
  std::shared_ptr<const TokenAutomaton> constraint = nullptr;
  int32_t constrained_prefix = 0;
  /// Tokenizes a text. If set, text that the constraint fully determines is written without a pass, except
  /// for its last token, which may merge with the text after it. For autoregressive models, and masked
  /// diffusion without a guide on a canvas of fixed length.
  std::function<std::vector<TokenId>(std::string_view)> encode_literal = {};
  /// Alternatives listed for each commit (StepReport::alternatives); 0: none. Not for ReFusion, LLaDA 2.2,
  /// Nemotron-Labs-Diffusion, a guide, or a canvas that changes its length.
  int32_t num_alternatives = 0;
  /// Logit adjustments; not with a guide, which chooses the written tokens.
  LogitAdjustments adjustments = {};
  /// Holes of an infill whose canvas changes its length: ascending and disjoint, positions of `answer`.
  std::vector<GrowingHole> holes = {};
};

/// A request to decode with a strategy.
struct DecodeRequest {
  std::vector<TokenId> prompt;
  /// Length of the answer, or its maximum with ends_by_itself. None: default_gen_length(), or
  /// most_gen_length() with ends_by_itself.
  std::optional<int32_t> gen_length = {};
  bool ends_by_itself = false;
  uint64_t seed = 0;  ///< seed of all sampling
  DecoderContext context = {};
};

/// Positions that the prompt leaves for an answer. Throws SettingError if there are none.
///   guide  limits the positions as well; null: no guide
int64_t room_for_answer(const ModelConfig& config, const Strategy& strategy, int64_t prompt_length,
                        const GuideContext* guide = nullptr);

/// Length of an answer if the request gives none: the one in the model's files, else kDefaultGenLength; at
/// most the context left by the prompt, and whole blocks if these must divide it. Throws SettingError if the
/// prompt leaves no position.
int32_t default_gen_length(const ModelConfig& config, const Strategy& strategy, int64_t prompt_length,
                           const GuideContext* guide = nullptr);

/// Problems of a strategy that do not depend on the request, most important first; empty if it is valid.
std::vector<Problem> validate(const Strategy& strategy, const ModelConfig& config);
/// Problems of a strategy for this request, and of the request itself.
std::vector<Problem> validate(const Strategy& strategy, const ModelConfig& config,
                              const DecodeRequest& request);

/// A decoder for the model. Throws SettingError with the first problem that validate() finds.
std::unique_ptr<Decoder> make_decoder(const ModelConfig& config, const Strategy& strategy,
                                      DecodeRequest request);

/// Maximum length of an answer if the model decides where it ends: all the context left by the prompt, for
/// masked diffusion at most kMaxGrownLength.
int32_t most_gen_length(const ModelConfig& config, const Strategy& strategy, int64_t prompt_length);

/// Whether the strategy needs a second model (DecoderContext::guide).
bool uses_guide(const Strategy& strategy);

/// Whether decoders of the strategy can list alternatives (DecoderContext::num_alternatives).
bool lists_alternatives(const ModelConfig& config, const Strategy& strategy);

/// Whether the model fills holes in a text: it fills single positions, or edits its blocks (LLaDA 2.2).
bool can_infill(const ModelConfig& config);
/// Throws InputError unless can_infill().
void expect_infill(const ModelConfig& config);

/// Whether decoders of the strategy change the lengths of an infill's holes.
bool changes_lengths(const Strategy& strategy, const ModelConfig& config);

/// The alignment of two models with the same token ids.
std::shared_ptr<const TokenAlignment> shared_vocabulary(const ModelConfig& config, const ModelConfig& guide);

}  // namespace lacuna
