// Zero-width assertions of regular expressions: look-ahead, look-behind and word boundaries.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"

namespace lacuna {

/// Assertions of one regular expression. The parser represents each assertion by a special symbol, its mark.
/// resolve() removes the texts in which some mark's assertion fails at the mark's place, and then erases all
/// marks. So assertions are exact everywhere, also within repetitions.
class LookAround {
 public:
  LookAround(TextEncoding encoding, std::string_view what, AutomatonLimits& limits)
      : encoding_(encoding), what_(what), limits_(limits) {}

  /// Look-ahead: the text after the place begins with `content` (if negated: does not). `content` may hold
  /// marks. `key` is the text of the assertion; equal assertions share a mark. Throws InputError for more
  /// than kMaxAssertions different ones; AutomatonTooLarge.
  Expression ahead(const std::string& key, const Expression& content, bool is_negated);
  /// Look-behind: the text before the place ends with `content` (if negated: does not).
  Expression behind(const std::string& key, const Expression& content, bool is_negated);
  Expression at_begin();
  Expression at_end();
  Expression word_boundary(bool is_negated);

  /// The texts of `marked` in which all assertions hold, without the marks.
  ByteAutomaton resolve(const Expression& marked);

  static constexpr int kMaxAssertions = kMaxSpecials - 1;

 private:
  Expression anything() const;
  /// The mark of an assertion that holds where `texts` have the symbol kPlace (if negated: elsewhere).
  Expression mark(const std::string& key, const Expression& texts, bool is_negated);

  static constexpr int kPlace = kMaxSpecials - 1;
  const TextEncoding encoding_;
  const std::string_view what_;
  AutomatonLimits& limits_;
  std::unordered_map<std::string, int> known_;
  std::vector<ByteAutomaton> violations_;  // by mark: texts with kPlace where its assertion fails
};

}  // namespace lacuna
