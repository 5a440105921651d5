// Layers that compute some rows, and reuse what they added to the others in earlier passes.
#include <algorithm>

#include "base/error.h"
#include "model/drift.h"
#include "model/pass.h"
#include "model/sparse_attention.h"

namespace lacuna {

void Model::Pass::take_layer_rows(const LayerParameters& layer) {
  ws_.taken_rows.clear();
  for (const RowGroup& group : plan_.groups) choose_layer_rows(layer, group);
  listed_ = ws_.taken_rows;
  set_place({0, static_cast<int32_t>(ws_.taken_rows.size())});
  x_ = sized(ws_.layer_rows, num_rows_, config_.hidden_dim);
  for_each_row([&](int64_t i) { std::copy_n(residual_.row(plan_row(i)), config_.hidden_dim, x_.row(i)); });
  if (ws_.layer == 1) prepare_attention();  // later layers compute as many rows of each group
  ws_.times.other += watch_.restart();
}

void Model::Pass::choose_layer_rows(const LayerParameters& layer, const RowGroup& group) {
  const IndexRange rows = group.rows;
  const int32_t count = group.reuse.num_computed;
  if (!group.reuse.skips() || ws_.layer == 0 || count >= rows.size()) {
    for (int32_t row = rows.begin; row < rows.end; ++row) ws_.taken_rows.push_back(row);
    return;
  }
  expects(config_.has_value_projection(ws_.layer), "rows are chosen by values that a layer projects");
  ws_.packed.pack_each(context_, rows.size(), config_.hidden_dim, dtype_, [&](int64_t i, float* space) {
    norm(residual_.row(rows.begin + i), layer.attn_norm, space);
    return space;
  });
  const int64_t head_dim = config_.head_dim_of(ws_.layer);
  const Matrix<float> values = sized(ws_.v, rows.size(), own_kv_heads(ws_.layer) * head_dim);
  product(layer.v, values, ws_.times.qkv);
  KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
  std::vector<float> changes(static_cast<size_t>(rows.size()));
  for_each_row(rows.size(), [&](int64_t i) {
    finish_values(values, i);
    thread_local std::vector<float> before;
    read_kv(cache, ws_.layer, plan_.cells[static_cast<size_t>(rows.begin + i)], before);
    const std::span<const float> now(values.row_span(i));
    changes[static_cast<size_t>(i)] =
        static_cast<float>(cosine_distance(now, std::span(before).last(now.size())));
  });
  const std::vector<int32_t> chosen = largest_indices(changes, count);
  for_each_row(rows.size(), [&](int64_t i) {
    if (!std::binary_search(chosen.begin(), chosen.end(), i))
      write_kv(ws_.layer, rows.begin + i, nullptr, values.row(i));
  });
  for (const int32_t i : chosen) ws_.taken_rows.push_back(rows.begin + i);
}

void Model::Pass::return_layer_rows() {
  const auto kept_of = [&](int64_t row) {
    const KvCache& cache = *caches_[static_cast<size_t>(row_sequence_[static_cast<size_t>(row)])];
    return cache.kept_layer(ws_.layer, plan_.cells[static_cast<size_t>(row)]);
  };
  for_each_row(plan_.num_rows(), [&](int64_t row) {
    const RowGroup& group = plan_.groups[static_cast<size_t>(row_group_[static_cast<size_t>(row)])];
    const std::span<float> x = residual_.row_span(row);
    const auto place = std::ranges::lower_bound(listed_, static_cast<int32_t>(row));
    if (place == listed_.end() || *place != row) {
      kernels_.add_scaled(x.data(), kept_of(row).data(), 1, config_.hidden_dim);
      return;
    }
    const std::span<const float> computed = x_.row_span(place - listed_.begin());
    if (group.reuse.keeps) {
      const std::span<float> kept = kept_of(row);
      for (size_t d = 0; d < x.size(); ++d) kept[d] = computed[d] - x[d];
    }
    std::ranges::copy(computed, x.begin());
  });
  take(all_rows());
  ws_.times.other += watch_.restart();
}

}  // namespace lacuna
