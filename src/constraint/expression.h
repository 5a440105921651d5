// Regular languages of bytes, built from parts: what regular expressions and JSON schemas are compiled to
// before they become an automaton.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

class ByteAutomaton;

/// A letter of the alphabet: 0 to 255 is a byte of UTF-8, kFirstSpecial + k stands for the special token
/// number k of a TokenTable, which is written as a whole (<tool_call>).
using Symbol = uint16_t;
inline constexpr Symbol kFirstSpecial = 256;
inline constexpr int kMaxSpecials = 16;
inline constexpr int kNumSymbols = kFirstSpecial + kMaxSpecials;

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
  CodePointSet united(const CodePointSet& other) const;

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

/// A regular language. Immutable; copies share their parts, and so does an expression that contains another
/// twice. Making one charges the thread's Budget.
class Expression {
 public:
  struct Node;

  static Expression nothing();  ///< the empty language
  static Expression text(std::string_view bytes);
  static Expression code_points(const CodePointSet& set, TextEncoding encoding);
  /// The special token number `index`, in [0, kMaxSpecials).
  static Expression special(int index);
  static Expression sequence(std::vector<Expression> parts);
  static Expression choice(std::vector<Expression> parts);
  /// At least `least` times, at most `most` times; without `most` any number of times. 0 <= least <= most.
  static Expression repeat(const Expression& part, int least, std::optional<int> most);
  /// The same with a separator between any two: "part (separator part)*".
  static Expression separated(const Expression& part, const Expression& separator, int least,
                              std::optional<int> most);
  struct Member;
  /// Members in their order, separated; those that are not required may be left out. At least `least` and at
  /// most `most` of them are there.
  static Expression members(std::vector<Member> members, const Expression& separator, int least = 0,
                            std::optional<int> most = std::nullopt);
  static Expression optional(const Expression& part) { return repeat(part, 0, 1); }
  static Expression automaton(std::shared_ptr<const ByteAutomaton> automaton);
  /// The texts of `automaton` without the special symbols below `chosen` that are within them.
  static Expression without_specials(std::shared_ptr<const ByteAutomaton> automaton, int chosen);
  /// The texts of `automaton`, whose special symbol `chosen` is written as number `written`, with any special
  /// symbols between their bytes.
  static Expression among_specials(std::shared_ptr<const ByteAutomaton> automaton, int chosen, int written);
  /// Assertions: match the empty text at the beginning, or at the end, of the whole expression that is
  /// compiled.
  static Expression begin();
  static Expression end();

  /// False if the language is known to be empty; an intersection inside can make it empty without this.
  bool is_nothing() const;
  const Node& node() const { return *node_; }

 private:
  explicit Expression(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

struct Expression::Member {
  Expression part;
  bool is_required;
};

}  // namespace lacuna
