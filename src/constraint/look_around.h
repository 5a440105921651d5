// Assertions of regular expressions about what is before or behind a place: look-around and word boundaries.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"

namespace lacuna {

/// Assertions of one regular expression. While it is read, an assertion is a symbol that is no part of the
/// text (a mark); resolve() drops the texts in which a mark is at a place where its assertion does not hold,
/// and then the marks. So assertions are exact wherever they stand, within repetitions, too.
class LookAround {
 public:
  LookAround(TextEncoding encoding, std::string_view what, AutomatonLimits& limits)
      : encoding_(encoding), what_(what), limits_(limits) {}

  /// The text behind the place begins with `content`, or does not. `content` may hold marks, and so may the
  /// next one's. `key` is the text of the assertion: equal ones share a mark. Throws InputError where the
  /// expression has more than kMaxAssertions; AutomatonTooLarge.
  Expression ahead(const std::string& key, const Expression& content, bool is_negated);
  /// The text before the place ends with `content`.
  Expression behind(const std::string& key, const Expression& content, bool is_negated);
  Expression at_begin();
  Expression at_end();
  Expression word_boundary(bool is_negated);

  /// The texts of an expression with marks, without them.
  ByteAutomaton resolve(const Expression& marked);

  static constexpr int kMaxAssertions = kMaxSpecials - 1;

 private:
  Expression anything() const;
  /// A mark for the places of `texts`, in which kPlace stands for the place.
  Expression mark(const std::string& key, const Expression& texts, bool is_negated);

  static constexpr int kPlace = kMaxSpecials - 1;
  const TextEncoding encoding_;
  const std::string_view what_;
  AutomatonLimits& limits_;
  std::unordered_map<std::string, int> known_;
  std::vector<ByteAutomaton> violations_;  // texts with kPlace where the assertion does not hold
};

}  // namespace lacuna
