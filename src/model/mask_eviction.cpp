#include "model/mask_eviction.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "model/pass.h"

namespace lacuna {

std::vector<double> attention_among_masks(const KernelContext& context, const AttentionShape& shape,
                                          ConstMatrix<float> q, ConstMatrix<float> k,
                                          std::span<const int32_t> masks) {
  const auto count = static_cast<int64_t>(masks.size());
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  std::vector<double> of_heads(static_cast<size_t>(shape.num_heads * count));
  context.threads.parallel_for(shape.num_heads, [&](int64_t head, int) {
    double* const sums = of_heads.data() + head * count;
    std::vector<double> scores(masks.size()), weights(masks.size());
    for (const int32_t row : masks) {
      const float* const query = q.row(row) + head * shape.head_dim;
      for (size_t j = 0; j < masks.size(); ++j) {
        const float* const key = k.row(masks[j]) + head / group * shape.head_dim;
        scores[j] = shape.scale * std::inner_product(query, query + shape.head_dim, key, 0.0);
      }
      for (size_t j = 0; j < masks.size(); ++j) {
        const size_t before = j == 0 ? j : j - 1, behind = std::min(j + 1, masks.size() - 1);
        weights[j] = std::max({scores[before], scores[j], scores[behind]});
      }
      const double largest = std::ranges::max(weights);
      for (double& weight : weights) weight = std::exp(weight - largest);
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (int64_t j = 0; j < count; ++j) sums[j] += weights[static_cast<size_t>(j)] / sum;
    }
  });
  std::vector<double> all(masks.size());
  for (size_t i = 0; i < of_heads.size(); ++i) all[i % masks.size()] += of_heads[i];
  return all;
}

std::vector<bool> masks_that_stay(std::span<const double> growth, std::span<const int32_t> cells,
                                  int32_t target, int32_t unread) {
  const size_t count = growth.size();
  const auto wanted = static_cast<size_t>(target);
  if (count <= wanted) return std::vector<bool>(count, true);
  const double mean = std::accumulate(growth.begin(), growth.end(), 0.0) / static_cast<double>(count);
  double squares = 0;
  for (const double value : growth) squares += (value - mean) * (value - mean);
  const double bound = mean + std::sqrt(squares / static_cast<double>(count));
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return growth[a] > growth[b]; });
  const auto grown =
      static_cast<size_t>(std::ranges::count_if(growth, [&](double value) { return value >= bound; }));
  order.resize(std::max(grown, wanted));
  std::vector<bool> stays(count, false);
  for (const size_t i : order) stays[i] = true;
  const std::vector<bool> chosen = stays;
  for (size_t i = 0; i + 1 < count; ++i)
    if (chosen[i + 1] && cells[i + 1] == cells[i] + 1) stays[i] = true;
  const auto last = static_cast<size_t>(std::find(stays.rbegin(), stays.rend(), true).base() - stays.begin());
  for (size_t i = 0; i < last; ++i)
    if (cells[i] >= unread) stays[i] = true;
  return stays;
}

std::vector<int32_t> Model::Pass::masks_of(const RowGroup& group) const {
  std::vector<int32_t> masks;
  for (int32_t row = group.rows.begin; row < group.rows.end; ++row)
    if (plan_.tokens[static_cast<size_t>(row)] == config_.mask_id) masks.push_back(row);
  return masks;
}

std::vector<std::vector<double>> Model::Pass::attention_of_masks(ConstMatrix<float> q) const {
  const AttentionShape shape = attention_shape(config_.slides(ws_.layer));
  const ConstMatrix<float> k = sized(ws_.k, num_rows_, shape.num_kv_heads * shape.head_dim);
  std::vector<std::vector<double>> of_groups;
  for (const RowGroup& group : plan_.groups) {
    of_groups.emplace_back();
    if (group.eviction.target > 0)
      of_groups.back() = attention_among_masks(context_, shape, q, k, masks_of(group));
  }
  return of_groups;
}

void Model::Pass::evict_masks(const LayerParameters& layer) {
  const std::vector<std::vector<double>> before = std::move(ws_.mask_attention);
  const std::vector<std::vector<double>> now = attention_of_masks(compute_queries(layer));
  ws_.staying_rows.resize(static_cast<size_t>(plan_.num_rows()));
  std::iota(ws_.staying_rows.begin(), ws_.staying_rows.end(), 0);
  for (size_t g = 0; g < plan_.groups.size(); ++g) {
    const MaskEviction& eviction = plan_.groups[g].eviction;
    if (eviction.target == 0) continue;
    const std::vector<int32_t> masks = masks_of(plan_.groups[g]);
    std::vector<double> growth = now[g];
    std::vector<int32_t> cells;
    for (size_t i = 0; i < masks.size(); ++i) {
      growth[i] -= before[g][i];
      if (std::isnan(growth[i])) growth[i] = 0;
      cells.push_back(plan_.cells[static_cast<size_t>(masks[i])]);
    }
    const std::vector<bool> stays = masks_that_stay(growth, cells, eviction.target, eviction.unread);
    for (size_t i = 0; i < masks.size(); ++i)
      if (!stays[i]) ws_.staying_rows[static_cast<size_t>(masks[i])] = -1;
  }
  std::erase(ws_.staying_rows, -1);
  list_whole_rows();
  ws_.times.selection += watch_.restart();
  narrow_to(ws_.staying_rows, layer);
}

void Model::Pass::sample_staying(std::span<const LogitRow> wanted, std::span<RowStatistics> samples) {
  std::vector<LogitRow> staying;
  std::vector<size_t> places;
  for (size_t i = 0; i < wanted.size(); ++i) {
    samples[i] = {.token = -1};
    if (ws_.residual_row[static_cast<size_t>(wanted[i].row)] < 0) continue;
    staying.push_back(wanted[i]);
    places.push_back(i);
  }
  std::vector<RowStatistics> drawn(staying.size());
  sample_all(staying, drawn);
  for (size_t i = 0; i < places.size(); ++i) samples[places[i]] = std::move(drawn[i]);
}

}  // namespace lacuna
