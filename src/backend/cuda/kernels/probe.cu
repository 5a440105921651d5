#include "backend/cuda/kernels/probe.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kThreads = 256;
constexpr int kWordsAtOnce = 4;  // 16-byte loads in flight per thread

struct NoArguments {};

LACUNA_KERNEL empty_kernel(NoArguments) {}

struct alignas(16) Four {
  uint32_t words[4];
};

LACUNA_KERNEL read_kernel(ReadArguments a) {
  const auto* words = reinterpret_cast<const Four*>(a.words);
  const int64_t count = a.num_words / 4;
  const int64_t step = int64_t{grid_size().x} * kThreads;
  const Four all = {{0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}};
  uint32_t common = 0xffffffffU;
  for (int64_t i = int64_t{block_index().x} * kThreads + thread_index(); i < count;
       i += kWordsAtOnce * step) {
    Four four[kWordsAtOnce];
    LACUNA_UNROLL
    for (int part = 0; part < kWordsAtOnce; ++part) {
      const int64_t at = i + part * step;
      four[part] = at < count ? words[at] : all;
    }
    LACUNA_UNROLL
    for (int part = 0; part < kWordsAtOnce; ++part) {
      LACUNA_UNROLL
      for (int word = 0; word < 4; ++word) common &= four[part].words[word];
    }
  }
  if (common == a.needle) *a.found = common;
}

LACUNA_DEVICE uint32_t pair_at(const uint16_t* row, int64_t k) {
  return uint32_t{row[k]} | uint32_t{row[k + 1]} << 16;
}

LACUNA_KERNEL chain_kernel(ChainArguments a) {
  const auto row = static_cast<int64_t>(lane_index() / 4);
  const auto column = static_cast<int64_t>(2 * (lane_index() % 4));
  const uint16_t* upper = a.a + row * a.depth;
  const uint16_t* lower = a.a + (row + 8) * a.depth;
  const uint16_t* right = a.b + row * a.depth;
  float c[1][1][4] = {};
  for (int64_t k = column; k < a.depth; k += 16) {
    const uint32_t left[1][4] = {
        {pair_at(upper, k), pair_at(lower, k), pair_at(upper, k + 8), pair_at(lower, k + 8)}};
    const uint32_t b[1][2] = {{pair_at(right, k), pair_at(right, k + 8)}};
    multiply_block(c, left, b);
  }
  LACUNA_UNROLL
  for (int part = 0; part < 4; ++part) {
    a.c[(row + part / 2 * 8) * 8 + column + part % 2] = c[0][0][part];
  }
}

}  // namespace

void do_nothing(Stream& stream) {
  launch(stream, empty_kernel, {}, NoArguments{});
}

void read_all(Stream& stream, const ReadArguments& arguments, uint32_t blocks) {
  launch(stream, read_kernel, {.grid = {blocks, 1, 1}, .threads = kThreads}, arguments);
}

void multiply_chain(Stream& stream, const ChainArguments& arguments) {
  launch(stream, chain_kernel, {}, arguments);
}

}  // namespace lacuna::cuda
