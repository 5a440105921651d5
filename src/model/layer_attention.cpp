// The attention of a layer: writing keys and values to cells, dense and sparse attention.
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "model/drift.h"
#include "model/pass.h"
#include "model/sparse_attention.h"

namespace lacuna {

void Model::Pass::prepare_attention() {
  prepare_attention(ws_.everything);
  if (config_.sliding) prepare_attention(ws_.sliding);
}

void Model::Pass::prepare_attention(LayerKind& kind) {
  const bool slides = &kind == &ws_.sliding;
  const size_t num_groups = plan_.groups.size();
  kind.groups.clear();
  if (slides) kind.begins.resize(plan_.tokens.size());
  ws_.attended_groups.clear();
  kind.visible_ranges.resize(std::max(kind.visible_ranges.size(), num_groups));
  ws_.cells_behind.resize(std::max(ws_.cells_behind.size(), num_groups));
  for (size_t g = 0; g < num_groups; ++g) {
    const RowGroup& group = plan_.groups[g];
    const IndexRange taken{std::max(group.rows.begin, rows_.begin), std::min(group.rows.end, rows_.end)};
    if (taken.begin >= taken.end) continue;
    IndexRange rows = listed_.empty() ? taken : places_in(listed_, taken);
    if (rows.size() == 0) continue;
    const int32_t last_row = listed_.empty() ? taken.end - 1 : listed_[static_cast<size_t>(rows.end) - 1];
    ws_.attended_groups.push_back(g);
    rows = {rows.begin - place_.begin, rows.end - place_.begin};
    if (is_confined(group)) {
      list_cells_behind(g);
      const int32_t count = group.sparse.num_chosen() + static_cast<int32_t>(ws_.cells_behind[g].size());
      kind.visible_ranges[g] = {{0, count}};
      kind.groups.push_back({rows, kind.visible_ranges[g], {}, false});
      continue;
    }
    const auto cells_of = [&](IndexRange range) {
      return std::span<const int32_t>(plan_.cells)
          .subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
    };
    std::span<const int32_t> own_cells;
    if (group.own_rows != OwnRows::kNone)
      own_cells = cells_of(group.own_rows == OwnRows::kCausal ? taken : group.rows);
    std::vector<IndexRange>& visible = kind.visible_ranges[g];
    visible = group.visible;
    if (uses_kept(group)) std::erase(visible, group.sparse.among);
    if (group.eviction.target > 0) {
      const int32_t end = plan_.cells[static_cast<size_t>(last_row)] + 1;
      for (IndexRange& range : visible)
        if (range.begin < end) range.end = std::min(range.end, end);
    }
    if (group.own_rows == OwnRows::kCausal) {
      for (const int32_t cell : cells_of({group.rows.begin, taken.begin}))
        visible.push_back({cell, cell + 1});
    }
    Attention::Group attended{rows,
                              {},
                              own_cells,
                              group.own_rows == OwnRows::kCausal,
                              ws_.layer >= group.sparse.dense_layers && remembers_heaviest(group)};
    attended.part_end = slides ? 0 : part_end(group);
    if (group.wants_rollout) attended.weights_at = weights_at(g);
    if (slides) narrow_to_window(group, taken, visible, attended);
    const int32_t sink = caches_[static_cast<size_t>(group.sequence)]->sink_cell();
    if (sink >= 0) visible.push_back({sink, sink + 1});
    attended.ranges = visible;
    kind.groups.push_back(attended);
  }
  const AttentionShape shape = attention_shape(slides);
  kind.attention.prepare(context_, shape, dtype_, kind.groups);
  if (!slides) prepare_active_rows(shape);
}

AttentionShape Model::Pass::attention_shape(bool slides) const {
  const int64_t head_dim = slides ? config_.sliding->head_dim : config_.head_dim;
  const float scale =
      config_.attn_scale > 0 ? config_.attn_scale : 1.0F / std::sqrt(static_cast<float>(head_dim));
  const int64_t kv_heads = slides ? config_.sliding->num_kv_heads : config_.num_kv_heads;
  const int64_t own_heads = part_.kv_heads(kv_heads).size();
  return {own_heads * (config_.num_heads / kv_heads), own_heads, head_dim, scale, config_.attn_soft_cap};
}

void Model::Pass::narrow_to_window(const RowGroup& group, IndexRange taken, std::vector<IndexRange>& visible,
                                   Attention::Group& attended) {
  std::vector<int32_t>& begins = ws_.sliding.begins;
  const auto window = static_cast<int32_t>(std::min<int64_t>(config_.sliding->window, 1 << 30));
  const auto begin_of = [&](int32_t row) {
    return std::max(0, plan_.positions[static_cast<size_t>(row)] + 1 - window);
  };
  const int32_t begin = begin_of(group.rows.begin);
  for (IndexRange& range : visible) range.begin = std::min(std::max(range.begin, begin), range.end);
  if (group.own_rows != OwnRows::kCausal || begin_of(group.rows.end - 1) == 0) return;
  for (int32_t row = taken.begin; row < taken.end; ++row) begins[static_cast<size_t>(row)] = begin_of(row);
  attended.begins = std::span<const int32_t>(begins).subspan(static_cast<size_t>(taken.begin),
                                                             static_cast<size_t>(taken.size()));
}

void Model::Pass::list_cells_behind(size_t g) {
  const RowGroup& group = plan_.groups[g];
  expects(group.own_rows != OwnRows::kCausal, "sparse attention is for rows that all see the same");
  std::vector<int32_t>& behind = ws_.cells_behind[g];
  behind.clear();
  for (const IndexRange& range : group.visible) {
    if (range == group.sparse.among) continue;
    for (int32_t cell = range.begin; cell < range.end; ++cell) behind.push_back(cell);
  }
  for (int32_t cell = group.sparse.except.begin; cell < group.sparse.except.end; ++cell)
    behind.push_back(cell);
  if (group.own_rows == OwnRows::kNone) return;
  behind.insert(behind.end(), plan_.cells.begin() + group.rows.begin, plan_.cells.begin() + group.rows.end);
}

void Model::Pass::attend(int64_t layer_index) {
  const LayerParameters& layer = parameters_.layers[static_cast<size_t>(layer_index)];
  ws_.layer = layer_index;
  const bool convolves = config_.convolves(layer_index);
  convolves ? store_convolved(layer) : store_kv(layer);
  if (plan_.measures_kv_drift) measure_kv_drift(layer_index);
  ws_.times.other += watch_.restart();
  if (attention_changes_at(layer_index)) prepare_attention();
  if (evicts_ && layer_index == 1) evict_masks(layer);
  if (layer_index + 1 == config_.num_layers) keep_output_rows(layer);
  if (num_rows_ > 0) convolves ? convolve_rows(layer) : attend_rows(layer);
  share_chosen();
}

void Model::Pass::store_kv(const LayerParameters& layer) {
  const int64_t kv_dim = own_kv_heads(ws_.layer) * config_.head_dim_of(ws_.layer);
  const bool writes_all = part_.cuts(ShardBy::kRows);
  const int64_t written = writes_all ? plan_.num_rows() : num_rows_;
  const Matrix<float> k = sized(ws_.k, written, kv_dim);
  const Matrix<float> v = sized(ws_.v, written, kv_dim);
  const int64_t first = writes_all ? rows_.begin : 0;
  if (num_rows_ > 0) compute_kv(layer, k.rows_from(first, num_rows_), v.rows_from(first, num_rows_));
  // int8 cells are quantized from f32; other cells round to the dtype when written.
  const bool is_coded = !caches_.empty() && caches_.front()->shape().is_int8;
  exchange_.share_rows(rank_rows_, std::array{k, v}, is_coded ? DType::kF32 : dtype_);
  for_each_row(written,
               [&](int64_t i) { write_kv(ws_.layer, writes_all ? i : plan_row(i), k.row(i), v.row(i)); });
}

void Model::Pass::compute_kv(const LayerParameters& layer, Matrix<float> k, Matrix<float> v) {
  const bool has_values = config_.has_value_projection(ws_.layer);
  pack_normed(layer.attn_norm);
  product(layer.k, k, ws_.times.qkv);
  if (has_values) product(layer.v, v, ws_.times.qkv);
  if (config_.qk_norm_full) norm_full_rows(layer.k_norm, config_.kv_dim_of(ws_.layer), k);
  for_each_row([&](int64_t row) {
    if (!has_values) std::copy_n(k.row(row), k.cols, v.row(row));
    finish_heads(layer.k_norm, own_kv_heads(ws_.layer), plan_row(row), k.row(row));
    finish_values(v, row);
  });
}

Matrix<float> Model::Pass::compute_queries(const LayerParameters& layer) {
  const int64_t query_heads = own_query_heads(ws_.layer);
  const Matrix<float> q = sized(ws_.q, num_rows_, query_heads * config_.head_dim_of(ws_.layer));
  product(layer.q, q, ws_.times.qkv);
  if (config_.qk_norm_full) norm_full_rows(layer.q_norm, config_.q_dim_of(ws_.layer), q);
  for_each_row([&](int64_t row) {
    finish_heads(layer.q_norm, query_heads, plan_row(row), q.row(row));
    grow_query(plan_row(row), q.row_span(row));
  });
  ws_.times.other += watch_.restart();
  return q;
}

void Model::Pass::attend_rows(const LayerParameters& layer) {
  const int64_t layer_index = ws_.layer;
  const int64_t query_heads = own_query_heads(layer_index);
  const Matrix<float> q = compute_queries(layer);
  const Matrix<float> attended = sized(ws_.attended, num_rows_, q.cols);
  if (evicts_ && layer_index == 0) ws_.mask_attention = attention_of_masks(q);

  ws_.layer_views.clear();
  for (size_t i = 0; i < ws_.attended_groups.size(); ++i) {
    const RowGroup& group = plan_.groups[ws_.attended_groups[i]];
    KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
    if (is_confined(group)) {
      gather_selected_cells(ws_.attended_groups[i], ws_.everything.groups[i].rows, q);
      ws_.layer_views.push_back(cache.sparse().chosen.layer(kv_layer()));
    } else {
      ws_.layer_views.push_back(cache.layer(kv_layer()));
    }
  }
  ws_.times.selection += watch_.restart();
  const int64_t part_dim = query_heads * Attention::part_dim(config_.head_dim_of(layer_index));
  const Matrix<float> parts = ws_.keeps_parts ? sized(ws_.parts, num_rows_, part_dim) : Matrix<float>();
  kind_of(layer_index)
      .attention.run(context_, q, ws_.layer_views, attended, ws_.attention_probe, parts, layer_weights());
  if (ws_.keeps_parts) use_kept_attention(q, parts, attended);
  ws_.times.attention += watch_.restart();
  remember_heaviest();
  remember_best_scored(q);
  ws_.times.selection += watch_.restart();

  pack(exchange_.all_heads(attended, config_.q_dim_of(layer_index), config_.num_kv_heads_of(layer_index),
                           dtype_),
       ws_.times.output);
  whole_product(layer.o, projected_, ws_.times.output);
  add_projected(layer.post_attn_norm);
}

void Model::Pass::norm_full_rows(const std::vector<float>& weight, int64_t dim, Matrix<float> heads) {
  const int64_t kv_heads = config_.num_kv_heads_of(ws_.layer);
  const Matrix<float> all = exchange_.all_heads(heads, dim, kv_heads, DType::kF32);
  const int64_t begin = part_.kv_heads(kv_heads).begin * (dim / kv_heads);
  for_each_row([&](int64_t row) {
    kernels_.rms_norm(all.row(row), weight.data(), dim, config_.norm_eps, all.row(row));
    if (all.data != heads.data) std::copy_n(all.row(row) + begin, heads.cols, heads.row(row));
  });
}

bool Model::Pass::attention_changes_at(int64_t layer) const {
  return layer > 0 && std::any_of(plan_.groups.begin(), plan_.groups.end(), [&](const RowGroup& group) {
           return group.sparse.choice != SparseAttention::Choice::kAll && group.sparse.dense_layers == layer;
         });
}

void Model::Pass::gather_selected_cells(size_t g, IndexRange rows, ConstMatrix<float> q) {
  const RowGroup& group = plan_.groups[g];
  const SparseAttention& sparse = group.sparse;
  KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
  SparseCells& cells = cache.sparse();
  cells.chosen.reserve(sparse.num_chosen() + std::ssize(ws_.cells_behind[g]), cache);
  PageBounds* pages =
      sparse.choice == SparseAttention::Choice::kRemembered ? nullptr : &cells.pages_of(sparse.page_size);
  context_.threads.parallel_for(own_kv_heads(ws_.layer), [&](int64_t kv_head, int) {
    if (pages != nullptr) {
      const std::vector<int32_t> best = best_page_cells(*pages, sparse, kv_head, rows, q, cache);
      cells.chosen.choose(kv_layer(), kv_head, best, cache);
    }
    int64_t place = sparse.num_chosen();
    expects(static_cast<int64_t>(cells.chosen.cells(kv_layer(), kv_head).size()) == place,
            "a group is confined to cells that were chosen");
    for (const int32_t cell : ws_.cells_behind[g])
      cells.chosen.place(kv_layer(), kv_head, cell, place++, cache);
  });
}

std::vector<int32_t> Model::Pass::best_page_cells(PageBounds& pages, const SparseAttention& sparse,
                                                  int64_t kv_head, IndexRange rows, ConstMatrix<float> q,
                                                  const KvCache& cache) const {
  pages.extend(kv_layer(), kv_head, sparse.among.end, cache);
  const int64_t heads = config_.num_heads / config_.num_kv_heads;
  thread_local std::vector<float> queries;
  queries.clear();
  for (int32_t row = rows.begin; row < rows.end; ++row) {
    const float* first = q.row(row) + kv_head * heads * config_.head_dim;
    queries.insert(queries.end(), first, first + heads * config_.head_dim);
  }
  const std::vector<float> means = split_mean({queries.data(), rows.size() * heads, config_.head_dim});
  return cells_of_best_pages(
      page_scores(means, pages.largest(kv_layer(), kv_head), pages.smallest(kv_layer(), kv_head)),
      sparse.budget / sparse.page_size, sparse.page_size, sparse.among.end);
}

void Model::Pass::remember_heaviest() {
  for (size_t i = 0; i < ws_.attended_groups.size(); ++i) {
    const RowGroup& group = plan_.groups[ws_.attended_groups[i]];
    const SparseAttention& sparse = group.sparse;
    if (!remembers_heaviest(group) || ws_.layer < sparse.dense_layers) continue;
    KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
    const Attention& attention = ws_.everything.attention;
    ChosenCells& chosen = cache.sparse().chosen;
    chosen.reserve(sparse.num_chosen() + group.rows.size(), cache);
    context_.threads.parallel_for(own_kv_heads(ws_.layer), [&](int64_t kv_head, int) {
      const std::vector<int32_t> cells = heaviest_cells(
          attention.mass(i, kv_head), attention.visible(i).tile_runs(), sparse.among, sparse.num_chosen());
      chosen.choose(kv_layer(), kv_head, cells, cache);
    });
  }
}

void Model::Pass::remember_best_scored(ConstMatrix<float> q) {
  for (size_t i = 0; i < ws_.attended_groups.size(); ++i) {
    const RowGroup& group = plan_.groups[ws_.attended_groups[i]];
    const SparseAttention& sparse = group.sparse;
    const bool is_scored = sparse.choice == SparseAttention::Choice::kAllAndRememberScored;
    if (!is_scored || ws_.layer < sparse.dense_layers) continue;
    const std::vector<int32_t> cells = best_scored_cells(candidate_scores(i, q), sparse);
    KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
    ChosenCells& chosen = cache.sparse().chosen;
    chosen.reserve(sparse.num_chosen() + group.rows.size(), cache);
    context_.threads.parallel_for(own_kv_heads(ws_.layer), [&](int64_t kv_head, int) {
      chosen.choose(kv_layer(), kv_head, cells, cache);
    });
  }
}

std::vector<float> Model::Pass::candidate_scores(size_t i, ConstMatrix<float> q) {
  const RowGroup& group = plan_.groups[ws_.attended_groups[i]];
  const SparseAttention& sparse = group.sparse;
  const KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
  const int64_t kv_heads = own_kv_heads(ws_.layer);
  const int64_t dim = config_.head_dim;
  const std::vector<double> means = head_means(q, ws_.everything.groups[i].rows, kv_heads, dim);
  const int32_t count = sparse.num_candidates();
  std::vector<float> scores(static_cast<size_t>(count * kv_heads));
  constexpr int32_t kCandidatesPerTask = 32;
  context_.threads.parallel_for(
      (count + kCandidatesPerTask - 1) / kCandidatesPerTask, [&](int64_t task, int) {
        std::vector<float> key(static_cast<size_t>(dim)), value(key.size());
        const auto begin = static_cast<int32_t>(task) * kCandidatesPerTask;
        for (int32_t c = begin; c < std::min(count, begin + kCandidatesPerTask); ++c) {
          for (int64_t head = 0; head < kv_heads; ++head) {
            cache.read(kv_layer(), sparse.candidate(c), head, key.data(), value.data());
            const double* mean = means.data() + head * dim;
            const double score = std::inner_product(key.begin(), key.end(), mean, 0.0);
            scores[static_cast<size_t>(c * kv_heads + head)] = static_cast<float>(score);
          }
        }
      });
  const int64_t all_heads = config_.num_kv_heads;
  const Matrix<float> all =
      exchange_.all_heads({scores.data(), count, kv_heads, kv_heads}, all_heads, all_heads, DType::kF32);
  std::vector<float> sums(static_cast<size_t>(count));
  for (int64_t c = 0; c < count; ++c)
    sums[static_cast<size_t>(c)] = static_cast<float>(
        std::accumulate(all.row(c), all.row(c) + all_heads, 0.0) / static_cast<double>(config_.num_heads));
  return sums;
}

void Model::Pass::write_kv(int64_t layer, int64_t row, const float* key, const float* value) {
  const auto index = static_cast<size_t>(row);
  KvCache& cache = *caches_[static_cast<size_t>(row_sequence_[index])];
  const int32_t cell = plan_.cells[index];
  if (!plan_.measures_kv_drift) return cache.write(kv_layer(), cell, key, value);
  thread_local std::vector<float> before, after;
  read_kv(cache, layer, cell, before);
  cache.write(kv_layer(), cell, key, value);
  read_kv(cache, layer, cell, after);  // as rounded by the cache
  const auto head_dim = static_cast<size_t>(config_.head_dim_of(layer));
  const int64_t pieces = 2 * own_kv_heads(layer);  // each head's key, then each head's value
  CosineSums* sums = own_kv_sums(layer).row(row);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const size_t begin = static_cast<size_t>(piece) * head_dim;
    const bool is_value = 2 * piece >= pieces;
    sums[2 * (piece % (pieces / 2)) + (is_value ? 1 : 0)] =
        cosine_sums(std::span(before).subspan(begin, head_dim), std::span(after).subspan(begin, head_dim));
  }
}

Matrix<CosineSums> Model::Pass::own_kv_sums(int64_t layer) {
  return {ws_.own_kv_sums.data(), plan_.num_rows(), 2 * own_kv_heads(layer)};
}

void Model::Pass::measure_kv_drift(int64_t layer) {
  const int64_t kv_heads = config_.num_kv_heads_of(layer);
  const Matrix<CosineSums> all = exchange_.all_heads(own_kv_sums(layer), 2 * kv_heads, kv_heads);
  const IndexRange written = written_rows();
  for_each_row(written.size(), [&](int64_t i) {
    const int64_t row = written.begin + i;
    CosineSums key, value;
    for (int64_t head = 0; head < kv_heads; ++head) {
      key += all.row(row)[2 * head];
      value += all.row(row)[2 * head + 1];
    }
    float* drift = ws_.kv_drift.data() + 2 * (row * config_.num_layers + layer);
    drift[0] = static_cast<float>(cosine_distance(key));
    drift[1] = static_cast<float>(cosine_distance(value));
  });
}

void Model::Pass::read_kv(const KvCache& cache, int64_t layer, int32_t cell, std::vector<float>& out) const {
  const int64_t heads = own_kv_heads(layer);
  const int64_t head_dim = config_.head_dim_of(layer);
  out.resize(static_cast<size_t>(2 * heads * head_dim));
  for (int64_t head = 0; head < heads; ++head) {
    float* key = out.data() + head * head_dim;
    cache.read(kv_layer(), cell, head, key, key + heads * head_dim);
  }
}

void Model::Pass::list_whole_rows() {
  ws_.residual_row.clear();
  ws_.whole_rows.clear();
  const bool all_stay = ws_.staying_rows.empty();
  if (all_stay && std::none_of(plan_.groups.begin(), plan_.groups.end(),
                               [](const RowGroup& group) { return group.only_kv; }))
    return;
  ws_.residual_row.assign(plan_.tokens.size(), -1);
  for (const RowGroup& group : plan_.groups) {
    if (group.only_kv) continue;
    for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
      if (!all_stay && !std::ranges::binary_search(ws_.staying_rows, row)) continue;
      ws_.residual_row[static_cast<size_t>(row)] = static_cast<int32_t>(ws_.whole_rows.size());
      ws_.whole_rows.push_back(row);
    }
  }
}

IndexRange Model::Pass::places(IndexRange rows) const {
  return ws_.residual_row.empty() ? rows : places_in(ws_.whole_rows, rows);
}

IndexRange Model::Pass::places_in(std::span<const int32_t> list, IndexRange rows) {
  const auto place_of = [&](int32_t row) {
    return static_cast<int32_t>(std::lower_bound(list.begin(), list.end(), row) - list.begin());
  };
  return {place_of(rows.begin), place_of(rows.end)};
}

void Model::Pass::keep_output_rows(const LayerParameters& layer) {
  if (ws_.residual_row.empty() || listed_.size() == ws_.whole_rows.size()) return;
  narrow_to(ws_.whole_rows, layer);
}

void Model::Pass::narrow_to(std::span<const int32_t> rows, const LayerParameters& layer) {
  const IndexRange place = places_in(rows, rows_);
  for (int32_t i = place.begin; i < place.end; ++i) {  // in place, since no row moves back
    const int32_t row = rows[static_cast<size_t>(i)];
    const int32_t from = listed_.empty() ? row : places_in(listed_, {row, row}).begin;
    std::copy_n(residual_.row(from), config_.hidden_dim, residual_.row(i));
  }
  listed_ = rows;
  set_place(place);
  if (num_rows_ == 0) return;
  pack_normed(layer.attn_norm);
  prepare_attention();
  ws_.times.other += watch_.restart();
}

void Model::Pass::finish_heads(const std::vector<float>& norm, int64_t num_heads, int64_t row, float* heads) {
  const int64_t head_dim = config_.head_dim_of(ws_.layer);
  const int64_t dim = num_heads * head_dim;
  for (int64_t d = 0; config_.qk_norm_per_head && d < dim; d += head_dim) {
    kernels_.rms_norm(heads + d, norm.data(), head_dim, config_.norm_eps, heads + d);
  }
  clip({heads, static_cast<size_t>(dim)});
  const LayerKind& kind = kind_of(ws_.layer);
  const auto half =
      static_cast<int64_t>((config_.slides(ws_.layer) ? sliding_frequencies_ : frequencies_).size());
  const int64_t angles = plan_.positions[static_cast<size_t>(row)] * half;
  for (int64_t d = 0; d < dim; d += head_dim) {
    kernels_.rope(heads + d, kind.cosines.data() + angles, kind.sines.data() + angles, half);
  }
}

void Model::Pass::grow_query(int64_t row, std::span<float> q) const {
  const float scale = query_scale(config_.rope, plan_.positions[static_cast<size_t>(row)]);
  if (scale == 1) return;
  for (float& value : q) value *= scale;
}

void Model::Pass::finish_values(Matrix<float> v, int64_t row) {
  const int64_t head_dim = config_.head_dim_of(ws_.layer);
  for (int64_t d = 0; config_.v_norm && d < v.cols; d += head_dim)
    kernels_.rms_norm(v.row(row) + d, ones_.data(), head_dim, config_.norm_eps, v.row(row) + d);
  clip(v.row_span(row));
}

}  // namespace lacuna
