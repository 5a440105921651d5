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
#include "model/tiny_configs.h"
#include "source_folder.h"

namespace lacuna {

inline const std::vector<std::string>& golden_families() {
  static const std::vector<std::string> names = {"llada",     "llada_moe", "dream",   "qwen2",
                                                 "qwen3",     "qwen3_moe", "rnd1",    "coda",
                                                 "a2d_qwen3", "llama",     "nemotron"};
  return names;
}

/// Block diffusion: the logits alone, in the blocks that tokens.json says.
inline const std::vector<std::string>& golden_block_families() {
  static const std::vector<std::string> names = {"fast_dllm", "llada2", "sdar_moe", "a2d_qwen2", "diffcoder"};
  return names;
}

inline std::filesystem::path golden_folder(const std::string& family) {
  return source_folder() / "tests/golden" / family;
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

/// Output of the reference as [rows, cols].
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
  const KvCache& cache(int sequence) const { return caches_[static_cast<size_t>(sequence)]; }
  KvCache& cache(int sequence) { return caches_[static_cast<size_t>(sequence)]; }
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
