#include "engine/infill.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "model/tiny_models.h"

namespace lacuna::infill_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

using Parts = std::vector<CanvasPart>;

TEST(MarkedText, HasHolesOfFixedAndOfOpenLengths) {
  EXPECT_EQ(parse_marked_text("a [[2]] b [[1-3]]"), (Parts{"a ", Hole{2, 2}, " b ", Hole{1, 3}}));
  EXPECT_EQ(parse_marked_text("[[1]][[4096]]"), (Parts{Hole{1, 1}, Hole{4096, 4096}}));
  EXPECT_EQ(parse_marked_text("a [b] ]] c"), (Parts{"a [b] ]] c"}));
  EXPECT_EQ(parse_marked_text(""), Parts());
}

TEST(MarkedText, AStarIsAHoleOfAnyLength) {
  EXPECT_EQ(parse_marked_text("a[[*]]"), (Parts{"a", Hole{1, kOpenHoleMost, true}}));
}

TEST(InfillCanvases, AreAllLengthsOrOneWhereTheStrategyChangesThem) {
  const ModelConfig config = tiny_configs()[0];
  const Parts parts = {TokenId{3}, Hole{2, 4}, TokenId{4}, Hole{1, kOpenHoleMost, true}, Hole{1, 1}};
  MaskedStrategy strategy;
  EXPECT_THAT(infill_canvases(parts, strategy, config, nullptr), SizeIs(3 * kOpenHoleTried));
  strategy.growth = EndMassGrowth{};
  const std::vector<InfillCanvas> canvases = infill_canvases(parts, strategy, config, nullptr);
  ASSERT_THAT(canvases, SizeIs(1));
  EXPECT_THAT(canvases.front().prompt, ElementsAre(3));
  EXPECT_THAT(canvases.front().holes, ElementsAre(GrowingHole{{0, 2}, 4}, GrowingHole{{3, 7}, kOpenHoleMost},
                                                  GrowingHole{{7, 8}, 1}));
}

TEST(MarkedText, TakesBracketsThatAreEscapedAsText) {
  EXPECT_EQ(parse_marked_text(R"(a \[[2]] b)"), (Parts{"a [[2]] b"}));
  EXPECT_EQ(parse_marked_text(R"(\\[[2]])"), (Parts{"\\", Hole{2, 2}}));
  EXPECT_EQ(parse_marked_text(R"(\\\[[x)"), (Parts{"\\[[x"}));
  EXPECT_EQ(parse_marked_text(R"(a\b \n)"), (Parts{R"(a\b \n)"}));
}

TEST(MarkedText, RefusesWhatIsNoHole) {
  for (const char* text : {"[[", "[[]]", "[[0]]", "[[x]]", "[[3-1]]", "[[4097]]", "[[-1]]", "[[1-]]",
                           "[[ 1 ]]", "[[1]", "[[99999999999999999999]]", "a[[1-2-3]]"}) {
    EXPECT_THAT([&] { parse_marked_text(text); }, ThrowsMessage<InputError>(HasSubstr("is not a hole")))
        << text;
  }
}

TEST(HoleLengths, AreAllCombinations) {
  EXPECT_THAT(hole_lengths({Hole{1, 2}, "x", Hole{3, 4}}),
              ElementsAre(ElementsAre(1, 3), ElementsAre(1, 4), ElementsAre(2, 3), ElementsAre(2, 4)));
  EXPECT_THAT(hole_lengths({Hole{1, 64}}), SizeIs(64));
  EXPECT_THAT([] { hole_lengths({Hole{1, 65}}); }, ThrowsMessage<InputError>(HasSubstr("more than 64")));
  EXPECT_THAT(
      [] {
        hole_lengths({Hole{1, 4096}, Hole{1, 4096}, Hole{1, 4096}});
      },
      ThrowsMessage<InputError>(HasSubstr("more than 64")));
}

TEST(InfillLayout, IsCutAtTheFirstHole) {
  const ModelConfig config = tiny_configs()[0];
  ASSERT_GE(config.mask_id, 0);
  const InfillCanvas canvas = lay_out({TokenId{3}, Hole{1, 2}, TokenId{4}}, {2}, config, nullptr);
  EXPECT_THAT(canvas.prompt, ElementsAre(3));
  EXPECT_THAT(canvas.answer, ElementsAre(config.mask_id, config.mask_id, 4));
  EXPECT_EQ(canvas.num_masked, 2);
  EXPECT_THAT([&] { lay_out({TokenId{config.mask_id}}, {}, config, nullptr); },
              ThrowsMessage<InputError>(HasSubstr("mask token")));
  EXPECT_THAT([&] { lay_out({"text"}, {}, config, nullptr); },
              ThrowsMessage<InputError>(HasSubstr("no tokenizer")));
}

}  // namespace
}  // namespace lacuna::infill_test
