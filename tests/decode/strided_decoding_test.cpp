// Expectations are written from docs/methods/strided_decoding.md.
#include "decode/strided_decoding.h"

#include <gmock/gmock.h>

#include <functional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::strided_decoding_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TokenId kMask = 20;
constexpr TokenId kEnd = 4;

StridedDecoding settings() {
  StridedDecoding options;
  options.mask_id = kMask;
  options.end_ids = {kEnd};
  options.gen_length = 10;
  options.num_drafts = 3;
  options.seed = 5;
  return options;
}

/// Tokens that rows sample for the position after their own: rows of tokens, and rows of masks.
struct Script {
  std::function<TokenId(int32_t position)> read, drafted;
};

struct Pass {
  std::string_view kind;
  StepPlan plan;
  std::vector<TokenId> committed;
};

std::vector<Pass> run(StridedDecoder& decoder, const Script& script) {
  std::vector<Pass> passes;
  while (!decoder.done() && passes.size() < 100) {
    const StepPlan plan = decoder.plan();
    EXPECT_EQ(plan.cells, plan.positions);
    EXPECT_THAT(plan.groups, SizeIs(1));
    EXPECT_EQ(plan.groups[0].own_rows, OwnRows::kCausal);
    std::vector<RowStatistics> samples;
    for (const LogitRow& logit : plan.logits) {
      const auto row = static_cast<size_t>(logit.row);
      const int32_t position = plan.positions[row] + 1;
      EXPECT_EQ(logit.noise, RngStream(5, position)) << "as an autoregressive run";
      RowStatistics statistics;
      statistics.token = (plan.tokens[row] == kMask ? script.drafted : script.read)(position);
      samples.push_back(statistics);
    }
    const StepReport report = decoder.apply({samples});
    passes.push_back({report.kind, plan, {}});
    for (const Commit& commit : report.committed) passes.back().committed.push_back(commit.token);
  }
  return passes;
}

TokenId count(int32_t position) {
  return 100 + position;
}

TEST(StridedDecoding, JudgesDraftsAndDraftsTheNextOnesInOnePass) {
  StridedDecoder decoder(settings(), {1, 2, 3});
  const std::vector<Pass> passes = run(decoder, {count, count});
  ASSERT_THAT(passes, SizeIs(4));
  EXPECT_EQ(passes[0].kind, "prefill");
  EXPECT_THAT(passes[0].plan.tokens, ElementsAre(1, 2, 3, kMask, kMask, kMask));
  EXPECT_THAT(passes[0].plan.logits, SizeIs(4)) << "the last row of the prompt, and the masks";
  EXPECT_EQ(passes[0].plan.logits[0].row, 2);
  EXPECT_THAT(passes[0].committed, ElementsAre(103));

  EXPECT_EQ(passes[1].kind, "verify");
  EXPECT_THAT(passes[1].plan.tokens, ElementsAre(103, 104, 105, 106, kMask, kMask, kMask));
  EXPECT_THAT(passes[1].plan.positions, ElementsAre(3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(passes[1].plan.groups[0].visible, ElementsAre(IndexRange{0, 3}));
  EXPECT_THAT(passes[1].committed, ElementsAre(104, 105, 106, 107));
  EXPECT_THAT(passes[2].plan.tokens, ElementsAre(107, 108, 109, 110, kMask)) << "no row behind the answer";
  EXPECT_THAT(passes[2].committed, ElementsAre(108, 109, 110, 111));
  EXPECT_THAT(passes[3].plan.tokens, ElementsAre(111));
  EXPECT_THAT(passes[3].committed, ElementsAre(112));
}

TEST(StridedDecoding, DropsDraftsFromTheFirstThatDoesNotStand) {
  StridedDecoder decoder(settings(), {1, 2, 3});
  const Script differs_at_5 = {count, [](int32_t position) { return position == 5 ? 99 : count(position); }};
  const std::vector<Pass> passes = run(decoder, differs_at_5);
  EXPECT_THAT(passes[1].plan.tokens, ElementsAre(103, 104, 99, 106, kMask, kMask, kMask));
  EXPECT_THAT(passes[1].committed, ElementsAre(104, 105));
  EXPECT_EQ(passes[2].kind, "decode");
  EXPECT_THAT(passes[2].plan.tokens, ElementsAre(105, kMask, kMask, kMask))
      << "their masks read a wrong text";
  EXPECT_THAT(passes[2].plan.groups[0].visible, ElementsAre(IndexRange{0, 5}));
  std::vector<TokenId> expected;
  for (int32_t position = 3; position < 13; ++position) expected.push_back(count(position));
  EXPECT_EQ(std::vector<TokenId>(decoder.canvas().begin() + 3, decoder.canvas().end()), expected);
}

TEST(StridedDecoding, EndsWithAnEndTokenOrAStop) {
  const auto ends_at_5 = [](int32_t position) { return position == 5 ? kEnd : count(position); };
  StridedDecoder decoder(settings(), {1, 2, 3});
  const std::vector<Pass> passes = run(decoder, {ends_at_5, ends_at_5});
  EXPECT_THAT(passes.back().committed, ElementsAre(104, kEnd)) << "what was accepted behind it is dropped";
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);

  StridedDecoding options = settings();
  options.ignore_end = true;
  options.find_stop = [](std::span<const TokenId> answer) -> std::optional<int32_t> {
    if (answer.size() < 6) return std::nullopt;
    return 6;
  };
  StridedDecoder stops(options, {1, 2, 3});
  run(stops, {ends_at_5, ends_at_5});
  EXPECT_EQ(stops.num_final(), 6);
  EXPECT_EQ(stops.stop_reason(), StopReason::kStopText);
}

TEST(StridedDecoding, ReadsALongPromptInSeveralPasses) {
  StridedDecoding options = settings();
  options.most_rows = 2;
  StridedDecoder decoder(options, {1, 2, 3, 5, 6});
  const std::vector<Pass> passes = run(decoder, {count, count});
  EXPECT_THAT(passes[0].plan.tokens, ElementsAre(1, 2));
  EXPECT_THAT(passes[0].plan.logits, IsEmpty());
  EXPECT_TRUE(passes[0].plan.groups[0].only_kv);
  EXPECT_THAT(passes[2].plan.tokens, ElementsAre(6, kMask, kMask, kMask));
}

TEST(StridedDecoding, TellsAConstraintWhichSamplesJudge) {
  StridedDecoder decoder(settings(), {1, 2, 3});
  decoder.plan();
  EXPECT_THAT(decoder.sampled_positions(), ElementsAre(3, -1, -1, -1));
  EXPECT_THAT(decoder.judged_drafts(), ElementsAre(-1, -1, -1, -1));
  std::vector<RowStatistics> samples(4);
  for (size_t i = 0; i < samples.size(); ++i) samples[i].token = 10 + static_cast<TokenId>(i);
  decoder.apply({samples});
  decoder.plan();
  EXPECT_THAT(decoder.sampled_positions(), ElementsAre(4, 5, 6, 7, -1, -1, -1));
  EXPECT_THAT(decoder.judged_drafts(), ElementsAre(11, 12, 13, -1, -1, -1, -1));
}

/// The passes of strided decoding at temperature 0 over a model that reads all its rows anew, written from
/// the page's rules in another way: the text is decoded first, one token at a time, and passes are counted
/// after it.
int count_passes(const std::function<TokenId(std::vector<TokenId>)>& next, const std::vector<TokenId>& prompt,
                 const std::vector<TokenId>& answer, size_t num_drafts) {
  int passes = 0;
  size_t written = 0;
  std::vector<TokenId> drafts;
  while (written < answer.size()) {
    ++passes;
    size_t accepted = 0;
    while (accepted < drafts.size() && written + accepted < answer.size() &&
           drafts[accepted] == answer[written + accepted])
      ++accepted;
    const bool all = accepted == drafts.size();
    written = std::min(answer.size(), written + accepted + 1);
    drafts.clear();
    if (!all) continue;
    std::vector<TokenId> text = prompt;
    text.insert(text.end(), answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(written) - 1);
    for (size_t i = 0; i < num_drafts; ++i) {
      text.push_back(kMask);
      drafts.push_back(next(text));
    }
  }
  return passes;
}

std::vector<TokenId> answer_of(const Decoder& decoder) {
  return {decoder.canvas().begin() + decoder.prompt_length(), decoder.canvas().end()};
}

TEST(StridedDecoding, WritesTheTextOfTheModelReadFromLeftToRight) {
  ModelConfig config = tiny_nemotron_causal_config();
  config.mask_id = kMask;
  int num_fewer = 0;
  for (const double temperature : {0.0, 0.8}) {
    for (const int32_t block_length : {2, 4, 9}) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        GenerationOptions options;
        options.gen_length = 40;
        options.temperature = temperature;
        options.seed = seed;
        options.ignore_eos = true;
        const std::vector<TokenId> prompt = random_tokens(seed, 7, 80);
        const auto decode = [&](const ModelConfig& read) {
          const auto decoder = make_decoder(read, options, prompt);
          Runner runner(tiny_model(read), default_table(), 1, decoder->num_cells());
          int passes = 0;
          for (; !decoder->done(); ++passes) {
            const std::vector<RowStatistics> drawn = runner.draws(decoder->plan());
            decoder->apply({drawn});
          }
          return std::pair(answer_of(*decoder), passes);
        };
        ModelConfig plain = config;
        plain.mask_id = -1;
        plain.mask_drafts = 0;
        options.block_length.reset();
        const auto [expected, expected_passes] = decode(plain);
        config.mask_drafts = 3;
        options.block_length = block_length;
        const auto [answer, passes] = decode(config);
        EXPECT_EQ(answer, expected) << temperature << ' ' << block_length << ' ' << seed;
        num_fewer += passes < expected_passes ? 1 : 0;
        if (temperature > 0) continue;
        const auto next = [&](const std::vector<TokenId>& text) {
          GenerationOptions one = options;
          one.gen_length = 1;
          one.block_length = 1;
          const auto decoder = make_decoder(config, one, text);
          Runner runner(tiny_model(config), default_table(), 1, decoder->num_cells());
          const std::vector<RowStatistics> drawn = runner.draws(decoder->plan());
          return drawn.at(0).token;
        };
        EXPECT_EQ(passes, count_passes(next, prompt, expected, static_cast<size_t>(block_length) - 1));
      }
    }
  }
  EXPECT_GT(num_fewer, 0) << "no draft was ever accepted";
}

TEST(StridedDecoding, IsChosenByTheModelAndByTheLengthOfABlock) {
  ModelConfig config = tiny_nemotron_causal_config();
  GenerationOptions options;
  options.gen_length = 8;
  options.block_length = 4;
  EXPECT_THROW(make_decoder(config, options, {1, 2}), InputError) << "a model without drafts";
  config.mask_drafts = 3;
  config.mask_id = kMask;
  EXPECT_THAT(make_decoder(config, options, {1, 2})->plan().tokens, ElementsAre(1, 2, kMask, kMask, kMask));
  options.block_length = 1;
  EXPECT_THAT(make_decoder(config, options, {1, 2})->plan().tokens, ElementsAre(1, 2));
  options.block_length.reset();
  EXPECT_THAT(make_decoder(config, options, {1, 2})->plan().tokens, SizeIs(5));
}

}  // namespace
}  // namespace lacuna::strided_decoding_test
