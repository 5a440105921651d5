#include "bench/attention_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/rng.h"
#include "bench/machine.h"
#include "bench/onednn.h"
#include "bench/timing.h"
#include "cache/kv_cache.h"

namespace lacuna {
namespace {

/// Uniform in (-1, 1).
std::vector<float> random_values(uint64_t seed, int64_t count) {
  const RngStream random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(2 * random.uniform(i) - 1);
  return values;
}

const CellFormat& cell_format(const std::string& name) {
  const auto found = std::find_if(std::begin(kCellFormats), std::end(kCellFormats),
                                  [&](const CellFormat& format) { return format.name == name; });
  expects(found != std::end(kCellFormats), "bench attention: the format of cells is known");
  return *found;
}

/// Keys and values of all cells as a cache holds them.
struct Cells {
  KvCache cache;
  std::vector<float> keys;    // [kv_heads, cells, head_dim], dequantized
  std::vector<float> values;  // likewise

  Cells(const AttentionShape& shape, const CellFormat& format, int32_t cells)
      : cache({1, shape.num_kv_heads, shape.head_dim, format.dtype, false, format.is_int8}, cells) {
    const int64_t width = shape.num_kv_heads * shape.head_dim;
    keys.resize(static_cast<size_t>(cells * width));
    values.resize(keys.size());
    for (int32_t cell = 0; cell < cells; ++cell) {
      const auto seed = static_cast<uint64_t>(cell);
      cache.write(0, cell, random_values(2 * seed, width).data(), random_values(2 * seed + 1, width).data());
      for (int64_t head = 0; head < shape.num_kv_heads; ++head) {
        const int64_t place = (head * cells + cell) * shape.head_dim;
        cache.read(0, cell, head, keys.data() + place, values.data() + place);
      }
    }
  }
};

/// Compares a sample of rows and heads with the definition in double precision.
///   out(row, head)  [head_dim]
template <typename Out>
void check(const AttentionToTime& work, Out&& out, const char* failure) {
  const int64_t dim = work.head_dim;
  const int64_t heads_per_kv = work.num_heads / work.num_kv_heads;
  // bf16 rounds queries and softmax weights to 8 bits; the absolute error of a logit is the relative error of
  // its weight.
  const double relative = (work.dtype == DType::kBF16 ? 0.05 : 1e-4);
  for (int64_t row = 0; row < work.rows; row += 1 + work.rows / 3) {
    for (int64_t head = 0; head < work.num_heads; head += 1 + work.num_heads / 3) {
      const float* query = work.q + (row * work.num_heads + head) * dim;
      const int64_t first = head / heads_per_kv * work.cells * dim;
      std::vector<double> weights;
      for (int64_t cell = 0; cell < work.cells; ++cell) {
        double score = 0;
        for (int64_t d = 0; d < dim; ++d) score += double{query[d]} * work.keys[first + cell * dim + d];
        weights.push_back(std::exp(score * work.scale));
      }
      double sum = 0;
      for (const double weight : weights) sum += weight;
      for (int64_t d = 0; d < dim; ++d) {
        double expected = 0;
        double absolute = 0;
        for (int64_t cell = 0; cell < work.cells; ++cell) {
          const double term = weights[static_cast<size_t>(cell)] / sum * work.values[first + cell * dim + d];
          expected += term;
          absolute += std::abs(term);
        }
        expects(std::abs(out(row, head)[d] - expected) <= relative * absolute, failure);
      }
    }
  }
}

AttentionTiming time_attention(const KernelContext& context, const AttentionShape& shape,
                               const CellFormat& format, const Cells& cells, const AttentionToTime& work,
                               int repeat) {
  AttentionTiming timing;
  timing.rows = static_cast<int32_t>(work.rows);
  timing.cells = format;
  timing.flops = 4.0 * static_cast<double>(work.rows * work.num_heads * work.cells * work.head_dim);
  timing.kv_bytes = static_cast<double>(KvCache::bytes_for(cells.cache.shape(), work.cells));
  const int64_t width = shape.num_heads * shape.head_dim;
  Buffer<float> out(work.rows * width);
  const std::vector<IndexRange> ranges = {{0, static_cast<int32_t>(work.cells)}};
  const std::vector<Attention::Group> groups = {{{0, timing.rows}, ranges, {}}};
  const std::vector<KvLayerView> kv = {cells.cache.layer(0)};
  Attention attention;
  attention.prepare(context, shape, format.dtype, groups);
  const auto run = [&] {
    attention.run(context, {work.q, work.rows, width}, kv, {out.data(), work.rows, width});
  };
  run();
  check(
      work, [&](int64_t row, int64_t head) { return out.data() + row * width + head * shape.head_dim; },
      "bench attention: the outputs are right");

  std::unique_ptr<OneDnnAttention> onednn;
  if (!format.is_int8) onednn = make_onednn_attention(work, context.threads.size());
  if (onednn != nullptr) {
    timing.onednn_implementation = onednn->implementation();
    if (timing.onednn_implementation.find("ref") != std::string::npos) {
      onednn = nullptr;
    } else {
      onednn->run();
      check(
          work, [&](int64_t row, int64_t head) { return onednn->out(row, head); },
          "bench attention: oneDNN's outputs are right");
    }
  }
  for (int i = 0; i < repeat; ++i) {
    if (onednn != nullptr) warm_up(run);
    timing.seconds.push_back(seconds_of(run));
    if (onednn == nullptr) continue;
    const auto run_onednn = [&] { onednn->run(); };
    warm_up(run_onednn);
    timing.onednn_seconds.push_back(seconds_of(run_onednn));
  }
  return timing;
}

nlohmann::ordered_json to_json(const AttentionTiming& timing, const AttentionReport& report) {
  const double seconds = median(timing.seconds);
  const auto [least, most] = std::minmax_element(timing.seconds.begin(), timing.seconds.end());
  const double peak = timing.cells.dtype == DType::kF32 ? report.peak_flops_f32 : report.peak_flops_bf16;
  nlohmann::ordered_json json{{"rows", timing.rows},
                              {"cells_as", timing.cells.name},
                              {"seconds_median", seconds},
                              {"seconds_min", *least},
                              {"seconds_max", *most},
                              {"gflops", timing.flops / seconds / 1e9},
                              {"gbps", timing.kv_bytes / seconds / 1e9},
                              {"peak_share", timing.flops / seconds / peak},
                              {"onednn", nullptr},
                              {"ratio_to_onednn", nullptr}};
  if (!timing.onednn_implementation.empty()) {
    json["onednn"]["implementation"] = timing.onednn_implementation;
  }
  if (!timing.onednn_seconds.empty()) {
    const double onednn_seconds = median(timing.onednn_seconds);
    json["onednn"]["seconds_median"] = onednn_seconds;
    json["onednn"]["gflops"] = timing.flops / onednn_seconds / 1e9;
    json["ratio_to_onednn"] = timing.ratio_to_onednn();
  }
  return json;
}

}  // namespace

double AttentionTiming::ratio_to_onednn() const {
  return median_ratio(onednn_seconds, seconds);
}

AttentionReport bench_attention(const KernelContext& context, const AttentionBenchOptions& options) {
  AttentionShape shape = options.shape;
  if (shape.num_kv_heads < 1 || shape.num_heads % shape.num_kv_heads != 0) {
    throw InputError("--kv-heads is {}; expected a divisor of --heads, {}", shape.num_kv_heads,
                     shape.num_heads);
  }
  shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
  AttentionReport report;
  const int tries = options.quick_roofline ? 1 : 20;
  report.peak_flops_f32 = measure_peak_flops(context.threads, context.kernels.name, DType::kF32, tries);
  report.peak_flops_bf16 = measure_peak_flops(context.threads, context.kernels.name, DType::kBF16, tries);
  for (const std::string& name : options.cell_formats) {
    const CellFormat& format = cell_format(name);
    const Cells cells(shape, format, options.cells);
    for (const int32_t rows : options.rows) {
      const std::vector<float> q =
          random_values(static_cast<uint64_t>(rows), rows * shape.num_heads * shape.head_dim);
      const AttentionToTime work{
          format.dtype,   rows,        options.cells, shape.num_heads,   shape.num_kv_heads,
          shape.head_dim, shape.scale, q.data(),      cells.keys.data(), cells.values.data()};
      report.timings.push_back(time_attention(context, shape, format, cells, work, options.repeat));
    }
  }
  return report;
}

nlohmann::ordered_json to_json(const AttentionReport& report, const KernelContext& context,
                               const AttentionBenchOptions& options) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const AttentionTiming& timing : report.timings) results.push_back(to_json(timing, report));
  return {{"bench", "attention"},
          {"machine", processor_name()},
          {"isa", context.kernels.name},
          {"threads", context.threads.size()},
          {"heads", options.shape.num_heads},
          {"kv_heads", options.shape.num_kv_heads},
          {"head_dim", options.shape.head_dim},
          {"cells", options.cells},
          {"peak_gflops_f32", report.peak_flops_f32 / 1e9},
          {"peak_gflops_bf16", report.peak_flops_bf16 / 1e9},
          {"onednn", onednn_description()},
          {"results", results}};
}

}  // namespace lacuna
