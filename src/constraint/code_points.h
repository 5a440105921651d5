// Sets of characters.
#pragma once

#include <cstdint>
#include <vector>

namespace lacuna {

/// Unicode scalar values as ranges; surrogates are never in a set.
class CodePointSet {
 public:
  struct Interval {
    uint32_t first, last;  ///< both inclusive
    bool operator==(const Interval&) const = default;
  };

  CodePointSet() = default;
  /// Ranges in any order; they may overlap. Surrogates and values above 0x10FFFF are dropped.
  explicit CodePointSet(std::vector<Interval> intervals);

  static CodePointSet all();
  CodePointSet complement() const;

  bool is_empty() const { return intervals_.empty(); }
  bool contains(uint32_t code_point) const;
  const std::vector<Interval>& intervals() const {
    return intervals_;
  }  ///< ascending, disjoint, not adjacent
  bool operator==(const CodePointSet&) const = default;

 private:
  std::vector<Interval> intervals_;
};

/// Encoding of code points as bytes.
enum class TextEncoding {
  kUtf8,
  /// Within a JSON string: \" \\ \b \t \n \f \r, all else unescaped. Other control characters (below U+0020)
  /// cannot be written.
  kJsonString,
};

}  // namespace lacuna
