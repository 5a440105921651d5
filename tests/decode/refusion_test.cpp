#include "decode/refusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/dispatch.h"

namespace lacuna::refusion_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

constexpr TokenId kMask = 99;
constexpr TokenId kEnd = 98;
constexpr double kSure = 0.95;
constexpr double kUnsure = 0.5;
constexpr int32_t kPrompt = 2;

/// Judgement of a draft by the row before it, and that row's own choice (-1: the draft itself).
struct Judgement {
  double probability = kSure;
  TokenId token = -1;
  double own_probability = kUnsure;
};

/// A mask row of position p says p + 10, surely, and the row before p agrees with any draft, surely, unless
/// told otherwise: then the n-th time it is asked it gives the n-th answer, and the last from then on.
class Script {
 public:
  Script& draft(int32_t position, std::vector<std::pair<TokenId, double>> answers) {
    drafts_[position] = std::move(answers);
    return *this;
  }
  Script& draft(int32_t position, double probability) {
    return draft(position, {{position + 10, probability}});
  }
  Script& judge(int32_t position, std::vector<Judgement> answers) {
    judgements_[position] = std::move(answers);
    return *this;
  }

  RowStatistics answer(const StepPlan& plan, const LogitRow& logit) {
    const auto row = static_cast<size_t>(logit.row);
    const int32_t position = plan.positions[row];
    RowStatistics result;
    if (plan.tokens[row] == kMask) {
      EXPECT_EQ(logit.scored, -1);
      const auto [token, probability] = next(drafts_, position, {position + 10, kSure});
      result.token = token;
      result.confidence = probability;
    } else {
      const Judgement judgement = next(judgements_, position + 1, Judgement());
      result.token = judgement.token < 0 ? logit.scored : judgement.token;
      result.confidence = judgement.token < 0 ? judgement.probability : judgement.own_probability;
      result.scored_probability = judgement.probability;
    }
    return result;
  }

 private:
  template <typename T>
  static T next(std::map<int32_t, std::vector<T>>& answers, int32_t position, T otherwise) {
    const auto found = answers.find(position);
    if (found == answers.end()) return otherwise;
    T answer = found->second.front();
    if (found->second.size() > 1) found->second.erase(found->second.begin());
    return answer;
  }

  std::map<int32_t, std::vector<std::pair<TokenId, double>>> drafts_;
  std::map<int32_t, std::vector<Judgement>> judgements_;
};

struct Pass {
  StepPlan plan;
  StepReport report;
  std::vector<LogitRow> further;
};

std::vector<Pass> run(Decoder& decoder, Script script) {
  std::vector<Pass> passes;
  while (!decoder.done()) {
    if (passes.size() > 200) throw std::runtime_error("the decoder does not end");
    Pass& pass = passes.emplace_back();
    pass.plan = decoder.plan();
    std::vector<RowStatistics> drawn;
    for (const LogitRow& logit : pass.plan.logits) drawn.push_back(script.answer(pass.plan, logit));
    pass.report = decoder.apply({drawn});
    const FollowUp wanted = decoder.follow_up();
    pass.further.assign(wanted.logits.begin(), wanted.logits.end());
    drawn.clear();
    for (const LogitRow& logit : pass.further) drawn.push_back(script.answer(pass.plan, logit));
    decoder.apply_follow_up({drawn}, pass.report);
    EXPECT_TRUE(decoder.follow_up().empty()) << "it is asked again";
  }
  return passes;
}

Refusion options(RefusionRules rules, int32_t gen_length, int32_t block_length, int32_t slot_size) {
  Refusion options;
  options.rules = rules;
  options.mask_id = kMask;
  options.end_ids = {kEnd};
  options.gen_length = gen_length;
  options.block_length = block_length;
  options.slot_size = slot_size;
  options.verifies_fills = false;
  return options;
}

RefusionDecoder make(const Refusion& options) {
  return {options, {1, 2}};
}

std::vector<std::string> kinds(const std::vector<Pass>& passes) {
  std::vector<std::string> result;
  for (const Pass& pass : passes) result.emplace_back(pass.report.kind);
  return result;
}

/// Where the slots begin that a plan selected.
std::vector<int32_t> selected(const Pass& plan) {
  std::vector<int32_t> result;
  for (const SlotReport& slot : plan.report.slots) {
    if (slot.selected) result.push_back(slot.position);
  }
  return result;
}

std::vector<int32_t> committed(const Pass& pass) {
  std::vector<int32_t> result;
  for (const Commit& commit : pass.report.committed) result.push_back(commit.position);
  return result;
}

std::vector<int32_t> accepted(const Pass& pass) {
  std::vector<int32_t> result;
  for (const SlotReport& slot : pass.report.slots) result.push_back(slot.accepted);
  return result;
}

/// Token, position and cell of each row.
using Row = std::array<int32_t, 3>;
std::vector<Row> rows(const Pass& pass) {
  std::vector<Row> result;
  for (size_t i = 0; i < pass.plan.tokens.size(); ++i) {
    result.push_back({pass.plan.tokens[i], pass.plan.positions[i], pass.plan.cells[i]});
  }
  return result;
}

/// The positions that a pass's first samples are for.
std::vector<int32_t> judged(const Pass& pass) {
  std::vector<int32_t> result;
  for (const LogitRow& logit : pass.plan.logits) {
    const auto row = static_cast<size_t>(logit.row);
    result.push_back(pass.plan.positions[row] + (pass.plan.tokens[row] == kMask ? 0 : 1));
  }
  return result;
}

std::vector<TokenId> answer(const Decoder& decoder) {
  return {decoder.canvas().begin() + decoder.prompt_length(), decoder.canvas().end()};
}

constexpr RefusionRules kAllRules[] = {RefusionRules::kPaper, RefusionRules::kReleased,
                                       RefusionRules::kLacuna};
constexpr RefusionRules kPublishedRules[] = {RefusionRules::kPaper, RefusionRules::kReleased};

// ---- Planning

TEST(Refusion, PlansTheWholeBlockAfterThePromptAndVerifiesInItsCells) {
  for (const RefusionRules rules : kAllRules) {
    RefusionDecoder decoder = make(options(rules, 4, 4, 2));
    const std::vector<Pass> passes = run(decoder, {});
    ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify"));
    EXPECT_THAT(rows(passes[0]), ElementsAre(Row{1, 0, 0}, Row{2, 1, 1}, Row{kMask, 2, 2}, Row{kMask, 3, 3},
                                             Row{kMask, 4, 4}, Row{kMask, 5, 5}));
    const std::vector<RowGroup> groups = {{0, {0, 2}, {}, OwnRows::kCausal},
                                          {0, {2, 6}, {{0, 2}}, OwnRows::kCausal}};
    EXPECT_EQ(passes[0].plan.groups, groups);
    EXPECT_THAT(rows(passes[1]), ElementsAre(Row{12, 2, 2}, Row{13, 3, 3}, Row{14, 4, 4}, Row{15, 5, 5}));
    EXPECT_THAT(judged(passes[1]), ElementsAre(3, 5));
    EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14, 15));
    EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
  }
}

TEST(Refusion, SelectsASlotOnlyAboveTheThreshold) {
  for (const RefusionRules rules : kAllRules) {
    Refusion wanted = options(rules, 6, 6, 2);
    wanted.slot_threshold = 0.75;
    RefusionDecoder decoder = make(wanted);
    const auto passes = run(decoder, Script().draft(2, 0.75).draft(4, 0.76).draft(6, 0.74));
    EXPECT_THAT(selected(passes[0]), ElementsAre(4));
  }
}

TEST(Refusion, ADraftStandsOnlyAboveTheThreshold) {
  for (const RefusionRules rules : kAllRules) {
    Refusion wanted = options(rules, 2, 2, 2);
    wanted.token_threshold = 0.75;
    for (const double probability : {0.75, 0.7500001}) {
      RefusionDecoder decoder = make(wanted);
      const auto passes = run(decoder, Script().judge(3, {{probability}}));
      EXPECT_THAT(accepted(passes[1]), ElementsAre(probability > 0.75 ? 2 : 1));
    }
  }
}

TEST(Refusion, FallsBackToTheLikeliestSlotAndOfEqualOnesToTheLeftmost) {
  for (const RefusionRules rules : kAllRules) {
    RefusionDecoder likeliest = make(options(rules, 8, 8, 2));
    EXPECT_THAT(selected(run(likeliest, Script().draft(2, 0.3).draft(4, 0.2).draft(6, 0.5).draft(8, 0.4))[0]),
                ElementsAre(6));
    RefusionDecoder leftmost = make(options(rules, 8, 8, 2));
    EXPECT_THAT(selected(run(leftmost, Script().draft(2, 0.3).draft(4, 0.5).draft(6, 0.5).draft(8, 0.5))[0]),
                ElementsAre(4));
  }
}

TEST(Refusion, TheLastSlotOfABlockAndTheLastBlockMayBeShorter) {
  for (const RefusionRules rules : kAllRules) {
    RefusionDecoder decoder = make(options(rules, 8, 5, 2));
    const auto passes = run(decoder, {});
    ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "plan", "verify"));
    EXPECT_THAT(selected(passes[0]), ElementsAre(2, 4, 6));
    EXPECT_THAT(judged(passes[1]), ElementsAre(3, 5));
    EXPECT_THAT(committed(passes[1]), ElementsAre(2, 3, 4, 5, 6));
    EXPECT_EQ(passes[2].report.block, 1);
    EXPECT_THAT(selected(passes[2]), ElementsAre(7, 9));
    EXPECT_THAT(committed(passes[3]), ElementsAre(7, 8, 9));
    EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14, 15, 16, 17, 18, 19));
  }
}

TEST(Refusion, LacunaAsksForTheRestOfTheSelectedSlotsOnly) {
  RefusionDecoder decoder = make(options(RefusionRules::kLacuna, 8, 8, 3));
  const auto passes = run(decoder, Script().draft(2, kUnsure));
  EXPECT_THAT(judged(passes[0]), ElementsAre(2, 5, 8));
  std::vector<int32_t> asked;
  for (const LogitRow& logit : passes[0].further) {
    asked.push_back(passes[0].plan.positions[static_cast<size_t>(logit.row)]);
    EXPECT_EQ(logit.noise, RngStream(0, asked.back()));
  }
  EXPECT_THAT(asked, ElementsAre(6, 7, 9));
  EXPECT_THAT(passes[1].further, IsEmpty());
  for (const RefusionRules rules : kPublishedRules) {
    RefusionDecoder published = make(options(rules, 8, 8, 3));
    const auto whole = run(published, Script().draft(2, kUnsure));
    EXPECT_THAT(judged(whole[0]), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT_THAT(whole[0].further, IsEmpty());
  }
}

TEST(Refusion, LacunaSelectsNothingBehindADraftedEnd) {
  RefusionDecoder decoder = make(options(RefusionRules::kLacuna, 9, 9, 3));
  const auto passes = run(decoder, Script().draft(6, {{kEnd, kUnsure}}));
  EXPECT_THAT(selected(passes[0]), ElementsAre(2, 5));
  EXPECT_THAT(rows(passes[1]),
              ElementsAre(Row{12, 2, 2}, Row{13, 3, 3}, Row{14, 4, 4}, Row{15, 5, 5}, Row{kEnd, 6, 6}));
  EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14, 15, kEnd));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
  EXPECT_EQ(passes.size(), 2U);
}

// ---- The published rules

TEST(Refusion, ThePublishedRulesCommitLeadingWholeSlotsAndPlanAgain) {
  for (const RefusionRules rules : kPublishedRules) {
    RefusionDecoder decoder = make(options(rules, 8, 8, 2));
    const auto passes = run(decoder, Script().judge(7, {{0.1}, {kSure}}));
    ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "plan", "verify"));
    EXPECT_THAT(accepted(passes[1]), ElementsAre(2, 2, 1, 2));
    EXPECT_THAT(committed(passes[1]), ElementsAre(2, 3, 4, 5));
    EXPECT_EQ(passes[2].report.iteration, 1);
    // Cells after the complete slots were dropped; the K/V of these slots stay.
    EXPECT_THAT(rows(passes[2]),
                ElementsAre(Row{kMask, 6, 6}, Row{kMask, 7, 7}, Row{kMask, 8, 8}, Row{kMask, 9, 9}));
    EXPECT_THAT(committed(passes[3]), ElementsAre(6, 7, 8, 9));
  }
}

TEST(Refusion, ARunShorterThanASlotIsCompleted) {
  for (const RefusionRules rules : kPublishedRules) {
    RefusionDecoder decoder = make(options(rules, 6, 6, 3));
    const auto passes = run(decoder, Script().judge(4, {{0.1}, {0.1}, {kSure}}));
    EXPECT_THAT(committed(passes[1]), IsEmpty());
    EXPECT_THAT(passes.back().report.kind, "check");
    EXPECT_THAT(committed(passes.back()), ElementsAre(2, 3, 4, 5, 6, 7));
    EXPECT_EQ(passes.back().report.iteration, 0);
  }
  RefusionDecoder shortest = make(options(RefusionRules::kReleased, 6, 6, 3));  // k - 1 tokens are too few
  EXPECT_EQ(kinds(run(shortest, Script().judge(4, {{0.1}})))[2], "predict");
}

TEST(Refusion, TheReleasedRulesForceOneTokenOfEachSlotPerRound) {
  RefusionDecoder decoder = make(options(RefusionRules::kReleased, 4, 4, 4));
  const auto passes = run(decoder, Script().judge(3, {{0.1}}).judge(4, {{0.1}}).judge(5, {{0.1}}));
  ASSERT_THAT(kinds(passes),
              ElementsAre("plan", "verify", "predict", "check", "predict", "check", "predict", "check"));
  EXPECT_THAT(accepted(passes[1]), ElementsAre(1));
  EXPECT_THAT(accepted(passes[3]), ElementsAre(2));
  EXPECT_THAT(accepted(passes[5]), ElementsAre(3));
  EXPECT_THAT(accepted(passes[7]), ElementsAre(4));
  EXPECT_EQ(passes[7].report.round, 2);
  EXPECT_THAT(judged(passes[2]), ElementsAre(3, 4, 5));  // masks
  EXPECT_THAT(judged(passes[3]), ElementsAre(4, 5));  // the first token after the accepted ones is not judged
  EXPECT_THAT(judged(passes[7]), IsEmpty());
  EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14, 15));
}

TEST(Refusion, TheReleasedRulesPredictTheBestTokenAndNeverDrawIt) {
  for (const RefusionRules rules : kPublishedRules) {
    Refusion wanted = options(rules, 4, 4, 4);
    wanted.sampling.temperature = 1;
    wanted.seed = 7;
    RefusionDecoder decoder = make(wanted);
    for (const Pass& pass : run(decoder, Script().judge(3, {{0.1}}).judge(4, {{0.1}}))) {
      const std::vector<int32_t> positions = judged(pass);
      for (size_t i = 0; i < positions.size(); ++i) {
        const LogitRow& logit = pass.plan.logits[i];
        EXPECT_EQ(logit.noise, RngStream(7, positions[i]));
        const float temperature = pass.plan.rules[static_cast<size_t>(logit.rule)].temperature;
        if (pass.report.kind == "plan") {
          EXPECT_EQ(temperature, 1);
        } else if (pass.report.kind == "predict") {
          EXPECT_EQ(temperature, rules == RefusionRules::kPaper ? 1 : 0);
        }
      }
    }
  }
}

TEST(Refusion, ThePaperRefusesAFirstTokenThatIsNotLikelyEnough) {
  const auto with = [](RefusionRules rules) {
    Refusion wanted = options(rules, 4, 4, 2);
    wanted.slot_threshold = 0.4;
    return wanted;
  };
  const Script script = Script().draft(2, {{12, kUnsure}, {52, kUnsure}});
  RefusionDecoder paper = make(with(RefusionRules::kPaper));
  const auto passes = run(paper, script);
  ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "check", "predict", "check"));
  EXPECT_THAT(accepted(passes[1]), ElementsAre(0, 2));
  EXPECT_THAT(accepted(passes[2]), ElementsAre(0, 2));
  EXPECT_THAT(rows(passes[3]), ElementsAre(Row{kMask, 2, 2}, Row{kMask, 3, 3}));  // the other slot is full
  EXPECT_THAT(accepted(passes[4]), ElementsAre(2, 2));
  EXPECT_THAT(answer(paper), ElementsAre(52, 13, 14, 15));

  for (const RefusionRules rules : {RefusionRules::kReleased, RefusionRules::kLacuna}) {
    RefusionDecoder decoder = make(with(rules));
    EXPECT_THAT(kinds(run(decoder, script)), ElementsAre("plan", "verify"));
  }
}

TEST(Refusion, ThePaperKeepsTheKvOfWhatStandsInACompletion) {
  RefusionDecoder decoder = make(options(RefusionRules::kPaper, 8, 8, 4));
  // The first slot is accepted up to offset 2, then forced on; the second needs no second check.
  const auto passes = run(decoder, Script().judge(4, {{0.1}}).judge(5, {{0.1}}));
  ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "check", "predict", "check", "predict", "check"));
  EXPECT_THAT(accepted(passes[2]), ElementsAre(2, 4));
  EXPECT_THAT(rows(passes[3]), ElementsAre(Row{kMask, 4, 4}, Row{kMask, 5, 5}));
  const std::vector<RowGroup> groups = {{0, {0, 2}, {{0, 2}, {2, 4}}, OwnRows::kCausal}};
  EXPECT_EQ(passes[3].plan.groups, groups);
  EXPECT_THAT(rows(passes[4]), ElementsAre(Row{14, 4, 4}, Row{15, 5, 5}));
  EXPECT_THAT(rows(passes[6]), ElementsAre(Row{15, 5, 5}));
  EXPECT_THAT(committed(passes[6]), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(Refusion, AdvancingTogetherFeedsFinishedSlotsAgain) {
  Refusion wanted = options(RefusionRules::kReleased, 6, 6, 3);
  wanted.advances_together = true;
  RefusionDecoder decoder = make(wanted);
  const auto passes = run(decoder, Script().judge(3, {{0.1}}).judge(4, {{0.1}}));
  ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "predict", "check", "predict", "check"));
  EXPECT_THAT(accepted(passes[3]), ElementsAre(2, 3));
  // The slowest has 2; its last token is fed again, and so are all from there on of the other.
  EXPECT_THAT(rows(passes[4]), ElementsAre(Row{13, 3, 3}, Row{kMask, 4, 4}, Row{16, 6, 6}, Row{17, 7, 7}));
}

TEST(Refusion, ASlotThatStandsWholeInAVerifyPassIsFedOnItsOwnInTheCompletion) {
  for (const bool together : {true, false}) {
    Refusion wanted = options(RefusionRules::kReleased, 6, 6, 3);
    wanted.advances_together = together;
    RefusionDecoder decoder = make(wanted);
    const auto passes = run(decoder, Script().judge(3, {{0.1}, {kSure}}));
    ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "predict", "check"));
    EXPECT_THAT(accepted(passes[1]), ElementsAre(1, 3));
    // Its K/V of the verify pass have seen the first slot's drafts.
    EXPECT_THAT(rows(passes[3]), ElementsAre(Row{12, 2, 2}, Row{13, 3, 3}, Row{14, 4, 4}, Row{15, 5, 5},
                                             Row{16, 6, 6}, Row{17, 7, 7}));
  }
}

// ---- End tokens

TEST(Refusion, AnEndInAReleasedCompletionRemovesSlotsByTheWrongIndex) {
  const auto script_of = [](bool replaces) {
    return Script()
        .draft(2, {{12, kUnsure}, {12, kSure}})
        .draft(4, {{14, kUnsure}, {14, kSure}})
        .draft(8, kUnsure)
        .draft(7, {{17, kSure}, {kEnd, kSure}})
        .judge(7, {{0.1, replaces ? kEnd : -1}});
  };
  RefusionDecoder released = make(options(RefusionRules::kReleased, 8, 8, 2));
  const auto passes = run(released, script_of(false));
  EXPECT_THAT(selected(passes[0]), ElementsAre(6));
  EXPECT_EQ(passes.back().report.iteration, 0);
  EXPECT_THAT(answer(released), ElementsAre(16, kEnd));  // positions 2 to 5 are never written
  EXPECT_EQ(released.stop_reason(), StopReason::kEndToken);

  for (const RefusionRules rules : {RefusionRules::kPaper, RefusionRules::kLacuna}) {
    RefusionDecoder decoder = make(options(rules, 8, 8, 2));
    run(decoder, script_of(rules == RefusionRules::kLacuna));
    EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14, 15, 16, kEnd));
    EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
  }
}

TEST(Refusion, AnEndThatIsVerifiedLeavesTheSlotsBeforeItOpen) {
  for (const RefusionRules rules : kAllRules) {
    RefusionDecoder decoder = make(options(rules, 12, 8, 2));
    const auto passes =
        run(decoder, Script().draft(2, {{12, kUnsure}, {12, kSure}}).draft(4, {{kEnd, kSure}}));
    EXPECT_THAT(selected(passes[0]), rules == RefusionRules::kLacuna ? std::vector<int32_t>({4})
                                                                     : std::vector<int32_t>({4, 6, 8}));
    EXPECT_THAT(committed(passes[1]), ElementsAre(4));
    EXPECT_THAT(committed(passes.back()), ElementsAre(2, 3));
    EXPECT_EQ(passes.size(), 4U);  // and no further block
    EXPECT_THAT(answer(decoder), ElementsAre(12, 13, kEnd));
    EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
  }
}

TEST(Refusion, OnlyTheReleasedRulesKeepWhatWasWrittenBehindAnEnd) {
  for (const RefusionRules rules : kAllRules) {
    RefusionDecoder decoder = make(options(rules, 6, 6, 2));
    const auto passes = run(
        decoder, Script().draft(2, {{12, kUnsure}, {kEnd, kSure}}).draft(6, {{16, kUnsure}, {16, kSure}}));
    EXPECT_THAT(committed(passes[1]), ElementsAre(4, 5));
    EXPECT_THAT(committed(passes[3]), ElementsAre(2));
    EXPECT_EQ(passes.size(), 4U);
    EXPECT_THAT(answer(decoder), rules == RefusionRules::kReleased
                                     ? std::vector<TokenId>({kEnd, 14, 15})  // the gap at 3 closes up
                                     : std::vector<TokenId>({kEnd}));
    EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
  }
}

TEST(Refusion, AnEndInAPaperCompletionDropsTheSlotsAfterIt) {
  RefusionDecoder decoder = make(options(RefusionRules::kPaper, 9, 9, 3));
  const auto passes = run(decoder, Script().judge(3, {{0.1}, {0.1}, {kSure}}).draft(6, {{kEnd, kSure}}));
  EXPECT_THAT(accepted(passes[2]),
              ElementsAre(1, 2));  // the second slot is full with its end, the third gone
  EXPECT_THAT(committed(passes.back()), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14, 15, kEnd));
}

TEST(Refusion, AnEndThatIsRefusedEndsNothing) {
  RefusionDecoder decoder = make(options(RefusionRules::kLacuna, 4, 4, 4));
  const auto passes = run(decoder, Script().draft(3, {{kEnd, kSure}}).judge(3, {{0.1, 77}}));
  EXPECT_THAT(kinds(passes), ElementsAre("plan", "verify", "fill"));
  EXPECT_THAT(rows(passes[1]), ElementsAre(Row{12, 2, 2}, Row{kEnd, 3, 3}));
  // Tokens after the end are judged now.
  EXPECT_THAT(rows(passes[2]), ElementsAre(Row{77, 3, 3}, Row{14, 4, 4}, Row{15, 5, 5}));
  EXPECT_THAT(judged(passes[2]), ElementsAre(4, 5));
  EXPECT_THAT(answer(decoder), ElementsAre(12, 77, 14, 15));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

TEST(Refusion, AnEndThatTheJudgeWritesDropsTheSlotsFilledWithIt) {
  RefusionDecoder decoder = make(options(RefusionRules::kLacuna, 9, 9, 3));
  const auto passes = run(decoder, Script().judge(3, {{0.1, 77}}).judge(6, {{0.1}, {0.1, kEnd}}));
  EXPECT_THAT(kinds(passes), ElementsAre("plan", "verify", "fill"));
  EXPECT_THAT(accepted(passes[2]), ElementsAre(3, 2));
  EXPECT_THAT(answer(decoder), ElementsAre(12, 77, 14, 15, kEnd));
}

// ---- Lacuna's rules

TEST(Refusion, AFallenDraftIsReplacedAndItsSlotGoesOnFromItsKeptKv) {
  RefusionDecoder decoder = make(options(RefusionRules::kLacuna, 8, 8, 4));
  const auto passes = run(decoder, Script().judge(4, {{0.1, 77, 0.3}}));
  ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "fill"));
  EXPECT_THAT(rows(passes[2]), ElementsAre(Row{77, 4, 4}, Row{15, 5, 5}, Row{16, 6, 6}, Row{17, 7, 7},
                                           Row{18, 8, 8}, Row{19, 9, 9}));
  const std::vector<RowGroup> groups = {{0, {0, 2}, {{0, 2}, {2, 4}}, OwnRows::kCausal},
                                        {0, {2, 6}, {{0, 2}}, OwnRows::kCausal}};
  EXPECT_EQ(passes[2].plan.groups, groups);
  EXPECT_THAT(judged(passes[2]), ElementsAre(5, 7, 8, 9));
  EXPECT_EQ(passes[2].plan.logits[0].scored, 15);
  EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 77, 15, 16, 17, 18, 19));
  EXPECT_EQ(passes[2].report.committed[2], (Commit{4, 77, 0.3}));
  EXPECT_EQ(passes[2].report.committed[3], (Commit{5, 15, kSure}));
}

TEST(Refusion, SlotsBeforeTheOneThatFellAreCommittedAtOnce) {
  RefusionDecoder decoder = make(options(RefusionRules::kLacuna, 9, 9, 3));
  const auto passes = run(decoder, Script().judge(6, {{0.1, 77}}));
  ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "fill"));
  EXPECT_THAT(committed(passes[1]), ElementsAre(2, 3, 4));
  EXPECT_THAT(rows(passes[2]),
              ElementsAre(Row{77, 6, 6}, Row{17, 7, 7}, Row{18, 8, 8}, Row{19, 9, 9}, Row{20, 10, 10}));
  const std::vector<RowGroup> groups = {{0, {0, 2}, {{0, 5}, {5, 6}}, OwnRows::kCausal},
                                        {0, {2, 5}, {{0, 5}}, OwnRows::kCausal}};
  EXPECT_EQ(passes[2].plan.groups, groups);
}

TEST(Refusion, OwedRowsComeFirstAndSeeTheCellsBeforeTheirOwn) {
  Refusion wanted = options(RefusionRules::kLacuna, 6, 4, 2);
  RefusionDecoder decoder = make(wanted);
  const auto passes = run(decoder, Script().judge(3, {{0.1, 77}}));  // taken from the row before, never fed
  ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "fill", "plan", "verify"));
  EXPECT_THAT(rows(passes[2]), ElementsAre(Row{14, 4, 4}, Row{15, 5, 5}));  // the first slot is done
  EXPECT_THAT(rows(passes[3]), ElementsAre(Row{77, 3, 3}, Row{kMask, 6, 6}, Row{kMask, 7, 7}));
  const std::vector<RowGroup> groups = {{0, {0, 1}, {{0, 3}}, OwnRows::kCausal},
                                        {0, {1, 3}, {{0, 6}}, OwnRows::kCausal}};
  EXPECT_EQ(passes[3].plan.groups, groups);
  EXPECT_THAT(judged(passes[3]), ElementsAre(6));

  wanted.recomputes_kv = true;
  RefusionDecoder recomputing = make(wanted);
  const auto again = run(recomputing, Script().judge(3, {{0.1, 77}}));
  EXPECT_THAT(rows(again[3]), ElementsAre(Row{12, 2, 2}, Row{77, 3, 3}, Row{14, 4, 4}, Row{15, 5, 5},
                                          Row{kMask, 6, 6}, Row{kMask, 7, 7}));
}

TEST(Refusion, RecomputingApartTakesAPassOfItsOwn) {
  Refusion wanted = options(RefusionRules::kLacuna, 6, 4, 2);
  wanted.recomputes_kv = true;
  wanted.recomputes_apart = true;
  RefusionDecoder decoder = make(wanted);
  const auto passes = run(decoder, Script().judge(3, {{0.1, 77}}));
  ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "fill", "recompute", "plan", "verify"));
  EXPECT_THAT(rows(passes[3]), ElementsAre(Row{12, 2, 2}, Row{77, 3, 3}, Row{14, 4, 4}, Row{15, 5, 5}));
  EXPECT_TRUE(passes[3].plan.logits.empty());
  EXPECT_TRUE(passes[3].report.committed.empty());
  EXPECT_THAT(rows(passes[4]), ElementsAre(Row{kMask, 6, 6}, Row{kMask, 7, 7}));
}

TEST(Refusion, RecomputingLeavesWhatWasVerifiedAsItIs) {
  for (const RefusionRules rules : kAllRules) {
    Refusion wanted = options(rules, 4, 2, 2);
    wanted.recomputes_kv = true;
    wanted.recomputes_apart = rules == RefusionRules::kPaper;
    RefusionDecoder decoder = make(wanted);
    EXPECT_EQ(run(decoder, {})[2].plan.num_rows(), 2);
  }
}

TEST(Refusion, AcceptingExactlyAsksForTheJudgesOwnTokenOnly) {
  Refusion wanted = options(RefusionRules::kLacuna, 3, 3, 3);
  wanted.accepts_exactly = true;
  RefusionDecoder unlikely = make(wanted);  // agreement counts, however unlikely
  EXPECT_THAT(kinds(run(unlikely, Script().judge(3, {{0.01}}).judge(4, {{0.01}}))),
              ElementsAre("plan", "verify"));
  RefusionDecoder likely = make(wanted);  // and nothing else does
  EXPECT_THAT(kinds(run(likely, Script().judge(3, {{0.99, 77}}))), ElementsAre("plan", "verify", "fill"));
  EXPECT_THAT(answer(likely), ElementsAre(12, 77, 14));
}

TEST(Refusion, RevokingCutsFromTheSecondTokenOnAndEndsAfterOneGoPerPosition) {
  Refusion wanted = options(RefusionRules::kLacuna, 4, 4, 4);
  wanted.token_threshold = 0.2;
  wanted.revoke = 0.6;
  RefusionDecoder decoder = make(wanted);
  Script script;
  for (int32_t position = 2; position < 6; ++position) script.draft(position, 0.1).judge(position, {{0.3}});
  const auto passes = run(decoder, script);
  ASSERT_THAT(kinds(passes),
              ElementsAre("plan", "verify", "plan", "verify", "plan", "verify", "plan", "verify"));
  for (int32_t go = 0; go < 4; ++go) {
    const Pass& plan = passes[static_cast<size_t>(2 * go)];
    EXPECT_EQ(plan.plan.num_rows(), (go == 0 ? kPrompt : 0) + 4 - go);
    EXPECT_THAT(committed(passes[static_cast<size_t>(2 * go + 1)]), ElementsAre(2 + go));
  }
  EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14, 15));
}

TEST(Refusion, RevokingKeepsATokenThatIsAsLikelyAsAsked) {
  Refusion wanted = options(RefusionRules::kLacuna, 4, 4, 4);
  wanted.token_threshold = 0.2;
  wanted.revoke = 0.5;
  RefusionDecoder decoder = make(wanted);
  const auto passes = run(decoder, Script().judge(4, {{0.5}}).judge(5, {{0.25}, {kSure}}));
  EXPECT_THAT(committed(passes[1]), ElementsAre(2, 3, 4));
  EXPECT_THAT(selected(passes[2]), ElementsAre(5));
}

TEST(Refusion, WhatMovesWhenAVerifiedSlotIsCutIsOwed) {
  Refusion wanted = options(RefusionRules::kLacuna, 6, 6, 2);
  wanted.token_threshold = 0.2;
  wanted.revoke = 0.6;
  RefusionDecoder decoder = make(wanted);
  const auto passes = run(decoder, Script().judge(3, {{0.3}}).judge(7, {{0.1, 77, 0.9}}));
  ASSERT_THAT(kinds(passes), ElementsAre("plan", "verify", "plan", "verify"));
  EXPECT_THAT(committed(passes[1]), ElementsAre(2, 4, 5, 6, 7));
  EXPECT_THAT(rows(passes[2]),
              ElementsAre(Row{14, 4, 3}, Row{15, 5, 4}, Row{16, 6, 5}, Row{77, 7, 6}, Row{kMask, 3, 7}));
  const std::vector<RowGroup> groups = {{0, {0, 4}, {{0, 3}}, OwnRows::kCausal},
                                        {0, {4, 5}, {{0, 7}}, OwnRows::kCausal}};
  EXPECT_EQ(passes[2].plan.groups, groups);
  EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14, 15, 16, 77));
}

TEST(Refusion, ASlotThatFellAfterACutOneIsFilledWithNothingKept) {
  Refusion wanted = options(RefusionRules::kLacuna, 8, 8, 4);
  wanted.token_threshold = 0.2;
  wanted.revoke = 0.6;
  RefusionDecoder decoder = make(wanted);
  const auto passes = run(decoder, Script().judge(5, {{0.3}, {kSure}}).judge(8, {{0.1, 77, 0.9}}));
  ASSERT_EQ(passes[2].report.kind, "fill");
  EXPECT_THAT(committed(passes[1]), ElementsAre(2, 3, 4));
  EXPECT_THAT(rows(passes[2]), ElementsAre(Row{16, 6, 5}, Row{17, 7, 6}, Row{77, 8, 7}, Row{19, 9, 8}));
  EXPECT_THAT(judged(passes[2]), ElementsAre(9));
}

TEST(Refusion, AnEndThatIsCutOffEndsNothing) {
  Refusion wanted = options(RefusionRules::kLacuna, 6, 6, 3);
  wanted.token_threshold = 0.2;
  wanted.revoke = 0.6;
  RefusionDecoder decoder = make(wanted);
  const auto passes =
      run(decoder, Script().draft(4, {{kEnd, kSure}, {14, kSure}}).judge(4, {{0.3}, {kSure}}));
  EXPECT_THAT(committed(passes[1]), ElementsAre(2, 3));
  EXPECT_THAT(selected(passes[2]), ElementsAre(4, 5));
  EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14, 15, 16, 17));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

// ---- Stop texts

TEST(Refusion, AStopTextEndsTheAnswerOnceThereIsNoGapBeforeIt) {
  for (const RefusionRules rules : kAllRules) {
    Refusion wanted = options(rules, 8, 4, 2);
    wanted.find_stop = [](std::span<const TokenId> answer) -> std::optional<int32_t> {
      const auto found = std::find(answer.begin(), answer.end(), 14);
      if (found == answer.end()) return std::nullopt;
      return static_cast<int32_t>(found - answer.begin()) + 1;
    };
    RefusionDecoder decoder = make(wanted);
    const auto passes = run(decoder, Script().draft(2, {{12, kUnsure}, {12, kSure}}));
    EXPECT_THAT(committed(passes[1]), ElementsAre(4, 5));  // after a gap
    EXPECT_EQ(passes.size(), 4U);
    EXPECT_THAT(answer(decoder), ElementsAre(12, 13, 14));
    EXPECT_EQ(decoder.stop_reason(), StopReason::kStopText);
  }
}

TEST(Refusion, AStopTextBehindAnEndTokenIsNotSeen) {
  for (const RefusionRules rules : kAllRules) {
    Refusion wanted = options(rules, 4, 4, 2);
    size_t longest = 0;
    wanted.find_stop = [&](std::span<const TokenId> answer) -> std::optional<int32_t> {
      longest = std::max(longest, answer.size());
      return std::nullopt;
    };
    RefusionDecoder decoder = make(wanted);
    run(decoder, Script().draft(3, {{kEnd, kSure}}));
    EXPECT_EQ(longest, 1U);
    EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
  }
}

TEST(Refusion, AStopTextInTheSlotsThatAVerifyPassCommitsEndsTheDecodingThere) {
  Refusion wanted = options(RefusionRules::kLacuna, 6, 6, 3);
  wanted.find_stop = [](std::span<const TokenId> answer) -> std::optional<int32_t> {
    if (answer.size() < 2) return std::nullopt;
    return 2;
  };
  RefusionDecoder decoder = make(wanted);
  const auto passes = run(decoder, Script().judge(6, {{0.1, 77}}));
  EXPECT_THAT(committed(passes[1]), ElementsAre(2, 3, 4));
  EXPECT_THAT(answer(decoder), ElementsAre(12, 13));
  EXPECT_THAT(kinds(passes), ElementsAre("plan", "verify"));
}

// ---- Any mode, on a model that knows what every cell holds

constexpr TokenId kVocab = 23;

/// A causal model whose K/V say what they are made of: a cell's content is a hash of its token, its position
/// and the contents that its row saw.
class CellModel {
 public:
  struct Cell {
    TokenId token = -1;
    int32_t position = -1;
    uint64_t content = 0;

    bool operator==(const Cell&) const = default;
  };

  CellModel(uint64_t seed, int32_t num_cells) : seed_(seed), cells_(static_cast<size_t>(num_cells)) {}

  Cell cell(TokenId token, int32_t position, std::span<const uint64_t> seen) const {
    uint64_t hash = mix_bits(seed_ + static_cast<uint64_t>(token) * 1000 + static_cast<uint64_t>(position));
    for (const uint64_t content : seen) hash = mix_bits(hash * 31 + content);
    return {token, position, hash};
  }

  /// Logits that favour a token of the position they are for, now more, now less.
  RowStatistics draw_from(const Cell& cell, const SamplingRule& rule, const LogitRow& logit) const {
    const RngStream stream(cell.content);
    const int32_t position = cell.position + (cell.token == kVocab - 1 ? 0 : 1);
    std::vector<float> logits;
    for (TokenId token = 0; token < kVocab; ++token) {
      logits.push_back(static_cast<float>(3 * stream.uniform(static_cast<uint64_t>(token))));
    }
    const uint32_t favoured = RngStream(seed_, position).below(0, kVocab - 1);
    logits[favoured] += static_cast<float>(9 * stream.uniform(1000));
    return draw(default_table(), rule, logit.noise, logits, logit.scored);
  }

  void forward(const StepPlan& plan) {
    rows_.clear();
    for (const RowGroup& group : plan.groups) {
      EXPECT_EQ(group.own_rows, OwnRows::kCausal);
      EXPECT_EQ(static_cast<size_t>(group.rows.begin), rows_.size());
      std::vector<uint64_t> seen;
      for (const IndexRange& range : group.visible) {
        for (int32_t i = range.begin; i < range.end; ++i) seen.push_back(at(i).content);
      }
      for (int32_t i = group.rows.begin; i < group.rows.end; ++i) {
        const auto row = static_cast<size_t>(i);
        rows_.push_back(cell(plan.tokens[row], plan.positions[row], seen));
        seen.push_back(rows_.back().content);
        cells_.at(static_cast<size_t>(plan.cells[row])) = rows_.back();
      }
    }
  }

  std::vector<RowStatistics> draws(const StepPlan& plan, std::span<const LogitRow> logits) const {
    std::vector<RowStatistics> drawn;
    for (const LogitRow& logit : logits) {
      drawn.push_back(draw_from(rows_.at(static_cast<size_t>(logit.row)),
                                plan.rules.at(static_cast<size_t>(logit.rule)), logit));
    }
    return drawn;
  }

  const Cell& at(int32_t cell) const { return cells_.at(static_cast<size_t>(cell)); }

 private:
  uint64_t seed_;
  std::vector<Cell> cells_;
  std::vector<Cell> rows_;  // of the last pass
};

/// A clean token and what its row is to have seen.
struct Clean {
  TokenId token = 0;
  int32_t position = 0;
  int32_t slot_begin_cell = 0;  // of the part of its slot that was committed with it
  int32_t context = 0;          // cells that its slot saw, if it was completed apart from others
  bool is_completed = false;
};

struct Fuzz {
  Refusion options;
  uint64_t seed = 0;
  int32_t passes = 0;
  int32_t fills = 0;
  int32_t ends = 0;
};

/// Decodes, and checks on the way all that holds in every mode.
void decode_and_check(Fuzz& fuzz) {
  const Refusion& options = fuzz.options;
  std::vector<TokenId> prompt;
  for (uint32_t i = 0; i <= fuzz.seed % 4; ++i) prompt.push_back(static_cast<TokenId>(i + 1));
  const auto prompt_length = static_cast<int32_t>(prompt.size());
  RefusionDecoder decoder(options, prompt);
  CellModel model(fuzz.seed, decoder.num_cells());
  std::vector<Clean> clean;
  for (int32_t i = 0; i < prompt_length; ++i)
    clean.push_back({prompt[static_cast<size_t>(i)], i, 0, 0, false});
  std::map<int32_t, int> times;  // number of times that each position was committed

  // Content of a clean cell's row, given the contents before it.
  const auto expected = [&](int32_t cell, bool apart) {
    const Clean& token = clean[static_cast<size_t>(cell)];
    std::vector<uint64_t> seen;
    for (int32_t i = 0; i < cell; ++i) {
      if (!apart || i < token.context || i >= token.slot_begin_cell) seen.push_back(model.at(i).content);
    }
    return model.cell(token.token, token.position, seen);
  };

  while (!decoder.done()) {
    ASSERT_LT(++fuzz.passes, 100'000);
    const StepPlan plan = decoder.plan();
    EXPECT_EQ(decoder.plan(), plan);
    EXPECT_GE(decoder.uncached_work().rows, work_of(plan).rows);
    model.forward(plan);
    const auto num_clean = static_cast<int32_t>(clean.size());
    for (int32_t cell = 0; cell < num_clean; ++cell) {
      const CellModel::Cell& holds = model.at(cell);
      const bool is_apart = clean[static_cast<size_t>(cell)].is_completed && !options.recomputes_kv &&
                            holds == expected(cell, true);
      ASSERT_TRUE(is_apart || holds == expected(cell, false)) << "cell " << cell << " of " << num_clean;
    }
    StepReport report = decoder.apply({model.draws(plan, plan.logits)});
    const FollowUp wanted = decoder.follow_up();
    const std::vector<LogitRow> further(wanted.logits.begin(), wanted.logits.end());
    decoder.apply_follow_up({model.draws(plan, further)}, report);
    for (const auto* logits : {&plan.logits, &further}) {
      for (const LogitRow& logit : *logits) {
        const auto row = static_cast<size_t>(logit.row);
        const int32_t position = plan.positions[row] + (plan.tokens[row] == options.mask_id ? 0 : 1);
        EXPECT_EQ(logit.noise, RngStream(options.seed, position));
      }
    }
    const bool is_completed = report.kind == "fill" || report.kind == "check";
    fuzz.fills += is_completed ? 1 : 0;
    int32_t slot = -1;
    int32_t slot_begin_cell = 0;
    for (const Commit& commit : report.committed) {
      ++times[commit.position];
      EXPECT_GE(commit.confidence, 0);
      const auto cell = static_cast<int32_t>(clean.size());
      int32_t begin = -1;
      for (const SlotReport& reported : report.slots) {
        if (reported.position <= commit.position) begin = reported.position;
      }
      if (begin != slot) slot_begin_cell = cell;
      slot = begin;
      clean.push_back(
          {commit.token, commit.position, slot_begin_cell, is_completed ? num_clean : cell, is_completed});
      if (!options.accepts_exactly || begin == commit.position) continue;
      // The token that plain left-to-right decoding of the slot takes.
      std::vector<uint64_t> seen;
      CellModel::Cell before;
      for (int32_t i = 0; i < cell; ++i) {
        if (is_completed && i >= num_clean && i < slot_begin_cell) continue;
        const Clean& token = clean[static_cast<size_t>(i)];
        if (i < num_clean) {
          seen.push_back(model.at(i).content);
          continue;
        }
        before = model.cell(token.token, token.position, seen);
        seen.push_back(before.content);
      }
      LogitRow logit;
      logit.noise = RngStream(options.seed, commit.position);
      EXPECT_EQ(model.draw_from(before, options.sampling, logit).token, commit.token);
    }
  }
  for (const auto& [position, count] : times) {
    EXPECT_EQ(count, 1) << position;
    EXPECT_GE(position, prompt_length);
    EXPECT_LT(position, decoder.num_cells());
  }
  const std::vector<TokenId> written = answer(decoder);
  EXPECT_THAT(written, Each(Not(options.mask_id)));
  const auto is_end = [&](TokenId token) {
    return std::find(options.end_ids.begin(), options.end_ids.end(), token) != options.end_ids.end();
  };
  const auto end = std::find_if(written.begin(), written.end(), is_end);
  EXPECT_EQ(decoder.stop_reason(), end == written.end() ? StopReason::kLength : StopReason::kEndToken);
  fuzz.ends += end == written.end() ? 0 : 1;
  if (end == written.end()) {
    EXPECT_EQ(written.size(), static_cast<size_t>(options.gen_length));
  } else if (options.rules != RefusionRules::kReleased) {
    EXPECT_EQ(end + 1, written.end());
  }
  // The canvas is what was committed, in order of position.
  std::sort(clean.begin(), clean.end(),
            [](const Clean& a, const Clean& b) { return a.position < b.position; });
  for (size_t i = 0; i < decoder.canvas().size(); ++i) EXPECT_EQ(decoder.canvas()[i], clean[i].token);
}

class RefusionModes : public testing::TestWithParam<RefusionRules> {};

TEST_P(RefusionModes, EveryCleanCellHoldsItsTokensKvAndEveryPositionIsWrittenOnce) {
  int32_t fills = 0;
  int32_t ends = 0;
  for (uint64_t seed = 0; seed < 160; ++seed) {
    const RngStream choose(seed, 99);
    Fuzz fuzz;
    fuzz.seed = seed;
    Refusion& options = fuzz.options;
    options.rules = GetParam();
    options.mask_id = kVocab - 1;
    options.sampling.undrawn = {options.mask_id};
    if (seed % 3 != 0) options.end_ids = {3, 7};
    options.gen_length = 1 + static_cast<int32_t>(choose.below(0, 30));
    options.block_length = 1 + static_cast<int32_t>(choose.below(1, 20));
    options.slot_size = 1 + static_cast<int32_t>(choose.below(2, 6));
    options.slot_threshold = choose.uniform(3);
    options.token_threshold = choose.uniform(4);
    options.recomputes_kv = choose.below(5, 2) == 1;
    options.recomputes_apart = options.recomputes_kv && choose.below(11, 2) == 1;
    options.sampling.temperature = choose.below(6, 2) == 1 ? 0.8F : 0;
    options.seed = seed;
    if (GetParam() == RefusionRules::kLacuna) {
      options.accepts_exactly = choose.below(7, 2) == 1;
      options.verifies_fills = choose.below(10, 2) == 1;
      if (choose.below(8, 2) == 1) options.revoke = choose.uniform(9);
      if (options.accepts_exactly) options.revoke = 0;
    } else {
      options.advances_together = GetParam() == RefusionRules::kReleased || choose.below(7, 2) == 1;
    }
    SCOPED_TRACE(seed);
    decode_and_check(fuzz);
    if (HasFatalFailure()) return;
    fills += fuzz.fills;
    ends += fuzz.ends;
  }
  EXPECT_GT(fills, 100);
  EXPECT_GT(ends, 20);
}

/// The commits of each pass of 30 requests.
std::vector<std::vector<Commit>> commits_of_many(RefusionRules rules, bool advances_together) {
  std::vector<std::vector<Commit>> commits;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Refusion wanted = options(rules, 24, 12, 5);
    wanted.mask_id = kVocab - 1;
    wanted.end_ids = {3};
    wanted.slot_threshold = wanted.token_threshold = 0.5;
    wanted.advances_together = advances_together;
    RefusionDecoder decoder = make(wanted);
    CellModel model(seed, decoder.num_cells());
    while (!decoder.done()) {
      const StepPlan plan = decoder.plan();
      model.forward(plan);
      commits.push_back(decoder.apply({model.draws(plan, plan.logits)}).committed);
    }
  }
  return commits;
}

TEST(RefusionTogether, ThePaperWritesTheSameTokens) {
  EXPECT_TRUE(commits_of_many(RefusionRules::kPaper, false) == commits_of_many(RefusionRules::kPaper, true));
}

TEST(RefusionTogether, TheReleasedRulesWriteTheSameTokens) {
  EXPECT_TRUE(commits_of_many(RefusionRules::kReleased, false) ==
              commits_of_many(RefusionRules::kReleased, true));
}

std::string name_of(const testing::TestParamInfo<RefusionRules>& info) {
  const char* names[] = {"Paper", "Released", "Lacuna"};
  return names[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Rules, RefusionModes, testing::ValuesIn(kAllRules), name_of);

}  // namespace
}  // namespace lacuna::refusion_test
