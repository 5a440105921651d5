// The models of a server: loaded on demand within a memory limit, and unloaded when idle. Each user of a
// model holds a lease, which keeps it loaded. A loaded model may be replaced by a new session of the same
// model, for newer weights or after a failure: present leases keep the old session, new leases get the new
// one.
#pragma once

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
  /// Loads the model; an exception's text is sent to the waiting requests.
  using Load = std::function<std::shared_ptr<InferenceSession>()>;

  std::string name;  ///< name for clients
  std::shared_ptr<const OpenedModel> opened;
  int64_t bytes = 0;  ///< predicted memory of the loaded model, K/V included
  Load load = {};
  SchedulerLimits limits = {};  ///< limits of its scheduler
  /// Returns a function that loads the same model with the weights of a folder that a client names. Throws
  /// InputError for an invalid name. Empty: weights cannot be replaced.
  std::function<Load(const std::string& folder)> other_weights = {};
};

struct PoolLimits {
  int64_t bytes = INT64_MAX;  ///< limit on the bytes of all loaded models
  double idle_seconds = 0;    ///< idle time before unloading; 0: unload only when memory is needed
  size_t max_waiting = 256;   ///< requests waiting for models; more are refused
  /// Maximum number of consecutive restarts of a failed model (Scheduler::failure), after pauses that double
  /// from half a second. None: failed models are not restarted.
  std::optional<int> restarts = {};
};

/// Failure of a model that has stopped computing.
struct PoolFailure {
  std::string sentence;
  bool is_final = true;  ///< the model will not be restarted
};

class ModelPool {
 public:
  /// Keeps the model loaded while it exists.
  using Lease = std::shared_ptr<InferenceSession>;

  /// Requires that each model alone fits the limit.
  ModelPool(std::vector<PoolModel> models, const PoolLimits& limits);
  /// Fails waiting requests, waits until all leases have ended, and unloads all models.
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  size_t size() const { return models_.size(); }
  const PoolModel& model(size_t index) const { return models_[index]; }

  /// Calls `then` with a lease: at once if the model is loaded, otherwise later from the pool's thread. After
  /// a failure `lease` is null and `failure` says why. Requests are served in order: a model that must be
  /// unloaded for an earlier request gets no new leases. Throws SchedulingError if too many wait or the pool
  /// is stopping. Exceptions of `then` on the pool's thread are dropped.
  using Then = std::function<void(Lease lease, const std::string& failure)>;
  void use(size_t index, Then then);

  /// Loads a model if it is not loaded, and waits for it. Throws InputError if that fails.
  void load(size_t index);

  /// Loads a new session of a model to replace the loaded one. Calls `then` from the pool's thread when new
  /// leases get it or loading has failed. The old session is freed when its last lease ends. Throws
  /// SchedulingError if another replacement is in progress or a replaced session is still in use, so that at
  /// most one extra session is in memory.
  void replace(size_t index, PoolModel::Load load, std::function<void(const std::string& failure)> then);

  /// Failure of the first failed model; none if all work.
  std::optional<PoolFailure> failure() const;

  /// Number of requests that wait for a model to be loaded.
  size_t num_waiting() const;

  struct Loaded {
    size_t index = 0;
    bool is_leaving = false;   ///< gives no new leases because its memory is needed
    bool is_replaced = false;  ///< a newer session has replaced it
    Lease lease;
  };
  /// The loaded models. These leases do not count as use.
  std::vector<Loaded> loaded() const;
  /// The session for new requests of a model; null: not loaded. The lease does not count as use.
  Lease loaded(size_t index) const;

  /// Stops loading models; waiting requests get an error.
  void stop();

 private:
  struct State;

  std::vector<PoolModel> models_;
  std::shared_ptr<State> state_;  // shared with leases, which may outlive the pool
};

}  // namespace lacuna
