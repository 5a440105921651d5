#include "backend/cuda/kernels/f32_product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "bench/gpu/device_vectors.h"
#include "orders.h"
#include "product_sum.h"

namespace lacuna::cuda::f32_product_test {
namespace {

using simt::in_every_order;

/// Rows of which the first and the last are not named and hold NaN, weights and biases.
struct Operands {
  int64_t outputs = 0;
  int64_t depth = 0;
  std::vector<int32_t> rows;
  std::vector<float> x, weights, bias;

  Operands(int64_t num_rows, int64_t num_outputs, int64_t num_inputs)
      : outputs(num_outputs), depth(num_inputs), rows(static_cast<size_t>(num_rows)) {
    std::iota(rows.begin(), rows.end(), 1);
    std::reverse(rows.begin(), rows.end());
    x = random_numbers(static_cast<size_t>((num_rows + 2) * depth), 5);
    std::fill_n(x.begin(), depth, NAN);
    std::fill_n(x.end() - depth, depth, NAN);
    weights = random_numbers(static_cast<size_t>(outputs * depth), 6);
    bias = random_numbers(static_cast<size_t>(outputs), 7);
  }

  struct Sum {
    double value = 0;
    double bound = 0;  // largest error of f32
  };
  Sum sum(size_t index, int64_t output) const {
    Sum sum{bias[static_cast<size_t>(output)], 1e-6};
    for (int64_t k = 0; k < depth; ++k) {
      const double product = double{x[static_cast<size_t>(rows[index] * depth + k)]} *
                             weights[static_cast<size_t>(output * depth + k)];
      sum.value += product;
      sum.bound += static_cast<double>(depth) * 0x1p-24 * std::abs(product);
    }
    return sum;
  }

  std::vector<float> multiplied(std::span<const int32_t> some, Epilogue epilogue, int64_t stride) const {
    Stream stream;
    const DeviceBuffer device_x = upload(stream, x);
    const DeviceBuffer device_weights = upload(stream, weights);
    const DeviceBuffer device_bias = upload(stream, bias);
    const DeviceBuffer list = upload(stream, std::vector<int32_t>(some.begin(), some.end()));
    const DeviceBuffer out = upload(stream, std::vector<float>(some.size() * static_cast<size_t>(stride), 1));
    f32_product(stream, {.x_f32 = device_x.as<float>(),
                         .rows = list.as<int32_t>(),
                         .weights_f32 = device_weights.as<float>(),
                         .bias = device_bias.as<float>(),
                         .out_f32 = out.as<float>(),
                         .num_rows = std::ssize(some),
                         .num_outputs = outputs,
                         .depth = depth,
                         .out_stride = stride,
                         .scale = 0.5F,
                         .epilogue = epilogue});
    return download<float>(stream, out);
  }
};

TEST(F32ProductKernel, AgreesWithSumsInDoubleAtTheEdgesOfItsTiles) {
  struct Size {
    int64_t rows, outputs, depth;
  };
  for (const Size& size : {Size{1, 1, 64}, Size{15, 16, 128}, Size{17, 63, 192}, Size{150, 70, 64}}) {
    const Operands operands(size.rows, size.outputs, size.depth);
    in_every_order([&](const std::string& order) {
      const auto got = operands.multiplied(operands.rows, Epilogue::kStore, size.outputs);
      const auto added = operands.multiplied(operands.rows, Epilogue::kAddScaled, size.outputs);
      for (size_t r = 0; r < operands.rows.size(); ++r) {
        for (int64_t n = 0; n < size.outputs; ++n) {
          const auto sum = operands.sum(r, n);
          const size_t at = r * static_cast<size_t>(size.outputs) + static_cast<size_t>(n);
          ASSERT_NEAR(got[at], sum.value, sum.bound) << order << ", " << size.rows << " rows, output " << n;
          ASSERT_NEAR(added[at], 1 + 0.5 * sum.value, sum.bound + 1e-6) << order;
        }
      }
    });
  }
}

TEST(F32ProductKernel, ActivatesAndClearsWhatLiesBehind) {
  const Operands operands(17, 80, 64);
  const auto swiglu = operands.multiplied(operands.rows, Epilogue::kSwiglu, 64);
  const auto geglu = operands.multiplied(operands.rows, Epilogue::kGeglu, 64);
  const auto squared = operands.multiplied(operands.rows, Epilogue::kSquaredRelu, 96);
  for (size_t r = 0; r < operands.rows.size(); ++r) {
    for (int64_t n = 0; n < 64; ++n) {
      const int64_t gate_at = n / 8 * 16 + n % 8;
      const double gate = n < 40 ? operands.sum(r, gate_at).value : 0;
      const double up = n < 40 ? operands.sum(r, gate_at + 8).value : 0;
      const size_t at = r * 64 + static_cast<size_t>(n);
      ASSERT_NEAR(swiglu[at], activated_gate(Epilogue::kSwiglu, gate) * up, 1e-4) << n;
      ASSERT_NEAR(geglu[at], activated_gate(Epilogue::kGeglu, gate) * up, 1e-4) << n;
    }
    for (int64_t n = 0; n < 96; ++n) {
      const double sum = n < 80 ? operands.sum(r, n).value : 0;
      ASSERT_NEAR(squared[r * 96 + static_cast<size_t>(n)], sum > 0 ? sum * sum : 0, 1e-4) << n;
    }
  }
}

TEST(F32ProductKernel, GivesARowTheSameBitsAloneAndInAnyCompany) {
  const Operands operands(40, 48, 320);
  const auto together = operands.multiplied(operands.rows, Epilogue::kStore, 48);
  for (const size_t count : {1U, 16U, 17U}) {
    const auto fewer = operands.multiplied(std::span(operands.rows).last(count), Epilogue::kStore, 48);
    EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), together.end() - std::ssize(fewer))) << count;
  }
}

}  // namespace
}  // namespace lacuna::cuda::f32_product_test
