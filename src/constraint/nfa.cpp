#include "constraint/nfa.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/overloaded.h"
#include "constraint/byte_automaton.h"
#include "constraint/encoded_characters.h"
#include "constraint/expression_node.h"

namespace lacuna {
namespace {

/// Each add function builds a part from a given start state and returns the part's end state. No part has an
/// edge into its start state, so alternatives can share one.
class NfaBuilder {
 public:
  NfaBuilder(std::string_view what, const AutomatonLimits& limits) : what_(what), limits_(limits) {}

  Nfa build(const Expression& expression) {
    nfa_.start = new_state();
    nfa_.final = add(expression, nfa_.start);
    nfa_.first_edge.assign(num_states_ + 1, 0);
    for (const auto& [source, edge] : edges_) ++nfa_.first_edge[source + 1];
    for (size_t state = 0; state < num_states_; ++state) nfa_.first_edge[state + 1] += nfa_.first_edge[state];
    nfa_.edges.resize(edges_.size());
    std::vector<uint32_t> next(nfa_.first_edge.begin(), nfa_.first_edge.end() - 1);
    for (const auto& [source, edge] : edges_) nfa_.edges[next[source]++] = edge;
    return std::move(nfa_);
  }

 private:
  /// Counts one state or edge, or a repetition of an empty part, towards the limit.
  void count() {
    if (++num_parts_ > static_cast<size_t>(limits_.parts))
      throw AutomatonTooLarge("the {} is too large: it repeats into more than {} parts", what_,
                              limits_.parts);
  }

  uint32_t new_state() {
    count();
    return num_states_++;
  }

  void connect(uint32_t source, uint32_t target, Nfa::EdgeKind kind = Nfa::EdgeKind::kEmpty) {
    count();
    edges_.push_back({source, {target, 0, 0, kind}});
  }

  void connect(uint32_t source, uint32_t target, Symbol first, Symbol last) {
    count();
    edges_.push_back({source, {target, first, last, Nfa::EdgeKind::kSymbols}});
  }

  uint32_t add(const Expression& expression, uint32_t from) {
    count();
    return std::visit(Overloaded{
                          [&](const NothingNode&) { return new_state(); },  // cannot be reached
                          [&](const TextNode& text) { return add_text(text.bytes, from); },
                          [&](const CodePointsNode& set) { return add_characters(set.characters, from); },
                          [&](const SpecialNode& special) { return add_special(special.index, from); },
                          [&](const SequenceNode& sequence) { return add_sequence(sequence, from); },
                          [&](const ChoiceNode& choice) { return add_choice(choice, from); },
                          [&](const RepeatNode& repeat) {
                            return repeat.separator ? add_separated(repeat, from) : add_repeat(repeat, from);
                          },
                          [&](const MembersNode& members) { return add_members(members, from); },
                          [&](const AutomatonNode& part) { return add_automaton(part, from); },
                          [&](const BeginNode&) { return add_assertion(Nfa::EdgeKind::kIfAtBegin, from); },
                          [&](const EndNode&) { return add_assertion(Nfa::EdgeKind::kIfAtEnd, from); },
                      },
                      expression.node().part);
  }

  uint32_t add_text(std::string_view bytes, uint32_t from) {
    for (const char c : bytes) {
      const auto byte = static_cast<uint8_t>(c);
      const uint32_t to = new_state();
      connect(from, to, byte, byte);
      from = to;
    }
    return from;
  }

  uint32_t add_special(int index, uint32_t from) {
    const auto symbol = static_cast<Symbol>(kFirstSpecial + index);
    const uint32_t to = new_state();
    connect(from, to, symbol, symbol);
    return to;
  }

  uint32_t add_assertion(Nfa::EdgeKind kind, uint32_t from) {
    const uint32_t to = new_state();
    connect(from, to, kind);
    nfa_.has_assertions = true;
    return to;
  }

  uint32_t add_characters(const EncodedCharacters& graph, uint32_t from) {
    const uint32_t first = num_states_;  // node i > 0 of the graph is state first + i - 1
    for (size_t i = 1; i < graph.nodes.size(); ++i) new_state();
    const uint32_t end = new_state();
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const uint32_t source = i == 0 ? from : first + static_cast<uint32_t>(i) - 1;
      for (const auto& [low, high, target] : graph.nodes[i]) {
        connect(source, target == EncodedCharacters::kEnd ? end : first + static_cast<uint32_t>(target) - 1,
                low, high);
      }
    }
    return end;
  }

  uint32_t add_sequence(const SequenceNode& sequence, uint32_t from) {
    for (const Expression& part : sequence.parts) from = add(part, from);
    return from;
  }

  uint32_t add_choice(const ChoiceNode& choice, uint32_t from) {
    const uint32_t to = new_state();
    for (const Expression& part : choice.parts) connect(add(part, from), to);
    return to;
  }

  uint32_t add_repeat(const RepeatNode& repeat, uint32_t from) {
    for (int i = 0; i < repeat.least; ++i) from = add(repeat.part, from);
    if (!repeat.most) {
      const uint32_t loop = new_state();
      connect(from, loop);
      connect(add(repeat.part, loop), loop);
      const uint32_t to = new_state();
      connect(loop, to);
      return to;
    }
    const uint32_t to = new_state();
    for (int i = repeat.least; i < *repeat.most; ++i) {
      connect(from, to);
      from = add(repeat.part, from);
    }
    connect(from, to);
    return to;
  }

  uint32_t add_separated(const RepeatNode& repeat, uint32_t from) {
    const uint32_t to = new_state();
    if (repeat.least == 0) connect(from, to);
    const int copies = repeat.most ? *repeat.most : std::max(1, repeat.least);
    uint32_t begin = 0;
    for (int i = 1; i <= copies; ++i) {
      if (i > 1) from = add(*repeat.separator, from);
      begin = new_state();
      connect(from, begin);
      from = add(repeat.part, begin);
      if (i >= repeat.least) connect(from, to);
    }
    if (!repeat.most) connect(add(*repeat.separator, from), begin);
    return to;
  }

  /// Two rows of states: before the first present member, which has no separator, and after it.
  uint32_t add_members(const MembersNode& list, uint32_t from) {
    if (list.least > 0 || list.most) return add_counted_members(list, from);
    uint32_t unwritten = from;
    uint32_t written = new_state();  // cannot be reached before the first member
    for (const auto& [part, is_required] : list.members) {
      const uint32_t begin = new_state();
      connect(unwritten, begin);
      connect(add(list.separator, written), begin);
      const uint32_t next_written = new_state();
      connect(add(part, begin), next_written);
      const uint32_t next_unwritten = new_state();
      if (!is_required) {
        connect(unwritten, next_unwritten);
        connect(written, next_written);
      }
      unwritten = next_unwritten;
      written = next_written;
    }
    const uint32_t to = new_state();
    connect(unwritten, to);
    connect(written, to);
    return to;
  }

  /// One row of states per number of present members, up to `most` or else `least`.
  uint32_t add_counted_members(const MembersNode& list, uint32_t from) {
    const auto last = static_cast<size_t>(list.most.value_or(list.least));
    std::vector<uint32_t> row{from};
    for (size_t i = 0; i < last; ++i) row.push_back(new_state());  // cannot be reached yet
    for (const auto& [part, is_required] : list.members) {
      std::vector<uint32_t> next;
      for (size_t i = 0; i <= last; ++i) next.push_back(new_state());
      for (size_t i = 0; i <= last; ++i) {
        if (!is_required) connect(row[i], next[i]);
        if (list.most && i == last) continue;
        uint32_t begin = new_state();
        connect(row[i], begin);
        if (i > 0) begin = add(list.separator, begin);
        connect(add(part, begin), next[std::min(i + 1, last)]);
      }
      row = std::move(next);
    }
    const uint32_t to = new_state();
    for (auto i = static_cast<size_t>(list.least); i <= last; ++i) connect(row[i], to);
    return to;
  }

  uint32_t add_automaton(const AutomatonNode& part, uint32_t from) {
    using Specials = AutomatonNode::Specials;
    const ByteAutomaton& automaton = *part.automaton;
    // The automaton's start may lie on a loop, which must not lead back to `from`.
    const uint32_t first = num_states_;
    for (int state = 0; state < automaton.num_states(); ++state) new_state();
    const uint32_t to = new_state();
    connect(from, first);
    const int end = part.specials == Specials::kKeep ? kNumSymbols : kFirstSpecial;
    for (int i = 0; i < automaton.num_states(); ++i) {
      const auto state = static_cast<StateId>(i);
      const uint32_t source = first + static_cast<uint32_t>(i);
      if (automaton.is_accepting(state)) connect(source, to);
      for (int symbol = 0; symbol < end;) {
        const int begin = symbol;
        const StateId target = automaton.next(state, static_cast<Symbol>(begin));
        while (symbol < end && automaton.next(state, static_cast<Symbol>(symbol)) == target) ++symbol;
        if (target == kNoState) continue;
        connect(source, first + target, static_cast<Symbol>(begin), static_cast<Symbol>(symbol - 1));
      }
      if (part.specials != Specials::kKeep) add_specials(part, state, first);
    }
    return to;
  }

  /// Adds the special edges of one state of an automaton (Specials::kErase or kIgnore).
  void add_specials(const AutomatonNode& part, StateId state, uint32_t first) {
    const bool erases = part.specials == AutomatonNode::Specials::kErase;
    const uint32_t source = first + state;
    for (int index = 0; index <= part.chosen; ++index) {
      const StateId target = part.automaton->next(state, static_cast<Symbol>(kFirstSpecial + index));
      if (target == kNoState) continue;
      const auto written = static_cast<Symbol>(kFirstSpecial + part.written);
      if (index == part.chosen) {
        connect(source, first + target, written, written);
      } else {
        expects(erases, "an automaton among special symbols has one of its own");
        connect(source, first + target);
      }
    }
    if (!erases) connect(source, source, kFirstSpecial, static_cast<Symbol>(kNumSymbols - 1));
  }

  const std::string_view what_;
  const AutomatonLimits& limits_;
  Nfa nfa_;
  uint32_t num_states_ = 0;
  size_t num_parts_ = 0;
  std::vector<std::pair<uint32_t, Nfa::Edge>> edges_;  // with their sources
};

}  // namespace

Nfa build_nfa(const Expression& expression, std::string_view what, AutomatonLimits& limits) {
  Nfa nfa = NfaBuilder(what, limits).build(expression);
  limits.spend(4 * (nfa.edges.size() + nfa.num_states()), what);
  return nfa;
}

}  // namespace lacuna
