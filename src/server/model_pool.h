// The models of a server: loaded when they are asked for, within an amount of memory, and unloaded when they
// are idle. Whoever uses a model holds a lease, and a model with leases stays. A loaded model may be replaced
// by another one of its kind, because there are newer weights or because what computed it has ended: those
// who use it keep it, and new leases are of the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/inference_session.h"

namespace lacuna {

/// A model that may be loaded.
struct PoolModel {
  /// Loads it; an exception's sentence is what its requests get.
  using Load = std::function<std::shared_ptr<InferenceSession>()>;

  std::string name;  ///< as clients see it
  std::shared_ptr<const OpenedModel> opened;
  int64_t bytes = 0;  ///< predicted memory of the loaded model, K/V included
  Load load = {};
  SchedulerLimits limits = {};  ///< limits that it will have once loaded
  /// Function that loads the same model with the weights of another folder, which a client names. It checks
  /// the name and throws InputError. Empty: weights cannot be replaced.
  std::function<Load(const std::string& folder)> other_weights = {};
};

struct PoolLimits {
  int64_t bytes = INT64_MAX;  ///< of all models that are loaded
  double idle_seconds = 0;   ///< after its last use a model is unloaded; 0: when memory is needed, not before
  size_t max_waiting = 256;  ///< requests that wait for their models; more are refused
  /// How often in a row a model that computes nothing more (Scheduler::failure) is loaded again, after pauses
  /// that double from half a second. None: it stays as it is.
  std::optional<int> restarts = {};
};

/// A model that computes nothing more.
struct PoolFailure {
  std::string sentence;
  bool is_final = true;  ///< it is not loaded again
};

class ModelPool {
 public:
  /// Keeps the model loaded while it is held.
  using Lease = std::shared_ptr<InferenceSession>;

  /// Each model's bytes fit the limit alone.
  ModelPool(std::vector<PoolModel> models, const PoolLimits& limits);
  /// Unloads all models. Requests that wait for theirs get an error, and those that run are waited for.
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  size_t size() const { return models_.size(); }
  const PoolModel& model(size_t index) const { return models_[index]; }

  /// Calls `then` with the model: at once where it is loaded, else from the pool's thread when it is, and
  /// with null and a sentence where that failed. Requests are served in their order: a model that has to
  /// leave for an earlier request's gets no new leases. Throws SchedulingError if too many wait or the pool
  /// is stopping. What `then` throws is dropped where the pool's thread calls it.
  using Then = std::function<void(Lease lease, const std::string& failure)>;
  void use(size_t index, Then then);

  /// Loads a model, where it is not, and waits for it. Throws InputError with what went wrong.
  void load(size_t index);

  /// Loads a model anew and puts it in the place of the one that is loaded. Calls `then` from the pool's
  /// thread when the new model is in use or loading failed. The old model is freed when its last lease ends.
  /// Throws SchedulingError if another model is being replaced, or one that was is still in use: there are
  /// never more than two in memory.
  void replace(size_t index, PoolModel::Load load, std::function<void(const std::string& failure)> then);

  /// The first model that computes nothing more.
  std::optional<PoolFailure> failure() const;

  /// Requests that wait for a model that is not loaded.
  size_t num_waiting() const;

  struct Loaded {
    size_t index = 0;
    bool is_leaving = false;   ///< it gives no new leases: its memory is needed
    bool is_replaced = false;  ///< another is in its place
    Lease lease;
  };
  /// The loaded models. These leases do not count as use.
  std::vector<Loaded> loaded() const;
  /// The one of these that answers new requests for a model; null: it is not loaded.
  Lease loaded(size_t index) const;

  /// Loads nothing more; requests that wait get an error.
  void stop();

 private:
  struct State;

  std::vector<PoolModel> models_;
  std::shared_ptr<State> state_;  // leases may outlive the pool's last lines
};

}  // namespace lacuna
