// Feasible completions of a partly known canvas: the states possible between its positions, and the tokens
// allowed at each open position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/token.h"
#include "constraint/token_automaton.h"

namespace lacuna {

/// Consecutive positions to fill. An open position takes exactly one token.
struct ConstrainedCanvas {
  std::span<const TokenId> tokens;  ///< [length] open positions hold the mask token or a negative id
  TokenId mask = -1;
  int64_t tokens_after = 0;         ///< further open positions after these (blocks to come); >= 0
  const StateSet* start = nullptr;  ///< states before the first position; null: the automaton's start
  /// Open positions take no end token and are not after one, so that all of them write text. Requires
  /// tokens_after == 0.
  bool only_text = false;

  bool is_open(size_t position) const { return tokens[position] == mask || tokens[position] < 0; }
};

/// The states that one position can lead to from a state of `before`.
///   token      negative: the position is open
///   only_text  see ConstrainedCanvas
StateSet states_after(const TokenAutomaton& automaton, const StateSet& before, TokenId token, bool only_text);
/// The states from which one position can lead to a state of `after`.
StateSet states_before(const TokenAutomaton& automaton, const StateSet& after, TokenId token, bool only_text);
/// The set {state}.
StateSet only(const TokenAutomaton& automaton, StateId state);
/// The state after `tokens`; kNoState if no accepted text begins with them.
StateId state_after(const TokenAutomaton& automaton, std::span<const TokenId> tokens);

/// Forward and backward reachability over a canvas. Forward: F_0 = start, F_{i+1} = states that position i
/// can lead to from F_i. Backward: B_length = states from which at most `tokens_after` tokens complete a
/// text, B_i = states from which position i can lead into B_{i+1}. The automaton must outlive this.
class FeasibleSets {
 public:
  FeasibleSets(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas);

  size_t length() const { return tokens_.size(); }
  const TokenAutomaton& automaton() const { return *automaton_; }
  bool is_open(size_t position) const { return tokens_[position] < 0; }
  TokenId token(size_t position) const { return tokens_[position]; }  ///< -1 where open

  /// F_i and B_i, the states before position i, for i in [0, length].
  const StateSet& forward(size_t i) const { return forward_[i]; }
  const StateSet& backward(size_t i) const { return backward_[i]; }

  /// Whether the open positions can be filled to an accepted text: the invariant of constrained decoding.
  bool completable() const { return forward_[0].intersects(backward_[0]); }

  /// Classes of the tokens t for which some q in F_i has next(q, t) in B_{i+1}: those that position i may get
  /// given all known tokens. For a known position: its possible replacements.
  ClassSet allowed(size_t position) const;
  bool allows(size_t position, TokenId token) const;
  /// The token, if exactly one is allowed; empty otherwise.
  std::optional<TokenId> forced(size_t position) const;

  /// Gives a position a token, or opens it (-1), and updates all sets.
  void set(size_t position, TokenId token);

 private:
  bool may_follow_end_token(size_t position) const;
  void update_forward(size_t first, bool until_unchanged);
  void update_backward(size_t last, bool until_unchanged);
  /// With only_text_, removes ended() from B_i if position i - 1 is open.
  void keep_text(size_t i);

  const TokenAutomaton* automaton_;
  bool only_text_;
  StateSet final_backward_;         // B_length before keep_text()
  std::vector<TokenId> tokens_;     // [length] -1: open
  std::vector<StateSet> forward_;   // [length + 1]
  std::vector<StateSet> backward_;  // [length + 1]
};

/// FeasibleSets::completable() for a canvas, without storing the sets.
bool is_completable(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas);

}  // namespace lacuna
