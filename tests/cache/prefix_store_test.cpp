#include "cache/prefix_store.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

namespace lacuna {
namespace {

constexpr KvShape kShape{2, 1, 16, DType::kF32};
const int64_t kTileBytes = KvCache::bytes_for(kShape, kCellTile);

/// `count` tokens, of which those from `fork` on are those of another text.
std::vector<TokenId> text(int32_t count, int32_t fork = 1'000'000) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int32_t i = fork; i < count; ++i) tokens[static_cast<size_t>(i)] += 5000 + fork;
  return tokens;
}

/// A cache whose cells hold their tokens.
KvCache cache_of(const std::vector<TokenId>& tokens) {
  KvCache cache(kShape, static_cast<int64_t>(tokens.size()));
  for (int64_t layer = 0; layer < kShape.num_layers; ++layer) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::vector<float> content(16, static_cast<float>(tokens[i]));
      cache.write(layer, static_cast<int64_t>(i), content.data(), content.data());
    }
  }
  return cache;
}

void keep(PrefixStore& store, const std::vector<TokenId>& tokens, int32_t block_length = 1) {
  store.keep(block_length, tokens, cache_of(tokens));
}

int32_t count_of(PrefixStore& store, const std::vector<TokenId>& tokens, int32_t block_length = 1) {
  return store.find(block_length, tokens).count;
}

TEST(PrefixStore, FindsTheWholeTilesOfTheLongestCommonPrefix) {
  PrefixStore store;
  store.limit(100 * kTileBytes);
  keep(store, text(200));
  keep(store, text(150, 70));
  EXPECT_EQ(count_of(store, text(31)), 0);
  EXPECT_EQ(count_of(store, text(40)), 32);
  EXPECT_EQ(count_of(store, text(1000)), 192);
  EXPECT_EQ(count_of(store, text(1000, 130)), 128);
  EXPECT_EQ(count_of(store, text(1000, 20)), 0);
  const std::vector<TokenId> tokens = text(140, 70);
  const PrefixStore::Match match = store.find(1, tokens);
  ASSERT_EQ(match.count, 128);
  std::vector<float> key(16);
  std::vector<float> value(16);
  for (int32_t cell = 0; cell < match.count; ++cell) {
    match.cache->read(1, cell, 0, key.data(), value.data());
    EXPECT_EQ(key[7], static_cast<float>(tokens[static_cast<size_t>(cell)]));
    EXPECT_EQ(value[7], static_cast<float>(tokens[static_cast<size_t>(cell)]));
  }
}

TEST(PrefixStore, NeverMixesBlockLengths) {
  PrefixStore store;
  store.limit(100 * kTileBytes);
  keep(store, text(100), 4);
  EXPECT_EQ(count_of(store, text(100), 4), 96);
  EXPECT_EQ(count_of(store, text(100), 8), 0);
}

TEST(PrefixStore, ForgetsWhatWasNotAskedForTheLongest) {
  PrefixStore store;
  store.limit(6 * kTileBytes);
  keep(store, text(64, 0));
  keep(store, text(64, 1));
  keep(store, text(64, 2));
  EXPECT_EQ(store.bytes(), 6 * kTileBytes);
  EXPECT_EQ(count_of(store, text(64, 0)), 64);
  keep(store, text(64, 3));
  EXPECT_EQ(store.bytes(), 6 * kTileBytes);
  EXPECT_EQ(count_of(store, text(64, 0)), 64);
  EXPECT_EQ(count_of(store, text(64, 1)), 0);
  store.shrink_to(2 * kTileBytes);
  EXPECT_EQ(store.bytes(), 2 * kTileBytes);
  EXPECT_EQ(count_of(store, text(64, 0)), 64);
  keep(store, text(1000));  // more than all may come to
  EXPECT_EQ(store.bytes(), 2 * kTileBytes);
  store.limit(0);
  EXPECT_EQ(store.bytes(), 0);
}

TEST(PrefixStore, KeepsAConversationOnce) {
  PrefixStore store;
  store.limit(100 * kTileBytes);
  keep(store, text(64));
  keep(store, text(200));
  keep(store, text(100));  // a part of what is there
  EXPECT_EQ(store.bytes(), 6 * kTileBytes);
  EXPECT_EQ(count_of(store, text(200)), 192);
}

TEST(PrefixStore, KeepsNothingUnlessTold) {
  PrefixStore store;
  keep(store, text(64));
  EXPECT_EQ(count_of(store, text(64)), 0);
}

}  // namespace
}  // namespace lacuna
