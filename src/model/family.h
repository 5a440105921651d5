// A model family: how it says what it is, and how it names its tensors.
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

// Where parameters are in a checkpoint. Every name here is a module's path: the tensor is that path +
// ".weight", or + ".bias" where the config says that there is one. A module that the family does not have has
// an empty path.

struct ExpertTensorNames {
  std::string gate, up;  ///< [expert_ffn or shared_ffn, hidden]
  std::string down;      ///< [hidden, expert_ffn or shared_ffn]
  /// In place of gate and up: the rows of gate, then those of up, part by part. Where all three have names,
  /// what the checkpoint holds decides.
  std::string gate_up = {};
};

/// Parameters of one layer.
struct LayerTensorNames {
  std::string attn_norm;       ///< [hidden]
  std::string q, k, v;         ///< [q_dim or kv_dim, hidden]; empty where qkv is given
  std::string qkv;             ///< [q_dim + 2 kv_dim, hidden]: the rows of q, then of k, then of v
  std::string o;               ///< [hidden, q_dim]
  std::string q_norm, k_norm;  ///< [head_dim] per head, or [q_dim] and [kv_dim]
  std::string ffn_norm;        ///< [hidden]
  std::string gate, up;        ///< [ffn, hidden]; SiLU applies to gate, which squared ReLU does without
  std::string down;            ///< [hidden, ffn]
  std::string router;          ///< [experts, hidden]
  std::string expert_bias;     ///< [experts]; a whole name, nothing is appended
  ExpertTensorNames shared;    ///< the expert that every row passes
  std::string k_sink, v_sink;  ///< [kv_heads, head_dim]; whole names, nothing is appended
  /// All experts below each other, [experts * expert_ffn, hidden] and down [experts * hidden, expert_ffn];
  /// empty where each has tensors of its own.
  ExpertTensorNames stacked_experts;

  // Gemma. Whole names, to which nothing is appended, are those of router_scale, expert_scale and the
  // scalars.
  std::string post_attn_norm, post_ffn_norm;  ///< [hidden]
  std::string post_dense_norm;                ///< [hidden] of the dense layer next to the experts
  std::string expert_norm, post_expert_norm;  ///< [hidden]
  std::string router_scale;                   ///< [hidden]
  std::string expert_scale;                   ///< [experts]
  std::string layer_scalar, encoder_scalar;   ///< [1] of rows that are denoised, and of those that are read
};

struct TensorNames {
  std::string_view embedding;   ///< [vocab, hidden]
  std::string_view final_norm;  ///< [hidden]
  std::string_view head;        ///< [vocab, hidden]; may be absent when embeddings are tied
  LayerTensorNames (*layer)(int64_t layer);
  ExpertTensorNames (*expert)(int64_t layer, int64_t expert);  ///< null in dense families
  // Weights that read the last pass's distribution, in families with canvases:
  std::string_view conditioning_norm = {};                        ///< [hidden]
  std::string_view conditioning_gate = {}, conditioning_up = {};  ///< [conditioning_dim, hidden]
  std::string_view conditioning_down = {};                        ///< [hidden, conditioning_dim]
};

/// How llama.cpp's converters write a family into a GGUF file.
struct GgufDialect {
  std::string_view architecture;  ///< "general.architecture"
  /// Mask token of published checkpoints, which converters may leave out; -1: none.
  int64_t published_mask = -1;
  /// The config.json of the same model. Throws InputError.
  nlohmann::json (*read_config)(const GgufKeys& keys);
  LayerTensorNames (*layer)(int64_t layer);
  /// Its generation_config.json; null: keys say nothing of that.
  nlohmann::json (*read_generation)(const GgufKeys& keys) = nullptr;
  /// Whether rows of q and k are stored for rotation of neighbouring pairs of dimensions.
  bool interleaves_rotation = false;
  /// Whether a tensor rope_freqs.weight holds a divisor for each pair's frequency (Llama 3).
  bool divides_frequencies = false;
  /// Whether norms hold 1 + w where the published checkpoint has w.
  bool adds_one_to_norms = false;
  /// Renames tensors whose names differ from the usual ones; null if there are none.
  void (*rename)(TensorNames& names) = nullptr;
};

/// A published config.json without the keys that are not read: a name for random:NAME.
struct PublishedConfig {
  std::string_view name;
  std::string_view json;            ///< of this model, or of one that it differs little from
  std::string_view changes = "{}";  ///< the keys of `json` that differ, and those that it lacks
};

/// A published model's mask, for files that do not name it. Only a vocabulary of this size means that model.
struct PublishedMask {
  TokenId id = -1;
  int64_t vocab_size = 0;
};

/// All that the engine knows of a family but its mathematics. ModelConfig has switches for these.
struct FamilyEntry {
  std::string_view name;          ///< of the family, for people and in ModelConfig: "llada"
  std::string_view architecture;  ///< name in config.json under "architectures"
  /// Everything but the token ids that the files next to config.json add.
  ModelConfig (*read_config)(const JsonObject& json);
  TensorNames tensors;
  /// Texts of the mask token in the tokenizer's files, the most common first.
  std::vector<std::string_view> mask_texts = {};
  std::vector<PublishedMask> published_masks = {};
  /// Texts in the tokenizer's files of the token that becomes two masks, for files whose config.json does not
  /// name it.
  std::vector<std::string_view> expand_texts = {};
  /// Names of tokens that edit, in lower case and without brackets ("delete" for "<|DELETE|>"). A model whose
  /// tokenizer_config.json has one of them needs `expert_capacity`.
  std::vector<std::string_view> edit_names = {};
  std::string_view default_unmask = {};  ///< published --unmask; empty: the family has no such rule
  std::optional<GgufDialect> gguf = {};  ///< empty: no known converter
  /// Keys of config.json, beyond those that no family minds (model/config_keys.h), that read_config() need
  /// not read.
  std::vector<std::string_view> harmless_keys = {};
  /// "model_type" of config.json, in lower case; another contradicts the architecture.
  std::vector<std::string_view> model_types = {};
  /// Whether the transformers library has the class, and it is left to right. A file with code of its own for
  /// it, or with a mask token, is of a diffusion model under a borrowed class.
  bool is_library_class = false;
  std::vector<PublishedConfig> published = {};
};

}  // namespace lacuna
