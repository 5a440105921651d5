// The part of a model, and of its passes, that one of several ranks keeps and computes. One rank computes
// each number entirely, exactly as an undivided model does; ranks exchange final values, never partial sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kernels/panels.h"

namespace lacuna {

/// The dimension that is divided among the ranks.
enum class ShardBy : uint8_t {
  kOutputs,  ///< the outputs of every matrix of the layers, and the K/V heads
  kRows,     ///< the rows of a pass; every rank keeps the whole model and all K/V
  kLayers,   ///< the layers, with their K/V; the first and the last rank sample
};

constexpr std::string_view name_of(ShardBy by) {
  return by == ShardBy::kOutputs ? "outputs" : by == ShardBy::kRows ? "rows" : "layers";
}

struct ModelPart {
  /// A range of indices; may be empty.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size() const { return end - begin; }
    bool operator==(const Range&) const = default;
  };

  int rank = 0;
  int size = 1;  ///< number of ranks; 1: the part is the whole model
  ShardBy by = ShardBy::kOutputs;

  constexpr bool is_whole() const { return size == 1; }
  constexpr bool cuts(ShardBy what) const { return size > 1 && by == what; }
  constexpr ModelPart of(int other_rank) const { return {other_rank, size, by}; }
  constexpr bool is_last() const { return rank + 1 == size; }

  /// Whether the rank embeds tokens, and so keeps the embedding.
  constexpr bool embeds() const { return !cuts(ShardBy::kLayers) || rank == 0; }
  /// Whether the rank has the last layer's output rows, and so keeps the head.
  constexpr bool samples() const { return embeds() || is_last(); }

  /// The rank's range of `count` items, divided as equally as possible, larger ranges first.
  constexpr Range cut(int64_t count) const {
    const int64_t each = count / size;
    const int64_t larger = count % size;
    const auto begin_of = [&](int64_t index) { return index * each + std::min(index, larger); };
    return {begin_of(rank), begin_of(rank + 1)};
  }

  /// The rank's range of the model's `count` layers.
  constexpr Range layers(int64_t count) const {
    return cuts(ShardBy::kLayers) ? cut(count) : Range{0, count};
  }

  /// The range of `count` sampled rows whose logits the rank computes.
  constexpr Range sampled(int64_t count) const {
    if (!cuts(ShardBy::kLayers)) return cut(count);
    const int64_t of_first = ModelPart{0, 2}.cut(count).end;
    if (rank == 0) return {0, of_first};
    return {of_first, is_last() ? count : of_first};
  }

  /// The rank's range of a matrix's outputs. It consists of whole panels, so that kernels compute the same
  /// bits as for the whole matrix.
  constexpr Range outputs(int64_t count) const {
    if (!cuts(ShardBy::kOutputs)) return {0, count};
    const Range panels = cut(num_panels(count));
    return {std::min(count, panels.begin * kPanelWidth), std::min(count, panels.end * kPanelWidth)};
  }

  /// K/V heads that the rank keeps, each with all its query heads; at least one. With fewer heads than ranks,
  /// several ranks keep and compute the same head.
  constexpr Range kv_heads(int64_t count) const {
    if (!cuts(ShardBy::kOutputs)) return {0, count};
    if (size <= count) return cut(count);
    const int64_t head = rank * count / size;
    return {head, head + 1};
  }

  /// The heads of kv_heads() that the rank sends: each head is sent by the first rank that has it.
  constexpr Range sent_heads(int64_t count) const {
    const Range own = kv_heads(count);
    const bool is_sent_before = rank > 0 && of(rank - 1).kv_heads(count).end == own.end;
    return is_sent_before ? Range{own.end, own.end} : own;
  }
};

}  // namespace lacuna
