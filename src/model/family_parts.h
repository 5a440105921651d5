// Declarations shared by the families' files and families.cpp; no other file includes this header.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "model/config.h"
#include "model/family.h"

namespace lacuna {

// One file per family defines one or two of these.
FamilyEntry llada_family();
FamilyEntry llada_moe_family();
FamilyEntry dream_family();
FamilyEntry qwen2_family();
FamilyEntry qwen3_family();
FamilyEntry sdar_family();
FamilyEntry fast_dllm_family();
FamilyEntry llada2_family();
FamilyEntry gidd_family();
FamilyEntry qwen3_moe_family();
FamilyEntry sdar_moe_family();
FamilyEntry rnd1_family();
FamilyEntry coda_family();
FamilyEntry a2d_qwen2_family();
FamilyEntry a2d_qwen3_family();
FamilyEntry diffusion_gemma_family();
FamilyEntry llama_family();
FamilyEntry stable_diffcoder_family();
FamilyEntry a2d_llama_family();
FamilyEntry sumi_family();
FamilyEntry nemotron_labs_family();
FamilyEntry gemma3_family();
FamilyEntry nemotron_family();
FamilyEntry sdlm_family();

/// Refuses a "hidden_act" that is neither silu nor swish, its older name.
void expect_silu(const JsonObject& json);

// Far above any published model, and so small that no product of three overflows.
constexpr Range<int64_t> kLayerCount{1, 1024};
constexpr Range<int64_t> kWidth{1, int64_t{1} << 20};
constexpr Range<int64_t> kVocabSize{1, int64_t{1} << 24};
constexpr Range<int64_t> kPositionCount{1, int64_t{1} << 30};
constexpr Range<double> kNormEps{1e-12, 1e-1};
constexpr Range<double> kRopeTheta{2, 1e12};
constexpr Range<int64_t> kExpertCount{1, 4096};

/// The sizes that all families but dense LLaDA have, under the keys of the transformers library.
///   norm_eps_key, usual_norm_eps  the key of the norms' epsilon, and its value where a file has none; empty:
///                                 a file must have one
ModelConfig read_transformers_sizes(const JsonObject& json, std::string_view norm_eps_key = "rms_norm_eps",
                                    std::optional<float> usual_norm_eps = {});

/// head_dim if it is given, else the width of each head when all together are hidden_dim.
int64_t read_head_dim(const JsonObject& json, const ModelConfig& config);

/// theta of the classes of the transformers library where a file has none.
constexpr float kUsualTheta = 10000;

/// Reads the rotation of all layers (read_rope) once head_dim and max_positions are known.
void set_rope(const JsonObject& json, ModelConfig& config, const RopeRules& rules = {});

/// A token id that must be given.
TokenId read_token_id(const JsonObject& json, std::string_view key, const ModelConfig& config);
/// `fallback` if it is not given; a file may also write -1 for none.
TokenId read_token_id(const JsonObject& json, std::string_view key, const ModelConfig& config,
                      TokenId fallback);

// Llama's and Qwen's blocks, causal until the family says otherwise. The mask's id is -1 where config.json
// has none.
/// The keys that these families have in common: all but biases, norms of q and k, the width of heads and
/// feed-forward layers, and the rotation.
ModelConfig read_decoder_block(const JsonObject& json);
ModelConfig read_llama_block(const JsonObject& json, const RopeRules& rope = {.usual_theta = kUsualTheta});
/// Qwen2 and Qwen2.5.
ModelConfig read_qwen2_block(const JsonObject& json);
/// Qwen3 but for the feed-forward layers.
ModelConfig read_qwen3_attention(const JsonObject& json);
ModelConfig read_qwen3_block(const JsonObject& json);
void turn_block_causal(ModelConfig& config, int64_t block_length);
/// The same with SDAR's blocks, or left to right with drafts where the file is I-DLM's.
void turn_into_sdar(const JsonObject& json, ModelConfig& config);

/// LLaDA and Dream: block-causal behind the prompt where --paradigm blocks says so, as D2F's adapters were
/// trained.
void turn_into_d2f_if_chosen(const JsonObject& json, ModelConfig& config);

/// The range of log-SNR that noise has, where the file gives it.
void read_log_snr(const JsonObject& json, NoiseProcess& noise);

/// The one of these that --paradigm or "lacuna": {"paradigm": ...} chooses; empty if neither is given.
std::optional<Paradigm> read_paradigm(const JsonObject& json, std::initializer_list<Paradigm> known);
/// Whether the file says that it is of a model with this in its name: in "model_type", "_name_or_path" or the
/// classes of "auto_map". Letters' case does not matter.
bool says_its_name(const JsonObject& json, std::string_view lower_case_name);
/// The same of the checkpoint's folder, or the repository that it was downloaded from.
bool folder_says_its_name(const JsonObject& json, std::string_view lower_case_name);

/// Module names of the transformers library: model.layers.N.self_attn.q_proj and its like.
TensorNames transformers_tensors(LayerTensorNames (*layer)(int64_t layer));
/// With neither the norms of q and k nor a router.
LayerTensorNames transformers_layer(int64_t layer);
/// The same below another module than "model.".
LayerTensorNames transformers_layer_of(std::string_view module, int64_t layer);
/// With the norms of q and k.
LayerTensorNames transformers_layer_with_qk_norm(int64_t layer);
/// And with a router.
LayerTensorNames transformers_layer_with_experts(int64_t layer);
ExpertTensorNames transformers_expert(int64_t layer, int64_t expert);

}  // namespace lacuna
