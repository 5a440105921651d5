// Interface of a backend, which computes passes. It owns weights, keys and values, remembered outputs and the
// memory of passes; a pass goes in as a StepPlan and comes out as a PassResult. The methods read_*() copy
// data of the backend to the host; a backend may refuse them with an InputError.
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
  /// Cells whose rows keep what each layer adds to them, for LayerReuse.
  IndexRange kept_layers = {};
};

/// KV cells of one sequence, zeros at first. Destroying the sequence frees them. A sequence must outlive the
/// tickets of passes that use it.
class KvSequence {
 public:
  virtual ~KvSequence() = default;
  KvSequence(const KvSequence&) = delete;
  KvSequence& operator=(const KvSequence&) = delete;

  const SequenceShape& shape() const { return shape_; }

  /// Cell of the attention sink (learned key and value), after the sequence's num_cells; -1: no sink.
  virtual int32_t sink_cell() const = 0;

  /// Copies keys and values of `cells` for one layer and kv head, each as f32 [cells.size(), head_dim].
  virtual void read_cells(int64_t layer, int64_t kv_head, IndexRange cells, Matrix<float> keys,
                          Matrix<float> values) const = 0;
  /// Copies remembered outputs; out  [cells.size(), hidden_dim]. Only where shape().remembers_outputs.
  virtual void read_outputs(std::span<const int32_t> cells, Matrix<float> out) const = 0;

 protected:
  explicit KvSequence(const SequenceShape& shape) : shape_(shape) {}

 private:
  SequenceShape shape_;
};

/// Casts a sequence to the class of its backend.
template <typename Own, typename Sequence>
Own& sequence_of(Sequence& sequence) {
  auto* own = dynamic_cast<Own*>(&sequence);
  expects(own != nullptr, "a sequence belongs to the backend that made it");
  return *own;
}

/// First cells of a sequence, to be shared with a sequence that begins with the same tokens.
struct KvPrefix {
  const KvSequence* sequence = nullptr;
  int64_t count = 0;  ///< cells; 0: none
};

/// Paged KV cache of one model's sequences, with a limit in bytes. make_sequence() allocates the pages of all
/// cells, so that no pass can run out of them. Sequences with a common prefix share its whole pages, which
/// count once and are freed with their last sequence. Only bytes_for() and limit() are thread-safe.
class KvPool {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  virtual ~KvPool() = default;

  /// Bytes of a new sequence.
  ///   shared  cells of a shared prefix, whose whole pages do not count
  virtual int64_t bytes_for(const SequenceShape& shape, int64_t shared = 0) const = 0;
  virtual int64_t limit() const = 0;
  /// Memory of all existing sequences.
  virtual int64_t bytes() const = 0;
  /// Memory of these sequences together.
  virtual int64_t bytes_of(std::span<const KvSequence* const> sequences) const = 0;

  /// Null if too little memory is left. The pool may be destroyed before its sequences.
  ///   prefix  shared with the new sequence as by take_prefix()
  virtual std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape, const KvPrefix& prefix) = 0;
  std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape) { return make_sequence(shape, {}); }
  /// Replaces the first cells of `to` by the prefix: shares whole pages, frees those of `to`, and copies the
  /// remaining cells. While both sequences exist, no pass may write to these cells. Both are of this pool.
  virtual void take_prefix(KvSequence& to, const KvPrefix& prefix) = 0;
};

/// Attention weights of one query head of one row in one layer.
struct ObservedAttention {
  int64_t layer = 0;
  int32_t row = 0;  ///< row of the plan, unless a group wants K/V only (the last layer then renumbers rows)
  int32_t head = 0;
  std::span<const float> hidden;          ///< [hidden_dim] the row's input to the layer, before the norm
  std::span<const float> query;           ///< [head_dim]
  std::span<const IndexRange> tile_runs;  ///< tiles of kCellTile cells, contiguous in `weights`
  std::span<const float> weights;  ///< one per cell of these tiles, 0 for hidden cells; their sum is `sum`
  float sum = 1;
};

struct PassOptions {
  /// Called for every row, head and layer, by several threads at once. A backend may refuse it.
  std::function<void(const ObservedAttention&)> observe_attention = {};
};

/// A submitted pass. It owns the memory of its results.
class PassTicket {
 public:
  virtual ~PassTicket() = default;
  PassTicket(const PassTicket&) = delete;
  PassTicket& operator=(const PassTicket&) = delete;

  /// Waits for the pass; returns its results, valid for the lifetime of the ticket. May be called repeatedly.
  virtual const PassResult& wait() = 0;
  /// After wait(): samples more rows of the pass, and measures the drift of rows from their sequences'
  /// remembered outputs. Valid until the next follow-up.
  virtual FollowUpResult follow_up(const FollowUp& wanted) = 0;
  /// After wait() and the follow-ups: stores the outputs of the pass's rows in sequences that remember
  /// outputs, except for K/V-only rows.
  virtual void remember_outputs() = 0;
  /// After wait(): copies raw logits with guidance applied; out  [wanted.size(), vocab_size]
  virtual void read_logits(std::span<const LogitRow> wanted, Matrix<float> out) = 0;

  /// Times of the pass and of its follow-ups so far.
  virtual PassTimes times() const = 0;

 protected:
  PassTicket() = default;
};

/// A model loaded on a backend: weights and config, immutable. It must outlive its sequences and tickets.
class BackendModel {
 public:
  virtual ~BackendModel() = default;

  virtual const ModelConfig& config() const = 0;
  /// Name of the device, or on a CPU of the instruction set.
  virtual std::string_view device() const = 0;
  /// Type of activations, K/V, and weights that are not quantized.
  virtual DType dtype() const = 0;
  virtual int64_t weight_bytes() const = 0;
  virtual ModelBytes bytes_of_passes() const = 0;
  /// Reason why no more pass can be computed (a compute process has ended), as a sentence, known without
  /// trying one; empty if passes work. Thread-safe.
  virtual std::string failure() const { return {}; }
  /// Whether passes can use attention and layers of earlier ones (SparseAttention::keeps(), LayerReuse),
  /// and give PassResult::rollout.
  virtual bool reuses_rows() const { return false; }

  virtual std::unique_ptr<KvPool> make_pool(int64_t limit = KvPool::kNoLimit) const = 0;

  /// Begins a pass; returns at once where the backend can. Passes that name the same sequence are computed in
  /// the order in which they were submitted.
  ///   plan       outlives the ticket
  ///   sequences  one per sequence of the plan, large enough for its cells, from this model's pools; only
  ///              this call reads the span
  virtual std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences,
                                             const PassOptions& options) const = 0;
  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences) const {
    return submit(plan, sequences, {});
  }

  /// Stores the soft embeddings of these distributions in cells of a sequence, as a pass does (LogitRow).
  /// Only for models with canvases.
  ///   distributions  [cells, vocab_size] f32
  virtual void keep_soft_embeddings(KvSequence& sequence, std::span<const int32_t> cells,
                                    ConstMatrix<float> distributions) const = 0;

  /// Measures the drift between the posteriors of output rows before[i] and now[i], as read_outputs() copies
  /// them.
  virtual void compare_outputs(ConstMatrix<float> now, ConstMatrix<float> before,
                               std::span<Drift> drifts) const = 0;
};

}  // namespace lacuna
