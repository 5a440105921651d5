// Expectations are written from docs/methods/seeded_diffusion.md; sections below are that page's.
#include "decode/seeded_diffusion.h"

#include <gmock/gmock.h>

#include <functional>
#include <vector>

#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::seeded_diffusion_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TokenId kMask = 20;
constexpr TokenId kEnd = 4;

SeededDiffusion settings() {
  SeededDiffusion options;
  options.mask_id = kMask;
  options.end_ids = {kEnd};
  options.gen_length = 8;
  options.max_positions = 64;
  options.block_length = 4;
  options.steps = 4;
  options.seed = 5;
  return options;
}

/// Samples of a position's row: `causal` for the position after it, otherwise for its own.
struct Script {
  std::function<TokenId(int32_t position)> causal, drafted;
};

struct Pass {
  std::string_view kind;
  StepPlan plan;
  std::vector<std::pair<int32_t, TokenId>> committed;
};

std::vector<Pass> run(SeededDiffusionDecoder& decoder, const Script& script) {
  std::vector<Pass> passes;
  while (!decoder.done() && passes.size() < 100) {
    const StepPlan plan = decoder.plan();
    EXPECT_EQ(plan.cells, plan.positions);
    EXPECT_THAT(plan.groups, SizeIs(1));
    const bool is_causal = plan.groups[0].own_rows == OwnRows::kCausal;
    std::vector<RowStatistics> samples;
    for (const LogitRow& logit : plan.logits) {
      const int32_t position = plan.positions[static_cast<size_t>(logit.row)];
      RowStatistics row;
      row.token = is_causal ? script.causal(position + 1) : script.drafted(position);
      row.confidence = 1.0 / (1 + position);  // the first masks are the most confident
      samples.push_back(row);
    }
    const StepReport report = decoder.apply({samples});
    passes.push_back({report.kind, plan, {}});
    for (const Commit& commit : report.committed)
      passes.back().committed.emplace_back(commit.position, commit.token);
  }
  return passes;
}

std::vector<std::string_view> kinds(const std::vector<Pass>& passes) {
  std::vector<std::string_view> result;
  for (const Pass& pass : passes) result.push_back(pass.kind);
  return result;
}

std::vector<TokenId> answer(const Decoder& decoder) {
  return {decoder.canvas().begin() + decoder.prompt_length(), decoder.canvas().end()};
}

const Script kCounting = {[](int32_t position) { return 100 + position; },
                          [](int32_t position) { return 200 + position; }};

// ---- 2. Blocks

TEST(SeededDiffusion, ReadsThePromptThenDenoisesABlockBehindItsSeedAndReadsIt) {
  SeededDiffusionDecoder decoder(settings(), {1, 2, 3});
  const std::vector<Pass> passes = run(decoder, kCounting);
  EXPECT_THAT(kinds(passes), ElementsAre("prefill", "denoise", "denoise", "denoise", "commit", "denoise",
                                         "denoise", "denoise"));
  EXPECT_THAT(answer(decoder), ElementsAre(103, 204, 205, 206, 107, 208, 209, 210));
  EXPECT_THAT(passes[0].plan.logits, SizeIs(1));
  EXPECT_EQ(passes[0].plan.logits[0].noise, RngStream(5, 3)) << "as an autoregressive run";

  const StepPlan& denoise = passes[1].plan;
  EXPECT_THAT(denoise.tokens, ElementsAre(103, kMask, kMask, kMask));
  EXPECT_THAT(denoise.positions, ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(denoise.groups[0].own_rows, OwnRows::kBidirectional);
  EXPECT_THAT(denoise.groups[0].visible, ElementsAre(IndexRange{0, 3}));
  EXPECT_THAT(denoise.logits, SizeIs(3)) << "the seed is known";
  EXPECT_EQ(denoise.logits[0].noise, RngStream(5, kTokenNoise, 0, 0, 4));
  EXPECT_THAT(passes[2].committed, ElementsAre(std::pair(5, TokenId{205})));

  const StepPlan& commit = passes[4].plan;
  EXPECT_THAT(commit.tokens, ElementsAre(103, 204, 205, 206));
  EXPECT_EQ(commit.groups[0].own_rows, OwnRows::kCausal);
  ASSERT_THAT(commit.logits, SizeIs(1));
  EXPECT_EQ(commit.logits[0].row, 3);
  EXPECT_THAT(passes[4].committed, ElementsAre(std::pair(7, TokenId{107})));
}

TEST(SeededDiffusion, EndsWhereAnEndTokenHasNoMaskBeforeIt) {
  SeededDiffusionDecoder decoder(settings(), {1, 2, 3});
  const Script ends = {kCounting.causal,
                       [](int32_t position) { return position == 5 ? kEnd : 200 + position; }};
  EXPECT_THAT(kinds(run(decoder, ends)), ElementsAre("prefill", "denoise", "denoise"))
      << "the last mask is left";
  EXPECT_THAT(answer(decoder), ElementsAre(103, 204, kEnd));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);

  SeededDiffusionDecoder at_once(settings(), {1, 2, 3});
  run(at_once, {[](int32_t) { return kEnd; }, kCounting.drafted});
  EXPECT_THAT(answer(at_once), ElementsAre(kEnd)) << "the seed itself";
}

TEST(SeededDiffusion, ABlockMayReachBeyondTheAnswerButNotBeyondTheModel) {
  SeededDiffusion options = settings();
  options.gen_length = 6;
  SeededDiffusionDecoder wide(options, {1, 2, 3});
  const std::vector<Pass> passes = run(wide, kCounting);
  EXPECT_THAT(passes.back().plan.positions, ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(answer(wide), ElementsAre(103, 204, 205, 206, 107, 208));
  options.max_positions = 10;
  SeededDiffusionDecoder narrow(options, {1, 2, 3});
  EXPECT_THAT(run(narrow, kCounting).back().plan.positions, ElementsAre(7, 8, 9));
  EXPECT_EQ(narrow.num_cells(), 10);
}

// ---- 3. Self-speculation

TEST(SeededDiffusion, KeepsWhatTheCausalReadSamplesToo) {
  SeededDiffusion options = settings();
  options.verifies = true;
  options.steps = 1;
  SeededDiffusionDecoder decoder(options, {1, 2, 3});
  const Script agrees_up_to_5 = {kCounting.causal,
                                 [](int32_t position) { return (position <= 5 ? 100 : 200) + position; }};
  const std::vector<Pass> passes = run(decoder, agrees_up_to_5);
  EXPECT_THAT(answer(decoder), ElementsAre(103, 104, 105, 106, 107, 108, 109, 110)) << "the causal text";
  ASSERT_GE(passes.size(), 4U);
  EXPECT_EQ(passes[1].kind, "draft");
  EXPECT_THAT(passes[1].committed, IsEmpty());
  EXPECT_EQ(passes[1].plan.logits[0].noise, RngStream(5, 4)) << "its judge's";
  EXPECT_EQ(passes[2].kind, "verify");
  EXPECT_THAT(passes[2].plan.tokens, ElementsAre(103, 104, 105, 206));
  EXPECT_THAT(passes[2].plan.logits, SizeIs(4));
  EXPECT_THAT(passes[2].committed, ElementsAre(std::pair(4, TokenId{104}), std::pair(5, TokenId{105}),
                                               std::pair(6, TokenId{106})));
  EXPECT_THAT(passes[3].plan.tokens, ElementsAre(106, kMask, kMask, kMask)) << "the next block begins there";
  EXPECT_THAT(passes[3].plan.groups[0].visible, ElementsAre(IndexRange{0, 6}));
}

TEST(SeededDiffusion, CutsBlocksAndAnswersWhereTheyEnd) {
  SeededDiffusion options = settings();
  options.verifies = true;
  options.steps = 1;
  options.gen_length = 6;
  SeededDiffusionDecoder decoder(options, {1, 2, 3});
  const Script agrees = {kCounting.causal, kCounting.causal};
  const std::vector<Pass> passes = run(decoder, agrees);
  EXPECT_THAT(kinds(passes), ElementsAre("prefill", "draft", "verify", "draft", "verify"));
  EXPECT_THAT(passes[3].plan.positions, ElementsAre(7, 8)) << "two tokens are left to write";
  EXPECT_THAT(answer(decoder), ElementsAre(103, 104, 105, 106, 107, 108));

  SeededDiffusionDecoder ends(settings(), {1, 2, 3});
  options.gen_length = 8;
  SeededDiffusionDecoder ended(options, {1, 2, 3});
  const auto causal = [](int32_t position) { return position == 5 ? kEnd : 100 + position; };
  const std::vector<Pass> cut = run(ended, {causal, causal});
  EXPECT_THAT(answer(ended), ElementsAre(103, 104, kEnd));
  EXPECT_THAT(cut.back().committed, ElementsAre(std::pair(4, TokenId{104}), std::pair(5, kEnd)));
}

std::vector<TokenId> decode(const ModelConfig& config, const GenerationOptions& options,
                            const std::vector<TokenId>& prompt) {
  const auto decoder = make_decoder(config, options, prompt);
  Runner runner(tiny_model(config), default_table(), 1, decoder->num_cells());
  while (!decoder->done()) {
    const std::vector<RowStatistics> drawn = runner.draws(decoder->plan());
    decoder->apply({drawn});
  }
  return answer(*decoder);
}

TEST(SeededDiffusion, SpeculatesExactlyTheTextOfTheCausalMode) {
  for (const double temperature : {0.0, 0.8}) {
    for (const int32_t block_length : {2, 8, 32}) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        GenerationOptions options;
        options.gen_length = 40;
        options.temperature = temperature;
        options.seed = seed;
        options.ignore_eos = true;
        const std::vector<TokenId> prompt = random_tokens(seed, 7, 80);
        const std::vector<TokenId> causal = decode(tiny_nemotron_causal_config(), options, prompt);
        options.accept = "exact";
        options.block_length = block_length;
        EXPECT_EQ(decode(tiny_nemotron_config(), options, prompt), causal)
            << temperature << " " << block_length;
        options.steps = 2;
        EXPECT_EQ(decode(tiny_nemotron_config(), options, prompt), causal);
      }
    }
  }
}

}  // namespace
}  // namespace lacuna::seeded_diffusion_test
