// The bytes of a set of code points, as a small graph.
#pragma once

#include <cstdint>
#include <vector>

#include "constraint/code_points.h"

namespace lacuna {

/// A graph in which each path from node 0 to kEnd spells the bytes of one code point of the set, and each
/// code point has one path. Nodes with the same suffixes are merged.
struct EncodedCharacters {
  static constexpr int kEnd = -1;
  struct Edge {
    uint8_t first, last;  ///< bytes, both inclusive
    int target;           ///< node, or kEnd
  };
  std::vector<std::vector<Edge>> nodes;  ///< edges of each node, disjoint
};

/// Charges the thread's Budget.
EncodedCharacters encode_characters(const CodePointSet& set, TextEncoding encoding);

}  // namespace lacuna
