#include "constraint/token_automaton.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "base/rng.h"

namespace lacuna {
namespace {

/// The effect of a byte string: for each state in which it can be written, the state that it leads to.
struct Move {
  StateId from, to;
  bool operator==(const Move&) const = default;
};

/// Limit on the moves of all effects, including those of token prefixes: 32 MB.
constexpr size_t kMaxMoves = 8'000'000;

constexpr int32_t kDead = -1;      // allowed in no state
constexpr int32_t kUnknown = -2;   // not computed yet
constexpr int32_t kEndToken = -3;  // an end token, allowed in accepting states
constexpr int32_t kExcluded = -4;  // an excluded token, which has no class

/// Interned effects of byte strings. Strings with the same effect share a number, so that each node of a
/// vocabulary's trie, which has few different effects, costs one look-up.
class Effects {
 public:
  explicit Effects(const ByteAutomaton& automaton) : automaton_(automaton) {
    moves_.reserve(1 << 16);
    for (int state = 0; state < automaton.num_states(); ++state) {
      moves_.push_back({static_cast<StateId>(state), static_cast<StateId>(state)});
    }
    number_of_last(0);
  }

  /// The effect of the empty string.
  static constexpr int32_t identity() { return 0; }

  /// The effect of `effect` followed by one symbol of a class.
  int32_t followed_by(int32_t effect, int symbol_class) {
    const auto index = static_cast<size_t>(effect);
    const auto num_classes = static_cast<size_t>(automaton_.num_symbol_classes());
    if (rows_[index] == kUnknown) {
      rows_[index] = static_cast<int32_t>(followers_.size() / num_classes);
      followers_.resize(followers_.size() + num_classes, kUnknown);
    }
    const size_t cell = static_cast<size_t>(rows_[index]) * num_classes + static_cast<size_t>(symbol_class);
    if (followers_[cell] == kUnknown) followers_[cell] = compute(effect, symbol_class);
    return followers_[cell];
  }

  std::span<const Move> moves(int32_t effect) const {
    const auto index = static_cast<size_t>(effect);
    return std::span(moves_).subspan(first_[index], first_[index + 1] - first_[index]);
  }

  size_t size() const { return rows_.size(); }

 private:
  int32_t compute(int32_t effect, int symbol_class) {
    const size_t begin = moves_.size();
    spend_steps(4 * (first_[static_cast<size_t>(effect) + 1] - first_[static_cast<size_t>(effect)]));
    for (size_t i = first_[static_cast<size_t>(effect)]; i < first_[static_cast<size_t>(effect) + 1]; ++i) {
      const Move move = moves_[i];
      const StateId to = automaton_.next_by_class(move.to, symbol_class);
      if (to != kNoState) moves_.push_back({move.from, to});
    }
    if (moves_.size() == begin) return kDead;
    if (moves_.size() > kMaxMoves)
      throw AutomatonTooLarge(
          "the constraint is too large: its states and the tokens' beginnings make more than {} pairs",
          kMaxMoves);
    return number_of_last(begin);
  }

  /// Returns the number of the effect that consists of the moves from `begin` on, and drops these moves if
  /// the effect is known already.
  int32_t number_of_last(size_t begin) {
    const std::span<const Move> last = std::span(moves_).subspan(begin);
    uint64_t hash = last.size();
    for (const Move& move : last) hash = mix_bits(hash ^ (uint64_t{move.from} << 16 | move.to));
    const auto [first, end] = by_hash_.equal_range(hash);
    for (auto candidate = first; candidate != end; ++candidate) {
      const std::span<const Move> known = moves(candidate->second);
      if (!std::equal(known.begin(), known.end(), last.begin(), last.end())) continue;
      moves_.resize(begin);
      return candidate->second;
    }
    const auto number = static_cast<int32_t>(rows_.size());
    rows_.push_back(kUnknown);
    first_.push_back(moves_.size());
    by_hash_.emplace(hash, number);
    return number;
  }

  const ByteAutomaton& automaton_;
  std::vector<Move> moves_;       // moves of all effects, contiguous; ascending by `from` within each effect
  std::vector<size_t> first_{0};  // [size + 1]
  std::vector<int32_t> rows_;     // [size] row of followers_, or kUnknown
  std::vector<int32_t> followers_;  // [rows, symbol classes]
  std::unordered_multimap<uint64_t, int32_t> by_hash_;
};

/// The effect of every token, or kDead, kEndToken or kExcluded.
std::vector<int32_t> effects_of_tokens(const ByteAutomaton& automaton, const TokenVocabulary& vocabulary,
                                       Effects& effects) {
  std::vector<int32_t> of_token(static_cast<size_t>(vocabulary.vocab_size()), kDead);
  std::vector<int32_t> path{Effects::identity()};  // by depth
  const std::span<const TokenVocabulary::Node> nodes = vocabulary.nodes();
  for (size_t i = 0; i < nodes.size();) {
    const TokenVocabulary::Node& node = nodes[i];
    const int32_t effect = effects.followed_by(path[node.depth - 1U], automaton.symbol_class(node.byte));
    if (effect == kDead) {
      i = node.end;
      continue;
    }
    path.resize(node.depth);
    path.push_back(effect);
    for (const TokenId token : vocabulary.tokens_at(i)) of_token[static_cast<size_t>(token)] = effect;
    ++i;
  }
  for (size_t k = 0; k < vocabulary.specials().size(); ++k) {
    of_token[static_cast<size_t>(vocabulary.specials()[k])] = effects.followed_by(
        Effects::identity(), automaton.symbol_class(static_cast<Symbol>(kFirstSpecial + k)));
  }
  for (const TokenId token : vocabulary.end_ids()) of_token[static_cast<size_t>(token)] = kEndToken;
  for (const TokenId token : vocabulary.excluded()) of_token[static_cast<size_t>(token)] = kExcluded;
  return of_token;
}

}  // namespace

void TokenAutomaton::find_forced_bytes(const ByteAutomaton& bytes) {
  forced_bytes_.resize(static_cast<size_t>(num_states()));
  for (int state = 0; state < bytes.num_states(); ++state) {
    const auto from = static_cast<StateId>(state);
    if (bytes.is_accepting(from)) continue;
    ForcedByte forced;
    int count = 0;
    for (Symbol symbol = 0; symbol < kNumSymbols && count < 2; ++symbol) {
      const StateId next = bytes.next(from, symbol);
      if (next == kNoState) continue;
      ++count;
      forced = {static_cast<int16_t>(symbol < kFirstSpecial ? symbol : -1), next};
    }
    if (count == 1 && forced.byte >= 0) forced_bytes_[from] = forced;
  }
}

std::string TokenAutomaton::literal(StateId state) const {
  std::string text;
  // No state comes twice: the text would be infinite.
  while (forced_bytes_[state].byte >= 0) {
    text += static_cast<char>(forced_bytes_[state].byte);
    state = forced_bytes_[state].next;
  }
  return text;
}

TokenAutomaton::TokenAutomaton(const ByteAutomaton& bytes, const TokenVocabulary& vocabulary)
    : accepting_(static_cast<size_t>(bytes.num_states()) + 1) {
  for (int state = 0; state < bytes.num_states(); ++state) {
    if (bytes.is_accepting(static_cast<StateId>(state))) accepting_.insert(static_cast<size_t>(state));
  }
  accepting_.insert(ended());
  find_forced_bytes(bytes);
  Effects effects(bytes);
  const std::vector<int32_t> of_token = effects_of_tokens(bytes, vocabulary, effects);
  const std::vector<int32_t> of_class = number_classes(of_token);

  std::vector<std::vector<Edge>> by_state(static_cast<size_t>(num_states()));
  size_t num_edges = 0;
  for (size_t c = 0; c < of_class.size(); ++c) {
    const auto token_class = static_cast<ClassId>(c);
    if (of_class[c] == kEndToken) {
      accepting_.for_each([&](size_t state) {
        if (state != ended()) by_state[state].push_back({token_class, ended()});
      });
    } else if (of_class[c] != kDead) {
      for (const Move& move : effects.moves(of_class[c]))
        by_state[move.from].push_back({token_class, move.to});
      num_edges += effects.moves(of_class[c]).size();
    }
    by_state[ended()].push_back({token_class, ended()});
  }
  if (num_edges > kMaxTokenEdges)
    throw AutomatonTooLarge(
        "the constraint is too large: its states and classes of tokens make more than {} pairs",
        kMaxTokenEdges);
  set_min_tokens(by_state);
  if (min_tokens_[start()] == kNever)
    throw InputError("the model's tokens cannot write any text that the constraint allows");
  set_edges(by_state);
}

std::vector<int32_t> TokenAutomaton::number_classes(std::span<const int32_t> effect_of_token) {
  std::vector<int32_t> of_class;
  std::unordered_map<int32_t, ClassId> numbers;
  for (size_t token = 0; token < effect_of_token.size(); ++token) {
    const int32_t effect = effect_of_token[token];
    if (effect == kExcluded) {
      token_classes_.push_back(kNoClass);
      continue;
    }
    const auto [known, is_new] = numbers.try_emplace(effect, static_cast<ClassId>(of_class.size()));
    if (is_new) {
      if (of_class.size() == kNoClass)
        throw AutomatonTooLarge("the constraint is too large: it tells apart more than {} classes of tokens",
                                kNoClass - 1);
      of_class.push_back(effect);
      first_tokens_.push_back(static_cast<TokenId>(token));
      class_sizes_.push_back(0);
    }
    token_classes_.push_back(known->second);
    ++class_sizes_[known->second];
  }
  return of_class;
}

void TokenAutomaton::set_min_tokens(const std::vector<std::vector<Edge>>& by_state) {
  const size_t num_states = by_state.size();
  std::vector<std::vector<StateId>> sources(num_states);
  for (size_t state = 0; state < num_states; ++state) {
    StateId previous = kNoState;  // neighbouring classes often lead to one state
    for (const Edge& edge : by_state[state]) {
      if (edge.next != std::exchange(previous, edge.next))
        sources[edge.next].push_back(static_cast<StateId>(state));
    }
  }
  min_tokens_.assign(num_states, kNever);
  std::vector<StateId> reached;
  accepting_.for_each([&](size_t state) {
    min_tokens_[state] = 0;
    reached.push_back(static_cast<StateId>(state));
  });
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const StateId source : sources[reached[i]]) {
      if (min_tokens_[source] != kNever) continue;
      min_tokens_[source] = min_tokens_[reached[i]] + 1;
      reached.push_back(source);
    }
  }
}

void TokenAutomaton::set_edges(const std::vector<std::vector<Edge>>& by_state) {
  std::vector<size_t> seen_from(by_state.size(), by_state.size());
  for (size_t state = 0; state < by_state.size(); ++state) {
    first_edge_.push_back(static_cast<uint32_t>(edges_.size()));
    first_successor_.push_back(static_cast<uint32_t>(successors_.size()));
    for (const Edge& edge : by_state[state]) {
      if (min_tokens_[edge.next] == kNever) continue;
      edges_.push_back(edge);
      if (std::exchange(seen_from[edge.next], state) != state) successors_.push_back(edge.next);
    }
    std::sort(successors_.begin() + first_successor_.back(), successors_.end());
  }
  first_edge_.push_back(static_cast<uint32_t>(edges_.size()));
  first_successor_.push_back(static_cast<uint32_t>(successors_.size()));
}

ClassId TokenAutomaton::class_of(TokenId token) const {
  return token < 0 || token >= vocab_size() ? kNoClass : token_classes_[static_cast<size_t>(token)];
}

StateId TokenAutomaton::next_by_class(StateId state, ClassId token_class) const {
  const std::span<const Edge> from = edges(state);
  const auto edge = std::lower_bound(from.begin(), from.end(), token_class,
                                     [](const Edge& e, ClassId c) { return e.token_class < c; });
  return edge == from.end() || edge->token_class != token_class ? kNoState : edge->next;
}

StateSet TokenAutomaton::completable_within(int64_t tokens) const {
  StateSet states(min_tokens_.size());
  for (size_t state = 0; state < min_tokens_.size(); ++state) {
    if (min_tokens_[state] != kNever && min_tokens_[state] <= tokens) states.insert(state);
  }
  return states;
}

size_t TokenAutomaton::memory_bytes() const {
  return sizeof *this + token_classes_.size() * sizeof(ClassId) +
         class_sizes_.size() * (sizeof(int32_t) + sizeof(TokenId)) + edges_.size() * sizeof(Edge) +
         successors_.size() * sizeof(StateId) + forced_bytes_.size() * sizeof(ForcedByte) +
         (first_edge_.size() + first_successor_.size() + min_tokens_.size()) * sizeof(uint32_t) +
         accepting_.size() / 8;
}

}  // namespace lacuna
