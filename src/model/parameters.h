// A checkpoint's weights, packed for the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/threads.h"
#include "model/config.h"
#include "weights/checkpoint.h"
#include "weights/packed_matrix.h"

namespace lacuna {

/// A matrix and its bias, if it has one.
struct Linear {
  PackedMatrix weight;      ///< [outputs, inputs]
  std::vector<float> bias;  ///< [outputs] or empty

  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
};

/// silu(gate x) * (up x), or max(up x, 0)^2 where there is no gate; then down.
struct FeedForward {
  Linear gate, up, down;
};

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
  FeedForward shared_expert;         ///< of width 0 where the family has none
};

/// Rows of the embedding, unpacked: a pass copies rows out of it.
class Embedding {
 public:
  template <typename ReadRow>
  Embedding(ThreadPool& threads, DType dtype, int64_t rows, int64_t dim, ReadRow&& read_row)
      : dtype_(dtype), dim_(dim), memory_(rows * dim * static_cast<int64_t>(size_of(dtype))) {
    threads.parallel_for(rows, [&](int64_t row, int) {
      thread_local std::vector<float> values;
      values.resize(static_cast<size_t>(dim));
      read_row(row, values.data());
      store(row, values.data());
    });
  }

  /// out  [dim] f32
  void read(TokenId token, float* out) const;
  int64_t bytes() const { return memory_.size(); }

 private:
  void store(int64_t row, const float* values);

  DType dtype_;
  int64_t dim_;
  Buffer<std::byte> memory_;
};

struct Parameters {
  Embedding embedding;
  std::vector<LayerParameters> layers;
  std::vector<float> final_norm;  ///< [hidden]
  PackedMatrix head;              ///< [vocab, hidden]

  int64_t bytes() const;
};

/// Called as parameters arrive: how many of how many are ready.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

/// Weights and biases as numbers; norms and biases are not counted into bytes.
int64_t count_parameters(const ModelConfig& config);

/// Packs a checkpoint's tensors one by one, each straight from its file.
///   dtype  kF32 or kBF16, of matrices (but a router may ask for f32); norms and biases are f32
/// Throws InputError where a tensor is missing or has another shape than the config says.
Parameters load_parameters(const ModelConfig& config, const Checkpoint& checkpoint, DType dtype,
                           ThreadPool& threads, const LoadProgress& progress);

/// Random weights of the config's shapes, the same for the same config and seed: uniform, scaled so that
/// activations keep their size from layer to layer and logits spread over several units. All values are bf16
/// numbers, so both dtypes hold the same model.
Parameters random_parameters(const ModelConfig& config, uint64_t seed, DType dtype, ThreadPool& threads,
                             const LoadProgress& progress);

}  // namespace lacuna
