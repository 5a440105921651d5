// Regular languages of bytes, built from parts: what regular expressions and JSON schemas are compiled to
// before they become an automaton.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/code_points.h"
#include "constraint/symbol.h"

namespace lacuna {

class ByteAutomaton;

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
  ///   separator  between any two: "part (separator part)*"
  static Expression repeat(const Expression& part, int least, std::optional<int> most,
                           std::optional<Expression> separator = {});
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
