#include "kernels/attention.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "definitions.h"

namespace lacuna::attention_test {
namespace {

using test::Expected;
using test::kEpsilon;
using test::Panels;

/// Plain keys and values of one sequence, and the same in panels.
class Sequence {
 public:
  /// Cells [0, num_cells) hold random values; the rest of the capacity, and the cells of `hide`, hold
  /// `garbage`.
  ///   is_int8  the panels hold 8-bit quantized values; keys and values are what scales and codes make
  Sequence(uint64_t seed, DType dtype, int64_t num_cells, int64_t kv_heads, int64_t head_dim,
           bool is_int8 = false)
      : head_dim_(head_dim),
        kv_heads_(kv_heads),
        keys_(test::random_values(seed, num_cells * kv_heads * head_dim, 2)),
        values_(test::random_values(seed + 1, num_cells * kv_heads * head_dim)) {
    if (!is_int8) {
      test::round_all(dtype, keys_);
      test::round_all(dtype, values_);
    }
    view_.dtype = dtype;
    view_.head_dim = head_dim;
    const int64_t element_bytes = is_int8 ? 1 : static_cast<int64_t>(size_of(dtype));
    view_.key_head_bytes = kPageCells * padded_depth(dtype, head_dim) * element_bytes;
    view_.value_head_bytes = kPageCells * round_up(head_dim, kPanelWidth) * element_bytes;
    view_.values = kv_heads * view_.key_head_bytes;
    int64_t page_bytes = view_.values + kv_heads * view_.value_head_bytes;
    if (is_int8) {
      const int64_t scale_bytes = kv_heads * kPageCells * int64_t{sizeof(float)};
      view_.key_scales = page_bytes;
      view_.value_scales = page_bytes + scale_bytes;
      page_bytes += 2 * scale_bytes;
    }
    // Pages lie anywhere: here each before the one that it follows.
    const int64_t num_pages = (num_cells + kPageCells - 1) / kPageCells;
    memory_.reserve(num_pages * page_bytes);
    for (int64_t page = 0; page < num_pages; ++page) {
      pages_.push_back(memory_.data() + (num_pages - 1 - page) * page_bytes);
    }
    view_.pages = pages_.data();
    for (int64_t cell = 0; cell < num_cells; ++cell) {
      for (int64_t head = 0; head < kv_heads; ++head) {
        if (is_int8) {
          place_codes(cell, head);
          continue;
        }
        for (int64_t d = 0; d < head_dim; ++d) place(cell, head, d, key(cell, head)[d], value(cell, head)[d]);
      }
    }
  }

  const float* key(int64_t cell, int64_t head) const { return at(keys_, cell, head); }
  const float* value(int64_t cell, int64_t head) const { return at(values_, cell, head); }
  const KvLayerView& view() const { return view_; }

  /// Overwrites what the kernels read of a cell; key() and value() stay.
  void spoil(int64_t cell, float garbage) {
    for (int64_t head = 0; head < kv_heads_; ++head) {
      for (int64_t d = 0; d < head_dim_; ++d) place(cell, head, d, garbage, -garbage);
    }
  }

 private:
  std::byte* keys_of(int64_t cell, int64_t head) const {
    return memory_of(cell) + view_.keys + head * view_.key_head_bytes;
  }
  std::byte* values_of(int64_t cell, int64_t head) const {
    return memory_of(cell) + view_.values + head * view_.value_head_bytes;
  }
  std::byte* memory_of(int64_t cell) const {
    return memory_.data() + (pages_[static_cast<size_t>(cell / kPageCells)] - memory_.data());
  }
  /// Where a cell's keys or a dimension's values begin in a head's panels, elements.
  int64_t key_panel(int64_t cell) const {
    return cell % kPageCells / 16 * padded_depth(view_.dtype, head_dim_) * 16;
  }
  static int64_t value_panel(int64_t d) { return d / 16 * kPageCells * 16; }

  /// Random codes and scales; keys_ and values_ become their products.
  void place_codes(int64_t cell, int64_t head) {
    const float key_scale = 0.01F * static_cast<float>(1 + cell % 7);
    const float value_scale = 0.003F * static_cast<float>(1 + (cell + head) % 5);
    const int64_t place = head * kPageCells + cell % kPageCells;
    reinterpret_cast<float*>(memory_of(cell) + view_.key_scales)[place] = key_scale;
    reinterpret_cast<float*>(memory_of(cell) + view_.value_scales)[place] = value_scale;
    const auto index = [&](int64_t panel, int64_t lane, int64_t k) {
      return panel + (view_.dtype == DType::kBF16 ? k / 2 * 32 + lane * 2 + k % 2 : k * 16 + lane);
    };
    for (int64_t d = 0; d < head_dim_; ++d) {
      const auto element = static_cast<size_t>((cell * kv_heads_ + head) * head_dim_ + d);
      const auto key_code = static_cast<int8_t>(std::lround(keys_[element] * 63));
      const auto value_code = static_cast<int8_t>(std::lround(values_[element] * 127));
      keys_[element] = key_scale * static_cast<float>(key_code);
      values_[element] = value_scale * static_cast<float>(value_code);
      keys_of(cell, head)[index(key_panel(cell), cell % 16, d)] = static_cast<std::byte>(key_code);
      values_of(cell, head)[index(value_panel(d), d % 16, cell % kPageCells)] =
          static_cast<std::byte>(value_code);
    }
  }
  const float* at(const std::vector<float>& all, int64_t cell, int64_t head) const {
    return all.data() + (cell * kv_heads_ + head) * head_dim_;
  }
  void place(int64_t cell, int64_t head, int64_t d, float key, float value) {
    Panels::place(keys_of(cell, head), view_.dtype, key_panel(cell), cell % 16, d, key);
    Panels::place(values_of(cell, head), view_.dtype, value_panel(d), d % 16, cell % kPageCells, value);
  }

  int64_t head_dim_;
  int64_t kv_heads_;
  std::vector<float> keys_;
  std::vector<float> values_;
  Buffer<std::byte> memory_;
  std::vector<const std::byte*> pages_;
  KvLayerView view_;
};

/// A group that owns its lists.
struct Group {
  IndexRange rows;
  std::vector<IndexRange> ranges;
  std::vector<int32_t> own_cells;
  bool causal = false;
  size_t sequence = 0;
  std::vector<int32_t> begins = {};

  /// The definition: the cells that row `i` of the group sees.
  std::vector<int32_t> visible(int32_t i) const {
    std::vector<int32_t> cells;
    for (const IndexRange& range : ranges) {
      for (int32_t cell = range.begin; cell < range.end; ++cell) cells.push_back(cell);
    }
    for (size_t j = 0; j < own_cells.size(); ++j) {
      if (!causal || static_cast<int32_t>(j) <= i) cells.push_back(own_cells[j]);
    }
    std::sort(cells.begin(), cells.end());
    cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
    if (!begins.empty())
      std::erase_if(cells, [&](int32_t cell) { return cell < begins[static_cast<size_t>(i)]; });
    return cells;
  }
};

std::vector<int32_t> numbers(int32_t begin, int32_t end) {
  std::vector<int32_t> list(static_cast<size_t>(end - begin));
  std::iota(list.begin(), list.end(), begin);
  return list;
}

class AttentionOverCells : public testing::TestWithParam<KernelTable> {
 protected:
  ThreadPool threads_{2};
  KernelContext context_{GetParam(), threads_};

  std::vector<float> run(const AttentionShape& shape, DType dtype, const std::vector<Group>& groups,
                         const std::vector<Sequence>& sequences, const std::vector<float>& q) const {
    return run(context_, shape, dtype, groups, sequences, q);
  }
  static std::vector<float> run(const KernelContext& context, const AttentionShape& shape, DType dtype,
                                const std::vector<Group>& groups, const std::vector<Sequence>& sequences,
                                const std::vector<float>& q) {
    std::vector<Attention::Group> views;
    std::vector<KvLayerView> kv;
    for (const Group& group : groups) {
      views.push_back({.rows = group.rows,
                       .ranges = group.ranges,
                       .own_cells = group.own_cells,
                       .causal = group.causal,
                       .begins = group.begins});
      kv.push_back(sequences[group.sequence].view());
    }
    const int64_t width = shape.num_heads * shape.head_dim;
    const int64_t rows = static_cast<int64_t>(q.size()) / width;
    std::vector<float> out(q.size(), 1e30F);
    Attention attention;
    attention.prepare(context, shape, dtype, views);
    attention.run(context, {q.data(), rows, width}, kv, {out.data(), rows, width});
    return out;
  }

  /// Attention by its definition, one row after another.
  static std::vector<Expected> definition(const AttentionShape& shape, DType dtype,
                                          const std::vector<Group>& groups,
                                          const std::vector<Sequence>& sequences,
                                          const std::vector<float>& q) {
    std::vector<Expected> expected(q.size());
    const int64_t dim = shape.head_dim;
    for (const Group& group : groups) {
      const Sequence& sequence = sequences[group.sequence];
      for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
        const std::vector<int32_t> cells = group.visible(row - group.rows.begin);
        for (int64_t head = 0; head < shape.num_heads; ++head) {
          const int64_t kv_head = head / (shape.num_heads / shape.num_kv_heads);
          const int64_t place = (row * shape.num_heads + head) * dim;
          std::vector<float> query(q.begin() + place, q.begin() + place + dim);
          test::round_all(dtype, query);
          std::vector<double> logits;
          double logit_bound = 0;
          for (const int32_t cell : cells) {
            const Expected score = test::dot(query.data(), sequence.key(cell, kv_head), dim);
            logits.push_back(shape.scale * score.value);
            logit_bound = std::max(logit_bound, shape.scale * score.bound);
          }
          const double largest = *std::max_element(logits.begin(), logits.end());
          const double spread = largest - *std::min_element(logits.begin(), logits.end());
          double sum = 0;
          for (double& logit : logits) sum += logit = std::exp(logit - largest);
          // A probability is off by its logit's error twice (its own and the sum's) and by the roundings of
          // exp and of the sums; in bf16 also by half a unit in the last of 8 bits.
          const double relative = 2 * (logit_bound + kEpsilon * (spread + 4)) +
                                  kEpsilon * static_cast<double>(2 * cells.size() + 4) +
                                  (dtype == DType::kBF16 ? 0x1p-8 : 0);
          for (int64_t d = 0; d < dim; ++d) {
            Expected& e = expected[static_cast<size_t>(place + d)];
            for (size_t i = 0; i < cells.size(); ++i) {
              const double term = logits[i] / sum * sequence.value(cells[i], kv_head)[d];
              e.value += term;
              e.bound += relative * std::abs(term);
            }
            e.bound += 1e-30;  // where all terms vanish
          }
        }
      }
    }
    return expected;
  }

  void check(const AttentionShape& shape, DType dtype, const std::vector<Group>& groups,
             const std::vector<Sequence>& sequences) const {
    const int64_t width = shape.num_heads * shape.head_dim;
    const int64_t rows = groups.back().rows.end;
    const std::vector<float> q = test::random_values(9, rows * width, 2);
    const std::vector<Expected> expected = definition(shape, dtype, groups, sequences, q);
    EXPECT_TRUE(
        test::meets(run(shape, dtype, groups, sequences, q).data(), width, expected.data(), rows, width))
        << name_of(dtype) << ", " << shape.num_heads << '/' << shape.num_kv_heads << " heads of "
        << shape.head_dim;
  }

  static AttentionShape shape_of(int64_t heads, int64_t kv_heads, int64_t head_dim) {
    return {heads, kv_heads, head_dim, static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)))};
  }
  static std::vector<Sequence> sequences_of(const AttentionShape& shape, DType dtype,
                                            std::initializer_list<int64_t> cells) {
    std::vector<Sequence> sequences;
    for (const int64_t count : cells) {
      sequences.emplace_back(100 + 10 * sequences.size(), dtype, count, shape.num_kv_heads, shape.head_dim);
    }
    return sequences;
  }
};

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

TEST_P(AttentionOverCells, EqualsTheDefinitionForEveryHeadSizeAndGrouping) {
  for (const DType dtype : kDTypes) {
    for (const int64_t head_dim : {8, 16, 24, 32, 40, 64, 80, 96, 128}) {
      for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {3, 3}, {4, 2}, {6, 1}}) {
        const AttentionShape shape = shape_of(heads, kv_heads, head_dim);
        check(shape, dtype, {{.rows = {0, 19}, .ranges = {{0, 70}}, .own_cells = {}}},
              sequences_of(shape, dtype, {70}));
      }
    }
  }
}

TEST_P(AttentionOverCells, TakesAnyNumberOfRowsAndMoreHeadsThanATaskStacks) {
  for (const DType dtype : kDTypes) {
    for (const auto& [heads, kv_heads] : {std::pair{2, 2}, {7, 1}, {50, 1}}) {
      const AttentionShape shape = shape_of(heads, kv_heads, 16);
      for (const int32_t rows : {1, 2, 5, 24, 47, 48, 49, 97}) {
        check(shape, dtype, {{.rows = {0, rows}, .ranges = {{0, 33}}, .own_cells = {}}},
              sequences_of(shape, dtype, {33}));
      }
    }
  }
}

TEST_P(AttentionOverCells, SeesRangesWithGaps) {
  for (const DType dtype : kDTypes) {
    const AttentionShape shape = shape_of(4, 2, 24);
    const auto sequences = sequences_of(shape, dtype, {600});
    for (const std::vector<IndexRange>& ranges : {std::vector<IndexRange>{{0, 1}},
                                                  {{599, 600}},
                                                  {{31, 33}},
                                                  {{5, 9}, {200, 201}, {255, 300}},
                                                  {{64, 96}, {128, 160}},
                                                  {{0, 600}},
                                                  {{3, 3}, {40, 41}},
                                                  {{10, 50}, {20, 30}}}) {
      check(shape, dtype, {{.rows = {0, 9}, .ranges = ranges, .own_cells = {}}}, sequences);
    }
  }
}

TEST_P(AttentionOverCells, ReadsCellsInCodesAsTheProductsOfCodesAndScales) {
  for (const DType dtype : kDTypes) {
    for (const int64_t head_dim : {8, 24, 40, 128}) {
      const AttentionShape shape = shape_of(4, 2, head_dim);
      std::vector<Sequence> sequences;
      sequences.emplace_back(100, dtype, 600, shape.num_kv_heads, head_dim, true);
      sequences.emplace_back(110, dtype, 70, shape.num_kv_heads, head_dim);  // one call may see both kinds
      check(shape, dtype,
            {{.rows = {0, 20}, .ranges = {{0, 600}}, .own_cells = {}},
             {.rows = {20, 29}, .ranges = {{5, 9}, {200, 201}, {255, 300}}, .own_cells = {}},
             {.rows = {29, 60}, .ranges = {{0, 37}}, .own_cells = numbers(37, 68), .causal = true},
             {.rows = {60, 63}, .ranges = {{0, 70}}, .own_cells = {}, .causal = false, .sequence = 1}},
            sequences);
    }
  }
}

TEST_P(AttentionOverCells, SeesOwnCellsInBothDirections) {
  for (const DType dtype : kDTypes) {
    const AttentionShape shape = shape_of(4, 2, 40);
    const auto sequences = sequences_of(shape, dtype, {200});
    check(shape, dtype, {{.rows = {0, 40}, .ranges = {}, .own_cells = numbers(30, 70)}}, sequences);
    check(shape, dtype, {{.rows = {0, 5}, .ranges = {{0, 64}}, .own_cells = {190, 3, 100, 99, 65}}},
          sequences);
  }
}

TEST_P(AttentionOverCells, SeesOwnCellsInRowOrderWhereCausal) {
  for (const DType dtype : kDTypes) {
    const AttentionShape shape = shape_of(4, 2, 32);
    const auto sequences = sequences_of(shape, dtype, {200});
    check(shape, dtype, {{.rows = {0, 100}, .ranges = {}, .own_cells = numbers(0, 100), .causal = true}},
          sequences);
    check(shape, dtype,
          {{.rows = {0, 50}, .ranges = {{0, 37}}, .own_cells = numbers(37, 87), .causal = true}}, sequences);
    // Cells in another order than rows, with gaps, and one that a range shows as well.
    check(shape, dtype,
          {{.rows = {0, 6}, .ranges = {{2, 5}}, .own_cells = {180, 12, 199, 4, 0, 33}, .causal = true}},
          sequences);
  }
}

/// Rows of a causal group after `prefix` cells, each of which sees `window` cells with its own.
Group sliding_group(int32_t prefix, int32_t rows, int32_t window) {
  Group group{.rows = {0, rows},
              .ranges = {{0, prefix}},
              .own_cells = numbers(prefix, prefix + rows),
              .causal = true};
  for (int32_t row = 0; row < rows; ++row) group.begins.push_back(std::max(0, prefix + row + 1 - window));
  return group;
}

TEST_P(AttentionOverCells, SeesNothingBeforeWhereARowBegins) {
  for (const DType dtype : kDTypes) {
    const AttentionShape shape = shape_of(4, 2, 24);
    const auto sequences = sequences_of(shape, dtype, {300});
    for (const int32_t window : {1, 2, 31, 32, 33, 64, 250})
      check(shape, dtype, {sliding_group(130, 150, window)}, sequences);
    // Cells in another order than rows, with gaps; begins that rise and fall, within a tile and between
    // tiles.
    check(shape, dtype,
          {{.rows = {0, 6},
            .ranges = {{2, 5}, {64, 70}, {200, 205}},
            .own_cells = {180, 12, 199, 4, 250, 33},
            .causal = true,
            .begins = {180, 3, 199, 0, 204, 32}}},
          sequences);
  }
}

TEST_P(AttentionOverCells, GivesRowsThatBeginTheBitsOfRowsInGroupsOfTheirOwn) {
  for (const DType dtype : kDTypes) {
    for (const bool is_int8 : {false, true}) {
      const AttentionShape shape = shape_of(6, 2, 24);
      const int64_t width = shape.num_heads * shape.head_dim;
      std::vector<Sequence> sequences;
      sequences.emplace_back(100, dtype, 300, shape.num_kv_heads, shape.head_dim, is_int8);
      constexpr int32_t kPrefix = 130;
      constexpr int32_t kRows = 100;
      const std::vector<float> q = test::random_values(9, kRows * width);
      for (const int32_t window : {1, 33, 64, 150}) {
        const std::vector<float> together =
            run(shape, dtype, {sliding_group(kPrefix, kRows, window)}, sequences, q);
        for (const int32_t row : {0, 1, 31, 32, 63, 64, 99}) {
          // The cells as one range: those of the prefix, and of the rows up to this one.
          const int32_t end = kPrefix + row + 1;
          const Group own{.rows = {0, 1}, .ranges = {{std::max(0, end - window), end}}, .own_cells = {}};
          const std::vector<float> query(q.begin() + row * width, q.begin() + (row + 1) * width);
          EXPECT_TRUE(test::same_bits(run(shape, dtype, {own}, sequences, query).data(),
                                      together.data() + row * width, width))
              << name_of(dtype) << ", window " << window << ", row " << row;
        }
      }
    }
  }
}

TEST_P(AttentionOverCells, LeavesGroupsWithoutBeginsAloneNextToOneThatHasThem) {
  const AttentionShape shape = shape_of(4, 2, 24);
  const auto sequences = sequences_of(shape, DType::kF32, {200});
  std::vector<Group> groups = {{.rows = {0, 20}, .ranges = {{0, 90}}, .own_cells = {}},
                               {.rows = {20, 60}, .ranges = {{0, 90}}, .own_cells = numbers(90, 130)},
                               {.rows = {60, 70}, .ranges = {{3, 40}}, .own_cells = {}}};
  for (int32_t row = 0; row < 40; ++row) groups[1].begins.push_back(40 + 2 * row);
  check(shape, DType::kF32, groups, sequences);
}

TEST_P(AttentionOverCells, ServesGroupsOfSeveralSequencesInOneCall) {
  for (const DType dtype : kDTypes) {
    const AttentionShape shape = shape_of(4, 2, 24);
    check(shape, dtype,
          {{.rows = {0, 13}, .ranges = {{0, 50}}, .own_cells = {}, .causal = false, .sequence = 0},
           {.rows = {13, 14}, .ranges = {{0, 300}}, .own_cells = {}, .causal = false, .sequence = 1},
           {.rows = {14, 74},
            .ranges = {{10, 20}},
            .own_cells = numbers(40, 100),
            .causal = true,
            .sequence = 2},
           {.rows = {74, 80}, .ranges = {}, .own_cells = {7, 5, 3, 1, 0, 2}, .causal = false, .sequence = 0}},
          sequences_of(shape, dtype, {50, 300, 100}));
  }
}

TEST_P(AttentionOverCells, StaysFiniteWithLogitsInTheThousands) {
  for (const DType dtype : kDTypes) {
    AttentionShape shape = shape_of(2, 1, 16);
    shape.scale = 200;
    check(shape, dtype, {{.rows = {0, 9}, .ranges = {{0, 90}}, .own_cells = {}}},
          sequences_of(shape, dtype, {90}));
  }
}

TEST_P(AttentionOverCells, IgnoresWhateverHiddenCellsHold) {
  for (const DType dtype : kDTypes) {
    const AttentionShape shape = shape_of(4, 2, 24);
    auto sequences = sequences_of(shape, dtype, {200});
    const std::vector<Group> groups = {{.rows = {0, 7},
                                        .ranges = {{3, 40}, {66, 67}},
                                        .own_cells = {150, 151, 99, 140, 141, 142, 90},
                                        .causal = true}};
    const std::vector<float> q = test::random_values(9, 7 * 96);
    const std::vector<float> before = run(shape, dtype, groups, sequences, q);
    const std::vector<int32_t> seen = groups[0].visible(7);
    for (const float garbage : {0.0F, -1e4F, 1e18F}) {
      for (int32_t cell = 0; cell < 200; ++cell) {
        if (!std::binary_search(seen.begin(), seen.end(), cell)) sequences[0].spoil(cell, garbage);
      }
      EXPECT_EQ(run(shape, dtype, groups, sequences, q), before) << name_of(dtype) << " with " << garbage;
    }
    // The last row alone sees cell 90.
    sequences[0].spoil(90, 1e18F);
    const std::vector<float> after = run(shape, dtype, groups, sequences, q);
    EXPECT_TRUE(test::same_bits(after.data(), before.data(), 6 * 96));
    EXPECT_NE(after, before);
  }
}

TEST_P(AttentionOverCells, GivesTheSameBitsForOneSetOfCellsHoweverItIsWritten) {
  for (const DType dtype : kDTypes) {
    const AttentionShape shape = shape_of(4, 2, 40);
    const auto sequences = sequences_of(shape, dtype, {300});
    const std::vector<float> q = test::random_values(9, 11 * 160);
    const auto bits_of = [&](std::vector<IndexRange> ranges, std::vector<int32_t> own_cells) {
      return run(shape, dtype,
                 {{.rows = {0, 11}, .ranges = std::move(ranges), .own_cells = std::move(own_cells)}},
                 sequences, q);
    };
    const std::vector<float> one_range = bits_of({{5, 270}}, {});
    EXPECT_EQ(bits_of({{5, 32}, {32, 33}, {33, 128}, {128, 270}}, {}), one_range);
    EXPECT_EQ(bits_of({{100, 270}, {5, 150}}, {}), one_range);
    EXPECT_EQ(bits_of({}, numbers(5, 270)), one_range);
    std::vector<int32_t> backwards = numbers(60, 270);
    std::reverse(backwards.begin(), backwards.end());
    EXPECT_EQ(bits_of({{5, 60}}, backwards), one_range);
  }
}

TEST_P(AttentionOverCells, GivesARowTheSameBitsWhoeverSharesTheCall) {
  for (const DType dtype : kDTypes) {
    const AttentionShape shape = shape_of(6, 2, 24);
    const int64_t width = shape.num_heads * shape.head_dim;
    const auto sequences = sequences_of(shape, dtype, {300, 77});
    constexpr int32_t kRows = 130;
    const std::vector<float> q = test::random_values(9, kRows * width);
    const std::vector<Group> together = {
        {.rows = {0, 60}, .ranges = {{0, 90}, {200, 210}}, .own_cells = {}, .causal = false, .sequence = 0},
        {.rows = {60, 70}, .ranges = {{0, 77}}, .own_cells = {}, .causal = false, .sequence = 1},
        {.rows = {70, 130},
         .ranges = {{0, 40}},
         .own_cells = numbers(130, 190),
         .causal = true,
         .sequence = 0}};
    const std::vector<float> expected = run(shape, dtype, together, sequences, q);
    const auto query_of = [&](int32_t row) {
      return std::vector<float>(q.begin() + row * width, q.begin() + (row + 1) * width);
    };
    for (int32_t row = 0; row < kRows; ++row) {
      Group alone = together[row < 60 ? 0 : row < 70 ? 1 : 2];
      // The causal row sees its own cells as a plain range: rows after it would show it no more.
      if (alone.causal) alone.ranges.push_back({130, 130 + row - alone.rows.begin + 1});
      alone.own_cells.clear();
      alone.causal = false;
      alone.rows = {0, 1};
      const std::vector<float> out = run(shape, dtype, {alone}, sequences, query_of(row));
      ASSERT_TRUE(test::same_bits(out.data(), expected.data() + row * width, width)) << "row " << row;
    }
    const std::vector<Group> swapped = {
        {.rows = {0, 60}, .ranges = {{0, 90}, {200, 210}}, .own_cells = {}, .causal = false, .sequence = 0},
        {.rows = {60, 61}, .ranges = {{0, 1}}, .own_cells = {}, .causal = false, .sequence = 1}};
    const std::vector<float> part =
        run(shape, dtype, swapped, sequences, std::vector<float>(q.begin(), q.begin() + 61 * width));
    EXPECT_TRUE(test::same_bits(part.data(), expected.data(), 60 * width));
  }
}

TEST_P(AttentionOverCells, GivesTheSameBitsWithAnyNumberOfThreads) {
  for (const DType dtype : kDTypes) {
    const AttentionShape shape = shape_of(8, 4, 32);
    const auto sequences = sequences_of(shape, dtype, {150});
    const std::vector<float> q = test::random_values(9, 90 * 256);
    const std::vector<Group> groups = {
        {.rows = {0, 90}, .ranges = {{0, 60}}, .own_cells = numbers(60, 150), .causal = true}};
    ThreadPool one(1);
    const std::vector<float> expected = run({GetParam(), one}, shape, dtype, groups, sequences, q);
    for (const int count : {2, 3}) {
      ThreadPool pool(count);
      EXPECT_EQ(run({GetParam(), pool}, shape, dtype, groups, sequences, q), expected) << count << " threads";
    }
  }
}

TEST_P(AttentionOverCells, CanBePreparedAgainForAnotherPass) {
  const AttentionShape shape = shape_of(2, 1, 16);
  const auto sequences = sequences_of(shape, DType::kF32, {200});
  const std::vector<float> q = test::random_values(9, 10 * 32);
  const std::vector<KvLayerView> kv = {sequences[0].view()};
  const std::vector<IndexRange> wide = {{0, 200}};
  const std::vector<IndexRange> narrow = {{10, 30}};
  Attention reused;
  std::vector<float> out(q.size());
  for (const auto* ranges : {&wide, &narrow, &wide}) {
    reused.prepare(context_, shape, DType::kF32,
                   std::vector<Attention::Group>{{{0, 10}, *ranges, {}, false}});
    reused.run(context_, {q.data(), 10, 32}, kv, {out.data(), 10, 32});
    EXPECT_EQ(out,
              run(shape, DType::kF32, {{.rows = {0, 10}, .ranges = *ranges, .own_cells = {}}}, sequences, q));
  }
}

TEST_P(AttentionOverCells, AddsUpTheMassThatAllRowsAndHeadsGiveToACell) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const AttentionShape shape = shape_of(8, 2, 32);
    const auto sequences = sequences_of(shape, dtype, {150});
    const std::vector<float> q = test::random_values(9, 40 * 256);
    const std::vector<KvLayerView> kv = {sequences[0].view(), sequences[0].view()};
    const std::vector<IndexRange> ranges = {{0, 33}, {70, 90}};
    const std::vector<int32_t> own = numbers(120, 150);
    std::vector<std::vector<float>> by_threads;
    for (const int count : {1, 3}) {
      ThreadPool pool(count);
      const KernelContext context{GetParam(), pool};
      Attention attention;
      attention.prepare(context, shape, dtype,
                        std::vector<Attention::Group>{{{0, 10}, ranges, {}, false, false},
                                                      {{10, 40}, ranges, own, true, true}});
      std::vector<double> expected(2 * static_cast<size_t>(attention.visible(1).num_cells()));
      std::mutex mutex;
      std::vector<float> out(q.size());
      attention.run(context, {q.data(), 40, 256}, kv, {out.data(), 40, 256}, [&](const AttentionRow& row) {
        if (row.group != 1) return;
        const std::lock_guard lock(mutex);
        const size_t first = static_cast<size_t>(row.head / 4) * row.weights.size();
        for (size_t i = 0; i < row.weights.size(); ++i)
          expected[first + i] += double{row.weights[i]} / row.sum;
      });
      std::vector<float>& found = by_threads.emplace_back();
      for (int64_t head = 0; head < 2; ++head) {
        const std::span<const float> mass = attention.mass(1, head);
        found.insert(found.end(), mass.begin(), mass.end());
      }
      ASSERT_EQ(found.size(), expected.size());
      double sum = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
        sum += found[i];
      }
      EXPECT_NEAR(sum, 30 * 8, 1e-2) << "each row and head gives one";
      EXPECT_THROW(attention.mass(0, 0), std::logic_error);
    }
    EXPECT_EQ(by_threads[0], by_threads[1]);
  }
}

TEST_P(AttentionOverCells, AddsUpTheWeightsOfAllHeadsForEachRow) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const AttentionShape shape = shape_of(8, 2, 32);
    const auto sequences = sequences_of(shape, dtype, {150});
    const std::vector<float> q = test::random_values(9, 40 * 256);
    const std::vector<KvLayerView> kv = {sequences[0].view(), sequences[0].view()};
    const std::vector<IndexRange> ranges = {{0, 33}, {70, 90}};
    const auto groups = [&](int32_t weights_at) {
      std::vector<Attention::Group> both = {{.rows = {0, 10}, .ranges = ranges, .own_cells = {}},
                                            {.rows = {10, 40}, .ranges = ranges, .own_cells = {}}};
      both[1].weights_at = weights_at;
      return both;
    };
    std::vector<float> plain(q.size());
    {
      ThreadPool pool(1);
      Attention attention;
      attention.prepare({GetParam(), pool}, shape, dtype, groups(-1));
      attention.run({GetParam(), pool}, {q.data(), 40, 256}, kv, {plain.data(), 40, 256});
    }
    std::vector<std::vector<float>> by_threads;
    for (const int count : {1, 3, 7}) {
      ThreadPool pool(count);
      Attention attention;
      attention.prepare({GetParam(), pool}, shape, dtype, groups(2));
      const int64_t cells = attention.visible(1).num_cells();
      std::vector<float>& found = by_threads.emplace_back(static_cast<size_t>(32 * cells));
      std::vector<double> expected(found.size());
      std::mutex mutex;
      std::vector<float> out(q.size());
      const auto probe = [&](const AttentionRow& row) {
        if (row.group != 1) return;
        const std::lock_guard lock(mutex);
        const size_t first = static_cast<size_t>(row.row - 10 + 2) * row.weights.size();
        for (size_t i = 0; i < row.weights.size(); ++i)
          expected[first + i] += double{row.weights[i]} / row.sum;
      };
      attention.run({GetParam(), pool}, {q.data(), 40, 256}, kv, {out.data(), 40, 256}, probe, {},
                    {found.data(), 32, cells});
      EXPECT_EQ(out, plain) << "the outputs are the same, bit for bit";
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
    }
    EXPECT_EQ(by_threads[0], by_threads[1]);
    EXPECT_EQ(by_threads[0], by_threads[2]);
  }
}

/// Outputs and parts of rows that see cells [first, 150), with the part of the cells below part_end.
struct WithPart {
  std::vector<float> out, parts;
};

WithPart run_with_part(const KernelContext& context, const AttentionShape& shape, DType dtype,
                       const Sequence& sequence, const std::vector<float>& q, int32_t first,
                       int32_t part_end) {
  constexpr int64_t kRows = 20;
  const int64_t width = shape.num_heads * shape.head_dim;
  const int64_t part_width = shape.num_heads * Attention::part_dim(shape.head_dim);
  WithPart result{std::vector<float>(q.size()), std::vector<float>(static_cast<size_t>(kRows * part_width))};
  const std::vector<IndexRange> ranges = {{first, 150}};
  const std::vector<KvLayerView> kv = {sequence.view()};
  Attention attention;
  attention.prepare(context, shape, dtype,
                    std::vector<Attention::Group>{
                        {.rows = {0, kRows}, .ranges = ranges, .own_cells = {}, .part_end = part_end}});
  attention.run(context, {q.data(), kRows, width}, kv, {result.out.data(), kRows, width}, {},
                {result.parts.data(), kRows, part_width});
  return result;
}

TEST_P(AttentionOverCells, GivesThePartOfTheFirstCellsAndTheBitsOfAttentionWithoutAPart) {
  for (const DType dtype : kDTypes) {
    for (const bool is_int8 : {false, true}) {
      AttentionShape shape = shape_of(6, 2, 24);
      shape.soft_cap = is_int8 ? 3 : 0;
      const Sequence sequence(100, dtype, 150, shape.num_kv_heads, shape.head_dim, is_int8);
      const std::vector<float> q = test::random_values(9, 20 * 6 * 24, 2);
      const WithPart whole = run_with_part(context_, shape, dtype, sequence, q, 0, 0);
      for (const int32_t end : {1, 31, 32, 64, 77, 96, 128, 149}) {
        const WithPart first = run_with_part(context_, shape, dtype, sequence, q, 0, end);
        EXPECT_EQ(first.out, whole.out) << end;
        const WithPart rest = run_with_part(context_, shape, dtype, sequence, q, end, 150);
        const double tolerance = dtype == DType::kBF16 ? 1e-2 : 1e-5;
        for (size_t head = 0; head < 20 * 6; ++head) {  // of any row
          const float* a = first.parts.data() + head * 26;
          const float* b = rest.parts.data() + head * 26;
          EXPECT_GE(a[24], b[24]) << "the largest score of all that the row sees";
          const double scale = std::exp(double{b[24]} - double{a[24]});
          for (size_t d = 0; d < 24; ++d) {
            EXPECT_NEAR((a[d] + scale * b[d]) / (a[25] + scale * b[25]), whole.out[head * 24 + d], tolerance)
                << end << ", " << head << ", " << d;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTable, AttentionOverCells, testing::ValuesIn(supported_tables()),
                         test::table_name);

TEST(VisibleCells, AreWholeTilesThatHoldAVisibleCell) {
  VisibleCells visible;
  const std::vector<IndexRange> ranges = {{40, 50}, {64, 65}, {200, 230}};
  visible.assign(ranges, {}, false);
  EXPECT_THAT(visible.tile_runs(), testing::ElementsAre(IndexRange{1, 3}, IndexRange{6, 8}));
  EXPECT_EQ(visible.num_cells(), 4 * 32);
}

TEST(VisibleCells, CountThoseOfItsTilesThatLieBeforeACell) {
  VisibleCells visible;
  const std::vector<IndexRange> ranges = {{40, 50}, {64, 65}, {200, 230}};  // tiles 1, 2, 6 and 7
  visible.assign(ranges, {}, false);
  for (const auto& [cell, count] : {std::pair{0, 0},
                                    {32, 0},
                                    {33, 1},
                                    {64, 32},
                                    {95, 63},
                                    {96, 64},
                                    {192, 64},
                                    {200, 72},
                                    {256, 128},
                                    {999, 128}})
    EXPECT_EQ(visible.num_cells_before(cell), count) << cell;
}

TEST(VisibleCells, TellTheLowestRowThatSeesEachCell) {
  VisibleCells visible;
  const std::vector<IndexRange> ranges = {{2, 4}};
  visible.assign(ranges, std::vector<int32_t>{9, 3, 5}, true);
  constexpr int32_t kHidden = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> expected(32, kHidden);
  expected[2] = expected[3] = 0;
  expected[9] = 0;
  expected[5] = 2;
  EXPECT_EQ(std::vector<int32_t>(visible.first_row(), visible.first_row() + 32), expected);
  visible.assign({}, std::vector<int32_t>{1}, false);
  EXPECT_EQ(visible.first_row()[1], 0);
  EXPECT_EQ(visible.first_row()[9], kHidden) << "nothing stays from before";
}

}  // namespace
}  // namespace lacuna::attention_test
