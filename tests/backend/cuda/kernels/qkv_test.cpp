#include "backend/cuda/kernels/qkv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/gpu/device_vectors.h"
#include "orders.h"

namespace lacuna::cuda::qkv_test {
namespace {

using simt::in_every_order;

enum class Norm : uint8_t { kNone, kPerHead, kFull };

struct Case {
  Norm norm = Norm::kPerHead;
  int64_t head_dim = 32;
  int64_t rotary_dim = 32;
  float clip = 0;
  bool queries_grow = false;
  bool v_norm = false;
  bool shares_keys = false;

  /// Heads of a row, of which the last are values.
  size_t row_heads() const { return shares_keys ? 8 : 10; }
};

constexpr int64_t kHeads = 6;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kLayers = 2;
constexpr int32_t kPages = 3;
constexpr size_t kPositions = 100;

struct Result {
  std::vector<uint16_t> queries;
  std::vector<uint16_t> pool;
  std::vector<float> drift;
};

/// Rows with what they need, and the same for some of them alone.
struct Input {
  Case what;
  std::vector<float> qkv, q_norm, k_norm, cosines, sines, query_scales;
  std::vector<int32_t> positions = {7, 99, 0, 45};
  std::vector<int32_t> cells = {3, 64, 31, 33};
  std::vector<int32_t> page_table = {2, 0, 1};
  std::vector<uint16_t> pool;

  explicit Input(const Case& of) : what(of) {
    const auto dim = static_cast<size_t>(what.head_dim);
    const auto half = static_cast<size_t>(what.rotary_dim / 2);
    qkv = random_numbers(positions.size() * what.row_heads() * dim, 31, 2);
    q_norm = random_numbers(kHeads * dim, 32);
    k_norm = random_numbers(kKvHeads * dim, 33);
    for (size_t p = 0; p < kPositions; ++p) {
      query_scales.push_back(what.queries_grow ? 1 + 0.01F * static_cast<float>(p) : 1);
      for (size_t j = 0; j < half; ++j) {
        const double angle =
            static_cast<double>(p) / std::pow(100.0, static_cast<double>(j) / static_cast<double>(half));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    pool = to_bits(random_numbers(kPages * kLayers * kKvHeads * 2 * kPageCells * dim, 34));
  }

  Result run(const std::vector<size_t>& rows) const {
    Stream stream;
    const auto pick = [&](const auto& values, size_t width) {
      std::decay_t<decltype(values)> picked;
      for (const size_t row : rows) {
        picked.insert(picked.end(), values.begin() + static_cast<int64_t>(row * width),
                      values.begin() + static_cast<int64_t>((row + 1) * width));
      }
      return picked;
    };
    const auto dim = static_cast<size_t>(what.head_dim);
    const DeviceBuffer sums = upload(stream, pick(qkv, what.row_heads() * dim));
    const DeviceBuffer at_positions = upload(stream, pick(positions, 1));
    const DeviceBuffer at_cells = upload(stream, pick(cells, 1));
    const DeviceBuffer first_page = upload(stream, std::vector<int32_t>(rows.size(), 0));
    const DeviceBuffer table = upload(stream, page_table);
    const DeviceBuffer memory = upload(stream, pool);
    const DeviceBuffer queries(rows.size() * kHeads * dim * sizeof(uint16_t));
    const DeviceBuffer q_weight = upload(stream, q_norm);
    const DeviceBuffer k_weight = upload(stream, k_norm);
    const DeviceBuffer cos_table = upload(stream, cosines);
    const DeviceBuffer sin_table = upload(stream, sines);
    const DeviceBuffer scale_table = upload(stream, query_scales);
    const DeviceBuffer drift = upload(stream, std::vector<float>(rows.size() * kLayers * 2, -7));
    const bool normed = what.norm != Norm::kNone;
    finish_qkv(stream,
               {.qkv = sums.as<float>(),
                .positions = at_positions.as<int32_t>(),
                .cells = at_cells.as<int32_t>(),
                .first_page = first_page.as<int32_t>(),
                .page_table = table.as<int32_t>(),
                .pool = {memory.as<uint16_t>(), kLayers, kKvHeads, what.head_dim},
                .queries = queries.as<uint16_t>(),
                .q_norm = normed ? q_weight.as<float>() : nullptr,
                .k_norm = normed ? k_weight.as<float>() : nullptr,
                .cosines = cos_table.as<float>(),
                .sines = sin_table.as<float>(),
                .query_scales = what.queries_grow ? scale_table.as<float>() : nullptr,
                .drift = drift.as<float>(),
                .layer = 1,
                .num_heads = kHeads,
                .rotary_dim = what.rotary_dim,
                .norm_full = what.norm == Norm::kFull,
                .epsilon = 1e-6F,
                .shares_keys = what.shares_keys,
                .v_norm = what.v_norm,
                .clip = what.clip},
               static_cast<uint32_t>(rows.size()));
    return {download<uint16_t>(stream, queries), download<uint16_t>(stream, memory),
            download<float>(stream, drift)};
  }

  /// Where a row's keys of one head lie in the pool; values are 32 cells further.
  size_t place(size_t row, int64_t kv_head) const {
    const int64_t page = page_table[static_cast<size_t>(cells[row] / kPageCells)];
    const int64_t head = (page * kLayers + 1) * kKvHeads + kv_head;
    return static_cast<size_t>((head * 2 * kPageCells + cells[row] % kPageCells) * what.head_dim);
  }

  /// One head by the definition, in double.
  std::vector<double> finished(size_t row, int64_t first_head, int64_t head, int64_t heads,
                               const std::vector<float>& weight) const {
    const auto dim = static_cast<size_t>(what.head_dim);
    const float* all = qkv.data() + (row * what.row_heads() + static_cast<size_t>(first_head)) * dim;
    const float* x = all + static_cast<size_t>(head) * dim;
    const float* normed = what.norm == Norm::kFull ? all : x;
    const size_t count = what.norm == Norm::kFull ? static_cast<size_t>(heads) * dim : dim;
    double squares = 0;
    for (size_t i = 0; i < count; ++i) squares += double{normed[i]} * normed[i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(count) + 1e-6);
    std::vector<double> out(dim);
    for (size_t i = 0; i < dim; ++i) {
      const float w = weight[what.norm == Norm::kFull ? static_cast<size_t>(head) * dim + i : i];
      out[i] = what.norm == Norm::kNone ? x[i] : x[i] * scale * w;
      if (what.clip > 0) out[i] = std::clamp<double>(out[i], -what.clip, what.clip);
    }
    const auto half = static_cast<size_t>(what.rotary_dim / 2);
    for (size_t j = 0; j < half; ++j) {
      const double c = cosines[static_cast<size_t>(positions[row]) * half + j];
      const double s = sines[static_cast<size_t>(positions[row]) * half + j];
      const double a = out[j];
      const double b = out[j + half];
      out[j] = a * c - b * s;
      out[j + half] = b * c + a * s;
    }
    const bool is_query = first_head == 0;
    for (double& value : out) value *= is_query ? query_scales[static_cast<size_t>(positions[row])] : 1.0F;
    return out;
  }
};

void expect_near(const uint16_t* got, const std::vector<double>& expected, const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(from_bits(got[i]), expected[i], std::abs(expected[i]) * 0.0041 + 1e-5) << what << " " << i;
  }
}

TEST(FinishQkvKernel, NormsClipsAndTurnsQueriesAndKeysOfEveryKind) {
  for (const Case& what :
       {Case{}, Case{Norm::kNone, 64, 64, 1}, Case{Norm::kFull, 32, 32, 0.5F},
        Case{Norm::kPerHead, 32, 16, 0}, Case{Norm::kNone, 128, 64, 0},
        Case{Norm::kPerHead, 16, 16, 0, false, true}, Case{Norm::kPerHead, 512, 512, 1, false, true, true},
        Case{Norm::kNone, 64, 32, 0, true}}) {
    const Input input(what);
    const auto dim = static_cast<size_t>(what.head_dim);
    in_every_order([&](const std::string& order) {
      const Result got = input.run({0, 1, 2, 3});
      for (size_t row = 0; row < 4; ++row) {
        for (int64_t head = 0; head < kHeads; ++head) {
          expect_near(got.queries.data() + (row * kHeads + static_cast<size_t>(head)) * dim,
                      input.finished(row, 0, head, kHeads, input.q_norm), order + " query");
        }
        for (int64_t head = 0; head < kKvHeads; ++head) {
          const uint16_t* key = got.pool.data() + input.place(row, head);
          expect_near(key, input.finished(row, kHeads, head, kKvHeads, input.k_norm), order + " key");
          const uint16_t* value = key + kPageCells * what.head_dim;
          const size_t first = what.shares_keys ? kHeads : kHeads + kKvHeads;
          const float* v =
              input.qkv.data() + (row * what.row_heads() + first + static_cast<size_t>(head)) * dim;
          double squares = 0;
          for (size_t i = 0; i < dim; ++i) squares += double{v[i]} * v[i];
          const double scale = what.v_norm ? 1 / std::sqrt(squares / static_cast<double>(dim) + 1e-6) : 1;
          for (size_t i = 0; i < dim; ++i) {
            const double normed = v[i] * scale;
            const double expected =
                what.clip > 0 ? std::clamp<double>(normed, -what.clip, what.clip) : normed;
            ASSERT_NEAR(from_bits(value[i]), expected, std::abs(expected) * 0.0041) << order;
          }
        }
      }
    });
  }
}

TEST(FinishQkvKernel, WritesNothingButItsCells) {
  const Input input({});
  const Result got = input.run({0, 1, 2, 3});
  std::vector<uint16_t> expected = input.pool;
  for (size_t row = 0; row < 4; ++row) {
    for (int64_t head = 0; head < kKvHeads; ++head) {
      for (const size_t at : {input.place(row, head), input.place(row, head) + size_t{kPageCells} * 32}) {
        std::copy_n(got.pool.begin() + static_cast<int64_t>(at), 32,
                    expected.begin() + static_cast<int64_t>(at));
      }
    }
  }
  EXPECT_EQ(got.pool, expected);
}

TEST(FinishQkvKernel, MeasuresHowFarKeysAndValuesMoved) {
  const Input input({});
  const Result got = input.run({0, 1, 2, 3});
  for (size_t row = 0; row < 4; ++row) {
    for (const size_t part : {0U, 1U}) {
      double product = 0, before = 0, after = 0;
      for (int64_t head = 0; head < kKvHeads; ++head) {
        const size_t at = input.place(row, head) + part * size_t{kPageCells} * 32;
        for (size_t i = at; i < at + 32; ++i) {
          const double x = from_bits(input.pool[i]);
          const double y = from_bits(got.pool[i]);
          product += x * y;
          before += x * x;
          after += y * y;
        }
      }
      EXPECT_NEAR(got.drift[row * 4 + 2 + part], 1 - product / std::sqrt(before * after), 1e-6);
      EXPECT_EQ(got.drift[row * 4 + part], -7);  // of the other layer
    }
  }
}

TEST(FinishQkvKernel, GivesARowTheSameBitsAloneAndInAnyCompany) {
  const Input input({Norm::kFull, 64, 64, 0});
  const Result together = input.run({0, 1, 2, 3});
  const Result alone = input.run({1});
  EXPECT_TRUE(std::equal(alone.queries.begin(), alone.queries.end(), together.queries.begin() + kHeads * 64));
  EXPECT_EQ(alone.drift[2], together.drift[4 + 2]);
  const auto at = static_cast<int64_t>(input.place(1, 1));
  EXPECT_TRUE(std::equal(alone.pool.begin() + at, alone.pool.begin() + at + 64, together.pool.begin() + at));
}

}  // namespace
}  // namespace lacuna::cuda::qkv_test
