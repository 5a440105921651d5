// A model over several ranks that are threads of the test.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/shard/sharded_model.h"
#include "backend/shard/shared_memory.h"
#include "kernels/dispatch.h"
#include "model/tiny_models.h"

namespace lacuna {

class ShardedOverThreads {
 public:
  /// Puts something between a rank and its group.
  using Wrap = std::function<std::shared_ptr<Communicator>(std::shared_ptr<Communicator>)>;

  /// A random model, as tiny_model() makes it, where `folder` is empty.
  ShardedOverThreads(const ModelConfig& config, ShardBy by, int ranks,
                     const WeightFormats& formats = DType::kF32, const Wrap& wrap = {},
                     const std::filesystem::path& folder = {}) {
    constexpr size_t kSlotBytes = 4096;  // so few that exchanges take several turns
    constexpr uint64_t kSeed = 5;
    for (std::unique_ptr<Communicator>& end :
         ranks_of_threads(ranks, std::chrono::milliseconds(20'000), kSlotBytes)) {
      Rank& rank = ranks_.emplace_back();
      rank.end = std::move(end);
      if (wrap) rank.end = wrap(rank.end);
      rank.threads = std::make_unique<ThreadPool>(1);
      rank.device = std::make_shared<const CpuDevice>(default_table(), *rank.threads);
      rank.part = Model::load_part(folder, config, kSeed, formats, *rank.threads, {}, rank.end, by);
    }
    model_ = on_ranks(ranks_[0].part, ranks_[0].device, ranks_[0].end);
    for (size_t i = 1; i < ranks_.size(); ++i) {
      followers_.emplace_back([&rank = ranks_[i]] {
        try {
          follow(*rank.part, *rank.device, *rank.end);
        } catch (const std::exception& error) {
          rank.error = error.what();
        }
      });
    }
  }
  ~ShardedOverThreads() { stop(); }
  ShardedOverThreads(const ShardedOverThreads&) = delete;
  ShardedOverThreads& operator=(const ShardedOverThreads&) = delete;

  const std::shared_ptr<const BackendModel>& model() const { return model_; }
  const Model& part(size_t rank) const { return *ranks_[rank].part; }

  /// Nobody may use the model any more. What followers threw, one after the other.
  std::string stop() {
    model_.reset();
    for (std::thread& follower : followers_) follower.join();
    followers_.clear();
    std::string errors;
    for (const Rank& rank : ranks_) errors += rank.error;
    return errors;
  }

 private:
  struct Rank {
    std::shared_ptr<Communicator> end;
    std::unique_ptr<ThreadPool> threads;
    std::shared_ptr<const CpuDevice> device;
    std::shared_ptr<const Model> part;
    std::string error;
  };
  std::deque<Rank> ranks_;
  std::shared_ptr<const BackendModel> model_;
  std::vector<std::thread> followers_;
};

inline constexpr ShardBy kAllWaysToShard[] = {ShardBy::kOutputs, ShardBy::kRows, ShardBy::kLayers};

/// The config with layers enough for ranks that divide them, if its layers are alike.
inline ModelConfig with_layers_for(ModelConfig config, ShardBy by, int ranks) {
  if (by == ShardBy::kLayers && !config.sliding)
    config.num_layers = std::max<int64_t>(config.num_layers, ranks);
  return config;
}

/// Every kind of layer that a family may have.
inline std::vector<ModelConfig> tiny_configs_of_all_kinds() {
  std::vector<ModelConfig> configs = tiny_configs();
  for (const ModelConfig& more : {tiny_refusion_config(), tiny_block_config(4), tiny_gidd_config(1000),
                                  tiny_sumi_config(), tiny_nemotron_config(), tiny_canvas_config()})
    configs.push_back(more);
  return configs;
}

}  // namespace lacuna
