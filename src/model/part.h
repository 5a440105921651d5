// Which part of a model one of several ranks keeps and computes: some outputs of every matrix of the layers,
// and the K/V heads that belong to them. Every number is computed whole, by one rank, as it is where the
// model is not cut; ranks only exchange finished numbers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/panels.h"

namespace lacuna {

struct ModelPart {
  /// A part of consecutive things, which may be empty.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size() const { return end - begin; }
    bool operator==(const Range&) const = default;
  };

  int rank = 0;
  int size = 1;  ///< ranks; 1: the part is the model

  bool is_whole() const { return size == 1; }
  ModelPart of(int other_rank) const { return {other_rank, size}; }

  /// One of `size` parts of `count` things: as equal as they can be, the larger ones first.
  constexpr Range cut(int64_t count) const {
    const int64_t each = count / size;
    const int64_t larger = count % size;
    const auto begin_of = [&](int64_t index) { return index * each + std::min(index, larger); };
    return {begin_of(rank), begin_of(rank + 1)};
  }

  /// Outputs of a matrix, in whole panels, so that no kernel sees another end of a row than before.
  constexpr Range outputs(int64_t count) const {
    const Range panels = cut(num_panels(count));
    return {std::min(count, panels.begin * kPanelWidth), std::min(count, panels.end * kPanelWidth)};
  }

  /// K/V heads that the rank keeps, each with all query heads that read it; at least one. Where there are
  /// fewer heads than ranks, several ranks keep and compute the same one.
  constexpr Range kv_heads(int64_t count) const {
    if (size <= count) return cut(count);
    const int64_t head = rank * count / size;
    return {head, head + 1};
  }

  /// Those of kv_heads() whose results the rank sends: each head is sent by the first rank that has it.
  constexpr Range sent_heads(int64_t count) const {
    const Range own = kv_heads(count);
    const bool is_sent_before = rank > 0 && ModelPart{rank - 1, size}.kv_heads(count).end == own.end;
    return is_sent_before ? Range{own.end, own.end} : own;
  }
};

}  // namespace lacuna
