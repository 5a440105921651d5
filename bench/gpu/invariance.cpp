#include <algorithm>
#include <numeric>
#include <string>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/probe.h"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/quantized_product.h"
#include "backend/cuda/kernels/rows.h"
#include "backend/cuda/kernels/statistics.h"
#include "backend/cuda/kernels/wide_product.h"
#include "bench/gpu/device_vectors.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/hopper_sum.h"
#include "bench/gpu/uploaded_attention.h"

namespace lacuna::cuda {
namespace {

constexpr int64_t kOutputs = 200;  // not a multiple of a block's

using Rows = std::vector<int32_t>;

Rows all_rows(int64_t count) {
  Rows rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Some of the rows in any order, at least one.
Rows random_rows(int64_t count, const RngStream& random) {
  Rows rows = all_rows(count);
  for (size_t i = rows.size() - 1; i > 0; --i) {
    std::swap(rows[i], rows[random.below(i, static_cast<uint32_t>(i + 1))]);
  }
  rows.resize(1 + random.below(0, static_cast<uint32_t>(count)));
  return rows;
}

/// Compares rows of random plans with those of a plan of all rows.
///   run  computes rows: [rows.size()] times the same number of values
template <typename Value>
void compare(const std::string& kernel, const CheckSizes& sizes, uint64_t seed, CheckReport& report,
             const std::function<std::vector<Value>(const Rows&)>& run) {
  const std::vector<Value> whole = run(all_rows(sizes.plan_rows));
  const auto width = static_cast<int64_t>(whole.size()) / sizes.plan_rows;
  int64_t rows_compared = 0;
  int64_t different = 0;
  for (int plan = 0; plan < sizes.plans; ++plan) {
    const Rows rows = random_rows(sizes.plan_rows, RngStream(seed, plan));
    const std::vector<Value> some = run(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto one = some.begin() + static_cast<int64_t>(i) * width;
      different += std::equal(one, one + width, whole.begin() + rows[i] * width) ? 0 : 1;
    }
    rows_compared += static_cast<int64_t>(rows.size());
  }
  report.num_failures += different > 0 ? 1 : 0;
  report.add("invariance",
             {{"kernel", kernel}, {"plans", sizes.plans}, {"rows", rows_compared}, {"different", different}});
}

/// Products of every format.
class Products {
 public:
  enum class Format : uint8_t { kBf16, kInt8, kFp8, kInt8Group, kInt4Group, kInt4Min };

  Products(Stream& stream, const CheckSizes& sizes) : stream_(stream), depth_(sizes.plan_depth) {
    x_ = upload(stream, random_bf16(static_cast<size_t>(sizes.plan_rows * depth_), 21));
    weights_ = upload(stream, random_bf16(static_cast<size_t>(kOutputs * depth_), 22));
    codes_ = upload(stream, random_e4m3(static_cast<size_t>(kOutputs * depth_), 23));
    scales_ = upload(stream, random_numbers(static_cast<size_t>(kOutputs * depth_ / kCodeGroup), 24));
    minimums_ = upload(stream, random_numbers(static_cast<size_t>(kOutputs * depth_ / kCodeGroup), 25));
  }

  ///   is_wide  by the kernel of many rows
  std::vector<float> run(const Rows& rows, Format format, bool is_wide = false) const {
    const DeviceBuffer list = upload(stream_, rows);
    const DeviceBuffer out(rows.size() * static_cast<size_t>(kOutputs) * sizeof(float));
    ProductArguments a;
    a.x = x_.as<uint16_t>();
    a.rows = list.as<int32_t>();
    a.out_f32 = out.as<float>();
    a.num_rows = static_cast<int64_t>(rows.size());
    a.num_outputs = kOutputs;
    a.depth = depth_;
    a.out_stride = kOutputs;
    if (format >= Format::kInt8Group) {
      const GroupFormat of_groups = format == Format::kInt8Group   ? GroupFormat::kInt8
                                    : format == Format::kInt4Group ? GroupFormat::kInt4
                                                                   : GroupFormat::kInt4Min;
      const QuantizedProductArguments quantized{
          a, {codes_.as<uint8_t>(), scales_.as<float>(), minimums_.as<float>(), of_groups}};
      is_wide ? wide_quantized_product(stream_, quantized) : quantized_product(stream_, quantized);
      return download<float>(stream_, out);
    }
    const bool is_coded = format != Format::kBf16;
    a.weights = is_coded ? nullptr : weights_.as<uint16_t>();
    a.codes = is_coded ? codes_.as<uint8_t>() : nullptr;
    a.code_format = format == Format::kFp8 ? CodeFormat::kE4m3 : CodeFormat::kInt8;
    a.scales = is_coded ? scales_.as<float>() : nullptr;
    is_wide ? wide_product(stream_, a) : product(stream_, a);
    return download<float>(stream_, out);
  }

 private:
  Stream& stream_;
  int64_t depth_;
  DeviceBuffer x_, weights_, codes_, scales_, minimums_;
};

void compare_products(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  const Products products(stream, sizes);
  struct Named {
    Products::Format format;
    std::string name;
  };
  const Named formats[] = {{Products::Format::kBf16, "bf16"},
                           {Products::Format::kInt8, "int8"},
                           {Products::Format::kFp8, "fp8"},
                           {Products::Format::kInt8Group, "int8-group"},
                           {Products::Format::kInt4Group, "int4-group"},
                           {Products::Format::kInt4Min, "int4-min"}};
  for (const Named& of : formats) {
    compare<float>("product, " + of.name, sizes, seed, report,
                   [&](const Rows& rows) { return products.run(rows, of.format); });
    // A plan of all rows goes to one kernel, and those of some rows to the other.
    compare<float>("product of few and of many rows, " + of.name, sizes, seed, report, [&](const Rows& rows) {
      return products.run(rows, of.format, std::ssize(rows) < sizes.plan_rows);
    });
    ++seed;
  }
}

void compare_norms(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  const int64_t hidden = sizes.plan_depth;
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
  const int64_t vocabulary = sizes.plan_depth + 3;
  const DeviceBuffer logits =
      upload(stream, random_numbers(static_cast<size_t>(sizes.plan_rows * vocabulary), 27, 8));
  const DeviceBuffer rules = upload(stream, std::vector<DrawRule>{{.temperature = 0.8F}});
  compare<double>("draw", sizes, seed, report, [&](const Rows& rows) {
    std::vector<DrawRequest> requests;
    for (const int32_t row : rows) requests.push_back({RngStream(3, row).key(), row, 0, 1});
    const DeviceBuffer asked = upload(stream, requests);
    const DeviceBuffer out(rows.size() * sizeof(DrawStatistics));
    DrawArguments a{.logits = logits.as<float>(), .requests = asked.as<DrawRequest>()};
    a.rules = rules.as<DrawRule>();
    a.out = out.as<DrawStatistics>();
    a.vocabulary = vocabulary;
    a.stride = vocabulary;
    draw(stream, a, static_cast<uint32_t>(rows.size()));
    std::vector<double> values;
    for (const DrawStatistics& s : download<DrawStatistics>(stream, out)) {
      values.insert(values.end(), {static_cast<double>(s.token), s.log_sum, s.negative_entropy, s.probability,
                                   s.scored_probability, static_cast<double>(s.scored_rank)});
    }
    return values;
  });
}

/// Rows in causal order behind a prefix, in scattered pages.
class Sequence {
 public:
  Sequence(Stream& stream, const CheckSizes& sizes) : stream_(stream), rows_(sizes.plan_rows) {
    constexpr int64_t kPagesFactor = 7;
    cells_ = sizes.plan_cells + rows_;
    const int64_t pages = cells_ / kPageCells + 2;
    std::vector<int32_t> table;
    for (int64_t i = 0; i < pages; ++i) table.push_back(static_cast<int32_t>((i * kPagesFactor + 3) % pages));
    table_ = upload(stream, table);
    memory_ =
        upload(stream, random_bf16(static_cast<size_t>(pages * kKvHeads * 2 * kPageCells * kHeadDim), 28));
    queries_ = random_bf16(static_cast<size_t>(rows_ * kHeads * kHeadDim), 29);
  }

  int64_t rows() const { return rows_; }

  /// Rows [begin, end), where the keys and values of earlier ones are kept.
  std::vector<uint16_t> run(int32_t begin, int32_t end) const {
    GroupCells group{.first_row = 0, .num_rows = end - begin, .first_page = 0, .seen = {}};
    const auto kept = static_cast<int32_t>(cells_ - rows_);
    group.seen = {{0, kept + begin}};
    for (int32_t row = begin; row < end; ++row)
      group.seen.push_back({kept + row, kept + row + 1, row - begin});
    const PagePool pool{memory_.as<uint16_t>(), 1, kKvHeads, kHeadDim};
    const UploadedAttention attention(stream_, {{group}}, pool, kHeads);
    const DeviceBuffer queries =
        upload(stream_, std::vector<uint16_t>(queries_.begin() + begin * kHeads * kHeadDim,
                                              queries_.begin() + end * kHeads * kHeadDim));
    const DeviceBuffer out(queries.bytes());
    attention.send(stream_, {.pool = {},
                             .page_table = table_.as<int32_t>(),
                             .queries = queries.as<uint16_t>(),
                             .out = out.as<uint16_t>(),
                             .out_stride = kHeads * kHeadDim});
    return download<uint16_t>(stream_, out);
  }

  static constexpr int32_t kHeads = 8, kKvHeads = 2, kHeadDim = 128;

 private:
  Stream& stream_;
  int64_t rows_;
  int64_t cells_ = 0;
  DeviceBuffer table_, memory_;
  std::vector<uint16_t> queries_;
};

void compare_attention(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  const Sequence sequence(stream, sizes);
  const auto count = static_cast<uint32_t>(sequence.rows());
  const std::vector<uint16_t> whole = sequence.run(0, static_cast<int32_t>(count));
  constexpr int64_t kWidth = int64_t{Sequence::kHeads} * Sequence::kHeadDim;
  int64_t rows = 0;
  int64_t different = 0;
  for (int plan = 0; plan < sizes.plans; ++plan) {
    const RngStream random(seed, plan);
    const auto begin = static_cast<int32_t>(random.below(0, count));
    const auto end = begin + 1 + static_cast<int32_t>(random.below(1, count - static_cast<uint32_t>(begin)));
    const std::vector<uint16_t> some = sequence.run(begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const auto one = some.begin() + (row - begin) * kWidth;
      different += std::equal(one, one + kWidth, whole.begin() + row * kWidth) ? 0 : 1;
    }
    rows += end - begin;
  }
  report.num_failures += different > 0 ? 1 : 0;
  report.add("invariance", {{"kernel", "attention behind a kept prefix"},
                            {"plans", sizes.plans},
                            {"rows", rows},
                            {"different", different}});
}

}  // namespace

void check_invariance(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  compare_products(stream, sizes, seed, report);
  compare_norms(stream, sizes, seed + 4, report);
  compare_draws(stream, sizes, seed + 5, report);
  compare_attention(stream, sizes, seed + 6, report);
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
