#include "bench/load_bench.h"

#include <algorithm>

#include "base/clock.h"
#include "base/gguf.h"
#include "base/heap.h"
#include "bench/machine.h"
#include "bench/timing.h"
#include "model/adapters.h"
#include "model/parameters.h"
#include "weights/checkpoint.h"

namespace lacuna {
namespace {

int64_t bytes_of_tensors(const std::filesystem::path& folder) {
  if (!GgufFile::is_gguf(folder)) return Checkpoint::open(folder).total_bytes();
  int64_t bytes = 0;
  const GgufFile file = GgufFile::open(folder);
  for (const auto& [name, tensor] : file.tensors()) bytes += static_cast<int64_t>(tensor.bytes.size());
  return bytes;
}

int64_t predict(const std::filesystem::path& folder, const ModelConfig& config,
                const WeightFormats& formats) {
  if (folder.empty()) return predicted_bytes(config, formats);
  return predicted_bytes(config, formats, open_weights(folder, config).get());
}

/// Reads a byte of each page.
void touch(ThreadPool& threads, std::span<const std::byte> bytes) {
  constexpr int64_t kPage = 4096;
  constexpr int64_t kStretch = 256 * kPage;
  threads.parallel_for((std::ssize(bytes) + kStretch - 1) / kStretch, [&](int64_t i, int) {
    const int64_t end = std::min<int64_t>((i + 1) * kStretch, std::ssize(bytes));
    for (int64_t at = i * kStretch; at < end; at += kPage) {
      static_cast<void>(*static_cast<const volatile std::byte*>(bytes.data() + at));
    }
  });
}

}  // namespace

LoadTiming bench_load(const std::filesystem::path& folder, const ModelConfig& config,
                      const WeightFormats& formats, ThreadPool& threads, const LoadBenchOptions& options) {
  LoadTiming timing;
  timing.read_bandwidth = measure_read_bandwidth(threads, int64_t{1} << 28);
  timing.predicted_bytes = predict(folder, config, formats);
  for (int i = -1; i < options.repeat; ++i) {
    const int64_t before = resident_memory();
    const auto watch = [&](int64_t, int64_t) {
      timing.peak_bytes = std::max(timing.peak_bytes, resident_memory() - before);
    };
    const Stopwatch clock;
    const auto model = folder.empty() ? Model::random(config, 0, formats, threads, watch)
                                      : Model::load(folder, config, formats, threads, watch);
    const double seconds = clock.seconds();
    timing.weight_bytes = model->weight_bytes();
    timing.mapped_bytes = 0;
    const Stopwatch first_use;
    for (const std::span<const std::byte> panels : model->mapped_panels()) {
      touch(threads, panels);
      timing.mapped_bytes += std::ssize(panels);
    }
    if (i >= 0) {
      timing.seconds.push_back(seconds);
      timing.first_use_seconds.push_back(first_use.seconds());
    }
    watch(0, 0);
  }
  timing.file_bytes = folder.empty() ? timing.weight_bytes : bytes_of_tensors(folder);
  return timing;
}

nlohmann::ordered_json to_json(const LoadTiming& timing) {
  const double seconds = median(timing.seconds);
  const double first_use = median(timing.first_use_seconds);
  const auto [least, most] = std::minmax_element(timing.seconds.begin(), timing.seconds.end());
  return {{"seconds_median", seconds},
          {"seconds_min", *least},
          {"seconds_max", *most},
          {"first_use_seconds_median", first_use},
          {"file_bytes", timing.file_bytes},
          {"gbps", static_cast<double>(timing.file_bytes) / (seconds + first_use) / 1e9},
          {"read_gbps", timing.read_bandwidth / 1e9},
          {"predicted_bytes", timing.predicted_bytes},
          {"weight_bytes", timing.weight_bytes},
          {"mapped_bytes", timing.mapped_bytes},
          {"peak_bytes", timing.peak_bytes}};
}

}  // namespace lacuna
