#include "kernels/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr int32_t kHidden = std::numeric_limits<int32_t>::max();

// Two blocks of AMX tiles, four tiles of AVX-512, and no more than the second-level cache holds scores of.
constexpr int64_t kStackedRows = 64;

// Cells whose codes are widened at a time: in bf16 with a head_dim of 128 they fill 64 KiB, which stay in the
// second-level cache until they are multiplied.
constexpr int64_t kWidenedCells = 256;

/// Calls use(first cell, count, column) for stretches of at most `most` visible cells, in order.
template <typename Use>
void for_each_stretch(std::span<const IndexRange> tile_runs, int64_t most, Use&& use) {
  int64_t column = 0;
  for (const IndexRange& run : tile_runs) {
    const int64_t end = run.end * kCellTile;
    for (int64_t cell = run.begin * kCellTile; cell < end;) {
      const int64_t count = std::min(most, end - cell);
      use(cell, count, column);
      cell += count;
      column += count;
    }
  }
}

/// One kv head's panels of some cells, in the dtype that is multiplied.
class CellPanels {
 public:
  /// space  for kWidenedCells, where the cells are codes
  CellPanels(const KernelTable& kernels, const KvLayerView& kv, int64_t kv_head, std::byte* space)
      : kernels_(kernels), kv_(kv), kv_head_(kv_head), space_(space) {}

  void point_to_keys(PanelProduct& product, int64_t cell, int64_t count) const {
    const PanelView keys = kv_.key_panels(kv_head_);
    product.panel_stride = keys.panel_stride;
    product.num_panels = count / kPanelWidth;
    product.panels = keys.panel(cell / kPanelWidth);
    if (!kv_.holds_codes()) return;
    widen(kv_.keys + kv_head_ * kv_.key_head_bytes + cell * keys.panel_stride / kPanelWidth,
          product.num_panels * keys.panel_stride, 0);
    product.panels = space_;
  }

  void point_to_values(PanelProduct& product, int64_t cell, int64_t count) const {
    const PanelView values = kv_.value_panels(kv_head_);
    product.panel_stride = values.panel_stride;
    product.num_panels = num_panels(kv_.head_dim);
    product.panels = static_cast<const std::byte*>(values.data) + cell * kPanelWidth * element_bytes();
    if (!kv_.holds_codes()) return;
    const std::byte* codes = kv_.values + kv_head_ * kv_.value_head_bytes + cell * kPanelWidth;
    for (int64_t panel = 0; panel < product.num_panels; ++panel) {
      widen(codes + panel * values.panel_stride, count * kPanelWidth, panel * count * kPanelWidth);
    }
    product.panels = space_;
    product.panel_stride = count * kPanelWidth;
  }

 private:
  int64_t element_bytes() const { return static_cast<int64_t>(size_of(kv_.dtype)); }

  void widen(const std::byte* from, int64_t count, int64_t to) const {
    const auto* codes = reinterpret_cast<const int8_t*>(from);
    if (kv_.dtype == DType::kBF16) {
      kernels_.widen_codes_bf16(codes, count, reinterpret_cast<bf16*>(space_) + to);
    } else {
      kernels_.widen_codes_f32(codes, count, reinterpret_cast<float*>(space_) + to);
    }
  }

  const KernelTable& kernels_;
  const KvLayerView& kv_;
  int64_t kv_head_;
  std::byte* space_;
};

}  // namespace

void VisibleCells::assign(std::span<const IndexRange> ranges, std::span<const int32_t> own_cells,
                          bool causal) {
  int64_t end = 0;
  for (const IndexRange& range : ranges) end = std::max<int64_t>(end, range.end);
  for (const int32_t cell : own_cells) end = std::max<int64_t>(end, cell + 1);
  first_row_by_cell_.assign(static_cast<size_t>(round_up(end, kCellTile)), kHidden);
  for (const IndexRange& range : ranges) {
    std::fill(first_row_by_cell_.begin() + range.begin, first_row_by_cell_.begin() + range.end, 0);
  }
  for (size_t row = 0; row < own_cells.size(); ++row) {
    int32_t& first = first_row_by_cell_[static_cast<size_t>(own_cells[row])];
    first = causal ? std::min(first, static_cast<int32_t>(row)) : 0;
  }

  runs_.clear();
  first_row_.clear();
  const auto num_tiles = static_cast<int32_t>(first_row_by_cell_.size() / kCellTile);
  for (int32_t tile = 0; tile < num_tiles; ++tile) {
    const auto begin = first_row_by_cell_.begin() + tile * kCellTile;
    const auto tile_end = begin + kCellTile;
    if (std::all_of(begin, tile_end, [](int32_t row) { return row == kHidden; })) continue;
    if (!runs_.empty() && runs_.back().end == tile) {
      ++runs_.back().end;
    } else {
      runs_.push_back({tile, tile + 1});
    }
    first_row_.insert(first_row_.end(), begin, tile_end);
  }
}

void Attention::prepare(const KernelContext& context, const AttentionShape& shape, DType dtype,
                        std::span<const Group> groups) {
  shape_ = shape;
  dtype_ = dtype;
  group_rows_.clear();
  tasks_.clear();
  visible_.resize(groups.size());
  const int64_t heads_per_kv = shape.num_heads / shape.num_kv_heads;
  const auto rows_per_task = static_cast<int32_t>(std::max<int64_t>(1, kStackedRows / heads_per_kv));
  int64_t most_cells = 0;
  int64_t mass_cells = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    group_rows_.push_back(group.rows);
    visible_[g].assign(group.ranges, group.own_cells, group.causal);
    most_cells = std::max(most_cells, visible_[g].num_cells());
    for (int32_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
      for (int32_t row = group.rows.begin; row < group.rows.end; row += rows_per_task) {
        tasks_.push_back(
            {static_cast<int32_t>(g), kv_head, {row, std::min(row + rows_per_task, group.rows.end)}});
        if (!group.wants_mass) continue;
        tasks_.back().mass = mass_cells;
        mass_cells += visible_[g].num_cells();
      }
    }
  }

  mass_.reserve(mass_cells);
  const int64_t stacked = rows_per_task * heads_per_kv;
  const int64_t element_bytes =
      dtype == DType::kBF16 ? context.kernels.bf16_row_element_bytes : int64_t{sizeof(float)};
  scratch_.resize(static_cast<size_t>(context.threads.size()));
  for (Scratch& scratch : scratch_) {
    scratch.queries.reserve(stacked * padded_depth(dtype, shape.head_dim) * element_bytes);
    scratch.scores.reserve(stacked * output_stride(most_cells));
    if (dtype == DType::kBF16) {
      scratch.probabilities.reserve(stacked * output_stride(most_cells) * element_bytes);
    }
    scratch.sums.reserve(stacked);
    scratch.out.reserve(stacked * round_up(shape.head_dim, kPanelWidth));
  }
}

void Attention::run(const KernelContext& context, ConstMatrix<float> q, std::span<const KvLayerView> kv,
                    Matrix<float> out, const AttentionProbe& probe) {
  expects(kv.size() == visible_.size(), "Attention::run: one K/V view per prepared group");
  if (std::any_of(kv.begin(), kv.end(), [](const KvLayerView& view) { return view.holds_codes(); })) {
    reserve_for_codes(context);
  }
  context.threads.parallel_for(static_cast<int64_t>(tasks_.size()), [&](int64_t index, int thread) {
    const Task& task = tasks_[static_cast<size_t>(index)];
    run_task(context.kernels, task, kv[static_cast<size_t>(task.group)], q, out, probe,
             scratch_[static_cast<size_t>(thread)]);
  });
  add_up_mass(context);
}

void Attention::reserve_for_codes(const KernelContext& context) {
  int64_t most_cells = 0;
  for (const VisibleCells& visible : visible_) most_cells = std::max(most_cells, visible.num_cells());
  const int64_t widest =
      std::max(padded_depth(dtype_, shape_.head_dim), round_up(shape_.head_dim, kPanelWidth));
  for (int thread = 0; thread < context.threads.size(); ++thread) {
    Scratch& scratch = scratch_[static_cast<size_t>(thread)];
    scratch.widened.reserve(kWidenedCells * widest * static_cast<int64_t>(size_of(dtype_)));
    scratch.key_scales.reserve(most_cells);
    scratch.value_scales.reserve(most_cells);
  }
}

/// In the order of the tasks, whichever thread ran them.
void Attention::add_up_mass(const KernelContext& context) {
  std::vector<IndexRange> runs;  // tasks of one group and kv head
  for (size_t t = 0; t < tasks_.size(); ++t) {
    const Task& task = tasks_[t];
    if (task.mass < 0) continue;
    const auto index = static_cast<int32_t>(t);
    const bool goes_on = !runs.empty() && runs.back().end == index && tasks_[t - 1].group == task.group &&
                         tasks_[t - 1].kv_head == task.kv_head;
    if (goes_on) {
      ++runs.back().end;
    } else {
      runs.push_back({index, index + 1});
    }
  }
  context.threads.parallel_for(static_cast<int64_t>(runs.size()), [&](int64_t r, int) {
    const IndexRange run = runs[static_cast<size_t>(r)];
    const Task& first = tasks_[static_cast<size_t>(run.begin)];
    const int64_t cells = visible_[static_cast<size_t>(first.group)].num_cells();
    for (int32_t t = run.begin + 1; t < run.end; ++t) {
      context.kernels.add_scaled(mass_.data() + first.mass,
                                 mass_.data() + tasks_[static_cast<size_t>(t)].mass, 1, cells);
    }
  });
}

std::span<const float> Attention::mass(size_t group, int64_t kv_head) const {
  const auto is_first = [&](const Task& task) {
    return static_cast<size_t>(task.group) == group && task.kv_head == kv_head;
  };
  const auto task = std::find_if(tasks_.begin(), tasks_.end(), is_first);
  expects(task != tasks_.end() && task->mass >= 0, "Attention::mass: the group wanted it");
  return {mass_.data() + task->mass, static_cast<size_t>(visible_[group].num_cells())};
}

void Attention::run_task(const KernelTable& kernels, const Task& task, const KvLayerView& kv,
                         ConstMatrix<float> q, Matrix<float> out, const AttentionProbe& probe,
                         Scratch& scratch) {
  const bool is_bf16 = dtype_ == DType::kBF16;
  const VisibleCells& visible = visible_[static_cast<size_t>(task.group)];
  const int64_t heads = shape_.num_heads / shape_.num_kv_heads;
  const int64_t head_dim = shape_.head_dim;
  const int64_t stacked = task.rows.size() * heads;
  const int64_t cells = visible.num_cells();
  const int64_t score_stride = output_stride(cells);
  const int64_t query_stride = padded_depth(dtype_, head_dim);
  const int64_t out_stride = round_up(head_dim, kPanelWidth);
  const int64_t element_bytes = is_bf16 ? kernels.bf16_row_element_bytes : int64_t{sizeof(float)};
  const auto panel_product = is_bf16 ? kernels.panel_product_bf16 : kernels.panel_product_f32;
  // Stacked row s is query head s % heads of row s / heads.
  const auto head_offset = [&](int64_t s) { return (task.kv_head * heads + s % heads) * head_dim; };

  for (int64_t s = 0; s < stacked; ++s) {
    const float* query = q.row(task.rows.begin + s / heads) + head_offset(s);
    std::byte* packed = scratch.queries.data() + s * query_stride * element_bytes;
    if (is_bf16) {
      kernels.pack_row_bf16(query, head_dim, query_stride, packed);
    } else {
      std::memcpy(packed, query, static_cast<size_t>(head_dim) * sizeof(float));
    }
  }

  const CellPanels panels(kernels, kv, task.kv_head, scratch.widened.data());
  const int64_t stretch = kv.holds_codes() ? kWidenedCells : std::numeric_limits<int64_t>::max();
  PanelProduct product;
  product.a = scratch.queries.data();
  product.a_strides = RowStrides::in_rows(query_stride);
  product.num_rows = stacked;
  product.depth = query_stride;
  product.out_stride = score_stride;
  for_each_stretch(visible.tile_runs(), stretch, [&](int64_t cell, int64_t count, int64_t column) {
    panels.point_to_keys(product, cell, count);
    product.out = scratch.scores.data() + column;
    panel_product(product);
    if (!kv.holds_codes()) return;
    const int64_t scale = task.kv_head * kv.capacity + cell;
    std::copy_n(kv.key_scales + scale, count, scratch.key_scales.data() + column);
    std::copy_n(kv.value_scales + scale, count, scratch.value_scales.data() + column);
  });

  float* mass = task.mass < 0 ? nullptr : mass_.data() + task.mass;
  if (mass != nullptr) std::fill_n(mass, cells, 0.0F);
  const int32_t first_task_row = task.rows.begin - group_rows_[static_cast<size_t>(task.group)].begin;
  for (int64_t s = 0; s < stacked; ++s) {
    float* scores = scratch.scores.data() + s * score_stride;
    const auto row = static_cast<int32_t>(first_task_row + s / heads);
    float scale = shape_.scale;
    if (kv.holds_codes()) kernels.multiply(scores, scratch.key_scales.data(), cells);
    if (shape_.soft_cap > 0) {
      kernels.soft_cap(scores, cells, scale, shape_.soft_cap);
      scale = 1;
    }
    scratch.sums.data()[s] = kernels.softmax_numerators(scores, visible.first_row(), cells, row, scale);
    if (mass != nullptr) kernels.add_scaled(mass, scores, 1 / scratch.sums.data()[s], cells);
    if (probe) {
      probe({static_cast<size_t>(task.group),
             static_cast<int32_t>(task.rows.begin + s / heads),
             static_cast<int32_t>(task.kv_head * heads + s % heads),
             {q.row(task.rows.begin + s / heads) + head_offset(s), static_cast<size_t>(head_dim)},
             visible.tile_runs(),
             {scores, static_cast<size_t>(cells)},
             scratch.sums.data()[s]});
    }
    if (kv.holds_codes()) kernels.multiply(scores, scratch.value_scales.data(), cells);
    if (is_bf16)
      kernels.pack_row_bf16(scores, cells, cells,
                            scratch.probabilities.data() + s * score_stride * element_bytes);
  }

  const auto* probabilities =
      is_bf16 ? scratch.probabilities.data() : reinterpret_cast<const std::byte*>(scratch.scores.data());
  product.a_strides = RowStrides::in_rows(score_stride);
  product.out = scratch.out.data();
  product.out_stride = out_stride;
  product.accumulate = false;
  for_each_stretch(visible.tile_runs(), stretch, [&](int64_t cell, int64_t count, int64_t column) {
    panels.point_to_values(product, cell, count);
    product.a = probabilities + column * element_bytes;
    product.depth = count;
    panel_product(product);
    product.accumulate = true;
  });

  for (int64_t s = 0; s < stacked; ++s) {
    const float* row = scratch.out.data() + s * out_stride;
    float* target = out.row(task.rows.begin + s / heads) + head_offset(s);
    const float inverse = 1.0F / scratch.sums.data()[s];
    for (int64_t d = 0; d < head_dim; ++d) target[d] = row[d] * inverse;
  }
}

}  // namespace lacuna
