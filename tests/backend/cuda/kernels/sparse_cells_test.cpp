#include "backend/cuda/kernels/sparse_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/gpu/device_vectors.h"
#include "group_cells.h"
#include "model/sparse_attention.h"
#include "orders.h"

namespace lacuna::cuda::sparse_cells_test {
namespace {

using simt::in_every_order;

std::vector<int32_t> chosen(const std::vector<float>& values, int32_t kv_heads, ChooseArguments a) {
  Stream stream;
  const DeviceBuffer on_device = upload(stream, values);
  const int32_t behind = a.page_size > 1 ? a.num_cells - a.num_values * a.page_size : 0;
  const DeviceBuffer out(static_cast<size_t>(kv_heads * (a.num_chosen * a.page_size + behind)) *
                         sizeof(int32_t));
  a.values = on_device.as<float>();
  a.stride = std::ssize(values) / kv_heads;
  a.chosen = out.as<int32_t>();
  choose_largest(stream, a, static_cast<uint32_t>(kv_heads));
  return download<int32_t>(stream, out);
}

TEST(ChooseKernel, TakesTheCellsThatTheCpuTakes) {
  constexpr int32_t kHeads = 2;
  for (const int32_t count : {40, 300, 1000}) {
    std::vector<float> mass = random_numbers(static_cast<size_t>(kHeads * count), 61, 0.5F);
    for (float& value : mass) value = std::abs(std::round(value * 50) / 50);  // many equals
    for (const int32_t budget : {1, 17, count - 1, count}) {
      std::vector<int32_t> expected;
      for (int32_t head = 0; head < kHeads; ++head) {
        std::vector<float> own(mass.begin() + head * count, mass.begin() + (head + 1) * count);
        own.resize(static_cast<size_t>((count + 31) / 32 * 32));
        const std::vector<IndexRange> runs = {{0, (count + 31) / 32}};
        const auto cells = heaviest_cells(own, runs, {0, count}, budget);
        expected.insert(expected.end(), cells.begin(), cells.end());
      }
      in_every_order([&](const std::string& order) {
        EXPECT_EQ(chosen(mass, kHeads, {.num_values = count, .num_chosen = budget}), expected)
            << order << ", " << budget << " of " << count;
      });
    }
  }
}

TEST(ChooseKernel, TakesThePagesThatTheCpuTakesAndTheLastOne) {
  constexpr int32_t kPages = 21;
  const std::vector<float> scores = random_numbers(kPages, 62);  // of both signs
  for (const int32_t count : {1, 5, 21}) {
    const auto expected = cells_of_best_pages(scores, count, 16, 330);
    EXPECT_EQ(chosen(scores, 1,
                     {.num_values = kPages - 1, .num_chosen = count - 1, .page_size = 16, .num_cells = 330}),
              expected)
        << count;
  }
}

TEST(ChooseKernel, TakesAsManyAsItIsToldWhereValuesAreNoNumbers) {
  const auto got = chosen(std::vector<float>(40, NAN), 1, {.num_values = 40, .num_chosen = 3});
  EXPECT_EQ(got, (std::vector<int32_t>{0, 1, 2}));
}

constexpr int64_t kHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kDim = 32;
constexpr int32_t kPages = 4;
constexpr int32_t kRows = 5;

/// Two layers of bf16 cells, of which the second is used, and queries.
struct Input {
  std::vector<uint16_t> memory =
      random_bf16(static_cast<size_t>(kPages * 2 * kKvHeads * 2 * kPageCells * kDim), 63, 2);
  std::vector<int32_t> table = {2, 0, 3, 1};
  std::vector<uint16_t> queries = random_bf16(static_cast<size_t>(kRows * kHeads * kDim), 64, 2);

  float key(int32_t cell, int64_t kv_head, int64_t i) const {
    const int64_t page = table[static_cast<size_t>(cell / kPageCells)];
    const int64_t head = (page * 2 + 1) * kKvHeads + kv_head;
    return from_bits(memory[static_cast<size_t>((head * 2 * kPageCells + cell % kPageCells) * kDim + i)]);
  }
  float query(int32_t row, int64_t head, int64_t i) const {
    return from_bits(queries[static_cast<size_t>((row * kHeads + head) * kDim + i)]);
  }
  double score(int32_t row, int64_t head, int32_t cell) const {
    double score = 0;
    for (int64_t i = 0; i < kDim; ++i)
      score += double{query(row, head, i)} * key(cell, head / (kHeads / kKvHeads), i);
    return score / std::sqrt(static_cast<double>(kDim));
  }
};

/// The mass of the first `num_cells` cells where rows [first_row, kRows) see all `visible` cells.
std::vector<float> mass_of(const Input& input, int32_t first_row, int32_t num_cells, int32_t visible) {
  Stream stream;
  const int32_t rows = kRows - first_row;
  const DeviceBuffer memory = upload(stream, input.memory);
  const DeviceBuffer table = upload(stream, input.table);
  const DeviceBuffer queries = upload(stream, input.queries);
  const std::vector<CellGroup> groups = {
      {.first_row = first_row,
       .num_rows = rows,
       .first_page = 0,
       .first_seen_by = std::vector<int32_t>(static_cast<size_t>(visible), 0)}};
  const AttentionPlan plan = plan_attention(ranges_of(groups), kHeads / kKvHeads);
  const DeviceBuffer tasks = upload(stream, plan.tasks);
  const DeviceBuffer merges = upload(stream, plan.merges);
  const DeviceBuffer runs = upload(stream, plan.runs);
  const DeviceBuffer masks = upload(stream, plan.masks);
  const size_t partials = plan.tasks.size() * kKvHeads * kTaskQueries;
  const DeviceBuffer partial_out(partials * kDim * sizeof(float));
  const DeviceBuffer partial_max(partials * sizeof(float));
  const DeviceBuffer partial_sum(partials * sizeof(float));
  const DeviceBuffer out(input.queries.size() * sizeof(uint16_t));
  const DeviceBuffer row_max(kRows * kHeads * sizeof(float));
  const DeviceBuffer row_sum(kRows * kHeads * sizeof(float));
  const DeviceBuffer mass(static_cast<size_t>(kKvHeads * num_cells) * sizeof(float));
  const AttendArguments attention{.pool = {memory.as<uint16_t>(), 2, kKvHeads, kDim},
                                  .page_table = table.as<int32_t>(),
                                  .queries = queries.as<uint16_t>(),
                                  .tasks = tasks.as<AttendTask>(),
                                  .merges = merges.as<MergeTask>(),
                                  .runs = runs.as<TileRun>(),
                                  .masks = masks.as<int32_t>(),
                                  .partial_out = partial_out.as<float>(),
                                  .partial_max = partial_max.as<float>(),
                                  .partial_sum = partial_sum.as<float>(),
                                  .out = out.as<uint16_t>(),
                                  .row_max = row_max.as<float>(),
                                  .row_sum = row_sum.as<float>(),
                                  .out_stride = kHeads * kDim,
                                  .layer = 1,
                                  .num_heads = kHeads,
                                  .scale = 1 / std::sqrt(static_cast<float>(kDim))};
  attend(stream, attention, static_cast<uint32_t>(plan.tasks.size()),
         static_cast<uint32_t>(plan.merges.size()));
  attention_mass(stream, {.attention = attention,
                          .mass = mass.as<float>(),
                          .first_row = first_row,
                          .num_rows = rows,
                          .first_page = 0,
                          .num_cells = num_cells});
  return download<float>(stream, mass);
}

TEST(MassKernel, AddsUpTheWeightsOfAllRowsAndHeads) {
  const Input input;
  constexpr int32_t kVisible = 101;
  for (const int32_t num_cells : {40, 64, 101}) {
    in_every_order([&](const std::string& order) {
      const std::vector<float> mass = mass_of(input, 1, num_cells, kVisible);
      for (int64_t kv_head = 0; kv_head < kKvHeads; ++kv_head) {
        std::vector<double> expected(static_cast<size_t>(num_cells), 0);
        for (int32_t row = 1; row < kRows; ++row) {
          for (int64_t head = 2 * kv_head; head < 2 * kv_head + 2; ++head) {
            double sum = 0;
            for (int32_t cell = 0; cell < kVisible; ++cell) sum += std::exp(input.score(row, head, cell));
            for (int32_t cell = 0; cell < num_cells; ++cell)
              expected[static_cast<size_t>(cell)] += std::exp(input.score(row, head, cell)) / sum;
          }
        }
        for (int32_t cell = 0; cell < num_cells; ++cell) {
          ASSERT_NEAR(mass[static_cast<size_t>(kv_head * num_cells + cell)],
                      expected[static_cast<size_t>(cell)], 1e-5)
              << order << ", cell " << cell << " of " << num_cells;
        }
      }
    });
  }
}

TEST(CandidateKernels, ScoreAndPoolWhatTheGroupsRowsAskForAndLeaveOutTheBlock) {
  const Input input;
  constexpr int32_t kCells = 121, kFirst = 1;
  SparseAttention sparse{SparseAttention::Choice::kAllAndRememberScored, {0, kCells}, 30};
  sparse.except = {40, 71};
  sparse.pool = 5;
  std::vector<float> expected;
  for (int32_t i = 0; i < sparse.num_candidates(); ++i) {
    double sum = 0;
    for (int32_t row = kFirst; row < kRows; ++row)
      for (int64_t head = 0; head < kHeads; ++head) sum += input.score(row, head, sparse.candidate(i));
    expected.push_back(
        static_cast<float>(sum * std::sqrt(static_cast<double>(kDim)) / (kRows - kFirst) / kHeads));
  }
  in_every_order([&](const std::string& order) {
    Stream stream;
    const DeviceBuffer memory = upload(stream, input.memory);
    const DeviceBuffer table = upload(stream, input.table);
    const DeviceBuffer queries = upload(stream, input.queries);
    const DeviceBuffer means(kKvHeads * kDim * sizeof(float));
    const DeviceBuffer scores(expected.size() * sizeof(float)), pooled(expected.size() * sizeof(float));
    candidate_scores(stream, {.attention = {.pool = {memory.as<uint16_t>(), 2, kKvHeads, kDim},
                                            .page_table = table.as<int32_t>(),
                                            .queries = queries.as<uint16_t>(),
                                            .layer = 1,
                                            .num_heads = kHeads},
                              .means = means.as<float>(),
                              .scores = scores.as<float>(),
                              .pooled = pooled.as<float>(),
                              .first_row = kFirst,
                              .num_rows = kRows - kFirst,
                              .num_candidates = sparse.num_candidates(),
                              .except_begin = sparse.except.begin,
                              .except_cells = sparse.except.size(),
                              .reach = sparse.pool / 2});
    const std::vector<float> got = download<float>(stream, scores);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << order << i;
    const std::vector<int32_t> best = best_scored_cells(got, sparse);
    std::vector<int32_t> of_both = best;
    of_both.insert(of_both.end(), best.begin(), best.end());
    const DeviceBuffer out(of_both.size() * sizeof(int32_t));
    choose_largest(stream,
                   {.values = pooled.as<float>(),
                    .num_values = sparse.num_candidates(),
                    .num_chosen = sparse.num_chosen(),
                    .num_cells = kCells,
                    .chosen = out.as<int32_t>(),
                    .except_begin = sparse.except.begin,
                    .except_cells = sparse.except.size()},
                   kKvHeads);
    EXPECT_EQ(download<int32_t>(stream, out), of_both) << order;
  });
}

TEST(PageKernels, BoundAndScorePagesAsTheCpuDoes) {
  const Input input;
  constexpr int32_t kPageSize = 16;
  constexpr int32_t kCells = 121;  // the last page is short
  constexpr int32_t kNum = (kCells + kPageSize - 1) / kPageSize;
  constexpr int32_t kMax = kNum + 2;
  in_every_order([&](const std::string& order) {
    Stream stream;
    const DeviceBuffer memory = upload(stream, input.memory);
    const DeviceBuffer table = upload(stream, input.table);
    const DeviceBuffer queries = upload(stream, input.queries);
    const DeviceBuffer bounds(2 * kKvHeads * kMax * 2 * kDim * sizeof(float));
    const DeviceBuffer means(kKvHeads * 2 * kDim * sizeof(float));
    const DeviceBuffer scores(kKvHeads * kNum * sizeof(float));
    PageBoundsArguments a{.pool = {memory.as<uint16_t>(), 2, kKvHeads, kDim},
                          .page_table = table.as<int32_t>(),
                          .layer = 1,
                          .bounds = bounds.as<float>(),
                          .most_pages = kMax,
                          .page_size = kPageSize,
                          .num_cells = 40};
    page_bounds(stream, a);
    a.first_page = 2;  // the one that was short
    a.num_cells = kCells;
    page_bounds(stream, a);
    page_scores(stream, {.queries = queries.as<uint16_t>(),
                         .bounds = bounds.as<float>(),
                         .means = means.as<float>(),
                         .scores = scores.as<float>(),
                         .layer = 1,
                         .num_kv_heads = kKvHeads,
                         .num_heads = kHeads,
                         .head_dim = kDim,
                         .first_row = 1,
                         .num_rows = kRows - 1,
                         .most_pages = kMax,
                         .num_pages = kNum});
    const auto got = download<float>(stream, scores);
    for (int64_t kv_head = 0; kv_head < kKvHeads; ++kv_head) {
      std::vector<float> largest, smallest, stacked;
      for (int32_t page = 0; page < kNum; ++page) {
        for (int64_t i = 0; i < kDim; ++i) {
          float most = -INFINITY, least = INFINITY;
          for (int32_t cell = page * kPageSize; cell < std::min((page + 1) * kPageSize, kCells); ++cell) {
            most = std::max(most, input.key(cell, kv_head, i));
            least = std::min(least, input.key(cell, kv_head, i));
          }
          largest.push_back(most);
          smallest.push_back(least);
        }
      }
      for (int32_t row = 1; row < kRows; ++row) {
        for (int64_t head = 2 * kv_head; head < 2 * kv_head + 2; ++head) {
          for (int64_t i = 0; i < kDim; ++i) stacked.push_back(input.query(row, head, i));
        }
      }
      const auto rows = std::ssize(stacked) / kDim;
      const auto expected = lacuna::page_scores(split_mean({stacked.data(), rows, kDim}), largest, smallest);
      for (int32_t page = 0; page < kNum; ++page) {
        ASSERT_NEAR(got[static_cast<size_t>(kv_head * kNum + page)], expected[static_cast<size_t>(page)],
                    1e-3)
            << order << ", page " << page;
      }
    }
  });
}

}  // namespace
}  // namespace lacuna::cuda::sparse_cells_test
