#include "constraint/feasible.h"

#include <optional>
#include <span>

#include "base/budget.h"
#include "base/error.h"

namespace lacuna {
namespace {

constexpr size_t kStatesPerStep = 64;  // creating a StateSet costs one step per word of 64 states

StateSet start_of(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas) {
  return canvas.start ? *canvas.start : only(automaton, TokenAutomaton::start());
}

TokenId token_of(const ConstrainedCanvas& canvas, size_t position) {
  return canvas.is_open(position) ? -1 : canvas.tokens[position];
}

}  // namespace

StateSet states_after(const TokenAutomaton& automaton, const StateSet& before, TokenId token,
                      bool only_text) {
  StateSet after(before.size());
  size_t looked_at = before.size() / kStatesPerStep;
  before.for_each([&](size_t i) {
    const auto state = static_cast<StateId>(i);
    ++looked_at;
    if (token < 0) {
      const std::span<const StateId> successors = automaton.successors(state);
      looked_at += successors.size();
      for (const StateId next : successors) after.insert(next);
    } else if (const StateId next = automaton.next(state, token); next != kNoState) {
      after.insert(next);
    }
  });
  if (token < 0 && only_text) after.erase(automaton.ended());
  spend_steps(looked_at);
  return after;
}

StateSet states_before(const TokenAutomaton& automaton, const StateSet& after, TokenId token,
                       bool only_text) {
  StateSet before(after.size());
  const bool may_end = token >= 0 || !only_text;
  size_t looked_at = before.size();
  for (size_t i = 0; i < before.size(); ++i) {
    const auto state = static_cast<StateId>(i);
    bool leads_there = false;
    if (token < 0) {
      for (const StateId next : automaton.successors(state)) {
        ++looked_at;
        leads_there = after.contains(next) && (may_end || next != automaton.ended());
        if (leads_there) break;
      }
    } else {
      const StateId next = automaton.next(state, token);
      leads_there = next != kNoState && after.contains(next);
    }
    if (leads_there) before.insert(i);
  }
  spend_steps(looked_at);
  return before;
}

StateSet only(const TokenAutomaton& automaton, StateId state) {
  StateSet states(static_cast<size_t>(automaton.num_states()));
  states.insert(state);
  return states;
}

StateId state_after(const TokenAutomaton& automaton, std::span<const TokenId> tokens) {
  StateId state = TokenAutomaton::start();
  for (const TokenId token : tokens) {
    if (state == kNoState) break;
    state = automaton.next(state, token);
  }
  return state;
}

FeasibleSets::FeasibleSets(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas)
    : automaton_(&automaton),
      only_text_(canvas.only_text),
      final_backward_(automaton.completable_within(canvas.tokens_after)) {
  expects(canvas.tokens_after >= 0, "there are no less than 0 tokens after a canvas");
  expects(canvas.tokens_after == 0 || !only_text_, "text fills a canvas exactly");
  for (size_t i = 0; i < canvas.tokens.size(); ++i) tokens_.push_back(token_of(canvas, i));
  forward_.resize(length() + 1);
  backward_.resize(length() + 1);
  forward_[0] = start_of(automaton, canvas);
  update_forward(0, false);
  backward_[length()] = final_backward_;
  keep_text(length());
  if (length() > 0) update_backward(length() - 1, false);
}

void FeasibleSets::keep_text(size_t i) {
  if (only_text_ && i > 0 && is_open(i - 1)) backward_[i].erase(automaton_->ended());
}

void FeasibleSets::update_forward(size_t first, bool until_unchanged) {
  for (size_t i = first; i < length(); ++i) {
    StateSet after = states_after(*automaton_, forward_[i], tokens_[i], only_text_);
    if (until_unchanged && after == forward_[i + 1]) return;
    forward_[i + 1] = std::move(after);
  }
}

void FeasibleSets::update_backward(size_t last, bool until_unchanged) {
  for (size_t i = last + 1; i-- > 0;) {
    StateSet before = states_before(*automaton_, backward_[i + 1], tokens_[i], only_text_);
    if (until_unchanged && before == backward_[i]) return;
    backward_[i] = std::move(before);
    keep_text(i);
  }
}

void FeasibleSets::set(size_t position, TokenId token) {
  tokens_[position] = token < 0 ? -1 : token;
  update_forward(position, true);
  if (!only_text_) {
    update_backward(position, true);
    return;
  }
  // keep_text() depends on whether the position is open.
  backward_[length()] = final_backward_;
  keep_text(length());
  update_backward(length() - 1, false);
}

bool FeasibleSets::may_follow_end_token(size_t position) const {
  return forward_[position].contains(automaton_->ended()) &&
         backward_[position + 1].contains(automaton_->ended());
}

ClassSet FeasibleSets::allowed(size_t position) const {
  ClassSet classes(static_cast<size_t>(automaton_->num_classes()));
  const StateSet& after = backward_[position + 1];
  if (may_follow_end_token(position)) {  // ended() accepts every class, so the other states need no visit
    for (size_t c = 0; c < classes.size(); ++c) classes.insert(c);
    return classes;
  }
  size_t looked_at = 0;
  forward_[position].for_each([&](size_t state) {
    const std::span<const TokenAutomaton::Edge> edges = automaton_->edges(static_cast<StateId>(state));
    looked_at += 1 + edges.size();
    for (const TokenAutomaton::Edge& edge : edges) {
      if (after.contains(edge.next)) classes.insert(edge.token_class);
    }
  });
  spend_steps(looked_at);
  return classes;
}

bool FeasibleSets::allows(size_t position, TokenId token) const {
  return states_after(*automaton_, forward_[position], token < 0 ? automaton_->vocab_size() : token, false)
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
    states = states_after(automaton, states, token_of(canvas, i), canvas.only_text);
  }
  return states.intersects(automaton.completable_within(canvas.tokens_after));
}

}  // namespace lacuna
