#include "weights/packed_matrix.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "base/budget.h"
#include "base/rng.h"

namespace lacuna::packed_matrix_test {
namespace {

float content(int64_t n, int64_t k) {
  return static_cast<float>(RngStream(1, n).uniform(static_cast<uint64_t>(k)) * 2 - 1);
}

PackedMatrix packed(ThreadPool& threads, DType dtype, int64_t outputs, int64_t inputs) {
  return {threads, dtype, outputs, inputs, [inputs](int64_t n, float* row) {
            for (int64_t k = 0; k < inputs; ++k) row[k] = content(n, k);
          }};
}

// Place of each element, as described in panels.h.
float element(const PanelView& view, int64_t n, int64_t k) {
  const int64_t panel = n / 16 * view.panel_stride;
  return view.dtype == DType::kBF16 ? static_cast<float>(static_cast<const bf16*>(
                                          view.data)[panel + k / 2 * 32 + n % 16 * 2 + k % 2])
                                    : static_cast<const float*>(view.data)[panel + k * 16 + n % 16];
}

TEST(PackedMatrix, PlacesEachElementInItsPanelAndPadsWithZeros) {
  ThreadPool threads(2);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t outputs : {1, 15, 16, 17, 100}) {
      for (const int64_t inputs : {1, 2, 31, 32, 33, 70}) {
        const PackedMatrix matrix = packed(threads, dtype, outputs, inputs);
        const PanelView view = matrix.view();
        EXPECT_EQ(view.dtype, dtype);
        EXPECT_EQ(view.outputs, outputs);
        EXPECT_EQ(view.inputs, inputs);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 64, 0U);
        EXPECT_EQ(matrix.bytes(),
                  round_up(outputs, 16) * padded_depth(dtype, inputs) * static_cast<int64_t>(size_of(dtype)));
        for (int64_t n = 0; n < round_up(outputs, 16); ++n) {
          for (int64_t k = 0; k < padded_depth(dtype, inputs); ++k) {
            const float value = n < outputs && k < inputs ? content(n, k) : 0;
            const float expected = dtype == DType::kBF16 ? static_cast<float>(bf16(value)) : value;
            ASSERT_EQ(element(view, n, k), expected) << name_of(dtype) << ' ' << n << ", " << k;
          }
        }
      }
    }
  }
}

TEST(PackedMatrix, IsCancelledWithinALargeMatrix) {
  ThreadPool threads(2);
  constexpr int64_t kOutputs = 1 << 15, kInputs = 256;
  std::atomic<bool> stop = false;
  std::atomic<int64_t> rows = 0;
  const Budget budget("loading", {.stop = &stop});
  const auto pack = [&] {
    const PackedMatrix matrix(threads, DType::kBF16, kOutputs, kInputs, [&](int64_t, float* row) {
      std::fill_n(row, kInputs, 0.0F);
      if (++rows == 10) stop = true;
    });
  };
  EXPECT_THROW(pack(), WorkCancelled);
  EXPECT_LE(rows, kOutputs / 4);
}

TEST(PackedMatrix, AsksForEachRowOnce) {
  ThreadPool threads(3);
  std::vector<std::atomic<int>> calls(50);
  const PackedMatrix matrix(threads, DType::kF32, 50, 4, [&](int64_t n, float* row) {
    ++calls[static_cast<size_t>(n)];
    std::fill(row, row + 4, 0.0F);
  });
  EXPECT_THAT(std::vector<int>(calls.begin(), calls.end()), testing::Each(1));
}

TEST(PackedMatrix, KeepsItsMemoryWhenMoved) {
  ThreadPool threads(1);
  PackedMatrix matrix = packed(threads, DType::kBF16, 20, 40);
  const void* data = matrix.view().data;
  const PackedMatrix moved = std::move(matrix);
  EXPECT_EQ(moved.view().data, data);
  EXPECT_EQ(element(moved.view(), 19, 39), static_cast<float>(bf16(content(19, 39))));
}

TEST(PackedMatrix, IsEmptyByDefault) {
  EXPECT_EQ(PackedMatrix().bytes(), 0);
  EXPECT_EQ(PackedMatrix().view().outputs, 0);
}

TEST(PackedMatrix, RefusesF16) {
  ThreadPool threads(1);
  EXPECT_THROW(packed(threads, DType::kF16, 1, 1), std::logic_error);
}

}  // namespace
}  // namespace lacuna::packed_matrix_test
