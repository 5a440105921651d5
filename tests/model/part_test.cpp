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

}  // namespace
}  // namespace lacuna::part_test
