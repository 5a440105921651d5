// Asynchronous copies of matrix rows to shared memory, overlapped with computing on earlier rows.
#pragma once

#include <cstdint>

#include "backend/cuda/simt/simt.h"

namespace lacuna::cuda {

/// A thread's share of copying kRows rows, kStepBytes of each row per step. Row offsets are computed once.
///   kStepBytes  8 or a multiple of 16
template <int kThreads, int kRows, int kStepBytes>
class RowCopies {
 public:
  ///   from       address of row 0
  ///   row_bytes  from one row to the next
  ///   count      number of existing rows; at most kRows are copied
  ///   index_of   maps i in [0, count) to the index of a row
  template <typename IndexOf>
  LACUNA_DEVICE RowCopies(const void* from, int64_t row_bytes, int64_t count, const IndexOf& index_of)
      : row_(static_cast<int>(simt::thread_index()) / kPieces),
        byte_(static_cast<int>(simt::thread_index()) % kPieces * kPieceBytes),
        left_(static_cast<int>(count < kRows ? count : kRows) - row_),
        row_bytes_(static_cast<uint32_t>(row_bytes)),
        next_(static_cast<const uint8_t*>(from) + byte_) {
    LACUNA_UNROLL
    for (int i = 0; i < kCount; ++i)
      rows_[i] = exists(i) ? static_cast<uint32_t>(index_of(row_ + i * kRowsApart)) : 0;
  }

  /// Starts the copies of the next step; zeros for rows that do not exist.
  template <typename Number, int kWidth>
  LACUNA_DEVICE void start(Number (&to)[kRows][kWidth]) {
    LACUNA_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (kRowsApart > kRows && row_ >= kRows) continue;  // more threads than pieces to copy
      Number* piece = to[row_ + i * kRowsApart] + byte_ / static_cast<int>(sizeof(Number));
      const uint8_t* from = next_ + uint64_t{rows_[i]} * row_bytes_;
      kPieceBytes == 16 ? simt::copy_async_16(piece, from, exists(i))
                        : simt::copy_async_8(piece, from, exists(i));
    }
    next_ += kStepBytes;
  }

 private:
  static constexpr int kPieceBytes = kStepBytes < 16 ? 8 : 16;
  static constexpr int kPieces = kStepBytes / kPieceBytes;  // pieces per row
  static constexpr int kRowsApart = kThreads / kPieces;
  static constexpr int kCount = kRowsApart > kRows ? 1 : kRows / kRowsApart;
  static_assert(kThreads % kPieces == 0 && (kRowsApart > kRows || kRows % kRowsApart == 0));

  LACUNA_DEVICE bool exists(int i) const { return i * kRowsApart < left_; }

  int row_;
  int byte_;
  int left_;
  uint32_t row_bytes_;
  const uint8_t* next_;
  uint32_t rows_[kCount];
};

/// Multi-stage pipeline: a ring buffer of kStages steps, of which kStages - 1 are prefetched.
template <int kStages, typename Load>
class Pipeline {
 public:
  ///   load  starts the copies of the next step to a stage
  LACUNA_DEVICE Pipeline(int steps, const Load& load) : load_(load), to_load_(steps) {
    LACUNA_UNROLL
    for (int stage = 0; stage < kStages - 1; ++stage) load_next(stage);
  }

  /// Waits for the next step and returns its stage. All threads must have finished reading the previous step
  /// when they call it.
  LACUNA_DEVICE int next() {
    simt::wait_copies<kStages - 2>();
    simt::sync_threads();  // all copies of this step have arrived, and all threads have read the last stage
    load_next(last_);
    last_ = stage_;
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
    return last_;
  }

 private:
  LACUNA_DEVICE void load_next(int stage) {
    if (to_load_-- > 0) load_(stage);
    simt::commit_copies();
  }

  const Load& load_;
  int to_load_;
  int stage_ = 0;
  int last_ = kStages - 1;
};

}  // namespace lacuna::cuda
