#include "model/unread_tensors.h"

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/families.h"
#include "model/gguf_model.h"

namespace lacuna {
namespace {

class LayerCheck {
 public:
  LayerCheck(const ModelConfig& config, const WeightSource& weights, std::string_view place)
      : config_(config), weights_(weights), place_(place) {}

  void check(const LayerTensorNames& names) const {
    if (!config_.qkv_bias) {
      for (const std::string& module : {names.q, names.k, names.v, names.qkv})
        expect_absent(module, ".bias", "biases of q, k and v");
    }
    if (!config_.attn_output_bias) expect_absent(names.o, ".bias", "a bias of the output of attention");
    if (!config_.ffn_bias) {
      for (const std::string& module : {names.gate, names.up, names.down})
        expect_absent(module, ".bias", "biases of feed-forward layers");
    }
    if (!config_.qk_norm_per_head && !config_.qk_norm_full) {
      for (const std::string& module : {names.q_norm, names.k_norm})
        expect_absent(module, ".weight", "norms of q and k");
    }
    if (!config_.layer_norm) {
      for (const std::string& module : {names.attn_norm, names.ffn_norm})
        expect_absent(module, ".bias", "biases of norms");
    }
    if (!config_.kv_sink) {
      for (const std::string& tensor : {names.k_sink, names.v_sink})
        expect_absent(tensor, "", "learned keys and values");
    }
    if (!config_.moe.selection_bias) expect_absent(names.expert_bias, "", "a bias of experts");
    if (config_.moe.shared_ffn_dim == 0) expect_absent(names.shared.down, ".weight", "a shared expert");
  }

 private:
  void expect_absent(const std::string& module, std::string_view suffix, std::string_view part) const {
    const std::string tensor = module + std::string(suffix);
    if (module.empty() || !weights_.contains(tensor)) return;
    throw InputError(
        "{}: holds tensor {}, and its configuration describes a model without {}; expected both to agree",
        place_, in_quotes(tensor), part);
  }

  const ModelConfig& config_;
  const WeightSource& weights_;
  std::string_view place_;
};

/// Throws InputError if embeddings are tied but the checkpoint has a different head: other programs disagree
/// on which of the two to use.
void expect_no_other_head(const ModelConfig& config, const WeightSource& weights, const TensorNames& names,
                          std::string_view place) {
  const std::string head = std::string(names.head) + ".weight";
  if (!config.tied_embeddings || names.head.empty() || !weights.contains(head)) return;
  const auto open = [&](std::string_view module) {
    return weights.matrix(module, config.vocab_size, config.hidden_dim);
  };
  const std::unique_ptr<StoredMatrix> embedding = open(names.embedding), other = open(names.head);
  std::vector<float> row(static_cast<size_t>(config.hidden_dim)), other_row(row.size());
  for (int64_t n = 0; n < config.vocab_size; ++n) {
    embedding->read(n, row.data());
    other->read(n, other_row.data());
    if (row == other_row) continue;
    throw InputError(
        "{}: holds tensor {}, which differs from {}, and its configuration says that they are one "
        "(\"tie_word_embeddings\"); expected copies, or --ignore-config-keys tie_word_embeddings to compute "
        "with the former",
        place, in_quotes(head), in_quotes(std::string(names.embedding) + ".weight"));
  }
  weights.release_pages();
}

}  // namespace

void expect_no_unread_tensors(const ModelConfig& config, const WeightSource& weights,
                              std::string_view place) {
  const TensorNames names =
      config.gguf_names ? gguf_tensor_names(config.family) : family_entry(config.family).tensors;
  const std::string after = names.layer(config.num_layers).attn_norm + ".weight";
  if (weights.contains(after)) {
    throw InputError(
        "{}: holds tensor {}, and its configuration describes a model of {} layers; expected both to agree",
        place, in_quotes(after), config.num_layers);
  }
  expect_no_other_head(config, weights, names, place);
  const LayerCheck layers(config, weights, place);
  for (int64_t layer = 0; layer < config.num_layers; ++layer) layers.check(names.layer(layer));
}

}  // namespace lacuna
