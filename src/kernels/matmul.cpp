#include "kernels/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lacuna {
void PackedRows::lay_out(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype) {
  num_rows_ = num_rows;
  depth_ = depth;
  padded_depth_ = lacuna::padded_depth(dtype, depth);
  dtype_ = dtype;
  element_bytes_ = dtype == DType::kBF16 ? kernels.bf16_row_element_bytes : int64_t{sizeof(float)};
  in_tiles_ = dtype == DType::kBF16 && kernels.takes_bf16_rows_in_tiles;
  strides_ = in_tiles_
                 ? RowStrides::in_tiles(num_rows, padded_depth_)
                 : RowStrides::in_rows(padded_depth_ + kCacheLine / element_bytes_);  // as output_stride()
  const int64_t elements =
      in_tiles_ ? round_up(num_rows_, kRowTile) / kRowTile * strides_.tile : num_rows_ * strides_.row;
  data_bytes_ = elements * element_bytes_;
}

int64_t PackedRows::bytes_for(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype) {
  PackedRows rows;
  rows.lay_out(kernels, num_rows, depth, dtype);
  return rows.data_bytes_;
}

void PackedRows::resize(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype) {
  lay_out(kernels, num_rows, depth, dtype);
  packed_.data.reserve(data_bytes_);
  packed_.sums.reserve(num_rows_);
  int16_.is_made = false;
  int8_.is_made = false;
}

PackedRows::RowsOfTile PackedRows::rows_of_tile(int64_t tile) {
  const int64_t count = std::min(kRowTile, num_rows_ - tile * kRowTile);
  if (!in_tiles_) {
    return {packed_.data.data() + offset_bytes(tile * kRowTile), strides_.row * element_bytes_, count};
  }
  thread_local Buffer<std::byte> space;
  const int64_t row_bytes = padded_depth_ * element_bytes_ + kCacheLine;
  space.reserve(kRowTile * row_bytes);
  return {space.data(), row_bytes, count};
}

float PackedRows::pack_row(const KernelTable& kernels, const float* source, std::byte* packed) const {
  if (dtype_ == DType::kBF16) return kernels.pack_row_bf16(source, depth_, padded_depth_, packed);
  std::memcpy(packed, source, static_cast<size_t>(depth_) * sizeof(float));
  return kernels.sum(source, depth_);
}

/// Interleaves the rows of a tile, writing memory sequentially: single rows would touch scattered cache
/// lines.
void PackedRows::lay_out_tile(int64_t tile, const RowsOfTile& rows) {
  constexpr int64_t kStepBytes = kBf16DepthStep * static_cast<int64_t>(sizeof(bf16));
  for (int64_t k = 0; k < padded_depth_; k += kBf16DepthStep) {
    for (int64_t i = 0; i < rows.count; ++i) {
      std::memcpy(packed_.data.data() + strides_.offset(tile * kRowTile + i, k) * element_bytes_,
                  rows.data + i * rows.row_bytes + k * element_bytes_, kStepBytes);
    }
  }
}

void PackedRows::pack(const KernelContext& context, ConstMatrix<float> x, std::span<const int32_t> rows,
                      DType dtype) {
  const auto num_rows = rows.empty() ? x.rows : static_cast<int64_t>(rows.size());
  pack_each(context, num_rows, x.cols, dtype, [&](int64_t i, float* /*space*/) {
    return x.row(rows.empty() ? i : rows[static_cast<size_t>(i)]);
  });
}

const PackedRows::Form& PackedRows::as_integers(const KernelContext& context,
                                                const IntegerActivations& activations) {
  IntegerForm& form = &activations == &context.kernels.int8_activations ? int8_ : int16_;
  if (form.is_made) return form;
  const int64_t scales_per_row = activations.scales_per_row(padded_depth_);
  form.data.reserve(data_bytes_);
  form.sums.reserve(num_rows_);
  form.scales.reserve(num_rows_ * scales_per_row);
  context.threads.parallel_for(num_rows_, [&](int64_t row, int) {
    const int64_t begin = offset_bytes(row);
    form.sums.data()[row] =
        activations.quantize_row(packed_.data.data() + begin, strides_, padded_depth_,
                                 form.data.data() + begin, form.scales.data() + row * scales_per_row);
  });
  form.is_made = true;
  return form;
}

void multiply(const KernelContext& context, PackedRows& rows, const PanelView& weights, const float* bias,
              Matrix<float> out) {
  expects(!weights.quantization.is_e4m3, "multiply: weights have a format of the CPU");
  expects(rows.depth() == weights.inputs && (weights.is_quantized() || rows.dtype() == weights.dtype),
          "multiply: rows and weights have one depth and one dtype");
  const int64_t panels = num_panels(weights.outputs);
  expects(out.rows >= rows.num_rows() && out.stride >= panels * kPanelWidth,
          "multiply: out holds whole panels for every row");
  // Enough tasks to balance the threads, each small enough that its spilled accumulators stay in L2, with an
  // even number of panels, because kernels process pairs.
  constexpr int64_t kSumsOfTask = 512 * 1024 / sizeof(float);
  constexpr int64_t kRowsOfTask = 512;  // with 16 panels
  static_assert(kRowsOfTask % kRowTile == 0, "tasks begin with a whole tile");
  const int64_t fair_share = panels / (8 * static_cast<int64_t>(context.threads.size()));
  const int64_t fitting = kSumsOfTask / (kPanelWidth * std::clamp<int64_t>(rows.num_rows(), 1, kRowsOfTask));
  const int64_t panels_per_task = round_up(std::max<int64_t>(1, std::min(fair_share, fitting)), 2);
  const int64_t row_blocks = (rows.num_rows() + kRowsOfTask - 1) / kRowsOfTask;

  const KernelTable& kernels = context.kernels;
  const bool is_bf16 = rows.dtype() == DType::kBF16;
  const IntegerActivations* const activations =
      is_bf16 ? kernels.integer_activations(weights.quantization, context.int8_activations) : nullptr;
  const PackedRows::Form& form =
      activations != nullptr ? rows.as_integers(context, *activations) : rows.packed();
  const int64_t scales_per_row =
      activations != nullptr ? activations->scales_per_row(rows.padded_depth()) : 1;
  const auto dense = is_bf16 ? kernels.panel_product_bf16 : kernels.panel_product_f32;
  const auto quantized = activations != nullptr ? activations->panel_product
                         : is_bf16              ? kernels.panel_product_bf16_quantized
                                                : kernels.panel_product_f32_quantized;
  const auto panel_product = weights.is_quantized() ? quantized : dense;

  const int64_t tasks = (panels + panels_per_task - 1) / panels_per_task * row_blocks;
  context.threads.parallel_for(tasks, [&](int64_t task, int) {
    // Processes all rows of the block while the panels are in the cache.
    const int64_t first = task / row_blocks * panels_per_task;
    const int64_t first_row = task % row_blocks * kRowsOfTask;
    PanelProduct product;
    product.a = form.data.data() + rows.offset_bytes(first_row);
    product.a_strides = rows.strides();
    product.a_element_bytes = rows.element_bytes();
    product.num_rows = std::min(kRowsOfTask, rows.num_rows() - first_row);
    product.panels = weights.panel(first);
    product.panel_stride = weights.panel_stride;
    product.num_panels = std::min(panels_per_task, panels - first);
    product.depth = rows.padded_depth();
    product.out = out.row(first_row) + first * kPanelWidth;
    product.out_stride = out.stride;
    product.quantization = weights.quantization;
    product.row_sums = form.sums.data() + first_row;
    if (activations != nullptr) product.row_scales = form.scales.data() + first_row * scales_per_row;
    product.scales_per_row = scales_per_row;
    panel_product(product);
    if (bias == nullptr) return;
    const int64_t begin = first * kPanelWidth;
    const int64_t end = std::min(weights.outputs, begin + product.num_panels * kPanelWidth);
    for (int64_t row = first_row; row < first_row + product.num_rows; ++row) {
      kernels.add_scaled(out.row(row) + begin, bias + begin, 1, end - begin);
    }
  });
}

}  // namespace lacuna
