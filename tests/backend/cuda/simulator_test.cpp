#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cuda/simt/simt.h"
#include "base/rng.h"
#include "orders.h"

namespace lacuna::simt::simulator_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(Simulator, RunsEveryThreadOfEveryBlockOnce) {
  in_every_order([](const std::string& order) {
    std::vector<int> runs(size_t{64} * 2 * 3 * 2, 0);
    simulate({.grid = {2, 3, 2}, .threads = 64}, [&] {
      const Index3 block = block_index();
      const Index3 grid = grid_size();
      ++runs[((block.z * grid.y + block.y) * grid.x + block.x) * num_threads() + thread_index()];
    });
    EXPECT_THAT(runs, Each(1)) << order;
  });
}

TEST(Simulator, RunsBlocksAndThreadsInTheOrderThatTheSeedChooses) {
  const auto order_of = [](SimulatorOptions options) {
    simulator_options() = options;
    std::vector<uint32_t> order(8 * 32, 0);
    uint32_t next = 0;
    simulate({.grid = {8, 1, 1}, .threads = 32},
             [&] { order[atomic_add(&next, 1U)] = block_index().x * 32 + thread_index(); });
    simulator_options() = {};
    return order;
  };
  const std::vector<uint32_t> first = order_of({ThreadOrder::kFirstCome, 0});
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
  EXPECT_EQ(order_of({ThreadOrder::kRandom, 1}), order_of({ThreadOrder::kRandom, 1}));
  EXPECT_NE(order_of({ThreadOrder::kRandom, 1}), order_of({ThreadOrder::kRandom, 2}));
  EXPECT_NE(order_of({ThreadOrder::kLastCome, 1}), first);
}

TEST(Simulator, GivesEveryBlockSharedMemoryFullOfNaN) {
  std::vector<float> seen;
  simulate({.grid = {3, 1, 1}, .threads = 32, .shared_bytes = 4 * sizeof(float)}, [&] {
    auto& memory = shared<std::array<float, 4>>();
    if (thread_index() == 0) {
      seen.insert(seen.end(), memory.begin(), memory.end());
      memory.fill(1);
    }
  });
  ASSERT_EQ(seen.size(), 12U);
  for (const float value : seen) EXPECT_TRUE(std::isnan(value));
}

TEST(Simulator, HoldsThreadsAtABarrierUntilAllHaveCome) {
  in_every_order([](const std::string& order) {
    std::vector<uint32_t> sums(128, 0);
    simulate({.threads = 128, .shared_bytes = 128 * sizeof(uint32_t)}, [&] {
      auto& memory = shared<std::array<uint32_t, 128>>();
      for (uint32_t round = 0; round < 3; ++round) {
        memory[thread_index()] = thread_index() + round;
        sync_threads();
        sums[thread_index()] += memory[(thread_index() + 77) % 128];
        sync_threads();
      }
    });
    for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(sums[i], 3 * ((i + 77) % 128) + 3) << order;
  });
}

TEST(Simulator, ExchangesValuesWithinAWarp) {
  in_every_order([](const std::string& order) {
    std::vector<double> sums(64, 0);
    std::vector<uint32_t> ballots(64, 0);
    simulate({.threads = 64}, [&] {
      sums[thread_index()] = warp_sum(static_cast<double>(thread_index()));
      ballots[thread_index()] = ballot(lane_index() % 3 == 0 && warp_index() == 1);
      sync_warp();
    });
    for (uint32_t i = 0; i < 64; ++i) {
      EXPECT_EQ(sums[i], i < 32 ? 496 : 1520) << order;
      EXPECT_EQ(ballots[i], i < 32 ? 0U : 0x49249249U) << order;
    }
  });
}

TEST(Simulator, AddsWholeNumbersFromAllThreads) {
  uint32_t total = 0;
  simulate({.grid = {4, 1, 1}, .threads = 64}, [&] { atomic_add(&total, 2U); });
  EXPECT_EQ(total, 512U);
}

/// a [16][16], b [8][16] as numbers of bf16; c = a b^T through ldmatrix and mma.
struct Tile {
  alignas(16) uint16_t a[16][16];
  alignas(16) uint16_t b[16][16];
};

TEST(Simulator, MultipliesTilesThatLdmatrixLoads) {
  std::vector<float> a(256), b(256), out(256, 0);
  const RngStream random(3);
  for (size_t i = 0; i < 256; ++i) {
    a[i] = static_cast<float>(random.below(i, 17)) - 8;
    b[i] = static_cast<float>(random.below(1000 + i, 17)) - 8;
  }
  simulate({.threads = 32, .shared_bytes = sizeof(Tile)}, [&] {
    auto& tile = shared<Tile>();
    const uint32_t lane = lane_index();
    for (uint32_t i = lane; i < 256; i += 32) {
      tile.a[i / 16][i % 16] = to_bf16(a[i]);
      tile.b[i / 16][i % 16] = to_bf16(b[i]);
    }
    sync_threads();
    uint32_t fragments_a[1][4];
    uint32_t fragments_b[4];
    load_matrix_x4(fragments_a[0], &tile.a[lane % 16][lane / 16 * 8]);
    load_matrix_x4(fragments_b, &tile.b[lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]);
    const uint32_t pairs[2][2] = {{fragments_b[0], fragments_b[1]}, {fragments_b[2], fragments_b[3]}};
    float c[1][2][4] = {};
    multiply_block(c, fragments_a, pairs);
    for (uint32_t j = 0; j < 2; ++j) {
      for (uint32_t part = 0; part < 4; ++part) {
        const uint32_t row = lane / 4 + part / 2 * 8;
        out[row * 16 + j * 8 + 2 * (lane % 4) + part % 2] = c[0][j][part];
      }
    }
  });
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 16; ++column) {
      double expected = 0;
      for (size_t k = 0; k < 16; ++k) expected += double{a[row * 16 + k]} * b[column * 16 + k];
      EXPECT_EQ(out[row * 16 + column], expected);
    }
  }
}

TEST(Simulator, TransposesTheMatricesThatLdmatrixLoads) {
  std::vector<uint32_t> got(32, 0);
  simulate({.threads = 32, .shared_bytes = sizeof(Tile)}, [&] {
    auto& tile = shared<Tile>();
    for (uint32_t i = lane_index(); i < 256; i += 32) tile.a[i / 16][i % 16] = static_cast<uint16_t>(i);
    sync_threads();
    uint32_t out[4];
    load_matrix_x4<true>(out, &tile.a[lane_index() % 16][lane_index() / 16 * 8]);
    got[lane_index()] = out[1];  // rows 8..15 of columns 0..7
  });
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t column = lane / 4;
    const uint32_t row = 8 + 2 * (lane % 4);
    EXPECT_EQ(got[lane] & 0xffffU, row * 16 + column);
    EXPECT_EQ(got[lane] >> 16, (row + 1) * 16 + column);
  }
}

template <int kStride>
int64_t conflicts_of_stride() {
  struct Memory {
    alignas(16) uint16_t rows[16][kStride];
  };
  simulator_counters() = {};
  simulate({.threads = 32, .shared_bytes = sizeof(Memory)}, [&] {
    auto& memory = shared<Memory>();
    for (uint32_t i = lane_index(); i < 16 * kStride; i += 32) memory.rows[i / kStride][i % kStride] = 0;
    sync_threads();
    uint32_t out[4];
    load_matrix_x4(out, &memory.rows[lane_index() % 16][lane_index() / 16 * 8]);
  });
  EXPECT_EQ(simulator_counters().matrix_phases, 4);
  return simulator_counters().bank_conflicts;
}

TEST(Simulator, CountsRowsThatShareTheirBanks) {
  EXPECT_EQ(conflicts_of_stride<64>(), 28);
  EXPECT_EQ(conflicts_of_stride<72>(), 0);
}

struct Landing {
  Words4 first;
  Words4 second;
};

TEST(Simulator, LetsAsynchronousCopiesArriveAtTheWaitForTheirGroup) {
  alignas(16) const std::array<uint32_t, 8> source = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<uint32_t> seen;
  simulate({.threads = 32, .shared_bytes = 32 * sizeof(Landing)}, [&] {
    Landing& mine = shared<std::array<Landing, 32>>()[thread_index()];
    const auto look = [&] {
      if (thread_index() == 5) seen.insert(seen.end(), {mine.first.words[0], mine.second.words[3]});
    };
    mine = {};
    copy_async_16(&mine.first, source.data(), true);
    commit_copies();
    copy_async_16(&mine.second, source.data() + 4, true);
    commit_copies();
    look();
    wait_copies<1>();
    look();
    wait_copies<0>();
    look();
    copy_async_16(&mine.first, nullptr, false);
    commit_copies();
    wait_copies<0>();
    look();
  });
  EXPECT_THAT(seen, ElementsAre(~0U, ~0U, 1U, ~0U, 1U, 8U, 0U, 8U));
}

TEST(Simulator, CopiesEightBytesAsynchronouslyAndNoneBehindThem) {
  alignas(8) const std::array<uint32_t, 4> source = {1, 2, 3, 4};
  std::vector<uint32_t> seen;
  simulate({.threads = 32, .shared_bytes = 32 * sizeof(Words4)}, [&] {
    Words4& mine = shared<std::array<Words4, 32>>()[thread_index()];
    const auto look = [&] {
      if (thread_index() == 5) seen.insert(seen.end(), mine.words, mine.words + 4);
    };
    mine = {{9, 9, 9, 9}};
    copy_async_8(&mine, source.data() + 2, true);
    commit_copies();
    look();
    wait_copies<0>();
    look();
  });
  EXPECT_THAT(seen, ElementsAre(~0U, ~0U, 9U, 9U, 3U, 4U, 9U, 9U));
}

TEST(Simulator, RefusesLaunchesThatADeviceWouldRefuse) {
  const auto nothing = [] {};
  EXPECT_THROW(simulate({.threads = 33}, nothing), Fault);
  EXPECT_THROW(simulate({.threads = 2048}, nothing), Fault);
  EXPECT_THROW(simulate({.grid = {0, 1, 1}}, nothing), Fault);
  EXPECT_THROW(simulate({.shared_bytes = 300 << 10}, nothing), Fault);
}

}  // namespace
}  // namespace lacuna::simt::simulator_test
