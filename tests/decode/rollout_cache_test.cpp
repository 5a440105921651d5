#include "decode/rollout_cache.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

namespace lacuna::rollout_cache_test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr TokenId kMask = 2;

/// A canvas of three tokens and nine masks after a first pass, all of whose masks were predicted as certain
/// as 0.1, 0.2, ... 0.9. All positions have the same share of the rollout.
class Passes {
 public:
  explicit Passes(const D2Cache& policy, bool shifted = false, bool measures_entropy = false)
      : canvas({7, 8, 9}, 9, kMask, shifted), cache(policy, measures_entropy, canvas) {
    EXPECT_THAT(choose(), ElementsAreArray(canvas.masked_positions(0, 12)));
    EXPECT_EQ(cache.rows().size(), 12U);
    std::vector<Commit> predicted;
    for (int32_t i = 0; i < 9; ++i) predicted.push_back({3 + i, 9, 0.1 * (i + 1)});
    see(predicted);
  }

  std::vector<int32_t> choose(int32_t least = 0) {
    const std::vector<int32_t> masks = canvas.masked_positions(0, 12);
    return cache.choose(canvas, block, masks, canvas.masked_positions(0, block.end).size(), least);
  }
  void see(const std::vector<Commit>& predicted) {
    cache.see(predicted, shares);
    canvas.count_pass(cache.rows());
  }

  Canvas canvas;
  RolloutCache cache;
  Block block = {0, 3, 6, 0};
  std::vector<double> shares = std::vector<double>(12, 1.0);
};

TEST(RolloutCache, PredictsTheMostCertainMasksOfTheBlockFirst) {
  Passes passes({.current = 4, .rollout = 0, .sigma = 100});
  // The block has three masks, and one more is taken of the next block, not of the one behind it.
  EXPECT_THAT(passes.choose(), ElementsAre(3, 4, 5, 8));
  EXPECT_THAT(passes.cache.rows(), ElementsAre(0, 3, 4, 5, 8)) << "and one row by its share";
  EXPECT_THAT(passes.choose(9), ElementsAre(3, 4, 5, 6, 7, 8)) << "of masks that were looked among";
  Passes one({.current = 1, .rollout = 0, .sigma = 100});
  EXPECT_THAT(one.choose(), ElementsAre(5));
  EXPECT_THAT(one.choose(2), ElementsAre(4, 5)) << "as many as the step writes";
}

TEST(RolloutCache, PrefersMasksThatHaveTokensAroundThem) {
  Passes passes({.current = 1, .rollout = 0, .sigma = 0.7});
  passes.see({{3, 9, 0.5}, {4, 9, 0.6}, {5, 9, 0.6}});
  EXPECT_THAT(passes.choose(), ElementsAre(3));
  passes.canvas.commit({11, 9, 1});
  passes.block = {2, 9, 12, 0};
  passes.see({{9, 9, 0.6}, {10, 9, 0.6}});
  EXPECT_EQ(passes.choose().back(), 10) << "what follows the canvas is known where its last token is";
}

TEST(RolloutCache, KeepsTheLastConfidenceOfMasksThatItDidNotPredict) {
  Passes passes({.current = 1, .rollout = 0, .sigma = 100});
  EXPECT_THAT(passes.choose(), ElementsAre(5));
  passes.see({{5, 9, 0.05}});
  EXPECT_THAT(passes.choose(), ElementsAre(4));
  passes.see({{4, 9, 0.01}});
  EXPECT_THAT(passes.choose(), ElementsAre(3));
}

TEST(RolloutCache, ComputesWhatWasWrittenAndPredictsWhatThatAllows) {
  Passes plain({.current = 1, .rollout = 0, .sigma = 100});
  plain.canvas.commit({4, 9, 1});
  EXPECT_THAT(plain.choose(), ElementsAre(5));
  EXPECT_THAT(plain.cache.rows(), ElementsAre(0, 4, 5));
  Passes shifted({.current = 1, .rollout = 0, .sigma = 100}, true);
  shifted.canvas.commit({5, 9, 1});
  EXPECT_THAT(shifted.choose(), ElementsAre(4, 6))
      << "row 3 predicts position 4, and row 5, of a token, position 6";
  EXPECT_THAT(shifted.cache.rows(), ElementsAre(0, 3, 5));
}

TEST(RolloutCache, TakesOthersUpToTheirShareOfTheAttention) {
  Passes passes({.current = 3, .rollout = 0.5, .sigma = 100});
  passes.shares = {2, 8, 2, 50, 50, 50, 1, 1, 1, 2, 1, 2};  // 20 of the rows that are not computed yet
  passes.see({});
  EXPECT_THAT(passes.choose(), ElementsAre(3, 4, 5));
  EXPECT_THAT(passes.cache.rows(), ElementsAre(0, 1, 3, 4, 5))
      << "8 and 2 are half of 20; ties go to the lowest";
  passes.shares[1] = 18;
  passes.see({});
  passes.choose();
  EXPECT_THAT(passes.cache.rows(), ElementsAre(1, 3, 4, 5)) << "the first one in any case";
}

TEST(RolloutCache, FillsGapsAndRefreshes) {
  Passes passes({.current = 1, .rollout = 0, .sigma = 100, .inflate = 3, .refresh = 2});
  passes.canvas.commit({8, 9, 1});
  passes.choose();
  EXPECT_THAT(passes.cache.rows(), ElementsAre(0, 5, 6, 7, 8))
      << "0 and 5 are further than 3 from each other";
  passes.see({});
  passes.choose();
  EXPECT_EQ(passes.cache.rows().size(), 12U);
}

TEST(RolloutCache, RanksEntropiesByTheirExponential) {
  Passes passes({.current = 1, .rollout = 0, .sigma = 1}, false, true);
  passes.see({{3, 9, -1.0}, {4, 9, -1.1}, {5, 9, -1.2}});
  EXPECT_THAT(passes.choose(), ElementsAre(3)) << "a low density makes no negative number better";
}

}  // namespace
}  // namespace lacuna::rollout_cache_test
