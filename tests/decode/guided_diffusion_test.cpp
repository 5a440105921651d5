#include "decode/guided_diffusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "fake_model.h"

namespace lacuna::guided_diffusion_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TokenId kMask = 2;
constexpr TokenId kEnd = 4;
constexpr int64_t kVocab = 23;

RowStatistics judged(int32_t rank, float scored, float best) {
  RowStatistics row;
  row.scored_rank = rank;
  row.scored_logit = scored;
  row.best_logit = best;
  return row;
}

TEST(GuideMatch, TopKCountsWhatComesBeforeTheDraft) {
  for (const int32_t k : {1, 2, 5}) {
    EXPECT_TRUE(matches(MatchTopK{k}, judged(k - 1, 0, 9), 0));
    EXPECT_FALSE(matches(MatchTopK{k}, judged(k, 0, 9), 0));
  }
}

TEST(GuideMatch, RelativeComparesProbabilitiesAmongTheTwoBest) {
  const float half = 3 + std::log(0.5F);
  EXPECT_TRUE(matches(MatchRelative{0.499}, judged(1, half, 3), 0));
  EXPECT_FALSE(matches(MatchRelative{0.501}, judged(1, half, 3), 0));
  EXPECT_FALSE(matches(MatchRelative{0.1}, judged(2, half, 3), 0));
  EXPECT_FALSE(matches(MatchRelative{0}, judged(2, 3, 3), 0));  // a third of equals
  EXPECT_TRUE(matches(MatchRelative{1}, judged(1, 3, 3), 0));
  EXPECT_TRUE(matches(MatchRelative{1}, judged(0, 3, 3), 0));
}

TEST(GuideMatch, TauLiteralComparesTheBestLogitsOfBothModels) {
  EXPECT_TRUE(matches(MatchTauLiteral{0.5}, judged(20, -9, 4), 2.01F));
  EXPECT_FALSE(matches(MatchTauLiteral{0.5}, judged(0, 4, 4), 2));  // above, not equal
  EXPECT_TRUE(matches(MatchTauLiteral{0.5}, judged(20, -9, -4), -1.9F));
  EXPECT_FALSE(matches(MatchTauLiteral{0.5}, judged(0, -4, -4), -2.1F));
}

GuidedDiffusion settings(int32_t gen_length, int32_t block_length, std::vector<TokenId> guide_prompt) {
  GuidedDiffusion options;
  options.mask_id = kMask;
  options.end_ids = {kEnd};
  options.gen_length = gen_length;
  options.block_length = block_length;
  options.pass.sampling.undrawn = {kMask};
  options.guide_prompt = std::move(guide_prompt);
  options.guide_positions = 1000;
  options.alignment = std::make_shared<SharedVocabulary>(SharedVocabulary::Side{kVocab, kEnd, {kEnd}},
                                                         SharedVocabulary::Side{kVocab, kEnd, {kEnd}});
  return options;
}

/// Logits of an autoregressive model for the token after a sequence.
std::vector<float> logits_behind(const FakeModel& model, const std::vector<TokenId>& context) {
  StepPlan plan;
  for (const TokenId token : context) plan.add_row(token, plan.num_rows(), plan.num_rows());
  plan.groups.push_back({0, {0, plan.num_rows()}, {}, OwnRows::kCausal});
  FakeCells cells(model, plan.num_rows());
  cells.forward(plan);
  return cells.logits(plan.num_rows() - 1);
}

struct Pass {
  std::string kind;
  std::vector<Commit> committed;
  int32_t block = 0;
  int32_t step = 0;

  bool operator==(const Pass&) const = default;
};

struct Outcome {
  std::vector<TokenId> canvas;
  std::vector<Pass> passes;
};

Outcome decode(const FakeModel& model, const FakeModel& guide, const GuidedDiffusion& options,
               const std::vector<TokenId>& prompt) {
  GuidedDiffusionDecoder decoder(options, prompt);
  FakeCells cached(guide, decoder.num_guide_cells());
  Outcome run;
  while (!decoder.done()) {
    const StepPlan plan = decoder.plan();
    EXPECT_EQ(plan, decoder.plan());
    const bool drafts = decoder.role() == ModelRole::kMain;
    const StepReport report = decoder.apply({drafts ? model.forward(plan) : cached.forward(plan)});
    run.passes.push_back({std::string(report.kind), report.committed, report.block, report.step});
    if (run.passes.size() > 1000) throw std::runtime_error("the decoder does not end");
  }
  run.canvas.assign(decoder.canvas().begin(), decoder.canvas().end());
  return run;
}

/// The page's four steps over whole sequences and full logits, without K/V.
Outcome decode_plainly(const FakeModel& model, const FakeModel& guide, const GuidedDiffusion& options,
                       const std::vector<TokenId>& prompt) {
  const auto prompt_length = static_cast<int32_t>(prompt.size());
  std::vector<TokenId> x = prompt;
  x.resize(x.size() + static_cast<size_t>(options.gen_length), kMask);
  Outcome run;
  int32_t done = 0;
  for (int32_t round = 0; done < options.gen_length; ++round) {
    const int32_t block = done / options.block_length;
    const int32_t end = prompt_length + (block + 1) * options.block_length;
    std::vector<Commit> drafts;
    std::vector<float> best_logits;
    for (int32_t position = prompt_length + done; position < end; ++position) {
      std::vector<float> l =
          model.logits(x, options.shifted_logits && position > 0 ? position - 1 : position);
      const double most = *std::max_element(l.begin(), l.end());
      double sum = 0;
      for (const float logit : l) sum += std::exp(logit - most);
      l[kMask] = -std::numeric_limits<float>::infinity();
      const auto best = std::max_element(l.begin(), l.end());
      drafts.push_back({position, static_cast<TokenId>(best - l.begin()), std::exp(*best - most) / sum});
      best_logits.push_back(*best);
    }
    run.passes.push_back({"draft", {}, block, round});

    std::vector<TokenId> context = options.guide_prompt;
    context.insert(context.end(), x.begin() + prompt_length, x.begin() + prompt_length + done);
    std::vector<Commit> committed;
    std::optional<TokenId> choice;
    for (size_t i = 0; i < drafts.size() && !choice; ++i) {
      if (static_cast<int32_t>(i) % options.guide_block == 0)
        run.passes.push_back({"verify", {}, block, round});
      const std::vector<float> l = logits_behind(guide, context);
      std::vector<size_t> order(l.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return l[a] > l[b]; });
      const auto token = static_cast<size_t>(drafts[i].token);
      const auto rank = std::find(order.begin(), order.end(), token) - order.begin();
      const float best = l[order[0]];
      bool stands = false;
      if (const auto* top = std::get_if<MatchTopK>(&options.match)) stands = rank < top->k;
      if (const auto* relative = std::get_if<MatchRelative>(&options.match)) {
        stands = rank < 2 && std::exp(double{l[token]}) >= relative->ratio * std::exp(double{best});
      }
      if (const auto* tau = std::get_if<MatchTauLiteral>(&options.match)) {
        stands = best_logits[i] > tau->tau * double{best};
      }
      if (stands) {
        committed.push_back(drafts[i]);
        context.push_back(drafts[i].token);
      } else {
        choice = static_cast<TokenId>(order[0]);
      }
    }
    if (choice && options.fallback == GuideFallback::kGuide) {
      committed.push_back({drafts[committed.size()].position, *choice, 0});
    } else if (committed.empty()) {
      committed.push_back(drafts[0]);
    }
    for (const Commit& commit : committed) x[static_cast<size_t>(commit.position)] = commit.token;
    done += static_cast<int32_t>(committed.size());
    run.passes.back().committed = committed;
    const auto answer = x.begin() + prompt_length;
    if (options.eos_exit && std::find(answer, answer + done, kEnd) != answer + done) break;
  }
  run.canvas = x;
  return run;
}

void expect_equal(const Outcome& got, const Outcome& expected, const std::string& what) {
  ASSERT_EQ(got.canvas, expected.canvas) << what;
  ASSERT_EQ(got.passes.size(), expected.passes.size()) << what;
  for (size_t i = 0; i < got.passes.size(); ++i) {
    const Pass& a = got.passes[i];
    const Pass& b = expected.passes[i];
    ASSERT_EQ(a.kind, b.kind) << what;
    ASSERT_EQ(a.block, b.block) << what;
    ASSERT_EQ(a.step, b.step) << what;
    ASSERT_EQ(a.committed.size(), b.committed.size()) << what;
    for (size_t n = 0; n < a.committed.size(); ++n) {
      ASSERT_EQ(a.committed[n].position, b.committed[n].position) << what;
      ASSERT_EQ(a.committed[n].token, b.committed[n].token) << what;
      ASSERT_NEAR(a.committed[n].confidence, b.committed[n].confidence, 1e-5) << what;
    }
  }
}

/// Models that like the same tokens, so that drafts are accepted for a while.
std::pair<FakeModel, FakeModel> alike(uint64_t seed) {
  FakeModel model;
  model.seed = seed;
  model.scale = 6;
  model.favour = {0, 0, 3, 0, 1, 2.5, 4, 3};
  FakeModel guide = model;
  guide.seed = seed + 1000;
  guide.favour[kMask] = -100;  // so that the guide never writes a mask
  return {model, guide};
}

TEST(GuidedDiffusion, EqualsThePageOnRandomRuns) {
  const GuideMatch rules[] = {MatchTopK{1}, MatchTopK{2}, MatchTopK{5}, MatchRelative{0.3},
                              MatchTauLiteral{0.9}};
  size_t longest = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto [model, guide] = alike(seed);
    const RngStream noise(seed, 3);
    std::vector<TokenId> prompt(noise.below(0, 4), 7);
    GuidedDiffusion options = settings(12, std::vector<int32_t>{3, 6, 12}[noise.below(1, 3)], {5, 6});
    if (seed % 2 == 0) options.guide_prompt = {9};
    options.match = rules[seed % 5];
    options.fallback = noise.below(2, 2) == 0 ? GuideFallback::kDraft : GuideFallback::kGuide;
    options.guide_block = 1 + static_cast<int32_t>(noise.below(3, 5));
    options.shifted_logits = noise.below(4, 2) == 1;
    options.eos_exit = noise.below(5, 2) == 1;
    const Outcome expected = decode_plainly(model, guide, options, prompt);
    expect_equal(decode(model, guide, options, prompt), expected, "seed " + std::to_string(seed));
    for (const Pass& pass : expected.passes) longest = std::max(longest, pass.committed.size());
  }
  EXPECT_GE(longest, 5U);
}

/// Drafts and judgements by hand: runs one round at a time.
class Rounds {
 public:
  Rounds(const GuidedDiffusion& options, std::vector<TokenId> prompt) : decoder(options, std::move(prompt)) {}

  /// Drafts of this round, in order of their positions.
  StepReport draft(const std::vector<TokenId>& tokens, float best_logit = 0) {
    EXPECT_EQ(decoder.role(), ModelRole::kMain);
    std::vector<RowStatistics> drawn;
    for (const TokenId token : tokens) drawn.push_back({token, 0.5, best_logit});
    plan = decoder.plan();
    drawn.resize(plan.logits.size());
    return decoder.apply({drawn});
  }

  /// Ranks of what the guide's pass judges; the guide's own best token is `own`.
  StepReport verify(const std::vector<int32_t>& ranks, TokenId own = 20) {
    EXPECT_EQ(decoder.role(), ModelRole::kGuide);
    std::vector<RowStatistics> drawn;
    for (const int32_t rank : ranks) {
      drawn.push_back(judged(rank, 0, 0));
      drawn.back().token = own;
    }
    plan = decoder.plan();
    return decoder.apply({drawn});
  }

  std::vector<TokenId> scored() {
    std::vector<TokenId> tokens;
    for (const LogitRow& logit : decoder.plan().logits) tokens.push_back(logit.scored);
    return tokens;
  }

  std::vector<TokenId> answer() const {
    const auto tokens = decoder.canvas().subspan(static_cast<size_t>(decoder.prompt_length()));
    return {tokens.begin(), tokens.end()};
  }

  GuidedDiffusionDecoder decoder;
  StepPlan plan;  // of the last pass
};

TEST(GuidedDiffusion, DraftsEveryMaskOfTheBlockAndReadsThemInOnePass) {
  Rounds rounds(settings(8, 4, {5, 6}), {7});
  EXPECT_EQ(rounds.decoder.num_cells(), 9);
  EXPECT_EQ(rounds.decoder.num_guide_cells(), 2 + 8);
  const StepReport draft = rounds.draft({10, 11, 12, 13});
  EXPECT_THAT(rounds.plan.logits, SizeIs(4));
  EXPECT_EQ(draft.kind, "draft");
  EXPECT_THAT(draft.committed, IsEmpty());
  const StepPlan& plan = rounds.decoder.plan();
  // The last draft's own row judges nothing.
  EXPECT_THAT(plan.tokens, ElementsAre(5, 6, 10, 11, 12));
  EXPECT_THAT(plan.positions, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(plan.cells, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(plan.groups, ElementsAre(RowGroup{0, {0, 5}, {}, OwnRows::kCausal}));
  EXPECT_THAT(rounds.scored(), ElementsAre(10, 11, 12, 13));
  EXPECT_EQ(plan.logits[0].row, 1);
  EXPECT_EQ(plan.logits[3].row, 4);
  EXPECT_EQ(plan.rules, std::vector<SamplingRule>(1));  // raw logits, best token
  const PassWork work = rounds.decoder.uncached_work();
  EXPECT_EQ(work.rows, 5);
  EXPECT_EQ(work.pairs, 15);
  EXPECT_EQ(work.logit_rows, 4);
}

TEST(GuidedDiffusion, CommitsTheLongestPrefixThatTheGuideConfirms) {
  Rounds rounds(settings(8, 4, {5, 6}), {7});
  rounds.draft({10, 11, 12, 13});
  const StepReport report = rounds.verify({0, 1, 2, 0});  // the default takes the best two
  EXPECT_EQ(report.kind, "verify");
  EXPECT_EQ(report.step, 0);
  EXPECT_THAT(report.committed, ElementsAre(Commit{1, 10, 0.5}, Commit{2, 11, 0.5}));
  EXPECT_EQ(rounds.decoder.role(), ModelRole::kMain);
  EXPECT_THAT(rounds.decoder.plan().tokens, ElementsAre(7, 10, 11, kMask, kMask, kMask, kMask, kMask, kMask));
  EXPECT_THAT(rounds.decoder.plan().logits, SizeIs(2));
}

TEST(GuidedDiffusion, ComputesAgainOnlyFromTheRowBeforeTheNextDraft) {
  Rounds rounds(settings(8, 8, {5, 6}), {7});
  rounds.draft({10, 11, 12, 13, 14, 15, 16, 17});
  rounds.verify({0, 0, 9, 9, 9, 9, 9, 9});
  // Refused drafts that come back would still be in their cells; the guide is rolled back all the same.
  rounds.draft({12, 13, 14, 15, 16, 17});
  const StepPlan& plan = rounds.decoder.plan();
  EXPECT_THAT(plan.tokens, ElementsAre(11, 12, 13, 14, 15, 16));
  EXPECT_THAT(plan.cells, ElementsAre(3, 4, 5, 6, 7, 8));
  EXPECT_THAT(plan.groups, ElementsAre(RowGroup{0, {0, 6}, {{0, 3}}, OwnRows::kCausal}));
  EXPECT_EQ(plan.logits[0].row, 0);
}

TEST(GuidedDiffusion, AllDraftsMayStandAndTheNextBlockBegins) {
  Rounds rounds(settings(4, 2, {5}), {7});
  rounds.draft({10, 11});
  EXPECT_THAT(rounds.verify({0, 0}).committed, SizeIs(2));
  const StepReport draft = rounds.draft({12, 13});
  EXPECT_EQ(draft.block, 1);
  EXPECT_EQ(draft.step, 1);
  // The row of 11 has not been computed.
  EXPECT_THAT(rounds.decoder.plan().tokens, ElementsAre(11, 12));
  EXPECT_THAT(rounds.verify({0, 0}).committed, SizeIs(2));
  EXPECT_TRUE(rounds.decoder.done());
  EXPECT_EQ(rounds.decoder.stop_reason(), StopReason::kLength);
  EXPECT_THAT(rounds.answer(), ElementsAre(10, 11, 12, 13));
}

TEST(GuidedDiffusion, TheGuideGoesOnWhereItStoppedWhileAllDraftsStand) {
  GuidedDiffusion options = settings(5, 5, {5, 6});
  options.guide_block = 2;
  Rounds rounds(options, {7});
  rounds.draft({10, 11, 12, 13, 14});
  EXPECT_THAT(rounds.scored(), ElementsAre(10, 11));
  EXPECT_THAT(rounds.verify({0, 1}).committed, IsEmpty());
  EXPECT_EQ(rounds.decoder.role(), ModelRole::kGuide);
  EXPECT_THAT(rounds.decoder.plan().tokens, ElementsAre(11, 12));
  EXPECT_THAT(rounds.decoder.plan().groups, ElementsAre(RowGroup{0, {0, 2}, {{0, 3}}, OwnRows::kCausal}));
  EXPECT_THAT(rounds.scored(), ElementsAre(12, 13));
  EXPECT_THAT(rounds.verify({0, 2}).committed,
              ElementsAre(Commit{1, 10, 0.5}, Commit{2, 11, 0.5}, Commit{3, 12, 0.5}));
  EXPECT_EQ(rounds.decoder.role(), ModelRole::kMain);
}

TEST(GuidedDiffusion, WhereNoDraftStandsTheFirstIsCommitted) {
  Rounds rounds(settings(3, 3, {5}), {7});
  rounds.draft({10, 11, 12});
  EXPECT_THAT(rounds.verify({7, 0, 0}, 20).committed, ElementsAre(Commit{1, 10, 0.5}));
}

TEST(GuidedDiffusion, TheGuidesOwnTokenReplacesTheFirstDraftThatItRefuses) {
  GuidedDiffusion options = settings(4, 4, {5});
  options.fallback = GuideFallback::kGuide;
  Rounds rounds(options, {7});
  rounds.draft({10, 11, 12, 13});
  EXPECT_THAT(rounds.verify({0, 7, 0, 0}, 20).committed, ElementsAre(Commit{1, 10, 0.5}, Commit{2, 20, 0}));
  rounds.draft({14, 15});
  EXPECT_THAT(rounds.decoder.plan().tokens, ElementsAre(20, 14));  // the guide reads its own token
  EXPECT_THAT(rounds.verify({7, 0}, 21).committed, ElementsAre(Commit{3, 21, 0}));
  rounds.draft({16});
  EXPECT_THAT(rounds.verify({1}, 22).committed, ElementsAre(Commit{4, 16, 0.5}));  // nothing was refused
  EXPECT_THAT(rounds.answer(), ElementsAre(10, 20, 21, 16));
  EXPECT_TRUE(rounds.decoder.done());
}

TEST(GuidedDiffusion, AMaskThatTheGuideWouldWriteIsNotCommitted) {
  GuidedDiffusion options = settings(2, 2, {5});
  options.fallback = GuideFallback::kGuide;
  Rounds rounds(options, {7});
  rounds.draft({10, 11});
  EXPECT_THAT(rounds.verify({7, 0}, kMask).committed, ElementsAre(Commit{1, 10, 0.5}));
}

TEST(GuidedDiffusion, EndTokensStandForEachOther) {
  GuidedDiffusion options = settings(3, 3, {5});
  options.fallback = GuideFallback::kGuide;
  options.alignment = std::make_shared<SharedVocabulary>(SharedVocabulary::Side{kVocab, kEnd, {kEnd}},
                                                         SharedVocabulary::Side{kVocab, 15, {15}});
  Rounds rounds(options, {7});
  rounds.draft({10, kEnd, 11});
  EXPECT_THAT(rounds.scored(), ElementsAre(10, 15, 11));
  EXPECT_THAT(rounds.verify({7, 0, 0}, 15).committed, ElementsAre(Commit{1, kEnd, 0}));
}

TEST(GuidedDiffusion, TauLiteralReadsTheDraftsOwnLogit) {
  GuidedDiffusion options = settings(2, 2, {5});
  options.match = MatchTauLiteral{0.5};
  for (const bool stands : {false, true}) {
    Rounds rounds(options, {7});
    rounds.draft({10, 11}, stands ? 2.1F : 1.9F);
    rounds.decoder.plan();
    const std::vector<RowStatistics> rows(2, judged(5, -9, 4));
    EXPECT_THAT(rounds.decoder.apply({rows}).committed, SizeIs(stands ? 2 : 1));
  }
}

TEST(GuidedDiffusion, StopsAfterAnEndTokenWhereThatIsAskedFor) {
  for (const bool exits : {false, true}) {
    GuidedDiffusion options = settings(4, 4, {5});
    options.eos_exit = exits;
    Rounds rounds(options, {7});
    rounds.draft({10, kEnd, 12, 13});
    rounds.verify({0, 0, 7, 0});
    EXPECT_EQ(rounds.decoder.done(), exits);
    EXPECT_EQ(rounds.decoder.stop_reason(), StopReason::kEndToken);
  }
}

TEST(GuidedDiffusion, DraftsThatTheGuideHasNoRoomForAreNotJudged) {
  GuidedDiffusion options = settings(4, 4, {5, 6});
  options.guide_positions = 4;
  Rounds rounds(options, {7});
  EXPECT_EQ(rounds.decoder.num_guide_cells(), 4);
  rounds.draft({10, 11, 12, 13});
  EXPECT_THAT(rounds.scored(), ElementsAre(10, 11));
  EXPECT_THAT(rounds.verify({0, 0}).committed, SizeIs(2));
  EXPECT_THAT(rounds.draft({14, 15}).committed, ElementsAre(Commit{3, 14, 0.5}));
  EXPECT_THAT(rounds.draft({16}).committed, ElementsAre(Commit{4, 16, 0.5}));
  EXPECT_TRUE(rounds.decoder.done());
}

TEST(GuidedDiffusion, ACacheLeavesTheDraftsRows) {
  GuidedDiffusion options = settings(4, 2, {5});
  options.pass.cache = DualCache{};
  Rounds rounds(options, {7});
  rounds.draft({10, 11});
  rounds.verify({0, 7});
  EXPECT_THAT(rounds.decoder.plan().cells, ElementsAre(1, 2));  // the second pass of the block
  rounds.draft({11});
  rounds.verify({0});
  EXPECT_THAT(rounds.decoder.plan().cells, ElementsAre(0, 1, 2, 3, 4));
}

TEST(GuidedDiffusion, ALockLooksAtTheDraftPasses) {
  GuidedDiffusion options = settings(4, 4, {5});
  options.pass.lock = SureLock{};
  options.pass.lock->gate = 100;
  Rounds rounds(options, {7, 8});
  GuidedDiffusionDecoder& decoder = rounds.decoder;
  EXPECT_TRUE(decoder.needs().remembers_outputs);
  const auto settle = [&](StepReport report) {
    const std::vector<Drift> drifts(decoder.follow_up().probes.size());
    decoder.apply_follow_up({.drifts = drifts}, report);
    EXPECT_TRUE(decoder.follow_up().empty()) << "it is asked again";
    return report.locked;
  };
  EXPECT_THAT(settle(rounds.draft({10, 11, 12, 13})), IsEmpty());  // nothing to compare with
  EXPECT_THAT(settle(rounds.verify({0, 7, 0, 0})), IsEmpty());
  StepReport report = rounds.draft({11, 12, 13});
  EXPECT_THAT(decoder.follow_up().probes,
              ElementsAre(DriftProbe{0, -1, 0, 0}, DriftProbe{1, -1, 0, 1}, DriftProbe{2, -1, 0, 2}));
  EXPECT_THAT(settle(report), ElementsAre(0, 1, 2));  // this pass has read position 2's token
  report = rounds.verify({7, 0, 0});
  EXPECT_THAT(decoder.follow_up().probes, IsEmpty());
  EXPECT_THAT(settle(report), IsEmpty());
  EXPECT_THAT(decoder.plan().cells, ElementsAre(3, 4, 5));
}

// Other vocabularies

/// Says what it is told to, and remembers what it was asked.
class ToldAlignment final : public TokenAlignment {
 public:
  explicit ToldAlignment(GuideReading reading, std::optional<TokenId> own = {})
      : reading_(std::move(reading)), own_(own) {}

  GuideReading read(std::span<const TokenId> answer) const override {
    EXPECT_EQ(answer.size(), reading_.answer_ends.size());
    return reading_;
  }
  std::optional<TokenId> write(std::span<const TokenId> answer, const GuideReading&, size_t num_read,
                               TokenId guide_token) const override {
    asked_answer.assign(answer.begin(), answer.end());
    asked_num_read = num_read;
    asked_token = guide_token;
    return own_;
  }
  std::vector<TokenId> unreadable() const override { return {}; }

  mutable std::vector<TokenId> asked_answer;
  mutable size_t asked_num_read = 0;
  mutable TokenId asked_token = -1;

 private:
  GuideReading reading_;
  std::optional<TokenId> own_;
};

/// Two drafts of 3 and 2 bytes, that the guide reads as tokens of 2, 2 and 1 bytes.
std::shared_ptr<ToldAlignment> crossing(std::optional<TokenId> own = {}) {
  return std::make_shared<ToldAlignment>(GuideReading{{31, 32, 33}, {2, 4, 5}, {3, 5}}, own);
}

TEST(GuidedDiffusion, DrawsItsDraftsBySeedRoundAndPosition) {
  const auto [model, guide] = alike(3);
  GuidedDiffusion options = settings(12, 12, {5, 6});
  options.pass.sampling.temperature = 2;
  options.seed = 7;
  const Outcome first = decode(model, guide, options, {5, 6});
  EXPECT_EQ(decode(model, guide, options, {5, 6}).passes, first.passes);
  EXPECT_EQ(std::count(first.canvas.begin(), first.canvas.end(), kMask), 0);
  options.seed = 8;
  EXPECT_NE(decode(model, guide, options, {5, 6}).canvas, first.canvas);

  GuidedDiffusionDecoder decoder(options, {5, 6});
  const StepPlan plan = decoder.plan();
  EXPECT_EQ(plan.rules[0].temperature, 2);
  std::vector<uint64_t> keys;
  for (const LogitRow& logit : plan.logits) keys.push_back(logit.noise.key());
  decoder.apply({model.forward(plan)});
  decoder.apply({FakeCells(guide, decoder.num_guide_cells()).forward(decoder.plan())});
  for (const LogitRow& logit : decoder.plan().logits) keys.push_back(logit.noise.key());
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());  // a second round draws anew
}

TEST(GuidedDiffusion, ExactMatchesWriteTheGuidesTextWhateverIsDrafted) {
  const std::pair<FakeModel, FakeModel> models = alike(4);
  GuidedDiffusion options = settings(10, 5, {5, 6});
  options.match = MatchTopK{1};
  options.fallback = GuideFallback::kGuide;
  options.eos_exit = true;
  const auto text_of = [&](double temperature, int32_t top_k, uint64_t seed) {
    options.pass.sampling.temperature = static_cast<float>(temperature);
    options.pass.sampling.top_k = top_k;
    options.seed = seed;
    const std::vector<TokenId> canvas = decode(models.first, models.second, options, {5, 6}).canvas;
    return std::vector<TokenId>(canvas.begin(), std::find(canvas.begin(), canvas.end(), kEnd));
  };
  const std::vector<TokenId> greedy = text_of(0, 0, 0);
  for (uint64_t seed = 1; seed < 6; ++seed) {
    EXPECT_EQ(text_of(3, 0, seed), greedy);
    EXPECT_EQ(text_of(3, 4, seed), greedy);
  }
}

TEST(GuidedDiffusion, TheBestOfOneTokenIsTheGreedyDraft) {
  const auto [model, guide] = alike(5);
  GuidedDiffusion options = settings(8, 4, {5, 6});
  const Outcome greedy = decode(model, guide, options, {5, 6});
  options.pass.sampling.temperature = 1;
  options.pass.sampling.top_k = 1;
  EXPECT_EQ(decode(model, guide, options, {5, 6}).canvas, greedy.canvas);
}

TEST(GuidedDiffusion, TextsOfAnotherVocabularyMayNeedMoreCells) {
  GuidedDiffusion options = settings(2, 2, {5, 6});
  options.alignment = crossing();
  EXPECT_EQ(GuidedDiffusionDecoder(options, {7}).num_guide_cells(), 2 + 4 * 2);
  options.guide_positions = 7;
  EXPECT_EQ(GuidedDiffusionDecoder(options, {7}).num_guide_cells(), 7);
}

TEST(GuidedDiffusion, ADraftStandsIfEveryByteOfItBelongsToAcceptedTokens) {
  const auto committed = [](const std::vector<int32_t>& ranks) {
    GuidedDiffusion options = settings(2, 2, {5});
    options.alignment = crossing();
    Rounds rounds(options, {7});
    rounds.draft({10, 11});
    EXPECT_THAT(rounds.scored(), ElementsAre(31, 32, 33));
    return rounds.verify(ranks).committed.size();
  };
  EXPECT_EQ(committed({7, 0, 0}), 1U);  // the fallback
  EXPECT_EQ(committed({0, 7, 0}), 1U);  // the fallback again: 2 bytes of 3
  EXPECT_EQ(committed({0, 0, 7}), 1U);  // 4 bytes: the second draft lacks one
  EXPECT_EQ(committed({0, 0, 0}), 2U);
}

TEST(GuidedDiffusion, AGuideTokenMayCoverSeveralDrafts) {
  GuidedDiffusion options = settings(3, 3, {5});
  options.alignment = std::make_shared<ToldAlignment>(GuideReading{{31, 32}, {5, 6}, {2, 5, 6}});
  Rounds rounds(options, {7});
  rounds.draft({10, 11, 12});
  EXPECT_THAT(rounds.verify({0, 7}).committed, ElementsAre(Commit{1, 10, 0.5}, Commit{2, 11, 0.5}));
}

TEST(GuidedDiffusion, AsksForTheGuidesTokenAfterAllThatItRead) {
  GuidedDiffusion options = settings(2, 2, {5});
  options.fallback = GuideFallback::kGuide;
  const auto alignment = crossing(19);
  options.alignment = alignment;
  Rounds rounds(options, {7});
  rounds.draft({10, 11});
  EXPECT_THAT(rounds.verify({0, 0, 7}, 21).committed, ElementsAre(Commit{1, 10, 0.5}, Commit{2, 19, 0}));
  EXPECT_THAT(alignment->asked_answer, ElementsAre(10));
  EXPECT_EQ(alignment->asked_num_read, 2U);
  EXPECT_EQ(alignment->asked_token, 21);
}

TEST(GuidedDiffusion, WhereTheGuidesTokenCannotBeSaidTheDraftIsCommitted) {
  GuidedDiffusion options = settings(2, 2, {5});
  options.fallback = GuideFallback::kGuide;
  options.alignment = crossing();
  Rounds rounds(options, {7});
  rounds.draft({10, 11});
  EXPECT_THAT(rounds.verify({7, 0, 0}, 21).committed, ElementsAre(Commit{1, 10, 0.5}));
}

TEST(GuidedDiffusion, AGuideTokenAcrossTheCommittedEndIsJudgedAgain) {
  // Committed is 10, three bytes; the guide's second token begins in it and ends in a draft.
  GuidedDiffusion options = settings(2, 2, {5});
  options.alignment = crossing();
  Rounds rounds(options, {7});
  rounds.draft({10, 11});
  ASSERT_THAT(rounds.verify({7, 0, 0}).committed, SizeIs(1));
  rounds.draft({11});
  EXPECT_THAT(rounds.scored(), ElementsAre(32, 33));
  EXPECT_THAT(rounds.decoder.plan().tokens, ElementsAre(31, 32));
  EXPECT_THAT(rounds.verify({0, 0}).committed, ElementsAre(Commit{2, 11, 0.5}));
}

TEST(GuidedDiffusion, ReadsAgainFromWhereTheGuidesTokensChange) {
  // A reading by length: one token per answer token, but the first two merge once there are three.
  class Merging final : public TokenAlignment {
   public:
    GuideReading read(std::span<const TokenId> answer) const override {
      GuideReading reading;
      const bool merges = answer.size() > 1 && answer[1] == 12;
      for (size_t i = 0; i < answer.size(); ++i) {
        reading.answer_ends.push_back(static_cast<int32_t>(i) + 1);
        if (merges && i == 0) continue;
        reading.tokens.push_back(merges && i == 1 ? 99 : answer[i]);
        reading.guide_ends.push_back(static_cast<int32_t>(i) + 1);
      }
      return reading;
    }
    std::optional<TokenId> write(std::span<const TokenId>, const GuideReading&, size_t,
                                 TokenId) const override {
      return {};
    }
    std::vector<TokenId> unreadable() const override { return {}; }
  };
  GuidedDiffusion options = settings(4, 4, {5, 6});
  options.alignment = std::make_shared<Merging>();
  Rounds rounds(options, {7});
  rounds.draft({10, 11, 13, 14});
  rounds.verify({0, 7, 0, 0});
  rounds.draft({12, 13, 14});
  EXPECT_THAT(rounds.scored(), ElementsAre(99, 13, 14));
  EXPECT_THAT(rounds.decoder.plan().tokens, ElementsAre(6, 99, 13));
  EXPECT_THAT(rounds.decoder.plan().positions, ElementsAre(1, 2, 3));
}

TEST(GuidedDiffusion, RefusesAnotherNumberOfDrawsThanPlanned) {
  GuidedDiffusionDecoder decoder(settings(2, 2, {5}), {7});
  EXPECT_THROW(decoder.apply({}), std::logic_error);
  decoder.plan();
  EXPECT_THROW(decoder.apply({}), std::logic_error);
}

/// A guide whose tokens all end where the answer does, as a normalised text may be read.
class OneSegment final : public TokenAlignment {
 public:
  GuideReading read(std::span<const TokenId>) const override { return {{31, 32}, {4, 4}, {1, 2, 3, 4}}; }
  std::optional<TokenId> write(std::span<const TokenId>, const GuideReading&, size_t,
                               TokenId token) const override {
    return token;
  }
  std::vector<TokenId> unreadable() const override { return {}; }
};

TEST(GuidedDiffusion, TokensThatEndInOnePlaceStandOrFallTogether) {
  for (const GuideFallback fallback : {GuideFallback::kDraft, GuideFallback::kGuide}) {
    GuidedDiffusion options = settings(4, 4, {5});
    options.alignment = std::make_shared<OneSegment>();
    options.fallback = fallback;
    GuidedDiffusionDecoder decoder(options, {7});
    decoder.plan();
    decoder.apply({std::vector<RowStatistics>(4, RowStatistics{10, 0.5})});
    decoder.plan();
    const RowStatistics stands;
    RowStatistics falls;
    falls.scored_rank = 9;
    falls.token = 14;
    EXPECT_THAT(decoder.apply({std::vector<RowStatistics>{stands, falls}}).committed, SizeIs(1));
  }
}

}  // namespace
}  // namespace lacuna::guided_diffusion_test
