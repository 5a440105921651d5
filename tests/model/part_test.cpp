#include "model/part.h"

#include <gmock/gmock.h>

#include <vector>

namespace lacuna::part_test {
namespace {

using Ranges = std::vector<ModelPart::Range>;

template <typename Of>
Ranges of_all(int size, Of&& of) {
  Ranges ranges;
  for (int rank = 0; rank < size; ++rank) ranges.push_back(of(ModelPart{rank, size}));
  return ranges;
}

TEST(ModelPart, IsAllOfAModelThatOneRankHas) {
  const ModelPart whole;
  EXPECT_TRUE(whole.is_whole());
  EXPECT_EQ(whole.outputs(45), (ModelPart::Range{0, 45}));
  EXPECT_EQ(whole.kv_heads(3), (ModelPart::Range{0, 3}));
  EXPECT_EQ(whole.sent_heads(3), (ModelPart::Range{0, 3}));
}

TEST(ModelPart, CutsOutputsIntoWholePanelsTheLargerPartsFirst) {
  EXPECT_EQ(of_all(3, [](const ModelPart& part) { return part.outputs(100); }),
            (Ranges{{0, 48}, {48, 80}, {80, 100}}));
  EXPECT_EQ(of_all(4, [](const ModelPart& part) { return part.outputs(20); }),
            (Ranges{{0, 16}, {16, 20}, {20, 20}, {20, 20}}));
}

TEST(ModelPart, GivesOneHeadToSeveralRanksWhereThereAreFewerHeadsThanRanks) {
  EXPECT_EQ(of_all(3, [](const ModelPart& part) { return part.kv_heads(4); }),
            (Ranges{{0, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(of_all(5, [](const ModelPart& part) { return part.kv_heads(2); }),
            (Ranges{{0, 1}, {0, 1}, {0, 1}, {1, 2}, {1, 2}}));
  EXPECT_EQ(of_all(5, [](const ModelPart& part) { return part.sent_heads(2); }),
            (Ranges{{0, 1}, {1, 1}, {1, 1}, {1, 2}, {2, 2}}));
}

TEST(ModelPart, DividesWhatItCutsAndNothingElse) {
  const ModelPart rows{1, 3, ShardBy::kRows};
  EXPECT_EQ(rows.outputs(100), (ModelPart::Range{0, 100}));
  EXPECT_EQ(rows.kv_heads(4), (ModelPart::Range{0, 4}));
  EXPECT_EQ(rows.layers(7), (ModelPart::Range{0, 7}));
  EXPECT_TRUE(rows.embeds() && rows.samples());
  const ModelPart layers{1, 3, ShardBy::kLayers};
  EXPECT_EQ(layers.outputs(100), (ModelPart::Range{0, 100}));
  EXPECT_EQ(layers.kv_heads(4), (ModelPart::Range{0, 4}));
  EXPECT_EQ(layers.layers(7), (ModelPart::Range{3, 5}));
  EXPECT_FALSE(layers.embeds() || layers.samples());
}

TEST(ModelPart, SamplesOnTheFirstAndTheLastRankWhereLayersAreDivided) {
  const auto sampled = [](ShardBy by) {
    return of_all(4, [by](const ModelPart& part) { return ModelPart{part.rank, part.size, by}.sampled(9); });
  };
  EXPECT_EQ(sampled(ShardBy::kLayers), (Ranges{{0, 5}, {5, 5}, {5, 5}, {5, 9}}));
  EXPECT_EQ(sampled(ShardBy::kRows), (Ranges{{0, 3}, {3, 5}, {5, 7}, {7, 9}}));
}

}  // namespace
}  // namespace lacuna::part_test
