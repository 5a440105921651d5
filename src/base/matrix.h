// Views of row-major matrices. A view never owns its memory, which must outlive it.
#pragma once

#include <cstdint>
#include <span>

namespace lacuna {

template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  ///< elements from one row to the next, >= cols

  Matrix() = default;
  Matrix(T* first, int64_t num_rows, int64_t num_cols) : Matrix(first, num_rows, num_cols, num_cols) {}
  Matrix(T* first, int64_t num_rows, int64_t num_cols, int64_t row_stride)
      : data(first), rows(num_rows), cols(num_cols), stride(row_stride) {}

  T* row(int64_t index) const { return data + index * stride; }
  std::span<T> row_span(int64_t index) const { return {row(index), static_cast<size_t>(cols)}; }
  Matrix first_rows(int64_t count) const { return {data, count, cols, stride}; }
  /// Rows [begin, begin + count).
  Matrix rows_from(int64_t begin, int64_t count) const { return {row(begin), count, cols, stride}; }
  /// Columns [begin, begin + count).
  Matrix columns(int64_t begin, int64_t count) const { return {data + begin, rows, count, stride}; }

  operator Matrix<const T>() const { return {data, rows, cols, stride}; }  // NOLINT: a view narrows freely
};

template <typename T>
using ConstMatrix = Matrix<const T>;

}  // namespace lacuna
