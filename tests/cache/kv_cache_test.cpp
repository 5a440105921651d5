#include "cache/kv_cache.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/threads.h"
#include "kernels/panels.h"

namespace lacuna::kv_cache_test {
namespace {

/// The key or value that a test writes to one place.
float content(int64_t layer, int64_t cell, int64_t head, int64_t d, bool is_value) {
  return static_cast<float>(RngStream(1, layer, cell, head, is_value).uniform(static_cast<uint64_t>(d)) * 4 -
                            2);
}

float rounded(DType dtype, float value) {
  return dtype == DType::kBF16 ? static_cast<float>(bf16(value)) : value;
}

void write(KvCache& cache, int64_t layer, int64_t cell) {
  const KvShape& shape = cache.shape();
  std::vector<float> key;
  std::vector<float> value;
  const KvHeads heads = shape.heads_of(layer);
  for (int64_t head = 0; head < heads.count; ++head) {
    for (int64_t d = 0; d < heads.dim; ++d) {
      key.push_back(content(layer, cell, head, d, false));
      value.push_back(content(layer, cell, head, d, true));
    }
  }
  cache.write(layer, cell, key.data(), value.data());
}

/// Whether every head of a cell holds what write() wrote, or zeros.
void expect_cell(const KvCache& cache, int64_t layer, int64_t cell, bool written) {
  const KvShape& shape = cache.shape();
  const KvHeads heads = shape.heads_of(layer);
  std::vector<float> key(static_cast<size_t>(heads.dim));
  std::vector<float> value(key.size());
  for (int64_t head = 0; head < heads.count; ++head) {
    cache.read(layer, cell, head, key.data(), value.data());
    for (int64_t d = 0; d < heads.dim; ++d) {
      const auto i = static_cast<size_t>(d);
      ASSERT_EQ(key[i], written ? rounded(shape.dtype, content(layer, cell, head, d, false)) : 0)
          << "key, layer " << layer << ", cell " << cell << ", head " << head << ", dimension " << d;
      ASSERT_EQ(value[i], written ? rounded(shape.dtype, content(layer, cell, head, d, true)) : 0)
          << "value, layer " << layer << ", cell " << cell << ", head " << head << ", dimension " << d;
    }
  }
}

class KvCaches : public testing::TestWithParam<KvShape> {};

TEST_P(KvCaches, ReadBackWhatWasWrittenAndNothingElse) {
  KvCache cache(GetParam(), 70);
  const auto is_written = [](int64_t layer, int64_t cell) { return (layer * 31 + cell * 7) % 3 != 0; };
  for (int64_t layer = 0; layer < GetParam().num_layers; ++layer) {
    for (int64_t cell = 0; cell < cache.num_cells(); ++cell) {
      if (is_written(layer, cell)) write(cache, layer, cell);
    }
  }
  for (int64_t layer = 0; layer < GetParam().num_layers; ++layer) {
    for (int64_t cell = 0; cell < cache.num_cells(); ++cell) {
      expect_cell(cache, layer, cell, is_written(layer, cell));
    }
  }
}

TEST_P(KvCaches, KeepTheLastOfSeveralWrites) {
  KvCache cache(GetParam(), 40);
  const KvHeads heads = GetParam().heads_of(1);
  const std::vector<float> ones(static_cast<size_t>(heads.count * heads.dim), 1.0F);
  cache.write(1, 17, ones.data(), ones.data());
  write(cache, 1, 17);
  expect_cell(cache, 1, 17, true);
}

TEST_P(KvCaches, LayCellsOutInThePanelsThatKernelsRead) {
  KvCache cache(GetParam(), 70);
  for (int64_t cell = 0; cell < 70; ++cell) write(cache, 1, cell);
  const KvLayerView view = cache.layer(1);
  const KvHeads heads = GetParam().heads_of(1);
  EXPECT_EQ(view.dtype, GetParam().dtype);
  EXPECT_EQ(view.head_dim, heads.dim);
  const auto element = [&](const PanelView& panels, int64_t n, int64_t k) {
    const void* panel = panels.panel(n / kPanelWidth);
    const int64_t lane = n % kPanelWidth;
    return panels.dtype == DType::kBF16
               ? static_cast<float>(static_cast<const bf16*>(panel)[panel_offset<bf16>(lane, k)])
               : static_cast<const float*>(panel)[panel_offset<float>(lane, k)];
  };
  for (int64_t head = 0; head < heads.count; ++head) {
    for (int64_t cell = 0; cell < cache.num_cells(); ++cell) {
      const PanelView keys = view.key_panels(cell / kPageCells, head);
      const PanelView values = view.value_panels(cell / kPageCells, head);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(keys.data) % 64, 0U);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(values.data) % 64, 0U);
      const int64_t place = cell % kPageCells;
      if (cell >= 70) {
        ASSERT_EQ(element(values, 0, place), 0.0F) << "cells never written";
        continue;
      }
      for (int64_t d = 0; d < heads.dim; ++d) {
        ASSERT_EQ(element(keys, place, d), rounded(GetParam().dtype, content(1, cell, head, d, false)));
        ASSERT_EQ(element(values, d, place), rounded(GetParam().dtype, content(1, cell, head, d, true)));
      }
      for (int64_t d = heads.dim; d < padded_depth(GetParam().dtype, heads.dim); ++d) {
        ASSERT_EQ(element(keys, place, d), 0.0F) << "padding of keys";
      }
    }
  }
}

TEST_P(KvCaches, ShareTheWholePagesOfTheirFirstCellsAndCopyTheRest) {
  const auto count = std::make_shared<int64_t>(0);
  KvCache from(GetParam(), 170, count);
  KvCache to(GetParam(), 300, count);
  for (int64_t layer = 0; layer < GetParam().num_layers; ++layer) {
    for (int64_t cell = 0; cell < 170; ++cell) write(from, layer, cell);
    write(to, layer, 250);
  }
  const int64_t page = KvCache::page_bytes(GetParam());
  EXPECT_EQ(*count, (3 + 5) * page);
  to.share_first_cells(from, 141);
  EXPECT_EQ(*count, (3 + 5 - 2) * page);
  EXPECT_TRUE(to.shares_page_of(127));
  EXPECT_FALSE(to.shares_page_of(128));
  for (int64_t layer = 0; layer < GetParam().num_layers; ++layer) {
    for (int64_t cell = 0; cell < 300; ++cell) expect_cell(to, layer, cell, cell < 141 || cell == 250);
  }
  EXPECT_THROW(to.share_first_cells(from, from.num_cells() + 1), std::logic_error);
}

TEST_P(KvCaches, BeginWithCellsOfAnotherThatTheyOutlive) {
  const auto count = std::make_shared<int64_t>(0);
  std::optional<KvCache> from(std::in_place, GetParam(), 100, count);
  for (int64_t layer = 0; layer < GetParam().num_layers; ++layer) {
    for (int64_t cell = 0; cell < 100; ++cell) write(*from, layer, cell);
  }
  std::optional<KvCache> to(std::in_place, *from, 90, 140);
  const int64_t page = KvCache::page_bytes(GetParam());
  EXPECT_EQ(*count, (2 + 3 - 1) * page);
  from.reset();
  EXPECT_EQ(*count, 3 * page);
  EXPECT_FALSE(to->shares_page_of(0));
  for (int64_t layer = 0; layer < GetParam().num_layers; ++layer) {
    for (int64_t cell = 0; cell < 140; ++cell) expect_cell(*to, layer, cell, cell < 90);
  }
  to.reset();
  EXPECT_EQ(*count, 0);
}

TEST_P(KvCaches, TakeWritesOfDifferentCellsFromSeveralThreads) {
  KvCache cache(GetParam(), 96);
  ThreadPool threads(3);
  threads.parallel_for(96, [&](int64_t cell, int) { write(cache, 0, cell); });
  for (int64_t cell = 0; cell < 96; ++cell) expect_cell(cache, 0, cell, true);
}

std::string shape_name(const testing::TestParamInfo<KvShape>& info) {
  const std::string heads =
      info.param.heads_by_layer.empty() ? std::to_string(info.param.head_dim) : "by_layer";
  return std::string(name_of(info.param.dtype)) + "_" + heads;
}

/// Layers with different heads, none of which fill their panels.
KvShape mixed_shape(DType dtype, bool is_int8 = false) {
  KvShape shape{4, 1, 40, dtype, false, is_int8};
  shape.heads_by_layer = {{2, 12}, {3, 24}, {1, 40}, {2, 12}};
  return shape;
}

INSTANTIATE_TEST_SUITE_P(Shapes, KvCaches,
                         testing::Values(KvShape{2, 3, 24, DType::kF32}, KvShape{2, 3, 24, DType::kBF16},
                                         KvShape{3, 1, 128, DType::kBF16}, KvShape{2, 2, 8, DType::kF32},
                                         KvShape{2, 2, 40, DType::kBF16}, mixed_shape(DType::kF32),
                                         mixed_shape(DType::kBF16)),
                         shape_name);

TEST(KvCache, RoundsCellsUpToWholePages) {
  const KvShape shape{1, 1, 16, DType::kF32};
  EXPECT_EQ(KvCache(shape, 1).num_cells(), 64);
  EXPECT_EQ(KvCache(shape, 64).num_cells(), 64);
  EXPECT_EQ(KvCache(shape, 65).num_cells(), 128);
}

TEST(KvCache, KeepsASinkBehindItsCellsThatSharingLeavesAlone) {
  const KvShape shape{2, 2, 8, DType::kF32, true};
  KvCache from(shape, 64);
  EXPECT_EQ(from.sink_cell(), 64);
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (int64_t cell = 0; cell < 65; ++cell) write(from, layer, cell);
  }
  const KvCache to(from, 40, 50);
  EXPECT_EQ(to.sink_cell(), 50);
  std::vector<float> expected(16), found(16);
  for (int64_t head = 0; head < 2; ++head) {
    from.read(1, 64, head, expected.data(), expected.data() + 8);
    to.read(1, 50, head, found.data(), found.data() + 8);
    EXPECT_EQ(found, expected);
  }
  expect_cell(to, 1, 39, true);
  expect_cell(to, 1, 40, false);
}

TEST(KvCache, TellsItsSizeBeforehand) {
  // 2 layers x 3 heads x a page of 64 cells x (keys of 24 and values of 32 dimensions) x 4 bytes
  EXPECT_EQ(KvCache::bytes_for({2, 3, 24, DType::kF32}, 33), 2 * 3 * 64 * (24 + 32) * 4);
  // bf16 keys are padded to 32 dimensions
  EXPECT_EQ(KvCache::bytes_for({2, 3, 24, DType::kBF16}, 64), 2 * 3 * 64 * (32 + 32) * 2);
}

/// Whether a cell in codes holds what write() wrote, to half a step of its scale.
void expect_rounded_cell(const KvCache& cache, int64_t layer, int64_t cell) {
  const KvShape& shape = cache.shape();
  const KvHeads heads = shape.heads_of(layer);
  std::vector<float> key(static_cast<size_t>(heads.dim));
  std::vector<float> value(key.size());
  for (int64_t head = 0; head < heads.count; ++head) {
    cache.read(layer, cell, head, key.data(), value.data());
    for (const bool is_value : {false, true}) {
      float largest = 0;
      for (int64_t d = 0; d < heads.dim; ++d) {
        largest = std::max(largest, std::abs(content(layer, cell, head, d, is_value)));
      }
      for (int64_t d = 0; d < heads.dim; ++d) {
        const float found = (is_value ? value : key)[static_cast<size_t>(d)];
        ASSERT_NEAR(found, content(layer, cell, head, d, is_value), largest / 127 * 0.501)
            << "cell " << cell << ", head " << head << ", dimension " << d;
      }
    }
  }
}

TEST(KvCacheInCodes, KeepsCellsToHalfAStepOfTheirScale) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const KvShape shape{2, 3, 24, dtype, false, true};
    KvCache cache(shape, 70);
    for (const int64_t cell : {0, 17, 69}) write(cache, 1, cell);
    for (const int64_t cell : {0, 17, 69}) expect_rounded_cell(cache, 1, cell);
    expect_cell(cache, 1, 18, false);
    expect_cell(cache, 0, 17, false);
  }
}

TEST(KvCacheInCodes, KeepsCellsOfLayersWithDifferentHeads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    KvCache from(mixed_shape(dtype, true), 100);
    for (int64_t layer = 0; layer < 4; ++layer) {
      for (int64_t cell = 0; cell < 100; cell += 3) write(from, layer, cell);
    }
    KvCache to(mixed_shape(dtype, true), 130);
    to.share_first_cells(from, 80);  // a page, and cells that are copied
    for (int64_t layer = 0; layer < 4; ++layer) {
      for (int64_t cell = 0; cell < 80; ++cell) {
        if (cell % 3 == 0) {
          expect_rounded_cell(from, layer, cell);
          expect_rounded_cell(to, layer, cell);
        } else {
          expect_cell(to, layer, cell, false);
        }
      }
      expect_cell(to, layer, 81, false);
    }
  }
}

TEST(KvCacheInCodes, CopiesCellsWithTheirScales) {
  const KvShape shape{2, 3, 24, DType::kBF16, false, true};
  KvCache from(shape, 70);
  KvCache to(shape, 130);
  for (int64_t cell = 0; cell < 70; ++cell) write(from, 1, cell);
  to.share_first_cells(from, 32);
  for (int64_t head = 0; head < shape.num_kv_heads; ++head) to.copy_cell(1, head, from, 65, 100);
  std::vector<float> expected(48), found(48);
  for (const auto& [from_cell, to_cell] : {std::pair{0, 0}, {31, 31}, {65, 100}}) {
    for (int64_t head = 0; head < shape.num_kv_heads; ++head) {
      from.read(1, from_cell, head, expected.data(), expected.data() + 24);
      to.read(1, to_cell, head, found.data(), found.data() + 24);
      EXPECT_EQ(found, expected);
    }
  }
  expect_cell(to, 1, 32, false);
  expect_cell(to, 1, 101, false);
}

TEST(KvCacheInCodes, MakesAHeadNanThatHoldsAnythingNotFinite) {
  KvCache cache({1, 2, 4, DType::kF32, false, true}, 32);
  const std::vector<float> key = {1, 2, std::numeric_limits<float>::infinity(), 4, 1, 2, 3, 4};
  const std::vector<float> value = {1, 2, 3, 4, 1, std::numeric_limits<float>::quiet_NaN(), 3, 4};
  cache.write(0, 5, key.data(), value.data());
  std::vector<float> read(4), other(4);
  cache.read(0, 5, 0, read.data(), other.data());
  EXPECT_THAT(read, testing::Each(testing::IsNan()));
  EXPECT_NEAR(other[1], 2, 4.0 / 127);
  cache.read(0, 5, 1, read.data(), other.data());
  EXPECT_NEAR(read[3], 4, 1e-6);
  EXPECT_THAT(other, testing::Each(testing::IsNan()));
}

TEST(KvCacheInCodes, TakesLittleMoreThanAByteForEachElement) {
  // 2 layers x 3 heads x 64 cells x (a byte for each of 24 and 32 dimensions, and 2 scales)
  EXPECT_EQ(KvCache::bytes_for({2, 3, 24, DType::kF32, false, true}, 33), 2 * 3 * 64 * (24 + 32 + 2 * 4));
}

TEST(KvCache, WritesAValueBesideItsOldKey) {
  for (const bool is_int8 : {false, true}) {
    const KvShape shape{.num_layers = 1, .num_kv_heads = 2, .head_dim = 4, .is_int8 = is_int8};
    KvCache cache(shape, 3), other(shape, 3);
    const std::vector<float> key = {1, 2, 3, 4, 5, 6, 7, 8}, value(8, 1.0F), later = {8, 7, 6, 5, 4, 3, 2, 1};
    cache.write(0, 1, key.data(), value.data());
    cache.write(0, 1, nullptr, later.data());
    other.write(0, 1, key.data(), later.data());
    for (int64_t head = 0; head < 2; ++head) {
      std::vector<float> read(8), expected(8);
      cache.read(0, 1, head, read.data(), read.data() + 4);
      other.read(0, 1, head, expected.data(), expected.data() + 4);
      EXPECT_EQ(read, expected);
    }
  }
}

TEST(KvCache, CountsWhatLayersKeepAndHasAPlaceForEachCell) {
  const auto count = std::make_shared<int64_t>(0);
  const KvShape shape{.num_layers = 3, .num_kv_heads = 1, .head_dim = 4};
  {
    KvCache cache(shape, 20, count);
    const int64_t before = *count;
    cache.keep_layers({4, 9}, 6);
    EXPECT_EQ(*count - before, KvCache::kept_bytes(shape, {4, 9}, 6));
    EXPECT_EQ(cache.own_bytes(), 3 * 5 * 6 * 4);
    std::ranges::fill(cache.kept_layer(1, 4), 7.0F);
    EXPECT_EQ(cache.kept_layer(1, 4)[5], 7);
    EXPECT_EQ(cache.kept_layer(0, 8)[5], 0);
    EXPECT_EQ(cache.kept_layer(1, 5)[0], 0);
    EXPECT_THROW(cache.kept_layer(0, 9), std::logic_error);
  }
  EXPECT_EQ(*count, 0);
}

TEST(KvCache, RefusesCellsThatItDoesNotHaveAndF16) {
  KvCache cache({1, 1, 8, DType::kF32}, 64);
  const std::vector<float> zeros(8);
  EXPECT_THROW(cache.write(0, 64, zeros.data(), zeros.data()), std::logic_error);
  EXPECT_THROW(cache.write(0, -1, zeros.data(), zeros.data()), std::logic_error);
  EXPECT_THROW(KvCache({1, 1, 8, DType::kF16}, 32), std::logic_error);
}

TEST(KvCache, CopiesACellOfOneHead) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const KvShape shape{2, 3, 20, dtype};
    KvCache from(shape, 70);
    KvCache to(shape, 40);
    write(from, 1, 65);
    for (int64_t head = 0; head < 3; ++head) to.copy_cell(1, head, from, 65, 33);
    std::vector<float> expected(40), found(40);
    for (int64_t head = 0; head < 3; ++head) {
      from.read(1, 65, head, expected.data(), expected.data() + 20);
      to.read(1, 33, head, found.data(), found.data() + 20);
      EXPECT_EQ(found, expected);
    }
    expect_cell(to, 1, 32, false);
    expect_cell(to, 0, 33, false);
    EXPECT_THROW(to.copy_cell(1, 0, from, 0, to.num_cells()), std::logic_error);
  }
}

}  // namespace
}  // namespace lacuna::kv_cache_test
