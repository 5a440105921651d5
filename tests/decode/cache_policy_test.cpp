#include "decode/cache_policy.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/overloaded.h"
#include "base/rng.h"

namespace lacuna::cache_policy_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;

constexpr TokenId kMask = 2;

std::vector<int32_t> range(int32_t begin, int32_t end) {
  std::vector<int32_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

/// A canvas after one pass over everything.
Canvas read_once(std::vector<TokenId> prompt, int32_t gen_length, bool shifted = false) {
  Canvas canvas(std::move(prompt), gen_length, kMask, shifted);
  canvas.count_pass(range(0, canvas.length()));
  return canvas;
}

std::vector<int32_t> rows_of(const CachePolicy& policy, const Canvas& canvas, const Block& block,
                             const std::vector<int32_t>& drawn = {}) {
  return choose_rows(policy, canvas, block, drawn).rows;
}

const std::vector<CachePolicy>& every_policy() {
  static const std::vector<CachePolicy> policies = {NoCache{},
                                                    PrefixCache{},
                                                    PrefixCache{3},
                                                    DualCache{},
                                                    DualCache{2},
                                                    FreeCache{4, false},
                                                    FreeCache{3, true},
                                                    FreeCache{1, false, 5},
                                                    FreeCache{2, true, 4},
                                                    DkvCache{8},
                                                    FreeCache{2, false, 0, 2},
                                                    FreeCache{2, false, 3, 1},
                                                    DkvCache{3},
                                                    SparseDllm{},
                                                    SparseDllm{0.3, 1, 3},
                                                    DllmCache{0.25, 2, 3},
                                                    DllmCache{}};
  return policies;
}

TEST(CachePolicy, TheFirstPassComputesEverything) {
  for (const CachePolicy& policy : every_policy()) {
    for (const bool shifted : {false, true}) {
      const Canvas canvas({7, 8}, 4, kMask, shifted);
      EXPECT_EQ(rows_of(policy, canvas, {0, 2, 4, 0}), range(0, 6));
      // A request may also begin in a block that is not new: what no pass has computed has no K/V.
      EXPECT_EQ(rows_of(policy, canvas, {1, 4, 6, 5}), range(0, 6));
      EXPECT_TRUE(choose_rows(policy, canvas, {1, 4, 6, 5}, {}).nothing_is_stale);
    }
  }
}

TEST(CachePolicy, NoCacheComputesEverythingEveryTime) {
  const Canvas canvas = read_once({7, 8}, 4);
  const CachedPass pass = choose_rows(NoCache{}, canvas, {1, 4, 6, 2}, {});
  EXPECT_EQ(pass.rows, range(0, 6));
  EXPECT_TRUE(pass.nothing_is_stale);
}

TEST(CachePolicy, PrefixKeepsWhatPrecedesTheBlockUntilTheNextBlock) {
  for (const auto& [shifted, live] : {std::pair(false, 5), std::pair(true, 4)}) {
    const Canvas canvas = read_once({7, 8, 9}, 6, shifted);
    const CachedPass first = choose_rows(PrefixCache{}, canvas, {1, 5, 7, 0}, {});
    EXPECT_EQ(first.rows, range(0, 9));
    EXPECT_TRUE(first.nothing_is_stale);
    for (const int32_t pass : {1, 2, 7}) {
      const CachedPass later = choose_rows(PrefixCache{}, canvas, {1, 5, 7, pass}, {});
      EXPECT_EQ(later.rows, range(live, 9));
      EXPECT_FALSE(later.nothing_is_stale);
    }
  }
}

TEST(CachePolicy, DualKeepsWhatFollowsTheBlockToo) {
  for (const auto& [shifted, live] : {std::pair(false, 5), std::pair(true, 4)}) {
    const Canvas canvas = read_once({7, 8, 9}, 6, shifted);
    const CachedPass first = choose_rows(DualCache{}, canvas, {1, 5, 7, 0}, {});
    EXPECT_EQ(first.rows, range(0, 9));
    EXPECT_TRUE(first.nothing_is_stale);
    for (const int32_t pass : {1, 2, 7}) {
      const CachedPass later = choose_rows(DualCache{}, canvas, {1, 5, 7, pass}, {});
      EXPECT_EQ(later.rows, range(live, 7));
      EXPECT_FALSE(later.nothing_is_stale);
    }
  }
}

TEST(CachePolicy, DelayedKeepsABlockSomePassesAfterItIsWritten) {
  for (const auto& [shifted, before] : {std::pair(false, 0), std::pair(true, 1)}) {
    Canvas canvas({7}, 4, kMask, shifted);
    const FreeCache policy{.block = 2, .refresh = 8, .delay = 2};
    std::vector<int32_t> begins;
    for (int32_t pass = 1; pass <= 9; ++pass) {
      const CachedPass chosen = choose_rows(policy, canvas, {0, 1, 5, pass - 1}, {});
      EXPECT_EQ(chosen.rows.back(), 4);
      EXPECT_EQ(chosen.nothing_is_stale, chosen.rows.front() == 0);
      begins.push_back(chosen.rows.front());
      canvas.count_pass(chosen.rows);
      if (pass != 3) continue;
      canvas.commit({1, 7, 0});
      canvas.commit({2, 7, 0});
    }
    const int32_t prompt = 1 - before, block = 3 - before;
    // Passes 4 and 5 compute everything, 6 keeps the block, and 8 refreshes.
    EXPECT_THAT(begins, ElementsAre(0, 0, prompt, 0, 0, prompt, block, 0, block));
  }
}

TEST(CachePolicy, DelayedTakesWhatIsWrittenIntoAPromptForABlock) {
  const FreeCache policy{.block = 2, .delay = 2};
  const auto begins = [&](const std::vector<TokenId>& prompt) {
    Canvas canvas(prompt, 2, kMask, false);
    std::vector<int32_t> result;
    for (int32_t pass = 1; pass <= 5; ++pass) {
      const CachedPass chosen = choose_rows(policy, canvas, {0, 2, 4, pass - 1}, {});
      result.push_back(chosen.rows.front());
      canvas.count_pass(chosen.rows);
      if (pass == 1) canvas.commit({1, 7, 0});
    }
    return result;
  };
  EXPECT_THAT(begins({7, 7}), ElementsAre(0, 0, 2, 2, 2));
  EXPECT_THAT(begins({7, kMask}), ElementsAre(0, 0, 0, 0, 2)) << "2 and 3 wait, 4 keeps it";
}

TEST(CachePolicy, WithoutAPromptTheFirstBlockBeginsAtRowZeroInEveryFamily) {
  for (const bool shifted : {false, true}) {
    const Canvas canvas = read_once({}, 6, shifted);
    EXPECT_EQ(rows_of(DualCache{}, canvas, {0, 0, 3, 1}), range(0, 3));
    EXPECT_EQ(rows_of(PrefixCache{}, canvas, {1, 3, 6, 1}), range(shifted ? 2 : 3, 6));
  }
}

TEST(CachePolicy, RefreshOfPrefixAndDualCountsThePassesOfTheBlock) {
  Canvas canvas = read_once({7, 8, 9}, 6);
  canvas.count_pass({});  // the request's own count, 2, says nothing here
  for (int32_t pass = 0; pass < 10; ++pass) {
    const bool is_due = pass == 0 || pass == 3 || pass == 6 || pass == 9;
    const CachedPass prefix = choose_rows(PrefixCache{3}, canvas, {0, 3, 6, pass}, {});
    const CachedPass dual = choose_rows(DualCache{3}, canvas, {0, 3, 6, pass}, {});
    EXPECT_EQ(prefix.rows, is_due ? range(0, 9) : range(3, 9)) << pass;
    EXPECT_EQ(dual.rows, is_due ? range(0, 9) : range(3, 6)) << pass;
    EXPECT_EQ(prefix.nothing_is_stale, is_due) << pass;
    EXPECT_EQ(dual.nothing_is_stale, is_due) << pass;
  }
}

/// Three positions of a prompt and two blocks of four.
CachedPass sparse_pass(const SparseDllm& policy, const Canvas& canvas, int32_t pass,
                       const std::vector<int32_t>& drawn) {
  return choose_rows(policy, canvas, {1, 7, 11, pass}, drawn);
}

TEST(CachePolicy, SparseDllmRemembersInTheSecondPassOfABlockWhatTheOthersSee) {
  for (const auto& [shifted, live] : {std::pair(false, 7), std::pair(true, 6)}) {
    const Canvas canvas = read_once({7, 8, 9}, 12, shifted);
    const CachedPass first = sparse_pass({}, canvas, 0, {7, 8});
    EXPECT_EQ(first.rows, range(0, 15));
    EXPECT_EQ(first.sparse, SparseAttention());
    const CachedPass second = sparse_pass({}, canvas, 1, {7, 8});
    EXPECT_EQ(second.rows, range(0, 15));
    EXPECT_TRUE(second.nothing_is_stale);
    SparseAttention sparse{SparseAttention::Choice::kAllAndRememberScored, {0, 15}, 5};  // half of 11 or 10
    sparse.dense_layers = 0;
    sparse.except = {live, 11};
    EXPECT_EQ(second.sparse, sparse);
    EXPECT_EQ(second.live, (IndexRange{live, 11}));
    sparse.choice = SparseAttention::Choice::kRemembered;
    for (const int32_t pass : {2, 3, 9}) {
      const CachedPass later = sparse_pass({}, canvas, pass, {7, 8});
      EXPECT_EQ(later.rows, range(live, 11));
      EXPECT_FALSE(later.nothing_is_stale);
      EXPECT_EQ(later.sparse, sparse);
    }
  }
}

TEST(CachePolicy, SparseDllmChoosesAnewWhereAPassNeedsOtherRowsAndBeginsAnewAfterARefresh) {
  using Choice = SparseAttention::Choice;
  const Canvas canvas = read_once({7, kMask, 9}, 12);
  const CachedPass pass = sparse_pass({}, canvas, 5, {1, 8});
  EXPECT_EQ(pass.rows, range(0, 15));
  EXPECT_EQ(pass.sparse.choice, Choice::kAllAndRememberScored);
  std::vector<Choice> choices;
  for (int32_t i = 0; i < 6; ++i) choices.push_back(sparse_pass({0.5, 3, 3}, canvas, i, {8}).sparse.choice);
  EXPECT_THAT(choices, ElementsAre(Choice::kAll, Choice::kAllAndRememberScored, Choice::kRemembered,
                                   Choice::kAll, Choice::kAllAndRememberScored, Choice::kRemembered));
}

TEST(CachePolicy, SparseDllmKeepsAtLeastOneCellAndAllOfThemExactly) {
  const Canvas canvas = read_once({7, 8, 9}, 12);
  EXPECT_EQ(sparse_pass({0.01}, canvas, 1, {8}).sparse.budget, 1);
  EXPECT_EQ(sparse_pass({0.99}, canvas, 1, {8}).sparse.budget, 10);
  const CachedPass all = sparse_pass({1}, canvas, 2, {8});
  EXPECT_EQ(all.sparse, SparseAttention()) << "the cache of DualCache";
  EXPECT_EQ(all.rows, range(7, 11));
  const Canvas alone = read_once({}, 4);
  EXPECT_EQ(choose_rows(SparseDllm{}, alone, {0, 0, 4, 2}, std::vector<int32_t>{1}).sparse,
            SparseAttention());
}

TEST(CachePolicy, RefreshOfFreeAndDkvCountsThePassesOfTheRequest) {
  Canvas canvas({7, 8, 9}, 3, kMask, false);
  for (int32_t pass = 0; pass < 9; ++pass) {
    const bool is_due = pass == 0 || pass == 4 || pass == 8;
    const Block block{0, 3, 6, 2 + pass % 3};
    EXPECT_EQ(rows_of(FreeCache{3, false, 4}, canvas, block), is_due ? range(0, 6) : range(3, 6)) << pass;
    EXPECT_EQ(rows_of(DkvCache{4}, canvas, block), is_due ? range(0, 6) : range(3, 6)) << pass;
    canvas.count_pass(range(0, 6));
  }
}

TEST(CachePolicy, RefreshInEveryPassIsNoCacheAtAll) {
  const std::vector<CachePolicy> policies = {PrefixCache{1}, DualCache{1}, FreeCache{2, false, 1},
                                             FreeCache{2, true, 1}, DkvCache{1}};
  for (const CachePolicy& policy : policies) {
    Canvas canvas = read_once({7, 8}, 4);
    for (int32_t pass = 1; pass < 5; ++pass) {
      const CachedPass chosen = choose_rows(policy, canvas, {0, 2, 4, pass}, {});
      EXPECT_EQ(chosen.rows, range(0, 6));
      EXPECT_TRUE(chosen.nothing_is_stale);
      canvas.count_pass(chosen.rows);
      if (canvas.is_masked(1 + pass)) canvas.commit({1 + pass, 9, 1});
    }
  }
}

TEST(CachePolicy, FreeFreezesThePromptOnceItHasBeenRead) {
  const Canvas plain = read_once({7, 8, 9}, 4);
  EXPECT_EQ(rows_of(FreeCache{2}, plain, {0, 3, 7, 1}), range(3, 7));
  const Canvas shifted = read_once({7, 8, 9}, 4, true);
  EXPECT_EQ(rows_of(FreeCache{2}, shifted, {0, 3, 7, 1}), range(2, 7));  // row 2 predicts position 3
}

TEST(CachePolicy, FreeNeverFreezesPartOfAPrompt) {
  Canvas canvas = read_once({7, kMask, 9}, 2);
  EXPECT_EQ(rows_of(FreeCache{1}, canvas, {0, 3, 5, 1}), range(0, 5));
  canvas.commit({1, 8, 1});
  EXPECT_EQ(rows_of(FreeCache{1}, canvas, {0, 3, 5, 1}), range(0, 5));  // nobody has read the 8
  EXPECT_EQ(rows_of(FreeCache{1, true}, canvas, {0, 3, 5, 1}), range(3, 5));
  canvas.count_pass(range(0, 5));
  EXPECT_EQ(rows_of(FreeCache{1}, canvas, {0, 3, 5, 1}), range(3, 5));
}

TEST(CachePolicy, FreeFreezesACacheBlockOnePassAfterItsLastToken) {
  for (const bool shifted : {false, true}) {
    const int32_t live = shifted ? 1 : 0;
    Canvas canvas = read_once({7}, 5, shifted);  // cache blocks [1, 3), [3, 5), [5, 6)
    const Block block{0, 1, 6, 1};
    canvas.commit({1, 9, 1});
    canvas.commit({3, 9, 1});
    EXPECT_EQ(rows_of(FreeCache{2}, canvas, block), range(1 - live, 6));
    canvas.count_pass(range(1 - live, 6));
    canvas.commit({2, 9, 1});
    EXPECT_EQ(rows_of(FreeCache{2}, canvas, block), range(1 - live, 6));  // the delay
    EXPECT_EQ(rows_of(FreeCache{2, true}, canvas, block), range(3 - live, 6));
    canvas.count_pass(range(1 - live, 6));
    EXPECT_EQ(rows_of(FreeCache{2}, canvas, block), range(3 - live, 6));
    canvas.commit({5, 9, 1});
    canvas.count_pass(range(3 - live, 6));
    EXPECT_EQ(rows_of(FreeCache{2}, canvas, block), range(3 - live, 6));  // 4 is open: [5, 6) has to wait
  }
}

TEST(CachePolicy, FreeCutsItsLastBlockAtTheEndOfTheCanvas) {
  Canvas canvas = read_once({7}, 5);  // cache blocks [1, 4) and [4, 6)
  for (int32_t position = 1; position < 6; ++position) canvas.commit({position, 9, 1});
  EXPECT_THAT(rows_of(FreeCache{3, true}, canvas, {0, 1, 6, 1}), IsEmpty());
  EXPECT_EQ(rows_of(FreeCache{3}, canvas, {0, 1, 6, 1}), range(1, 6));
  canvas.count_pass(range(1, 6));
  EXPECT_THAT(rows_of(FreeCache{3}, canvas, {0, 1, 6, 1}), IsEmpty());
}

TEST(CachePolicy, WhatFreeDoesNotComputeIsFinal) {
  const Canvas canvas = read_once({7, 8, 9}, 4);
  EXPECT_TRUE(choose_rows(FreeCache{2}, canvas, {0, 3, 7, 1}, {}).nothing_is_stale);
  EXPECT_TRUE(choose_rows(FreeCache{2, true}, canvas, {0, 3, 7, 1}, {}).nothing_is_stale);
}

TEST(CachePolicy, WhatFreeDoesNotComputeIsStaleWhereARefreshWillComputeIt) {
  Canvas canvas = read_once({7, 8, 9}, 4);
  EXPECT_FALSE(choose_rows(FreeCache{2, false, 2}, canvas, {0, 3, 7, 1}, {}).nothing_is_stale);
  canvas.count_pass(range(3, 7));
  const CachedPass refresh = choose_rows(FreeCache{2, false, 2}, canvas, {0, 3, 7, 2}, {});
  EXPECT_EQ(refresh.rows, range(0, 7));
  EXPECT_TRUE(refresh.nothing_is_stale);
}

TEST(CachePolicy, DkvKeepsARowOnceAPassHasReadItsToken) {
  Canvas canvas = read_once({7, 8}, 4);
  const Block block{0, 2, 6, 2};
  EXPECT_EQ(rows_of(DkvCache{8}, canvas, block), range(2, 6));
  canvas.commit({4, 9, 1});
  EXPECT_EQ(rows_of(DkvCache{8}, canvas, block), range(2, 6));
  canvas.count_pass(range(2, 6));
  const CachedPass pass = choose_rows(DkvCache{8}, canvas, block, {});
  EXPECT_THAT(pass.rows, ElementsAre(2, 3, 5));
  EXPECT_FALSE(pass.nothing_is_stale);
}

TEST(CachePolicy, AShiftedRowSettlesWithTheTokenThatItPredicts) {
  Canvas canvas = read_once({7, 8}, 4, true);
  const Block block{0, 2, 6, 2};
  EXPECT_EQ(rows_of(DkvCache{8}, canvas, block), range(1, 6));  // row 1 predicts position 2
  canvas.commit({2, 9, 1});
  canvas.commit({5, 9, 1});
  EXPECT_EQ(rows_of(DkvCache{8}, canvas, block), range(1, 6));
  canvas.count_pass(range(1, 6));
  // Row 1 has converged; row 2 waits for position 3; the last row waits for nobody.
  EXPECT_THAT(rows_of(DkvCache{8}, canvas, block), ElementsAre(2, 3, 4));
}

TEST(CachePolicy, DkvComputesEverythingInTheFirstTwoPassesOfABlock) {
  const Canvas canvas = read_once({7, 8, 9}, 4);
  for (const int32_t pass : {0, 1}) {
    const CachedPass chosen = choose_rows(DkvCache{8}, canvas, {1, 5, 7, pass}, {});
    EXPECT_EQ(chosen.rows, range(0, 7));
    EXPECT_TRUE(chosen.nothing_is_stale);
  }
  EXPECT_EQ(rows_of(DkvCache{8}, canvas, {1, 5, 7, 2}), range(3, 7));
}

TEST(CachePolicy, AMaskNeverSettlesHoweverOftenItIsRead) {
  Canvas canvas = read_once({7}, 3);
  for (int pass = 0; pass < 5; ++pass) canvas.count_pass(range(0, 4));
  EXPECT_EQ(rows_of(DkvCache{100}, canvas, {0, 1, 4, 6}), range(1, 4));
  EXPECT_EQ(rows_of(FreeCache{1}, canvas, {0, 1, 4, 6}), range(1, 4));
}

TEST(CachePolicy, ThePredictorsOfDrawnPositionsAreComputedWhereverTheyLie) {
  const Canvas plain = read_once({7, kMask, 9, 8}, 4);
  EXPECT_THAT(rows_of(DualCache{}, plain, {1, 6, 8, 1}, {1, 4, 6}), ElementsAre(1, 4, 6, 7));
  const Canvas shifted = read_once({kMask, kMask, 9, 8}, 4, true);
  // Row 0 predicts positions 0 and 1, and comes once.
  EXPECT_THAT(rows_of(DualCache{}, shifted, {1, 6, 8, 1}, {0, 1, 4, 6}), ElementsAre(0, 3, 5, 6, 7));
}

/// The page's table once more, one row at a time.
class PlainRules {
 public:
  PlainRules(const CachePolicy& policy, bool shifted) : policy_(policy), shifted_(shifted) {}

  bool computes(const Canvas& canvas, const Block& block, const std::vector<int32_t>& drawn, int32_t row) {
    const auto* free = std::get_if<FreeCache>(&policy_);
    if (row == 0 && free != nullptr && free->delay > 0) start_delayed(*free, canvas);
    for (const int32_t position : drawn) {
      if (row == (shifted_ ? std::max(position - 1, 0) : position)) return true;
    }
    predicts_outside_ = !drawn.empty() && before(drawn.front()) < before(block.begin);
    return canvas.num_passes() == 0 ||
           std::visit([&](const auto& policy) { return keeps_live(policy, canvas, block, row); }, policy_);
  }

 private:
  int32_t before(int32_t position) const { return shifted_ ? std::max(position - 1, 0) : position; }
  static int32_t known_age(const Canvas& canvas, int32_t position) {
    return canvas.is_masked(position) ? 0 : canvas.age(position);
  }

  bool keeps_live(const NoCache&, const Canvas&, const Block&, int32_t) const { return true; }
  bool keeps_live(const D2Cache&, const Canvas&, const Block&, int32_t) const { return true; }
  bool keeps_live(const PrefixCache& policy, const Canvas&, const Block& block, int32_t row) const {
    if (block.pass == 0 || (policy.refresh > 0 && block.pass % policy.refresh == 0)) return true;
    return row >= before(block.begin);
  }
  bool keeps_live(const DualCache& policy, const Canvas&, const Block& block, int32_t row) const {
    if (block.pass == 0 || (policy.refresh > 0 && block.pass % policy.refresh == 0)) return true;
    return row >= before(block.begin) && row < block.end;
  }
  void start_delayed(const FreeCache& policy, const Canvas& canvas) {
    const int32_t pass = canvas.num_passes();
    while (done_.empty() || done_.back().first < canvas.length()) {
      const int32_t end = done_.empty() ? canvas.prompt_length()
                                        : std::min(done_.back().first + policy.block, canvas.length());
      if (canvas.count_masked(0, end) > 0) break;
      bool is_given = true;
      for (int32_t p = 0; p < end; ++p) is_given = is_given && canvas.is_given(p);
      done_.emplace_back(end, is_given ? -1 : pass);
    }
    frozen_before_ = kept_;
    bool keeps = false, waits = false;
    for (const auto& [end, done_in] : done_) {
      if (end <= frozen_before_) continue;
      if (done_in <= pass - policy.delay) {
        kept_ = end;
        keeps = true;
      } else {
        waits = true;
      }
    }
    is_whole_ = !keeps && (waits || (policy.refresh > 0 && (pass + 1) % policy.refresh == 0));
  }
  bool keeps_live(const FreeCache& policy, const Canvas& canvas, const Block&, int32_t row) {
    if (policy.delay > 0) return is_whole_ || row >= before(frozen_before_);
    int32_t frozen = 0;
    int32_t end = canvas.prompt_length();
    while (true) {
      bool finished = true;
      for (int32_t p = frozen; p < end; ++p) {
        finished = finished && (policy.literal ? !canvas.is_masked(p) : known_age(canvas, p) >= 1);
      }
      if (!finished) break;
      frozen = end;
      if (end == canvas.length()) break;
      end = std::min(end + policy.block, canvas.length());
    }
    EXPECT_GE(frozen, frozen_before_) << "F falls";
    frozen_before_ = frozen;
    if (policy.refresh > 0 && canvas.num_passes() % policy.refresh == 0) return true;
    return row >= before(frozen);
  }
  bool keeps_live(const DkvCache& policy, const Canvas& canvas, const Block& block, int32_t row) const {
    if (canvas.num_passes() % policy.refresh == 0 || block.pass < 2) return true;
    const bool next_is_read = !shifted_ || row + 1 == canvas.length() || known_age(canvas, row + 1) >= 1;
    return !(known_age(canvas, row) >= 1 && next_is_read);
  }

  bool keeps_live(const SparseDllm& policy, const Canvas&, const Block& block, int32_t row) const {
    const int32_t number = policy.refresh > 0 ? block.pass % policy.refresh : block.pass;
    if (number < 2 || predicts_outside_) return true;
    return row >= before(block.begin) && row < block.end;
  }

  bool keeps_live(const DllmCache& policy, const Canvas& canvas, const Block&, int32_t row) const {
    return canvas.num_passes() % policy.refresh == 0 || row >= before(canvas.prompt_length());
  }

  CachePolicy policy_;
  bool shifted_;
  bool predicts_outside_ = false;  // of the block
  int32_t frozen_before_ = 0;
  std::vector<std::pair<int32_t, int32_t>>
      done_;  // the end of a cache block, and the pass in which it is done
  int32_t kept_ = 0;
  bool is_whole_ = false;
};

TEST(DllmCache, ComputesPromptAndAnswerAtTheirIntervalsAndAShareOfTheAnswerOtherwise) {
  const DllmCache policy{.ratio = 0.4, .answer = 2, .refresh = 3};
  Canvas canvas({7, 7, 7}, 6, kMask, false);
  std::vector<int32_t> rows, computed;
  for (int pass = 0; pass < 7; ++pass) {
    const CachedPass chosen = choose_rows(policy, canvas, {0, 3, 9, pass}, {});
    EXPECT_TRUE(chosen.reuse.keeps);
    EXPECT_EQ(chosen.live, (IndexRange{3, 9}));
    EXPECT_EQ(chosen.nothing_is_stale, pass % 6 == 0);
    rows.push_back(static_cast<int32_t>(chosen.rows.size()));
    computed.push_back(chosen.reuse.num_computed);
    canvas.count_pass(chosen.rows);
  }
  EXPECT_THAT(rows, ElementsAre(9, 6, 6, 9, 6, 6, 9));
  EXPECT_THAT(computed, ElementsAre(-1, 2, -1, 2, -1, 2, -1));
}

TEST(DllmCache, CountsTheRowThatPredictsTheAnswersFirstTokenToTheAnswer) {
  const Canvas shifted = read_once({7, 8}, 4, true);
  const CachedPass pass = choose_rows(DllmCache{.ratio = 0.5, .answer = 4}, shifted, {0, 2, 6, 1}, {});
  EXPECT_EQ(pass.rows, range(1, 6));
  EXPECT_EQ(pass.reuse.num_computed, 2) << "half of five rows, rounded down";
  EXPECT_EQ(kept_layers(DllmCache{}, shifted), (IndexRange{1, 6}));
  EXPECT_EQ(kept_layers(NoCache{}, shifted).size(), 0);
}

TEST(CachePolicy, EqualsThePageOnRandomRuns) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (const CachePolicy& policy : every_policy()) {
      const RngStream noise(seed);
      uint64_t draws = 0;
      const auto below = [&](uint32_t count) { return static_cast<int32_t>(noise.below(draws++, count)); };
      const bool shifted = below(2) == 1;
      std::vector<TokenId> prompt(static_cast<size_t>(below(5)), 7);
      for (TokenId& token : prompt) token = below(6) == 0 ? kMask : 7;
      const int32_t block_length = 1 + below(4);
      const auto prompt_length = static_cast<int32_t>(prompt.size());
      Canvas canvas(std::move(prompt), 3 * block_length, kMask, shifted);
      PlainRules plain(policy, shifted);
      for (int32_t index = 0; index < 3; ++index) {
        const int32_t begin = prompt_length + index * block_length;
        Block block{index, begin, begin + block_length, 0};
        for (; canvas.count_masked(block.begin, block.end) > 0 && block.pass < 40; ++block.pass) {
          const std::vector<int32_t> drawn = canvas.masked_positions(0, block.end);
          const std::vector<int32_t> rows = rows_of(policy, canvas, block, drawn);
          std::vector<int32_t> expected;
          for (int32_t row = 0; row < canvas.length(); ++row) {
            if (plain.computes(canvas, block, drawn, row)) expected.push_back(row);
          }
          ASSERT_EQ(rows, expected) << seed << ", policy " << policy.index() << ", block " << index
                                    << ", pass " << block.pass << (shifted ? ", shifted" : "");
          canvas.count_pass(rows);
          for (const int32_t position : drawn) {
            if (below(3) == 0) canvas.commit({position, below(8) == 0 ? kMask : 9, 1});
          }
        }
      }
    }
  }
}

TEST(CachePolicy, APassOfDualThatHappensToComputeEverythingLeavesNothingStale) {
  Canvas canvas({7}, 4, kMask, true);  // the live row is the prompt
  canvas.count_pass(std::vector<int32_t>{0, 1, 2, 3, 4});
  const CachedPass pass = choose_rows(DualCache{}, canvas, {0, 1, 5, 1}, {});
  EXPECT_EQ(pass.rows.size(), 5U);
  EXPECT_TRUE(pass.nothing_is_stale);
}

TEST(CachePolicies, ComputeEverythingThatAnEditHasMoved) {
  const std::vector<CachePolicy> policies = {NoCache{}, PrefixCache{}, DualCache{}, FreeCache{4}, DkvCache{}};
  for (const CachePolicy& policy : policies) {
    Canvas canvas = read_once({1, 3}, 8);
    canvas.commit({9, 5, 1});
    canvas.count_pass(range(0, 10));
    canvas.insert_masks(4, 2);
    const std::vector<int32_t> rows = rows_of(policy, canvas, {0, 2, 6, 3}, {2, 3, 5});
    EXPECT_THAT(rows, IsSupersetOf(range(4, 12)));
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
    EXPECT_EQ(std::set<int32_t>(rows.begin(), rows.end()).size(), rows.size());
  }
}

}  // namespace
}  // namespace lacuna::cache_policy_test
