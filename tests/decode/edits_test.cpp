#include "decode/edits.h"

#include <gmock/gmock.h>

namespace lacuna::edits_test {
namespace {

using testing::ElementsAre;

TEST(ApplyEdits, DropsFirstAndInsertsInPositionsAfterTheStep) {
  std::vector<int> list = {0, 1, 2, 3, 4};
  apply_edits({{1, 3}, {{1, 2}, {4, 1}}}, 9, list);
  EXPECT_THAT(list, ElementsAre(0, 9, 9, 2, 9, 4));
}

TEST(ApplyEdits, CountFromTheListsFirstPositionAndIgnoreTheRest) {
  std::vector<int> list = {0, 1, 2};
  apply_edits({{2, 11, 99}, {{3, 2}, {12, 1}, {90, 1}}}, 9, list, 10);
  EXPECT_THAT(list, ElementsAre(0, 2, 9));
}

}  // namespace
}  // namespace lacuna::edits_test
