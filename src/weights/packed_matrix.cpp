#include "weights/packed_matrix.h"

#include "base/error.h"

namespace lacuna {

PackedMatrix::PackedMatrix(DType dtype, int64_t outputs, int64_t inputs) {
  expects(dtype != DType::kF16, "PackedMatrix: weights are f32 or bf16");
  const int64_t panel_stride = padded_depth(dtype, inputs) * kPanelWidth;
  memory_.reserve(num_panels(outputs) * panel_stride * static_cast<int64_t>(size_of(dtype)));
  view_ = {memory_.data(), dtype, outputs, inputs, panel_stride};
}

void PackedMatrix::store_row(int64_t panel, int64_t lane, const float* row) {
  std::byte* memory =
      memory_.data() + panel * view_.panel_stride * static_cast<int64_t>(size_of(view_.dtype));
  if (view_.dtype == DType::kBF16) {
    auto* elements = reinterpret_cast<bf16*>(memory);
    for (int64_t k = 0; k < view_.inputs; ++k) elements[panel_offset<bf16>(lane, k)] = bf16(row[k]);
  } else {
    auto* elements = reinterpret_cast<float*>(memory);
    for (int64_t k = 0; k < view_.inputs; ++k) elements[panel_offset<float>(lane, k)] = row[k];
  }
}

}  // namespace lacuna
