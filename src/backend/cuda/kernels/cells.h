// Device functions that locate and read the keys and values of a cell.
#pragma once

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/simt/simt.h"

namespace lacuna::cuda {

template <CellFormat kFormat>
struct CellNumber;
template <>
struct CellNumber<CellFormat::kBf16> {
  using Type = uint16_t;
};
template <>
struct CellNumber<CellFormat::kF32> {
  using Type = float;
};
template <>
struct CellNumber<CellFormat::kInt8> {
  using Type = int8_t;
};

LACUNA_DEVICE float widened(uint16_t bits) {
  return simt::from_bf16(bits);
}
LACUNA_DEVICE float widened(float value) {
  return value;
}
LACUNA_DEVICE float widened(int8_t code) {
  return code;
}

/// One cell of one layer and kv head.
template <CellFormat kFormat>
struct Cell {
  using Number = typename CellNumber<kFormat>::Type;

  Number* key = nullptr;
  Number* value = nullptr;
  float* scales = nullptr;  ///< [2] of key and value; only for kInt8

  LACUNA_DEVICE float key_scale() const { return kFormat == CellFormat::kInt8 ? scales[0] : 1; }
  LACUNA_DEVICE float value_scale() const { return kFormat == CellFormat::kInt8 ? scales[1] : 1; }
};

///   cell  index within the page
template <CellFormat kFormat>
LACUNA_DEVICE Cell<kFormat> cell_of_page(const PagePool& pool, int64_t page, int64_t layer, int64_t kv_head,
                                         int64_t cell) {
  using Number = typename Cell<kFormat>::Number;
  auto* memory = reinterpret_cast<uint8_t*>(pool.memory) + pool.offset(page, layer, kv_head);
  auto* keys = reinterpret_cast<Number*>(memory);
  auto* scales = reinterpret_cast<float*>(keys + 2 * kPageCells * pool.head_dim);
  return {keys + cell * pool.head_dim, keys + (kPageCells + cell) * pool.head_dim, scales + 4 * cell};
}

}  // namespace lacuna::cuda
