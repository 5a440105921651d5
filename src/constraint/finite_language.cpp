#include "constraint/finite_language.h"

#include <utility>

#include "base/budget.h"

namespace lacuna {

std::optional<std::vector<std::string>> finite_language(const ByteAutomaton& automaton, size_t most) {
  std::vector<std::string> texts;
  if (automaton.is_empty()) return texts;
  // Every state can reach an accepting one, so each prefix begins at least one text.
  std::vector<std::pair<std::string, StateId>> beginnings{{"", ByteAutomaton::start()}};
  size_t num_bytes = 0;
  while (!beginnings.empty()) {
    std::vector<std::pair<std::string, StateId>> longer;
    for (const auto& [text, state] : beginnings) {
      spend_steps(kFirstSpecial);
      if (automaton.is_accepting(state)) texts.push_back(text);
      for (int byte = 0; byte < kFirstSpecial; ++byte) {
        const StateId next = automaton.next(state, static_cast<Symbol>(byte));
        if (next == kNoState) continue;
        longer.emplace_back(text + static_cast<char>(byte), next);
        num_bytes += longer.back().first.size();
        if (texts.size() + longer.size() > most || num_bytes > kMaxFiniteBytes * most) return std::nullopt;
      }
    }
    if (texts.size() > most) return std::nullopt;
    beginnings = std::move(longer);
  }
  return texts;
}

Expression any_byte() {
  // UTF-8 need not be checked: callers intersect the result with languages of well-formed text.
  static const Expression kByte = [] {
    TransitionTable table;
    table.symbol_classes.assign(kNumSymbols, 0);
    for (size_t byte = 0; byte < kFirstSpecial; ++byte) table.symbol_classes[byte] = 1;
    table.num_classes = 2;
    table.next = {TransitionTable::kNone, 1, TransitionTable::kNone, TransitionTable::kNone};
    table.accepting = {0, 1};
    AutomatonLimits limits;
    return Expression::automaton(ByteAutomaton::of_table(std::move(table), "byte", limits));
  }();
  return kByte;
}

}  // namespace lacuna
