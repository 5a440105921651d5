// From a strategy and a request to a decoder, or to what is wrong with them.
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

/// The answer's length, where neither the request nor the model says one.
inline constexpr int32_t kDefaultGenLength = 128;
/// The most that an answer of a masked model grows to where nothing is asked for.
inline constexpr int32_t kMaxGrownLength = 2048;

/// The model that confirms drafts (FlashDLM's guided diffusion).
struct GuideContext {
  const ModelConfig* config = nullptr;
  std::vector<TokenId> prompt;  ///< prompt in the guide's tokens
  std::shared_ptr<const TokenAlignment> alignment;
};

/// Inputs of a decoder besides the model's config.
struct DecoderContext {
  TokenId end_of_turn = -1;                ///< the token that ends a chat turn, -1 if the tokenizer has none
  std::optional<GuideContext> guide = {};  ///< with MaskedStrategy::commit a GuideRule, and only then
  StopFinder find_stop = {};               ///< empty: no text ends the answer
  /// Initial tokens of the answer's positions, with the mask token where they are to be filled; empty:
  /// masks. Not empty: an infill, which is as long as this, needs a model that fills single positions (LLaDA,
  /// Dream) or edits its blocks (LLaDA 2.2), and never samples a token that ends an answer.
  std::vector<TokenId> answer = {};
  /// Constraint on the answer; null: none. Its end tokens are the model's. LLaDA 2.2 then inserts and
  /// deletes nothing, and fills no holes. Not for ReFusion by published rules, or settings by which an answer
  /// continues after its end. Of an infill the text begins with the last `constrained_prefix` tokens of the
  /// prompt, ends with the canvas, and has no end token where a hole is.
  std::shared_ptr<const TokenAutomaton> constraint = nullptr;
  int32_t constrained_prefix = 0;
  /// Cuts a text into tokens. Not empty: where the constraint leaves no choice of the next bytes, their
  /// tokens are written at once, but for the last, which may reach into what follows. Autoregressive models
  /// and masked diffusion without a guide whose canvas keeps its length.
  std::function<std::vector<TokenId>(std::string_view)> encode_literal = {};
  /// Tokens that each commit might have been, StepReport::alternatives; 0: none are listed. Not for ReFusion,
  /// LLaDA 2.2, Nemotron-Labs-Diffusion, a guide, or a canvas that changes its length.
  int32_t num_alternatives = 0;
  /// Changes of logits; not with a guide, whose choices are what is written.
  LogitAdjustments adjustments = {};
  /// Holes of an infill whose canvas changes its length: ascending and disjoint, positions of `answer`.
  std::vector<GrowingHole> holes = {};
};

/// A request to decode with a strategy.
struct DecodeRequest {
  std::vector<TokenId> prompt;
  /// Positions of the answer, or the most that an answer of its own length may have; none:
  /// default_gen_length(), or where the answer ends where the model ends it, all that the prompt leaves of
  /// the context.
  std::optional<int32_t> gen_length = {};
  bool ends_by_itself = false;
  uint64_t seed = 0;  ///< of all that is sampled
  DecoderContext context = {};
};

/// Positions that the prompt leaves for an answer. Throws SettingError if there are none.
///   guide  whose positions count as well; null: none
int64_t room_for_answer(const ModelConfig& config, const Strategy& strategy, int64_t prompt_length,
                        const GuideContext* guide = nullptr);

/// The length of an answer where nothing is asked for: what the model's files say, else kDefaultGenLength,
/// but never more than the prompt leaves of the context, and whole blocks where they must divide it.
/// Throws SettingError if the prompt leaves nothing.
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

/// The same of an answer that ends where the model ends it: all that the prompt leaves of the context, of
/// masked diffusion at most kMaxGrownLength.
int32_t most_gen_length(const ModelConfig& config, const Strategy& strategy, int64_t prompt_length);

/// Whether decoders of the strategy can say what else their positions might have got
/// (DecoderContext::num_alternatives).
bool lists_alternatives(const ModelConfig& config, const Strategy& strategy);

/// Whether the model fills holes in a text: it fills single positions, or edits its blocks (LLaDA 2.2).
bool can_infill(const ModelConfig& config);
/// Throws InputError unless it does.
void expect_infill(const ModelConfig& config);

/// Whether decoders of the strategy change the lengths of an infill's holes.
bool changes_lengths(const Strategy& strategy, const ModelConfig& config);

/// The alignment of two models that number their tokens alike.
std::shared_ptr<const TokenAlignment> shared_vocabulary(const ModelConfig& config, const ModelConfig& guide);

}  // namespace lacuna
