// Declarations shared by the families' files and families.cpp; no other file includes this header.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "model/config.h"
#include "model/family.h"

namespace lacuna {

// Defined in the families' files.
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
FamilyEntry lfm2_family();

/// Refuses a "hidden_act" other than silu and its older name, swish.
void expect_silu(const JsonObject& json);

// Limits far above any published model; products of three sizes fit in int64.
constexpr Range<int64_t> kLayerCount{1, 1024};
constexpr Range<int64_t> kWidth{1, int64_t{1} << 20};
constexpr Range<int64_t> kVocabSize{1, int64_t{1} << 24};
constexpr Range<int64_t> kPositionCount{1, int64_t{1} << 30};
constexpr Range<double> kNormEps{1e-12, 1e-1};
constexpr Range<double> kRopeTheta{2, 1e12};
constexpr Range<int64_t> kExpertCount{1, 4096};

/// Reads the sizes that all families except dense LLaDA have, under the keys of the transformers library.
///   norm_eps_key, usual_norm_eps  key of the norms' epsilon, and its default; empty: required
ModelConfig read_transformers_sizes(const JsonObject& json, std::string_view norm_eps_key = "rms_norm_eps",
                                    std::optional<float> usual_norm_eps = {});

/// "head_dim" if given, else hidden_dim / num_heads.
int64_t read_head_dim(const JsonObject& json, const ModelConfig& config);

/// Default theta of the transformers library.
constexpr float kUsualTheta = 10000;

/// Reads the rotation of all layers (read_rope()); needs head_dim and max_positions.
void set_rope(const JsonObject& json, ModelConfig& config, const RopeRules& rules = {});

/// Reads a required token id.
TokenId read_token_id(const JsonObject& json, std::string_view key, const ModelConfig& config);
/// Reads a token id; `fallback` if absent. A file may write -1 for none.
TokenId read_token_id(const JsonObject& json, std::string_view key, const ModelConfig& config,
                      TokenId fallback);

// Llama's and Qwen's blocks; causal unless the family changes it. mask_id is -1 if config.json has none.
/// Reads the common keys: all except biases, norms of q and k, widths of heads and feed-forward layers, and
/// the rotation.
ModelConfig read_decoder_block(const JsonObject& json);
ModelConfig read_llama_block(const JsonObject& json, const RopeRules& rope = {.usual_theta = kUsualTheta});
/// Reads Qwen2 and Qwen2.5.
ModelConfig read_qwen2_block(const JsonObject& json);
/// Reads Qwen3 except the feed-forward layers.
ModelConfig read_qwen3_attention(const JsonObject& json);
ModelConfig read_qwen3_block(const JsonObject& json);
void turn_block_causal(ModelConfig& config, int64_t block_length);
/// Sets SDAR's blocks or, for I-DLM's files, left-to-right decoding with drafts.
void turn_into_sdar(const JsonObject& json, ModelConfig& config);

/// For LLaDA and Dream: sets blocks after the prompt if --paradigm blocks asks for them, as D2F's adapters
/// were trained.
void turn_into_d2f_if_chosen(const JsonObject& json, ModelConfig& config);

/// Reads the noise's range of log-SNR, if given.
void read_log_snr(const JsonObject& json, NoiseProcess& noise);

/// The paradigm, one of `known`, that --paradigm or "lacuna": {"paradigm": ...} chooses; empty if neither is
/// given.
std::optional<Paradigm> read_paradigm(const JsonObject& json, std::initializer_list<Paradigm> known);
/// Whether "model_type", "_name_or_path" or a class of "auto_map" contains this name, ignoring case.
bool says_its_name(const JsonObject& json, std::string_view lower_case_name);
/// Same for the name of the checkpoint's folder, or of the downloaded repository.
bool folder_says_its_name(const JsonObject& json, std::string_view lower_case_name);

/// Module names of the transformers library, such as model.layers.N.self_attn.q_proj.
TensorNames transformers_tensors(LayerTensorNames (*layer)(int64_t layer));
/// Without norms of q and k, and without a router.
LayerTensorNames transformers_layer(int64_t layer);
/// Same under another module than "model.".
LayerTensorNames transformers_layer_of(std::string_view module, int64_t layer);
/// transformers_layer() with norms of q and k.
LayerTensorNames transformers_layer_with_qk_norm(int64_t layer);
/// transformers_layer_with_qk_norm() with a router.
LayerTensorNames transformers_layer_with_experts(int64_t layer);
ExpertTensorNames transformers_expert(int64_t layer, int64_t expert);

}  // namespace lacuna
