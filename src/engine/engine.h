// The loop that turns requests into text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/budget.h"
#include "base/clock.h"
#include "decode/decoder.h"
#include "engine/pass_loop.h"
#include "engine/prefix_store.h"
#include "model/cost.h"

namespace lacuna {

/// Work of a request so far, including the guide's passes.
struct RunStatistics {
  int32_t steps = 0;           ///< passes of the main model
  int32_t forward_passes = 0;  ///< of both models
  StepCost cost;
  StepCost uncached;  ///< cost of the same passes without any cache or lock
  /// Cost of the family's uncached baseline for the whole request, with the answer's current length
  /// (decode/baseline.h).
  StepCost baseline;
  int64_t guide_rows = 0;     ///< the guide's part of cost.rows
  int32_t shared_tokens = 0;  ///< prompt tokens whose K/V come from another request
  double seconds = 0;  ///< from the request's first pass to its last, without observers; includes time shared
                       ///< with other requests
};

/// Effect of one pass on one request.
struct StepEvent {
  size_t request = 0;      ///< number that Engine::add() returned
  const Decoder& decoder;  ///< after the step
  const StepPlan& plan;    ///< the request's part of the pass
  const StepReport& report;
  const RunStatistics& statistics;
  const StepCost& cost;                  ///< the request's part of the pass
  const KvSequence* sequence = nullptr;  ///< the request's first sequence of the main model
  double pass_seconds = 0;               ///< of the whole pass
};

using StepObserver = std::function<void(const StepEvent&)>;

/// Runs requests, at most max_running at a time. They share each forward pass; results are bitwise identical
/// to those of a request alone. Requests start in the order in which they were added, as soon as a place and
/// memory are free for the next one. Not thread-safe.
class Engine {
 public:
  /// guide model for decoders made with a guide; may be null
  explicit Engine(std::shared_ptr<const BackendModel> model, int32_t max_running = 1,
                  std::shared_ptr<const BackendModel> guide = nullptr);

  /// Throws InputError if the models cannot compute the request, or could never hold its K/V. Thread-safe.
  void check(const Decoder& decoder) const;
  /// Queues a request and returns its number, counted from 0. Throws InputError as check() does.
  ///   work  limits of a constraint's work in one pass; a request that exceeds them fails (when_failed)
  size_t add(std::unique_ptr<Decoder> decoder, const Budget::Limits& work = {});

  /// Limits the K/V bytes of all requests together. A request that exceeds the rest waits; one that needs
  /// more than the limit alone never starts (see memory_for).
  void limit_memory(int64_t bytes) { most_memory_ = std::min(bytes, room_of_pools()); }
  /// The smaller of limit_memory() and the room on the models' devices.
  int64_t memory_limit() const { return most_memory_; }
  /// Bytes that a request holds while it runs: K/V of its whole canvas, outputs if remembered, and attention
  /// weights for a rollout.
  /// Thread-safe.
  int64_t memory_for(const Decoder& decoder) const { return memory_for(decoder, {}); }
  /// Memory of the running requests. Shared pages count once.
  int64_t memory_in_use() const;
  /// Pages of K/V in this many bytes.
  int64_t pages_of(int64_t bytes) const {
    return bytes / std::max<int64_t>(1, pools_[0]->bytes_for({kPageCells}));
  }
  /// Rows of the request's uncached baseline; without a baseline, its K/V cells. Thread-safe.
  int64_t planned_rows(const Decoder& decoder) const;
  /// Why the model or the guide can compute no further pass (BackendModel::failure). Thread-safe.
  std::string failure() const;

  /// Limits the rows of a pass that several requests share. If they want more, a pass takes those that have
  /// computed the fewest rows while others waited, so that every request gets the same number of rows. A
  /// constraint's work counts as rows of the same duration, and is charged in advance, so that short turns
  /// precede the next long one. A request that alone wants more rows has a pass to itself: a pass over a
  /// whole canvas cannot be cut.
  void limit_rows(int32_t rows) { most_rows_ = rows; }

  /// Enables prefix caching for methods whose K/V depend on the prefix's tokens alone (block diffusion,
  /// ReFusion, autoregressive). A request reuses the K/V of its longest common prefix with a running or
  /// finished request, in whole tiles of cells and whole blocks. If the prefix is still being computed, the
  /// request waits. Whole pages are shared. Results stay bitwise identical.
  ///   most_bytes  K/V bytes to keep of finished requests, within limit_memory(); least recently used go
  ///   first
  void share_prefixes(int64_t most_bytes);
  /// K/V bytes kept of finished requests.
  int64_t prefix_bytes() const { return prefixes_ ? prefixes_->bytes() : 0; }

  /// Removes a request in any state and frees its memory.
  void remove(size_t request);
  /// remove() for a failed request: its prefix is not kept.
  void discard(size_t request) noexcept;

  size_t num_running() const { return running_.size(); }

  /// Keeps the outputs of requests admitted from now on, for observers.
  void remember_outputs() { remembers_outputs_ = true; }

  /// Sets a callback for requests that cannot continue: the model computed infinite or NaN logits, or a limit
  /// was exceeded. step() calls it with the reason. Such a request stops and its prefix is not kept; others
  /// continue. Without a callback, step() throws the reason as an InputError.
  void when_failed(std::function<void(size_t request, const std::string& sentence)> failed) {
    failed_ = std::move(failed);
  }

  /// Runs one forward pass for all running requests, or one on each model if both are wanted. Returns false
  /// when nothing is left to do.
  bool step(const StepObserver& observe = {});
  void run(const StepObserver& observe = {});

  const Decoder& decoder(size_t request) const { return *requests_.at(request).decoder; }
  const RunStatistics& statistics(size_t request) const { return requests_.at(request).statistics; }

 private:
  struct Request {
    std::unique_ptr<Decoder> decoder;
    Budget::Limits work;
    // Set while the request runs:
    std::vector<std::unique_ptr<KvSequence>> sequences[2];  // by ModelRole; at most one of a guide
    RunStatistics statistics;
    Stopwatch clock;
    std::optional<BaselineRequest> baseline_request;  // the request that statistics.baseline was computed for
    double observed_before = 0;                       // observing_seconds_ at its start
    bool seeks_prefix = false;                        // has reused no prefix and joined no pass yet
    std::optional<int64_t> constraint_rows;  // constraint's work in the last pass, as rows; empty before it
    int64_t fair_share_rows =
        0;  // rows computed in passes that left others out; starts at the minimum of the running requests
  };

  /// The prefix that a request can reuse.
  struct FoundPrefix {
    KvPrefix kv;                     ///< whole blocks; empty while a request computes more of it
    bool is_being_computed = false;  ///< an earlier request is computing it
  };

  void admit();
  SequenceShape shape_for(const Decoder& decoder) const;
  /// Memory of the attention weights of a whole pass, if the decoder wants a rollout; at most
  /// kMaxRolloutBytes.
  static constexpr int64_t kMaxRolloutBytes = int64_t{2} << 30;
  int64_t rollout_bytes(const Decoder& decoder) const;
  /// memory_for() without the whole pages of a shared prefix.
  int64_t memory_for(const Decoder& decoder, const KvPrefix& prefix) const;
  /// Memory of the running requests and of `with`, unless null.
  int64_t measure_memory(const KvSequence* with) const;
  /// Evicts stored prefixes until the request fits, and returns the prefix that it can still reuse. Returns
  /// nothing, and evicts nothing, if the running requests leave too little memory.
  std::optional<FoundPrefix> make_room(const Decoder& decoder);
  /// Creates a request's sequences, the first with the prefix. Returns false, and creates none, if a pool has
  /// no room: other requests hold the memory, or a device is full.
  bool make_sequences(Request& request, const KvPrefix& prefix);
  int64_t room_of_pools() const;
  void free_sequences(Request& request);
  /// The longest prefix of a request that the store or one of the `earlier` requests holds.
  FoundPrefix find_prefix(const Decoder& decoder, std::span<const size_t> earlier);
  /// Lets waiting requests reuse prefixes that have been computed.
  void take_prefixes();
  /// Tells the decoder to skip the prefix that its first sequence holds.
  static void skip_prefix(Request& request, const KvPrefix& prefix);
  /// Frees a running request's memory, except the stored prefix.
  void retire(Request& request);
  /// Chooses the requests of the role's next pass, in order of arrival. Sets others_wait_.
  std::vector<size_t> choose_requests(ModelRole role);
  /// Converts a constraint's work in a pass to model rows of about the same duration.
  static int64_t rows_of_constraint(int64_t steps, const StepCost& pass);
  /// Rows of a request's next pass, including its constraint's work.
  int64_t rows_of_turn(Request& request) const;
  /// Updates statistics.baseline; without a baseline, the cost is that of the passes made.
  void update_baseline(Request& request) const;
  /// Runs a pass of one model for the requests that want it.
  void run_pass(ModelRole role, const StepObserver& observe);
  /// Ends a request whose logits were not finite, or whose K/V do not fit on the device.
  void end_failed(size_t request, const std::string& failure);

  std::shared_ptr<const BackendModel> models_[2];  // by ModelRole
  std::unique_ptr<KvPool> pools_[2];               // by ModelRole
  size_t max_running_;
  bool remembers_outputs_ = false;
  std::optional<PrefixStore> prefixes_;           // empty: prefixes are not shared
  mutable std::optional<int64_t> memory_in_use_;  // empty: sequences have changed since the last measurement
  int64_t most_memory_ = std::numeric_limits<int64_t>::max();
  int32_t most_rows_ = std::numeric_limits<int32_t>::max();
  std::map<size_t, Request> requests_;
  size_t num_added_ = 0;
  size_t next_ = 0;              // requests before this one have started
  std::vector<size_t> running_;  // in order of arrival
  std::function<void(size_t, const std::string&)> failed_;
  double observing_seconds_ = 0;  // total time in observers, which may block

  bool others_wait_ = false;  // requests were left out of the current pass

  PassLoop loop_;
  std::vector<PassMember> members_;  // of the current pass
};

}  // namespace lacuna
