// The bytes of a set of code points, as a small graph.
#pragma once

#include <cstdint>
#include <vector>

#include "constraint/code_points.h"

namespace lacuna {

/// A graph from node 0 to the end of a character: every path spells one code point of the set, every code
/// point has one path. Nodes from which the same suffixes follow are one node.
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
