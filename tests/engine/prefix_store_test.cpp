#include "engine/prefix_store.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

namespace lacuna::prefix_store_test {
namespace {

constexpr int64_t kTileBytes = 32;

/// A sequence whose cells hold tokens.
class TokenCells final : public KvSequence {
 public:
  explicit TokenCells(int64_t num_cells) : KvSequence({num_cells}), tokens(static_cast<size_t>(num_cells)) {}
  int32_t sink_cell() const override { return -1; }
  void read_cells(int64_t, int64_t, IndexRange, Matrix<float>, Matrix<float>) const override {}
  void read_outputs(std::span<const int32_t>, Matrix<float>) const override {}

  std::vector<TokenId> tokens;
};

/// A cell takes one byte, and none is shared.
class TokenPool final : public KvPool {
 public:
  int64_t bytes_for(const SequenceShape& shape, int64_t) const override { return shape.num_cells; }
  int64_t limit() const override { return kNoLimit; }
  int64_t bytes() const override { return 0; }
  int64_t bytes_of(std::span<const KvSequence* const> sequences) const override {
    int64_t bytes = 0;
    for (const KvSequence* sequence : sequences) bytes += sequence->shape().num_cells;
    return bytes;
  }
  std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape, const KvPrefix& prefix) override {
    auto made = std::make_unique<TokenCells>(shape.num_cells);
    if (prefix.count > 0) take_prefix(*made, prefix);
    return made;
  }
  void take_prefix(KvSequence& to, const KvPrefix& prefix) override {
    std::copy_n(dynamic_cast<const TokenCells&>(*prefix.sequence).tokens.begin(), prefix.count,
                dynamic_cast<TokenCells&>(to).tokens.begin());
  }
};

/// `count` tokens, of which those from `fork` on are those of another text.
std::vector<TokenId> text(int32_t count, int32_t fork = 1'000'000) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int32_t i = fork; i < count; ++i) tokens[static_cast<size_t>(i)] += 5000 + fork;
  return tokens;
}

void keep(PrefixStore& store, const std::vector<TokenId>& tokens, int32_t block_length = 1) {
  TokenCells cells(static_cast<int64_t>(tokens.size()));
  cells.tokens = tokens;
  store.keep(block_length, tokens, cells);
}

int64_t count_of(PrefixStore& store, const std::vector<TokenId>& tokens, int32_t block_length = 1) {
  return store.find(block_length, tokens).count;
}

TEST(PrefixStore, FindsTheWholeTilesOfTheLongestCommonPrefix) {
  TokenPool pool;
  PrefixStore store(pool, 100 * kTileBytes);
  keep(store, text(200));
  keep(store, text(150, 70));
  EXPECT_EQ(count_of(store, text(31)), 0);
  EXPECT_EQ(count_of(store, text(40)), 32);
  EXPECT_EQ(count_of(store, text(1000)), 192);
  EXPECT_EQ(count_of(store, text(1000, 130)), 128);
  EXPECT_EQ(count_of(store, text(1000, 20)), 0);
  const std::vector<TokenId> tokens = text(140, 70);
  const KvPrefix match = store.find(1, tokens);
  ASSERT_EQ(match.count, 128);
  const auto& cells = dynamic_cast<const TokenCells&>(*match.sequence);
  EXPECT_TRUE(std::equal(cells.tokens.begin(), cells.tokens.begin() + match.count, tokens.begin()));
}

TEST(PrefixStore, NeverMixesBlockLengths) {
  TokenPool pool;
  PrefixStore store(pool, 100 * kTileBytes);
  keep(store, text(100), 4);
  EXPECT_EQ(count_of(store, text(100), 4), 96);
  EXPECT_EQ(count_of(store, text(100), 8), 0);
}

TEST(PrefixStore, ForgetsWhatWasNotAskedForTheLongest) {
  TokenPool pool;
  PrefixStore store(pool, 6 * kTileBytes);
  keep(store, text(64, 0));
  keep(store, text(64, 1));
  keep(store, text(64, 2));
  EXPECT_EQ(store.bytes(), 6 * kTileBytes);
  EXPECT_EQ(count_of(store, text(64, 0)), 64);
  keep(store, text(64, 3));
  EXPECT_EQ(store.bytes(), 6 * kTileBytes);
  EXPECT_EQ(count_of(store, text(64, 0)), 64);
  EXPECT_EQ(count_of(store, text(64, 1)), 0);
  EXPECT_TRUE(store.evict());
  EXPECT_TRUE(store.evict());
  EXPECT_EQ(store.bytes(), 2 * kTileBytes);
  EXPECT_EQ(count_of(store, text(64, 0)), 64);
  keep(store, text(1000));  // more than all may come to
  EXPECT_EQ(store.bytes(), 2 * kTileBytes);
  EXPECT_TRUE(store.evict());
  EXPECT_FALSE(store.evict());
  EXPECT_EQ(store.bytes(), 0);
}

TEST(PrefixStore, KeepsAConversationOnce) {
  TokenPool pool;
  PrefixStore store(pool, 100 * kTileBytes);
  keep(store, text(64));
  keep(store, text(200));
  keep(store, text(100));  // a part of what is there
  EXPECT_EQ(store.bytes(), 6 * kTileBytes);
  EXPECT_EQ(count_of(store, text(200)), 192);
}

TEST(PrefixStore, KeepsNothingInNoBytes) {
  TokenPool pool;
  PrefixStore store(pool, 0);
  keep(store, text(64));
  EXPECT_EQ(count_of(store, text(64)), 0);
  EXPECT_FALSE(store.evict());
}

}  // namespace
}  // namespace lacuna::prefix_store_test
