#include "backend/cuda/kernels/draw.h"
#include "backend/cuda/kernels/drift.h"
#include "backend/cuda/kernels/rows.h"
#include "bench/gpu/device_timing.h"
#include "bench/gpu/device_vectors.h"
#include "bench/gpu/gpu_check.h"

namespace lacuna::cuda {
namespace {

void add_line(CheckReport& report, const char* kernel, int64_t rows, int64_t bytes, double seconds) {
  const double bytes_per_second = static_cast<double>(bytes) / seconds;
  report.add("statistics", {{"kernel", kernel},
                            {"rows", rows},
                            {"us", 1e6 * seconds},
                            {"gbs", bytes_per_second / 1e9},
                            {"share_of_copy", report.share_of_copy(bytes_per_second)}});
}

void measure_norm(Stream& stream, const CheckSizes& sizes, CheckReport& report) {
  constexpr int64_t kHidden = 4096;
  const int64_t rows = sizes.statistics_rows;
  const DeviceBuffer residual = repeated(stream, rows * kHidden * 4, random_numbers(kPatternNumbers, 10));
  const DeviceBuffer weight = repeated(stream, kHidden * 4, random_numbers(static_cast<size_t>(kHidden), 11));
  const DeviceBuffer out(static_cast<size_t>(rows * kHidden) * sizeof(uint16_t));
  NormArguments a;
  a.residual = residual.as<float>();
  a.weight = weight.as<float>();
  a.out = out.as<uint16_t>();
  a.hidden = kHidden;
  a.stride = kHidden;
  a.epsilon = 1e-5F;
  const double seconds = seconds_of_call(stream, sizes.timed_calls, sizes.repeat,
                                         [&](int) { rms_norm(stream, a, static_cast<uint32_t>(rows)); });
  add_line(report, "norm of 4096, in cache", rows, rows * kHidden * 6, seconds);
}

}  // namespace

void measure_statistics(Stream& stream, const CheckSizes& sizes, CheckReport& report) {
  const int64_t rows = sizes.statistics_rows;
  const int64_t bytes = rows * sizes.vocabulary * 4;
  const int copies = num_copies(bytes, sizes.rotate_bytes);
  const DeviceBuffer logits = repeated(stream, copies * bytes, random_numbers(kPatternNumbers, 12, 8));
  std::vector<DrawRequest> requests;
  for (int64_t row = 0; row < rows; ++row) {
    requests.push_back({RngStream(1, row).key(), static_cast<int32_t>(row), 0, -1});
  }
  const DeviceBuffer asked = upload(stream, requests);
  const DeviceBuffer out(std::max(static_cast<size_t>(rows) * sizeof(DrawStatistics), size_t{1}));
  const DeviceBuffer parts(
      std::max(static_cast<size_t>(rows * num_slices(sizes.vocabulary)) * sizeof(DrawPart), size_t{1}));
  const auto rows_of = [&](int i) { return logits.as<float>() + i % copies * rows * sizes.vocabulary; };
  const int calls = std::max(sizes.timed_calls, copies);
  const std::pair<const char*, DrawRule> draws[] = {
      {"draw at temperature 0", {}},
      {"draw at temperature 1", {.temperature = 1}},
      {"draw with top-p", {.temperature = 1, .filters = true, .top_p = 0.9F}}};
  for (const auto& [name, rule] : draws) {
    const DeviceBuffer rules = upload(stream, std::vector<DrawRule>{rule});
    DrawArguments a{.requests = asked.as<DrawRequest>(), .rules = rules.as<DrawRule>()};
    a.parts = parts.as<DrawPart>();
    a.out = out.as<DrawStatistics>();
    a.vocabulary = sizes.vocabulary;
    a.stride = sizes.vocabulary;
    const double seconds = seconds_of_call(stream, calls, sizes.repeat, [&](int i) {
      a.logits = rows_of(i);
      draw(stream, a, static_cast<uint32_t>(rows), rule.filters);
    });
    add_line(report, name, rows, bytes, seconds);
  }
  const double seconds = seconds_of_call(stream, calls, sizes.repeat, [&](int i) {
    measure_drift(stream, {rows_of(i), rows_of(i + 1), out.as<double>(), sizes.vocabulary, sizes.vocabulary},
                  static_cast<uint32_t>(rows));
  });
  add_line(report, "drift", rows, 2 * bytes, seconds);
  measure_norm(stream, sizes, report);
}

}  // namespace lacuna::cuda
