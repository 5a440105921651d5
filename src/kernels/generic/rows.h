// Row operations as templates over an instruction set's vectors.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "kernels/table.h"

namespace lacuna::generic {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// exp(x) to about 2 units in the last place; 0 below the smallest normal result.
/// x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by a Taylor polynomial of degree 7 (the next term is below
/// 2^-27); 2^n by the exponent bits.
template <typename Isa>
typename Isa::Vec exponential(typename Isa::Vec x) {
  using Vec = typename Isa::Vec;
  const Vec lowest = Isa::broadcast(-87.3F);
  const Vec clamped = Isa::min(Isa::max(x, lowest), Isa::broadcast(88.3F));
  const Vec n = Isa::round(Isa::multiply(clamped, Isa::broadcast(1.44269504088896341F)));
  Vec r = Isa::multiply_add(n, Isa::broadcast(-0.693359375F), clamped);  // ln 2 in two parts, the first exact
  r = Isa::multiply_add(n, Isa::broadcast(2.12194440e-4F), r);
  Vec p = Isa::broadcast(1.0F / 5040);
  p = Isa::multiply_add(p, r, Isa::broadcast(1.0F / 720));
  p = Isa::multiply_add(p, r, Isa::broadcast(1.0F / 120));
  p = Isa::multiply_add(p, r, Isa::broadcast(1.0F / 24));
  p = Isa::multiply_add(p, r, Isa::broadcast(1.0F / 6));
  p = Isa::multiply_add(p, r, Isa::broadcast(0.5F));
  p = Isa::multiply_add(p, r, Isa::broadcast(1.0F));
  p = Isa::multiply_add(p, r, Isa::broadcast(1.0F));
  return Isa::zero_where_less(Isa::scale_by_power_of_two(p, n), x, lowest);
}

/// Calls vector(i) for each whole vector of [0, count) and scalar(i) for the remaining elements.
template <typename Isa, typename Vector, typename Scalar>
void for_each_vector(int64_t count, Vector&& vector, Scalar&& scalar) {
  int64_t i = 0;
  for (; i + Isa::kLanes <= count; i += Isa::kLanes) vector(i);
  for (; i < count; ++i) scalar(i);
}

template <typename Isa>
float sum(const float* x, int64_t count) {
  typename Isa::Vec vectors = Isa::zero();
  float rest = 0;
  for_each_vector<Isa>(
      count, [&](int64_t i) { vectors = Isa::add(vectors, Isa::load(x + i)); },
      [&](int64_t i) { rest += x[i]; });
  return Isa::reduce_add(vectors) + rest;
}

template <typename Isa>
float pack_row_as_floats(const float* x, int64_t count, int64_t padded_count, void* out) {
  auto* floats = static_cast<float*>(out);
  for_each_vector<Isa>(
      count, [&](int64_t i) { Isa::store(floats + i, Isa::round_to_bf16(Isa::load(x + i))); },
      [&](int64_t i) { floats[i] = static_cast<float>(bf16(x[i])); });
  std::fill(floats + count, floats + padded_count, 0.0F);
  return sum<Isa>(floats, count);
}

/// Isa::store_bf16(to, x) rounds a vector to bf16 and returns what it wrote, as floats.
template <typename Isa>
float pack_row_as_bf16(const float* x, int64_t count, int64_t padded_count, void* out) {
  auto* const rounded = static_cast<bf16*>(out);
  auto sums = Isa::zero();
  float rest = 0;
  for_each_vector<Isa>(
      count, [&](int64_t i) { sums = Isa::add(sums, Isa::store_bf16(rounded + i, Isa::load(x + i))); },
      [&](int64_t i) {
        rounded[i] = bf16(x[i]);
        rest += static_cast<float>(rounded[i]);
      });
  std::fill(rounded + count, rounded + padded_count, bf16());
  return Isa::reduce_add(sums) + rest;
}

template <typename Isa>
float softmax_numerators(float* scores, const int32_t* first_row, int64_t count, int32_t row, float scale) {
  using Vec = typename Isa::Vec;
  const Vec hidden = Isa::broadcast(-kInfinity);
  Vec largest = hidden;
  for (int64_t i = 0; i < count; i += Isa::kLanes) {
    const Vec masked = Isa::replace_where_greater(Isa::load(scores + i), hidden, first_row + i, row);
    Isa::store(scores + i, masked);
    largest = Isa::max(largest, masked);
  }
  const Vec shift = Isa::broadcast(-scale * Isa::reduce_max(largest));
  const Vec factor = Isa::broadcast(scale);
  Vec sum = Isa::zero();
  for (int64_t i = 0; i < count; i += Isa::kLanes) {
    const Vec e = exponential<Isa>(Isa::multiply_add(Isa::load(scores + i), factor, shift));
    Isa::store(scores + i, e);
    sum = Isa::add(sum, e);
  }
  return Isa::reduce_add(sum);
}

template <typename Isa>
void rms_norm(const float* x, const float* weight, int64_t count, float epsilon, float* out) {
  auto squares = Isa::zero();
  float rest = 0;
  for_each_vector<Isa>(
      count,
      [&](int64_t i) {
        const auto v = Isa::load(x + i);
        squares = Isa::multiply_add(v, v, squares);
      },
      [&](int64_t i) { rest += x[i] * x[i]; });
  const float mean = (Isa::reduce_add(squares) + rest) / static_cast<float>(count);
  const float inverse = 1.0F / std::sqrt(mean + epsilon);
  const auto factor = Isa::broadcast(inverse);
  for_each_vector<Isa>(
      count,
      [&](int64_t i) {
        Isa::store(out + i, Isa::multiply(Isa::multiply(Isa::load(x + i), factor), Isa::load(weight + i)));
      },
      [&](int64_t i) { out[i] = x[i] * inverse * weight[i]; });
}

template <typename Isa>
void rope(float* x, const float* cosines, const float* sines, int64_t half) {
  for_each_vector<Isa>(
      half,
      [&](int64_t j) {
        const auto a = Isa::load(x + j);
        const auto b = Isa::load(x + half + j);
        const auto c = Isa::load(cosines + j);
        const auto s = Isa::load(sines + j);
        Isa::store(x + j, Isa::subtract(Isa::multiply(a, c), Isa::multiply(b, s)));
        Isa::store(x + half + j, Isa::add(Isa::multiply(b, c), Isa::multiply(a, s)));
      },
      [&](int64_t j) {
        const float a = x[j];
        const float b = x[half + j];
        x[j] = a * cosines[j] - b * sines[j];
        x[half + j] = b * cosines[j] + a * sines[j];
      });
}

template <typename Isa>
void swiglu(const float* gate, const float* up, int64_t count, float* out) {
  const auto one = Isa::broadcast(1.0F);
  for_each_vector<Isa>(
      count,
      [&](int64_t i) {
        const auto z = Isa::load(gate + i);
        const auto e = exponential<Isa>(Isa::subtract(Isa::zero(), z));
        Isa::store(out + i, Isa::multiply(Isa::divide(z, Isa::add(one, e)), Isa::load(up + i)));
      },
      [&](int64_t i) { out[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i]; });
}

/// (1 + tanh(y)) / 2 = 1 / (1 + exp(-2 y)).
template <typename Isa>
void geglu(const float* gate, const float* up, int64_t count, float* out) {
  constexpr float kSlope = -1.5957691216F;  // -2 sqrt(2 / pi)
  constexpr float kCubic = 0.044715F;
  const auto one = Isa::broadcast(1.0F);
  const auto slope = Isa::broadcast(kSlope);
  const auto cubic = Isa::broadcast(kCubic);
  for_each_vector<Isa>(
      count,
      [&](int64_t i) {
        const auto z = Isa::load(gate + i);
        const auto bend = Isa::multiply_add(cubic, Isa::multiply(z, z), one);
        const auto e = exponential<Isa>(Isa::multiply(Isa::multiply(slope, z), bend));
        Isa::store(out + i, Isa::multiply(Isa::divide(z, Isa::add(one, e)), Isa::load(up + i)));
      },
      [&](int64_t i) {
        const float z = gate[i];
        out[i] = z / (1.0F + std::exp(kSlope * z * (1 + kCubic * z * z))) * up[i];
      });
}

template <typename Isa>
void squared_relu(float* x, int64_t count) {
  for_each_vector<Isa>(
      count,
      [&](int64_t i) {
        const auto positive = Isa::max(Isa::load(x + i), Isa::zero());
        Isa::store(x + i, Isa::multiply(positive, positive));
      },
      [&](int64_t i) { x[i] = x[i] > 0 ? x[i] * x[i] : 0; });
}

/// tanh(y) = 1 - 2 / (exp(2 y) + 1), with an absolute error of about 1e-7.
template <typename Isa>
void soft_cap(float* x, int64_t count, float scale, float cap) {
  const auto twice = Isa::broadcast(2 * scale / cap);
  const auto one = Isa::broadcast(1.0F);
  const auto two_caps = Isa::broadcast(-2 * cap);
  const auto largest = Isa::broadcast(cap);
  for_each_vector<Isa>(
      count,
      [&](int64_t i) {
        const auto e = exponential<Isa>(Isa::multiply(Isa::load(x + i), twice));
        Isa::store(x + i, Isa::add(largest, Isa::divide(two_caps, Isa::add(e, one))));
      },
      [&](int64_t i) { x[i] = cap * std::tanh(scale * x[i] / cap); });
}

template <typename Isa>
void add_scaled(float* x, const float* y, float scale, int64_t count) {
  const auto factor = Isa::broadcast(scale);
  for_each_vector<Isa>(
      count,
      [&](int64_t i) { Isa::store(x + i, Isa::multiply_add(Isa::load(y + i), factor, Isa::load(x + i))); },
      [&](int64_t i) { x[i] += scale * y[i]; });
}

template <typename Isa>
void multiply(float* x, const float* y, int64_t count) {
  for_each_vector<Isa>(
      count, [&](int64_t i) { Isa::store(x + i, Isa::multiply(Isa::load(x + i), Isa::load(y + i))); },
      [&](int64_t i) { x[i] *= y[i]; });
}

/// Plain loop that the compiler vectorizes: the file that instantiates it is compiled for `Isa`.
template <typename Isa>
void widen_codes_f32(const int8_t* codes, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(codes[i]);
}

template <typename Isa>
void widen_codes_bf16(const int8_t* codes, int64_t count, bf16* out) {
  for (int64_t i = 0; i < count; ++i) {
    const auto word = std::bit_cast<uint32_t>(static_cast<float>(codes[i]));
    out[i].bits = static_cast<uint16_t>(word >> 16);
  }
}

template <typename Isa>
MaxIndex max_index(const float* x, int64_t count) {
  auto largest = Isa::broadcast(-kInfinity);
  float value = -kInfinity;
  for_each_vector<Isa>(
      count, [&](int64_t i) { largest = Isa::max(Isa::load(x + i), largest); },
      [&](int64_t i) { value = x[i] > value ? x[i] : value; });
  value = std::max(value, Isa::reduce_max(largest));
  const float* found = std::find(x, x + count, value);
  return {value, found == x + count ? 0 : found - x};
}

template <typename Isa>
ExpSums exp_sums(const float* x, int64_t count, float max) {
  // Short runs in f32 lanes, their totals in double: a single large term does not swallow the small ones.
  constexpr int64_t kRun = 1024;
  const auto shift = Isa::broadcast(max);
  const auto tiny = Isa::broadcast(-87.3F);
  ExpSums total{0, 0};
  for (int64_t begin = 0; begin < count; begin += kRun) {
    auto sum = Isa::zero();
    auto weighted = Isa::zero();
    const float* run = x + begin;
    for_each_vector<Isa>(
        std::min(kRun, count - begin),
        [&](int64_t i) {
          const auto difference = Isa::subtract(Isa::load(run + i), shift);
          const auto e = exponential<Isa>(difference);
          sum = Isa::add(sum, e);
          // Clamping avoids 0 * -infinity; e is 0 below `tiny`.
          weighted = Isa::multiply_add(e, Isa::max(difference, tiny), weighted);
        },
        [&](int64_t i) {
          const float difference = run[i] - max;
          const float e = std::exp(difference);
          total.sum += e;
          if (e > 0) total.weighted += static_cast<double>(e) * difference;
        });
    total.sum += Isa::reduce_add(sum);
    total.weighted += Isa::reduce_add(weighted);
  }
  return total;
}

template <typename Isa>
constexpr void fill_row_kernels(KernelTable& table) {
  table.sum = sum<Isa>;
  table.softmax_numerators = softmax_numerators<Isa>;
  table.rms_norm = rms_norm<Isa>;
  table.rope = rope<Isa>;
  table.swiglu = swiglu<Isa>;
  table.geglu = geglu<Isa>;
  table.squared_relu = squared_relu<Isa>;
  table.soft_cap = soft_cap<Isa>;
  table.add_scaled = add_scaled<Isa>;
  table.multiply = multiply<Isa>;
  table.widen_codes_f32 = widen_codes_f32<Isa>;
  table.widen_codes_bf16 = widen_codes_bf16<Isa>;
  table.max_index = max_index<Isa>;
  table.exp_sums = exp_sums<Isa>;
}

}  // namespace lacuna::generic
