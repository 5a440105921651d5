// From what a user asked for to a decoder, or to a sentence that says why not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "decode/decoder.h"
#include "decode/options.h"
#include "decode/stop_text.h"
#include "decode/token_alignment.h"
#include "model/config.h"

namespace lacuna {

/// --gen-length, where neither the user nor the model says one.
inline constexpr int32_t kDefaultGenLength = 128;

/// The model that confirms drafts (FlashDLM's guided diffusion).
struct GuideContext {
  const ModelConfig* config = nullptr;
  std::vector<TokenId> prompt;  ///< as the guide reads it
  std::shared_ptr<const TokenAlignment> alignment;
};

/// What a decoder must know beside the model's config.
struct DecoderContext {
  TokenId end_of_turn = -1;  ///< the token that ends a chat turn, -1 if the tokenizer has none
  std::optional<GuideContext> guide = {};
  StopFinder find_stop = {};  ///< empty: no text ends the answer
  /// What the positions of the answer hold at first, with the mask token where they are to be filled; empty:
  /// masks. Not empty: an infill, which is as long as this, needs a model that fills single positions (LLaDA,
  /// Dream), and never draws a token that ends an answer.
  std::vector<TokenId> answer = {};
};

/// --gen-length, where nothing is asked for: what the model's files say, else kDefaultGenLength, but never
/// more than the prompt leaves of the context, and whole blocks where --block-length must divide it.
/// InputError where the prompt leaves nothing.
int32_t default_gen_length(const ModelConfig& config, const GenerationOptions& options, int64_t prompt_length,
                           const GuideContext* guide = nullptr);

/// Refuses options that make_decoder() would refuse for every prompt.
void check_options(const ModelConfig& config, const GenerationOptions& options);

/// A decoder for the model's family. InputError names the flag, its value and what was expected, where
/// options contradict each other, the family would ignore one, or a prompt token is outside the vocabulary.
std::unique_ptr<Decoder> make_decoder(const ModelConfig& config, const GenerationOptions& options,
                                      std::vector<TokenId> prompt, const DecoderContext& context = {});

/// InputError unless the model fills single positions, as an infill needs.
void expect_infill(const ModelConfig& config);

/// The alignment of two models that number their tokens alike.
std::shared_ptr<const TokenAlignment> shared_vocabulary(const ModelConfig& config, const ModelConfig& guide);

}  // namespace lacuna
