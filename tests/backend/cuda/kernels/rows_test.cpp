#include "backend/cuda/kernels/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bench/gpu/device_vectors.h"
#include "orders.h"

namespace lacuna::cuda::rows_test {
namespace {

using simt::in_every_order;

TEST(EmbedKernel, CopiesAndScalesRowsOfTheTable) {
  constexpr int64_t kHidden = 300;
  Stream stream;
  const std::vector<uint16_t> table = to_bits(random_numbers(5 * kHidden, 1));
  const DeviceBuffer on_device = upload(stream, table);
  const std::vector<int32_t> tokens = {4, 0, 4};
  const DeviceBuffer ids = upload(stream, tokens);
  in_every_order([&](const std::string& order) {
    const DeviceBuffer out(3 * kHidden * sizeof(float));
    embed(stream, {ids.as<int32_t>(), on_device.as<uint16_t>(), out.as<float>(), kHidden, 1.5F}, 3);
    const auto got = download<float>(stream, out);
    for (size_t row = 0; row < 3; ++row) {
      for (size_t i = 0; i < kHidden; ++i) {
        ASSERT_EQ(got[row * kHidden + i],
                  1.5F * from_bits(table[static_cast<size_t>(tokens[row]) * kHidden + i]))
            << order;
      }
    }
  });
}

TEST(MixKernel, MixesRowsWithTheMaskAndItsLength) {
  constexpr int64_t kHidden = 300;
  Stream stream;
  const std::vector<float> table = random_numbers(5 * kHidden, 1);
  const DeviceBuffer on_device = upload(stream, table);
  const DeviceBuffer ids = upload(stream, std::vector<int32_t>{4, 0, 4});
  const DeviceBuffer weights = upload(stream, std::vector<float>{0.25F, 1, 0});
  in_every_order([&](const std::string& order) {
    const DeviceBuffer out(3 * kHidden * sizeof(float));
    const EmbedArguments embedded = {.tokens = ids.as<int32_t>(),
                                     .residual = out.as<float>(),
                                     .hidden = kHidden,
                                     .scale = 1.5F,
                                     .table_f32 = on_device.as<float>()};
    embed(stream, embedded, 3);
    mix_with_mask(stream, {embedded, weights.as<float>(), 2}, 3);
    const auto got = download<float>(stream, out);
    const auto row_of = [&](size_t token) {
      std::vector<double> row(table.begin() + static_cast<int64_t>(token * kHidden),
                              table.begin() + static_cast<int64_t>((token + 1) * kHidden));
      for (double& value : row) value *= 1.5;
      return row;
    };
    const auto length = [](const std::vector<double>& row) {
      double squares = 0;
      for (const double value : row) squares += value * value;
      return std::sqrt(squares);
    };
    const std::vector<double> token = row_of(4), same = row_of(0), mask = row_of(2);
    std::vector<double> mixture(kHidden);
    for (size_t i = 0; i < kHidden; ++i) mixture[i] = 0.25 * token[i] + 0.75 * mask[i];
    const double scale = (0.25 * length(token) + 0.75 * length(mask)) / length(mixture);
    for (size_t i = 0; i < kHidden; ++i) {
      ASSERT_NEAR(got[i], scale * mixture[i], 1e-4) << order;
      ASSERT_EQ(got[kHidden + i], static_cast<float>(same[i])) << order;
      ASSERT_NEAR(got[2 * kHidden + i], mask[i], 1e-4) << order;
    }
  });
}

struct NormCase {
  int64_t hidden;
  int64_t stride;
};

/// The residual's rows in `rows`, normed.
std::vector<uint16_t> normed(Stream& stream, const NormCase& size, const std::vector<float>& x,
                             const std::vector<float>& weight, const std::vector<int32_t>& rows) {
  const DeviceBuffer residual = upload(stream, x);
  const DeviceBuffer weights = upload(stream, weight);
  const DeviceBuffer list = upload(stream, rows);
  const DeviceBuffer out(rows.size() * static_cast<size_t>(size.stride) * sizeof(uint16_t));
  rms_norm(stream,
           {.residual = residual.as<float>(),
            .rows = list.as<int32_t>(),
            .weight = weights.as<float>(),
            .out = out.as<uint16_t>(),
            .hidden = size.hidden,
            .stride = size.stride,
            .epsilon = 1e-5F},
           static_cast<uint32_t>(rows.size()));
  return download<uint16_t>(stream, out);
}

TEST(NormKernel, AgreesWithTheDefinitionAndWithARowAlone) {
  for (const NormCase& size : {NormCase{1, 64}, NormCase{257, 320}, NormCase{512, 512}}) {
    const auto hidden = static_cast<size_t>(size.hidden);
    const auto stride = static_cast<size_t>(size.stride);
    std::vector<float> x = random_numbers(4 * hidden, 2, 3);
    std::fill_n(x.begin() + static_cast<int64_t>(hidden), hidden, NAN);  // a row that is not in the list
    const std::vector<float> weight = random_numbers(hidden, 3);
    in_every_order([&](const std::string& order) {
      Stream stream;
      const std::vector<int32_t> rows = {3, 0, 2};
      const auto together = normed(stream, size, x, weight, rows);
      for (size_t r = 0; r < rows.size(); ++r) {
        const float* row = x.data() + static_cast<size_t>(rows[r]) * hidden;
        double squares = 0;
        for (size_t i = 0; i < hidden; ++i) squares += double{row[i]} * row[i];
        const double scale = 1 / std::sqrt(squares / static_cast<double>(hidden) + 1e-5);
        const auto alone = normed(stream, size, x, weight, {rows[r]});
        for (size_t i = 0; i < stride; ++i) {
          const double expected = i < hidden ? row[i] * scale * weight[i] : 0;
          const uint16_t got = together[r * stride + i];
          ASSERT_NEAR(from_bits(got), expected, std::abs(expected) * 0.0041) << order << " " << i;
          ASSERT_EQ(got, alone[i]) << order;
        }
      }
    });
  }
}

/// The factor of a row's norm, in double.
double norm_factor(const float* row, size_t count) {
  double squares = 0;
  for (size_t i = 0; i < count; ++i) squares += double{row[i]} * row[i];
  return 1 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
}

/// Rows of f32 of a width that is no multiple of a block's threads, with weights of two norms. Row 1 of the
/// residual is in no list and holds NaN.
struct Outputs {
  static constexpr size_t kHidden = 300;

  std::vector<float> residual = random_numbers(4 * kHidden, 5, 3);
  std::vector<float> x = random_numbers(3 * kHidden, 6, 2);
  std::vector<float> y = random_numbers(3 * kHidden, 7, 2);
  std::vector<float> x_weight = random_numbers(kHidden, 8);
  std::vector<float> y_weight = random_numbers(kHidden, 9);
  std::vector<int32_t> rows = {3, 0, 2};
  Stream stream;

  Outputs() { std::fill_n(residual.begin() + kHidden, kHidden, NAN); }

  const float* of(const std::vector<float>& matrix, size_t row) const {
    return matrix.data() + row * kHidden;
  }
  size_t listed(size_t index) const { return static_cast<size_t>(rows[index]); }
};

TEST(NormKernel, NormsRowsFromAnywhere) {
  Outputs outputs;
  const DeviceBuffer first = upload(outputs.stream, outputs.x);
  const DeviceBuffer second = upload(outputs.stream, outputs.y);
  const std::vector<const float*> pointers = {second.as<float>() + Outputs::kHidden, first.as<float>()};
  const DeviceBuffer list = upload(outputs.stream, pointers);
  const DeviceBuffer weight = upload(outputs.stream, outputs.x_weight);
  const DeviceBuffer out(2 * Outputs::kHidden * sizeof(float));
  rms_norm(outputs.stream,
           {.row_pointers = list.as<const float*>(),
            .weight = weight.as<float>(),
            .out_f32 = out.as<float>(),
            .hidden = Outputs::kHidden,
            .epsilon = 1e-5F},
           2);
  const auto got = download<float>(outputs.stream, out);
  const float* rows[] = {outputs.of(outputs.y, 1), outputs.of(outputs.x, 0)};
  for (size_t row = 0; row < 2; ++row) {
    const double factor = norm_factor(rows[row], Outputs::kHidden);
    for (size_t i = 0; i < Outputs::kHidden; ++i)
      ASSERT_NEAR(got[row * Outputs::kHidden + i], rows[row][i] * factor * outputs.x_weight[i], 1e-5);
  }
}

TEST(AddNormedKernel, AddsNormedRowsToThoseOfTheResidualThatItIsTold) {
  in_every_order([&](const std::string& order) {
    Outputs outputs;
    const DeviceBuffer residual = upload(outputs.stream, outputs.residual);
    const DeviceBuffer x = upload(outputs.stream, outputs.x);
    const DeviceBuffer weight = upload(outputs.stream, outputs.x_weight);
    const DeviceBuffer list = upload(outputs.stream, outputs.rows);
    add_normed(outputs.stream,
               {.x = x.as<float>(),
                .weight = weight.as<float>(),
                .residual = residual.as<float>(),
                .rows = list.as<int32_t>(),
                .hidden = Outputs::kHidden,
                .scale = 0.5F,
                .epsilon = 1e-5F},
               3);
    const auto got = download<float>(outputs.stream, residual);
    for (size_t r = 0; r < 3; ++r) {
      const float* row = outputs.of(outputs.x, r);
      const double factor = norm_factor(row, Outputs::kHidden);
      for (size_t i = 0; i < Outputs::kHidden; ++i) {
        const double expected =
            outputs.of(outputs.residual, outputs.listed(r))[i] + 0.5 * row[i] * factor * outputs.x_weight[i];
        ASSERT_NEAR(outputs.of(got, outputs.listed(r))[i], expected, 1e-5) << order;
      }
    }
    EXPECT_TRUE(std::isnan(outputs.of(got, 1)[0])) << order;
  });
}

TEST(SumOfNormsKernel, AddsTwoNormsInPlace) {
  in_every_order([&](const std::string& order) {
    Outputs outputs;
    const DeviceBuffer x = upload(outputs.stream, outputs.x);
    const DeviceBuffer y = upload(outputs.stream, outputs.y);
    const DeviceBuffer x_weight = upload(outputs.stream, outputs.x_weight);
    const DeviceBuffer y_weight = upload(outputs.stream, outputs.y_weight);
    sum_of_norms(outputs.stream,
                 {.x = x.as<float>(),
                  .y = y.as<float>(),
                  .x_weight = x_weight.as<float>(),
                  .y_weight = y_weight.as<float>(),
                  .out = y.as<float>(),
                  .hidden = Outputs::kHidden,
                  .epsilon = 1e-5F},
                 3);
    const auto got = download<float>(outputs.stream, y);
    for (size_t r = 0; r < 3; ++r) {
      const float* of_x = outputs.of(outputs.x, r);
      const float* of_y = outputs.of(outputs.y, r);
      const double x_factor = norm_factor(of_x, Outputs::kHidden);
      const double y_factor = norm_factor(of_y, Outputs::kHidden);
      for (size_t i = 0; i < Outputs::kHidden; ++i) {
        const double expected =
            of_x[i] * x_factor * outputs.x_weight[i] + of_y[i] * y_factor * outputs.y_weight[i];
        ASSERT_NEAR(outputs.of(got, r)[i], expected, 1e-5) << order;
      }
    }
  });
}

TEST(CanvasKernels, NormAndScaleRowsByWhetherTheyAreDenoised) {
  in_every_order([&](const std::string& order) {
    Outputs outputs;
    const DeviceBuffer residual = upload(outputs.stream, outputs.residual);
    const DeviceBuffer flags = upload(outputs.stream, std::vector<int32_t>{1, 1, 0, 1});
    const DeviceBuffer list = upload(outputs.stream, outputs.rows);
    const CanvasArguments arguments{.residual = residual.as<float>(),
                                    .is_denoised = flags.as<int32_t>(),
                                    .rows = list.as<int32_t>(),
                                    .hidden = Outputs::kHidden,
                                    .epsilon = 1e-5F,
                                    .read_factor = 0.25F,
                                    .denoised_factor = 4};
    norm_canvases(outputs.stream, arguments, 3);
    const auto normed_rows = download<float>(outputs.stream, residual);
    scale_rows(outputs.stream, arguments, 3);
    const auto scaled_rows = download<float>(outputs.stream, residual);
    for (const size_t row : {0U, 2U, 3U}) {
      const bool is_denoised = row != 2;
      const float* before = outputs.of(outputs.residual, row);
      const double factor = is_denoised ? norm_factor(before, Outputs::kHidden) : 1;
      for (size_t i = 0; i < Outputs::kHidden; ++i) {
        const float normed_number = outputs.of(normed_rows, row)[i];
        ASSERT_NEAR(normed_number, before[i] * factor, 1e-5) << order << " row " << row;
        ASSERT_EQ(outputs.of(scaled_rows, row)[i], normed_number * (is_denoised ? 4 : 0.25F)) << order;
      }
    }
  });
}

TEST(CapKernel, KeepsLogitsWithinTheirCap) {
  constexpr size_t kCount = 300;
  Stream stream;
  std::vector<float> logits = random_numbers(2 * kCount, 10, 40);
  logits[7] = 0;
  const DeviceBuffer on_device = upload(stream, logits);
  cap_logits(stream, {on_device.as<float>(), kCount, 30}, 2);
  const auto got = download<float>(stream, on_device);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], 30 * std::tanh(double{logits[i]} / 30), 1e-5);
}

}  // namespace
}  // namespace lacuna::cuda::rows_test
