// Model families that can be trained, and their differences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "train/chat_form.h"

namespace lacuna::train {

enum class Family : uint8_t {
  kLlada,
  kDream,
  kQwen2,
  kQwen3,
  kRefusion,
  kSdar,
  kFastDllm,
  kLlada2,
  kGidd,
  kGiddMask,
  kDiffusionGemma,
  kIdlm
};

/// Training objective of a family; objective.h has the losses.
enum class Objective : uint8_t {
  kMaskedTokens,
  kNextToken,
  kSlots,
  kBlocks,
  kStrided,
  kInterpolation,
  kCanvases
};

/// A shift of the kinds of interpolated noise that leaves one kind at any level.
inline constexpr double kPureNoise = 1000;

/// RMSNorm of q and k, before they are rotated.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,  ///< per head, with weights shared by the heads
  kWidth   ///< over all heads together
};

struct FamilyTraits {
  Family family;
  std::string_view name;
  Objective objective;
  bool causal;          ///< a row attends to itself and to the rows before it (rows of a canvas: to all of
                        ///< it, too); otherwise to all (blocks: to its own block and those before)
  bool shifted_logits;  ///< row p - 1 predicts position p; otherwise row p does (slots: of a masked token)
  bool qkv_bias;
  QkNorm qk_norm;
  double norm_epsilon;
  bool complementary_masks = false;  ///< of the objective kBlocks: a second masked copy, of the other tokens
  bool norm_offset = false;          ///< norms store their weights' distance from 1
  bool kv_sink = false;         ///< one learned key and value in front of the others, which every row sees
  double attn_soft_cap = 0;     ///< c: scores s become c tanh(s / c); 0: they stay
  bool squared_relu = false;    ///< the feed-forward part is relu(up)^2 with biases; otherwise it is gated
  double residual_scale = 0;    ///< times 1 / layers: of what a layer adds to the residual stream; 0: none
  double head_scale_width = 0;  ///< logits are scaled by this / width; 0: they are not
  bool uniform_noise = false;   ///< of the objective kInterpolation: noise is any token, not the mask
  double rotary_share = 1;      ///< of each head's numbers, the first ones, that positions turn
  bool experts = false;         ///< the feed-forward part is a mixture of experts but in the first layer
  bool first_phase = false;     ///< may learn from left to right at first
  const ChatForm* form = &kChatMlForm;  ///< special tokens and chat template
  double logit_soft_cap = 0;            ///< c: logits z become c tanh(z / c); 0: they stay

  /// Blocks of train/canvas_model.h, a head that is the embedding, and rows of canvases.
  bool has_canvases() const { return objective == Objective::kCanvases; }

  /// Rows fill the whole context.
  bool interpolates() const { return objective == Objective::kInterpolation; }
};

/// All families, in the order of the enumeration.
std::span<const FamilyTraits> families();

const FamilyTraits& traits_of(Family family);

/// "llada, dream, ..."
std::string family_names();

/// Throws InputError with the list of names.
Family find_family(std::string_view name);

}  // namespace lacuna::train
