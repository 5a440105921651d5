#include "backend/cuda/kernels/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/gpu/device_vectors.h"
#include "bench/gpu/uploaded_attention.h"
#include "group_cells.h"
#include "orders.h"

namespace lacuna::cuda::attention_test {
namespace {

using simt::in_every_order;
using ::testing::ElementsAre;

struct Shape {
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;
  float soft_cap = 0;
};

/// Sequences of pages in a pool where they lie scattered; cells that nobody wrote hold NaN. Layer 1 of 2 is
/// read.
struct Store {
  Shape shape;
  int32_t pages = 0;
  std::vector<int32_t> page_table;
  std::vector<uint16_t> memory;

  Store(const Shape& of, int32_t num_pages) : shape(of), pages(num_pages) {
    for (int32_t i = 0; i < pages; ++i)
      page_table.push_back((i * 7 + 3) % pages);  // 7 and pages: no common factor
    memory.assign(static_cast<size_t>(pages * 2 * shape.kv_heads * 2 * kPageCells * shape.head_dim),
                  kNaNBits);
  }
  size_t place(int32_t cell, int64_t kv_head, bool value) const {
    const int64_t page = page_table[static_cast<size_t>(cell / kPageCells)];
    const int64_t head = (page * 2 + 1) * shape.kv_heads + kv_head;
    return static_cast<size_t>(((head * 2 + (value ? 1 : 0)) * kPageCells + cell % kPageCells) *
                               shape.head_dim);
  }
  void write(int32_t cell) {
    for (int64_t head = 0; head < shape.kv_heads; ++head) {
      for (const bool value : {false, true}) {
        const auto numbers =
            to_bits(random_numbers(static_cast<size_t>(shape.head_dim),
                                   static_cast<uint64_t>(4 * cell + 2 * head + (value ? 1 : 0)), 2));
        std::copy(numbers.begin(), numbers.end(),
                  memory.begin() + static_cast<int64_t>(place(cell, head, value)));
      }
    }
  }
};

std::vector<uint16_t> run(const Store& store, const std::vector<CellGroup>& groups,
                          const std::vector<uint16_t>& queries) {
  const Shape& shape = store.shape;
  Stream stream;
  const DeviceBuffer memory = upload(stream, store.memory);
  const DeviceBuffer table = upload(stream, store.page_table);
  const DeviceBuffer q = upload(stream, queries);
  const PagePool pool{memory.as<uint16_t>(), 2, shape.kv_heads, shape.head_dim};
  const UploadedAttention attention(stream, ranges_of(groups), pool, shape.heads);
  const DeviceBuffer out(queries.size() * sizeof(uint16_t));
  attention.send(stream, {.pool = {},
                          .page_table = table.as<int32_t>(),
                          .queries = q.as<uint16_t>(),
                          .out = out.as<uint16_t>(),
                          .out_stride = shape.heads * shape.head_dim,
                          .layer = 1,
                          .soft_cap = shape.soft_cap});
  return download<uint16_t>(stream, out);
}

/// One head of one row, by the definition, in double.
std::vector<double> attended(const Store& store, const CellGroup& group, int32_t row, int64_t head,
                             const uint16_t* query) {
  const Shape& shape = store.shape;
  const auto dim = static_cast<size_t>(shape.head_dim);
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  std::vector<double> out(dim, 0);
  double sum = 0;
  for (size_t cell = 0; cell < group.first_seen_by.size(); ++cell) {
    if (group.first_seen_by[cell] > row) continue;
    if (!group.end_seen_by.empty() && row >= group.end_seen_by[cell]) continue;
    const uint16_t* key = store.memory.data() + store.place(static_cast<int32_t>(cell), kv_head, false);
    const uint16_t* value = store.memory.data() + store.place(static_cast<int32_t>(cell), kv_head, true);
    double score = 0;
    for (size_t i = 0; i < dim; ++i) score += double{from_bits(query[i])} * from_bits(key[i]);
    score /= std::sqrt(static_cast<double>(dim));
    if (shape.soft_cap > 0) score = shape.soft_cap * std::tanh(score / shape.soft_cap);
    const double weight = std::exp(score);
    sum += weight;
    for (size_t i = 0; i < dim; ++i) out[i] += weight * from_bits(value[i]);
  }
  for (double& x : out) x /= sum;
  return out;
}

void expect_definition(const Store& store, const std::vector<CellGroup>& groups,
                       const std::vector<uint16_t>& queries, const std::vector<uint16_t>& got) {
  const auto dim = static_cast<size_t>(store.shape.head_dim);
  for (const CellGroup& group : groups) {
    for (int32_t row = 0; row < group.num_rows; ++row) {
      for (int64_t head = 0; head < store.shape.heads; ++head) {
        const size_t at =
            (static_cast<size_t>(group.first_row + row) * static_cast<size_t>(store.shape.heads) +
             static_cast<size_t>(head)) *
            dim;
        const auto expected = attended(store, group, row, head, queries.data() + at);
        for (size_t i = 0; i < dim; ++i) {
          // Values are within 2, and weights are rounded to bf16.
          ASSERT_NEAR(from_bits(got[at + i]), expected[i], 2 * 0.004 + std::abs(expected[i]) * 0.004)
              << "row " << group.first_row + row << " head " << head;
        }
      }
    }
  }
}

Store filled(const Shape& shape, int32_t pages, const std::vector<CellGroup>& groups) {
  Store store(shape, pages);
  for (const CellGroup& group : groups) {
    for (size_t cell = 0; cell < group.first_seen_by.size(); ++cell) {
      if (group.first_seen_by[cell] != kNoRow) store.write(static_cast<int32_t>(cell));
    }
  }
  return store;
}

std::vector<uint16_t> random_queries(const Shape& shape, int64_t rows) {
  return to_bits(random_numbers(static_cast<size_t>(rows * shape.heads * shape.head_dim), 77, 2));
}

TEST(AttentionPlan, BeginsChunksAtFixedCells) {
  EXPECT_EQ(chunk_end(0), 512);
  EXPECT_EQ(chunk_end(8191), 8192);
  EXPECT_EQ(chunk_end(8192), 9216);
  EXPECT_EQ(chunk_end(16384), 18432);
}

TEST(AttentionPlan, ListsOnlyTilesThatSomebodySees) {
  CellGroup group{.first_row = 0, .num_rows = 2, .first_page = 0, .first_seen_by = {}};
  group.first_seen_by.assign(1100, kNoRow);
  std::fill_n(group.first_seen_by.begin(), 64, 0);
  group.first_seen_by[70] = 1;
  group.first_seen_by[1030] = 0;
  const AttentionPlan plan = plan_attention({{group.ranges()}}, 2);
  ASSERT_EQ(plan.tasks.size(), 2U);  // the chunk from 512 on is not seen
  ASSERT_EQ(plan.runs.size(), 3U);
  EXPECT_EQ(plan.runs[0].count, 2);
  EXPECT_EQ(plan.runs[0].first_mask, -1);
  EXPECT_EQ(plan.runs[1].first_tile, 2);
  EXPECT_EQ(plan.runs[2].first_tile, 32);
  EXPECT_THAT(std::vector(plan.masks.begin() + 5, plan.masks.begin() + 8), ElementsAre(kNoRow, 1, kNoRow));
}

TEST(AttentionKernel, AgreesWithTheDefinitionForEveryWidthOfAHead) {
  for (const Shape& shape : {Shape{2, 1, 16, 0}, Shape{4, 2, 32, 0}, Shape{2, 2, 64, 0}, Shape{6, 1, 128, 3},
                             Shape{2, 1, 256, 0}, Shape{4, 1, 512, 0}}) {
    const std::vector<CellGroup> groups = {group_of(0, 17, 45, 70, false), group_of(17, 15, 0, 90, true),
                                           group_of(32, 1, 100, 110, false)};
    const Store store = filled(shape, 4, groups);
    const auto queries = random_queries(shape, 33);
    std::vector<uint16_t> first;
    in_every_order([&](const std::string& order) {
      const auto got = run(store, groups, queries);
      if (first.empty()) first = got;
      ASSERT_EQ(got, first) << order;
    });
    expect_definition(store, groups, queries, first);
  }
}

/// A causal group of which each row sees as many cells as a window has, its own the last.
CellGroup windowed_group(int32_t num_rows, int32_t prefix, int32_t window) {
  CellGroup group = group_of(0, num_rows, prefix, prefix, true);
  for (int32_t cell = 0; cell < prefix + num_rows; ++cell)
    group.end_seen_by.push_back(std::max(0, cell + window - prefix));
  for (int32_t cell = 0; cell + window <= prefix; ++cell)
    group.first_seen_by[static_cast<size_t>(cell)] = kNoRow;
  return group;
}

TEST(AttentionPlan, ListsTheRowsThatAWindowEndsWith) {
  const AttentionPlan plan = plan_attention({{windowed_group(40, 0, 34).ranges()}}, 1);
  ASSERT_EQ(plan.runs.size(), 1U);
  EXPECT_EQ(plan.runs[0].first_mask, 0);
  ASSERT_EQ(plan.mask_ends.size(), plan.masks.size());
  EXPECT_THAT(std::vector(plan.mask_ends.begin(), plan.mask_ends.begin() + 3), ElementsAre(34, 35, 36));
  EXPECT_TRUE(plan_attention({{group_of(0, 40, 0, 0, true).ranges()}}, 1).mask_ends.empty());
}

TEST(AttentionKernel, ShowsRowsWhatTheirWindowsHold) {
  for (const Shape& shape : {Shape{4, 2, 32, 0}, Shape{2, 1, 256, 0}}) {
    const std::vector<CellGroup> groups = {windowed_group(50, 70, 40)};
    const Store store = filled(shape, 4, groups);
    const auto queries = random_queries(shape, 50);
    const auto got = run(store, groups, queries);
    expect_definition(store, groups, queries, got);
    // A row alone, which sees the same cells.
    const auto width = static_cast<int64_t>(shape.heads * shape.head_dim);
    for (const int32_t row : {0, 33, 49}) {
      CellGroup alone = groups[0];
      alone.num_rows = 1;
      for (size_t cell = 0; cell < alone.first_seen_by.size(); ++cell) {
        const bool sees = alone.first_seen_by[cell] <= row && row < alone.end_seen_by[cell];
        alone.first_seen_by[cell] = sees ? 0 : kNoRow;
      }
      alone.end_seen_by.clear();
      const std::vector<uint16_t> query(queries.begin() + row * width, queries.begin() + (row + 1) * width);
      const auto single = run(store, {alone}, query);
      EXPECT_TRUE(std::equal(single.begin(), single.end(), got.begin() + row * width)) << "row " << row;
    }
  }
}

TEST(AttentionKernel, MergesChunksOfALongPrefix) {
  const Shape shape{2, 1, 32, 0};
  const std::vector<CellGroup> groups = {group_of(0, 3, 1300, 1310, true)};
  const Store store = filled(shape, 43, groups);
  const auto queries = random_queries(shape, 3);
  expect_definition(store, groups, queries, run(store, groups, queries));
}

TEST(AttentionKernel, GivesARowTheSameBitsAloneAndInAnyCompany) {
  const Shape shape{4, 2, 64, 0};
  const std::vector<CellGroup> together = {group_of(0, 40, 500, 505, true)};
  const Store store = filled(shape, 18, together);
  const auto queries = random_queries(shape, 40);
  const auto got = run(store, together, queries);
  const auto width = static_cast<int64_t>(shape.heads * shape.head_dim);
  // The same row with its predecessors kept: in the middle of a tile, and across the end of a chunk.
  for (const int32_t row : {0, 6, 7, 20, 39}) {
    CellGroup alone{
        .first_row = 0, .num_rows = 1, .first_page = 0, .first_seen_by = together[0].first_seen_by};
    for (int32_t& seen_by : alone.first_seen_by) seen_by = seen_by <= row ? 0 : kNoRow;
    const std::vector<uint16_t> query(queries.begin() + row * width, queries.begin() + (row + 1) * width);
    const auto single = run(store, {alone}, query);
    EXPECT_TRUE(std::equal(single.begin(), single.end(), got.begin() + row * width)) << "row " << row;
  }
}

TEST(AttentionKernel, ReadsSharedMemoryWithoutConflictsOfBanks) {
  const Shape shape{2, 1, 64, 0};
  const std::vector<CellGroup> groups = {group_of(0, 2, 64, 64, false)};
  const auto counts =
      simt::bank_counts_of([&] { run(filled(shape, 4, groups), groups, random_queries(shape, 2)); });
  if (!counts) GTEST_SKIP() << simt::kOnlySimulated;
  EXPECT_GT(counts->phases, 0);
  EXPECT_EQ(counts->conflicts, 0);
}

}  // namespace
}  // namespace lacuna::cuda::attention_test
