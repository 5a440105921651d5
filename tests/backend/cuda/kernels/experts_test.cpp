#include "backend/cuda/kernels/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/gpu/device_vectors.h"
#include "model/router.h"
#include "orders.h"
#include "product_sum.h"

namespace lacuna::cuda::experts_test {
namespace {

using simt::in_every_order;

std::vector<ChosenExpert> routed(const MoeConfig& moe, const std::vector<float>& logits,
                                 const std::vector<float>& bias, const std::vector<RowWindow>& windows = {},
                                 const std::vector<float>& expert_scale = {}) {
  Stream stream;
  const size_t rows = logits.size() / static_cast<size_t>(moe.num_experts);
  const DeviceBuffer on_device = upload(stream, logits);
  const DeviceBuffer biases = upload(stream, bias);
  const DeviceBuffer windows_of_rows = upload(stream, windows);
  const DeviceBuffer scales = upload(stream, expert_scale);
  const DeviceBuffer chosen(rows * static_cast<size_t>(moe.experts_per_token) * sizeof(ChosenExpert));
  route(stream,
        {.logits = on_device.as<float>(),
         .bias = bias.empty() ? nullptr : biases.as<float>(),
         .chosen = chosen.as<ChosenExpert>(),
         .experts = static_cast<int32_t>(moe.num_experts),
         .choices = static_cast<int32_t>(moe.experts_per_token),
         .groups = static_cast<int32_t>(moe.num_groups),
         .groups_per_row = static_cast<int32_t>(moe.groups_per_token),
         .windows = windows.empty() ? nullptr : windows_of_rows.as<RowWindow>(),
         .experts_per_window = static_cast<int32_t>(moe.experts_per_window),
         .sigmoid = moe.sigmoid_scores,
         .normalize = moe.normalize_weights,
         .scale = moe.routed_scale,
         .expert_scale = expert_scale.empty() ? nullptr : scales.as<float>()},
        static_cast<uint32_t>(rows));
  return download<ChosenExpert>(stream, chosen);
}

TEST(RouteKernel, ChoosesTheExpertsThatTheCpuChooses) {
  const MoeConfig plain{.num_experts = 64, .experts_per_token = 8};
  const MoeConfig normalized{.num_experts = 7, .experts_per_token = 3, .normalize_weights = true};
  const MoeConfig grouped{.num_experts = 48,
                          .experts_per_token = 6,
                          .normalize_weights = true,
                          .sigmoid_scores = true,
                          .selection_bias = true,
                          .num_groups = 8,
                          .groups_per_token = 3,
                          .routed_scale = 2.5F};
  for (const MoeConfig& moe : {plain, normalized, grouped}) {
    const auto experts = static_cast<size_t>(moe.num_experts);
    const auto choices = static_cast<size_t>(moe.experts_per_token);
    constexpr size_t kRows = 9;
    std::vector<float> logits = random_numbers(kRows * experts, 41, 3);
    logits[1] = logits[3] = logits[5] = 4;  // equals
    std::vector<float> bias;
    if (moe.selection_bias) bias = random_numbers(experts, 42, 0.3F);
    in_every_order([&](const std::string& order) {
      const auto got = routed(moe, logits, bias);
      for (size_t row = 0; row < kRows; ++row) {
        std::vector<ExpertChoice> expected(choices);
        choose_experts(moe, std::span(logits).subspan(row * experts, experts), bias, {}, expected);
        std::sort(expected.begin(), expected.end(),
                  [](const ExpertChoice& a, const ExpertChoice& b) { return a.expert < b.expert; });
        for (size_t i = 0; i < choices; ++i) {
          EXPECT_EQ(got[row * choices + i].expert, expected[i].expert) << order << " row " << row;
          EXPECT_NEAR(got[row * choices + i].weight, expected[i].weight, 1e-6 * moe.routed_scale);
        }
      }
    });
  }
}

TEST(RouteKernel, ChoosesAmongTheExpertsThatTheRowsOfAWindowShare) {
  const MoeConfig moe{.num_experts = 40,
                      .experts_per_token = 4,
                      .normalize_weights = true,
                      .sigmoid_scores = true,
                      .selection_bias = true,
                      .routed_scale = 2.5F,
                      .window = 8,
                      .experts_per_window = 6};
  const std::vector<RowWindow> windows = {{0, 5}, {5, 6}, {6, 14}};
  constexpr size_t kRows = 14;
  std::vector<float> logits = random_numbers(kRows * 40, 43, 3);
  for (size_t e = 0; e < 20; ++e) logits[2 * 40 + e] = 9;  // more equals than the window has places
  std::vector<float> bias = random_numbers(40, 44, 0.3F);
  std::fill_n(bias.begin(), 20, 0.5F);
  std::vector<RowWindow> of_rows;
  for (const RowWindow& window : windows)
    of_rows.insert(of_rows.end(), static_cast<size_t>(window.end - window.begin), window);
  int64_t kept_out = 0;  // best experts of rows that their windows do not share
  in_every_order([&](const std::string& order) {
    const auto got = routed(moe, logits, bias, of_rows);
    for (const RowWindow& window : windows) {
      const int64_t rows = window.end - window.begin;
      const auto pool = choose_pool(moe, {logits.data() + int64_t{window.begin} * 40, rows, 40}, bias);
      for (auto row = static_cast<size_t>(window.begin); row < static_cast<size_t>(window.end); ++row) {
        const auto own = std::span(logits).subspan(row * 40, 40);
        std::vector<ExpertChoice> expected(4), of_all(4);
        choose_experts(moe, own, bias, pool, expected);
        choose_experts(moe, own, bias, {}, of_all);
        kept_out += of_all[0].expert != expected[0].expert ? 1 : 0;
        std::sort(expected.begin(), expected.end(),
                  [](const ExpertChoice& a, const ExpertChoice& b) { return a.expert < b.expert; });
        for (size_t i = 0; i < 4; ++i) {
          EXPECT_EQ(got[row * 4 + i].expert, expected[i].expert) << order << " row " << row;
          EXPECT_NEAR(got[row * 4 + i].weight, expected[i].weight, 1e-6 * moe.routed_scale);
        }
      }
    }
  });
  EXPECT_GT(kept_out, 0);
}

TEST(RouteKernel, ScalesTheWeightsOfChosenExperts) {
  const MoeConfig moe{.num_experts = 40, .experts_per_token = 4, .normalize_weights = true};
  const std::vector<float> logits = random_numbers(3 * 40, 43, 3);
  const std::vector<float> scale = random_numbers(40, 44, 2);
  const auto plain = routed(moe, logits, {});
  const auto scaled = routed(moe, logits, {}, {}, scale);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(scaled[i].expert, plain[i].expert);
    EXPECT_EQ(scaled[i].weight, plain[i].weight * scale[static_cast<size_t>(plain[i].expert)]);
  }
}

TEST(CombineKernel, TakesThePlaceOfWhatWasThere) {
  Stream stream;
  const std::vector<float> outputs = random_numbers(4 * 30, 45);
  const DeviceBuffer on_device = upload(stream, outputs);
  const DeviceBuffer chosen =
      upload(stream, std::vector<ChosenExpert>{{0, 0.5F}, {2, 2}, {1, 1}, {3, 0.25F}});
  const DeviceBuffer sum = upload(stream, std::vector<float>(2 * 30, NAN));
  combine(stream,
          {.chosen = chosen.as<ChosenExpert>(),
           .outputs = on_device.as<float>(),
           .residual = sum.as<float>(),
           .hidden = 30,
           .choices = 2,
           .adds = false},
          2);
  const auto got = download<float>(stream, sum);
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_NEAR(got[i], 0.5 * outputs[i] + 2 * outputs[30 + i], 1e-6);
    EXPECT_NEAR(got[30 + i], outputs[60 + i] + 0.25 * outputs[90 + i], 1e-6);
  }
}

TEST(RouteKernel, NamesExpertsThatExistWhereLogitsAreNoNumbers) {
  const MoeConfig moe{.num_experts = 40, .experts_per_token = 4};
  const auto got = routed(moe, std::vector<float>(40, NAN), {});
  for (const ChosenExpert& chosen : got) {
    EXPECT_GE(chosen.expert, 0);
    EXPECT_LT(chosen.expert, 40);
  }
}

constexpr int64_t kHidden = 40;
constexpr int64_t kInner = 24;
constexpr int32_t kExperts = 5;
constexpr int32_t kChoices = 2;

/// A layer of experts: gate and up interleaved by eight outputs, down.
struct Layer {
  std::vector<uint16_t> up = to_bits(random_numbers(size_t{kExperts} * 2 * kInner * 64, 51, 0.5F));
  std::vector<uint16_t> down = to_bits(random_numbers(size_t{kExperts} * kHidden * 64, 52, 0.5F));
  std::vector<uint16_t> x;
  std::vector<ChosenExpert> chosen;

  explicit Layer(size_t rows) : x(to_bits(random_numbers(rows * 64, 53))) {
    const RngStream random(54);
    for (size_t row = 0; row < rows; ++row) {
      const auto first =
          static_cast<int32_t>(random.below(row, 3));  // most rows share an expert; one has none
      chosen.push_back({first, 0.75F});
      chosen.push_back({first == 2 ? 4 : 2, 0.5F});
    }
  }

  std::vector<float> run(const std::vector<size_t>& rows) const {
    std::vector<uint16_t> some;
    std::vector<ChosenExpert> choices;
    for (const size_t row : rows) {
      some.insert(some.end(), x.begin() + static_cast<int64_t>(row * 64),
                  x.begin() + static_cast<int64_t>(row * 64 + 64));
      choices.insert(choices.end(), {chosen[2 * row], chosen[2 * row + 1]});
    }
    Stream stream;
    const auto entries = static_cast<int32_t>(choices.size());
    const int32_t num_tiles = most_tiles(entries, kExperts);
    const DeviceBuffer input = upload(stream, some);
    const DeviceBuffer choice = upload(stream, choices);
    const DeviceBuffer up_weights = upload(stream, up);
    const DeviceBuffer down_weights = upload(stream, down);
    const DeviceBuffer sorted_entries(choices.size() * sizeof(int32_t));
    const DeviceBuffer sorted_rows(choices.size() * sizeof(int32_t));
    const DeviceBuffer tiles(static_cast<size_t>(num_tiles) * sizeof(ExpertTile));
    const DeviceBuffer inner(choices.size() * 64 * sizeof(uint16_t));
    const DeviceBuffer outputs(choices.size() * kHidden * sizeof(float));
    const DeviceBuffer residual = upload(stream, std::vector<float>(rows.size() * kHidden, 1));
    sort_by_expert(stream, {choice.as<ChosenExpert>(), sorted_entries.as<int32_t>(),
                            sorted_rows.as<int32_t>(), tiles.as<ExpertTile>(), entries, kChoices, kExperts});
    grouped_product(stream,
                    {.product = {.x = input.as<uint16_t>(),
                                 .weights = up_weights.as<uint16_t>(),
                                 .out_bf16 = inner.as<uint16_t>(),
                                 .num_outputs = 2 * kInner,
                                 .depth = 64,
                                 .out_stride = 64,
                                 .epilogue = Epilogue::kSwiglu},
                     .tiles = tiles.as<ExpertTile>(),
                     .rows = sorted_rows.as<int32_t>(),
                     .out_rows = sorted_entries.as<int32_t>(),
                     .expert_stride = 2 * kInner * 64,
                     .tile_rows = expert_tile_rows(entries, kExperts)},
                    num_tiles);
    grouped_product(stream,
                    {.product = {.x = inner.as<uint16_t>(),
                                 .weights = down_weights.as<uint16_t>(),
                                 .out_f32 = outputs.as<float>(),
                                 .num_outputs = kHidden,
                                 .depth = 64,
                                 .out_stride = kHidden},
                     .tiles = tiles.as<ExpertTile>(),
                     .rows = sorted_entries.as<int32_t>(),
                     .out_rows = sorted_entries.as<int32_t>(),
                     .expert_stride = kHidden * 64,
                     .tile_rows = expert_tile_rows(entries, kExperts)},
                    num_tiles);
    combine(stream,
            {choice.as<ChosenExpert>(), outputs.as<float>(), residual.as<float>(), kHidden, kChoices, 2},
            static_cast<uint32_t>(rows.size()));
    return download<float>(stream, residual);
  }

  /// By the definition in double, and the sum of magnitudes that goes into it.
  std::pair<double, double> expected(size_t row, int64_t output) const {
    double sum = 1;
    double magnitude = 1;
    for (const ChosenExpert& choice : {chosen[2 * row], chosen[2 * row + 1]}) {
      for (int64_t n = 0; n < kInner; ++n) {
        double gate = 0, upper = 0;
        for (int64_t k = 0; k < 64; ++k) {
          const double value = from_bits(x[row * 64 + static_cast<size_t>(k)]);
          const int64_t at = (choice.expert * 2 * kInner + n / 8 * 16 + n % 8) * 64 + k;
          gate += value * from_bits(up[static_cast<size_t>(at)]);
          upper += value * from_bits(up[static_cast<size_t>(at + 8 * 64)]);
        }
        const double part = 2 * choice.weight * gate / (1 + std::exp(-gate)) * upper *
                            from_bits(down[static_cast<size_t>((choice.expert * kHidden + output) * 64 + n)]);
        sum += part;
        magnitude += std::abs(part);
      }
    }
    return {sum, magnitude};
  }
};

std::vector<size_t> first_rows(size_t count) {
  std::vector<size_t> rows(count);
  for (size_t i = 0; i < count; ++i) rows[i] = i;
  return rows;
}

TEST(ExpertKernels, TakeLargerTilesWhereExpertsHaveManyRows) {
  EXPECT_EQ(expert_tile_rows(32 * kExperts, kExperts), 16);
  EXPECT_EQ(expert_tile_rows(32 * kExperts + 1, kExperts), 64);
  EXPECT_EQ(most_tiles(3, kExperts), 3);
  EXPECT_EQ(most_tiles(160, kExperts), kExperts + 10);
  EXPECT_EQ(most_tiles(180, kExperts), kExperts + 2);
}

TEST(ExpertKernels, AddWhatTheChosenExpertsOfARowCompute) {
  for (const size_t rows : {1U, 15U, 17U, 40U, 90U}) {
    const Layer layer(rows);
    in_every_order([&](const std::string& order) {
      const auto got = layer.run(first_rows(rows));
      for (size_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < kHidden; ++i) {
          const auto [sum, magnitude] = layer.expected(row, i);
          ASSERT_NEAR(got[row * kHidden + static_cast<size_t>(i)], sum, 0.004 * magnitude)
              << order << " row " << row << " of " << rows;
        }
      }
    });
  }
}

TEST(ExpertKernels, GiveARowTheSameBitsAloneAndInAnyCompany) {
  const Layer layer(90);
  for (const size_t rows : {40U, 90U}) {  // tiles of 16 and of 64 entries
    const auto together = layer.run(first_rows(rows));
    for (const size_t row : {0U, 21U, 39U}) {
      const auto alone = layer.run({row});
      EXPECT_TRUE(
          std::equal(alone.begin(), alone.end(), together.begin() + static_cast<int64_t>(row) * kHidden))
          << row << " of " << rows;
    }
  }
}

enum class Weights : uint8_t { kBf16, kInt8, kFp8, kF32, kInt8Group, kInt4Group, kInt4Min };
constexpr Weights kAllWeights[] = {Weights::kBf16,      Weights::kInt8,      Weights::kFp8,    Weights::kF32,
                                   Weights::kInt8Group, Weights::kInt4Group, Weights::kInt4Min};

constexpr bool has_groups(Weights format) {
  return format >= Weights::kInt8Group;
}
constexpr bool has_int4(Weights format) {
  return format >= Weights::kInt4Group;
}

/// Matrices of kExperts experts in one format, and rows in bf16 or f32.
struct ExpertMatrices {
  static constexpr int64_t kOutputs = 70;
  static constexpr int64_t kDepth = 128;

  Weights format;
  std::vector<float> x, weights;  // as the kernel reads them
  std::vector<uint8_t> codes;
  std::vector<float> scales, minimums;

  ExpertMatrices(Weights of, size_t rows)
      : format(of),
        x(random_numbers(rows * kDepth, 81)),
        weights(random_numbers(kExperts * kOutputs * kDepth, 82)) {
    const size_t group = has_groups(format) ? 32 : size_t{kDepth};
    if (format != Weights::kF32) {
      for (float& number : x) number = static_cast<float>(bf16(number));
      for (float& number : weights) number = static_cast<float>(bf16(number));
    }
    if (format == Weights::kBf16 || format == Weights::kF32) return;
    scales = random_numbers(weights.size() / group, 83, 0.02F);
    if (format == Weights::kInt4Min) minimums = random_numbers(scales.size(), 85, 0.08F);
    codes = format == Weights::kFp8 ? random_e4m3(weights.size(), 84)
                                    : random_bytes(weights.size() / (has_int4(format) ? 2 : 1), 84);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = scales[i / group] * value_of_code(i);
    for (size_t i = 0; i < weights.size() && !minimums.empty(); ++i) weights[i] += minimums[i / group];
  }

  float value_of_code(size_t i) const {
    if (format == Weights::kFp8) return e4m3_value(codes[i]);
    if (!has_int4(format)) return static_cast<int8_t>(codes[i]);
    return static_cast<float>((i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4) - 8);
  }

  /// Each of the rows times the matrix of its expert.
  ///   tiles  sorted entries are the rows in order
  std::vector<float> multiplied(const std::vector<ExpertTile>& tiles, size_t rows,
                                int32_t tile_rows = 16) const {
    Stream stream;
    std::vector<int32_t> all(rows);
    for (size_t i = 0; i < rows; ++i) all[i] = static_cast<int32_t>(i);
    const DeviceBuffer list = upload(stream, all);
    const DeviceBuffer device_tiles = upload(stream, tiles);
    const DeviceBuffer x_bf16 = upload(stream, to_bits(x));
    const DeviceBuffer x_f32 = upload(stream, x);
    const DeviceBuffer bf16_weights = upload(stream, to_bits(weights));
    const DeviceBuffer f32_weights = upload(stream, weights);
    const DeviceBuffer device_codes = upload(stream, codes);
    const DeviceBuffer device_scales = upload(stream, scales);
    const DeviceBuffer device_minimums = upload(stream, minimums);
    const DeviceBuffer out(rows * kOutputs * sizeof(float));
    GroupedArguments a{.product = {.x = x_bf16.as<uint16_t>(),
                                   .out_f32 = out.as<float>(),
                                   .num_outputs = kOutputs,
                                   .depth = kDepth,
                                   .out_stride = kOutputs},
                       .tiles = device_tiles.as<ExpertTile>(),
                       .rows = list.as<int32_t>(),
                       .out_rows = list.as<int32_t>(),
                       .expert_stride = kOutputs * kDepth,
                       .tile_rows = tile_rows};
    if (format == Weights::kBf16) a.product.weights = bf16_weights.as<uint16_t>();
    if (format == Weights::kF32) {
      a.product.x_f32 = x_f32.as<float>();
      a.product.weights_f32 = f32_weights.as<float>();
    }
    if (format == Weights::kInt8 || format == Weights::kFp8) {
      a.product.codes = device_codes.as<uint8_t>();
      a.product.code_format = format == Weights::kFp8 ? CodeFormat::kE4m3 : CodeFormat::kInt8;
      a.product.scales = device_scales.as<float>();
    }
    if (has_groups(format)) {
      const GroupFormat of_groups = format == Weights::kInt8Group   ? GroupFormat::kInt8
                                    : format == Weights::kInt4Group ? GroupFormat::kInt4
                                                                    : GroupFormat::kInt4Min;
      a.codes = {device_codes.as<uint8_t>(), device_scales.as<float>(),
                 minimums.empty() ? nullptr : device_minimums.as<float>(), of_groups};
    }
    grouped_product(stream, a, static_cast<int32_t>(tiles.size()));
    return download<float>(stream, out);
  }
};

TEST(ExpertKernels, MultiplyWithWeightsOfEveryFormat) {
  constexpr size_t kRows = 20;
  const std::vector<ExpertTile> tiles = {{0, 0, 3}, {3, 3, 16}, {4, 19, 1}, {}};
  for (const Weights format : kAllWeights) {
    const ExpertMatrices matrices(format, kRows);
    std::vector<float> first;
    in_every_order([&](const std::string& order) {
      const std::vector<float> got = matrices.multiplied(tiles, kRows);
      if (first.empty()) first = got;
      ASSERT_EQ(got, first) << order;
    });
    const std::vector<float> alone = matrices.multiplied({{3, 7, 1}}, kRows);
    const int64_t from = 7 * ExpertMatrices::kOutputs;
    EXPECT_TRUE(std::equal(alone.begin() + from, alone.begin() + from + ExpertMatrices::kOutputs,
                           first.begin() + from))
        << static_cast<int>(format);
    for (size_t row = 0; row < kRows; ++row) {
      const int64_t expert = row < 3 ? 0 : row < 19 ? 3 : 4;
      for (int64_t n = 0; n < ExpertMatrices::kOutputs; ++n) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < ExpertMatrices::kDepth; ++k) {
          const double part = double{matrices.x[row * ExpertMatrices::kDepth + static_cast<size_t>(k)]} *
                              matrices.weights[static_cast<size_t>(
                                  (expert * ExpertMatrices::kOutputs + n) * ExpertMatrices::kDepth + k)];
          sum += part;
          magnitude += std::abs(part);
        }
        ASSERT_NEAR(first[row * ExpertMatrices::kOutputs + static_cast<size_t>(n)], sum,
                    (ExpertMatrices::kDepth + 2) * 0x1p-24 * magnitude)
            << "format " << static_cast<int>(format) << ", row " << row << ", output " << n;
      }
    }
  }
}

TEST(ExpertKernels, GiveTheSameBitsInTilesOfBothSizes) {
  constexpr size_t kRows = 60;
  const std::vector<ExpertTile> few = {{0, 0, 3},   {3, 3, 16}, {3, 19, 16},
                                       {3, 35, 16}, {3, 51, 2}, {4, 53, 7}};
  const std::vector<ExpertTile> many = {{0, 0, 3}, {3, 3, 50}, {4, 53, 7}, {}};
  for (const Weights format : kAllWeights) {
    const ExpertMatrices matrices(format, kRows);
    const std::vector<float> expected = matrices.multiplied(few, kRows);
    in_every_order([&](const std::string& order) {
      EXPECT_EQ(matrices.multiplied(many, kRows, 64), expected) << static_cast<int>(format) << ", " << order;
    });
  }
}

}  // namespace
}  // namespace lacuna::cuda::experts_test
