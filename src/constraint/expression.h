// Regular languages over bytes, built from parts: the intermediate form between regular expressions or JSON
// schemas and automata.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "constraint/code_points.h"
#include "constraint/symbol.h"

namespace lacuna {

class ByteAutomaton;

/// A regular language. Immutable; copies share their nodes, also within one expression. Construction charges
/// the thread's Budget.
class Expression {
 public:
  struct Node;

  static Expression nothing();  ///< the empty language
  static Expression text(std::string_view bytes);
  static Expression code_points(const CodePointSet& set, TextEncoding encoding = TextEncoding::kUtf8);
  /// The special token number `index`, in [0, kMaxSpecials).
  static Expression special(int index);
  static Expression sequence(std::vector<Expression> parts);
  static Expression choice(std::vector<Expression> parts);
  /// `part` repeated `least` to `most` times, without an upper bound if `most` is empty. 0 <= least <= most.
  ///   separator  between two repetitions: "part (separator part)*"
  static Expression repeat(const Expression& part, int least, std::optional<int> most,
                           std::optional<Expression> separator = {});
  struct Member;
  /// Members in order with `separator` between them; members that are not required may be absent. Between
  /// `least` and `most` members are present.
  static Expression members(std::vector<Member> members, const Expression& separator, int least = 0,
                            std::optional<int> most = std::nullopt);
  static Expression optional(const Expression& part) { return repeat(part, 0, 1); }
  static Expression automaton(ByteAutomaton automaton);
  /// The texts of `automaton` with all special symbols below `chosen` erased.
  static Expression without_specials(ByteAutomaton automaton, int chosen);
  /// The texts of `automaton` with its special symbol `chosen` renamed to `written`, and with any special
  /// symbols inserted at any place.
  static Expression among_specials(ByteAutomaton automaton, int chosen, int written);
  /// Assertions: match the empty text at the beginning, or at the end, of the whole compiled expression.
  static Expression begin();
  static Expression end();

  /// True if the language is known to be empty; false for some empty ones, such as a byte before begin().
  bool is_nothing() const;
  const Node& node() const { return *node_; }

 private:
  explicit Expression(Node node);
  static Expression of(struct AutomatonNode part);

  std::shared_ptr<const Node> node_;
};

struct Expression::Member {
  Expression part;
  bool is_required;
};

}  // namespace lacuna
