// GEMM epilogue: scale, bias and activation of a warp's accumulators.
#pragma once

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/simt/simt.h"

namespace lacuna::cuda {

/// Accumulator of an output times its scale (for 8-bit weights) plus its bias.
///   scale, bias  ignored if the product has none
LACUNA_DEVICE float biased(const ProductArguments& a, float sum, float scale, float bias) {
  if (a.scales != nullptr) sum = simt::rounded_product(sum, scale);
  return a.bias != nullptr ? sum + bias : sum;
}

/// silu(gate) or gelu(gate), times up. Both are gate * sigmoid(u): u is the gate, and for GELU
/// 2 sqrt(2 / pi) (gate + 0.044715 gate^3), since (1 + tanh(z)) / 2 = sigmoid(2 z).
LACUNA_DEVICE float gated(Epilogue epilogue, float gate, float up) {
  constexpr float kSlope = 1.5957691216F;  // 2 sqrt(2 / pi)
  constexpr float kCubic = 0.044715F;
  const float u = epilogue == Epilogue::kGeglu ? kSlope * gate * (1 + kCubic * (gate * gate)) : gate;
  return gate / (1 + simt::exp(-u)) * up;
}

/// Two adjacent outputs of a row.
struct alignas(8) OutputPair {
  float first = 0;
  float second = 0;
};

/// Destinations of a thread's accumulators: a pair of outputs in each column of eight, in every eighth row.
///   kWhole  whether all outputs of the warp exist; a pair is then one vector access
template <bool kWhole, int kRowTiles, int kColumns>
class OutputPlaces {
 public:
  static constexpr int kRows = 2 * kRowTiles;  // per thread

  LACUNA_DEVICE OutputPlaces(const ProductArguments& a, int64_t first_row, int64_t first_output)
      : first_output_(first_output + 2 * (simt::lane_index() % 4)), num_outputs_(a.num_outputs) {
    LACUNA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const int64_t index = first_row + 8 * i + simt::lane_index() / 4;
      rows_[i] = index >= a.num_rows     ? kNone
                 : a.out_rows != nullptr ? a.out_rows[index]
                                         : static_cast<int32_t>(index);
    }
  }

  /// Calls use(thread row, output row, column) for every existing pair.
  template <typename Use>
  LACUNA_DEVICE void for_each(const Use& use) const {
    LACUNA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      if (rows_[i] == kNone) continue;
      LACUNA_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        if (exist(j)) use(i, int64_t{rows_[i]}, j);
      }
    }
  }
  /// The first output of the pair in a column.
  LACUNA_DEVICE int64_t output(int column) const { return first_output_ + 8 * column; }

  LACUNA_DEVICE OutputPair read(const float* from, int column) const {
    if constexpr (kWhole) return simt::load<OutputPair>(from);
    return {from[0], both_exist(column) ? from[1] : 0};
  }
  LACUNA_DEVICE void write(float* to, int column, OutputPair pair) const {
    if constexpr (kWhole) {
      simt::store(to, pair);
    } else {
      to[0] = pair.first;
      if (both_exist(column)) to[1] = pair.second;
    }
  }
  LACUNA_DEVICE void write_bf16(uint16_t* to, int column, OutputPair pair) const {
    const uint32_t bits = simt::pack_bf16(pair.first, pair.second);
    if constexpr (kWhole) {
      simt::store(to, bits);
    } else {
      to[0] = static_cast<uint16_t>(bits & 0xffffU);
      if (both_exist(column)) to[1] = static_cast<uint16_t>(bits >> 16);
    }
  }
  /// Scales or biases of a pair; zeros for null.
  LACUNA_DEVICE OutputPair read_terms(const float* terms, int column) const {
    if (terms == nullptr || !exist(column)) return {};
    terms += output(column);
    return {terms[0], both_exist(column) ? terms[1] : 0};
  }

 private:
  static constexpr int32_t kNone = -1;

  LACUNA_DEVICE bool exist(int column) const { return kWhole || output(column) < num_outputs_; }
  LACUNA_DEVICE bool both_exist(int column) const { return kWhole || output(column) + 1 < num_outputs_; }

  int64_t first_output_;
  int64_t num_outputs_;
  int32_t rows_[kRows];
};

/// Applies scales and biases to accumulators in place.
template <typename Places, int kRowTiles, int kColumns>
LACUNA_DEVICE void scale_and_bias(const ProductArguments& a, const Places& places,
                                  float (&sums)[kRowTiles][kColumns][4]) {
  LACUNA_UNROLL
  for (int j = 0; j < kColumns; ++j) {
    const OutputPair scale = places.read_terms(a.scales, j);
    const OutputPair bias = places.read_terms(a.bias, j);
    LACUNA_UNROLL
    for (int tile = 0; tile < kRowTiles; ++tile) {
      LACUNA_UNROLL
      for (int part = 0; part < 4; part += 2) {
        sums[tile][j][part] = biased(a, sums[tile][j][part], scale.first, bias.first);
        sums[tile][j][part + 1] = biased(a, sums[tile][j][part + 1], scale.second, bias.second);
      }
    }
  }
}

/// Accumulator pair of a thread's row and column.
template <int kRowTiles, int kColumns>
LACUNA_DEVICE OutputPair pair_of(const float (&values)[kRowTiles][kColumns][4], int row, int column) {
  const float(&part)[4] = values[row / 2][column];
  return {part[row % 2 * 2], part[row % 2 * 2 + 1]};
}

/// Adds to the residual stream; issues all loads before the first addition.
template <typename Places, int kRowTiles, int kColumns>
LACUNA_DEVICE void add_scaled(const ProductArguments& a, const Places& places,
                              const float (&values)[kRowTiles][kColumns][4]) {
  OutputPair before[2 * kRowTiles][kColumns];
  const auto place = [&](int64_t row, int j) { return a.out_f32 + row * a.out_stride + places.output(j); };
  places.for_each([&](int i, int64_t row, int j) { before[i][j] = places.read(place(row, j), j); });
  places.for_each([&](int i, int64_t row, int j) {
    const OutputPair value = pair_of(values, i, j);
    places.write(place(row, j), j,
                 {before[i][j].first + a.scale * value.first, before[i][j].second + a.scale * value.second});
  });
}

/// Applies the gated activation: even columns hold gates, odd columns the matching `up` outputs.
template <typename Places, int kRowTiles, int kColumns>
LACUNA_DEVICE void write_gated(const ProductArguments& a, const Places& places,
                               const float (&values)[kRowTiles][kColumns][4]) {
  places.for_each([&](int i, int64_t row, int j) {
    if (j % 2 == 1) return;
    const OutputPair gate = pair_of(values, i, j);
    const OutputPair up = pair_of(values, i, j + 1);
    const int64_t output = places.output(j) / 16 * 8 + places.output(j) % 8;
    places.write_bf16(a.out_bf16 + row * a.out_stride + output, j,
                      {gated(a.epilogue, gate.first, up.first), gated(a.epilogue, gate.second, up.second)});
  });
}

template <typename Places, int kRowTiles, int kColumns>
LACUNA_DEVICE void finish_at(const ProductArguments& a, const Places& places,
                             float (&sums)[kRowTiles][kColumns][4]) {
  scale_and_bias(a, places, sums);
  const auto squared = [](float value) { return value > 0 ? value * value : 0; };
  switch (a.epilogue) {
    case Epilogue::kStore:
      return places.for_each([&](int i, int64_t row, int j) {
        places.write(a.out_f32 + row * a.out_stride + places.output(j), j, pair_of(sums, i, j));
      });
    case Epilogue::kAddScaled:
      return add_scaled(a, places, sums);
    case Epilogue::kSquaredRelu:
      return places.for_each([&](int i, int64_t row, int j) {
        const OutputPair value = pair_of(sums, i, j);
        places.write_bf16(a.out_bf16 + row * a.out_stride + places.output(j), j,
                          {squared(value.first), squared(value.second)});
      });
    case Epilogue::kSwiglu:
    case Epilogue::kGeglu:
      return write_gated(a, places, sums);
  }
}

/// Writes a warp's results; modifies `sums`.
///   first_row     index among the rows of the call
///   first_output  a multiple of 16
template <int kRowTiles, int kColumns>
LACUNA_DEVICE void finish_all(const ProductArguments& a, int64_t first_row, int64_t first_output,
                              float (&sums)[kRowTiles][kColumns][4]) {
  const bool is_aligned = a.out_stride % 2 == 0 && reinterpret_cast<uintptr_t>(a.out_f32) % 8 == 0 &&
                          reinterpret_cast<uintptr_t>(a.out_bf16) % 4 == 0;
  if (is_aligned && first_output + 8 * kColumns <= a.num_outputs) {
    finish_at(a, OutputPlaces<true, kRowTiles, kColumns>(a, first_row, first_output), sums);
  } else {
    finish_at(a, OutputPlaces<false, kRowTiles, kColumns>(a, first_row, first_output), sums);
  }
}

/// Called by the block with the last outputs: zeroes the padding of rows [first_row, end_row) of the call,
/// because later GEMMs read it.
LACUNA_DEVICE void clear_padding(const ProductArguments& a, int64_t first_row, int64_t end_row) {
  if (a.out_bf16 == nullptr) return;
  const int64_t outputs = is_gated(a.epilogue) ? a.num_outputs / 2 : a.num_outputs;
  const int64_t width = a.out_stride - outputs;
  for (int64_t i = simt::thread_index(); i < (end_row - first_row) * width; i += simt::num_threads()) {
    const int64_t index = first_row + i / width;
    const int64_t row = a.out_rows != nullptr ? int64_t{a.out_rows[index]} : index;
    a.out_bf16[row * a.out_stride + outputs + i % width] = 0;
  }
}

}  // namespace lacuna::cuda
