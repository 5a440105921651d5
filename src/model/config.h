// Contents of a checkpoint's config.json, with the same fields for every family. read_config.h reads it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/token.h"
#include "model/paradigm.h"
#include "model/rope.h"

namespace lacuna {

/// Feed-forward layers of experts, of which a router picks some for each row. A row's output is the sum of
/// the chosen experts' outputs, each times its weight, and of the shared expert's.
struct MoeConfig {
  int64_t num_experts = 0;         ///< 0: all layers are dense, of width ModelConfig::ffn_dim
  int64_t experts_per_token = 0;   ///< chosen experts: those with the largest scores
  int64_t expert_ffn_dim = 0;      ///< inner width of one expert
  bool normalize_weights = false;  ///< whether the chosen experts' scores are rescaled to sum to 1
  bool sigmoid_scores = false;     ///< scores are sigmoid(router x), not softmax(router x)
  bool selection_bias = false;     ///< a learned bias per expert is added to its score for the choice only
  int64_t num_groups = 1;          ///< equal groups of consecutive experts
  int64_t groups_per_token = 1;    ///< candidate groups: those with the largest sum of two best scores
  float routed_scale = 1;          ///< weights of chosen experts are multiplied by this
  int64_t shared_ffn_dim = 0;      ///< inner width of the shared expert, which every row passes; 0: none
  int64_t first_dense_layers = 0;  ///< number of dense layers at the beginning
  /// LLaDA 2.2: each window of this many consecutive positions, counted from 0, has a pool of experts from
  /// which its rows choose; 0: rows choose among all experts. Rows of a window are always computed together.
  int64_t window = 0;
  int64_t experts_per_window = 0;  ///< experts in a window's pool: those with the largest score of any row
  bool router_in_f32 = false;      ///< the router's matmul is in f32 even if matrices are bf16
  /// Gemma 4: a dense layer of width ModelConfig::ffn_dim runs next to the experts. Dense layer, experts and
  /// router each have their own norm of the input row. The outputs of dense layer and experts are normed and
  /// added. Each expert's weight is multiplied by a learned number.
  bool parallel_dense = false;

  bool operator==(const MoeConfig&) const = default;
};

/// Published settings of a canvas that is denoised as one block, in which every row attends to every row
/// (Sumi).
struct WholeCanvas {
  int64_t length = 2048;  ///< positions: prompt, answer, two tokens that close it, and the rest
  int64_t steps = 128;    ///< denoising steps of the whole canvas

  bool operator==(const WholeCanvas&) const = default;
};

/// GIDD's interpolating noise: at log-SNR l, a token is kept with probability sigmoid(l); otherwise it is
/// uniform over all tokens but the mask with probability sigmoid(l + uniform_shift), else the mask.
struct NoiseProcess {
  float uniform_shift = 0;  ///< +1000: only uniform noise; -1000: only masks
  float min_log_snr = -9;
  float max_log_snr = 9;
  std::optional<WholeCanvas> whole_canvas = {};  ///< empty: blocks are denoised from left to right

  bool operator==(const NoiseProcess&) const = default;
};

/// Sliding-window attention layers, which alternate with full-attention layers. They have their own K/V heads
/// and rotation.
struct SlidingAttention {
  std::vector<bool> layers;  ///< [num_layers] whether the layer has sliding-window attention
  int64_t window = 0;        ///< positions that a row of a causal pass attends to, including its own
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  RopeConfig rope;  ///< rotary embedding of all dimensions of a head

  bool operator==(const SlidingAttention&) const = default;
};

/// Layers with a gated short convolution in place of attention (LFM2): a row reads its own cell and the cells
/// before it.
struct ShortConvolution {
  std::vector<bool> layers;  ///< [num_layers] whether the layer convolves
  int64_t taps = 3;          ///< cells that a row reads, its own included

  bool operator==(const ShortConvolution&) const = default;
};

/// A canvas whose steps sample from the posterior of uniform noise, and whose last pass reads it out
/// (LFM2.5-Diffusion). Every layer scales, shifts and gates its rows by their noise level (adaLN), and
/// self-conditioning has no gate.
struct AncestralCanvas {
  int64_t noise_dim = 256;        ///< width of the noise level's embedding
  int64_t frequency_dim = 256;    ///< even; cosines and sines that embed a noise level
  bool conditioning_bias = true;  ///< whether the first matrix of self-conditioning adds a bias
  int64_t num_tokens = 0;         ///< tokens that are sampled; the rest of the vocabulary is never written

  bool operator==(const AncestralCanvas&) const = default;
};

/// Published settings of a decoder that denoises canvases of random tokens (DiffusionGemma, LFM2.5).
struct CanvasConfig {
  int64_t length = 256;            ///< positions of a canvas
  int64_t conditioning_dim = 0;    ///< inner width of the self-conditioning layer
  int64_t steps = 48;              ///< maximum number of passes per canvas
  float entropy_bound = 0.1F;      ///< nats; bounds the total entropy of the tokens accepted together
  float first_temperature = 0.8F;  ///< temperature of the first step; later ones fall in equal steps
  float last_temperature = 0.4F;   ///< temperature that one step after the last would have
  int64_t stable_steps = 1;     ///< consecutive passes with unchanged best tokens that make a canvas stable
  float stop_entropy = 0.005F;  ///< nats; a stable canvas is done when its mean entropy is below this
  TokenId image_id = -1;        ///< placeholder for a part of an image, which is not supported; -1: none
  std::optional<AncestralCanvas> ancestral = {};  ///< empty: tokens are accepted by their entropy

  bool operator==(const CanvasConfig&) const = default;
};

/// Activation function of the feed-forward layers, between their two matmuls.
enum class Activation : uint8_t {
  kSilu,         ///< silu(gate) * up
  kGeluTanh,     ///< gelu(gate) * up, with the tanh approximation
  kSquaredRelu,  ///< max(up, 0)^2, no gate
};

/// Factor of a layer's matmul outputs, before a bias is added (GIDD).
enum class ProductScale : uint8_t {
  kOne,
  kByInputs,   ///< 1 / sqrt(inputs of the matrix)
  kByOutputs,  ///< 1 / sqrt(outputs of the matrix)
};

/// An adapter that is merged into the weights while these are read (model/adapters.h).
struct AdapterChoice {
  std::filesystem::path folder;
  float scale = 1;  ///< factor of its low-rank updates

  bool operator==(const AdapterChoice&) const = default;
};

/// Everything that a forward pass and a decoder need to know about a checkpoint. Sizes have been checked:
/// positive, consistent with each other, and small enough that products of any three fit in int64.
struct ModelConfig {
  std::string_view family = "llada";  ///< FamilyEntry::name
  std::string architecture;           ///< as published: "LLaDAModelLM"
  bool gguf_names = false;            ///< tensors have the names of GGUF files, not the published ones
  std::optional<DType>
      packed_for;  ///< activation dtype of a packed copy (docs/reference/quantized.md); else empty

  std::vector<AdapterChoice> adapters;  ///< in the order in which they are merged
  /// Whether adapters make embedding and head differ although the files hold one matrix for both.
  bool head_from_embedding_matrix = false;

  int64_t num_layers = 0;
  int64_t hidden_dim = 0;    ///< width of the residual stream
  int64_t num_heads = 0;     ///< query heads
  int64_t num_kv_heads = 0;  ///< divides num_heads: grouped-query attention
  int64_t head_dim = 0;      ///< even; num_heads * head_dim need not be hidden_dim
  int64_t rotary_dim = 0;    ///< even; number of leading dimensions of a head that RoPE rotates; 0: head_dim
  int64_t ffn_dim = 0;       ///< inner width of dense feed-forward layers; 0 if all layers have experts
  int64_t vocab_size = 0;    ///< rows of the embedding, including those without a token
  int64_t max_positions = 0;

  float norm_eps = 1e-6F;
  RopeConfig rope;
  MoeConfig moe;

  bool qkv_bias = false;          ///< q, k and v projections add a bias
  bool attn_output_bias = false;  ///< the projection after attention adds a bias
  bool qk_norm_per_head = false;  ///< RMSNorm of each head of q and k before RoPE; one weight [head_dim] each
  bool qk_norm_full = false;      ///< RMSNorm of the whole q and k rows before they are split into heads
  bool tied_embeddings = false;   ///< the head is the embedding; an extra head tensor is ignored
  bool causal = false;            ///< autoregressive: a row attends to itself and earlier positions
  /// I-DLM, SDLM (causal): mask rows per pass, which follow the text and predict the positions after their
  /// own.
  int64_t mask_drafts = 0;
  /// SDLM: the mask rows and the row of the text's last token attend to each other.
  bool drafts_see_each_other = false;
  bool plans_slots = false;      ///< ReFusion: causal; a row with the mask token predicts its own position
  bool block_causal = false;     ///< a row attends to its own and earlier blocks; blocks begin at 0
  int64_t block_length = 0;      ///< positions of a block, for block_causal; 0: the family has no blocks
  bool whole_prompt = false;     ///< D2F: the prompt is the first block
  int64_t sub_block_length = 0;  ///< length of parts of a block, denoised in turn; 0: whole blocks
  /// Nemotron-Labs-Diffusion: finished text is read causally, with shifted logits: the pass over a finished
  /// block gives the first token of the next block. Blocks begin after the prompt.
  bool causal_context = false;
  bool shifted_logits = false;          ///< row i - 1 predicts position i (row 0 predicts position 0)
  float embedding_scale = 1;            ///< embeddings are multiplied by this
  bool rounds_embedding_scale = false;  ///< embedding_scale is rounded to bf16 if activations are
  float logit_scale = 1;                ///< logits are multiplied by this
  float residual_scale = 1;             ///< factor of the outputs of attention and feed-forward layers
  bool norm_offset = false;             ///< norms multiply by 1 + w for a stored weight w
  bool layer_norm = false;              ///< LayerNorm with a bias in place of RMSNorm for rows
  bool kv_sink = false;  ///< each layer has one learned key and value that every row attends to, without RoPE
  bool zero_sink = false;   ///< a sink with score and value 0 (softmax_one): exp(s) / (1 + sum exp(s))
  float attn_soft_cap = 0;  ///< c: scores s become c tanh(s / c) before the softmax; 0: no cap
  Activation activation = Activation::kSilu;
  bool ffn_bias = false;                            ///< up and down add a bias
  ProductScale product_scale = ProductScale::kOne;  ///< for q, k, v, o and the feed-forward layers
  std::optional<float> qkv_clip;  ///< q and k (normed, not yet rotated) and v are clamped to [-clip, clip]

  // Gemma:
  std::optional<SlidingAttention> sliding;  ///< empty: all layers have full attention
  bool shares_keys = false;    ///< in full-attention layers, values are the keys before norm and rotation
  bool v_norm = false;         ///< RMSNorm of each head of v, without a weight
  float attn_scale = 0;        ///< factor of the scores; 0: 1 / sqrt(head_dim)
  bool norms_outputs = false;  ///< RMSNorm of the outputs of attention and feed-forward layers
  bool layer_scalars = false;  ///< each layer's residual stream is multiplied by a learned number: one for
                               ///< denoised rows, another for the prompt and finished canvases
  float logit_soft_cap = 0;    ///< c: logits l become c tanh(l / c); 0: no cap
  std::optional<CanvasConfig> canvas;  ///< for models with self-conditioned canvases; else empty

  std::optional<NoiseProcess> noise;  ///< noise that the model was trained to remove; empty: only masks
  std::optional<ShortConvolution> convolution;  ///< empty: all layers attend

  Paradigm paradigm() const {
    if (canvas) return Paradigm::kCanvases;
    if (plans_slots) return Paradigm::kSlots;
    if (causal) return Paradigm::kCausal;
    if (noise) return Paradigm::kUniform;
    return block_causal ? Paradigm::kBlocks : Paradigm::kMasked;
  }
  /// Whether any position can be filled at any step.
  bool fills_canvas() const { return paradigm() == Paradigm::kMasked; }
  /// Whether layers depend on the noise level of their rows.
  bool knows_noise_levels() const { return canvas && canvas->ancestral; }
  /// Whether everything after the prompt is denoised at once as noise (Sumi).
  bool denoises_whole_canvas() const { return noise && noise->whole_canvas; }

  TokenId mask_id = -1;  ///< -1: the model has no mask token
  TokenId bos_id = -1;   ///< -1: none; never added unless a chat template does
  TokenId eos_id = -1;   ///< -1: none; the first eos token in config.json
  TokenId pad_id = -1;   ///< -1: none
  // Tokens that edit a block (LLaDA 2.2) or a canvas (DreamOn); -1: none.
  TokenId delete_id = -1;  ///< deletes its position
  TokenId split_id = -1;   ///< inserts a mask before its position (LLaDA 2.2)
  TokenId expand_id = -1;  ///< becomes two masks (DreamOn)
  /// Tokens that end an answer, ascending: the eos tokens of config.json and generation_config.json, and the
  /// end of a chat turn if tokenizer_config.json lists one.
  std::vector<TokenId> end_ids;

  // Answer length from generation_config.json, else from config.json; 0 if neither has one.
  int64_t max_new_tokens = 0;
  int64_t max_length = 0;  ///< total length of prompt and answer; used only if max_new_tokens is 0

  // Default decoding settings, from the object "lacuna" of generation_config.json.
  int32_t diffusion_steps = 0;  ///< RND1: steps of its linear schedule; 0: the family has another schedule
  std::string default_unmask;   ///< --unmask of masked and block diffusion; empty: the family's default
  int32_t default_tokens_per_step = 0;  ///< --tokens-per-step of GIDD and Sumi; 0: the family's default

  /// Unknown keys of config.json whose values switch nothing on (model/config_keys.h).
  std::vector<std::string> unknown_keys;

  // Full-attention layers:
  int64_t q_dim() const { return num_heads * head_dim; }
  int64_t kv_dim() const { return num_kv_heads * head_dim; }
  // Any layer:
  bool slides(int64_t layer) const { return sliding && sliding->layers[static_cast<size_t>(layer)]; }
  bool convolves(int64_t layer) const {
    return convolution && convolution->layers[static_cast<size_t>(layer)];
  }
  /// A cell of a layer that convolves holds [hidden_dim] inputs of the convolution: a key and a value of one
  /// head, each one half of them.
  int64_t head_dim_of(int64_t layer) const {
    if (convolves(layer)) return hidden_dim / 2;
    return slides(layer) ? sliding->head_dim : head_dim;
  }
  int64_t num_kv_heads_of(int64_t layer) const {
    if (convolves(layer)) return 1;
    return slides(layer) ? sliding->num_kv_heads : num_kv_heads;
  }
  /// 0 in layers that convolve.
  int64_t q_dim_of(int64_t layer) const { return convolves(layer) ? 0 : num_heads * head_dim_of(layer); }
  int64_t kv_dim_of(int64_t layer) const { return num_kv_heads_of(layer) * head_dim_of(layer); }
  bool has_value_projection(int64_t layer) const { return !shares_keys || slides(layer); }
  /// Whether any layer has experts; the first layers may still be dense.
  bool has_experts() const { return moe.num_experts > 0; }
  bool layer_has_experts(int64_t layer) const { return has_experts() && layer >= moe.first_dense_layers; }
  int64_t num_expert_layers() const {
    return has_experts() ? std::max<int64_t>(num_layers - moe.first_dense_layers, 0) : 0;
  }

  bool operator==(const ModelConfig&) const = default;
};

/// A user's settings that config.json does not contain.
struct ConfigChoices {
  std::vector<std::string> ignored_keys = {};  ///< unknown keys to treat as harmless
  /// For architectures of several paradigms. Equivalent to "lacuna": {"paradigm": NAME} in config.json.
  std::optional<Paradigm> paradigm = {};
  /// For a guide or judge model, whose tokenizer may be the diffusion model's, including the mask.
  bool reads_other_texts = false;
};

/// The texts that read_config() takes from a folder; empty means that the file is absent.
struct ConfigTexts {
  std::string_view config;
  std::string_view generation_config = {};
  std::string_view tokenizer_config = {};
  std::string_view tokenizer = {};  ///< tokenizer.json; only its list of added tokens is read
  std::string_view special_tokens_map = {};
  std::string_view added_tokens = {};
};

}  // namespace lacuna
