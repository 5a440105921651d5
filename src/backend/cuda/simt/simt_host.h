// Functions that kernels call, for the simulator. Only simt.h includes it.
//
// Memory accesses are inline in this header, so that they are compiled with the kernel's sanitizers, which
// then report the kernel's line.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/cuda/simt/scheduler.h"
#include "base/dtype.h"

#define LACUNA_KERNEL void
/// __launch_bounds__ after LACUNA_KERNEL: maximum threads per block, minimum blocks per multiprocessor. With
/// 1 block nvcc uses more registers to issue loads early; with 0, or without this, it saves registers.
#define LACUNA_BLOCK_OF(threads, blocks)
#define LACUNA_DEVICE inline
#define LACUNA_UNROLL

namespace lacuna::simt {

inline uint32_t thread_index() {
  return current_place().thread;
}
inline uint32_t lane_index() {
  return current_place().thread % kWarpSize;
}
inline uint32_t warp_index() {
  return current_place().thread / kWarpSize;
}
inline uint32_t num_threads() {
  return current_place().shape.threads;
}
inline Index3 block_index() {
  return current_place().block;
}
inline Index3 grid_size() {
  return current_place().shape.grid;
}

/// The block's whole shared memory as one struct, filled with 0xff bytes (NaN).
template <typename T>
T& shared() {
  static_assert(alignof(T) <= 128);
  return *static_cast<T*>(shared_memory(sizeof(T)));
}

inline void sync_threads(const Location& at = Location::current()) {
  meet_block(at);
}

inline void sync_warp(const Location& at = Location::current()) {
  meet_warp(
      WarpOperation::kSyncWarp, nullptr, [](void* const*) {}, at);
}

/// The value that lane `source` passes.
template <typename T>
T shuffle(T value, uint32_t source, const Location& at = Location::current()) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  ShuffleSlot slot{.source = source};
  std::memcpy(&slot.value, &value, sizeof(T));
  meet_warp(WarpOperation::kShuffle, &slot, shuffle_all, at);
  std::memcpy(&value, &slot.result, sizeof(T));
  return value;
}

template <typename T>
T shuffle_xor(T value, uint32_t distance, const Location& at = Location::current()) {
  return shuffle(value, lane_index() ^ distance, at);
}

inline uint32_t ballot(bool value, const Location& at = Location::current()) {
  BallotSlot slot{.value = value};
  meet_warp(WarpOperation::kBallot, &slot, ballot_all, at);
  return slot.result;
}

/// Relaxed, as on the device. Not for floats: the sum would depend on the order of threads.
template <typename T>
T atomic_add(T* to, T value) {
  return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

/// Vector load of a T from an aligned address.
template <typename T>
T load(const void* from, const Location& at = Location::current()) {
  if (reinterpret_cast<uintptr_t>(from) % alignof(T) != 0)
    fail("loads from an address that is not a multiple of the size", at);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
/// Vector store of a T to an aligned address.
template <typename T>
void store(void* to, const T& value, const Location& at = Location::current()) {
  if (reinterpret_cast<uintptr_t>(to) % alignof(T) != 0)
    fail("stores to an address that is not a multiple of the size", at);
  std::memcpy(to, &value, sizeof(T));
}

inline bool is_aligned_16(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

struct alignas(8) Words2 {
  uint32_t words[2];
};
struct alignas(16) Words4 {
  uint32_t words[4];
};

/// ldmatrix: loads four 8 x 8 matrices of 16-bit numbers. Lane 8 i + r passes the address of row r of matrix
/// i. out[i] gets elements 2 (lane % 4) and 2 (lane % 4) + 1 of row lane / 4 of matrix i; transposed: of
/// column lane / 4.
template <bool kTransposed = false>
void load_matrix_x4(uint32_t (&out)[4], const void* row, const Location& at = Location::current()) {
  if (!is_aligned_16(row)) fail("gives ldmatrix an address that is not a multiple of 16", at);
  MatrixSlot slot{.address = row, .transposed = kTransposed};
  const Words4 words = *static_cast<const Words4*>(row);
  for (int i = 0; i < 4; ++i) slot.row[i] = words.words[i];
  meet_warp(WarpOperation::kLoadMatrix, &slot, load_matrix_all, at);
  for (int i = 0; i < 4; ++i) out[i] = slot.result[i];
}

/// c += a b for tiles of 16 rows, 8 columns and 16 inputs, in the fragments of mma.m16n8k16.
template <int kRows, int kColumns>
void multiply_block(float (&c)[kRows][kColumns][4], const uint32_t (&a)[kRows][4],
                    const uint32_t (&b)[kColumns][2], const Location& at = Location::current()) {
  MultiplySlot slot{.c = &c[0][0], .a = &a[0], .b = &b[0], .rows = kRows, .columns = kColumns};
  meet_warp(WarpOperation::kMultiply, &slot, multiply_all, at);
}

/// Copies 8 bytes to shared memory asynchronously; zeros if not `valid`. Until the wait the target holds NaN,
/// which exposes premature reads and reads of the old contents.
inline void copy_async_8(void* to, const void* from, bool valid, const Location& at = Location::current()) {
  AsyncCopy copy{.to = to, .bytes = 8};
  if (valid) {
    const auto words = load<Words2>(from, at);
    for (int i = 0; i < 2; ++i) copy.words[i] = words.words[i];
  }
  store(to, Words2{{~0U, ~0U}}, at);
  add_async_copy(copy);
}

/// copy_async_8() for 16 bytes.
inline void copy_async_16(void* to, const void* from, bool valid, const Location& at = Location::current()) {
  if (!is_aligned_16(to) || (valid && !is_aligned_16(from))) {
    fail("gives cp.async an address that is not a multiple of 16", at);
  }
  AsyncCopy copy{.to = to};
  if (valid) {
    const Words4 words = *static_cast<const Words4*>(from);
    for (int i = 0; i < 4; ++i) copy.words[i] = words.words[i];
  }
  *static_cast<Words4*>(to) = {{~0U, ~0U, ~0U, ~0U}};
  add_async_copy(copy);
}

inline void commit_copies() {
  commit_async_copies();
}

/// Waits for this thread's copies, except for the kPending groups committed last.
template <int kPending>
void wait_copies() {
  AsyncCopy copy;
  while (take_async_copy(kPending, copy)) {
    if (copy.bytes == 8) {
      store(copy.to, Words2{{copy.words[0], copy.words[1]}});
    } else {
      *static_cast<Words4*>(copy.to) = {{copy.words[0], copy.words[1], copy.words[2], copy.words[3]}};
    }
  }
}

inline float as_float(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline uint32_t as_bits(float value) {
  return std::bit_cast<uint32_t>(value);
}

/// Rounds to bf16, nearest even; `low` lies in the lower half.
inline uint32_t pack_bf16(float low, float high) {
  return uint32_t{bf16(low).bits} | uint32_t{bf16(high).bits} << 16;
}

/// The two lower bytes, each in the lower byte of a half.
inline uint32_t spread_bytes(uint32_t bytes) {
  return (bytes & 0xffU) | (bytes & 0xff00U) << 8;
}

/// a * b + c in each half, in bf16. Results must be exact: they are rounded twice here, and once on a device.
inline uint32_t fma_bf16(uint32_t a, uint32_t b, uint32_t c) {
  const auto high = [](uint32_t pair) { return as_float(pair & 0xffff0000U); };
  const auto low = [](uint32_t pair) { return as_float(pair << 16); };
  return pack_bf16(std::fma(low(a), low(b), low(c)), std::fma(high(a), high(b), high(c)));
}

inline float exp2(float x) {
  return std::exp2(x);
}
inline float exp(float x) {
  return std::exp(x);
}
inline double exp(double x) {
  return std::exp(x);
}
inline double log(double x) {
  return std::log(x);
}
inline float tanh(float x) {
  return std::tanh(x);
}
inline float sqrt(float x) {
  return std::sqrt(x);
}
inline double sqrt(double x) {
  return std::sqrt(x);
}

/// Rounds to the nearest integer, ties to even.
inline float round_even(float x) {
  return std::nearbyint(x);
}

/// Products that are never contracted to an FMA.
inline double multiply(double a, double b) {
  return a * b;
}
inline float rounded_product(float a, float b) {
  return a * b;
}
inline int leading_ones(uint64_t bits) {
  return std::countl_one(bits);
}

}  // namespace lacuna::simt
