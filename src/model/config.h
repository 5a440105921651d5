// Contents of a checkpoint's config.json, in one vocabulary for every family. read_config.h reads it.
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
  int64_t experts_per_token = 0;   ///< experts with the largest scores
  int64_t expert_ffn_dim = 0;      ///< inner width of one expert
  bool normalize_weights = false;  ///< whether the chosen experts' scores are rescaled to sum to 1
  bool sigmoid_scores = false;     ///< scores are sigmoid(router x), not softmax(router x)
  bool selection_bias = false;     ///< a learned number per expert joins its score for the choice alone
  int64_t num_groups = 1;          ///< the experts in order, cut into as many equal groups
  int64_t groups_per_token = 1;  ///< groups whose experts may be chosen: the largest sums of two best scores
  float routed_scale = 1;        ///< weights of chosen experts are multiplied by this
  int64_t shared_ffn_dim = 0;    ///< inner width of an expert that every row passes, unweighted; 0: none
  int64_t first_dense_layers = 0;  ///< number of dense layers at the beginning
  /// LLaDA 2.2: the rows of this many consecutive positions, counted from 0, share a pool of experts from
  /// which each chooses; 0: every row chooses among all. Such rows are always computed together.
  int64_t window = 0;
  int64_t experts_per_window = 0;  ///< experts in a window's pool: those with the largest score of any row
  bool router_in_f32 = false;      ///< the router's product is in f32 even where matrices are bf16
  /// Gemma 4: a dense layer of width ModelConfig::ffn_dim and the experts read the same row, each through a
  /// norm of its own, and what they give is normed and added up. The router reads the row through a norm of
  /// its own as well, and each expert's weight is multiplied by a learned number.
  bool parallel_dense = false;

  bool operator==(const MoeConfig&) const = default;
};

/// The published settings of a canvas that is denoised as one block, every row of which sees every row
/// (Sumi).
struct WholeCanvas {
  int64_t length = 2048;  ///< positions: the prompt, the answer, two tokens that close it, and what follows
  int64_t steps = 128;    ///< of the whole canvas

  bool operator==(const WholeCanvas&) const = default;
};

/// GIDD's interpolating noise: at log-SNR l, a token is kept with probability sigmoid(l); otherwise it is
/// uniform over all tokens but the mask with probability sigmoid(l + uniform_shift), else the mask.
struct NoiseProcess {
  float uniform_shift = 0;  ///< +1000: uniform noise alone; -1000: masks alone
  float min_log_snr = -9;
  float max_log_snr = 9;
  std::optional<WholeCanvas> whole_canvas = {};  ///< empty: blocks from left to right

  bool operator==(const NoiseProcess&) const = default;
};

/// Attention layers that see only positions nearby, between those that see everything. They have K/V heads
/// and a rotation of their own.
struct SlidingAttention {
  std::vector<bool> layers;  ///< [num_layers] which they are
  int64_t window = 0;        ///< positions that a row of a causal pass sees, its own included
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  RopeConfig rope;  ///< rotary embedding of all dimensions of a head

  bool operator==(const SlidingAttention&) const = default;
};

/// The published settings of a decoder that denoises canvases of random tokens (DiffusionGemma).
struct CanvasConfig {
  int64_t length = 256;            ///< positions of a canvas
  int64_t conditioning_dim = 0;    ///< inner width of the layer that reads the last pass's distribution
  int64_t steps = 48;              ///< passes of a canvas at most
  float entropy_bound = 0.1F;      ///< nats of the tokens that are accepted together
  float first_temperature = 0.8F;  ///< temperature of the first step; later ones fall in equal steps
  float last_temperature = 0.4F;   ///< temperature that one step after the last would have
  int64_t stable_steps = 1;        ///< passes in a row whose best tokens are those of the pass before
  float stop_entropy = 0.005F;  ///< nats; a canvas is done when its mean entropy is below, and it is stable
  TokenId image_id = -1;        ///< stands for a part of an image, which nothing here reads; -1: none

  bool operator==(const CanvasConfig&) const = default;
};

/// Activation function of the feed-forward layers, between their two matmuls.
enum class Activation : uint8_t {
  kSilu,         ///< silu(gate) * up
  kGeluTanh,     ///< gelu(gate) * up, gelu in the form with tanh
  kSquaredRelu,  ///< max(up, 0)^2, no gate
};

/// Factor of what a layer's matrices give, before a bias is added (GIDD).
enum class ProductScale : uint8_t {
  kOne,
  kByInputs,   ///< 1 / sqrt(width of a row that the matrix reads)
  kByOutputs,  ///< 1 / sqrt(width of a row that it gives)
};

/// An adapter that is merged into the weights as they are read (model/adapters.h).
struct AdapterChoice {
  std::filesystem::path folder;
  float scale = 1;  ///< factor of its low-rank updates

  bool operator==(const AdapterChoice&) const = default;
};

/// All that a forward pass and a decoder need to know about a checkpoint. Every size has been checked to be
/// positive, to fit the others and to be so small that products of any three fit in int64.
struct ModelConfig {
  std::string_view family = "llada";  ///< FamilyEntry::name
  std::string architecture;           ///< as published: "LLaDAModelLM"
  bool gguf_names = false;  ///< tensors have the names that GGUF files give them, not the published ones
  std::optional<DType>
      packed_for;  ///< dtype of the rows, for a packed copy (docs/reference/quantized.md); else empty

  std::vector<AdapterChoice> adapters;  ///< one after the other
  /// Adapters make the head another matrix than the embedding, and the files hold one for both.
  bool head_of_embedding = false;

  int64_t num_layers = 0;
  int64_t hidden_dim = 0;    ///< width of the residual stream
  int64_t num_heads = 0;     ///< query heads
  int64_t num_kv_heads = 0;  ///< divides num_heads; as many query heads share each K/V head
  int64_t head_dim = 0;      ///< even; num_heads * head_dim need not be hidden_dim
  int64_t rotary_dim = 0;    ///< even; dimensions of a head, the first ones, that RoPE turns; 0: head_dim
  int64_t ffn_dim = 0;       ///< inner width of dense feed-forward layers; 0 when all layers have experts
  int64_t vocab_size = 0;    ///< rows of the embedding, those that no token uses included
  int64_t max_positions = 0;

  float norm_eps = 1e-6F;
  RopeConfig rope;
  MoeConfig moe;

  bool qkv_bias = false;          ///< q, k and v projections add a bias
  bool attn_output_bias = false;  ///< the projection after attention adds a bias
  bool qk_norm_per_head = false;  ///< RMSNorm of each head of q and k before RoPE; one weight [head_dim] each
  bool qk_norm_full = false;      ///< RMSNorm of the whole q and k rows before they are split into heads
  bool tied_embeddings = false;   ///< the head is the embedding; an extra head tensor is ignored
  bool causal = false;            ///< trained left to right: a row sees itself and what came before
  /// I-DLM, SDLM: causal, and rows of masks behind a text predict the positions behind theirs; a pass has so
  /// many.
  int64_t mask_drafts = 0;
  /// SDLM: they do so in a window, in which these rows and that of the text's last token see each other.
  bool drafts_see_each_other = false;
  bool plans_slots = false;   ///< ReFusion: causal, and a row with the mask token predicts its own position
  bool block_causal = false;  ///< a row sees its own block of positions and those before; blocks begin at 0
  int64_t block_length = 0;   ///< positions of a block, for block_causal; 0: the family has no blocks
  bool whole_prompt = false;  ///< D2F: the prompt is one block, and the others begin after it
  int64_t sub_block_length = 0;  ///< a block is denoised in stretches of this length; 0: all at once
  /// Nemotron-Labs-Diffusion: what is written is read causally, and the read of a block, whose rows predict
  /// the position after theirs, gives the first token of the next one. Blocks begin after the prompt.
  bool causal_context = false;
  bool shifted_logits = false;          ///< row i - 1 predicts position i (row 0 predicts position 0)
  float embedding_scale = 1;            ///< embeddings are multiplied by this
  bool rounds_embedding_scale = false;  ///< which is a bf16 number where rows are
  float logit_scale = 1;                ///< logits are multiplied by this
  float residual_scale = 1;             ///< factor of the outputs of attention and feed-forward layers
  bool norm_offset = false;             ///< stored norm weights w stand for 1 + w
  bool layer_norm = false;  ///< norms of rows subtract the mean and add a bias (LayerNorm), unlike RMSNorm
  bool kv_sink = false;     ///< each layer has one learned key and value that every row sees, unrotated
  bool zero_sink = false;   ///< the same with zeros: weights are exp(s) / (1 + sum exp(s)), softmax_one
  float attn_soft_cap = 0;  ///< c: scores s become c tanh(s / c) before the softmax; 0: they stay
  Activation activation = Activation::kSilu;
  bool ffn_bias = false;                            ///< up and down add a bias
  ProductScale product_scale = ProductScale::kOne;  ///< of q, k, v, o and the feed-forward layers
  std::optional<float> qkv_clip;  ///< q and k (normed, not yet rotated) and v are clamped to [-clip, clip]

  // Gemma:
  std::optional<SlidingAttention> sliding;  ///< empty: all layers see everything
  bool shares_keys = false;  ///< in layers that see everything, values are the keys before norm and rotation
  bool v_norm = false;       ///< RMSNorm of each head of v, without a weight
  float attn_scale = 0;      ///< factor of the scores; 0: 1 / sqrt(head_dim)
  bool norms_outputs = false;  ///< RMSNorm of what attention and feed-forward layers add
  bool layer_scalars = false;  ///< each layer's residual stream is multiplied by a learned number, of which
                               ///< rows that are denoised have another than those that are read
  float logit_soft_cap = 0;    ///< c: logits l become c tanh(l / c); 0: they stay
  std::optional<CanvasConfig> canvas;  ///< rows that are denoised read the last pass's distribution

  std::optional<NoiseProcess>
      noise;  ///< noise that an interpolating model was trained to remove; empty: masks alone

  Paradigm paradigm() const {
    if (canvas) return Paradigm::kCanvases;
    if (plans_slots) return Paradigm::kSlots;
    if (causal) return Paradigm::kCausal;
    if (noise) return Paradigm::kUniform;
    return block_causal ? Paradigm::kBlocks : Paradigm::kMasked;
  }
  /// Whether any position can be filled at any step.
  bool fills_canvas() const { return paradigm() == Paradigm::kMasked; }
  /// Whether all that follows the prompt is denoised at once as noise (Sumi).
  bool denoises_whole_canvas() const { return noise && noise->whole_canvas; }

  TokenId mask_id = -1;  ///< -1: the model has no mask token
  TokenId bos_id = -1;   ///< -1: none; never added unless a chat template does
  TokenId eos_id = -1;   ///< -1: none; the first that config.json names
  TokenId pad_id = -1;   ///< -1: none
  // Tokens that a model writes to edit its block (LLaDA 2.2) or its canvas (DreamOn), -1: it does not.
  TokenId delete_id = -1;  ///< takes the token of its position out
  TokenId split_id = -1;   ///< puts a mask before the token of its position (LLaDA 2.2)
  TokenId expand_id = -1;  ///< becomes two masks (DreamOn)
  /// Tokens that end an answer, ascending: those that config.json and generation_config.json call eos, and
  /// the end of a chat turn if tokenizer_config.json lists one.
  std::vector<TokenId> end_ids;

  // Answer length from generation_config.json, else from config.json; 0 if neither has one.
  int64_t max_new_tokens = 0;
  int64_t max_length = 0;  ///< of prompt and answer together; used only if max_new_tokens is 0

  // Decoding settings for a run that chooses none, from the object "lacuna" of generation_config.json.
  int32_t diffusion_steps = 0;  ///< RND1: steps of its linear schedule; 0: the family has another schedule
  std::string default_unmask;   ///< --unmask of masked and block diffusion; empty: the family's default
  int32_t default_tokens_per_step = 0;  ///< --tokens-per-step of GIDD and Sumi; 0: the family's default

  /// Keys of config.json that nobody knows and whose values switch nothing on (model/config_keys.h).
  std::vector<std::string> unknown_keys;

  // Layers that see everything:
  int64_t q_dim() const { return num_heads * head_dim; }
  int64_t kv_dim() const { return num_kv_heads * head_dim; }
  // Any layer:
  bool slides(int64_t layer) const { return sliding && sliding->layers[static_cast<size_t>(layer)]; }
  int64_t head_dim_of(int64_t layer) const { return slides(layer) ? sliding->head_dim : head_dim; }
  int64_t num_kv_heads_of(int64_t layer) const {
    return slides(layer) ? sliding->num_kv_heads : num_kv_heads;
  }
  int64_t q_dim_of(int64_t layer) const { return num_heads * head_dim_of(layer); }
  int64_t kv_dim_of(int64_t layer) const { return num_kv_heads_of(layer) * head_dim_of(layer); }
  bool has_value_projection(int64_t layer) const { return !shares_keys || slides(layer); }
  /// Whether any layer does; the first may still be dense.
  bool has_experts() const { return moe.num_experts > 0; }
  bool layer_has_experts(int64_t layer) const { return has_experts() && layer >= moe.first_dense_layers; }
  int64_t num_expert_layers() const {
    return has_experts() ? std::max<int64_t>(num_layers - moe.first_dense_layers, 0) : 0;
  }

  bool operator==(const ModelConfig&) const = default;
};

/// A user's choices for a checkpoint whose config.json does not contain them.
struct ConfigChoices {
  std::vector<std::string> ignored_keys = {};  ///< taken for harmless although they are not known
  /// For architectures that models of several paradigms share. "lacuna": {"paradigm": NAME} in config.json
  /// says the same.
  std::optional<Paradigm> paradigm = {};
  /// A guide or a judge: its tokenizer may be the diffusion model's, mask included.
  bool reads_other_texts = false;
};

/// The texts that read_config() takes from a folder; empty means that the file is absent.
struct ConfigTexts {
  std::string_view config;
  std::string_view generation_config = {};
  std::string_view tokenizer_config = {};
  std::string_view tokenizer = {};  ///< tokenizer.json, of which only the list of added tokens is read
  std::string_view special_tokens_map = {};
  std::string_view added_tokens = {};
};

}  // namespace lacuna
