// Collective operations, computed by the last lane of a warp for all lanes. Each element of a matmul is
// accumulated over k = 0, 1, ..., 15 in f32, rounding to nearest; Hopper truncates instead, so its bits
// differ (docs/inside/cuda.md).
#include <array>
#include <bit>

#include "backend/cuda/simt/scheduler.h"

namespace lacuna::simt {
namespace {

float low_bf16(uint32_t pair) {
  return std::bit_cast<float>(pair << 16);
}
float high_bf16(uint32_t pair) {
  return std::bit_cast<float>(pair & 0xffff0000U);
}

/// Counts bank conflicts in a phase of eight 16-byte rows: rows in the banks of an earlier row with another
/// address.
int64_t conflicts_of_phase(void* const* lanes) {
  std::array<uintptr_t, 8> used = {};
  int64_t conflicts = 0;
  for (int lane = 0; lane < 8; ++lane) {
    const auto address = reinterpret_cast<uintptr_t>(static_cast<const MatrixSlot*>(lanes[lane])->address);
    uintptr_t& other = used[address / 16 % 8];
    if (other != 0 && other != address) ++conflicts;
    other = address;
  }
  return conflicts;
}

}  // namespace

void shuffle_all(void* const* lanes) {
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    auto& slot = *static_cast<ShuffleSlot*>(lanes[lane]);
    slot.result = static_cast<const ShuffleSlot*>(lanes[slot.source % kWarpSize])->value;
  }
}

void ballot_all(void* const* lanes) {
  uint32_t bits = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if (static_cast<const BallotSlot*>(lanes[lane])->value) bits |= 1U << lane;
  }
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) static_cast<BallotSlot*>(lanes[lane])->result = bits;
}

void load_matrix_all(void* const* lanes) {
  const auto number = [&](uint32_t matrix, uint32_t row, uint32_t column) -> uint32_t {
    const uint32_t pair = static_cast<const MatrixSlot*>(lanes[8 * matrix + row])->row[column / 2];
    return column % 2 == 0 ? pair & 0xffffU : pair >> 16;
  };
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    auto& slot = *static_cast<MatrixSlot*>(lanes[lane]);
    const uint32_t outer = lane / 4;
    const uint32_t inner = 2 * (lane % 4);
    for (uint32_t matrix = 0; matrix < 4; ++matrix) {
      const uint32_t low = slot.transposed ? number(matrix, inner, outer) : number(matrix, outer, inner);
      const uint32_t high =
          slot.transposed ? number(matrix, inner + 1, outer) : number(matrix, outer, inner + 1);
      slot.result[matrix] = low | high << 16;
    }
  }
  for (uint32_t phase = 0; phase < 4; ++phase) {
    ++simulator_counters().matrix_phases;
    simulator_counters().bank_conflicts += conflicts_of_phase(lanes + 8 * static_cast<size_t>(phase));
  }
}

namespace {

/// Multiplies one tile of 16 rows, 8 columns and 16 inputs.
///   a  [k][row]     b  [k][column]
void multiply_tile(const float (&a)[16][16], const float (&b)[16][8], float (&c)[16][8]) {
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) c[row][column] += a[k][row] * b[k][column];
    }
  }
}

void unpack_a(void* const* lanes, int row_tile, float (&a)[16][16]) {
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t* pairs = static_cast<const MultiplySlot*>(lanes[lane])->a[row_tile];
    for (uint32_t part = 0; part < 4; ++part) {
      const uint32_t row = lane / 4 + part % 2 * 8;
      const uint32_t k = 2 * (lane % 4) + part / 2 * 8;
      a[k][row] = low_bf16(pairs[part]);
      a[k + 1][row] = high_bf16(pairs[part]);
    }
  }
}

void unpack_b(void* const* lanes, int column_tile, float (&b)[16][8]) {
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t* pairs = static_cast<const MultiplySlot*>(lanes[lane])->b[column_tile];
    for (uint32_t part = 0; part < 2; ++part) {
      const uint32_t k = 2 * (lane % 4) + part * 8;
      b[k][lane / 4] = low_bf16(pairs[part]);
      b[k + 1][lane / 4] = high_bf16(pairs[part]);
    }
  }
}

/// Element `part` of a lane's four accumulators.
float& element(float (&c)[16][8], uint32_t lane, uint32_t part) {
  return c[lane / 4 + part / 2 * 8][2 * (lane % 4) + part % 2];
}

}  // namespace

void multiply_all(void* const* lanes) {
  const auto& shape = *static_cast<const MultiplySlot*>(lanes[0]);
  float a[16][16];
  float b[16][8];
  float c[16][8];
  for (int row_tile = 0; row_tile < shape.rows; ++row_tile) {
    unpack_a(lanes, row_tile, a);
    for (int column_tile = 0; column_tile < shape.columns; ++column_tile) {
      unpack_b(lanes, column_tile, b);
      const int tile = row_tile * shape.columns + column_tile;
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        const float* sums = static_cast<const MultiplySlot*>(lanes[lane])->c[tile];
        for (uint32_t part = 0; part < 4; ++part) element(c, lane, part) = sums[part];
      }
      multiply_tile(a, b, c);
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        float* sums = static_cast<const MultiplySlot*>(lanes[lane])->c[tile];
        for (uint32_t part = 0; part < 4; ++part) sums[part] = element(c, lane, part);
      }
    }
  }
}

}  // namespace lacuna::simt
