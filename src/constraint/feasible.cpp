#include "constraint/feasible.h"

#include <optional>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

/// The states that one position leads to; `token` is -1 where it is open.
StateSet states_after(const TokenAutomaton& automaton, const StateSet& before, TokenId token) {
  StateSet after(before.size());
  before.for_each([&](size_t i) {
    const auto state = static_cast<StateId>(i);
    if (token < 0) {
      for (const StateId next : automaton.successors(state)) after.insert(next);
    } else if (const StateId next = automaton.next(state, token); next != kNoState) {
      after.insert(next);
    }
  });
  return after;
}

/// The states from which one position leads into `after`.
StateSet states_before(const TokenAutomaton& automaton, const StateSet& after, TokenId token) {
  StateSet before(after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const auto state = static_cast<StateId>(i);
    bool leads_there = false;
    if (token < 0) {
      for (const StateId next : automaton.successors(state)) {
        leads_there = after.contains(next);
        if (leads_there) break;
      }
    } else {
      const StateId next = automaton.next(state, token);
      leads_there = next != kNoState && after.contains(next);
    }
    if (leads_there) before.insert(i);
  }
  return before;
}

StateSet start_of(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas) {
  if (canvas.start) return *canvas.start;
  StateSet start(static_cast<size_t>(automaton.num_states()));
  start.insert(TokenAutomaton::start());
  return start;
}

TokenId token_of(const ConstrainedCanvas& canvas, size_t position) {
  return canvas.is_open(position) ? -1 : canvas.tokens[position];
}

}  // namespace

FeasibleSets::FeasibleSets(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas)
    : automaton_(&automaton) {
  expects(canvas.tokens_after >= 0, "there are no less than 0 tokens behind a canvas");
  for (size_t i = 0; i < canvas.tokens.size(); ++i) tokens_.push_back(token_of(canvas, i));
  forward_.resize(length() + 1);
  backward_.resize(length() + 1);
  forward_[0] = start_of(automaton, canvas);
  backward_[length()] = automaton.completable_within(canvas.tokens_after);
  update_forward(0, false);
  if (length() > 0) update_backward(length() - 1, false);
}

void FeasibleSets::update_forward(size_t first, bool until_unchanged) {
  for (size_t i = first; i < length(); ++i) {
    StateSet after = states_after(*automaton_, forward_[i], tokens_[i]);
    if (until_unchanged && after == forward_[i + 1]) return;
    forward_[i + 1] = std::move(after);
  }
}

void FeasibleSets::update_backward(size_t last, bool until_unchanged) {
  for (size_t i = last + 1; i-- > 0;) {
    StateSet before = states_before(*automaton_, backward_[i + 1], tokens_[i]);
    if (until_unchanged && before == backward_[i]) return;
    backward_[i] = std::move(before);
  }
}

void FeasibleSets::set(size_t position, TokenId token) {
  tokens_[position] = token < 0 ? -1 : token;
  update_forward(position, true);
  update_backward(position, true);
}

bool FeasibleSets::may_be_behind_end(size_t position) const {
  return forward_[position].contains(automaton_->ended()) &&
         backward_[position + 1].contains(automaton_->ended());
}

ClassSet FeasibleSets::allowed(size_t position) const {
  ClassSet classes(static_cast<size_t>(automaton_->num_classes()));
  const StateSet& after = backward_[position + 1];
  if (may_be_behind_end(
          position)) {  // every class leads on, and there is no need to look at the other states
    for (size_t c = 0; c < classes.size(); ++c) classes.insert(c);
    return classes;
  }
  forward_[position].for_each([&](size_t state) {
    for (const TokenAutomaton::Edge& edge : automaton_->edges(static_cast<StateId>(state))) {
      if (after.contains(edge.next)) classes.insert(edge.token_class);
    }
  });
  return classes;
}

bool FeasibleSets::allows(size_t position, TokenId token) const {
  return states_after(*automaton_, forward_[position], token < 0 ? automaton_->vocab_size() : token)
      .intersects(backward_[position + 1]);
}

std::optional<TokenId> FeasibleSets::forced(size_t position) const {
  std::optional<ClassId> only;
  bool is_forced = true;
  const StateSet& after = backward_[position + 1];
  forward_[position].for_each([&](size_t state) {
    if (!is_forced) return;
    for (const TokenAutomaton::Edge& edge : automaton_->edges(static_cast<StateId>(state))) {
      if (!after.contains(edge.next) || only == edge.token_class) continue;
      is_forced = !only && automaton_->class_size(edge.token_class) == 1;
      if (!is_forced) return;
      only = edge.token_class;
    }
  });
  if (!is_forced || !only) return std::nullopt;
  return automaton_->first_token(*only);
}

bool is_completable(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas) {
  StateSet states = start_of(automaton, canvas);
  for (size_t i = 0; i < canvas.tokens.size(); ++i) {
    states = states_after(automaton, states, token_of(canvas, i));
  }
  return states.intersects(automaton.completable_within(canvas.tokens_after));
}

std::vector<size_t> commit_forced(FeasibleSets& sets) {
  std::vector<uint8_t> is_committed(sets.length(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < sets.length(); ++i) {
      if (!sets.is_open(i)) continue;
      const std::optional<TokenId> token = sets.forced(i);
      if (!token) continue;
      sets.set(i, *token);
      is_committed[i] = 1;
      changed = true;
    }
  }
  std::vector<size_t> positions;
  for (size_t i = 0; i < sets.length(); ++i) {
    if (is_committed[i] != 0) positions.push_back(i);
  }
  return positions;
}

}  // namespace lacuna
