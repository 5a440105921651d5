#include <numeric>

#include "backend/cuda/kernels/draw.h"
#include "backend/cuda/kernels/probe.h"
#include "backend/cuda/kernels/rows.h"
#include "bench/gpu/device_vectors.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/hopper_sum.h"
#include "bench/gpu/random_plans.h"

namespace lacuna::cuda {

Rows all_rows(int64_t count) {
  Rows rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

Rows random_rows(int64_t count, const RngStream& random) {
  Rows rows = all_rows(count);
  for (size_t i = rows.size() - 1; i > 0; --i) {
    std::swap(rows[i], rows[random.below(i, static_cast<uint32_t>(i + 1))]);
  }
  rows.resize(1 + random.below(0, static_cast<uint32_t>(count)));
  return rows;
}

namespace {

void compare_norms(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  const int64_t hidden = sizes.plan_k_dim;
  const DeviceBuffer residual =
      upload(stream, random_numbers(static_cast<size_t>(sizes.plan_rows * hidden), 25));
  const DeviceBuffer weight = upload(stream, random_numbers(static_cast<size_t>(hidden), 26));
  compare<uint16_t>("norm", sizes, seed, report, [&](const Rows& rows) {
    const DeviceBuffer list = upload(stream, rows);
    const DeviceBuffer out(rows.size() * static_cast<size_t>(hidden) * sizeof(uint16_t));
    NormArguments a;
    a.residual = residual.as<float>();
    a.rows = list.as<int32_t>();
    a.weight = weight.as<float>();
    a.out = out.as<uint16_t>();
    a.hidden = hidden;
    a.stride = hidden;
    rms_norm(stream, a, static_cast<uint32_t>(rows.size()));
    return download<uint16_t>(stream, out);
  });
}

void compare_draws(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  const int64_t vocabulary = sizes.plan_k_dim + 3;
  const DeviceBuffer logits =
      upload(stream, random_numbers(static_cast<size_t>(sizes.plan_rows * vocabulary), 27, 8));
  const DeviceBuffer rules = upload(
      stream,
      std::vector<DrawRule>{{.temperature = 0.8F}, {.temperature = 1, .filters = true, .top_p = 0.7F}});
  compare<double>("draw", sizes, seed, report, [&](const Rows& rows) {
    std::vector<DrawRequest> requests;
    for (const int32_t row : rows) requests.push_back({RngStream(3, row).key(), row, row % 2, 1});
    const DeviceBuffer asked = upload(stream, requests);
    const DeviceBuffer out(rows.size() * sizeof(DrawStatistics));
    DrawArguments a{.logits = logits.as<float>(), .requests = asked.as<DrawRequest>()};
    a.rules = rules.as<DrawRule>();
    const DeviceBuffer parts(rows.size() * num_slices(vocabulary) * sizeof(DrawPart));
    a.parts = parts.as<DrawPart>();
    a.out = out.as<DrawStatistics>();
    a.vocabulary = vocabulary;
    a.stride = vocabulary;
    draw(stream, a, static_cast<uint32_t>(rows.size()), /*filters=*/true);
    std::vector<double> values;
    for (const DrawStatistics& s : download<DrawStatistics>(stream, out)) {
      values.insert(values.end(), {static_cast<double>(s.token), s.log_sum, s.negative_entropy, s.probability,
                                   s.scored_probability, static_cast<double>(s.scored_rank)});
    }
    return values;
  });
}

}  // namespace

void check_invariance(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  compare_products(stream, sizes, seed, report);
  compare_norms(stream, sizes, seed + 4, report);
  compare_draws(stream, sizes, seed + 5, report);
  compare_cells(stream, sizes, seed + 6, report);
}

void check_sums(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  constexpr int64_t kDepth = 512;
  int64_t different = 0;
  for (int chain = 0; chain < sizes.chains; ++chain) {
    const auto a =
        random_bf16(static_cast<size_t>(16 * kDepth), seed + 100 + static_cast<uint64_t>(2 * chain));
    const auto b =
        random_bf16(static_cast<size_t>(8 * kDepth), seed + 101 + static_cast<uint64_t>(2 * chain));
    const DeviceBuffer left = upload(stream, a);
    const DeviceBuffer right = upload(stream, b);
    const DeviceBuffer out(16 * 8 * sizeof(float));
    multiply_chain(stream, {left.as<uint16_t>(), right.as<uint16_t>(), out.as<float>(), kDepth});
    const std::vector<float> got = download<float>(stream, out);
    for (int64_t i = 0; i < 16 * 8; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < kDepth; k += kProductsAtOnce) {
        sum = hopper_sum(sum, a.data() + i / 8 * kDepth + k, b.data() + i % 8 * kDepth + k);
      }
      different += got[static_cast<size_t>(i)] == sum ? 0 : 1;
    }
  }
  report.add("sums",
             {{"depth", kDepth}, {"elements", int64_t{16} * 8 * sizes.chains}, {"different", different}});
}

}  // namespace lacuna::cuda
