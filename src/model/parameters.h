// A checkpoint's weights, packed for the machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/threads.h"
#include "model/config.h"
#include "model/families.h"
#include "model/part.h"
#include "weights/checkpoint.h"
#include "weights/packed_matrix.h"
#include "weights/shard_writer.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// A matrix and its bias, if it has one.
struct Linear {
  PackedMatrix weight;      ///< [outputs, inputs]
  std::vector<float> bias;  ///< [outputs] or empty
  float scale = 1;          ///< factor of the matmul's output, before the bias is added

  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
};

/// down(activation(gate(x), up(x))); see ModelConfig::activation.
struct FeedForward {
  Linear gate, up, down;
};

/// Maps a row's noise level to the scale, shift and gate of each layer (adaLN).
struct NoiseEmbedding {
  Linear in, out, projection;  ///< [noise_dim, frequency_dim], [noise_dim, noise_dim], [3 hidden, noise_dim]
  std::vector<float> layers;   ///< [layers, 3 hidden], added to the projection
};

/// Parameters of a layer. Norms of rows have weights [hidden], followed by biases [hidden] if
/// ModelConfig::layer_norm.
struct LayerParameters {
  std::vector<float> attn_norm;  ///< [hidden]
  /// In layers that convolve, [hidden, hidden] each: v is the input, k and q gate it before and after.
  Linear q, k, v, o;
  std::vector<float> taps;            ///< [taps, hidden], the own cell's last; empty in layers that attend
  std::vector<float> q_norm, k_norm;  ///< [head_dim] or the whole width; empty if the family has none
  std::vector<float> k_sink, v_sink;  ///< [kv_dim] or empty
  std::vector<float> ffn_norm;        ///< [hidden]
  FeedForward ffn;                    ///< dense layers
  // Layers of experts:
  Linear router;
  std::vector<float> expert_bias;    ///< [experts] or empty
  std::vector<FeedForward> experts;  ///< empty in dense layers
  FeedForward shared_expert;         ///< width 0 if the family has none

  // Gemma; empty, or 1, elsewhere:
  std::vector<float> post_attn_norm, post_ffn_norm;  ///< [hidden]
  std::vector<float> post_dense_norm;                ///< [hidden]
  std::vector<float> expert_norm, post_expert_norm;  ///< [hidden]
  std::vector<float> router_norm;                    ///< [hidden]
  std::vector<float> expert_scale;                   ///< [experts]
  float layer_scalar = 1, encoder_scalar = 1;
};

/// Self-conditioning: maps the soft embedding of the last pass to a vector that is added to a denoised row.
struct Conditioning {
  std::vector<float> norm;  ///< [hidden]
  FeedForward ffn;
};

struct Parameters {
  // Matrices of other ranks are empty.
  PackedMatrix embedding;               ///< [vocab, hidden]; a pass copies rows out of it
  std::vector<LayerParameters> layers;  ///< layers of the whole model
  std::vector<float> final_norm;        ///< [hidden]
  PackedMatrix own_head;                ///< [vocab, hidden]; empty if the embedding is the head
  std::optional<Conditioning> conditioning;
  std::optional<NoiseEmbedding> noise;

  const PackedMatrix& head() const { return own_head.bytes() > 0 ? own_head : embedding; }
  int64_t bytes() const;
  /// The panels in mapped files, whose pages are read on first use and may be evicted.
  std::vector<std::span<const std::byte>> mapped_panels() const;
};

/// Storage formats of the matrices. A dtype alone applies to all of them, but quantized matrices of a
/// checkpoint keep their format.
struct WeightFormats {
  DType dtype = DType::kBF16;                  ///< kF32 or kBF16, of activations, K/V and dense matrices
  std::optional<WeightFormat> layers = {};     ///< projections and feed-forward layers, experts included
  std::optional<WeightFormat> embedding = {};  ///< embedding and head
  bool kv_int8 = false;                        ///< int8 K/V cells; see KvShape
  bool int8_activations = false;               ///< int8 activations for quantized weights; see KernelContext

  WeightFormats(DType all) : dtype(all) {}  // NOLINT: a dtype is a format for all
};

/// Called during loading with the number of parameters loaded so far.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

/// Receives a model's layers in ascending order as they are loaded, so that not all are in memory together.
using LayerSink = std::function<void(int64_t layer, LayerParameters parameters)>;

/// Number of parameters, including norms and biases, which Parameters::bytes() leaves out.
int64_t count_parameters(const ModelConfig& config);

/// Bytes of a matrix [outputs, inputs] in a backend's representation of a format.
using MatrixBytes = std::function<int64_t(const WeightFormat& format, int64_t outputs, int64_t inputs)>;

/// Bytes of the packed matrices, as load_parameters() or another backend keeps them.
///   stored  the checkpoint, whose formats apply where `formats` has none; null: a dense checkpoint
///   part    the part whose matrices are counted
int64_t predicted_bytes(const ModelConfig& config, const WeightFormats& formats,
                        const WeightSource* stored = nullptr, const ModelPart& part = {},
                        const MatrixBytes& bytes_of = packed_bytes);

/// Packs a checkpoint's tensors one by one from its files. Matrices already stored as panels of the requested
/// format are mapped. Routers stay dense (and may require f32); norms and biases are f32. Throws InputError
/// if a tensor is missing or has another shape than the config says.
///   part        the part whose matrices are kept; rows of others are not read
///   take_layer  receives each layer, which the result then lacks; empty: the result has all layers
Parameters load_parameters(const ModelConfig& config, const WeightSource& source,
                           const WeightFormats& formats, ThreadPool& threads, const LoadProgress& progress,
                           const ModelPart& part = {}, const LayerSink& take_layer = {});

/// Receives the tensors of a packed copy as they become ready.
using PackedTensorSink = std::function<void(HeldTensors)>;

/// Packs as load_parameters() does, but writes the tensors and holds one module at a time. Matrices become
/// panels named after their modules (weights/panel_tensors.h). Everything else is written as stored, in f32.
void pack_parameters(const ModelConfig& config, const WeightSource& source, const WeightFormats& formats,
                     ThreadPool& threads, const LoadProgress& progress, const PackedTensorSink& write);

/// Random weights of the config's shapes, deterministic for config and seed. They are uniform and scaled so
/// that activations keep their magnitude across layers and logits spread over several units. All values are
/// exact in bf16, so both dtypes hold the same model.
///   part, take_layer  as load_parameters() has them
Parameters random_parameters(const ModelConfig& config, uint64_t seed, const WeightFormats& formats,
                             ThreadPool& threads, const LoadProgress& progress, const ModelPart& part = {},
                             const LayerSink& take_layer = {});

}  // namespace lacuna
