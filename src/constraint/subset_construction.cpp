// ByteAutomaton::compile(): determinizes an expression's NFA by the subset construction.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "constraint/byte_automaton.h"
#include "constraint/nfa.h"
#include "constraint/transition_table.h"

namespace lacuna {
namespace {

/// NFA states that one text leads to, ascending; only those for which matters() is true.
using NfaStates = std::vector<uint32_t>;

struct HashOfStates {
  size_t operator()(const NfaStates& states) const {
    uint64_t hash = states.size();
    for (const uint32_t state : states) hash = mix_bits(hash ^ state);
    return hash;
  }
};

/// Symbol classes: the intervals between the limits of all edges, in ascending order.
std::vector<uint16_t> classes_of(const Nfa& nfa) {
  std::vector<uint8_t> begins(kNumSymbols + 1, 0);
  for (const Nfa::Edge& edge : nfa.edges) {
    if (edge.kind != Nfa::EdgeKind::kSymbols) continue;
    begins[edge.first] = 1;
    begins[edge.last + 1U] = 1;
  }
  std::vector<uint16_t> classes(kNumSymbols, 0);
  for (size_t symbol = 1; symbol < kNumSymbols; ++symbol) {
    classes[symbol] = static_cast<uint16_t>(classes[symbol - 1] + begins[symbol]);
  }
  return classes;
}

class SubsetConstruction {
 public:
  SubsetConstruction(const Nfa& nfa, std::string_view what, AutomatonLimits& limits)
      : nfa_(nfa), what_(what), limits_(limits), visited_(nfa.num_states(), 0) {
    table_.symbol_classes = classes_of(nfa);
    table_.num_classes = table_.symbol_classes.back() + 1;
  }

  TransitionTable run() {
    // With assertions, the state before the first symbol differs from an equal set of NFA states later.
    number_of({nfa_.start}, true);
    std::vector<NfaStates> targets(static_cast<size_t>(table_.num_classes));
    for (size_t state = 0; state < sets_.size(); ++state) {
      for (const uint32_t member : *sets_[state]) collect_targets(member, targets);
      int32_t number = TransitionTable::kNone;
      for (size_t c = 0; c < targets.size(); ++c) {
        // Neighboring classes often lead to the same states.
        if (c == 0 || targets[c] != targets[c - 1])
          number = targets[c].empty() ? TransitionTable::kNone : number_of(targets[c], false);
        table_.at(state, static_cast<int>(c)) = number;
        if (number != TransitionTable::kNone) ++num_transitions_;
      }
      for (NfaStates& of_class : targets) of_class.clear();
      limits_.check_size(table_.num_states(), num_transitions_, what_);
    }
    return std::move(table_);
  }

 private:
  void spend(size_t visits) { limits_.spend(visits, what_); }

  void collect_targets(uint32_t member, std::vector<NfaStates>& targets) {
    for (uint32_t e = nfa_.first_edge[member]; e < nfa_.first_edge[member + 1]; ++e) {
      const Nfa::Edge& edge = nfa_.edges[e];
      if (edge.kind != Nfa::EdgeKind::kSymbols) continue;
      const size_t first = table_.symbol_classes[edge.first], last = table_.symbol_classes[edge.last];
      spend(last - first + 1);
      for (size_t c = first; c <= last; ++c) targets[c].push_back(edge.target);
    }
  }

  bool passes(const Nfa::Edge& edge, bool at_begin, bool at_end) const {
    return edge.kind == Nfa::EdgeKind::kEmpty || (edge.kind == Nfa::EdgeKind::kIfAtBegin && at_begin) ||
           (edge.kind == Nfa::EdgeKind::kIfAtEnd && at_end);
  }

  /// All states that can be reached from `from` without a symbol.
  NfaStates closure(const NfaStates& from, bool at_begin, bool at_end) {
    ++visit_;
    NfaStates reached;
    const auto reach = [&](uint32_t state) {
      if (std::exchange(visited_[state], visit_) != visit_) reached.push_back(state);
    };
    for (const uint32_t state : from) reach(state);
    for (size_t i = 0; i < reached.size(); ++i) {
      const uint32_t begin = nfa_.first_edge[reached[i]], end = nfa_.first_edge[reached[i] + 1];
      spend(1 + end - begin);
      for (uint32_t e = begin; e < end; ++e) {
        if (passes(nfa_.edges[e], at_begin, at_end)) reach(nfa_.edges[e].target);
      }
    }
    return reached;
  }

  bool matters(uint32_t state) const {
    if (state == nfa_.final) return true;
    for (uint32_t e = nfa_.first_edge[state]; e < nfa_.first_edge[state + 1]; ++e) {
      if (nfa_.edges[e].kind == Nfa::EdgeKind::kSymbols || nfa_.edges[e].kind == Nfa::EdgeKind::kIfAtEnd)
        return true;
    }
    return false;
  }

  int32_t number_of(const NfaStates& targets, bool at_begin) {
    NfaStates states = closure(targets, at_begin, false);
    std::erase_if(states, [&](uint32_t state) { return !matters(state); });
    std::sort(states.begin(), states.end());
    NfaStates key = states;
    if (at_begin && nfa_.has_assertions) key.push_back(static_cast<uint32_t>(nfa_.num_states()));
    const auto [known, is_new] = numbers_.try_emplace(std::move(key), static_cast<int32_t>(sets_.size()));
    if (!is_new) return known->second;
    spend(8 * states.size());  // bounds the memory of all sets, too
    if (known->first.size() != states.size()) {
      start_ = std::move(states);
      sets_.push_back(&start_);
    } else {
      sets_.push_back(&known->first);
    }
    const NfaStates at_end = nfa_.has_assertions ? closure(*sets_.back(), at_begin, true) : *sets_.back();
    const bool accepts = std::find(at_end.begin(), at_end.end(), nfa_.final) != at_end.end();
    table_.accepting.push_back(accepts ? 1 : 0);
    table_.next.resize(table_.next.size() + static_cast<size_t>(table_.num_classes), TransitionTable::kNone);
    return known->second;
  }

  const Nfa& nfa_;
  const std::string_view what_;
  AutomatonLimits& limits_;
  TransitionTable table_;
  std::unordered_map<NfaStates, int32_t, HashOfStates> numbers_;
  std::vector<const NfaStates*> sets_;  // by number; keys of numbers_, or start_
  NfaStates start_;
  std::vector<uint32_t> visited_;  // [num_states of nfa_] number of the last closure that reached it
  uint32_t visit_ = 0;
  size_t num_transitions_ = 0;
};

}  // namespace

ByteAutomaton ByteAutomaton::compile(const Expression& expression, std::string_view what,
                                     AutomatonLimits& limits) {
  expects(limits.states < kNoState, "the limit of states is below kNoState");
  const Nfa nfa = build_nfa(expression, what, limits);
  return of_table(SubsetConstruction(nfa, what, limits).run(), what, limits);
}

ByteAutomaton ByteAutomaton::compile(const Expression& expression, std::string_view what) {
  AutomatonLimits limits;
  return compile(expression, what, limits);
}

}  // namespace lacuna
