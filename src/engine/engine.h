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
  /// Cost of the family's uncached baseline for the whole request, its answer as long as it is by now
  /// (decode/baseline.h).
  StepCost baseline;
  int64_t guide_rows = 0;     ///< the guide's part of cost.rows
  int32_t shared_tokens = 0;  ///< prompt tokens whose K/V come from another request
  double seconds = 0;  ///< from the request's first pass to its last, less the time of observers; other
                       ///< requests share them
};

/// Effect of one pass on one request.
struct StepEvent {
  size_t request = 0;      ///< as Engine::add() numbered it
  const Decoder& decoder;  ///< after the step
  const StepPlan& plan;    ///< the request's own part of the pass
  const StepReport& report;
  const RunStatistics& statistics;
  const StepCost& cost;                  ///< the request's own part of the pass
  const KvSequence* sequence = nullptr;  ///< the first of the main model
  double pass_seconds = 0;               ///< of the whole pass
};

using StepObserver = std::function<void(const StepEvent&)>;

/// Runs requests to their end, at most max_running at a time; those that run share each forward pass, each
/// with the bits it would have alone. Requests start in the order in which they were added, as soon as there
/// is a place and memory for the next one. Not for use by several threads at once.
class Engine {
 public:
  /// guide  what decoders made with a guide ask; null if there are none
  explicit Engine(std::shared_ptr<const BackendModel> model, int32_t max_running = 1,
                  std::shared_ptr<const BackendModel> guide = nullptr);

  /// Throws InputError if the models cannot compute the request, or could never hold its keys and values. Any
  /// thread may ask.
  void check(const Decoder& decoder) const;
  /// Queues a request; InputError as check(). Requests are numbered from 0.
  ///   work  limits of a constraint's work in one pass; a request that is over them fails (when_failed)
  size_t add(std::unique_ptr<Decoder> decoder, const Budget::Limits& work = {});

  /// Bytes of K/V that all requests may hold together; a request that needs more waits, and one that needs
  /// more than that alone never starts (see memory_for).
  void limit_memory(int64_t bytes) { most_memory_ = std::min(bytes, room_of_pools()); }
  /// The same, or what the models' devices have room for, where that is less.
  int64_t memory_limit() const { return most_memory_; }
  /// Memory that a request holds from its first pass to its last: K/V of its whole canvas, and outputs where
  /// they are remembered. Any thread may ask.
  int64_t memory_for(const Decoder& decoder) const { return memory_for(decoder, {}); }
  /// Memory of the running requests. Pages that several share are counted once.
  int64_t memory_in_use() const;
  /// Pages of K/V in this many bytes.
  int64_t pages_of(int64_t bytes) const {
    return bytes / std::max<int64_t>(1, pools_[0]->bytes_for({kPageCells}));
  }
  /// Rows of the request's uncached baseline; of a request without one, its cells. Any thread.
  int64_t planned_rows(const Decoder& decoder) const;
  /// Why a model, the guide included, computes no pass any more (BackendModel::failure). Any thread.
  std::string failure() const;

  /// Rows of a pass that several requests share at most. Where they want more, each pass goes to those that
  /// have computed the fewest rows while others waited, so that a request with long passes and one with short
  /// ones get the same number of rows. The work of a constraint counts as the rows that take as long, and
  /// beforehand, so that short turns come before the next long one. A request that wants more rows than this
  /// has its pass to itself: a pass over a whole canvas cannot be cut.
  void limit_rows(int32_t rows) { most_rows_ = rows; }

  /// Requests of methods whose K/V of a prefix depend on its tokens alone (block diffusion, ReFusion,
  /// autoregressive) read only what no other has read: each takes the K/V of the longest prefix, in whole
  /// tiles of cells and whole blocks, that it has in common with a running request or with one that ran, and
  /// one whose prefix is being read waits for it. They share its whole pages. No bit of a result depends on
  /// it.
  ///   most_bytes  of K/V to keep of requests that ran, within limit_memory(); the longest unused go first
  void share_prefixes(int64_t most_bytes);
  /// Bytes of K/V that are kept of requests that ran.
  int64_t prefix_bytes() const { return prefixes_ ? prefixes_->bytes() : 0; }

  /// Forgets a request, whether it waits, runs or is done, and frees its memory.
  void remove(size_t request);
  /// The same, and nothing that it computed is kept for others: of a request that failed.
  void discard(size_t request) noexcept;

  size_t num_running() const { return running_.size(); }

  /// Remembers the outputs of every request admitted from now on, for observers.
  void remember_outputs() { remembers_outputs_ = true; }

  /// `failed` is told of a request that cannot continue, from within step(), with a sentence: the model
  /// computed a logit that is infinite or NaN. The request no longer runs and has no part in prefixes; the
  /// others continue. Without this, step() throws the sentence as an InputError.
  void when_failed(std::function<void(size_t request, const std::string& sentence)> failed) {
    failed_ = std::move(failed);
  }

  /// One forward pass for all running requests, or one on each model where some want the one and some the
  /// other. False when nothing is left to do.
  bool step(const StepObserver& observe = {});
  void run(const StepObserver& observe = {});

  const Decoder& decoder(size_t request) const { return *requests_.at(request).decoder; }
  const RunStatistics& statistics(size_t request) const { return requests_.at(request).statistics; }

 private:
  struct Request {
    std::unique_ptr<Decoder> decoder;
    Budget::Limits work;
    // While it runs:
    std::vector<std::unique_ptr<KvSequence>> sequences[2];  // by ModelRole; of a guide one, or none
    RunStatistics statistics;
    Stopwatch clock;
    std::optional<BaselineRequest> baseline_request;  // the request that statistics.baseline was computed for
    double observed_before = 0;                       // observing_seconds_ at its start
    bool seeks_prefix = false;  // it has taken nothing over from others yet, and no part in passes
    std::optional<int64_t> constraint_rows;  // work of its constraint in its last pass; none before it
    int64_t fair_share_rows =
        0;  // rows computed in passes that others were left out of, from where they were at its start
  };

  /// The prefix that a request can reuse.
  struct FoundPrefix {
    KvPrefix kv;                     ///< whole blocks; empty while a request computes more of it
    bool is_being_computed = false;  ///< an earlier request is computing it
  };

  void admit();
  SequenceShape shape_for(const Decoder& decoder) const;
  /// memory_for(), without the whole pages of a prefix that the request shares.
  int64_t memory_for(const Decoder& decoder, const KvPrefix& prefix) const;
  /// Memory of the running requests and, unless null, of one more sequence.
  int64_t measure_memory(const KvSequence* with) const;
  /// Evicts stored prefixes until the request fits, and returns the prefix that it can still reuse. Empty,
  /// and nothing is evicted, where the running requests leave too little memory.
  std::optional<FoundPrefix> make_room(const Decoder& decoder);
  /// Makes a request's sequences, the first with the prefix. False, and there are none, where a pool has no
  /// room left for one: others hold what limit_memory() allows, or a device is full.
  bool make_sequences(Request& request, const KvPrefix& prefix);
  int64_t room_of_pools() const;
  void free_sequences(Request& request);
  /// The longest prefix of a request that the store or one of the `earlier` requests holds.
  FoundPrefix find_prefix(const Decoder& decoder, std::span<const size_t> earlier);
  /// Lets waiting requests reuse prefixes that have been computed.
  void take_prefixes();
  /// The request does not compute the prefix, which its first sequence holds.
  static void skip_prefix(Request& request, const KvPrefix& prefix);
  /// Frees a running request's memory, but for the prefix that is kept.
  void retire(Request& request);
  /// The requests that have a part in the role's next pass, in order of arrival. Sets others_wait_.
  std::vector<size_t> choose_requests(ModelRole role);
  /// Work of a constraint in a pass, as rows of the model that take about as long.
  static int64_t rows_of_constraint(int64_t steps, const StepCost& pass);
  /// Rows that a request's next pass takes, those that its constraint counts for included.
  int64_t rows_of_turn(Request& request) const;
  /// Brings statistics.baseline up to date: that of the request so far, or without one, of the passes made.
  void update_baseline(Request& request) const;
  /// A pass of one model for the requests that want it.
  void run_pass(ModelRole role, const StepObserver& observe);
  /// Ends a request whose logits were not finite, or whose keys and values do not fit on the device.
  void end_failed(size_t request, const std::string& failure);

  std::shared_ptr<const BackendModel> models_[2];  // by ModelRole
  std::unique_ptr<KvPool> pools_[2];               // likewise
  size_t max_running_;
  bool remembers_outputs_ = false;
  std::optional<PrefixStore> prefixes_;           // none: they are not shared
  mutable std::optional<int64_t> memory_in_use_;  // none: sequences have changed since it was measured
  int64_t most_memory_ = std::numeric_limits<int64_t>::max();
  int32_t most_rows_ = std::numeric_limits<int32_t>::max();
  std::map<size_t, Request> requests_;
  size_t num_added_ = 0;
  size_t next_ = 0;              // requests before this one have started
  std::vector<size_t> running_;  // in order of arrival
  std::function<void(size_t, const std::string&)> failed_;
  double observing_seconds_ = 0;  // spent in observers: a view may make passes wait

  bool others_wait_ = false;  // of the current pass: requests that wanted a part in it

  PassLoop loop_;
  std::vector<PassMember> members_;  // of the current pass
};

}  // namespace lacuna
