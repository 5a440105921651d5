// An automaton over bytes, lifted to the tokens of a vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "constraint/bit_set.h"
#include "constraint/byte_automaton.h"
#include "constraint/token_vocabulary.h"

namespace lacuna {

using ClassId = uint16_t;
inline constexpr ClassId kNoClass = 0xFFFF;  ///< class of the tokens that no state allows

/// Limit on (state, class) edges, without those from ended(). A forward or backward pass visits each edge at
/// every position, at about 4 ns.
inline constexpr size_t kMaxTokenEdges = 1'000'000;

using StateSet = BitSet;  ///< [num_states]
using ClassSet = BitSet;  ///< [num_classes]

/// A deterministic automaton over tokens. States 0, 1, ... are those of the byte automaton; a token leads
/// where its bytes lead. An end token leads from every accepting state to one more state, ended(), in which
/// every token stays, because text after an end token is cut off. So a canvas of L tokens can hold exactly
/// the texts with up to L tokens. Tokens with the same next state from every state form a class; all
/// decisions are made per class. Immutable.
class TokenAutomaton {
 public:
  struct Edge {
    ClassId token_class;
    StateId next;
    bool operator==(const Edge&) const = default;
  };

  /// Throws InputError if there are more than 65,534 classes or kMaxTokenEdges edges, or no text can be
  /// written with the tokens of the vocabulary.
  TokenAutomaton(const ByteAutomaton& bytes, const TokenVocabulary& vocabulary);

  int num_states() const { return static_cast<int>(accepting_.size()); }  ///< ended() included
  static constexpr StateId start() { return ByteAutomaton::start(); }
  StateId ended() const { return static_cast<StateId>(num_states() - 1); }
  const StateSet& accepting() const {
    return accepting_;
  }  ///< states in which a text may end; ended() is one

  int num_classes() const { return static_cast<int>(class_sizes_.size()); }
  int vocab_size() const { return static_cast<int>(token_classes_.size()); }
  /// [vocab_size] class of every token; kNoClass for tokens that are excluded.
  std::span<const ClassId> token_classes() const { return token_classes_; }
  /// kNoClass for ids outside the vocabulary.
  ClassId class_of(TokenId token) const;
  int class_size(ClassId token_class) const { return class_sizes_[token_class]; }
  /// The lowest id of the class. Classes are numbered in ascending order of it.
  TokenId first_token(ClassId token_class) const { return first_tokens_[token_class]; }

  /// Edges to the states from which the vocabulary can complete an accepted text, by ascending class.
  std::span<const Edge> edges(StateId state) const {
    return std::span(edges_).subspan(first_edge_[state], first_edge_[state + 1U] - first_edge_[state]);
  }
  size_t num_edges() const { return edges_.size(); }
  /// The states that edges(state) lead to, each once, ascending.
  std::span<const StateId> successors(StateId state) const {
    return std::span(successors_)
        .subspan(first_successor_[state], first_successor_[state + 1U] - first_successor_[state]);
  }
  /// kNoState if the token is not allowed there.
  StateId next(StateId state, TokenId token) const { return next_by_class(state, class_of(token)); }
  StateId next_by_class(StateId state, ClassId token_class) const;

  /// The fewest tokens from a state to an accepting one; 0 in accepting states. kNever if the vocabulary
  /// cannot write any accepted text from there.
  static constexpr int kNever = 1 << 30;
  int min_tokens(StateId state) const { return min_tokens_[state]; }
  /// States with min_tokens() <= tokens: those from which a text can be completed with this many more tokens.
  StateSet completable_within(int64_t tokens) const;

  /// The longest byte string with which every accepted text continues after a state; empty if a text may end
  /// there, or a special token may follow.
  std::string literal(StateId state) const;

  size_t memory_bytes() const;

 private:
  /// Fills forced_bytes_.
  void find_forced_bytes(const ByteAutomaton& bytes);
  /// Fills token_classes_, class_sizes_ and first_tokens_; returns the effect of each class.
  std::vector<int32_t> number_classes(std::span<const int32_t> effect_of_token);
  void set_min_tokens(const std::vector<std::vector<Edge>>& by_state);
  void set_edges(const std::vector<std::vector<Edge>>& by_state);

  StateSet accepting_;
  std::vector<ClassId> token_classes_;  // [vocab_size]
  std::vector<int32_t> class_sizes_;    // [num_classes] tokens in each
  std::vector<TokenId> first_tokens_;   // [num_classes]
  std::vector<uint32_t> first_edge_;    // [num_states + 1]
  std::vector<Edge> edges_;
  std::vector<uint32_t> first_successor_;  // [num_states + 1]
  std::vector<StateId> successors_;
  std::vector<int32_t> min_tokens_;  // [num_states]
  struct ForcedByte {
    int16_t byte = -1;  // -1: there is a choice
    StateId next = kNoState;
  };
  std::vector<ForcedByte> forced_bytes_;  // [num_states]
};

}  // namespace lacuna
