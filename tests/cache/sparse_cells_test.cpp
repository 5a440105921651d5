#include "cache/sparse_cells.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace lacuna::sparse_cells_test {
namespace {

using testing::ElementsAre;

constexpr KvShape kShape{2, 2, 6, DType::kF32};

/// Keys and values that tell layer, cell, head and dimension.
KvCache filled(int64_t num_cells) {
  KvCache cache(kShape, num_cells);
  for (int64_t layer = 0; layer < kShape.num_layers; ++layer) {
    for (int64_t cell = 0; cell < num_cells; ++cell) {
      std::vector<float> key, value;
      for (int64_t i = 0; i < 12; ++i) {
        key.push_back(static_cast<float>(RngStream(3, layer, cell).uniform(static_cast<uint64_t>(i)) - 0.5));
        value.push_back(-key.back());
      }
      cache.write(layer, cell, key.data(), value.data());
    }
  }
  return cache;
}

std::vector<float> key_at(const KvCache& cache, int64_t layer, int64_t cell, int64_t head) {
  std::vector<float> key(6), value(6);
  cache.read(layer, cell, head, key.data(), value.data());
  return key;
}

/// The first key element of a place of a view in f32.
float first_of_key(const KvLayerView& view, int64_t head, int64_t place) {
  const auto* panels = static_cast<const float*>(
      view.key_panels(place / kPageCells, head).panel(place % kPageCells / kPanelWidth));
  return panels[place % kPanelWidth];
}

TEST(ChosenCells, LieSideBySideInTheOrderGiven) {
  const KvCache cache = filled(50);
  ChosenCells chosen(kShape);
  chosen.reserve(5, cache);
  chosen.choose(1, 0, std::vector<int32_t>{3, 17, 40}, cache);
  chosen.place(1, 0, 49, 3, cache);
  EXPECT_THAT(chosen.cells(1, 0), ElementsAre(3, 17, 40));
  EXPECT_TRUE(chosen.cells(1, 1).empty());
  EXPECT_EQ(first_of_key(chosen.layer(1), 0, 1), key_at(cache, 1, 17, 0)[0]);
  EXPECT_EQ(first_of_key(chosen.layer(1), 0, 3), key_at(cache, 1, 49, 0)[0]);
}

TEST(ChosenCells, StayChosenWhenTheirRoomGrows) {
  const KvCache cache = filled(200);
  ChosenCells chosen(kShape);
  chosen.reserve(2, cache);
  chosen.choose(0, 1, std::vector<int32_t>{7, 150}, cache);
  chosen.reserve(100, cache);
  EXPECT_THAT(chosen.cells(0, 1), ElementsAre(7, 150));
  EXPECT_EQ(first_of_key(chosen.layer(0), 1, 1), key_at(cache, 0, 150, 1)[0]);
}

TEST(KeptAttention, StaysWhereItIsWhenItsRoomGrows) {
  KeptAttention kept;
  kept.reserve(2, 3, 5);
  kept.parts[5] = 7;
  kept.inputs[9] = 8;
  kept.tokens[1] = 4;
  kept.reserve(4, 3, 5);
  kept.reserve(1, 3, 5);
  EXPECT_EQ(kept.parts.size(), 12U);
  EXPECT_EQ(kept.parts[5], 7);
  EXPECT_EQ(kept.inputs[9], 8);
  EXPECT_THAT(kept.tokens, ElementsAre(-1, 4, -1, -1)) << "the other rows keep nothing yet";
}

TEST(PageBounds, AreTheExtremesOfEachChannelHoweverTheCellsArrive) {
  const KvCache cache = filled(23);
  PageBounds bounds(kShape, 8);
  for (const int32_t cells : {3, 8, 9, 23, 23}) bounds.extend(1, 1, cells, cache);
  ASSERT_EQ(bounds.largest(1, 1).size(), 3 * 6U);
  for (int32_t page = 0; page < 3; ++page) {
    for (size_t c = 0; c < 6; ++c) {
      float largest = -1;
      float smallest = 1;
      for (int32_t cell = 8 * page; cell < std::min(23, 8 * page + 8); ++cell) {
        largest = std::max(largest, key_at(cache, 1, cell, 1)[c]);
        smallest = std::min(smallest, key_at(cache, 1, cell, 1)[c]);
      }
      EXPECT_EQ(bounds.largest(1, 1)[static_cast<size_t>(page) * 6 + c], largest);
      EXPECT_EQ(bounds.smallest(1, 1)[static_cast<size_t>(page) * 6 + c], smallest);
    }
  }
  EXPECT_TRUE(bounds.largest(0, 0).empty());
}

TEST(KvCache, KeepsWhatSparseAttentionChose) {
  KvCache cache = filled(10);
  cache.sparse().chosen.reserve(1, cache);
  cache.sparse().chosen.choose(0, 0, std::vector<int32_t>{9}, cache);
  KvCache moved = std::move(cache);
  EXPECT_THAT(moved.sparse().chosen.cells(0, 0), ElementsAre(9));
  EXPECT_EQ(moved.sparse().pages_of(8).page_size(), 8);
}

}  // namespace
}  // namespace lacuna::sparse_cells_test
