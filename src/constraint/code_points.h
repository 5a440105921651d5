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
  /// Ranges in any order; they may overlap. Values above 0x10FFFF and surrogates are left out.
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

/// How a code point becomes bytes.
enum class TextEncoding {
  kUtf8,
  /// Within a JSON string: \" \\ \b \t \n \f \r, everything else as it is. Other control characters (below
  /// U+0020) cannot be written.
  kJsonString,
};

}  // namespace lacuna
