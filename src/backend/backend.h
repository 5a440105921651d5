// The one interface to a machine that computes passes. Weights, keys and values, remembered outputs and the
// memory of a pass belong to the backend; a whole pass crosses the interface, as the values StepPlan and
// PassResult. What stays on the backend may be read by the methods that say so, which copy, and which a
// backend may refuse with an InputError.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/error.h"
#include "base/matrix.h"
#include "model/config.h"
#include "model/cost.h"
#include "model/pass_result.h"
#include "model/pass_times.h"
#include "model/plan.h"

namespace lacuna {

struct SequenceShape {
  int64_t num_cells = 0;
  /// Whether the last hidden state of each cell is kept, for FollowUp::probes and read_outputs().
  bool remembers_outputs = false;
};

/// The cells of one sequence. They begin as zeros and hold what was last written; destroying the sequence
/// frees them. It outlives the tickets of the passes that name it.
class KvSequence {
 public:
  virtual ~KvSequence() = default;
  KvSequence(const KvSequence&) = delete;
  KvSequence& operator=(const KvSequence&) = delete;

  const SequenceShape& shape() const { return shape_; }

  /// The cell of the model's learned key and value, after those that were asked for; -1: it has none.
  virtual int32_t sink_cell() const = 0;

  /// Copies what some cells hold for one kv head of a layer, as f32; keys, values  [cells, head_dim]
  virtual void read_cells(int64_t layer, int64_t kv_head, IndexRange cells, Matrix<float> keys,
                          Matrix<float> values) const = 0;
  /// Copies remembered outputs; out  [cells.size(), hidden_dim]. Only where shape().remembers_outputs.
  virtual void read_outputs(std::span<const int32_t> cells, Matrix<float> out) const = 0;

 protected:
  explicit KvSequence(const SequenceShape& shape) : shape_(shape) {}

 private:
  SequenceShape shape_;
};

/// A sequence as the class that its backend makes.
template <typename Own, typename Sequence>
Own& sequence_of(Sequence& sequence) {
  auto* own = dynamic_cast<Own*>(&sequence);
  expects(own != nullptr, "a sequence belongs to the backend that made it");
  return *own;
}

/// The first cells of a sequence, for another that begins with the same tokens.
struct KvPrefix {
  const KvSequence* sequence = nullptr;
  int64_t count = 0;  ///< cells; 0: none
};

/// The keys and values of the sequences of one model, in pages, within a number of bytes. A sequence gets the
/// pages of all its cells when it is made, so that no pass can run out of them. Sequences that have a prefix
/// in common share its whole pages: they are counted once, and freed with the last sequence that has them.
/// Not for several threads at once, but for bytes_for() and limit().
class KvPool {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  virtual ~KvPool() = default;

  /// Memory that a sequence takes.
  ///   shared  cells of a prefix; its whole pages do not count
  virtual int64_t bytes_for(const SequenceShape& shape, int64_t shared = 0) const = 0;
  virtual int64_t limit() const = 0;
  /// Memory of all existing sequences.
  virtual int64_t bytes() const = 0;
  /// Memory of these sequences together.
  virtual int64_t bytes_of(std::span<const KvSequence* const> sequences) const = 0;

  /// Null where less is left than the sequence takes. The pool may be destroyed before its sequences.
  ///   prefix  what it begins with, as take_prefix() gives it
  virtual std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape, const KvPrefix& prefix) = 0;
  std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape) { return make_sequence(shape, {}); }
  /// Gives `to` the prefix, which both have cells for, and frees what it had in the place of whole pages.
  /// While both exist, no pass may write to these cells of either. Both are of this pool.
  virtual void take_prefix(KvSequence& to, const KvPrefix& prefix) = 0;
};

/// Attention weights of one query head of one row in one layer.
struct ObservedAttention {
  int64_t layer = 0;
  int32_t row = 0;  ///< of the plan, unless a group asks for K/V only
  int32_t head = 0;
  std::span<const float> hidden;          ///< [hidden_dim] the row's input of the layer, before its norm
  std::span<const float> query;           ///< [head_dim]
  std::span<const IndexRange> tile_runs;  ///< tiles of kCellTile cells, contiguous in `weights`
  std::span<const float> weights;  ///< of each cell of those tiles, 0 where hidden; they add up to `sum`
  float sum = 1;
};

struct PassOptions {
  /// Sees every row's attention; called by several threads at once. A backend may refuse it.
  std::function<void(const ObservedAttention&)> observe_attention = {};
};

/// A pass that was submitted. It owns what its results lie in: they are gone when it is.
class PassTicket {
 public:
  virtual ~PassTicket() = default;
  PassTicket(const PassTicket&) = delete;
  PassTicket& operator=(const PassTicket&) = delete;

  /// The results, once the pass is computed. Valid as long as the ticket, however often they are asked for.
  virtual const PassResult& wait() = 0;
  /// After wait(): more tokens of the pass's rows, and how far rows are from what their sequences remember.
  /// Valid until the next follow-up.
  virtual FollowUpResult follow_up(const FollowUp& wanted) = 0;
  /// After wait() and the follow-ups: sequences that remember outputs keep those of the pass's rows, but for
  /// rows of which the plan wants K/V alone.
  virtual void remember_outputs() = 0;
  /// After wait(): copies raw logits with guidance applied; out  [wanted.size(), vocab_size]
  virtual void read_logits(std::span<const LogitRow> wanted, Matrix<float> out) = 0;

  /// Times of the pass and of its follow-ups so far.
  virtual PassTimes times() const = 0;

 protected:
  PassTicket() = default;
};

/// A model that is loaded on a backend: weights and config, immutable. It outlives its pools' sequences and
/// its tickets.
class BackendModel {
 public:
  virtual ~BackendModel() = default;

  virtual const ModelConfig& config() const = 0;
  /// Name of what computes passes: a device, or the instruction set of this machine.
  virtual std::string_view device() const = 0;
  /// Type of activations, K/V, and weights that are not quantized.
  virtual DType dtype() const = 0;
  virtual int64_t weight_bytes() const = 0;
  virtual ModelBytes bytes_of_passes() const = 0;
  /// Why no pass can be computed any more, as a sentence, where that is known before one is tried: a process
  /// that computes has ended. Empty while passes can. Any thread.
  virtual std::string failure() const { return {}; }

  virtual std::unique_ptr<KvPool> make_pool(int64_t limit = KvPool::kNoLimit) const = 0;

  /// Begins a pass; returns at once where the backend can. Passes that name the same sequence are computed in
  /// the order in which they were submitted.
  ///   plan       outlives the ticket
  ///   sequences  one per sequence that the plan names, with room for its cells, of this model's pools; the
  ///              span itself is read by this call alone
  virtual std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences,
                                             const PassOptions& options) const = 0;
  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences) const {
    return submit(plan, sequences, {});
  }

  /// Gives cells of a sequence the soft embeddings of these distributions, as a pass does (LogitRow). Only of
  /// models with canvases.
  ///   distributions  [cells, vocab_size] f32
  virtual void keep_soft_embeddings(KvSequence& sequence, std::span<const int32_t> cells,
                                    ConstMatrix<float> distributions) const = 0;

  /// Compares the posteriors of rows of outputs, now[i] with before[i], as read_outputs() gave them.
  virtual void compare_outputs(ConstMatrix<float> now, ConstMatrix<float> before,
                               std::span<Drift> drifts) const = 0;
};

}  // namespace lacuna
