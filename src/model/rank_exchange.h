// Exchanges between the ranks that compute a model together, within a pass. Finished numbers are gathered and
// nothing is added, so that every number is the one that a process alone computes. Where a rank has
// everything already, a call does nothing and gives back what it was given: the forward pass reads the same
// with one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/communicator.h"
#include "base/dtype.h"
#include "base/matrix.h"
#include "base/threads.h"
#include "model/drift.h"
#include "model/part.h"
#include "model/plan.h"

namespace lacuna {

/// A matrix of this size in a buffer, which grows where it has to.
Matrix<float> sized(Buffer<float>& buffer, int64_t rows, int64_t cols);

class RankExchange {
 public:
  /// Memory of a workspace, which outlives it and grows where it has to.
  struct Memory {
    Buffer<float>& gathered;            ///< what all_heads() and all_outputs() give, until the next call
    Buffer<CosineSums>& gathered_sums;  ///< the same, of sums
    Buffer<std::byte>&sent, &received;  ///< of an all-gather
  };

  ///   ranks  may be null where the part is the model
  RankExchange(const ModelPart& part, Communicator* ranks, ThreadPool& threads, const Memory& memory)
      : part_(part), ranks_(ranks), threads_(threads), memory_(memory) {}

  /// The group, where the part is not the model.
  Communicator& group() const { return *ranks_; }

  /// Rows whose columns belong to K/V heads, of all heads.
  ///   own       [rows, the rank's heads]
  ///   cols      of all heads
  ///   rounding  what is sent is rounded to; kBF16 where that is what becomes of it next
  Matrix<float> all_heads(Matrix<float> own, int64_t cols, int64_t num_kv_heads, DType rounding);
  Matrix<CosineSums> all_heads(Matrix<CosineSums> own, int64_t cols, int64_t num_kv_heads);

  /// All outputs of a matrix.
  ///   own  [rows, the rank's outputs]
  Matrix<float> all_outputs(Matrix<float> own, int64_t cols, DType rounding);
  /// The same into `all`, of which `own` may be a part. For ranks that divide the outputs.
  void gather_outputs(ConstMatrix<float> own, Matrix<float> all, DType rounding);

  /// Puts the rows that the ranks have computed below each other, of several matrices at once, where ranks
  /// divide the rows.
  ///   sent  rows that each rank sends, ascending from rank to rank; this rank's are there
  ///   all   with as many rows
  void share_rows(std::span<const IndexRange> sent, std::span<const Matrix<float>> all, DType rounding);

  /// Puts the columns that the ranks have computed next to each other.
  ///   sent  columns of `all` that each rank sends, ascending from rank to rank
  ///   own   [rows, *] begins with the columns that this rank sends; may be a part of `all`
  void gather_columns(std::span<const ModelPart::Range> sent, ConstMatrix<float> own, Matrix<float> all,
                      DType rounding);

 private:
  template <typename Element, typename Value>
  void gather_elements(std::span<const ModelPart::Range> sent, ConstMatrix<Value> own, Matrix<Value> all);
  template <typename Element>
  void share_row_elements(std::span<const IndexRange> sent, std::span<const Matrix<float>> all);
  /// Sends what fill(Element*) writes; returns what all ranks have sent.
  ///   counts  elements of each rank
  template <typename Element, typename Fill>
  const Element* exchange(std::span<const int64_t> counts, Fill&& fill);
  /// The columns, of `cols`, that each rank sends where they belong to K/V heads.
  std::vector<ModelPart::Range> sent_columns(int64_t cols, int64_t num_kv_heads) const;

  const ModelPart part_;
  Communicator* const ranks_;
  ThreadPool& threads_;
  Memory memory_;
};

}  // namespace lacuna
