#include <gmock/gmock.h>

#include <vector>

#include "decode/strided_decoding.h"
#include "model/tiny_models.h"

namespace lacuna::autoregressive_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

StridedDecoding settings(int32_t gen_length) {
  StridedDecoding options;
  options.num_drafts = 0;
  options.end_ids = {3, 5};
  options.gen_length = gen_length;
  return options;
}

StepReport give(StridedDecoder& decoder, TokenId token) {
  const std::vector<RowStatistics> drawn = {{token, 0.5}};
  decoder.plan();
  return decoder.apply({drawn});
}

TEST(Autoregressive, ReadsThePromptOnceAndThenOneTokenAtATime) {
  StridedDecoder decoder(settings(3), {7, 8, 9});
  EXPECT_EQ(decoder.num_cells(), 6);
  EXPECT_EQ(decoder.num_sequences(), 1);
  EXPECT_THAT(decoder.plan().tokens, ElementsAre(7, 8, 9));
  EXPECT_THAT(decoder.plan().positions, ElementsAre(0, 1, 2));
  EXPECT_THAT(decoder.plan().cells, ElementsAre(0, 1, 2));
  EXPECT_THAT(decoder.plan().groups, ElementsAre(RowGroup{0, {0, 3}, {}, OwnRows::kCausal}));
  ASSERT_EQ(decoder.plan().logits.size(), 1U);
  EXPECT_EQ(decoder.plan().logits[0].row, 2);

  const StepReport first = give(decoder, 20);
  EXPECT_EQ(first.step, 0);
  EXPECT_EQ(first.kind, "prefill");
  EXPECT_THAT(first.committed, ElementsAre(Commit{3, 20, 0.5}));
  EXPECT_THAT(decoder.plan().tokens, ElementsAre(20));
  EXPECT_THAT(decoder.plan().positions, ElementsAre(3));
  EXPECT_THAT(decoder.plan().cells, ElementsAre(3));
  EXPECT_THAT(decoder.plan().groups, ElementsAre(RowGroup{0, {0, 1}, {{0, 3}}, OwnRows::kCausal}));
  EXPECT_EQ(decoder.plan().logits[0].row, 0);

  const StepReport second = give(decoder, 21);
  EXPECT_EQ(second.step, 1);
  EXPECT_EQ(second.kind, "decode");
  EXPECT_FALSE(decoder.done());
  give(decoder, 22);
  EXPECT_TRUE(decoder.done());
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
  EXPECT_THAT(decoder.canvas(), ElementsAre(7, 8, 9, 20, 21, 22));
  EXPECT_EQ(decoder.prompt_length(), 3);
  EXPECT_THROW(give(decoder, 23), std::logic_error);
}

TEST(Autoregressive, StopsAtAnEndToken) {
  StridedDecoder decoder(settings(8), {3});  // one in the prompt ends nothing
  EXPECT_FALSE(decoder.done());
  give(decoder, 20);
  give(decoder, 5);
  EXPECT_TRUE(decoder.done());
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
  EXPECT_THAT(decoder.canvas(), ElementsAre(3, 20, 5));
}

TEST(Autoregressive, GoesOnAfterAnEndTokenIfAsked) {
  StridedDecoding options = settings(3);
  options.ignore_end = true;
  StridedDecoder decoder(options, {7});
  give(decoder, 3);
  give(decoder, 5);
  EXPECT_FALSE(decoder.done());
  give(decoder, 20);
  EXPECT_TRUE(decoder.done());
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

TEST(Autoregressive, EveryTokenHasItsOwnNoise) {
  StridedDecoding options = settings(4);
  options.seed = 9;
  StridedDecoder decoder(options, {7});
  const RngStream first = decoder.plan().logits[0].noise;
  give(decoder, 20);
  EXPECT_NE(decoder.plan().logits[0].noise, first);
  options.seed = 10;
  EXPECT_NE(StridedDecoder(options, {7}).plan().logits[0].noise, first);
}

TEST(Autoregressive, BaselineRecomputesEverythingSoFar) {
  StridedDecoder decoder(settings(4), {7, 8, 9});
  EXPECT_EQ(decoder.uncached_work().pairs, work_of(decoder.plan()).pairs);
  give(decoder, 20);
  const StepPlan whole = [] {
    StepPlan plan = canvas_plan({7, 8, 9, 20}, OwnRows::kCausal);
    plan.logits.resize(1);
    return plan;
  }();
  EXPECT_EQ(decoder.uncached_work().rows, 4);
  EXPECT_EQ(decoder.uncached_work().pairs, work_of(whole).pairs);
  EXPECT_EQ(work_of(decoder.plan()).rows, 1);
}

TEST(Autoregressive, ReadsALongPromptInParts) {
  StridedDecoding options = settings(2);
  options.most_rows = 2;
  StridedDecoder decoder(options, {7, 8, 9, 10, 11});
  EXPECT_THAT(decoder.plan().tokens, ElementsAre(7, 8));
  EXPECT_THAT(decoder.plan().logits, IsEmpty());
  EXPECT_TRUE(decoder.plan().groups[0].only_kv);
  EXPECT_EQ(decoder.uncached_work().rows, 0);
  EXPECT_EQ(decoder.apply({}).kind, "prefill");
  EXPECT_EQ(decoder.num_final(), 0);
  EXPECT_THAT(decoder.plan().tokens, ElementsAre(9, 10));
  EXPECT_THAT(decoder.plan().groups, ElementsAre(RowGroup{0, {0, 2}, {{0, 2}}, OwnRows::kCausal, true}));
  EXPECT_THROW(give(decoder, 20), std::logic_error);
  StridedDecoder other(options, {7, 8, 9});
  other.plan();
  other.apply({});
  EXPECT_THAT(other.plan().tokens, ElementsAre(9));
  EXPECT_EQ(other.plan().logits[0].row, 0);
  EXPECT_EQ(other.uncached_work().rows, 3);
  EXPECT_THAT(give(other, 20).committed, ElementsAre(Commit{3, 20, 0.5}));
  EXPECT_EQ(other.num_final(), 1);
}

}  // namespace
}  // namespace lacuna::autoregressive_test
