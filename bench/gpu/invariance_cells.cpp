#include <cstring>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/qkv.h"
#include "bench/gpu/device_vectors.h"
#include "bench/gpu/random_plans.h"
#include "bench/gpu/uploaded_attention.h"

namespace lacuna::cuda {
namespace {

/// Heads and cell format of a layer.
struct CellShape {
  const char* name;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  CellFormat format;

  PagePool pool(uint16_t* memory) const { return {memory, 1, kv_heads, head_dim, format}; }
  int64_t page_bytes() const { return pool(nullptr).page_bytes(); }
};

constexpr CellShape kShapes[] = {{"heads of 128, bf16", 8, 2, 128, CellFormat::kBf16},
                                 {"heads of 128, int8", 8, 2, 128, CellFormat::kInt8},
                                 {"heads of 64, bf16", 2, 2, 64, CellFormat::kBf16},
                                 {"heads of 256, int8", 2, 1, 256, CellFormat::kInt8}};

/// Pages of random keys and values.
std::vector<uint8_t> random_pages(const CellShape& shape, int64_t pages) {
  const auto head_bytes = static_cast<size_t>(shape.pool(nullptr).head_bytes());
  const auto heads = static_cast<size_t>(pages * shape.kv_heads);
  std::vector<uint8_t> bytes(heads * head_bytes);
  if (shape.format == CellFormat::kBf16) {
    const std::vector<uint16_t> numbers = random_bf16(bytes.size() / 2, 28);
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }
  bytes = random_bytes(bytes.size(), 28);
  const size_t scale_bytes = size_t{kPageCells} * kScaleBytes;
  std::vector<float> scales = random_numbers(scale_bytes / sizeof(float), 30, 0.01F);
  for (size_t head = 0; head < heads; ++head)
    std::memcpy(bytes.data() + (head + 1) * head_bytes - scale_bytes, scales.data(), scale_bytes);
  return bytes;
}

/// A causal sequence of rows after a prefix, in scattered pages.
class Sequence {
 public:
  Sequence(Stream& stream, const CheckSizes& sizes, const CellShape& shape)
      : stream_(stream), shape_(shape), rows_(sizes.plan_rows) {
    constexpr int64_t kPagesFactor = 7;
    cells_ = sizes.plan_cells + rows_;
    const int64_t pages = cells_ / kPageCells + 2;
    std::vector<int32_t> table;
    for (int64_t i = 0; i < pages; ++i) table.push_back(static_cast<int32_t>((i * kPagesFactor + 3) % pages));
    table_ = upload(stream, table);
    memory_ = upload(stream, random_pages(shape, pages));
    queries_ = random_bf16(static_cast<size_t>(rows_ * width()), 29);
  }

  int64_t rows() const { return rows_; }
  int64_t width() const { return int64_t{shape_.heads} * shape_.head_dim; }

  /// Attention output of rows [begin, end), with the K/V of earlier rows cached.
  std::vector<uint16_t> run(int32_t begin, int32_t end) const {
    GroupCells group{.first_row = 0, .num_rows = end - begin, .first_page = 0, .seen = {}};
    const auto kept = static_cast<int32_t>(cells_ - rows_);
    group.seen = {{0, kept + begin}};
    for (int32_t row = begin; row < end; ++row)
      group.seen.push_back({kept + row, kept + row + 1, row - begin});
    const UploadedAttention attention(stream_, {{group}}, shape_.pool(memory_.as<uint16_t>()), shape_.heads);
    const DeviceBuffer queries = upload(
        stream_, std::vector<uint16_t>(queries_.begin() + begin * width(), queries_.begin() + end * width()));
    const DeviceBuffer out(queries.bytes());
    attention.send(stream_, {.pool = {},
                             .page_table = table_.as<int32_t>(),
                             .queries = queries.as<uint16_t>(),
                             .out = out.as<uint16_t>(),
                             .out_stride = width()});
    return download<uint16_t>(stream_, out);
  }

 private:
  Stream& stream_;
  CellShape shape_;
  int64_t rows_;
  int64_t cells_ = 0;
  DeviceBuffer table_, memory_;
  std::vector<uint16_t> queries_;
};

void compare_attention(Stream& stream, const CheckSizes& sizes, const CellShape& shape, uint64_t seed,
                       CheckReport& report) {
  const Sequence sequence(stream, sizes, shape);
  const auto count = static_cast<uint32_t>(sequence.rows());
  const std::vector<uint16_t> whole = sequence.run(0, static_cast<int32_t>(count));
  int64_t rows = 0;
  int64_t different = 0;
  for (int plan = 0; plan < sizes.plans; ++plan) {
    const RngStream random(seed, plan);
    const auto begin = static_cast<int32_t>(random.below(0, count));
    const auto end = begin + 1 + static_cast<int32_t>(random.below(1, count - static_cast<uint32_t>(begin)));
    const std::vector<uint16_t> some = sequence.run(begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const auto one = some.begin() + (row - begin) * sequence.width();
      const bool is_same = std::equal(one, one + sequence.width(), whole.begin() + row * sequence.width());
      different += is_same ? 0 : 1;
    }
    rows += end - begin;
  }
  report.num_failures += different > 0 ? 1 : 0;
  report.add("invariance", {{"kernel", std::string("attention behind a kept prefix, ") + shape.name},
                            {"plans", sizes.plans},
                            {"rows", rows},
                            {"different", different}});
}

/// Rows with a cell and a position each, for the kernel that writes their keys and values.
class FinishedRows {
 public:
  FinishedRows(Stream& stream, const CheckSizes& sizes, const CellShape& shape)
      : stream_(stream), shape_(shape), pages_((sizes.plan_rows + kPageCells - 1) / kPageCells) {
    const int64_t half = shape.head_dim / 2;
    sums_ = random_numbers(static_cast<size_t>(sizes.plan_rows * sums_width()), 31, 2);
    q_norm_ = upload(stream, random_numbers(static_cast<size_t>(shape.head_dim), 32));
    k_norm_ = upload(stream, random_numbers(static_cast<size_t>(shape.head_dim), 33));
    cosines_ = upload(stream, random_numbers(static_cast<size_t>(sizes.plan_rows * half), 34));
    sines_ = upload(stream, random_numbers(static_cast<size_t>(sizes.plan_rows * half), 35));
    std::vector<int32_t> table;
    for (int64_t page = pages_; page > 0; --page) table.push_back(static_cast<int32_t>(page - 1));
    table_ = upload(stream, table);
  }

  /// Computes the rows' queries, keys and values, returned as bytes.
  std::vector<uint8_t> run(const Rows& rows) const {
    std::vector<float> some;
    for (const int32_t row : rows) {
      const auto first = sums_.begin() + row * sums_width();
      some.insert(some.end(), first, first + sums_width());
    }
    const DeviceBuffer sums = upload(stream_, some);
    const DeviceBuffer places = upload(stream_, rows);  // positions and cells
    const DeviceBuffer first_page = upload(stream_, Rows(rows.size(), 0));
    const DeviceBuffer memory(static_cast<size_t>(pages_ * shape_.page_bytes()));
    stream_.fill(memory.as<uint8_t>(), 0, memory.bytes());
    const DeviceBuffer queries(rows.size() * static_cast<size_t>(shape_.heads * shape_.head_dim) * 2);
    finish_qkv(stream_,
               {.qkv = sums.as<float>(),
                .positions = places.as<int32_t>(),
                .cells = places.as<int32_t>(),
                .first_page = first_page.as<int32_t>(),
                .page_table = table_.as<int32_t>(),
                .pool = shape_.pool(memory.as<uint16_t>()),
                .queries = queries.as<uint16_t>(),
                .q_norm = q_norm_.as<float>(),
                .k_norm = k_norm_.as<float>(),
                .cosines = cosines_.as<float>(),
                .sines = sines_.as<float>(),
                .num_heads = shape_.heads,
                .rotary_dim = shape_.head_dim,
                .epsilon = 1e-6F},
               static_cast<uint32_t>(rows.size()));
    const std::vector<uint8_t> got = download<uint8_t>(stream_, queries);
    const std::vector<uint8_t> cells = download<uint8_t>(stream_, memory);
    std::vector<uint8_t> all;
    const size_t width = got.size() / rows.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto own = got.begin() + static_cast<int64_t>(i * width);
      all.insert(all.end(), own, own + static_cast<int64_t>(width));
      add_cell(cells, rows[i], all);
    }
    return all;
  }

 private:
  int64_t sums_width() const { return int64_t{shape_.heads + 2 * shape_.kv_heads} * shape_.head_dim; }

  void add_cell(const std::vector<uint8_t>& cells, int32_t cell, std::vector<uint8_t>& all) const {
    const PagePool pool = shape_.pool(nullptr);
    const int64_t page = pages_ - 1 - cell / kPageCells, in_page = cell % kPageCells;
    const int64_t bytes = pool.number_bytes();
    const auto add = [&](int64_t at, int64_t count) {
      all.insert(all.end(), cells.begin() + at, cells.begin() + at + count);
    };
    for (int64_t head = 0; head < shape_.kv_heads; ++head) {
      const int64_t begin = pool.offset(page, 0, head);
      add(begin + in_page * bytes, bytes);
      add(begin + (kPageCells + in_page) * bytes, bytes);
      if (shape_.format == CellFormat::kInt8) add(begin + 2 * kPageCells * bytes + in_page * kScaleBytes, 8);
    }
  }

  Stream& stream_;
  CellShape shape_;
  int64_t pages_;
  std::vector<float> sums_;
  DeviceBuffer q_norm_, k_norm_, cosines_, sines_, table_;
};

}  // namespace

void compare_cells(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  for (const CellShape& shape : kShapes) {
    compare_attention(stream, sizes, shape, seed++, report);
    const FinishedRows rows(stream, sizes, shape);
    compare<uint8_t>(std::string("queries, keys and values, ") + shape.name, sizes, seed++, report,
                     [&](const Rows& some) { return rows.run(some); });
  }
}

}  // namespace lacuna::cuda
