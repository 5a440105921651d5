// Times of a forward pass's parts.
#pragma once

#include <initializer_list>

namespace lacuna {

/// Times of a pass's parts in seconds. Packing rows counts with the matmul that reads them, or with norms or
/// activations that are computed on the way.
struct PassTimes {
  double qkv = 0;        ///< matmuls of q, k and v
  double attention = 0;  ///< scores, softmax and weighted values
  double selection = 0;  ///< sparse attention: choosing and gathering cells
  double output = 0;     ///< matmul after attention
  double ffn = 0;        ///< matmuls, and the router of a layer of experts
  double norms = 0;  ///< norms before attention and feed-forward layers, with packing unless experts follow
  double head = 0;   ///< final norm and matmul of the output head
  double draws = 0;  ///< sampling
  double other = 0;  ///< embedding, q/k norms, RoPE, K/V writes, activations with packing, residuals
  double products() const { return qkv + output + ffn; }
  double total() const { return products() + attention + selection + norms + head + draws + other; }
};

/// Adds `sign` times `more`, part by part.
inline PassTimes& add_times(PassTimes& sum, const PassTimes& more, double sign) {
  for (const auto part :
       {&PassTimes::qkv, &PassTimes::attention, &PassTimes::selection, &PassTimes::output, &PassTimes::ffn,
        &PassTimes::norms, &PassTimes::head, &PassTimes::draws, &PassTimes::other}) {
    sum.*part += sign * more.*part;
  }
  return sum;
}

inline PassTimes& operator+=(PassTimes& sum, const PassTimes& more) {
  return add_times(sum, more, 1);
}
inline PassTimes operator-(PassTimes all, const PassTimes& part) {
  return add_times(all, part, -1);
}

}  // namespace lacuna
