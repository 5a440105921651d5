// Exchanges between the ranks of a distributed model within a pass. Final values are gathered and nothing is
// added, so results equal a single process's. If a rank has everything already, a call returns its argument,
// so the forward pass has no special case for one rank.
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

/// A matrix of this size in a buffer, which grows if needed.
Matrix<float> sized(Buffer<float>& buffer, int64_t rows, int64_t cols);

class RankExchange {
 public:
  /// Memory of a workspace, which must outlive the RankExchange and grows if needed.
  struct Memory {
    Buffer<float>& gathered;            ///< results of all_heads() and all_outputs(), until the next call
    Buffer<CosineSums>& gathered_sums;  ///< results of all_heads() for sums
    Buffer<std::byte>&sent, &received;  ///< buffers of an all-gather
  };

  ///   ranks  may be null if the part is the whole model
  RankExchange(const ModelPart& part, Communicator* ranks, ThreadPool& threads, const Memory& memory)
      : part_(part), ranks_(ranks), threads_(threads), memory_(memory) {}

  /// The ranks' communicator; the part must not be the whole model.
  Communicator& group() const { return *ranks_; }

  /// Gathers all heads' columns of rows whose columns belong to K/V heads.
  ///   own       [rows, the rank's heads]
  ///   cols      columns of all heads
  ///   rounding  type that sent values are rounded to; kBF16 if the receiver rounds to it anyway
  Matrix<float> all_heads(Matrix<float> own, int64_t cols, int64_t num_kv_heads, DType rounding);
  Matrix<CosineSums> all_heads(Matrix<CosineSums> own, int64_t cols, int64_t num_kv_heads);

  /// Gathers all outputs of a matrix.
  ///   own  [rows, the rank's outputs]
  Matrix<float> all_outputs(Matrix<float> own, int64_t cols, DType rounding);
  /// Same into `all`, of which `own` may be a part. Only if ranks divide the outputs.
  void gather_outputs(ConstMatrix<float> own, Matrix<float> all, DType rounding);

  /// Gathers the ranks' rows of several matrices, if ranks divide the rows.
  ///   sent  rows that each rank sends, in rank order; this rank's are in `all` already
  ///   all   the matrices that receive the rows
  void share_rows(std::span<const IndexRange> sent, std::span<const Matrix<float>> all, DType rounding);

  /// Gathers the ranks' columns.
  ///   sent  columns of `all` that each rank sends, in rank order
  ///   own   [rows, *] begins with the columns that this rank sends; may be a part of `all`
  void gather_columns(std::span<const ModelPart::Range> sent, ConstMatrix<float> own, Matrix<float> all,
                      DType rounding);

 private:
  template <typename Element, typename Value>
  void gather_elements(std::span<const ModelPart::Range> sent, ConstMatrix<Value> own, Matrix<Value> all);
  template <typename Element>
  void share_row_elements(std::span<const IndexRange> sent, std::span<const Matrix<float>> all);
  /// All-gather: sends the elements that fill(Element*) writes; returns those of all ranks.
  ///   counts  number of elements of each rank
  template <typename Element, typename Fill>
  const Element* exchange(std::span<const int64_t> counts, Fill&& fill);
  /// The columns that each rank sends of `cols` columns that belong to K/V heads.
  std::vector<ModelPart::Range> sent_columns(int64_t cols, int64_t num_kv_heads) const;

  const ModelPart part_;
  Communicator* const ranks_;
  ThreadPool& threads_;
  Memory memory_;
};

}  // namespace lacuna
