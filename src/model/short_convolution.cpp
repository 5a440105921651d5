// Layers with a gated short convolution in place of attention (LFM2). The inputs of the convolution at a
// position are the cell's contents, one half as its key and the other as its value, so that a row finds the
// inputs of the positions before it where an attending row finds their keys.
#include <algorithm>
#include <vector>

#include "model/pass.h"

namespace lacuna {

void Model::Pass::store_convolved(const LayerParameters& layer) {
  const int64_t hidden = config_.hidden_dim;
  const Matrix<float> gate = sized(ws_.k, num_rows_, hidden);
  const Matrix<float> input = sized(ws_.v, num_rows_, hidden);
  pack_normed(layer.attn_norm);
  product(layer.k, gate, ws_.times.qkv);
  product(layer.v, input, ws_.times.qkv);
  for_each_row([&](int64_t row) {
    float* const gated = input.row(row);
    for (int64_t d = 0; d < hidden; ++d) gated[d] *= gate.row(row)[d];
    write_kv(ws_.layer, plan_row(row), gated, gated + hidden / 2);
  });
}

void Model::Pass::convolve_rows(const LayerParameters& layer) {
  const int64_t hidden = config_.hidden_dim;
  const auto taps = static_cast<int32_t>(config_.convolution->taps);
  const Matrix<float> gate = sized(ws_.q, num_rows_, hidden);
  product(layer.q, gate, ws_.times.qkv);
  ws_.packed.pack_each(context_, num_rows_, hidden, dtype_, [&](int64_t row, float* sum) {
    thread_local std::vector<float> input;
    input.resize(static_cast<size_t>(hidden));
    const auto index = static_cast<size_t>(plan_row(row));
    const KvCache& cache = *caches_[static_cast<size_t>(row_sequence_[index])];
    std::fill_n(sum, hidden, 0.0F);
    const int32_t first = plan_.cells[index] + 1 - taps;  // cells before 0 count as zeros
    for (int32_t tap = std::max(0, -first); tap < taps; ++tap) {
      const float* const weights = layer.taps.data() + tap * hidden;
      cache.read(kv_layer(), first + tap, 0, input.data(), input.data() + hidden / 2);
      for (int64_t d = 0; d < hidden; ++d) sum[d] += weights[d] * input[static_cast<size_t>(d)];
    }
    for (int64_t d = 0; d < hidden; ++d) sum[d] *= gate.row(row)[d];
    return sum;
  });
  ws_.times.attention += watch_.restart();
  whole_product(layer.o, projected_, ws_.times.output);
  add_projected({});
}

}  // namespace lacuna
