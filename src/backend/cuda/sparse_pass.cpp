#include "backend/cuda/sparse_pass.h"

#include <algorithm>
#include <set>

#include "backend/cuda/kernels/sparse_cells.h"
#include "base/error.h"

namespace lacuna::cuda {
namespace {

using Choice = SparseAttention::Choice;

constexpr int64_t kNumber = sizeof(float);

int32_t num_pages_of(const SparseAttention& sparse) {
  return (sparse.among.end + sparse.page_size - 1) / sparse.page_size;
}

/// Cells that a confined group sees in addition to the chosen ones.
std::vector<int32_t> cells_behind(const StepPlan& plan, const RowGroup& group) {
  expects(group.own_rows != OwnRows::kCausal, "sparse attention is for rows that all see the same");
  std::vector<int32_t> cells;
  for (const IndexRange& range : group.visible) {
    if (range == group.sparse.among) continue;
    for (int32_t cell = range.begin; cell < range.end; ++cell) cells.push_back(cell);
  }
  const IndexRange& except = group.sparse.except;
  for (int32_t cell = except.begin; cell < except.end; ++cell) cells.push_back(cell);
  if (group.own_rows == OwnRows::kNone) return cells;
  cells.insert(cells.end(), plan.cells.begin() + group.rows.begin, plan.cells.begin() + group.rows.end);
  return cells;
}

}  // namespace

void SparsePass::prepare(std::span<const int32_t> first_pages) {
  for (const RowGroup& group : plan_.groups) {
    expects(!group.reuses_rows(), "BackendModel::reuses_rows");
    if (group.sparse.choice == Choice::kAll) continue;
    expect_supported();
    const auto sequence = static_cast<size_t>(group.sequence);
    Group own{.group = &group, .sequence = sequences_[sequence], .first_page = first_pages[sequence]};
    reserve_chosen(own);
    if (group.sparse.choice == Choice::kBestPages) reserve_bounds(own);
    if (group.sparse.is_confined()) {
      const std::vector<int32_t> others = cells_behind(plan_, group);
      const SparseMemory& memory = own.sequence->sparse();
      own.selection = static_cast<int32_t>(selections_.size());
      own.num_walked = memory.num_chosen + static_cast<int32_t>(others.size());
      selections_.push_back(
          {memory.chosen.as<int32_t>(), memory.num_chosen, static_cast<int32_t>(behind_.size())});
      behind_.insert(behind_.end(), others.begin(), others.end());
    }
    groups_.push_back(own);
  }
  reserve_scratch();
}

void SparsePass::expect_supported() const {
  const ModelConfig& config = model_.config;
  if (!config.sliding && config.head_dim <= kMaxSparseHeadDim) return;
  throw InputError(
      "sparse attention has CUDA kernels for layers that see everything and heads of up to {} dimensions; "
      "--device cpu, or a request without it, works for this model",
      kMaxSparseHeadDim);
}

void SparsePass::stage(Staging& staging) {
  staged_selections_ = staging.add(selections_);
  staged_behind_ = staging.add(behind_);
}

void SparsePass::reserve_chosen(const Group& group) {
  const SparseAttention& sparse = group.group->sparse;
  SparseMemory& memory = group.sequence->sparse();
  const int32_t count = sparse.num_chosen();
  if (sparse.choice == Choice::kRemembered) {
    expects(memory.num_chosen == count, "a group is confined to cells that were chosen");
    return;
  }
  const ModelConfig& config = model_.config;
  grow(model_.stream(), memory.chosen,
       config.num_layers * config.num_kv_heads * count * static_cast<int64_t>(sizeof(int32_t)));
  memory.num_chosen = count;
}

void SparsePass::reserve_bounds(Group& group) {
  const SparseAttention& sparse = group.group->sparse;
  SparseMemory& memory = group.sequence->sparse();
  const bool is_kept = memory.page_size == sparse.page_size && memory.first_layer <= sparse.dense_layers &&
                       memory.num_bounded <= sparse.among.end;
  if (!is_kept) {
    const ModelConfig& config = model_.config;
    const auto cells = static_cast<int32_t>(group.sequence->shape().num_cells);
    memory.page_size = sparse.page_size;
    memory.most_pages = (cells + sparse.page_size - 1) / sparse.page_size;
    memory.num_bounded = 0;
    memory.first_layer = sparse.dense_layers;
    grow(model_.stream(), memory.bounds,
         config.num_layers * config.num_kv_heads * memory.most_pages * 2 * config.head_dim * kNumber);
  }
  group.num_bounded = memory.num_bounded;
}

void SparsePass::reserve_scratch() {
  if (groups_.empty()) return;
  const ModelConfig& config = model_.config;
  Stream& stream = model_.stream();
  int64_t cells = 0;
  int64_t pages = 0;
  int64_t scored = 0;
  for (const Group& group : groups_) {
    const SparseAttention& sparse = group.group->sparse;
    if (sparse.choice == Choice::kAllAndRemember) cells = std::max<int64_t>(cells, sparse.among.end);
    // Scores and pooled scores.
    if (sparse.choice == Choice::kAllAndRememberScored)
      scored = std::max<int64_t>(scored, 2 * sparse.num_candidates());
    if (sparse.choice == Choice::kBestPages) pages = std::max<int64_t>(pages, num_pages_of(sparse));
  }
  grow(stream, model_.scratch.cell_mass, std::max(config.num_kv_heads * cells, scored) * kNumber);
  const int64_t statistics = cells > 0 ? plan_.num_rows() * config.num_heads * kNumber : 0;
  grow(stream, model_.scratch.row_max, statistics);
  grow(stream, model_.scratch.row_sum, statistics);
  grow(stream, model_.scratch.page_scores, config.num_kv_heads * pages * kNumber);
  grow(stream, model_.scratch.page_means, config.num_kv_heads * 2 * config.head_dim * kNumber);
}

std::vector<int64_t> SparsePass::first_layers() const {
  std::set<int64_t> layers = {0};
  for (const Group& group : groups_) {
    const int64_t layer = group.group->sparse.dense_layers;
    if (group.selection >= 0 && layer < model_.config.num_layers) layers.insert(layer);
  }
  return {layers.begin(), layers.end()};
}

void SparsePass::confine(const RowGroup& group, GroupCells& cells) const {
  const auto own =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& other) { return other.group == &group; });
  expects(own != groups_.end() && own->selection >= 0, "confine: the group is confined");
  cells.seen = {{0, own->num_walked}};
  cells.selection = own->selection;
}

void SparsePass::complete(const Staging& staging, AttendArguments& attention) {
  attention.selections = staging.at(staged_selections_);
  attention.behind = staging.at(staged_behind_);
  for (const Group& group : groups_) {
    const SparseAttention& sparse = group.group->sparse;
    if (sparse.choice != Choice::kAllAndRemember || attention.layer < sparse.dense_layers) continue;
    attention.row_max = model_.scratch.row_max.as<float>();
    attention.row_sum = model_.scratch.row_sum.as<float>();
  }
}

int32_t* SparsePass::chosen_of(const Group& group, int64_t layer) const {
  const SparseMemory& memory = group.sequence->sparse();
  return memory.chosen.as<int32_t>() + layer * model_.config.num_kv_heads * memory.num_chosen;
}

void SparsePass::choose_pages(const AttendArguments& attention, bool without_kv_only) {
  const auto kv_heads = static_cast<uint32_t>(attention.pool.num_kv_heads);
  for (const Group& group : groups_) {
    const SparseAttention& sparse = group.group->sparse;
    if (sparse.choice != Choice::kBestPages || attention.layer < sparse.dense_layers) continue;
    SparseMemory& memory = group.sequence->sparse();
    if (attention.layer + 1 == model_.config.num_layers) memory.num_bounded = sparse.among.end;
    page_bounds(model_.stream(), {.pool = attention.pool,
                                  .page_table = attention.page_table,
                                  .first_memory_page = group.first_page,
                                  .layer = attention.layer,
                                  .bounds = memory.bounds.as<float>(),
                                  .most_pages = memory.most_pages,
                                  .first_page = group.num_bounded / sparse.page_size,
                                  .page_size = sparse.page_size,
                                  .num_cells = sparse.among.end});
    if (without_kv_only && group.group->only_kv) continue;
    const int32_t pages = num_pages_of(sparse);
    page_scores(model_.stream(), {.queries = attention.queries,
                                  .queries_f32 = attention.queries_f32,
                                  .bounds = memory.bounds.as<float>(),
                                  .means = model_.scratch.page_means.as<float>(),
                                  .scores = model_.scratch.page_scores.as<float>(),
                                  .layer = attention.layer,
                                  .num_kv_heads = attention.pool.num_kv_heads,
                                  .num_heads = attention.num_heads,
                                  .head_dim = attention.pool.head_dim,
                                  .first_row = group.group->rows.begin,
                                  .num_rows = group.group->rows.size(),
                                  .most_pages = memory.most_pages,
                                  .num_pages = pages});
    choose_largest(model_.stream(),
                   {.values = model_.scratch.page_scores.as<float>(),
                    .stride = pages,
                    .num_values = pages - 1,
                    .num_chosen = std::min(sparse.budget / sparse.page_size, pages) - 1,
                    .page_size = sparse.page_size,
                    .num_cells = sparse.among.end,
                    .chosen = chosen_of(group, attention.layer)},
                   kv_heads);
  }
}

void SparsePass::remember(const AttendArguments& attention, bool without_kv_only) {
  const auto kv_heads = static_cast<uint32_t>(attention.pool.num_kv_heads);
  for (const Group& group : groups_) {
    const SparseAttention& sparse = group.group->sparse;
    if (!sparse.remembers() || attention.layer < sparse.dense_layers) continue;
    if (without_kv_only && group.group->only_kv) continue;
    auto* values = model_.scratch.cell_mass.as<float>();
    ChooseArguments choice{.num_values = sparse.num_candidates(),
                           .num_chosen = sparse.num_chosen(),
                           .num_cells = sparse.among.end,
                           .chosen = chosen_of(group, attention.layer)};
    if (sparse.choice == Choice::kAllAndRemember) {
      attention_mass(model_.stream(), {.attention = attention,
                                       .mass = values,
                                       .first_row = group.group->rows.begin,
                                       .num_rows = group.group->rows.size(),
                                       .first_page = group.first_page,
                                       .num_cells = sparse.among.end});
      choice.values = values;
      choice.stride = sparse.among.end;
    } else {
      float* pooled = values + sparse.num_candidates();
      candidate_scores(model_.stream(), {.attention = attention,
                                         .means = model_.scratch.page_means.as<float>(),
                                         .scores = values,
                                         .pooled = pooled,
                                         .first_row = group.group->rows.begin,
                                         .num_rows = group.group->rows.size(),
                                         .first_page = group.first_page,
                                         .num_candidates = sparse.num_candidates(),
                                         .except_begin = sparse.except.begin,
                                         .except_cells = sparse.except.size(),
                                         .reach = sparse.pool / 2});
      choice.values = pooled;
      choice.except_begin = sparse.except.begin;
      choice.except_cells = sparse.except.size();
    }
    choose_largest(model_.stream(), choice, kv_heads);
  }
}

}  // namespace lacuna::cuda
