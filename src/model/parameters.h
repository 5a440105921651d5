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
  float scale = 1;          ///< of the product, before the bias is added

  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
};

/// down(f(x)), where f is as ModelConfig::activation says.
struct FeedForward {
  Linear gate, up, down;
};

/// Norms of rows have weights [hidden], with their biases [hidden] behind them where ModelConfig::layer_norm.
struct LayerParameters {
  std::vector<float> attn_norm;  ///< [hidden]
  Linear q, k, v, o;
  std::vector<float> q_norm, k_norm;  ///< [head_dim] or the whole width; empty where the family has none
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

/// Turns the mean embedding under the last pass's distribution into what is added to a row that is denoised.
struct Conditioning {
  std::vector<float> norm;  ///< [hidden]
  FeedForward ffn;
};

struct Parameters {
  // Matrices that other ranks keep are empty.
  PackedMatrix embedding;               ///< [vocab, hidden]; a pass copies rows out of it
  std::vector<LayerParameters> layers;  ///< of the whole model
  std::vector<float> final_norm;        ///< [hidden]
  PackedMatrix own_head;                ///< [vocab, hidden]; empty where the head is the embedding
  std::optional<Conditioning> conditioning;

  const PackedMatrix& head() const { return own_head.bytes() > 0 ? own_head : embedding; }
  int64_t bytes() const;
  /// The panels that lie in mapped files. A page of them is read when it is first needed, and the system may
  /// take it back.
  std::vector<std::span<const std::byte>> mapped_panels() const;
};

/// Storage formats of the matrices. A dtype alone means all of them, except that those of a checkpoint that
/// is quantized stay as stored.
struct WeightFormats {
  DType dtype = DType::kBF16;               ///< kF32 or kBF16, of rows and K/V, and so of every dense matrix
  std::optional<WeightFormat> layers = {};  ///< projections and feed-forward layers, experts included
  std::optional<WeightFormat> embedding = {};  ///< embedding and head
  bool kv_int8 = false;                        ///< K/V cells of 8 bits; see KvShape
  bool int8_activations = false;  ///< rows of 8 bits where weights are quantized; see KernelContext

  WeightFormats(DType all) : dtype(all) {}  // NOLINT: that is what a dtype says
};

/// Called as parameters arrive: how many of how many are ready.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

/// Takes a model's layers as they become ready, in ascending order, so that they need not be in memory
/// together.
using LayerSink = std::function<void(int64_t layer, LayerParameters parameters)>;

/// Weights and biases as numbers; norms and biases are not counted into bytes.
int64_t count_parameters(const ModelConfig& config);

/// Bytes of a matrix [outputs, inputs] in a format, as a backend keeps it.
using MatrixBytes = std::function<int64_t(const WeightFormat& format, int64_t outputs, int64_t inputs)>;

/// Bytes of the matrices once packed, as load_parameters() will have them, or as another backend keeps them.
///   stored  the checkpoint, whose formats stay where `formats` names no other; null: a dense one
///   part    whose matrices are counted
int64_t predicted_bytes(const ModelConfig& config, const WeightFormats& formats,
                        const WeightSource* stored = nullptr, const ModelPart& part = {},
                        const MatrixBytes& bytes_of = packed_bytes);

/// Packs a checkpoint's tensors one by one, each straight from its file; those that lie there in panels of
/// the format that is wanted are mapped. Routers stay dense (and may ask for f32); norms and biases are f32.
/// Throws InputError where a tensor is missing or has another shape than the config says.
///   part        whose matrices are kept; of the others no row is read
///   take_layer  gets each layer, which the result then lacks; empty: the result has all
Parameters load_parameters(const ModelConfig& config, const WeightSource& source,
                           const WeightFormats& formats, ThreadPool& threads, const LoadProgress& progress,
                           const ModelPart& part = {}, const LayerSink& take_layer = {});

/// Takes the tensors of a packed copy as they become ready.
using PackedTensorSink = std::function<void(HeldTensors)>;

/// Packs as load_parameters() does and holds one module at a time: matrices in panels, under their modules'
/// names (weights/panel_tensors.h), and everything else in f32, as it is stored.
void pack_parameters(const ModelConfig& config, const WeightSource& source, const WeightFormats& formats,
                     ThreadPool& threads, const LoadProgress& progress, const PackedTensorSink& write);

/// Random weights of the config's shapes, the same for the same config and seed: uniform, scaled so that
/// activations keep their size from layer to layer and logits spread over several units. All values are bf16
/// numbers, so both dtypes hold the same model.
///   part, take_layer  as load_parameters() has them
Parameters random_parameters(const ModelConfig& config, uint64_t seed, const WeightFormats& formats,
                             ThreadPool& threads, const LoadProgress& progress, const ModelPart& part = {},
                             const LayerSink& take_layer = {});

}  // namespace lacuna
