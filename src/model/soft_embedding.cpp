#include "model/soft_embedding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace lacuna {

double leave_out_least_likely(std::span<float> weights, double slack) {
  // Non-negative floats sort like their bits: a bin is a quarter of an octave.
  constexpr int kShift = 21;
  std::array<double, 1024> bins{};
  double sum = 0;
  for (const float weight : weights) {
    bins[std::bit_cast<uint32_t>(weight) >> kShift & 1023] += weight;
    sum += weight;
  }
  double left_out = 0;
  uint32_t first_kept = 0;
  while (first_kept < bins.size() && left_out + bins[first_kept] <= slack * sum)
    left_out += bins[first_kept++];
  for (float& weight : weights) {
    if (std::bit_cast<uint32_t>(weight) >> kShift < first_kept) weight = 0;
  }
  return sum;
}

void mean_embeddings(const KernelContext& context, const PackedMatrix& embedding, ConstMatrix<float> weights,
                     std::span<const float> factors, std::span<float* const> out) {
  const int64_t hidden = embedding.view().inputs;
  const int64_t num_slices = std::min<int64_t>(context.threads.size(), weights.rows);
  context.threads.parallel_for(num_slices, [&](int64_t slice, int) {
    const int64_t begin = slice * weights.rows / num_slices;
    const int64_t end = (slice + 1) * weights.rows / num_slices;
    std::vector<float> token_embedding(static_cast<size_t>(hidden));
    for (int64_t row = begin; row < end; ++row) {
      float* sum = out[static_cast<size_t>(row)];
      if (sum != nullptr) std::fill_n(sum, hidden, 0.0F);
    }
    for (int64_t token = 0; token < weights.cols; ++token) {
      bool is_read = false;
      for (int64_t row = begin; row < end; ++row) {
        const float weight = weights.row(row)[token];
        if (weight == 0 || out[static_cast<size_t>(row)] == nullptr) continue;
        if (!is_read) embedding.read_row(token, token_embedding.data());
        is_read = true;
        const auto index = static_cast<size_t>(row);
        context.kernels.add_scaled(out[index], token_embedding.data(), factors[index] * weight, hidden);
      }
    }
  });
}

}  // namespace lacuna
