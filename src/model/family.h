// A model family: how to recognize it, read its config and find its tensors.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace lacuna {

class GgufKeys;
class JsonObject;

// Names of parameters in a checkpoint. Unless noted otherwise, a name is a module's path; the tensor's name
// is path + ".weight", or + ".bias" for a bias that the config announces. Paths of absent modules are empty.

struct ExpertTensorNames {
  std::string gate, up;  ///< [expert_ffn or shared_ffn, hidden]
  std::string down;      ///< [hidden, expert_ffn or shared_ffn]
  /// Fused gate and up: for each expert, the rows of gate, then those of up. If all three have names, the
  /// checkpoint's contents decide.
  std::string gate_up = {};
};

/// Parameters of one layer.
struct LayerTensorNames {
  std::string attn_norm;       ///< [hidden]
  std::string q, k, v;         ///< [q_dim or kv_dim, hidden]; empty if qkv is given
  std::string qkv;             ///< [q_dim + 2 kv_dim, hidden]: the rows of q, then of k, then of v
  std::string o;               ///< [hidden, q_dim]
  std::string q_norm, k_norm;  ///< [head_dim] per head, or [q_dim] and [kv_dim]
  std::string ffn_norm;        ///< [hidden]
  std::string gate, up;        ///< [ffn, hidden]; the activation applies to gate, which squared ReLU lacks
  std::string down;            ///< [hidden, ffn]
  std::string router;          ///< [experts, hidden]
  std::string expert_bias;     ///< [experts]; a whole tensor name
  ExpertTensorNames shared;    ///< the shared expert, which every row passes
  std::string k_sink, v_sink;  ///< [kv_heads, head_dim]; whole tensor names
  /// All experts' rows stacked, [experts * expert_ffn, hidden] and down [experts * hidden, expert_ffn]; empty
  /// if each expert has its own tensors.
  ExpertTensorNames stacked_experts;

  // Gemma (router_scale, expert_scale and the scalars are whole tensor names):
  std::string post_attn_norm, post_ffn_norm;  ///< [hidden]
  std::string post_dense_norm;                ///< [hidden] of the dense layer next to the experts
  std::string expert_norm, post_expert_norm;  ///< [hidden]
  std::string router_scale;                   ///< [hidden]
  std::string expert_scale;                   ///< [experts]
  std::string layer_scalar, encoder_scalar;   ///< [1] for denoised rows; for the prompt and finished canvases

  // Layers that convolve (LFM2):
  std::string convolution_in;   ///< [3 hidden, hidden]: the rows of k, then of q, then of v
  std::string convolution_out;  ///< [hidden, hidden]
  std::string taps;             ///< [hidden, 1, taps], the own cell's last; a whole tensor name
};

struct TensorNames {
  std::string_view embedding;   ///< [vocab, hidden]
  std::string_view final_norm;  ///< [hidden]
  std::string_view head;        ///< [vocab, hidden]; may be absent when embeddings are tied
  LayerTensorNames (*layer)(int64_t layer);
  ExpertTensorNames (*expert)(int64_t layer, int64_t expert);  ///< null in dense families
  // Self-conditioning, in families with canvases:
  std::string_view conditioning_norm = {};                        ///< [hidden]
  std::string_view conditioning_gate = {}, conditioning_up = {};  ///< [conditioning_dim, hidden]
  std::string_view conditioning_down = {};                        ///< [hidden, conditioning_dim]
  // adaLN, in families whose layers depend on noise levels:
  std::string_view noise_in = {};          ///< [noise_dim, frequency_dim] and bias
  std::string_view noise_out = {};         ///< [noise_dim, noise_dim] and bias
  std::string_view noise_projection = {};  ///< [3 hidden, noise_dim] and bias: scale, shift, gate
  std::string_view noise_layers = {};      ///< [layers, 3 hidden], a whole tensor name
};

/// Representation of a family in GGUF files of llama.cpp's converters.
struct GgufDialect {
  std::string_view architecture;  ///< "general.architecture"
  /// Mask token of published checkpoints, for files without one; -1: none.
  int64_t published_mask = -1;
  /// Reads the equivalent of config.json. Throws InputError.
  nlohmann::json (*read_config)(const GgufKeys& keys);
  LayerTensorNames (*layer)(int64_t layer);
  /// Reads the equivalent of generation_config.json; null: not in the keys.
  nlohmann::json (*read_generation)(const GgufKeys& keys) = nullptr;
  /// Whether rows of q and k are permuted for RoPE of neighboring pairs of dimensions.
  bool interleaves_rotation = false;
  /// Whether a tensor rope_freqs.weight holds a divisor for each pair's frequency (Llama 3).
  bool divides_frequencies = false;
  /// Whether norms hold 1 + w for the published w.
  bool adds_one_to_norms = false;
  /// Renames tensors whose names differ from the usual ones; null if there are none.
  void (*rename)(TensorNames& names) = nullptr;
};

/// A published config.json without unread keys, for random:NAME.
struct PublishedConfig {
  std::string_view name;
  std::string_view json;            ///< config.json of this model or a similar one
  std::string_view changes = "{}";  ///< keys to replace in `json` or add
};

/// A published model's mask, for files that do not name it; applies only if the vocabulary has this size.
struct PublishedMask {
  TokenId id = -1;
  int64_t vocab_size = 0;
};

/// All knowledge about a family except its computation, which flags of ModelConfig select.
struct FamilyEntry {
  std::string_view name;          ///< short name of the family, used in messages and ModelConfig: "llada"
  std::string_view architecture;  ///< name in config.json under "architectures"
  /// Reads config.json; token ids from the files next to it are added later.
  ModelConfig (*read_config)(const JsonObject& json);
  TensorNames tensors;
  /// Texts of the mask token in the tokenizer's files, the most common first.
  std::vector<std::string_view> mask_texts = {};
  std::vector<PublishedMask> published_masks = {};
  /// Texts in the tokenizer's files of the token that becomes two masks, if config.json does not name it.
  std::vector<std::string_view> expand_texts = {};
  /// Names of editing tokens, in lower case and without brackets ("delete" for "<|DELETE|>"). If a tokenizer
  /// lists one, config.json must have "expert_capacity".
  std::vector<std::string_view> edit_names = {};
  std::string_view default_unmask = {};  ///< published --unmask; empty: none
  std::optional<GgufDialect> gguf = {};  ///< empty: no known converter
  /// Further harmless keys of config.json that read_config() need not read (see model/config_keys.h).
  std::vector<std::string_view> harmless_keys = {};
  /// Accepted "model_type" of config.json, in lower case; others contradict the architecture.
  std::vector<std::string_view> model_types = {};
  /// Whether the architecture is an autoregressive class of the transformers library. A checkpoint that adds
  /// its own code for it, or a mask token, is a diffusion model under a borrowed class.
  bool is_library_class = false;
  std::vector<PublishedConfig> published = {};
};

}  // namespace lacuna
