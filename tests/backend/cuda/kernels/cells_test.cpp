// Cells in every format: what finish_qkv() writes, and what attention reads of them, of all cells and of
// chosen ones.
#include "backend/cuda/kernels/cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "backend/cuda/kernels/qkv.h"
#include "bench/gpu/device_vectors.h"
#include "group_cells.h"
#include "orders.h"

namespace lacuna::cuda::cells_test {
namespace {

using simt::in_every_order;

struct Shape {
  CellFormat format = CellFormat::kBf16;
  bool queries_in_f32 = false;
  int64_t head_dim = 32;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  float soft_cap = 0;
};

constexpr Shape kShapes[] = {{CellFormat::kBf16, false, 32},       {CellFormat::kInt8, false, 32},
                             {CellFormat::kInt8, false, 64, 2, 2}, {CellFormat::kInt8, false, 128, 6, 1, 3},
                             {CellFormat::kF32, true, 32},         {CellFormat::kF32, true, 128, 6, 1, 3},
                             {CellFormat::kInt8, true, 64, 2, 2}};

std::string name_of(const Shape& shape) {
  return "format " + std::to_string(static_cast<int>(shape.format)) + ", heads of " +
         std::to_string(shape.head_dim);
}

/// Pages of two layers that lie scattered; layer 1 is used. Cells that nobody wrote hold NaN.
struct Store {
  PagePool pool;
  std::vector<int32_t> page_table;
  std::vector<uint8_t> memory;

  Store(const Shape& shape, int32_t pages) : pool{nullptr, 2, shape.kv_heads, shape.head_dim, shape.format} {
    for (int32_t i = 0; i < pages; ++i)
      page_table.push_back((i * 7 + 3) % pages);  // 7 and pages: no common factor
    memory.assign(static_cast<size_t>(pages * pool.page_bytes()), 0xff);
  }

  size_t head_at(int32_t cell, int64_t kv_head) const {
    const int64_t page = page_table[static_cast<size_t>(cell / kPageCells)];
    return static_cast<size_t>(((page * 2 + 1) * pool.num_kv_heads + kv_head) * pool.head_bytes());
  }
  size_t bytes_of_number() const {
    return pool.format == CellFormat::kInt8 ? 1 : pool.format == CellFormat::kF32 ? 4 : 2;
  }
  size_t number_at(int32_t cell, int64_t kv_head, bool value, int64_t i) const {
    const int64_t row = (value ? kPageCells : 0) + cell % kPageCells;
    return head_at(cell, kv_head) + static_cast<size_t>(row * pool.head_dim + i) * bytes_of_number();
  }
  size_t scale_at(int32_t cell, int64_t kv_head, bool value) const {
    return head_at(cell, kv_head) + static_cast<size_t>(2 * kPageCells * pool.head_dim) +
           static_cast<size_t>(cell % kPageCells * kScaleBytes + (value ? 4 : 0));
  }
  template <typename T>
  T read(size_t at) const {
    T value;
    std::memcpy(&value, memory.data() + at, sizeof(T));
    return value;
  }
  template <typename T>
  void put(size_t at, T value) {
    std::memcpy(memory.data() + at, &value, sizeof(T));
  }

  /// The number that a cell represents.
  double number(int32_t cell, int64_t kv_head, bool value, int64_t i) const {
    const size_t at = number_at(cell, kv_head, value, i);
    if (pool.format == CellFormat::kBf16) return from_bits(read<uint16_t>(at));
    if (pool.format == CellFormat::kF32) return read<float>(at);
    return double{read<float>(scale_at(cell, kv_head, value))} * read<int8_t>(at);
  }

  void write(int32_t cell) {
    for (int64_t head = 0; head < pool.num_kv_heads; ++head) {
      for (const bool value : {false, true}) {
        const auto seed = static_cast<uint64_t>(4 * cell + 2 * head + (value ? 1 : 0));
        const auto numbers = random_numbers(static_cast<size_t>(pool.head_dim), seed, 2);
        if (pool.format == CellFormat::kInt8) put(scale_at(cell, head, value), 2.0F / 127);
        for (int64_t i = 0; i < pool.head_dim; ++i) {
          const size_t at = number_at(cell, head, value, i);
          const float number = numbers[static_cast<size_t>(i)];
          if (pool.format == CellFormat::kBf16) put(at, bf16(number).bits);
          if (pool.format == CellFormat::kF32) put(at, number);
          if (pool.format == CellFormat::kInt8) put(at, static_cast<int8_t>(std::lround(number * 127 / 2)));
        }
      }
    }
  }
};

/// The cells that each kv head of a group is confined to.
struct Selection {
  std::vector<std::vector<int32_t>> chosen;  // [kv heads]
  std::vector<int32_t> behind;
};

struct Input {
  Shape shape;
  std::vector<CellGroup> groups;
  std::vector<Selection> selections;  // of groups that name them
  std::vector<float> queries;         // of all rows

  Input(const Shape& of, int64_t rows)
      : shape(of), queries(random_numbers(static_cast<size_t>(rows * of.heads * of.head_dim), 77, 2)) {
    if (!shape.queries_in_f32) {
      for (float& query : queries) query = static_cast<float>(bf16(query));
    }
  }
  size_t width() const { return static_cast<size_t>(shape.heads * shape.head_dim); }
};

/// Attention in f32.
std::vector<float> attended(const Input& input, const Store& store) {
  const Shape& shape = input.shape;
  Stream stream;
  const DeviceBuffer memory = upload(stream, store.memory);
  const DeviceBuffer table = upload(stream, store.page_table);
  const DeviceBuffer q = upload(stream, to_bits(input.queries));
  const DeviceBuffer q_f32 = upload(stream, input.queries);
  std::vector<DeviceBuffer> lists;
  std::vector<CellSelection> selections;
  std::vector<int32_t> behind;
  for (const Selection& selection : input.selections) {
    const auto count = static_cast<int32_t>(selection.chosen.front().size());
    std::vector<int32_t> chosen(static_cast<size_t>(shape.kv_heads * count), -1);  // of the other layer
    for (const auto& cells : selection.chosen) chosen.insert(chosen.end(), cells.begin(), cells.end());
    lists.push_back(upload(stream, chosen));
    selections.push_back({lists.back().as<int32_t>(), count, static_cast<int32_t>(behind.size())});
    behind.insert(behind.end(), selection.behind.begin(), selection.behind.end());
  }
  const DeviceBuffer device_selections = upload(stream, selections);
  const DeviceBuffer device_behind = upload(stream, behind);
  const AttentionPlan plan =
      plan_attention(ranges_of(input.groups), static_cast<int32_t>(shape.heads / shape.kv_heads));
  const DeviceBuffer tasks = upload(stream, plan.tasks);
  const DeviceBuffer merges = upload(stream, plan.merges);
  const DeviceBuffer runs = upload(stream, plan.runs);
  const DeviceBuffer masks = upload(stream, plan.masks);
  const size_t partials = plan.tasks.size() * static_cast<size_t>(shape.kv_heads) * kTaskQueries;
  const DeviceBuffer partial_out(partials * static_cast<size_t>(shape.head_dim) * sizeof(float));
  const DeviceBuffer partial_max(partials * sizeof(float));
  const DeviceBuffer partial_sum(partials * sizeof(float));
  const DeviceBuffer out(input.queries.size() * sizeof(uint16_t));
  const DeviceBuffer out_f32(input.queries.size() * sizeof(float));
  PagePool pool = store.pool;
  pool.memory = memory.as<uint16_t>();
  attend(stream,
         {.pool = pool,
          .page_table = table.as<int32_t>(),
          .queries = q.as<uint16_t>(),
          .queries_f32 = shape.queries_in_f32 ? q_f32.as<float>() : nullptr,
          .tasks = tasks.as<AttendTask>(),
          .merges = merges.as<MergeTask>(),
          .runs = runs.as<TileRun>(),
          .masks = masks.as<int32_t>(),
          .selections = device_selections.as<CellSelection>(),
          .behind = device_behind.as<int32_t>(),
          .partial_out = partial_out.as<float>(),
          .partial_max = partial_max.as<float>(),
          .partial_sum = partial_sum.as<float>(),
          .out = out.as<uint16_t>(),
          .out_f32 = out_f32.as<float>(),
          .out_stride = shape.heads * shape.head_dim,
          .layer = 1,
          .num_heads = shape.heads,
          .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
          .soft_cap = shape.soft_cap},
         static_cast<uint32_t>(plan.tasks.size()), static_cast<uint32_t>(plan.merges.size()));
  if (shape.queries_in_f32) return download<float>(stream, out_f32);
  std::vector<float> widened;
  for (const uint16_t bits : download<uint16_t>(stream, out)) widened.push_back(from_bits(bits));
  return widened;
}

/// The cells that a row of a group sees.
std::vector<int32_t> seen_cells(const Input& input, const CellGroup& group, int32_t row, int64_t kv_head) {
  std::vector<int32_t> cells;
  if (group.selection >= 0) {
    const Selection& selection = input.selections[static_cast<size_t>(group.selection)];
    cells = selection.chosen[static_cast<size_t>(kv_head)];
    cells.insert(cells.end(), selection.behind.begin(), selection.behind.end());
    return cells;
  }
  for (size_t cell = 0; cell < group.first_seen_by.size(); ++cell) {
    if (group.first_seen_by[cell] <= row) cells.push_back(static_cast<int32_t>(cell));
  }
  return cells;
}

/// One head of one row, by the definition, in double.
std::vector<double> defined(const Input& input, const Store& store, const CellGroup& group, int32_t row,
                            int64_t head) {
  const Shape& shape = input.shape;
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const float* query = input.queries.data() + static_cast<size_t>(group.first_row + row) * input.width() +
                       head * shape.head_dim;
  std::vector<double> out(static_cast<size_t>(shape.head_dim), 0);
  double sum = 0;
  for (const int32_t cell : seen_cells(input, group, row, kv_head)) {
    double score = 0;
    for (int64_t i = 0; i < shape.head_dim; ++i) score += query[i] * store.number(cell, kv_head, false, i);
    score /= std::sqrt(static_cast<double>(shape.head_dim));
    if (shape.soft_cap > 0) score = shape.soft_cap * std::tanh(score / shape.soft_cap);
    sum += std::exp(score);
    for (int64_t i = 0; i < shape.head_dim; ++i)
      out[static_cast<size_t>(i)] += std::exp(score) * store.number(cell, kv_head, true, i);
  }
  for (double& number : out) number /= sum;
  return out;
}

void expect_definition(const Input& input, const Store& store, const std::vector<float>& got) {
  // Values are within 2; weights and what is attended are rounded to bf16, or f32 after sums over cells.
  const double part = input.shape.queries_in_f32 ? 0x1p-24 * 200 : 0.004;
  for (const CellGroup& group : input.groups) {
    for (int32_t row = 0; row < group.num_rows; ++row) {
      for (int64_t head = 0; head < input.shape.heads; ++head) {
        const std::vector<double> expected = defined(input, store, group, row, head);
        const float* own = got.data() + static_cast<size_t>(group.first_row + row) * input.width() +
                           head * input.shape.head_dim;
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(own[i], expected[i], part * (2 + std::abs(expected[i])))
              << name_of(input.shape) << ", row " << group.first_row + row << " head " << head;
        }
      }
    }
  }
}

Store filled(const Shape& shape, int32_t pages, const std::vector<int32_t>& cells) {
  Store store(shape, pages);
  for (const int32_t cell : cells) store.write(cell);
  return store;
}

std::vector<int32_t> cells_between(int32_t begin, int32_t end) {
  std::vector<int32_t> cells(static_cast<size_t>(end - begin));
  std::iota(cells.begin(), cells.end(), begin);
  return cells;
}

TEST(CellFormats, GiveWhatAttentionOfTheirNumbersIs) {
  for (const Shape& shape : kShapes) {
    Input input(shape, 33);
    input.groups = {group_of(0, 17, 45, 70, false), group_of(17, 15, 0, 90, true),
                    group_of(32, 1, 45, 110, false)};
    Store store = filled(shape, 4, cells_between(0, 45));
    for (const int32_t cell : cells_between(70, 111)) store.write(cell);
    std::vector<float> first;
    in_every_order([&](const std::string& order) {
      const std::vector<float> got = attended(input, store);
      if (first.empty()) first = got;
      ASSERT_EQ(got, first) << order << ", " << name_of(shape);
    });
    expect_definition(input, store, first);
  }
}

TEST(CellFormats, GiveARowTheSameBitsAloneAndInAnyCompany) {
  for (const Shape& shape : kShapes) {
    Input together(shape, 20);
    together.groups = {group_of(0, 20, 500, 505, true)};
    Store store = filled(shape, 17, cells_between(0, 500));
    for (const int32_t cell : cells_between(505, 525)) store.write(cell);
    const std::vector<float> all = attended(together, store);
    for (const int32_t row : {0, 7, 19}) {
      Input alone(shape, 1);
      const auto first = static_cast<int64_t>(static_cast<size_t>(row) * alone.width());
      alone.queries.assign(together.queries.begin() + first,
                           together.queries.begin() + first + std::ssize(alone.queries));
      alone.groups = {together.groups.front()};
      alone.groups.front().num_rows = 1;
      for (int32_t& seen_by : alone.groups.front().first_seen_by) seen_by = seen_by <= row ? 0 : kNoRow;
      const std::vector<float> own = attended(alone, store);
      EXPECT_TRUE(std::equal(own.begin(), own.end(), all.begin() + first))
          << name_of(shape) << ", row " << row;
    }
  }
}

/// `count` of the first `among` cells, ascending.
std::vector<int32_t> some_cells(int32_t among, size_t count, uint64_t seed) {
  std::vector<int32_t> cells = cells_between(0, among);
  const RngStream random(seed);
  std::sort(cells.begin(), cells.end(), [&](int32_t a, int32_t b) {
    return random.bits(static_cast<uint64_t>(a)) < random.bits(static_cast<uint64_t>(b));
  });
  cells.resize(count);
  std::sort(cells.begin(), cells.end());
  return cells;
}

TEST(ChosenCells, AreAllThatAConfinedGroupAttendsTo) {
  for (const Shape& shape : kShapes) {
    Input input(shape, 7);
    for (uint64_t i = 0; i < 2; ++i) {
      const size_t count = i == 0 ? 37 : 64;  // with those behind them no, and one whole number of tiles
      Selection selection;
      for (int64_t head = 0; head < shape.kv_heads; ++head)
        selection.chosen.push_back(some_cells(150, count, 10 * i + static_cast<uint64_t>(head)));
      selection.behind = cells_between(160, i == 0 ? 163 : 192);
      input.selections.push_back(selection);
      CellGroup group{.first_row = static_cast<int32_t>(3 * i),
                      .num_rows = i == 0 ? 3 : 2,
                      .first_page = 0,
                      .first_seen_by = std::vector<int32_t>(count + selection.behind.size(), 0),
                      .selection = static_cast<int32_t>(i)};
      input.groups.push_back(group);
    }
    input.groups.push_back(group_of(5, 2, 150, 160, true));  // sees all
    Store store = filled(shape, 6, cells_between(0, 192));
    std::vector<float> first;
    in_every_order([&](const std::string& order) {
      const std::vector<float> got = attended(input, store);
      if (first.empty()) first = got;
      ASSERT_EQ(got, first) << order << ", " << name_of(shape);
    });
    expect_definition(input, store, first);
  }
}

constexpr int64_t kDim = 64;
constexpr int64_t kRows = 3;
constexpr int32_t kCells[kRows] = {3, 64, 33};

/// Results of finish_qkv() for some rows of sums.
struct Finished {
  Store store;
  std::vector<float> queries;
  std::vector<float> drift;
};

std::vector<float> random_sums(const Shape& shape) {
  return random_numbers(static_cast<size_t>(kRows * (shape.heads + 2 * shape.kv_heads) * kDim), 31, 2);
}

Finished finished(const Shape& shape, const std::vector<float>& sums) {
  Stream stream;
  Store store(shape, 3);
  for (const int32_t cell : kCells) store.write(cell);
  const DeviceBuffer memory = upload(stream, store.memory);
  const DeviceBuffer qkv = upload(stream, sums);
  const DeviceBuffer cells = upload(stream, std::vector<int32_t>(kCells, kCells + kRows));
  const DeviceBuffer positions = upload(stream, std::vector<int32_t>{5, 0, 9});
  const DeviceBuffer first_page = upload(stream, std::vector<int32_t>(kRows, 0));
  const DeviceBuffer table = upload(stream, store.page_table);
  const DeviceBuffer norm = upload(stream, random_numbers(kDim, 32));
  const DeviceBuffer cosines = upload(stream, random_numbers(10 * kDim / 2, 33));
  const DeviceBuffer sines = upload(stream, random_numbers(10 * kDim / 2, 34));
  const size_t numbers = static_cast<size_t>(kRows * shape.heads * kDim);
  const DeviceBuffer queries(numbers * sizeof(uint16_t));
  const DeviceBuffer queries_f32(numbers * sizeof(float));
  const DeviceBuffer drift = upload(stream, std::vector<float>(kRows * 2 * 2, -7));
  PagePool pool = store.pool;
  pool.memory = memory.as<uint16_t>();
  finish_qkv(stream,
             {.qkv = qkv.as<float>(),
              .positions = positions.as<int32_t>(),
              .cells = cells.as<int32_t>(),
              .first_page = first_page.as<int32_t>(),
              .page_table = table.as<int32_t>(),
              .pool = pool,
              .queries = queries.as<uint16_t>(),
              .queries_f32 = shape.queries_in_f32 ? queries_f32.as<float>() : nullptr,
              .q_norm = norm.as<float>(),
              .k_norm = norm.as<float>(),
              .cosines = cosines.as<float>(),
              .sines = sines.as<float>(),
              .drift = drift.as<float>(),
              .layer = 1,
              .num_heads = shape.heads,
              .rotary_dim = kDim,
              .epsilon = 1e-6F},
             kRows);
  store.memory = download<uint8_t>(stream, memory);
  std::vector<float> made;
  if (shape.queries_in_f32) {
    made = download<float>(stream, queries_f32);
  } else {
    for (const uint16_t bits : download<uint16_t>(stream, queries)) made.push_back(from_bits(bits));
  }
  return {store, made, download<float>(stream, drift)};
}

constexpr Shape kInBf16{CellFormat::kBf16, false, kDim};
constexpr Shape kInF32{CellFormat::kF32, true, kDim};
constexpr Shape kInInt8{CellFormat::kInt8, false, kDim};

TEST(CellFormats, AreMadeOfTheSameNumbers) {
  const std::vector<float> sums = random_sums(kInF32);
  in_every_order([&](const std::string& order) {
    const Finished exact = finished(kInF32, sums);
    const Finished rounded = finished(kInBf16, sums);
    const Finished coded = finished(kInInt8, sums);
    for (size_t i = 0; i < exact.queries.size(); ++i) {
      ASSERT_EQ(static_cast<float>(bf16(exact.queries[i])), rounded.queries[i]) << order;
      ASSERT_EQ(coded.queries[i], rounded.queries[i]) << order;
    }
    for (const int32_t cell : kCells) {
      for (int64_t head = 0; head < kInF32.kv_heads; ++head) {
        for (const bool value : {false, true}) {
          float largest = 0;
          for (int64_t i = 0; i < kDim; ++i)
            largest =
                std::max(largest, std::abs(static_cast<float>(exact.store.number(cell, head, value, i))));
          const float scale = coded.store.read<float>(coded.store.scale_at(cell, head, value));
          ASSERT_EQ(scale, largest / 127) << order;
          for (int64_t i = 0; i < kDim; ++i) {
            const auto number = static_cast<float>(exact.store.number(cell, head, value, i));
            ASSERT_EQ(static_cast<float>(bf16(number)), rounded.store.number(cell, head, value, i)) << order;
            ASSERT_EQ(coded.store.read<int8_t>(coded.store.number_at(cell, head, value, i)),
                      std::nearbyint(number / scale))
                << order << " cell " << cell;
          }
        }
      }
    }
  });
}

TEST(CellFormats, WriteNothingButTheirCells) {
  for (const Shape& shape : {kInF32, kInInt8}) {
    const Finished got = finished(shape, random_sums(shape));
    Store expected(shape, 3);
    for (const int32_t cell : kCells) {
      for (int64_t head = 0; head < shape.kv_heads; ++head) {
        for (const bool value : {false, true}) {
          const auto copy = [&](size_t at, size_t bytes) {
            std::memcpy(expected.memory.data() + at, got.store.memory.data() + at, bytes);
          };
          copy(expected.number_at(cell, head, value, 0), kDim * expected.bytes_of_number());
          if (shape.format == CellFormat::kInt8) copy(expected.scale_at(cell, head, value), 4);
        }
      }
    }
    EXPECT_EQ(got.store.memory, expected.memory) << name_of(shape);
  }
}

TEST(CellFormats, MeasureHowFarWhatTheyStandForMoved) {
  for (const Shape& shape : {kInF32, kInInt8}) {
    const Finished got = finished(shape, random_sums(shape));
    Store before(shape, 3);
    for (const int32_t cell : kCells) before.write(cell);
    for (size_t row = 0; row < kRows; ++row) {
      for (const bool value : {false, true}) {
        double product = 0, old_squares = 0, new_squares = 0;
        for (int64_t head = 0; head < shape.kv_heads; ++head) {
          for (int64_t i = 0; i < kDim; ++i) {
            const double x = before.number(kCells[row], head, value, i);
            const double y = got.store.number(kCells[row], head, value, i);
            product += x * y;
            old_squares += x * x;
            new_squares += y * y;
          }
        }
        EXPECT_NEAR(got.drift[row * 4 + 2 + (value ? 1 : 0)],
                    1 - product / std::sqrt(old_squares * new_squares), 1e-6)
            << name_of(shape);
      }
    }
  }
}

TEST(CellFormats, MarkCodesOfWhatIsNotFinite) {
  std::vector<float> sums = random_sums(kInInt8);
  sums[static_cast<size_t>((kInInt8.heads + kInInt8.kv_heads) * kDim + 5)] = INFINITY;  // a value of row 0
  const Finished got = finished(kInInt8, sums);
  EXPECT_TRUE(std::isnan(got.store.read<float>(got.store.scale_at(kCells[0], 0, true))));
  EXPECT_EQ(got.store.read<int8_t>(got.store.number_at(kCells[0], 0, true, 7)), 0);
  EXPECT_FALSE(std::isnan(got.store.read<float>(got.store.scale_at(kCells[0], 1, true))));
}

}  // namespace
}  // namespace lacuna::cuda::cells_test
