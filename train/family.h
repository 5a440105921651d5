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

/// Magnitude of the uniform shift (ModelShape::uniform_shift) at which noise is purely uniform (positive) or
/// purely masks (negative).
inline constexpr double kPureNoise = 1000;

/// RMSNorm of q and k, applied before RoPE.
enum class QkNorm : uint8_t {
  kNone,
  kHeads,  ///< per head, with weights shared by the heads
  kWidth   ///< over all heads together
};

struct FamilyTraits {
  Family family;
  std::string_view name;
  Objective objective;
  bool causal;          ///< causal attention (rows of a canvas also see the whole canvas); otherwise full
                        ///< attention (kBlocks: to its own block and earlier ones)
  bool shifted_logits;  ///< row p - 1 predicts position p; otherwise row p does (kSlots: only masked rows)
  bool qkv_bias;
  QkNorm qk_norm;
  double norm_epsilon;
  bool complementary_masks = false;  ///< kBlocks: a second masked copy, in which the other tokens are masked
  bool norm_offset = false;          ///< norms store their weights' distance from 1
  bool kv_sink = false;              ///< a learned key and value in front of the others, visible to every row
  double attn_soft_cap = 0;          ///< c: scores s become c tanh(s / c); 0: no cap
  bool squared_relu = false;    ///< the feed-forward part is relu(up)^2 with biases; otherwise it is gated
  double residual_scale = 0;    ///< layer outputs are scaled by this / layers; 0: not scaled
  double head_scale_width = 0;  ///< logits are scaled by this / width; 0: not scaled
  bool uniform_noise = false;   ///< kInterpolation: noise is any token but the mask; otherwise the mask
  double rotary_share = 1;      ///< share of each head's dimensions, from the first, that RoPE rotates
  bool experts = false;         ///< the feed-forward part is a mixture of experts except in the first layer
  bool first_phase = false;     ///< supports a first phase of next-token training (ModelShape::left_to_right)
  const ChatForm* form = &kChatMlForm;  ///< special tokens and chat template
  double logit_soft_cap = 0;            ///< c: logits z become c tanh(z / c); 0: no cap

  /// Whether the model has the blocks of train/canvas_model.h, a tied output head, and canvases.
  bool has_canvases() const { return objective == Objective::kCanvases; }

  /// Whether rows are noised by interpolation; they then fill the whole context.
  bool interpolates() const { return objective == Objective::kInterpolation; }
};

/// Traits of all families, in the order of the enumeration.
std::span<const FamilyTraits> families();

const FamilyTraits& traits_of(Family family);

/// "llada, dream, ..."
std::string family_names();

/// Throws InputError with the list of names.
Family find_family(std::string_view name);

}  // namespace lacuna::train
