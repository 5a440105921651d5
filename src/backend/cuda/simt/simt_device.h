// Functions that kernels call, for nvcc: intrinsics and inline PTX of sm_80 and later. Only simt.h includes
// it. simt_host.h documents the functions.
#pragma once

#include <cstdint>

#include "backend/cuda/simt/shape.h"

#define LACUNA_KERNEL __global__ void
#define LACUNA_BLOCK_OF(threads, blocks) __launch_bounds__(threads, blocks)
#define LACUNA_DEVICE __device__ __forceinline__
#define LACUNA_UNROLL _Pragma("unroll")

namespace lacuna::simt {

inline constexpr uint32_t kAllLanes = 0xffffffffU;

LACUNA_DEVICE uint32_t thread_index() {
  return threadIdx.x;
}
LACUNA_DEVICE uint32_t lane_index() {
  return threadIdx.x % 32;
}
LACUNA_DEVICE uint32_t warp_index() {
  return threadIdx.x / 32;
}
LACUNA_DEVICE uint32_t num_threads() {
  return blockDim.x;
}
LACUNA_DEVICE Index3 block_index() {
  return {blockIdx.x, blockIdx.y, blockIdx.z};
}
LACUNA_DEVICE Index3 grid_size() {
  return {gridDim.x, gridDim.y, gridDim.z};
}

template <typename T>
LACUNA_DEVICE T& shared() {
  extern __shared__ __align__(128) unsigned char lacuna_shared_memory[];
  return *reinterpret_cast<T*>(lacuna_shared_memory);
}

LACUNA_DEVICE void sync_threads() {
  __syncthreads();
}
LACUNA_DEVICE void sync_warp() {
  __syncwarp();
}

template <typename T>
LACUNA_DEVICE T shuffle(T value, uint32_t source) {
  return __shfl_sync(kAllLanes, value, static_cast<int>(source));
}
template <typename T>
LACUNA_DEVICE T shuffle_xor(T value, uint32_t distance) {
  return __shfl_xor_sync(kAllLanes, value, static_cast<int>(distance));
}
LACUNA_DEVICE uint32_t ballot(bool value) {
  return __ballot_sync(kAllLanes, value);
}

template <typename T>
LACUNA_DEVICE T atomic_add(T* to, T value) {
  return atomicAdd(to, value);
}

template <typename T>
LACUNA_DEVICE T load(const void* from) {
  return *static_cast<const T*>(from);
}
template <typename T>
LACUNA_DEVICE void store(void* to, const T& value) {
  *static_cast<T*>(to) = value;
}

LACUNA_DEVICE uint32_t shared_address(const void* address) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(address));
}

template <bool kTransposed = false>
LACUNA_DEVICE void load_matrix_x4(uint32_t (&out)[4], const void* row) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
}

template <int kRows, int kColumns>
LACUNA_DEVICE void multiply_block(float (&c)[kRows][kColumns][4], const uint32_t (&a)[kRows][4],
                                  const uint32_t (&b)[kColumns][2]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(c[i][j][0]), "+f"(c[i][j][1]), "+f"(c[i][j][2]), "+f"(c[i][j][3])
          : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
    }
  }
}

LACUNA_DEVICE void copy_async_8(void* to, const void* from, bool valid) {
  asm volatile(
      "{\n"
      ".reg .pred ignore;\n"
      "setp.eq.u32 ignore, %2, 0;\n"
      "cp.async.ca.shared.global [%0], [%1], 8, ignore;\n"
      "}"
      :
      : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(static_cast<uint32_t>(valid))
      : "memory");
}
LACUNA_DEVICE void copy_async_16(void* to, const void* from, bool valid) {
  asm volatile(
      "{\n"
      ".reg .pred ignore;\n"
      "setp.eq.u32 ignore, %2, 0;\n"
      "cp.async.cg.shared.global [%0], [%1], 16, ignore;\n"
      "}"
      :
      : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(static_cast<uint32_t>(valid))
      : "memory");
}
LACUNA_DEVICE void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
LACUNA_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

LACUNA_DEVICE float as_float(uint32_t bits) {
  return __uint_as_float(bits);
}
LACUNA_DEVICE uint32_t as_bits(float value) {
  return __float_as_uint(value);
}

LACUNA_DEVICE uint32_t pack_bf16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

LACUNA_DEVICE uint32_t spread_bytes(uint32_t bytes) {
  return __byte_perm(bytes, 0, 0x4140);
}
LACUNA_DEVICE uint32_t fma_bf16(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t sums;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sums) : "r"(a), "r"(b), "r"(c));
  return sums;
}

LACUNA_DEVICE float exp2(float x) {
  return ::exp2f(x);
}
LACUNA_DEVICE float exp(float x) {
  return ::expf(x);
}
LACUNA_DEVICE double exp(double x) {
  return ::exp(x);
}
LACUNA_DEVICE double log(double x) {
  return ::log(x);
}
LACUNA_DEVICE float tanh(float x) {
  return ::tanhf(x);
}
LACUNA_DEVICE float sqrt(float x) {
  return __fsqrt_rn(x);
}
LACUNA_DEVICE double sqrt(double x) {
  return __dsqrt_rn(x);
}

LACUNA_DEVICE float round_even(float x) {
  return ::rintf(x);
}
LACUNA_DEVICE double multiply(double a, double b) {
  return __dmul_rn(a, b);
}
LACUNA_DEVICE float rounded_product(float a, float b) {
  return __fmul_rn(a, b);
}
LACUNA_DEVICE int leading_ones(uint64_t bits) {
  return __clzll(static_cast<long long>(~bits));
}

}  // namespace lacuna::simt
