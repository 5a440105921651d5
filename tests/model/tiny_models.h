// Small models and the files under tests/golden/, for tests of everything that runs a forward pass.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/threads.h"
#include "cache/kv_cache.h"
#include "kernels/dispatch.h"
#include "model/model.h"

namespace lacuna {

inline const std::vector<std::string>& golden_families() {
  static const std::vector<std::string> names = {"llada",     "llada_moe", "dream", "qwen2",     "qwen3",
                                                 "qwen3_moe", "rnd1",      "coda",  "a2d_qwen3", "llama"};
  return names;
}

/// Block diffusion: the logits alone, in the blocks that tokens.json says.
inline const std::vector<std::string>& golden_block_families() {
  static const std::vector<std::string> names = {"fast_dllm", "llada2", "sdar_moe", "a2d_qwen2", "diffcoder"};
  return names;
}

inline std::filesystem::path golden_folder(const std::string& family) {
  return std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/golden" / family;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline nlohmann::json read_golden_json(const std::string& family, const std::string& file) {
  return nlohmann::json::parse(read_text(golden_folder(family) / file));
}

/// What the reference wrote as [rows, cols].
inline std::vector<float> golden_matrix(const std::string& family, const std::string& file, int64_t rows,
                                        int64_t cols) {
  const std::string bytes = read_text(golden_folder(family) / file);
  const size_t start = bytes.find('\n') + 1;
  std::vector<float> values(static_cast<size_t>(rows * cols));
  if (bytes.compare(1, 5, "NUMPY") != 0 || bytes.find("'<f4'") == std::string::npos ||
      bytes.size() - start != values.size() * sizeof(float)) {
    throw std::runtime_error(file + " of " + family + " is not float32 [rows, cols]");
  }
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(start), bytes.end(),
            reinterpret_cast<char*>(values.data()));
  return values;
}

/// The reference's logits [rows, vocab].
inline std::vector<float> golden_logits(const std::string& family, int64_t rows, int64_t vocab) {
  return golden_matrix(family, "logits.npy", rows, vocab);
}

/// A tiny config of each kind, with sizes that are no multiples of anything: widths of heads that do not add
/// up to the hidden width, odd vocabularies and feed-forward widths, one layer, shared K/V heads.
inline std::vector<ModelConfig> tiny_configs() {
  ModelConfig plain;
  plain.family = "llada";
  plain.num_layers = 2;
  plain.hidden_dim = 36;
  plain.num_heads = 3;
  plain.num_kv_heads = 3;
  plain.head_dim = 12;
  plain.ffn_dim = 45;
  plain.vocab_size = 97;
  plain.max_positions = 4096;
  plain.norm_eps = 1e-5F;
  plain.mask_id = 90;
  plain.eos_id = 89;
  plain.end_ids = {88, 89};

  ModelConfig scaled = plain;  // every multiplier and clamp that a family may ask for
  scaled.qk_norm_full = true;
  scaled.embedding_scale = 1.5F;
  scaled.logit_scale = 0.75F;
  scaled.qkv_clip = 1.25F;
  scaled.num_kv_heads = 1;

  ModelConfig experts = plain;
  experts.family = "llada-moe";
  experts.hidden_dim = 40;
  experts.num_heads = 2;
  experts.num_kv_heads = 1;
  experts.head_dim = 14;
  experts.ffn_dim = 0;
  experts.moe = {7, 3, 21, false};
  experts.qk_norm_per_head = true;

  ModelConfig normalized_experts = experts;
  normalized_experts.moe.normalize_weights = true;
  normalized_experts.num_layers = 1;

  ModelConfig dream = plain;
  dream.family = "dream";
  dream.num_layers = 1;
  dream.hidden_dim = 28;
  dream.num_heads = 4;
  dream.num_kv_heads = 2;
  dream.head_dim = 10;
  dream.vocab_size = 131;
  dream.qkv_bias = true;
  dream.shifted_logits = true;

  ModelConfig qwen2 = dream;
  qwen2.family = "qwen2";
  qwen2.num_layers = 3;
  qwen2.shifted_logits = false;
  qwen2.tied_embeddings = true;
  qwen2.causal = true;
  qwen2.mask_id = -1;

  ModelConfig qwen3 = qwen2;
  qwen3.family = "qwen3";
  qwen3.qkv_bias = false;
  qwen3.qk_norm_per_head = true;
  qwen3.attn_output_bias = true;
  qwen3.tied_embeddings = false;
  qwen3.head_dim = 16;

  ModelConfig grouped_experts = experts;  // every way in which LLaDA2's layers differ
  grouped_experts.family = "llada2";
  grouped_experts.num_layers = 3;
  grouped_experts.num_heads = 4;
  grouped_experts.num_kv_heads = 2;
  grouped_experts.rotary_dim = 6;
  grouped_experts.ffn_dim = 45;
  grouped_experts.qkv_bias = true;
  grouped_experts.block_causal = true;
  grouped_experts.block_length = 8;
  grouped_experts.moe = {.num_experts = 12,
                         .experts_per_token = 3,
                         .expert_ffn_dim = 21,
                         .normalize_weights = true,
                         .sigmoid_scores = true,
                         .selection_bias = true,
                         .num_groups = 4,
                         .groups_per_token = 2,
                         .routed_scale = 2.5F,
                         .shared_ffn_dim = 17,
                         .first_dense_layers = 1,
                         .router_in_f32 = true};
  return {plain, scaled, experts, normalized_experts, dream, qwen2, qwen3, grouped_experts};
}

/// A ReFusion model: a causal one that plans slots with mask tokens. Its logits are so
/// flat that a row finds some of the drafts of another likely.
inline ModelConfig tiny_refusion_config() {
  ModelConfig config = tiny_configs()[6];
  config.num_layers = 2;
  config.plans_slots = true;
  config.mask_id = 90;
  config.logit_scale = 0.5F;
  return config;
}

/// A block diffusion model that is otherwise the one above, with layers enough for two to be sparse.
inline ModelConfig tiny_block_config(int32_t block_length) {
  ModelConfig config = tiny_refusion_config();
  config.family = "sdar";
  config.causal = false;
  config.plans_slots = false;
  config.block_causal = true;
  config.block_length = block_length;
  config.num_layers = 4;
  config.max_positions = 512;
  return config;
}

/// A GIDD model with everything that sets its transformer apart.
inline ModelConfig tiny_gidd_config(float uniform_shift, int64_t max_positions = 4096) {
  ModelConfig config = tiny_configs()[0];
  config.family = "gidd";
  config.max_positions = max_positions;
  config.norm_offset = true;
  config.qk_norm_full = true;
  config.kv_sink = true;
  config.attn_soft_cap = 5;
  config.activation = Activation::kSquaredRelu;
  config.ffn_bias = true;
  config.residual_scale = 2;
  config.logit_scale = 0.5F;
  config.noise = NoiseProcess{uniform_shift, -9, 9};
  return config;
}

/// A Sumi model: all that follows the prompt is denoised at once.
inline ModelConfig tiny_sumi_config(int64_t canvas = 64) {
  ModelConfig config = tiny_configs()[0];
  config.family = "sumi";
  config.max_positions = 4096;
  config.zero_sink = true;
  config.mask_id = -1;
  config.bos_id = 88;
  config.noise = NoiseProcess{1000, -9, 9, WholeCanvas{canvas, 6}};
  return config;
}

/// A Nemotron-Labs-Diffusion model, whose queries grow within a few positions.
inline ModelConfig tiny_nemotron_config(int32_t block_length = 8) {
  ModelConfig config = tiny_configs()[0];
  config.family = "nemotron-labs-diffusion";
  config.rope.original_positions = 8;
  config.rope.query_growth = 0.5F;
  config.block_causal = true;
  config.block_length = block_length;
  config.causal_context = true;
  return config;
}

/// The same weights read from left to right.
inline ModelConfig tiny_nemotron_causal_config() {
  ModelConfig config = tiny_nemotron_config();
  config.block_causal = config.causal_context = false;
  config.block_length = 0;
  config.causal = true;
  config.mask_id = -1;
  return config;
}

/// A DiffusionGemma model with everything that sets its transformer apart. Its last layer slides, so that a
/// window acts where the last layer leaves rows behind.
inline ModelConfig tiny_canvas_config() {
  ModelConfig config = tiny_configs()[2];
  config.family = "diffusion-gemma";
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 1;
  config.head_dim = 20;
  config.ffn_dim = 45;
  config.max_positions = 4096;
  config.mask_id = -1;
  config.tied_embeddings = true;
  config.moe = {7, 3, 21, true};
  config.moe.router_in_f32 = true;
  config.moe.parallel_dense = true;
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = 6.3245554F;
  config.rounds_embedding_scale = true;
  config.rope.theta = 1000;
  config.rope.num_turning = 3;
  SlidingAttention& sliding = config.sliding.emplace();
  sliding.layers = {true, false, true};
  sliding.window = 7;
  sliding.num_kv_heads = 2;
  sliding.head_dim = 12;
  sliding.rope.theta = 100;
  config.shares_keys = true;
  config.v_norm = true;
  config.attn_scale = 1;
  config.norms_outputs = true;
  config.layer_scalars = true;
  config.logit_soft_cap = 30;
  config.canvas = CanvasConfig{.length = 8, .conditioning_dim = 33, .steps = 6, .image_id = 91};
  return config;
}

/// Tokens that depend on `seed` alone.
inline std::vector<TokenId> random_tokens(uint64_t seed, int32_t count, int64_t vocab) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(
        RngStream(seed, 77).below(static_cast<uint64_t>(i), static_cast<uint32_t>(vocab))));
  }
  return tokens;
}

/// A whole canvas in one group, cell = position, logits of every row.
inline StepPlan canvas_plan(const std::vector<TokenId>& tokens, OwnRows own_rows) {
  StepPlan plan;
  plan.rules.emplace_back();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto position = static_cast<int32_t>(i);
    plan.add_row(tokens[i], position, position);
    LogitRow logit;
    logit.row = position;
    plan.logits.push_back(logit);
  }
  plan.groups.push_back({0, {0, plan.num_rows()}, {}, own_rows});
  return plan;
}

/// A whole canvas in one group for each block, which sees itself and those before.
inline StepPlan blocks_plan(const std::vector<TokenId>& tokens, int32_t block_length) {
  StepPlan plan = canvas_plan(tokens, OwnRows::kBidirectional);
  const auto count = static_cast<int32_t>(tokens.size());
  plan.groups.clear();
  for (int32_t begin = 0; begin < count; begin += block_length) {
    plan.groups.push_back(
        {0, {begin, std::min(begin + block_length, count)}, {{0, begin}}, OwnRows::kBidirectional});
  }
  return plan;
}

inline OwnRows own_rows_of(const ModelConfig& config) {
  return config.causal ? OwnRows::kCausal : OwnRows::kBidirectional;
}

/// A model with the memory that its passes need; caches last from one pass to the next.
class Runner {
 public:
  Runner(std::shared_ptr<const Model> model, KernelTable kernels, int num_threads, int32_t num_cells = 128,
         int num_sequences = 1)
      : model_(std::move(model)), kernels_(kernels), threads_(num_threads) {
    for (int i = 0; i < num_sequences; ++i) caches_.push_back(model_->make_cache(num_cells));
    for (KvCache& cache : caches_) pointers_.push_back(&cache);
  }

  /// [plan.logits.size(), vocab]
  std::vector<float> logits(const StepPlan& plan) {
    const auto rows = static_cast<int64_t>(plan.logits.size());
    std::vector<float> values(plan.logits.size() * static_cast<size_t>(vocab()));
    model_->forward_logits(context_, plan, pointers_, workspace_, {values.data(), rows, vocab()});
    return values;
  }

  std::vector<RowStatistics> draws(const StepPlan& plan) {
    const auto samples = model_->forward(context_, plan, pointers_, workspace_).samples;
    return {samples.begin(), samples.end()};
  }

  int64_t vocab() const { return model_->config().vocab_size; }
  const Model& model() const { return *model_; }
  const KernelContext& context() const { return context_; }
  const Workspace& workspace() const { return workspace_; }

 private:
  std::shared_ptr<const Model> model_;
  KernelTable kernels_;
  ThreadPool threads_;
  KernelContext context_{kernels_, threads_};
  std::vector<KvCache> caches_;
  std::vector<KvCache*> pointers_;
  Workspace workspace_;
};

inline std::shared_ptr<const Model> tiny_model(const ModelConfig& config, DType dtype = DType::kF32,
                                               uint64_t seed = 5) {
  ThreadPool threads(1);
  return Model::random(config, seed, dtype, threads);
}

}  // namespace lacuna
