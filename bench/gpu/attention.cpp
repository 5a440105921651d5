#include "backend/cuda/kernels/attention.h"

#include "bench/gpu/device_timing.h"
#include "bench/gpu/device_vectors.h"
#include "bench/gpu/gpu_check.h"
#include "bench/gpu/uploaded_attention.h"

namespace lacuna::cuda {
namespace {

/// Attention of the last rows of a sequence to all of its cells, rotating over layers with separate K/V.
class TimedAttention {
 public:
  TimedAttention(Stream& stream, const CheckSizes& sizes, const AttentionShape& shape, int64_t rows,
                 int64_t cells)
      : stream_(stream), shape_(shape) {
    const int64_t pages = (cells + kPageCells - 1) / kPageCells;
    cell_bytes_ = 2 * shape.kv_heads * shape.head_dim * 2;
    layers_ = num_copies(pages * kPageCells * cell_bytes_, sizes.rotate_bytes);
    pool_memory_ =
        repeated(stream, layers_ * pages * kPageCells * cell_bytes_, random_bf16(kPatternNumbers, 8));
    pool_ = {pool_memory_.as<uint16_t>(), layers_, shape.kv_heads, shape.head_dim};
    std::vector<int32_t> table;
    for (int64_t i = 0; i < pages; ++i) table.push_back(static_cast<int32_t>((i * 7 + 3) % pages));
    table_ = upload(stream, table);
    GroupCells group{.first_row = 0, .num_rows = static_cast<int32_t>(rows), .first_page = 0, .seen = {}};
    group.seen = {{0, static_cast<int32_t>(cells)}};
    attention_ = UploadedAttention(stream, {{group}}, pool_, shape.heads);
    queries_ = upload(stream, random_bf16(static_cast<size_t>(rows * shape.heads * shape.head_dim), 9));
    out_ = DeviceBuffer(queries_.bytes());
  }

  int64_t cell_bytes() const { return cell_bytes_; }

  double seconds(const CheckSizes& sizes) {
    return seconds_of_call(stream_, std::max(sizes.timed_calls, layers_), sizes.repeat,
                           [&](int i) { send(i % layers_); });
  }

 private:
  void send(int layer) {
    attention_.send(stream_, {.pool = {},
                              .page_table = table_.as<int32_t>(),
                              .queries = queries_.as<uint16_t>(),
                              .out = out_.as<uint16_t>(),
                              .out_stride = shape_.heads * shape_.head_dim,
                              .layer = layer});
  }

  Stream& stream_;
  AttentionShape shape_;
  int64_t cell_bytes_ = 0;  // of one layer
  int layers_ = 1;
  PagePool pool_;
  UploadedAttention attention_;
  DeviceBuffer pool_memory_, table_, queries_, out_;
};

}  // namespace

void measure_attention(Stream& stream, const CheckSizes& sizes, CheckReport& report) {
  for (const AttentionShape& shape : sizes.attention) {
    for (const int64_t rows : sizes.attention_rows) {
      for (const int64_t cells : sizes.cells) {
        TimedAttention timed(stream, sizes, shape, rows, cells);
        const double seconds = timed.seconds(sizes);
        const double bytes_per_second = static_cast<double>(cells * timed.cell_bytes()) / seconds;
        const auto flops = static_cast<double>(4 * rows * cells * shape.heads * shape.head_dim);
        report.add("attention", {{"shape", shape.name},
                                 {"heads", shape.heads},
                                 {"kv_heads", shape.kv_heads},
                                 {"rows", rows},
                                 {"cells", cells},
                                 {"us", 1e6 * seconds},
                                 {"gbs", bytes_per_second / 1e9},
                                 {"share_of_copy", report.share_of_copy(bytes_per_second)},
                                 {"tflops", flops / seconds / 1e12}});
      }
    }
  }
}

}  // namespace lacuna::cuda
