#include "train/family.h"

#include <array>

#include "base/error.h"

namespace lacuna::train {

namespace {

constexpr std::array kFamilies = {
    FamilyTraits{.family = Family::kLlada,
                 .name = "llada",
                 .objective = Objective::kMaskedTokens,
                 .causal = false,
                 .shifted_logits = false,
                 .qkv_bias = false,
                 .qk_norm = QkNorm::kNone,
                 .norm_epsilon = 1e-5,
                 .form = &kHeaderForm},
    FamilyTraits{.family = Family::kDream,
                 .name = "dream",
                 .objective = Objective::kMaskedTokens,
                 .causal = false,
                 .shifted_logits = true,
                 .qkv_bias = true,
                 .qk_norm = QkNorm::kNone,
                 .norm_epsilon = 1e-6,
                 .form = &kAssistantForm},
    FamilyTraits{.family = Family::kQwen2,
                 .name = "qwen2",
                 .objective = Objective::kNextToken,
                 .causal = true,
                 .shifted_logits = true,
                 .qkv_bias = true,
                 .qk_norm = QkNorm::kNone,
                 .norm_epsilon = 1e-6,
                 .form = &kAssistantForm},
    FamilyTraits{.family = Family::kQwen3,
                 .name = "qwen3",
                 .objective = Objective::kNextToken,
                 .causal = true,
                 .shifted_logits = true,
                 .qkv_bias = false,
                 .qk_norm = QkNorm::kHeads,
                 .norm_epsilon = 1e-6,
                 .form = &kThinkingForm},
    FamilyTraits{.family = Family::kRefusion,
                 .name = "refusion",
                 .objective = Objective::kSlots,
                 .causal = true,
                 .shifted_logits = false,
                 .qkv_bias = false,
                 .qk_norm = QkNorm::kHeads,
                 .norm_epsilon = 1e-6},
    FamilyTraits{.family = Family::kSdar,
                 .name = "sdar",
                 .objective = Objective::kBlocks,
                 .causal = false,
                 .shifted_logits = false,
                 .qkv_bias = false,
                 .qk_norm = QkNorm::kHeads,
                 .norm_epsilon = 1e-6,
                 .form = &kThinkingForm},
    FamilyTraits{.family = Family::kFastDllm,
                 .name = "fast-dllm-v2",
                 .objective = Objective::kBlocks,
                 .causal = false,
                 .shifted_logits = true,
                 .qkv_bias = true,
                 .qk_norm = QkNorm::kNone,
                 .norm_epsilon = 1e-6,
                 .complementary_masks = true},
    FamilyTraits{.family = Family::kLlada2,
                 .name = "llada2-moe",
                 .objective = Objective::kBlocks,
                 .causal = false,
                 .shifted_logits = false,
                 .qkv_bias = false,
                 .qk_norm = QkNorm::kHeads,
                 .norm_epsilon = 1e-6,
                 .rotary_share = 0.5,
                 .experts = true,
                 .first_phase = true,
                 .form = &kRoleTagForm},
    FamilyTraits{.family = Family::kGidd,
                 .name = "gidd",
                 .objective = Objective::kInterpolation,
                 .causal = false,
                 .shifted_logits = false,
                 .qkv_bias = false,
                 .qk_norm = QkNorm::kWidth,
                 .norm_epsilon = 1e-6,
                 .norm_offset = true,
                 .kv_sink = true,
                 .attn_soft_cap = 30,
                 .squared_relu = true,
                 .residual_scale = 4,
                 .head_scale_width = 512,
                 .uniform_noise = true,
                 .first_phase = true},
    FamilyTraits{.family = Family::kGiddMask,
                 .name = "gidd-mask",
                 .objective = Objective::kInterpolation,
                 .causal = false,
                 .shifted_logits = false,
                 .qkv_bias = false,
                 .qk_norm = QkNorm::kWidth,
                 .norm_epsilon = 1e-6,
                 .norm_offset = true,
                 .kv_sink = true,
                 .attn_soft_cap = 30,
                 .squared_relu = true,
                 .residual_scale = 4,
                 .head_scale_width = 512,
                 .uniform_noise = false,
                 .first_phase = true},
    FamilyTraits{.family = Family::kDiffusionGemma,
                 .name = "diffusion-gemma",
                 .objective = Objective::kCanvases,
                 .causal = true,
                 .shifted_logits = false,
                 .qkv_bias = false,
                 .qk_norm = QkNorm::kHeads,
                 .norm_epsilon = 1e-6,
                 .experts = true,
                 .first_phase = true,
                 .logit_soft_cap = 30},
    FamilyTraits{.family = Family::kIdlm,
                 .name = "i-dlm",
                 .objective = Objective::kStrided,
                 .causal = true,
                 .shifted_logits = true,
                 .qkv_bias = false,
                 .qk_norm = QkNorm::kHeads,
                 .norm_epsilon = 1e-6},
};

}  // namespace

std::span<const FamilyTraits> families() {
  return kFamilies;
}

const FamilyTraits& traits_of(Family family) {
  return families()[static_cast<size_t>(family)];
}

std::string family_names() {
  std::string names;
  for (const FamilyTraits& traits : families())
    names += (names.empty() ? "" : ", ") + std::string(traits.name);
  return names;
}

Family find_family(std::string_view name) {
  for (const FamilyTraits& traits : families()) {
    if (traits.name == name) return traits.family;
  }
  throw InputError("--family: '{}' cannot be trained; the families are: {}", name, family_names());
}

}  // namespace lacuna::train
