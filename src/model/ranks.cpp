// Parts of a pass that synchronize the ranks: division of rows and layers, and exchange of results.
// rank_exchange.h transfers the data.
#include <array>
#include <cstring>

#include "base/error.h"
#include "model/pass.h"
#include "model/row_cuts.h"
#include "model/statistics_bytes.h"

namespace lacuna {

void Model::Pass::compute_own_rows() {
  rank_rows_ = rows_of_ranks(config_, plan_, part_.size);
  compute(rank_rows_[static_cast<size_t>(part_.rank)]);
  std::vector<IndexRange> sent;
  for (const IndexRange& rows : rank_rows_) sent.push_back(places(rows));
  exchange_.share_rows(sent, std::array{residual_}, DType::kF32);
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
    exchange_.group().ring_exchange(bytes_of(passed_on(pieces, step, part_.rank)), sizes,
                                    bytes_of(passed_on(pieces, step, exchange_.group().previous())));
    ws_.times.other += watch_.restart();
  }
  if (!plan_.measures_kv_drift) return;
  std::vector<ModelPart::Range> sent;  // columns of kv_drift: two per layer, for key and value
  for (int rank = 0; rank < part_.size; ++rank) {
    const ModelPart::Range layers = part_.of(rank).layers(config_.num_layers);
    sent.push_back({2 * layers.begin, 2 * layers.end});
  }
  const Matrix<float> drift(ws_.kv_drift.data(), plan_.num_rows(), 2 * config_.num_layers);
  exchange_.gather_columns(sent, drift.columns(sent[static_cast<size_t>(part_.rank)].begin, 0), drift,
                           DType::kF32);
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
    return group.sparse.remembers() && ws_.layer >= group.sparse.dense_layers && !(is_last && group.only_kv);
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
  const auto received = gather_all(exchange_.group(), std::as_bytes(std::span(own)));
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

void Model::Pass::whole_product(const Linear& linear, Matrix<float> out, double& seconds) {
  if (!part_.cuts(ShardBy::kOutputs)) return product(linear, out, seconds);
  const Matrix<float> own = sized(ws_.own_outputs, out.rows, part_.outputs(out.cols).size());
  product(linear, own, seconds);
  exchange_.gather_outputs(own, out, DType::kF32);
  ws_.times.other += watch_.restart();
}

void Model::Pass::sample_shared(std::span<const LogitRow> wanted, std::span<RowStatistics> samples) {
  if (part_.is_whole()) return sample_all(wanted, samples);
  const auto count = static_cast<int64_t>(wanted.size());
  const auto of_rank = [&](int rank, auto rows) {
    const ModelPart::Range range = part_.of(rank).sampled(count);
    return rows.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
  };
  sample_all(of_rank(part_.rank, wanted), of_rank(part_.rank, samples));
  const auto received = gather_all(exchange_.group(), to_bytes(of_rank(part_.rank, samples)));
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
  const auto received = gather_all(exchange_.group(), own);
  for (int rank = 0; rank < part_.size; ++rank) {
    const std::byte* from = received[static_cast<size_t>(rank)].data();
    for_each_kept(rank, [&](float* embedding) {
      std::memcpy(embedding, from, row_bytes);
      from += row_bytes;
    });
  }
}

}  // namespace lacuna
