// Expectations are written from docs/methods/block_diffusion.md, section 12.
#include "decode/drafted_diffusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "block_settings.h"
#include "fake_model.h"

namespace lacuna::drafted_diffusion_test {
namespace {

using block_tests::kEnd;
using block_tests::kMask;
using block_tests::settings;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<TokenId> prompt_of(int32_t length) {
  std::vector<TokenId> prompt(static_cast<size_t>(length));
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(5 + i % 11);
  return prompt;
}

struct Outcome {
  std::vector<TokenId> canvas;
  std::vector<std::vector<Commit>> rounds;  // what verify passes wrote
  int32_t accepted = 0;                     // only of decode_plainly()

  bool operator==(const Outcome& other) const { return canvas == other.canvas && rounds == other.rounds; }
};

Outcome decode(const FakeModel& model, const FakeModel& guide, const BlockDiffusion& options,
               const std::vector<TokenId>& prompt) {
  DraftedDiffusionDecoder decoder(options, prompt);
  FakeCells main_cells(model, decoder.num_cells()), guide_cells(guide, decoder.num_guide_cells());
  Outcome run;
  for (int passes = 0; !decoder.done(); ++passes) {
    if (passes > 10'000) throw std::runtime_error("the decoder does not end");
    const StepPlan plan = decoder.plan();
    EXPECT_EQ(plan, decoder.plan());
    const bool is_main = decoder.role() == ModelRole::kMain;
    const StepReport report = decoder.apply({(is_main ? main_cells : guide_cells).forward(plan)});
    EXPECT_EQ(report.kind == "draft", !is_main);
    if (report.kind == "verify") {
      run.rounds.push_back(report.committed);
    } else {
      EXPECT_THAT(report.committed, IsEmpty());
    }
  }
  run.canvas.assign(decoder.canvas().begin(), decoder.canvas().end());
  EXPECT_EQ(decoder.num_final(), std::ssize(run.canvas) - std::ssize(prompt));
  return run;
}

struct Draft {
  Commit commit;
  int32_t step = 0;
};

/// The guide's drafts of the masks from `known` to `end`, without any K/V of earlier rounds.
std::vector<Draft> draft_plainly(const FakeModel& guide, BlockDiffusion options,
                                 std::span<const TokenId> canvas, int32_t end) {
  options.gen_length = end - static_cast<int32_t>(canvas.size());
  options.end_ids.clear();
  BlockDiffusionDecoder decoder(options, {canvas.begin(), canvas.end()});
  std::vector<Draft> drafts;
  int32_t step = 0;
  FakeCells(guide, decoder.num_cells()).run(decoder, [&](const StepPlan&, const StepReport& report) {
    for (const Commit& commit : report.committed) drafts.push_back({commit, step});
    step += report.kind == "denoise" ? 1 : 0;
  });
  std::ranges::sort(drafts, {}, [](const Draft& draft) { return draft.commit.position; });
  return drafts;
}

/// A verify pass over everything, each row of the block's drafts and masks in a group of its own. Returns the
/// samples of the masks, in the order of the drafts.
std::vector<RowStatistics> verify_plainly(const FakeModel& model, const BlockDiffusion& options,
                                          std::span<const TokenId> canvas, const std::vector<Draft>& drafts) {
  const auto known = static_cast<int32_t>(canvas.size()), count = static_cast<int32_t>(drafts.size());
  const int32_t block = known / options.block_length, begin = block * options.block_length;
  StepPlan plan;
  plan.rules.push_back(options.sampling);
  for (int32_t at = 0; at < begin; at += options.block_length)
    plan.add_group(canvas, at, at + options.block_length);
  if (known > begin) plan.add_group(canvas, begin, known);
  const auto draft_cell = [&](int32_t i) { return known + i; };
  const auto mask_cell = [&](int32_t i) { return known + count + i; };
  for (const bool is_mask : {false, true}) {
    for (int32_t i = 0; i < count; ++i) {
      const Draft& row = drafts[static_cast<size_t>(i)];
      RowGroup group{0, {plan.num_rows(), plan.num_rows() + 1}, {}, OwnRows::kNone};
      if (known > 0) group.visible.push_back({0, known});
      for (int32_t j = 0; j < count; ++j) {
        const int32_t other = drafts[static_cast<size_t>(j)].step;
        const bool sees_draft = is_mask ? other < row.step : other <= row.step;
        const int32_t cell = sees_draft ? draft_cell(j) : mask_cell(j);
        group.visible.push_back({cell, cell + 1});
      }
      if (is_mask) {
        const RngStream noise(options.seed, kTokenNoise, block, row.step, row.commit.position);
        plan.logits.push_back({.row = plan.num_rows(), .noise = noise});
      }
      plan.add_row(is_mask ? kMask : row.commit.token, row.commit.position,
                   is_mask ? mask_cell(i) : draft_cell(i));
      plan.groups.push_back(std::move(group));
    }
  }
  return FakeCells(model, known + 2 * count).forward(plan);
}

/// The page's three steps, without K/V of earlier passes.
Outcome decode_plainly(const FakeModel& model, const FakeModel& guide, const BlockDiffusion& options,
                       const std::vector<TokenId>& prompt) {
  const auto length = static_cast<int32_t>(prompt.size()) + options.gen_length;
  Outcome run{prompt, {}, 0};
  std::vector<TokenId>& canvas = run.canvas;
  while (std::ssize(canvas) < length) {
    const auto known = static_cast<int32_t>(canvas.size());
    const int32_t end = (known / options.block_length + 1) * options.block_length;
    const std::vector<Draft> drafts = draft_plainly(guide, options, canvas, end);
    const std::vector<RowStatistics> judged = verify_plainly(model, options, canvas, drafts);
    std::vector<Commit>& written = run.rounds.emplace_back();
    for (size_t i = 0; i < drafts.size() && std::ssize(canvas) < length; ++i) {
      const bool is_accepted = judged[i].token == drafts[i].commit.token;
      run.accepted += is_accepted ? 1 : 0;
      written.push_back({drafts[i].commit.position, judged[i].token, judged[i].confidence});
      canvas.push_back(judged[i].token);
      if (judged[i].token == kEnd) return run;
      if (!is_accepted) break;
    }
  }
  return run;
}

TEST(DraftedDiffusion, IsThePagesRuleWithoutKv) {
  int32_t accepted = 0, refused = 0, ended = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RngStream choose(seed, 71);
    const int32_t block_length = 1 << choose.below(1, 4);
    BlockDiffusion options =
        settings(1 + static_cast<int32_t>(choose.below(0, 20)), block_length, block_length);
    constexpr UnmaskOrder kOrders[] = {UnmaskOrder::kConfidence, UnmaskOrder::kRandom,
                                       UnmaskOrder::kLeftToRight};
    options.unmask.order = kOrders[choose.below(2, 3)];
    if (choose.below(3, 3) == 0) options.unmask.count = Dynamic{0.3};
    options.steps = 1 + static_cast<int32_t>(choose.below(4, static_cast<uint32_t>(options.block_length)));
    if (choose.below(5, 2) == 0) options.sampling.temperature = 0.7F;
    options.seed = choose.bits(6);
    const FakeModel model{choose.bits(7), 23, 8, {0, 0, 0, 0, choose.below(8, 4) == 0 ? 2.0 : -9.0}};
    // Half of the guides are as good as the model where a row sees nothing but itself.
    const FakeModel guide = choose.below(9, 2) == 0 ? model : FakeModel{choose.bits(10)};
    const std::vector<TokenId> prompt = prompt_of(static_cast<int32_t>(choose.below(11, 20)));
    const Outcome wanted = decode_plainly(model, guide, options, prompt);
    ASSERT_EQ(decode(model, guide, options, prompt), wanted) << seed;
    accepted += wanted.accepted;
    ended += wanted.canvas.back() == kEnd ? 1 : 0;
    for (const std::vector<Commit>& round : wanted.rounds) refused += static_cast<int32_t>(round.size());
  }
  refused -= accepted;
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
  EXPECT_GT(ended, 20);
}

/// Runs the guide's passes of a round; its rows give these tokens and confidences, by positions.
void draft(DraftedDiffusionDecoder& decoder, const std::vector<std::pair<TokenId, double>>& script) {
  while (decoder.role() == ModelRole::kGuide) {
    const StepPlan& plan = decoder.plan();
    std::vector<RowStatistics> samples;
    for (const LogitRow& logit : plan.logits) {
      const int32_t position = plan.positions[static_cast<size_t>(logit.row)];
      samples.emplace_back();
      std::tie(samples.back().token, samples.back().confidence) = script[static_cast<size_t>(position)];
    }
    decoder.apply({samples});
  }
}

StepReport judge(DraftedDiffusionDecoder& decoder, const std::vector<TokenId>& script) {
  const StepPlan& plan = decoder.plan();
  std::vector<RowStatistics> samples;
  for (const LogitRow& logit : plan.logits) {
    samples.emplace_back();
    samples.back().token = script[static_cast<size_t>(plan.positions[static_cast<size_t>(logit.row)])];
  }
  return decoder.apply({samples});
}

std::vector<TokenId> tokens_of(const StepReport& report) {
  std::vector<TokenId> tokens;
  for (const Commit& commit : report.committed) tokens.push_back(commit.token);
  return tokens;
}

TEST(DraftedDiffusion, WritesUpToTheFirstTokenThatIsNotTheDraft) {
  BlockDiffusion options = settings(7, 4, 4);
  DraftedDiffusionDecoder decoder(options, {7});
  const std::vector<std::pair<TokenId, double>> drafts = {{0, 0},    {11, 0.1}, {12, 0.9}, {13, 0.5},
                                                          {14, 0.1}, {15, 0.2}, {16, 0.3}, {17, 0.4}};
  draft(decoder, drafts);
  // Position 2 is written first, then 3, then 1: the draft of the last step has no row.
  EXPECT_THAT(decoder.plan().positions, ElementsAre(0, 2, 2, 3, 3, 1));
  EXPECT_THAT(decoder.plan().tokens, ElementsAre(7, kMask, 12, kMask, 13, kMask));
  StepReport report = judge(decoder, {0, 11, 9, 13});
  EXPECT_EQ(report.kind, "verify");
  EXPECT_THAT(tokens_of(report), ElementsAre(11, 9));
  EXPECT_EQ(decoder.num_final(), 2);
  EXPECT_EQ(decoder.role(), ModelRole::kGuide);
  EXPECT_THAT(decoder.plan().tokens, ElementsAre(7, 11, 9, kMask)) << "a new draft of what is left";
  draft(decoder, drafts);
  EXPECT_THAT(decoder.plan().positions, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(tokens_of(judge(decoder, {0, 0, 0, 13})), ElementsAre(13));
  EXPECT_THAT(decoder.plan().positions, SizeIs(8)) << "the guide reads the finished block, too";
  draft(decoder, drafts);
  EXPECT_EQ(decoder.plan().groups.front(), (RowGroup{0, {0, 4}, {}, OwnRows::kBidirectional, true}));
  EXPECT_THAT(tokens_of(judge(decoder, {0, 0, 0, 0, 14, 15, 16, 17})), ElementsAre(14, 15, 16, 17));
  EXPECT_TRUE(decoder.done());
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

TEST(DraftedDiffusion, EndsWithTheFirstEndTokenThatIsWritten) {
  const std::vector<std::pair<TokenId, double>> drafts = {{kEnd, 0.9}, {11, 0.5}, {kEnd, 0.4}, {13, 0.3}};
  DraftedDiffusionDecoder decoder(settings(8, 4, 4), {});
  draft(decoder, drafts);
  EXPECT_THAT(tokens_of(judge(decoder, {9, 11, kEnd, 13})), ElementsAre(9)) << "a drafted end was refused";
  EXPECT_FALSE(decoder.done());
  draft(decoder, drafts);
  EXPECT_THAT(tokens_of(judge(decoder, {0, 11, kEnd, 13})), ElementsAre(11, kEnd));
  EXPECT_TRUE(decoder.done());
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
  EXPECT_THAT(decoder.canvas(), ElementsAre(9, 11, kEnd));
}

TEST(DraftedDiffusion, ReadsALongPromptInSeveralPasses) {
  DraftedDiffusionDecoder decoder(settings(4, 4, 4), prompt_of(1032));
  std::vector<std::string> kinds;
  std::vector<int32_t> rows, kept;
  while (!decoder.done()) {
    kept.push_back(decoder.exact_prefix().kept);
    rows.push_back(decoder.plan().num_rows());
    std::vector<RowStatistics> samples(decoder.plan().logits.size());
    for (RowStatistics& row : samples) row.token = 9;
    kinds.emplace_back(decoder.apply({samples}).kind);
  }
  EXPECT_THAT(kinds, ElementsAre("draft", "draft", "draft", "draft", "draft", "prefill", "verify"));
  EXPECT_THAT(rows, ElementsAre(1024, 12, 4, 4, 4, 1024, 15));
  EXPECT_THAT(kept, ElementsAre(0, 0, 0, 0, 0, 0, 1024));
}

TEST(DraftedDiffusion, SharesWholeBlocksOfThePrompt) {
  DraftedDiffusionDecoder decoder(settings(4, 4, 4), prompt_of(14));
  EXPECT_EQ(decoder.exact_prefix().block_length, 4);
  EXPECT_EQ(decoder.exact_prefix().wanted, 12);
  EXPECT_EQ(decoder.exact_prefix().promised, 12);
  decoder.skip_prefix(8);
  EXPECT_EQ(decoder.exact_prefix().kept, 8);
  EXPECT_EQ(decoder.plan().num_rows(), 16) << "the guide shares nothing";
  draft(decoder, std::vector<std::pair<TokenId, double>>(16, {9, 0.5}));
  EXPECT_EQ(decoder.plan().positions.front(), 8);
}

TEST(DraftedDiffusion, WithoutACacheAPassComputesEveryBlockAndTheDrafts) {
  DraftedDiffusionDecoder decoder(settings(4, 4, 4), prompt_of(8));
  draft(decoder, std::vector<std::pair<TokenId, double>>(12, {9, 0.5}));
  const PassWork work = decoder.uncached_work();
  EXPECT_EQ(work.rows, 12 + 4);
  EXPECT_EQ(work.pairs, 4 * (4 + 8 + 12) + 4 * 12);
  EXPECT_EQ(work.cells, 4 + 8 + 12 + 12);
  EXPECT_EQ(work.logit_rows, 4);
}

}  // namespace
}  // namespace lacuna::drafted_diffusion_test
