// Attention to the cells before a block that its rows keep from one pass to the next.
#include <algorithm>

#include "base/error.h"
#include "cache/sparse_cells.h"
#include "model/pass.h"
#include "model/sparse_attention.h"

namespace lacuna {

void Model::Pass::prepare_active_rows(const AttentionShape& shape) {
  ws_.keeps_parts = false;
  ws_.active_groups.clear();
  ws_.active_rows.clear();
  LayerKind& active = ws_.active;
  active.groups.clear();
  active.visible_ranges.resize(ws_.attended_groups.size());
  int32_t first = 0;
  for (size_t i = 0; i < ws_.attended_groups.size(); ++i) {
    const size_t g = ws_.attended_groups[i];
    const SparseAttention& sparse = plan_.groups[g].sparse;
    if (part_end(plan_.groups[g]) == 0) continue;
    expects(part_.is_whole(), "rows keep attention on one rank");
    ws_.keeps_parts = true;
    const int32_t count = std::min(sparse.active_rows, ws_.everything.groups[i].rows.size());
    if (!uses_kept(plan_.groups[g]) || count == 0) continue;
    list_cells_behind(g);
    const int32_t chosen = sparse.num_chosen();
    active.visible_ranges[i] = {{0, chosen + static_cast<int32_t>(ws_.cells_behind[g].size())}};
    active.groups.push_back({.rows = {first, first + count},
                             .ranges = active.visible_ranges[i],
                             .own_cells = {},
                             .part_end = chosen});
    ws_.active_groups.push_back(i);
    first += count;
  }
  if (!active.groups.empty()) active.attention.prepare(context_, shape, dtype_, active.groups);
}

KeptAttention& Model::Pass::kept_of(size_t i) {
  const RowGroup& group = plan_.groups[ws_.attended_groups[i]];
  int32_t count = 0;
  for (int32_t row = group.rows.begin; row < group.rows.end; ++row)
    count = std::max(count, plan_.cells[static_cast<size_t>(row)] + 1 - group.sparse.among.end);
  KeptAttention& kept =
      caches_[static_cast<size_t>(group.sequence)]->sparse().kept[static_cast<size_t>(kv_layer())];
  kept.reserve(count, own_query_heads(ws_.layer) * Attention::part_dim(config_.head_dim_of(ws_.layer)),
               group.sparse.active_rows > 0 ? config_.hidden_dim : 0);
  return kept;
}

std::span<float> Model::Pass::kept_input(KeptAttention& kept, const RowGroup& group, int64_t row) const {
  const auto dim = static_cast<size_t>(config_.hidden_dim);
  return std::span(kept.inputs).subspan(kept_place(group, row) * dim, dim);
}

std::vector<int32_t> Model::Pass::most_changed_rows(size_t i, int32_t count) {
  const RowGroup& group = plan_.groups[ws_.attended_groups[i]];
  const IndexRange rows = ws_.everything.groups[i].rows;
  KeptAttention& kept = kept_of(i);
  std::vector<float> changes(static_cast<size_t>(rows.size()));
  context_.threads.parallel_for(rows.size(), [&](int64_t n, int) {
    const int64_t row = rows.begin + n;
    changes[static_cast<size_t>(n)] = mean_square_change(kept_input(kept, group, row), x_.row_span(row));
  });
  std::vector<int32_t> changed = largest_indices(changes, count);
  for (int32_t& row : changed) row += rows.begin;
  return changed;
}

void Model::Pass::attend_active_rows(ConstMatrix<float> q, Matrix<float> parts, Matrix<float> attended) {
  if (ws_.active_groups.empty()) return;
  ws_.times.attention += watch_.restart();
  LayerKind& active = ws_.active;
  const int64_t count = active.groups.back().rows.end;
  const Matrix<float> queries = sized(ws_.active_q, count, q.cols);
  const Matrix<float> out = sized(ws_.active_out, count, q.cols);
  const Matrix<float> own_parts = sized(ws_.active_parts, count, parts.cols);
  ws_.active_rows.clear();
  ws_.active_views.clear();
  for (size_t n = 0; n < ws_.active_groups.size(); ++n) {
    const size_t i = ws_.active_groups[n];
    const IndexRange rows = active.groups[n].rows;
    for (const int32_t row : most_changed_rows(i, rows.size())) {
      std::copy_n(q.row(row), q.cols, queries.row(std::ssize(ws_.active_rows)));
      ws_.active_rows.push_back(row);
    }
    const size_t g = ws_.attended_groups[i];
    gather_selected_cells(g, rows, queries);
    KvCache& cache = *caches_[static_cast<size_t>(plan_.groups[g].sequence)];
    ws_.active_views.push_back(cache.sparse().chosen.layer(kv_layer()));
  }
  ws_.times.selection += watch_.restart();
  active.attention.run(context_, queries, ws_.active_views, out, {}, own_parts);
  for (int64_t n = 0; n < count; ++n) {
    const int32_t row = ws_.active_rows[static_cast<size_t>(n)];
    std::copy_n(out.row(n), out.cols, attended.row(row));
    std::copy_n(own_parts.row(n), parts.cols, parts.row(row));
  }
}

void Model::Pass::use_kept_attention(ConstMatrix<float> q, Matrix<float> parts, Matrix<float> attended) {
  attend_active_rows(q, parts, attended);
  for (size_t i = 0; i < ws_.attended_groups.size(); ++i) {
    const RowGroup& group = plan_.groups[ws_.attended_groups[i]];
    if (part_end(group) == 0) continue;
    KeptAttention& kept = kept_of(i);
    const IndexRange rows = ws_.everything.groups[i].rows;
    for (int32_t row = rows.begin; uses_kept(group) && row < rows.end; ++row)
      expects(kept.tokens[kept_place(group, row)] >= 0, "a row uses attention that it kept");
    context_.threads.parallel_for(rows.size(), [&](int64_t n, int) {
      const auto row = static_cast<int32_t>(rows.begin + n);
      const bool is_active = std::ranges::find(ws_.active_rows, row) != ws_.active_rows.end();
      if (uses_kept(group) && !is_active) {
        merge_kept(kept, group, row, parts, attended);
      } else {
        keep(kept, group, row, parts);
      }
      if (group.sparse.active_rows > 0)
        std::ranges::copy(x_.row_span(row), kept_input(kept, group, row).begin());
    });
  }
}

void Model::Pass::keep(KeptAttention& kept, const RowGroup& group, int64_t row, ConstMatrix<float> parts) {
  const size_t place = kept_place(group, row);
  std::ranges::copy(parts.row_span(row),
                    kept.parts.begin() + static_cast<std::ptrdiff_t>(place) * parts.cols);
  kept.tokens[place] = plan_.tokens[static_cast<size_t>(plan_row(row))];
}

void Model::Pass::merge_kept(const KeptAttention& kept, const RowGroup& group, int64_t row,
                             ConstMatrix<float> parts, Matrix<float> attended) const {
  const size_t place = kept_place(group, row);
  const TokenId token = kept.tokens[place];
  const bool adds_kept =
      group.sparse.active_rows > 0 || token == plan_.tokens[static_cast<size_t>(plan_row(row))];
  const auto dim = static_cast<size_t>(config_.head_dim_of(ws_.layer));
  const auto part_dim = static_cast<size_t>(Attention::part_dim(config_.head_dim_of(ws_.layer)));
  const auto width = static_cast<size_t>(parts.cols);
  for (size_t head = 0; head < width / part_dim; ++head) {
    merge_parts(std::span(kept.parts).subspan(place * width + head * part_dim, part_dim),
                parts.row_span(row).subspan(head * part_dim, part_dim), adds_kept,
                attended.row_span(row).subspan(head * dim, dim));
  }
}

}  // namespace lacuna
