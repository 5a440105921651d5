// Expectations are written from docs/methods/window_decoding.md.
#include "decode/window_decoding.h"

#include <gmock/gmock.h>

#include <functional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::window_decoding_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TokenId kMask = 20;
constexpr TokenId kEnd = 4;

WindowDecoding settings() {
  WindowDecoding options;
  options.mask_id = kMask;
  options.end_ids = {kEnd};
  options.gen_length = 10;
  options.max_positions = 100;
  options.num_masks = 3;
  options.seed = 5;
  return options;
}

/// The sample of the row of a window that predicts a position.
using Script = std::function<RowStatistics(int32_t position)>;

struct Pass {
  std::string_view kind;
  StepPlan plan;
  std::vector<TokenId> committed;
};

std::vector<Pass> run(WindowDecoder& decoder, const Script& script) {
  std::vector<Pass> passes;
  while (!decoder.done() && passes.size() < 100) {
    const StepPlan plan = decoder.plan();
    EXPECT_EQ(plan.cells, plan.positions);
    std::vector<RowStatistics> samples;
    for (const LogitRow& logit : plan.logits) {
      const int32_t position = plan.positions[static_cast<size_t>(logit.row)] + 1;
      EXPECT_EQ(logit.noise, RngStream(5, position)) << "as an autoregressive run";
      samples.push_back(script(position));
    }
    const StepReport report = decoder.apply({samples});
    passes.push_back({report.kind, plan, {}});
    for (const Commit& commit : report.committed) passes.back().committed.push_back(commit.token);
  }
  return passes;
}

/// Token 100 + position, with a confidence.
RowStatistics sure(int32_t position, double confidence = 0.95) {
  return {100 + position, confidence};
}

TEST(WindowDecoding, ReadsTheTextCausallyAndPredictsAWindowOfItsLastTokenAndMasks) {
  WindowDecoder decoder(settings(), {1, 2, 3});
  const std::vector<Pass> passes = run(decoder, [](int32_t position) { return sure(position); });
  ASSERT_THAT(passes, SizeIs(3));
  EXPECT_EQ(passes[0].kind, "prefill");
  EXPECT_THAT(passes[0].plan.tokens, ElementsAre(1, 2, 3, kMask, kMask, kMask));
  EXPECT_THAT(passes[0].plan.positions, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(passes[0].plan.logits, SizeIs(4));
  ASSERT_THAT(passes[0].plan.groups, SizeIs(2));
  const RowGroup &text = passes[0].plan.groups[0], &window = passes[0].plan.groups[1];
  EXPECT_EQ(text.own_rows, OwnRows::kCausal);
  EXPECT_TRUE(text.only_kv);
  EXPECT_THAT(text.visible, IsEmpty());
  EXPECT_EQ(window.own_rows, OwnRows::kBidirectional);
  EXPECT_EQ(window.rows, (IndexRange{2, 6}));
  EXPECT_THAT(window.visible, ElementsAre(IndexRange{0, 2})) << "not the last token's row of the text";
  EXPECT_THAT(passes[0].committed, ElementsAre(103, 104, 105, 106));

  EXPECT_EQ(passes[1].kind, "decode");
  EXPECT_THAT(passes[1].plan.tokens, ElementsAre(3, 103, 104, 105, 106, kMask, kMask, kMask))
      << "what a window held is read anew";
  EXPECT_THAT(passes[1].plan.groups[0].visible, ElementsAre(IndexRange{0, 2}));
  EXPECT_THAT(passes[1].plan.groups[1].visible, ElementsAre(IndexRange{0, 6}));
  EXPECT_THAT(passes[2].plan.logits, SizeIs(4)) << "a window is whole behind the answer's end, too";
  EXPECT_THAT(passes[2].committed, ElementsAre(111, 112));
}

TEST(WindowDecoding, WritesTheConfidentBeginningAndAtLeastOneToken) {
  const auto written = [](std::vector<double> confidences) {
    WindowDecoder decoder(settings(), {1, 2, 3});
    const StepPlan plan = decoder.plan();
    std::vector<RowStatistics> samples;
    for (const double confidence : confidences) samples.push_back({7, confidence});
    return decoder.apply({samples}).committed.size();
  };
  EXPECT_EQ(written({0.95, 0.91, 0.5, 0.99}), 2U);
  EXPECT_EQ(written({0.95, 0.9, 0.99, 0.99}), 1U) << "strictly above";
  EXPECT_EQ(written({0.1, 0.99, 0.99, 0.99}), 1U);
  EXPECT_EQ(written({0.95, 0.95, 0.95, 0.95}), 4U);
}

TEST(WindowDecoding, EndsWithAnEndTokenOrAStop) {
  const Script ends_at_5 = [](int32_t position) {
    return position == 5 ? RowStatistics{kEnd, 0.95} : sure(position);
  };
  WindowDecoder decoder(settings(), {1, 2, 3});
  EXPECT_THAT(run(decoder, ends_at_5).back().committed, ElementsAre(103, 104, kEnd));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
  WindowDecoding options = settings();
  options.ignore_end = true;
  options.find_stop = [](std::span<const TokenId> answer) -> std::optional<int32_t> {
    if (answer.size() < 6) return std::nullopt;
    return 6;
  };
  WindowDecoder stops(options, {1, 2, 3});
  run(stops, ends_at_5);
  EXPECT_EQ(stops.num_final(), 6);
  EXPECT_EQ(stops.stop_reason(), StopReason::kStopText);
}

TEST(WindowDecoding, ReadsALongPromptInSeveralPassesAndEndsWithTheModelsPositions) {
  WindowDecoding options = settings();
  options.most_rows = 2;
  options.gen_length = 2;
  options.max_positions = 8;
  WindowDecoder decoder(options, {1, 2, 3, 5, 6, 7});
  EXPECT_EQ(decoder.num_cells(), 8);
  const std::vector<Pass> passes = run(decoder, [](int32_t position) { return sure(position, 0.1); });
  ASSERT_THAT(passes, SizeIs(4));
  EXPECT_THAT(passes[0].plan.tokens, ElementsAre(1, 2));
  EXPECT_THAT(passes[0].plan.logits, IsEmpty());
  EXPECT_THAT(passes[2].plan.tokens, ElementsAre(6, 7, kMask, kMask)) << "positions 4 to 7";
  EXPECT_THAT(passes[3].plan.tokens, ElementsAre(7, 106, kMask));
}

/// The engine's text is the same whether its windows are computed with kept K/V or anew.
TEST(WindowDecoding, KeepsTheKeysAndValuesOfTheTextAlone) {
  ModelConfig config = tiny_nemotron_causal_config();
  config.mask_drafts = 4;
  config.drafts_see_each_other = true;
  config.mask_id = 20;
  int num_ahead = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    GenerationOptions options;
    options.gen_length = 24;
    options.ignore_eos = true;
    options.token_threshold = 0.02;
    options.seed = seed;
    const std::vector<TokenId> prompt = random_tokens(seed, 7, 80);
    const auto decoder = make_decoder(config, options, prompt);
    Runner runner(tiny_model(config), default_table(), 1, decoder->num_cells());
    while (!decoder->done()) {
      const auto text = decoder->canvas();
      const std::vector<TokenId> so_far(text.begin(), text.end());
      const std::vector<RowStatistics> drawn = runner.draws(decoder->plan());
      const auto anew = make_decoder(config, options, so_far);
      Runner other(tiny_model(config), default_table(), 1, anew->num_cells());
      const std::vector<RowStatistics> expected = other.draws(anew->plan());
      ASSERT_EQ(drawn.size(), expected.size());
      for (size_t i = 0; i < drawn.size(); ++i) EXPECT_EQ(drawn[i].token, expected[i].token);
      num_ahead += decoder->apply({drawn}).committed.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(num_ahead, 0) << "every pass wrote one token";
}

TEST(WindowDecoding, IsChosenByTheModelAndByTheLengthOfABlock) {
  ModelConfig config = tiny_nemotron_causal_config();
  GenerationOptions options;
  options.gen_length = 8;
  options.token_threshold = 0.5;
  EXPECT_THROW(make_decoder(config, options, {1, 2}), InputError) << "a model without windows";
  config.mask_drafts = 3;
  config.mask_id = kMask;
  EXPECT_THROW(make_decoder(config, options, {1, 2}), InputError) << "I-DLM";
  config.drafts_see_each_other = true;
  EXPECT_THAT(make_decoder(config, options, {1, 2})->plan().groups, SizeIs(2));
  options.block_length = 1;
  EXPECT_THAT(make_decoder(config, options, {1, 2})->plan().tokens, ElementsAre(1, 2));
  options.token_threshold = 1.5;
  EXPECT_THROW(make_decoder(config, options, {1, 2}), InputError);
}

}  // namespace
}  // namespace lacuna::window_decoding_test
