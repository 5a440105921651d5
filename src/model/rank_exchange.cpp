#include "model/rank_exchange.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "kernels/matmul.h"

namespace lacuna {
namespace {

template <typename Element, typename Value>
void convert(const Value* from, int64_t count, Element* to) {
  if constexpr (std::is_same_v<Element, Value>) {
    std::copy_n(from, count, to);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = Element(from[i]);
  }
}

template <typename Body>
void for_each_row(ThreadPool& threads, int64_t count, Body&& body) {
  constexpr int64_t kRowsPerTask = 8;
  threads.parallel_for((count + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int) {
    const int64_t end = std::min(count, (task + 1) * kRowsPerTask);
    for (int64_t row = task * kRowsPerTask; row < end; ++row) body(row);
  });
}

}  // namespace

Matrix<float> sized(Buffer<float>& buffer, int64_t rows, int64_t cols) {
  const int64_t stride = output_stride(cols);
  buffer.reserve(rows * stride);
  return {buffer.data(), rows, cols, stride};
}

template <typename Element, typename Fill>
const Element* RankExchange::exchange(std::span<const int64_t> counts, Fill&& fill) {
  std::vector<size_t> sizes;
  for (const int64_t count : counts) sizes.push_back(static_cast<size_t>(count) * sizeof(Element));
  const size_t own_size = sizes[static_cast<size_t>(part_.rank)];
  const size_t total = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  memory_.sent.reserve(static_cast<int64_t>(own_size));
  memory_.received.reserve(static_cast<int64_t>(total));
  fill(reinterpret_cast<Element*>(memory_.sent.data()));
  ranks_->all_gather({memory_.sent.data(), own_size}, sizes, {memory_.received.data(), total});
  return reinterpret_cast<const Element*>(memory_.received.data());
}

template <typename Element, typename Value>
void RankExchange::gather_elements(std::span<const ModelPart::Range> sent, ConstMatrix<Value> own,
                                   Matrix<Value> all) {
  std::vector<int64_t> counts;
  for (const ModelPart::Range& columns : sent) counts.push_back(all.rows * columns.size());
  const int64_t own_cols = sent[static_cast<size_t>(part_.rank)].size();
  const auto* received = exchange<Element>(counts, [&](Element* to) {
    for_each_row(threads_, all.rows,
                 [&](int64_t row) { convert(own.row(row), own_cols, to + row * own_cols); });
  });
  for_each_row(threads_, all.rows, [&](int64_t row) {
    const Element* from = received;
    for (size_t rank = 0; rank < sent.size(); from += counts[rank], ++rank) {
      const int64_t cols = sent[rank].size();
      convert(from + row * cols, cols, all.row(row) + sent[rank].begin);
    }
  });
}

template <typename Element>
void RankExchange::share_row_elements(std::span<const IndexRange> sent, std::span<const Matrix<float>> all) {
  int64_t width = 0;
  for (const Matrix<float>& matrix : all) width += matrix.cols;
  std::vector<int64_t> counts;
  for (const IndexRange& rows : sent) counts.push_back(rows.size() * width);
  const IndexRange own = sent[static_cast<size_t>(part_.rank)];
  const Element* from = exchange<Element>(counts, [&](Element* to) {
    for_each_row(threads_, own.size(), [&](int64_t i) {
      Element* place = to + i * width;
      for (const Matrix<float>& matrix : all) {
        convert(matrix.row(own.begin + i), matrix.cols, place);
        place += matrix.cols;
      }
    });
  });
  for (size_t rank = 0; rank < sent.size(); from += counts[rank], ++rank) {
    if (static_cast<int>(rank) == part_.rank) continue;
    for_each_row(threads_, sent[rank].size(), [&](int64_t i) {
      const Element* place = from + i * width;
      for (const Matrix<float>& matrix : all) {
        convert(place, matrix.cols, matrix.row(sent[rank].begin + i));
        place += matrix.cols;
      }
    });
  }
}

void RankExchange::share_rows(std::span<const IndexRange> sent, std::span<const Matrix<float>> all,
                              DType rounding) {
  if (!part_.cuts(ShardBy::kRows)) return;
  if (rounding == DType::kBF16) return share_row_elements<bf16>(sent, all);
  share_row_elements<float>(sent, all);
}

void RankExchange::gather_columns(std::span<const ModelPart::Range> sent, ConstMatrix<float> own,
                                  Matrix<float> all, DType rounding) {
  if (rounding == DType::kBF16) return gather_elements<bf16, float>(sent, own, all);
  gather_elements<float, float>(sent, own, all);
}

void RankExchange::gather_outputs(ConstMatrix<float> own, Matrix<float> all, DType rounding) {
  std::vector<ModelPart::Range> sent;
  sent.reserve(static_cast<size_t>(part_.size));
  for (int rank = 0; rank < part_.size; ++rank) sent.push_back(part_.of(rank).outputs(all.cols));
  gather_columns(sent, own, all, rounding);
}

Matrix<float> RankExchange::all_outputs(Matrix<float> own, int64_t cols, DType rounding) {
  if (!part_.cuts(ShardBy::kOutputs)) return own;
  const Matrix<float> all = sized(memory_.gathered, own.rows, cols);
  gather_outputs(own, all, rounding);
  return all;
}

std::vector<ModelPart::Range> RankExchange::sent_columns(int64_t cols, int64_t num_kv_heads) const {
  const int64_t per_head = cols / num_kv_heads;
  std::vector<ModelPart::Range> sent;
  for (int rank = 0; rank < part_.size; ++rank) {
    const ModelPart::Range range = part_.of(rank).sent_heads(num_kv_heads);
    sent.push_back({range.begin * per_head, range.end * per_head});
  }
  return sent;
}

Matrix<float> RankExchange::all_heads(Matrix<float> own, int64_t cols, int64_t num_kv_heads, DType rounding) {
  if (!part_.cuts(ShardBy::kOutputs)) return own;
  const Matrix<float> all = sized(memory_.gathered, own.rows, cols);
  gather_columns(sent_columns(cols, num_kv_heads), own, all, rounding);
  return all;
}

Matrix<CosineSums> RankExchange::all_heads(Matrix<CosineSums> own, int64_t cols, int64_t num_kv_heads) {
  if (!part_.cuts(ShardBy::kOutputs)) return own;
  memory_.gathered_sums.reserve(own.rows * cols);
  const Matrix<CosineSums> all(memory_.gathered_sums.data(), own.rows, cols);
  gather_elements<CosineSums, CosineSums>(sent_columns(cols, num_kv_heads), own, all);
  return all;
}

}  // namespace lacuna
