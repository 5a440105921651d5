// What the ranks of a model exchange within a pass. They gather finished numbers and add nothing, so every
// number is the one that a process alone computes.
#include <cstring>

#include "base/error.h"
#include "model/pass.h"
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

template <typename Element, typename Value>
void Model::Pass::gather_elements(std::span<const ModelPart::Range> sent, ConstMatrix<Value> own,
                                  Matrix<Value> all) {
  std::vector<size_t> sizes;
  std::vector<int64_t> begins;  // of each rank's elements in what is received
  int64_t total = 0;
  for (const ModelPart::Range& columns : sent) {
    begins.push_back(total);
    total += all.rows * columns.size();
    sizes.push_back(static_cast<size_t>(all.rows * columns.size()) * sizeof(Element));
  }
  const int64_t own_count = sent[static_cast<size_t>(part_.rank)].size();
  ws_.sent.reserve(all.rows * own_count * static_cast<int64_t>(sizeof(Element)));
  ws_.received.reserve(total * static_cast<int64_t>(sizeof(Element)));
  auto* to_send = reinterpret_cast<Element*>(ws_.sent.data());
  auto* received = reinterpret_cast<Element*>(ws_.received.data());
  for_each_row(all.rows, [&](int64_t row) { convert(own.row(row), own_count, to_send + row * own_count); });
  ranks_->all_gather({ws_.sent.data(), sizes[static_cast<size_t>(part_.rank)]}, sizes,
                     {ws_.received.data(), static_cast<size_t>(total) * sizeof(Element)});
  for_each_row(all.rows, [&](int64_t row) {
    for (size_t rank = 0; rank < sent.size(); ++rank) {
      const int64_t count = sent[rank].size();
      convert(received + begins[rank] + row * count, count, all.row(row) + sent[rank].begin);
    }
  });
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
  if (part_.is_whole()) return product(linear, out, seconds);
  const Matrix<float> own = sized(ws_.own_outputs, out.rows, part_.outputs(out.cols).size());
  product(linear, own, seconds);
  gather_outputs(own, out, DType::kF32);
  ws_.times.other += watch_.restart();
}

void Model::Pass::norm_full_rows(const std::vector<float>& weight, int64_t dim, Matrix<float> heads) {
  const auto norm = [&](float* row) { kernels_.rms_norm(row, weight.data(), dim, config_.norm_eps, row); };
  if (part_.is_whole()) return for_each_row([&](int64_t row) { norm(heads.row(row)); });
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
    const ModelPart::Range range = part_.of(rank).cut(count);
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
    const ModelPart::Range range = part_.of(rank).cut(static_cast<int64_t>(wanted.size()));
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
