#include "options/parse_policies.h"

#include <gmock/gmock.h>

#include <string>

#include "base/error.h"

namespace lacuna::parse_policies_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

template <typename Call, typename... Parts>
void expect_refusal(Call&& call, const Parts&... parts) {
  EXPECT_THAT(call, ThrowsMessage<InputError>(AllOf(HasSubstr(parts)...)));
}

template <typename... Parts>
void expect_lock_refusal(const std::string& text, const Parts&... parts) {
  expect_refusal([&] { parse_lock(text); }, "--lock", parts...);
}

TEST(ParseCache, KnowsEveryNameOfThePage) {
  EXPECT_EQ(parse_cache("none", 0, 32, false), CachePolicy(NoCache{}));
  EXPECT_EQ(parse_cache("prefix", 0, 32, false), CachePolicy(PrefixCache{0}));
  EXPECT_EQ(parse_cache("dual", 0, 32, false), CachePolicy(DualCache{0}));
  EXPECT_EQ(parse_cache("free", 0, 16, false), CachePolicy(FreeCache{16, false, 0}));
  EXPECT_EQ(parse_cache("free-literal", 0, 16, false), CachePolicy(FreeCache{16, true, 0}));
  EXPECT_EQ(parse_cache("sparse-dllm", 0, 16, false), CachePolicy(SparseDllm{0.5, 3, 0}));
}

TEST(ParseCache, TakesTheNumbersOfDllmCacheAndThePublishedIntervalsOtherwise) {
  EXPECT_EQ(parse_cache("dllm-cache", 0, 16, false), CachePolicy(DllmCache{0.25, 7, 50}));
  EXPECT_EQ(parse_cache("dllm-cache", 0, 16, true), CachePolicy(DllmCache{0.25, 2, 25}));
  EXPECT_EQ(parse_cache("dllm-cache=0.5,answer=3", 9, 16, true), CachePolicy(DllmCache{0.5, 3, 9}));
  EXPECT_EQ(parse_cache("dllm-cache,answer=1", 1, 16, false), CachePolicy(DllmCache{0.25, 1, 1}));
  for (const std::string text :
       {"dllm-cache=0", "dllm-cache,answer=0", "dllm-cache,keep=1", "dllm-cache,", "dllm"})
    EXPECT_THROW(parse_cache(text, 0, 16, false), SettingError) << text;
}

TEST(ParseCache, TakesTheNumbersOfSparseDllm) {
  EXPECT_EQ(parse_cache("sparse-dllm=0.7", 6, 16, false), CachePolicy(SparseDllm{0.7, 3, 6}));
  EXPECT_EQ(parse_cache("sparse-dllm=1,pool=5", 0, 16, true), CachePolicy(SparseDllm{1, 5, 0}));
  EXPECT_EQ(parse_cache("sparse-dllm,pool=1", 0, 16, true), CachePolicy(SparseDllm{0.5, 1, 0}));
  const auto refused = [](const std::string& text, const std::string& why) {
    expect_refusal([&] { parse_cache(text, 0, 32, false); }, "--cache", why);
  };
  refused("sparse-dllm=0", "expected a number from 0.01 to 1");
  refused("sparse-dllm=1.1", "expected a number from 0.01 to 1");
  refused("sparse-dllm=", "expected a number from 0.01 to 1");
  refused("sparse-dllm,pool=0", "expected a number from 1 to");
  refused("sparse-dllm,", "nothing follows the last comma");
  refused("sparse-dllm=0.5,", "nothing follows the last comma");
  refused("sparse-dllm,ratio=2", "knows no 'ratio'; expected keep or pool");
  refused("sparse-dllms", "expected none, prefix, dual");
}

TEST(ParseCache, TakesTheNumbersOfD2Cache) {
  EXPECT_EQ(parse_cache("d2cache", 0, 16, false), CachePolicy(D2Cache{32, 0.1, 10, 0, 0}));
  EXPECT_EQ(parse_cache("d2cache=4,sigma=2.5", 6, 16, true), CachePolicy(D2Cache{4, 0.1, 2.5, 0, 6}));
  EXPECT_EQ(parse_cache("d2cache,rollout=0,inflate=3", 0, 16, true), CachePolicy(D2Cache{32, 0, 10, 3, 0}));
  const auto refused = [](const std::string& text, const std::string& why) {
    expect_refusal([&] { parse_cache(text, 0, 32, false); }, "--cache", why);
  };
  refused("d2cache=0", "expected a number from 1 to");
  refused("d2cache,rollout=1.5", "expected a number from 0 to 1");
  refused("d2cache,sigma=0", "expected a number from 0.1 to 100");
  refused("d2cache,p=2", "knows no 'p'; expected current, rollout, sigma or inflate");
  refused("d2cached", "expected none, prefix, dual");
}

TEST(ParseCache, RefreshesAsOftenAsIsAskedFor) {
  EXPECT_EQ(parse_cache("prefix", 3, 32, false), CachePolicy(PrefixCache{3}));
  EXPECT_EQ(parse_cache("dual", 4, 32, true), CachePolicy(DualCache{4}));
  EXPECT_EQ(parse_cache("free", 5, 16, true), CachePolicy(FreeCache{16, false, 5}));
  EXPECT_EQ(parse_cache("dkv", 6, 32, false), CachePolicy(DkvCache{6}));
  EXPECT_EQ(parse_cache("dkv", 6, 32, true), CachePolicy(DkvCache{6}));
  EXPECT_EQ(parse_cache("delayed=3", 7, 0, true), CachePolicy(FreeCache{0, false, 7, 3}));
}

TEST(ParseCache, DelayedWaitsByItsFamily) {
  EXPECT_EQ(parse_cache("delayed", 0, 16, false), CachePolicy(FreeCache{16, false, 0, 2}));
  EXPECT_EQ(parse_cache("delayed", 0, 16, true), CachePolicy(FreeCache{16, false, 0, 1}));
  for (const char* const text : {"delayed=0", "delayed=", "delayed=x", "delayed=1.5"})
    expect_refusal([&] { parse_cache(text, 0, 32, false); }, "--cache", "delayed is", "from 1 to");
  expect_refusal([&] { parse_cache("delayedly", 0, 32, false); }, "expected none, prefix");
}

TEST(ParseCache, DkvRefreshesByItsFamily) {
  EXPECT_EQ(parse_cache("dkv", 0, 32, false), CachePolicy(DkvCache{8}));
  EXPECT_EQ(parse_cache("dkv", 0, 32, true), CachePolicy(DkvCache{4}));
}

TEST(ParseCache, AnswersAnUnknownNameWithTheList) {
  for (const std::string text : {"", "Dual", "free-", "dkv=8", "fast", "sparse"}) {
    expect_refusal(
        [&] { parse_cache(text, 0, 32, false); }, "--cache is '" + text + "'",
        "none, prefix, dual, free, free-literal, delayed, dkv, sparse-dllm, dllm-cache or d2cache");
  }
}

TEST(ParseLock, TakesDefaultsForWhatIsNotGiven) {
  SureLock expected;
  expected.eps = 0.25;
  EXPECT_EQ(parse_lock("eps=0.25"), expected);
}

TEST(ParseLock, TakesEverySettingInAnyOrder) {
  SureLock expected;
  expected.eps = 1e-3;
  expected.delta = 0.5;
  expected.gate = 12.5;
  expected.min_age = 0;
  expected.gate_counts_unlocked = true;
  expected.eager_prompt = true;
  expected.unlock_every = 3;
  expected.probes = 7;
  expected.unlock_eps = 0.02;
  expected.min_locked_passes = 5;
  expected.cooldown = 6;
  expected.strictness = 0.125;
  EXPECT_EQ(
      parse_lock("eps=1e-3,delta=0.5,gate=12.5,min-age=0,population=unlocked,prompt=eager,unlock-every=3,"
                 "budget=7,unlock-eps=0.02,interval=5,cooldown=6,strictness=0.125"),
      expected);
  EXPECT_EQ(parse_lock("strictness=0.125,cooldown=6,interval=5,unlock-eps=0.02,budget=7,unlock-every=3,"
                       "prompt=eager,population=unlocked,min-age=0,gate=12.5,delta=0.5,eps=1e-3"),
            expected);
}

TEST(ParseLock, NamesOfThePapersChoicesAreTheDefaults) {
  EXPECT_EQ(parse_lock("eps=1,population=candidates,prompt=paper"), parse_lock("eps=1"));
}

TEST(ParseLock, AGateThatIsOffIsOneOfAHundredPercent) {
  EXPECT_EQ(parse_lock("eps=1,gate=off").gate, 100);
  EXPECT_EQ(parse_lock("eps=1,gate=100").gate, 100);
  EXPECT_EQ(parse_lock("eps=1,gate=0").gate, 0);
}

TEST(ParseLock, DeltaAloneHasNoEpsToFallBackOn) {
  EXPECT_EQ(parse_lock("delta=0.1").eps, 0);
  EXPECT_EQ(parse_lock("delta=0.1").delta, 0.1);
  EXPECT_EQ(parse_lock("delta=0.1,eps=5e-4").eps, 5e-4);
}

TEST(ParseLock, NeedsABound) {
  expect_lock_refusal("", "eps=EPS or delta=DELTA");
  expect_lock_refusal("gate=20", "'gate=20'", "eps=EPS or delta=DELTA");
}

TEST(ParseLock, RefusesWhatItDoesNotKnow) {
  expect_lock_refusal("eps=1,min_age=1", "no 'min_age'", "min-age");
  expect_lock_refusal("eps=1,Gate=1", "no 'Gate'");
  expect_lock_refusal("eps=1,,gate=2", "''");
  expect_lock_refusal("eps", "'eps' has no value");
  expect_lock_refusal("5e-4", "'5e-4' has no value");
}

TEST(ParseLock, RefusesASettingGivenTwice) {
  expect_lock_refusal("eps=1,gate=20,eps=1", "eps is given twice");
}

TEST(ParseLock, RefusesValuesThatAreNoNumbersOrOutOfRange) {
  for (const std::string value : {"", "x", "-1", "nan", "inf", "1e999", "0.5x", " 1", "1 "}) {
    expect_lock_refusal("eps=" + value, "eps is '" + value + "'", "a number from 0 to");
  }
  expect_lock_refusal("delta=0", "delta is '0'");
  expect_lock_refusal("eps=1,gate=100.5", "gate is '100.5'", "0 to 100");
  expect_lock_refusal("eps=1,gate=on", "gate is 'on'");
  expect_lock_refusal("eps=1,min-age=-1", "min-age is '-1'");
  expect_lock_refusal("eps=1,min-age=0.5", "min-age is '0.5'");
  expect_lock_refusal("eps=1,min-age=99999999999", "min-age is '99999999999'");
  expect_lock_refusal("eps=1,unlock-every=0", "unlock-every is '0'", "from 1 to");
  expect_lock_refusal("eps=1,unlock-every=2,budget=0", "budget is '0'", "from 1 to");
  expect_lock_refusal("eps=1,unlock-every=2,strictness=1.5", "strictness is '1.5'", "0 to 1");
  expect_lock_refusal("eps=1,population=all", "population is 'all'", "candidates or unlocked");
  expect_lock_refusal("eps=1,prompt=", "prompt is ''", "paper or eager");
}

TEST(ParseLock, RefusesSettingsThatWouldHaveNoEffect) {
  for (const char* setting : {"budget=32", "unlock-eps=1", "interval=4", "cooldown=4", "strictness=0.5"}) {
    const std::string name(setting, std::string(setting).find('='));
    expect_lock_refusal("eps=1," + std::string(setting), name + " has no effect without unlock-every");
    EXPECT_NO_THROW(parse_lock("eps=1,unlock-every=1," + std::string(setting)));
  }
  expect_lock_refusal("eps=1,gate=off,population=unlocked", "population has no effect without a gate");
}

TEST(ParseGuide, KnowsEveryMatchOfThePage) {
  EXPECT_EQ(parse_guide_match("exact"), GuideMatch(MatchTopK{1}));
  EXPECT_EQ(parse_guide_match("top-k=5"), GuideMatch(MatchTopK{5}));
  EXPECT_EQ(parse_guide_match("top-k"), GuideMatch(MatchTopK{2}));
  EXPECT_EQ(parse_guide_match("relative=0.25"), GuideMatch(MatchRelative{0.25}));
  EXPECT_EQ(parse_guide_match("tau-literal=0.75"), GuideMatch(MatchTauLiteral{0.75}));
}

TEST(ParseGuide, RefusesOtherMatches) {
  for (const std::string text : {"", "topk=2", "exact=1", "Exact"}) {
    expect_refusal([&] { parse_guide_match(text); }, "--guide-match is '" + text + "'",
                   "exact, top-k=K, relative=R or tau-literal=T");
  }
  for (const std::string value : {"", "0", "-1", "1.5", "x", "9999999999"}) {
    expect_refusal([&] { parse_guide_match("top-k=" + value); }, "--guide-match top-k is '" + value + "'");
  }
  for (const std::string value : {"", "-0.1", "1.1", "nan"}) {
    expect_refusal([&] { parse_guide_match("relative=" + value); },
                   "--guide-match relative is '" + value + "'", "0 to 1");
  }
  expect_refusal([] { parse_guide_match("tau-literal=-1"); }, "--guide-match tau-literal is '-1'");
}

TEST(ParseGuide, KnowsBothFallbacks) {
  EXPECT_EQ(parse_guide_fallback("dlm"), GuideFallback::kDraft);
  EXPECT_EQ(parse_guide_fallback("ar"), GuideFallback::kGuide);
  for (const std::string text : {"", "AR", "guide"}) {
    expect_refusal([&] { parse_guide_fallback(text); }, "--guide-fallback is '" + text + "'", "dlm or ar");
  }
}

TEST(ParseSparse, KnowsEveryPolicyOfThePage) {
  EXPECT_EQ(parse_sparse("exact"), SparsePolicy(ExactAttention{}));
  EXPECT_EQ(parse_sparse("mage=256"), SparsePolicy(Mage{256}));
  EXPECT_EQ(parse_sparse("mage=256,dense-layers=0"), SparsePolicy(Mage{256, 0}));
  EXPECT_EQ(parse_sparse("quest=64,dense-layers=1"), SparsePolicy(Quest{64, 16, 1}));
  EXPECT_EQ(parse_sparse("sparsed=64,dense-layers=3"), SparsePolicy(SparseD{64, 0.2, 3}));
  EXPECT_EQ(parse_sparse("quest=64"), SparsePolicy(Quest{64, 16}));
  EXPECT_EQ(parse_sparse("quest=64,page=8"), SparsePolicy(Quest{64, 8}));
  EXPECT_EQ(parse_sparse("sparsed=64"), SparsePolicy(SparseD{64, 0.2}));
  EXPECT_EQ(parse_sparse("sparsed=64,exact=0.5"), SparsePolicy(SparseD{64, 0.5}));
  EXPECT_EQ(parse_sparse("flashblock=3"), SparsePolicy(FlashBlock{3, 0}));
  EXPECT_EQ(parse_sparse("flashblock=3,dense-layers=2"), SparsePolicy(FlashBlock{3, 2}));
  EXPECT_EQ(parse_sparse("losa=64"), SparsePolicy(Losa{64, 16, 0.3125, 2}));
  EXPECT_EQ(parse_sparse("losa=64,page=8,active=0.5,dense-layers=0"), SparsePolicy(Losa{64, 8, 0.5, 0}));
}

TEST(ParseSparse, RefusesOthers) {
  expect_refusal([] { parse_sparse("full"); }, "--sparse is 'full'", "exact, mage=K");
  expect_refusal([] { parse_sparse("mage"); }, "'mage' has no value");
  expect_refusal([] { parse_sparse("mage=0"); }, "--sparse mage is '0'");
  expect_refusal([] { parse_sparse("mage=8,page=2"); }, "--sparse mage has no 'page'");
  expect_refusal([] { parse_sparse("quest=8"); }, "less than a page of 16");
  expect_refusal([] { parse_sparse("sparsed=8,exact=1.5"); }, "--sparse exact is '1.5'");
  expect_refusal([] { parse_sparse("flashblock=0"); }, "--sparse flashblock is '0'");
  expect_refusal([] { parse_sparse("flashblock=2,page=4"); }, "--sparse flashblock has no 'page'");
  expect_refusal([] { parse_sparse("losa=8"); }, "less than a page of 16");
  expect_refusal([] { parse_sparse("losa=64,active=0"); }, "--sparse active is '0'");
}

TEST(ParseEditing, KnowsItsTwoNumbers) {
  const TokenEditing editing = parse_editing("most=3,tau=0.25");
  EXPECT_EQ(editing.tau, 0.25);
  EXPECT_EQ(editing.most, 3);
  expect_refusal([] { parse_editing("steps=3"); }, "--edit knows no 'steps'", "tau or most");
}

}  // namespace
}  // namespace lacuna::parse_policies_test
