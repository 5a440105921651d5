// Feasible completions of a partly known canvas: the states possible between its positions, and the tokens
// that each open position may get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/token.h"
#include "constraint/token_automaton.h"

namespace lacuna {

/// Consecutive positions that are to be filled. An open position takes exactly one token.
struct ConstrainedCanvas {
  std::span<const TokenId> tokens;  ///< [length] the mask token, or a negative id, where open
  TokenId mask = -1;
  int64_t tokens_after = 0;         ///< further open positions after these (blocks to come); >= 0
  const StateSet* start = nullptr;  ///< states before the first position; null: the automaton's start
  /// Open positions take no end token, so that all of them write text. Not together with tokens_after.
  bool only_text = false;

  bool is_open(size_t position) const { return tokens[position] == mask || tokens[position] < 0; }
};

/// The states to which one position leads from some state of `before`.
///   token      negative: the position is open
///   only_text  as ConstrainedCanvas's
StateSet states_after(const TokenAutomaton& automaton, const StateSet& before, TokenId token, bool only_text);
/// The states from which one position leads into `after`.
StateSet states_before(const TokenAutomaton& automaton, const StateSet& after, TokenId token, bool only_text);
/// {state}, as a set of the automaton's states.
StateSet only(const TokenAutomaton& automaton, StateId state);
/// The state after known tokens; kNoState where no text begins like this.
StateId state_behind(const TokenAutomaton& automaton, std::span<const TokenId> tokens);

/// F_0 = start, F_{i+1} = the states that position i leads to from F_i; B_length = the states from which
/// `tokens_after` more tokens complete a text, B_i = the states from which position i leads into B_{i+1}. The
/// automaton must outlive this.
class FeasibleSets {
 public:
  FeasibleSets(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas);

  size_t length() const { return tokens_.size(); }
  const TokenAutomaton& automaton() const { return *automaton_; }
  bool is_open(size_t position) const { return tokens_[position] < 0; }
  TokenId token(size_t position) const { return tokens_[position]; }  ///< -1 where open

  /// States before position i, for i in [0, length]: those that the positions before it can lead to, and
  /// those from which the positions from i on can be completed.
  const StateSet& forward(size_t i) const { return forward_[i]; }
  const StateSet& backward(size_t i) const { return backward_[i]; }

  /// Whether some tokens for the open positions give an accepted text. The invariant of constrained decoding.
  bool completable() const { return forward_[0].intersects(backward_[0]); }

  /// Tokens t for which some q in F_i has next(q, t) in B_{i+1}: those that position i may get, alone, given
  /// all others that are known. For a known position: what it may be replaced by.
  ClassSet allowed(size_t position) const;
  bool allows(size_t position, TokenId token) const;
  /// The token, if exactly one is allowed; empty otherwise.
  std::optional<TokenId> forced(size_t position) const;

  /// Gives a position a token, or opens it (-1), and updates all sets.
  void set(size_t position, TokenId token);

 private:
  bool may_be_behind_end(size_t position) const;
  void update_forward(size_t first, bool until_unchanged);
  void update_backward(size_t last, bool until_unchanged);
  /// Removes from B_i what an open position before it cannot lead to.
  void keep_text(size_t i);

  const TokenAutomaton* automaton_;
  bool only_text_;
  StateSet behind_all_;             // B_length, whatever the last position is
  std::vector<TokenId> tokens_;     // [length] -1: open
  std::vector<StateSet> forward_;   // [length + 1]
  std::vector<StateSet> backward_;  // [length + 1]
};

/// Whether some tokens for the open positions of the canvas give an accepted text. As
/// FeasibleSets::completable(), without keeping sets.
bool is_completable(const TokenAutomaton& automaton, const ConstrainedCanvas& canvas);

}  // namespace lacuna
