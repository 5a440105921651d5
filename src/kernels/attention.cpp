#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "kernels/cell_panels.h"

namespace lacuna {
namespace {

constexpr int32_t kHidden = std::numeric_limits<int32_t>::max();

// Two blocks of AMX tiles, or four tiles of AVX-512, whose scores still fit the L2 cache.
constexpr int64_t kStackedRows = 64;

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

int64_t VisibleCells::num_cells_before(int32_t cell) const {
  int64_t count = 0;
  for (const IndexRange& run : runs_) {
    count += std::clamp<int64_t>(cell - run.begin * kCellTile, 0, run.size() * kCellTile);
  }
  return count;
}

void Attention::prepare(const KernelContext& context, const AttentionShape& shape, DType dtype,
                        std::span<const Group> groups) {
  shape_ = shape;
  dtype_ = dtype;
  group_rows_.clear();
  begins_.clear();
  part_ends_.clear();
  weights_at_.clear();
  tasks_.clear();
  in_turn_.clear();
  visible_.resize(groups.size());
  const int64_t heads_per_kv = shape.num_heads / shape.num_kv_heads;
  const auto rows_per_task = static_cast<int32_t>(std::max<int64_t>(1, kStackedRows / heads_per_kv));
  int64_t most_cells = 0;
  int64_t mass_cells = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    group_rows_.push_back(group.rows);
    begins_.push_back(group.begins);
    part_ends_.push_back(group.part_end);
    weights_at_.push_back(group.weights_at);
    expects(group.part_end == 0 || (!group.causal && group.begins.empty()),
            "a group with a part has rows that all see the same");
    visible_[g].assign(group.ranges, group.own_cells, group.causal);
    most_cells = std::max(most_cells, visible_[g].num_cells());
    const auto add_task = [&](int32_t kv_head, int32_t row, int32_t count) {
      tasks_.push_back({static_cast<int32_t>(g), kv_head, {row, std::min(row + count, group.rows.end)}});
      if (!group.wants_mass) return;
      tasks_.back().mass = mass_cells;
      mass_cells += visible_[g].num_cells();
    };
    if (group.weights_at >= 0) {
      expects(!group.wants_mass, "a group has its mass or its weights");
      // One thread adds up all heads of a row, so that their order is always the same.
      const int32_t share = (group.rows.size() + context.threads.size() - 1) / context.threads.size();
      const int32_t count = std::clamp(share, 1, rows_per_task);
      for (int32_t row = group.rows.begin; row < group.rows.end; row += count) {
        in_turn_.push_back({static_cast<int32_t>(tasks_.size()), 0});
        for (int32_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) add_task(kv_head, row, count);
        in_turn_.back().end = static_cast<int32_t>(tasks_.size());
      }
      continue;
    }
    for (int32_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
      for (int32_t row = group.rows.begin; row < group.rows.end; row += rows_per_task) {
        const auto task = static_cast<int32_t>(tasks_.size());
        in_turn_.push_back({task, task + 1});
        add_task(kv_head, row, rows_per_task);
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
    if (std::ranges::all_of(part_ends_, [](int32_t end) { return end == 0; })) continue;
    scratch.part.reserve(stacked * round_up(shape.head_dim, kPanelWidth));
    scratch.cut_tile.reserve(stacked * kCellTile * element_bytes);
    scratch.part_sums.reserve(2 * stacked);
  }
}

void Attention::reserve_for_codes(const KernelContext& context) {
  int64_t most_cells = 0;
  for (const VisibleCells& visible : visible_) most_cells = std::max(most_cells, visible.num_cells());
  const int64_t widest =
      std::max(padded_depth(dtype_, shape_.head_dim), round_up(shape_.head_dim, kPanelWidth));
  for (int thread = 0; thread < context.threads.size(); ++thread) {
    Scratch& scratch = scratch_[static_cast<size_t>(thread)];
    scratch.widened.reserve(kPageCells * widest * static_cast<int64_t>(size_of(dtype_)));
    scratch.key_scales.reserve(most_cells);
    scratch.value_scales.reserve(most_cells);
  }
}

/// Adds in the order of tasks, so the sum does not depend on the threads.
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

/// One task's run over one layer: packs its queries, multiplies them with the keys, turns scores into softmax
/// numerators and multiplies these with the values. A stacked row s is query head s % heads of row s / heads.
class Attention::TaskRun {
 public:
  TaskRun(Attention& attention, const KernelTable& kernels, const Task& task, const KvLayerView& kv,
          Scratch& scratch)
      : attention_(attention),
        shape_(attention.shape_),
        kernels_(kernels),
        task_(task),
        kv_(kv),
        visible_(attention.visible_[static_cast<size_t>(task.group)]),
        scratch_(scratch),
        is_bf16_(attention.dtype_ == DType::kBF16),
        heads_(shape_.num_heads / shape_.num_kv_heads),
        stacked_(task.rows.size() * heads_),
        num_cells_(visible_.num_cells()),
        score_stride_(output_stride(num_cells_)),
        query_stride_(padded_depth(attention.dtype_, shape_.head_dim)),
        element_bytes_(is_bf16_ ? kernels.bf16_row_element_bytes : int64_t{sizeof(float)}),
        out_stride_(round_up(shape_.head_dim, kPanelWidth)) {
    const int32_t part_end = attention.part_ends_[static_cast<size_t>(task.group)];
    if (part_end == 0) return;
    part_columns_ = visible_.num_cells_before(part_end);
    find_visible_columns();
  }

  void pack_queries(ConstMatrix<float> q) {
    for (int64_t s = 0; s < stacked_; ++s) {
      const float* query = query_of(q, s);
      std::byte* packed = scratch_.queries.data() + s * query_stride_ * element_bytes_;
      if (is_bf16_) {
        kernels_.pack_row_bf16(query, shape_.head_dim, query_stride_, packed);
      } else {
        std::memcpy(packed, query, static_cast<size_t>(shape_.head_dim) * sizeof(float));
      }
    }
  }

  void compute_scores() {
    const CellPanels panels(kernels_, kv_, task_.kv_head, scratch_.widened.data());
    PanelProduct product;
    product.a = scratch_.queries.data();
    product.a_strides = RowStrides::in_rows(query_stride_);
    product.num_rows = stacked_;
    product.depth = query_stride_;
    product.out_stride = score_stride_;
    for_each_stretch(visible_.tile_runs(), [&](const Stretch& stretch) {
      panels.point_to_keys(product, stretch);
      product.out = scratch_.scores.data() + stretch.column;
      multiply(product);
      if (!kv_.holds_codes()) return;
      std::copy_n(kv_.key_scales_of(stretch.page, task_.kv_head) + stretch.first, stretch.count,
                  scratch_.key_scales.data() + stretch.column);
      std::copy_n(kv_.value_scales_of(stretch.page, task_.kv_head) + stretch.first, stretch.count,
                  scratch_.value_scales.data() + stretch.column);
    });
  }

  /// Replaces scores by softmax numerators, multiplied by the scales of quantized values. Writes the sums of
  /// numerators, without these scales, to `sums`.
  void softmax(ConstMatrix<float> q, const AttentionProbe& probe, Matrix<float> weights) {
    float* mass = task_.mass < 0 ? nullptr : attention_.mass_.data() + task_.mass;
    if (mass != nullptr) std::fill_n(mass, num_cells_, 0.0F);
    const int32_t first_row =
        task_.rows.begin - attention_.group_rows_[static_cast<size_t>(task_.group)].begin;
    const int32_t weights_at = attention_.weights_at_[static_cast<size_t>(task_.group)];
    for (int64_t s = 0; s < stacked_; ++s) {
      float* scores = scratch_.scores.data() + s * score_stride_;
      float scale = shape_.scale;
      if (kv_.holds_codes()) kernels_.multiply(scores, scratch_.key_scales.data(), num_cells_);
      if (shape_.soft_cap > 0) {
        kernels_.soft_cap(scores, num_cells_, scale, shape_.soft_cap);
        scale = 1;
      }
      const auto row = static_cast<int32_t>(first_row + s / heads_);
      if (part_columns_ > 0) scratch_.part_sums.data()[2 * s] = scale * largest_score(scores);
      const float sum = kernels_.softmax_numerators(scores, first_row_of(row), num_cells_, row, scale);
      scratch_.sums.data()[s] = sum;
      if (part_columns_ > 0) scratch_.part_sums.data()[2 * s + 1] = kernels_.sum(scores, part_columns_);
      if (mass != nullptr) kernels_.add_scaled(mass, scores, 1 / sum, num_cells_);
      if (weights_at >= 0) kernels_.add_scaled(weights.row(weights_at + row), scores, 1 / sum, num_cells_);
      if (probe) {
        probe({static_cast<size_t>(task_.group),
               static_cast<int32_t>(row_of(s)),
               static_cast<int32_t>(task_.kv_head * heads_ + s % heads_),
               {query_of(q, s), static_cast<size_t>(shape_.head_dim)},
               visible_.tile_runs(),
               {scores, static_cast<size_t>(num_cells_)},
               sum});
      }
      if (kv_.holds_codes()) kernels_.multiply(scores, scratch_.value_scales.data(), num_cells_);
      if (is_bf16_) {
        kernels_.pack_row_bf16(scores, num_cells_, num_cells_,
                               scratch_.probabilities.data() + s * score_stride_ * element_bytes_);
      }
    }
  }

  void weigh_values(Matrix<float> out, Matrix<float> parts) {
    const Weights weights{
        is_bf16_ ? scratch_.probabilities.data() : reinterpret_cast<const std::byte*>(scratch_.scores.data()),
        score_stride_};
    const int64_t whole_tiles = part_columns_ / kCellTile * kCellTile;
    add_values(weights, {0, whole_tiles}, false, scratch_.out.data());
    if (part_columns_ > 0) weigh_part(whole_tiles, parts);
    add_values(weights, {whole_tiles, num_cells_}, whole_tiles > 0, scratch_.out.data());
    for (int64_t s = 0; s < stacked_; ++s) {
      const float* row = scratch_.out.data() + s * out_stride_;
      float* target = out.row(row_of(s)) + head_offset(s);
      const float inverse = 1.0F / scratch_.sums.data()[s];
      for (int64_t d = 0; d < shape_.head_dim; ++d) target[d] = row[d] * inverse;
    }
  }

 private:
  struct Columns {
    int64_t begin, end;
  };
  /// Packed softmax numerators of the stacked rows.
  struct Weights {
    const std::byte* data;
    int64_t stride;
    int64_t first = 0;  // column of the first one
  };

  /// out = weights times values of these columns, whole tiles, added to `out` if `accumulates`.
  void add_values(const Weights& weights, Columns columns, bool accumulates, float* out) {
    const CellPanels panels(kernels_, kv_, task_.kv_head, scratch_.widened.data());
    PanelProduct product;
    product.a_strides = RowStrides::in_rows(weights.stride);
    product.num_rows = stacked_;
    product.out = out;
    product.out_stride = out_stride_;
    product.accumulate = accumulates;
    for_each_stretch(visible_.tile_runs(), [&](Stretch stretch) {
      const int64_t skipped = std::max<int64_t>(0, columns.begin - stretch.column);
      stretch.first += skipped;
      stretch.column += skipped;
      stretch.count = std::min(stretch.count - skipped, columns.end - stretch.column);
      if (stretch.count <= 0) return;
      panels.point_to_values(product, stretch);
      product.a = weights.data + (stretch.column - weights.first) * element_bytes_;
      product.depth = stretch.count;
      multiply(product);
      product.accumulate = true;
    });
  }

  /// Writes the task's part, whose first `whole_tiles` columns `out` has already.
  void weigh_part(int64_t whole_tiles, Matrix<float> parts) {
    float* part = scratch_.part.data();
    std::copy_n(scratch_.out.data(), whole_tiles > 0 ? stacked_ * out_stride_ : 0, part);
    const int64_t rest = part_columns_ - whole_tiles;
    for (int64_t s = 0; s < stacked_ && rest > 0; ++s) {
      std::array<float, kCellTile> tile = {};
      std::copy_n(scratch_.scores.data() + s * score_stride_ + whole_tiles, rest, tile.data());
      std::byte* packed = scratch_.cut_tile.data() + s * kCellTile * element_bytes_;
      if (is_bf16_) {
        kernels_.pack_row_bf16(tile.data(), kCellTile, kCellTile, packed);
      } else {
        std::memcpy(packed, tile.data(), sizeof(tile));
      }
    }
    if (rest > 0) {
      add_values({scratch_.cut_tile.data(), kCellTile, whole_tiles}, {whole_tiles, whole_tiles + kCellTile},
                 whole_tiles > 0, part);
    }
    const int64_t dim = shape_.head_dim;
    for (int64_t s = 0; s < stacked_; ++s) {
      float* target = parts.row(row_of(s)) + head_offset(s) / dim * part_dim(dim);
      std::copy_n(part + s * out_stride_, dim, target);
      std::copy_n(scratch_.part_sums.data() + 2 * s, 2, target + dim);
    }
  }

  /// Lists the runs of columns that the rows of a group with a part see.
  void find_visible_columns() {
    const int32_t* first_row = visible_.first_row();
    for (int64_t begin = 0; begin < num_cells_;) {
      int64_t end = begin;
      while (end < num_cells_ && first_row[end] != kHidden) ++end;
      if (end > begin) visible_columns_.push_back({begin, end});
      begin = std::max(end, begin + 1);
    }
  }

  float largest_score(const float* scores) const {
    float largest = -std::numeric_limits<float>::infinity();
    for (const auto& [begin, end] : visible_columns_)
      largest = std::max(largest, kernels_.max_index(scores + begin, end - begin).value);
    return largest;
  }

  /// VisibleCells::first_row(), with cells before the row's begin hidden.
  const int32_t* first_row_of(int32_t row) {
    const std::span<const int32_t> begins = attention_.begins_[static_cast<size_t>(task_.group)];
    const int32_t* all = visible_.first_row();
    if (begins.empty()) return all;
    const int64_t hidden = visible_.num_cells_before(begins[static_cast<size_t>(row)]);
    if (hidden == 0) return all;
    scratch_.first_row.assign(all, all + num_cells_);
    std::fill_n(scratch_.first_row.begin(), hidden, kHidden);
    return scratch_.first_row.data();
  }

  int64_t row_of(int64_t s) const { return task_.rows.begin + s / heads_; }
  int64_t head_offset(int64_t s) const { return (task_.kv_head * heads_ + s % heads_) * shape_.head_dim; }
  const float* query_of(ConstMatrix<float> q, int64_t s) const { return q.row(row_of(s)) + head_offset(s); }
  void multiply(const PanelProduct& product) const {
    is_bf16_ ? kernels_.panel_product_bf16(product) : kernels_.panel_product_f32(product);
  }

  Attention& attention_;
  const AttentionShape& shape_;
  const KernelTable& kernels_;
  const Task& task_;
  const KvLayerView& kv_;
  const VisibleCells& visible_;
  Scratch& scratch_;
  bool is_bf16_;
  int64_t heads_;  // query heads per kv head
  int64_t stacked_;
  int64_t num_cells_;
  // In elements:
  int64_t score_stride_;
  int64_t query_stride_;
  int64_t element_bytes_;
  int64_t out_stride_;
  int64_t part_columns_ = 0;              // leading columns of the group's part; 0: it has none
  std::vector<Columns> visible_columns_;  // with a part
};

void Attention::run(const KernelContext& context, ConstMatrix<float> q, std::span<const KvLayerView> kv,
                    Matrix<float> out, const AttentionProbe& probe, Matrix<float> parts,
                    Matrix<float> weights) {
  expects(kv.size() == visible_.size(), "Attention::run: one K/V view per prepared group");
  if (std::any_of(kv.begin(), kv.end(), [](const KvLayerView& view) { return view.holds_codes(); })) {
    reserve_for_codes(context);
  }
  context.threads.parallel_for(std::ssize(in_turn_), [&](int64_t index, int thread) {
    const IndexRange turn = in_turn_[static_cast<size_t>(index)];
    for (int32_t t = turn.begin; t < turn.end; ++t) {
      const Task& task = tasks_[static_cast<size_t>(t)];
      TaskRun run(*this, context.kernels, task, kv[static_cast<size_t>(task.group)],
                  scratch_[static_cast<size_t>(thread)]);
      run.pack_queries(q);
      run.compute_scores();
      run.softmax(q, probe, weights);
      run.weigh_values(out, parts);
    }
  });
  add_up_mass(context);
}

}  // namespace lacuna
