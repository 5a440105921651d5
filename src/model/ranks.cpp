// Data that the ranks of a model exchange within a pass. They gather finished numbers and add nothing, so
// every number is the one that a process alone computes.
#include <array>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "model/pass.h"
#include "model/row_cuts.h"
#include "model/statistics_bytes.h"

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

}  // namespace

template <typename Element, typename Fill>
const Element* Model::Pass::exchange(std::span<const int64_t> counts, Fill&& fill) {
  std::vector<size_t> sizes;
  for (const int64_t count : counts) sizes.push_back(static_cast<size_t>(count) * sizeof(Element));
  const size_t own_size = sizes[static_cast<size_t>(part_.rank)];
  const size_t total = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  ws_.sent.reserve(static_cast<int64_t>(own_size));
  ws_.received.reserve(static_cast<int64_t>(total));
  fill(reinterpret_cast<Element*>(ws_.sent.data()));
  ranks_->all_gather({ws_.sent.data(), own_size}, sizes, {ws_.received.data(), total});
  return reinterpret_cast<const Element*>(ws_.received.data());
}

template <typename Element, typename Value>
void Model::Pass::gather_elements(std::span<const ModelPart::Range> sent, ConstMatrix<Value> own,
                                  Matrix<Value> all) {
  std::vector<int64_t> counts;
  for (const ModelPart::Range& columns : sent) counts.push_back(all.rows * columns.size());
  const int64_t own_cols = sent[static_cast<size_t>(part_.rank)].size();
  const auto* received = exchange<Element>(counts, [&](Element* to) {
    for_each_row(all.rows, [&](int64_t row) { convert(own.row(row), own_cols, to + row * own_cols); });
  });
  for_each_row(all.rows, [&](int64_t row) {
    const Element* from = received;
    for (size_t rank = 0; rank < sent.size(); from += counts[rank], ++rank) {
      const int64_t cols = sent[rank].size();
      convert(from + row * cols, cols, all.row(row) + sent[rank].begin);
    }
  });
}

template <typename Element>
void Model::Pass::gather_row_elements(std::span<const IndexRange> sent, std::span<const Matrix<float>> all) {
  int64_t width = 0;
  for (const Matrix<float>& matrix : all) width += matrix.cols;
  std::vector<int64_t> counts;
  for (const IndexRange& rows : sent) counts.push_back(rows.size() * width);
  const IndexRange own = sent[static_cast<size_t>(part_.rank)];
  const Element* from = exchange<Element>(counts, [&](Element* to) {
    for_each_row(own.size(), [&](int64_t i) {
      Element* place = to + i * width;
      for (const Matrix<float>& matrix : all) {
        convert(matrix.row(own.begin + i), matrix.cols, place);
        place += matrix.cols;
      }
    });
  });
  for (size_t rank = 0; rank < sent.size(); from += counts[rank], ++rank) {
    if (static_cast<int>(rank) == part_.rank) continue;
    for_each_row(sent[rank].size(), [&](int64_t i) {
      const Element* place = from + i * width;
      for (const Matrix<float>& matrix : all) {
        convert(place, matrix.cols, matrix.row(sent[rank].begin + i));
        place += matrix.cols;
      }
    });
  }
}

void Model::Pass::gather_rows(std::span<const IndexRange> sent, std::span<const Matrix<float>> all,
                              DType rounding) {
  if (rounding == DType::kBF16) return gather_row_elements<bf16>(sent, all);
  gather_row_elements<float>(sent, all);
}

void Model::Pass::compute_own_rows() {
  rank_rows_ = rows_of_ranks(config_, plan_, part_.size);
  compute(rank_rows_[static_cast<size_t>(part_.rank)]);
  std::vector<IndexRange> sent;
  for (const IndexRange& rows : rank_rows_) sent.push_back(places(rows));
  gather_rows(sent, std::array{residual_}, DType::kF32);
  ws_.times.other += watch_.restart();
}

void Model::Pass::run_stages() {
  const std::vector<IndexRange> pieces = pieces_for_stages(plan_, part_.size);
  const auto bytes_of = [&](IndexRange rows) {
    const auto count = static_cast<size_t>(rows.size() * residual_.stride);
    return std::as_writable_bytes(std::span(residual_.row(rows.begin), count));
  };
  const int64_t steps = std::ssize(pieces) + part_.size - 1;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t piece = step - part_.rank;
    if (piece >= 0 && piece < std::ssize(pieces)) compute(pieces[static_cast<size_t>(piece)]);
    std::vector<size_t> sizes;
    sizes.reserve(static_cast<size_t>(part_.size));
    for (int rank = 0; rank < part_.size; ++rank)
      sizes.push_back(bytes_of(passed_on(pieces, step, rank)).size());
    ranks_->pass_on(bytes_of(passed_on(pieces, step, part_.rank)), sizes,
                    bytes_of(passed_on(pieces, step, ranks_->previous())));
    ws_.times.other += watch_.restart();
  }
  if (!plan_.measures_kv_drift) return;
  std::vector<ModelPart::Range> sent;  // columns of kv_drift: a key's and a value's of each layer
  for (int rank = 0; rank < part_.size; ++rank) {
    const ModelPart::Range layers = part_.of(rank).layers(config_.num_layers);
    sent.push_back({2 * layers.begin, 2 * layers.end});
  }
  const Matrix<float> drift(ws_.kv_drift.data(), plan_.num_rows(), 2 * config_.num_layers);
  gather_columns(sent, drift.columns(sent[static_cast<size_t>(part_.rank)].begin, 0), drift, DType::kF32);
}

IndexRange Model::Pass::passed_on(std::span<const IndexRange> pieces, int64_t step, int rank) const {
  const int64_t piece = step - rank;
  if (piece < 0 || piece >= std::ssize(pieces)) return {};
  const IndexRange rows = pieces[static_cast<size_t>(piece)];
  return part_.of(rank).is_last() ? places(rows) : rows;
}

void Model::Pass::share_chosen() {
  if (!part_.cuts(ShardBy::kRows)) return;
  const bool is_last = ws_.layer + 1 == config_.num_layers;
  const auto is_shared = [&](const RowGroup& group) {
    return remembers_cells(group) && ws_.layer >= group.sparse.dense_layers && !(is_last && group.only_kv);
  };
  if (std::none_of(plan_.groups.begin(), plan_.groups.end(), is_shared)) return;
  const auto for_each_group_of = [&](int rank, auto&& use) {
    const IndexRange rows = rank_rows_[static_cast<size_t>(rank)];
    for (const RowGroup& group : plan_.groups) {
      if (!is_shared(group) || group.rows.begin < rows.begin || group.rows.begin >= rows.end) continue;
      KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
      ChosenCells& chosen = cache.sparse().chosen;
      chosen.reserve(group.sparse.num_chosen() + group.rows.size(), cache);
      for (int64_t head = 0; head < own_kv_heads(ws_.layer); ++head) use(group, cache, chosen, head);
    }
  };
  std::vector<int32_t> own;
  for_each_group_of(part_.rank, [&](const RowGroup&, KvCache&, ChosenCells& chosen, int64_t head) {
    const std::span<const int32_t> cells = chosen.cells(kv_layer(), head);
    own.insert(own.end(), cells.begin(), cells.end());
  });
  const auto received = gather_all(*ranks_, std::as_bytes(std::span(own)));
  for (int rank = 0; rank < part_.size; ++rank) {
    if (rank == part_.rank) continue;
    const std::byte* from = received[static_cast<size_t>(rank)].data();
    for_each_group_of(rank, [&](const RowGroup& group, KvCache& cache, ChosenCells& chosen, int64_t head) {
      std::vector<int32_t> cells(static_cast<size_t>(group.sparse.num_chosen()));
      std::memcpy(cells.data(), from, cells.size() * sizeof(int32_t));
      from += cells.size() * sizeof(int32_t);
      chosen.choose(kv_layer(), head, cells, cache);
    });
  }
  ws_.times.selection += watch_.restart();
}

template void Model::Pass::gather_elements<CosineSums, CosineSums>(std::span<const ModelPart::Range>,
                                                                   ConstMatrix<CosineSums>,
                                                                   Matrix<CosineSums>);

void Model::Pass::gather_columns(std::span<const ModelPart::Range> sent, ConstMatrix<float> own,
                                 Matrix<float> all, DType rounding) {
  if (rounding == DType::kBF16) return gather_elements<bf16, float>(sent, own, all);
  gather_elements<float, float>(sent, own, all);
}

void Model::Pass::gather_outputs(ConstMatrix<float> own, Matrix<float> all, DType rounding) {
  std::vector<ModelPart::Range> sent;
  sent.reserve(static_cast<size_t>(part_.size));
  for (int rank = 0; rank < part_.size; ++rank) sent.push_back(part_.of(rank).outputs(all.cols));
  gather_columns(sent, own, all, rounding);
}

std::vector<ModelPart::Range> Model::Pass::sent_columns(int64_t cols) const {
  const int64_t heads = config_.num_kv_heads_of(ws_.layer);
  const int64_t per_head = cols / heads;
  std::vector<ModelPart::Range> sent;
  for (int rank = 0; rank < part_.size; ++rank) {
    const ModelPart::Range range = part_.of(rank).sent_heads(heads);
    sent.push_back({range.begin * per_head, range.end * per_head});
  }
  return sent;
}

void Model::Pass::whole_product(const Linear& linear, Matrix<float> out, double& seconds) {
  if (!part_.cuts(ShardBy::kOutputs)) return product(linear, out, seconds);
  const Matrix<float> own = sized(ws_.own_outputs, out.rows, part_.outputs(out.cols).size());
  product(linear, own, seconds);
  gather_outputs(own, out, DType::kF32);
  ws_.times.other += watch_.restart();
}

void Model::Pass::norm_full_rows(const std::vector<float>& weight, int64_t dim, Matrix<float> heads) {
  const auto norm = [&](float* row) { kernels_.rms_norm(row, weight.data(), dim, config_.norm_eps, row); };
  if (!part_.cuts(ShardBy::kOutputs)) return for_each_row([&](int64_t row) { norm(heads.row(row)); });
  const Matrix<float> all = sized(ws_.gathered, num_rows_, dim);
  gather_columns(sent_columns(dim), heads, all, DType::kF32);
  const int64_t kv_heads = config_.num_kv_heads_of(ws_.layer);
  const int64_t begin = part_.kv_heads(kv_heads).begin * (dim / kv_heads);
  for_each_row([&](int64_t row) {
    norm(all.row(row));
    std::copy_n(all.row(row) + begin, heads.cols, heads.row(row));
  });
}

void Model::Pass::sample_shared(std::span<const LogitRow> wanted, std::span<RowStatistics> samples) {
  if (part_.is_whole()) return sample_all(wanted, samples);
  const auto count = static_cast<int64_t>(wanted.size());
  const auto of_rank = [&](int rank, auto rows) {
    const ModelPart::Range range = part_.of(rank).sampled(count);
    return rows.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
  };
  sample_all(of_rank(part_.rank, wanted), of_rank(part_.rank, samples));
  const auto received = gather_all(*ranks_, to_bytes(of_rank(part_.rank, samples)));
  for (int rank = 0; rank < part_.size; ++rank) {
    if (rank != part_.rank) from_bytes(received[static_cast<size_t>(rank)], of_rank(rank, samples));
  }
  share_soft_embeddings(wanted);
  ws_.times.draws += watch_.restart();
}

void Model::Pass::share_soft_embeddings(std::span<const LogitRow> wanted) {
  const auto keeps = [](const LogitRow& logit) { return logit.soft_embedding_slack >= 0; };
  if (std::none_of(wanted.begin(), wanted.end(), keeps)) return;
  const auto row_bytes = static_cast<size_t>(config_.hidden_dim) * sizeof(float);
  const auto for_each_kept = [&](int rank, auto&& use) {
    const ModelPart::Range range = part_.of(rank).sampled(static_cast<int64_t>(wanted.size()));
    for (int64_t i = range.begin; i < range.end; ++i) {
      const LogitRow& logit = wanted[static_cast<size_t>(i)];
      if (!keeps(logit)) continue;
      const auto row = static_cast<size_t>(logit.row);
      const KvCache& cache = *caches_[static_cast<size_t>(row_sequence_[row])];
      use(cache.soft_embeddings().row(plan_.cells[row]));
    }
  };
  std::vector<std::byte> own;
  for_each_kept(part_.rank, [&](const float* embedding) {
    const auto* bytes = reinterpret_cast<const std::byte*>(embedding);
    own.insert(own.end(), bytes, bytes + row_bytes);
  });
  const auto received = gather_all(*ranks_, own);
  for (int rank = 0; rank < part_.size; ++rank) {
    const std::byte* from = received[static_cast<size_t>(rank)].data();
    for_each_kept(rank, [&](float* embedding) {
      std::memcpy(embedding, from, row_bytes);
      from += row_bytes;
    });
  }
}

}  // namespace lacuna
