#include "constraint/look_around.h"

#include <memory>
#include <utility>

namespace lacuna {
namespace {

bool has_symbol(const ByteAutomaton& automaton, Symbol symbol) {
  for (int state = 0; state < automaton.num_states(); ++state) {
    if (automaton.next(static_cast<StateId>(state), symbol) != kNoState) return true;
  }
  return false;
}

}  // namespace

Expression LookAround::anything() const {
  return Expression::repeat(Expression::code_points(CodePointSet::all(), encoding_), 0, std::nullopt);
}

Expression LookAround::ahead(const std::string& key, const Expression& content, bool is_negated) {
  return mark((is_negated ? "(?!" : "(?=") + key,
              Expression::sequence({anything(), Expression::special(kPlace), content, anything()}),
              is_negated);
}

Expression LookAround::behind(const std::string& key, const Expression& content, bool is_negated) {
  return mark((is_negated ? "(?<!" : "(?<=") + key,
              Expression::sequence({anything(), content, Expression::special(kPlace), anything()}),
              is_negated);
}

Expression LookAround::at_begin() {
  return mark("^", Expression::sequence({Expression::special(kPlace), anything()}), false);
}

Expression LookAround::at_end() {
  return mark("$", Expression::sequence({anything(), Expression::special(kPlace)}), false);
}

Expression LookAround::word_boundary(bool is_negated) {
  const CodePointSet letters({{'A', 'Z'}, {'a', 'z'}, {'0', '9'}, {'_', '_'}});
  const Expression word = Expression::code_points(letters, encoding_);
  const auto here = [&](bool is_word_before, bool is_word_behind) {
    return Expression::sequence({behind("\\w", word, !is_word_before), ahead("\\w", word, !is_word_behind)});
  };
  return Expression::choice({here(false, !is_negated), here(true, is_negated)});
}

Expression LookAround::mark(const std::string& key, const Expression& texts, bool is_negated) {
  if (const auto known = known_.find(key); known != known_.end()) return Expression::special(known->second);
  if (violations_.size() == static_cast<size_t>(kMaxAssertions))
    throw InputError("{}: has more than {} different look-arounds and boundaries", what_, kMaxAssertions);
  ByteAutomaton holds = resolve(texts);
  if (!is_negated) {
    const ByteAutomaton all = ByteAutomaton::compile(
        Expression::sequence({anything(), Expression::special(kPlace), anything()}), what_, limits_);
    holds = ByteAutomaton::difference(all, holds, what_, limits_);
  }
  const auto index = static_cast<int>(violations_.size());
  violations_.push_back(std::move(holds));
  known_.emplace(key, index);
  return Expression::special(index);
}

ByteAutomaton LookAround::resolve(const Expression& marked) {
  ByteAutomaton texts = ByteAutomaton::compile(marked, what_, limits_);
  for (size_t i = 0; i < violations_.size(); ++i) {
    const auto index = static_cast<int>(i);
    if (!has_symbol(texts, static_cast<Symbol>(kFirstSpecial + index))) continue;
    const ByteAutomaton violating =
        ByteAutomaton::compile(Expression::among_specials(violations_[i], kPlace, index), what_, limits_);
    texts = ByteAutomaton::difference(texts, violating, what_, limits_);
  }
  return ByteAutomaton::compile(Expression::without_specials(std::move(texts), kPlace), what_, limits_);
}

}  // namespace lacuna
