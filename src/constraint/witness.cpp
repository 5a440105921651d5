#include "constraint/witness.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/error.h"

namespace lacuna {
namespace {

using Edge = TokenAutomaton::Edge;

constexpr size_t kStepsPerEdge = 4;  // Budget steps for a comparison or an exponential
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double at_least(double score) {
  return score >= kMinScore ? score : kMinScore;  // also for NaN
}

/// Numerically stable log-sum-exp.
class LogSum {
 public:
  void add(double value) {
    if (value > largest_) {
      sum_ = sum_ * std::exp(largest_ - value) + 1;
      largest_ = value;
    } else if (value > kMinusInfinity) {
      sum_ += std::exp(value - largest_);
    }
  }
  double value() const { return largest_ + std::log(sum_); }

 private:
  double largest_ = kMinusInfinity;
  double sum_ = 0;
};

/// The states between two positions that are in both F_i and B_i, and their values.
struct Column {
  std::vector<StateId> states;  // ascending
  std::vector<double> values;   // value of the best path, or of all paths, from each state to the end
  std::vector<Edge> choices;    // best_witness: first edge of the best path
};

/// Edges and scores of one position, for both algorithms.
class Position {
 public:
  Position(const FeasibleSets& sets, size_t index, const ClassScores& scores)
      : automaton_(sets.automaton()),
        after_(sets.backward(index + 1)),
        scores_(scores),
        known_(sets.token(index)) {}

  bool is_known() const { return known_ >= 0; }
  bool is_scored() const { return !is_known() && !scores_.is_empty(); }

  TokenId token_of(ClassId token_class) const {
    if (is_known()) return known_;
    const TokenId scored = is_scored() ? scores_.token[token_class] : -1;
    return scored >= 0 ? scored : automaton_.first_token(token_class);
  }
  double logprob(ClassId token_class) const {
    return is_scored() ? at_least(scores_.logprob[token_class]) : 0;
  }
  double lse(ClassId token_class) const { return at_least(scores_.lse[token_class]); }
  double sampling_weight(ClassId token_class) const {
    return scores_.sampling_lse.empty() ? lse(token_class) : at_least(scores_.sampling_lse[token_class]);
  }

  /// Calls `visit(edge)` for every edge from `state` into B_{i+1}, by ascending class.
  template <typename Visit>
  void for_each_edge(StateId state, Visit visit) const {
    if (is_known()) {
      const ClassId token_class = automaton_.class_of(known_);
      const StateId next = automaton_.next_by_class(state, token_class);
      if (next != kNoState && after_.contains(next)) visit(Edge{token_class, next});
      return;
    }
    for (const Edge& edge : automaton_.edges(state)) {
      if (after_.contains(edge.next)) visit(edge);
    }
  }

  template <typename Visit>
  void for_each_successor(StateId state, Visit visit) const {
    for (const StateId next : automaton_.successors(state)) {
      if (after_.contains(next)) visit(next);
    }
  }

 private:
  const TokenAutomaton& automaton_;
  const StateSet& after_;
  const ClassScores& scores_;
  const TokenId known_;
};

/// Backward pass from the last position to the first: `fill(position, state, next_values, column)` appends
/// the value of one state, given the values of all states after the position.
template <typename Fill>
std::vector<Column> backward_columns(const FeasibleSets& sets, std::span<const ClassScores> scores,
                                     Fill fill) {
  expects(scores.size() == sets.length(), "there are scores for every position");
  expects(sets.completable(), "a witness needs a canvas that can be completed");
  std::vector<Column> columns(sets.length() + 1);
  std::vector<double> next_values(static_cast<size_t>(sets.automaton().num_states()), 0);
  for (size_t i = sets.length() + 1; i-- > 0;) {
    Column& column = columns[i];
    StateSet states = sets.forward(i);
    states &= sets.backward(i);
    states.for_each([&](size_t state) { column.states.push_back(static_cast<StateId>(state)); });
    if (i == sets.length()) {
      column.values.assign(column.states.size(), 0);
      continue;
    }
    const Position position(sets, i, scores[i]);
    size_t num_edges = 0;
    for (const StateId state : column.states) num_edges += 1 + sets.automaton().edges(state).size();
    spend_steps(num_edges * kStepsPerEdge);
    for (const StateId state : column.states) fill(position, state, next_values, column);
    for (size_t k = 0; k < column.states.size(); ++k) next_values[column.states[k]] = column.values[k];
  }
  return columns;
}

size_t index_of(const Column& column, StateId state) {
  return static_cast<size_t>(std::lower_bound(column.states.begin(), column.states.end(), state) -
                             column.states.begin());
}

/// Witness::probability of one position.
double restricted_probability(const FeasibleSets& sets, size_t index, const Position& position,
                              ClassId chosen) {
  if (position.is_known()) return 1;
  if (!position.is_scored()) return 0;
  if (sets.forced(index)) return 1;
  LogSum allowed;
  sets.allowed(index).for_each([&](size_t c) { allowed.add(position.lse(static_cast<ClassId>(c))); });
  return std::min(1.0, std::exp(position.logprob(chosen) - allowed.value()));
}

/// Forward pass from the first position to the last along the edges that `choose(position, column, index in
/// column)` returns.
template <typename Choose>
Witness follow(const FeasibleSets& sets, std::span<const ClassScores> scores,
               const std::vector<Column>& columns, size_t start, Choose choose) {
  Witness witness;
  StateId state = columns[0].states[start];
  for (size_t i = 0; i < sets.length(); ++i) {
    const Position position(sets, i, scores[i]);
    const Edge edge = choose(i, position, state);
    witness.tokens.push_back(position.token_of(edge.token_class));
    witness.probability.push_back(restricted_probability(sets, i, position, edge.token_class));
    witness.score += position.logprob(edge.token_class);
    state = edge.next;
  }
  return witness;
}

/// Appends the best edge from a state: largest value, then lowest token, then lowest state.
void fill_best(const Position& position, StateId state, const std::vector<double>& next_values,
               Column& column) {
  Edge best{kNoClass, kNoState};
  double best_value = kMinusInfinity;
  TokenId best_token = 0;
  position.for_each_edge(state, [&](const Edge& edge) {
    const double value = position.logprob(edge.token_class) + next_values[edge.next];
    if (best.next != kNoState && value < best_value) return;
    const TokenId token = position.token_of(edge.token_class);
    if (best.next != kNoState && value == best_value && token > best_token) return;
    best = edge;
    best_value = value;
    best_token = token;
  });
  column.values.push_back(best_value);
  column.choices.push_back(best);
}

/// Appends the log of the total weight of all paths from a state to the end.
void fill_sum(const Position& position, StateId state, const std::vector<double>& next_values,
              Column& column) {
  LogSum sum;
  int num_successors = 1;
  if (position.is_scored()) {
    position.for_each_edge(state, [&](const Edge& edge) {
      sum.add(position.sampling_weight(edge.token_class) + next_values[edge.next]);
    });
  } else if (position.is_known()) {
    position.for_each_edge(state, [&](const Edge& edge) { sum.add(next_values[edge.next]); });
  } else {
    num_successors = 0;
    position.for_each_successor(state, [&](StateId next) {
      sum.add(next_values[next]);
      ++num_successors;
    });
  }
  column.values.push_back(sum.value() - std::log(num_successors));
}

/// The first item at which the cumulative weight exceeds `uniform` times the total, else the last one.
template <typename Item>
const Item& pick(const std::vector<Item>& items, const std::vector<double>& log_weights, double uniform) {
  LogSum total;
  for (const double weight : log_weights) total.add(weight);
  double sum = 0;
  size_t last = 0;
  for (size_t k = 0; k < items.size(); ++k) {
    const double weight = std::exp(log_weights[k] - total.value());
    if (weight <= 0) continue;
    last = k;
    sum += weight;
    if (sum > uniform) break;
  }
  return items[last];
}

Edge sample_edge(const Position& position, StateId state, const Column& next, double uniform) {
  std::vector<Edge> edges;
  std::vector<double> weights;
  if (position.is_known() || position.is_scored()) {
    position.for_each_edge(state, [&](const Edge& edge) {
      edges.push_back(edge);
      weights.push_back((position.is_scored() ? position.sampling_weight(edge.token_class) : 0) +
                        next.values[index_of(next, edge.next)]);
    });
    return pick(edges, weights, uniform);
  }
  std::vector<StateId> successors;
  position.for_each_successor(state, [&](StateId successor) {
    successors.push_back(successor);
    weights.push_back(next.values[index_of(next, successor)]);
  });
  const StateId successor = pick(successors, weights, uniform);
  Edge lowest{kNoClass, successor};  // classes are in the order of their lowest tokens
  position.for_each_edge(state, [&](const Edge& edge) {
    if (edge.next == successor)
      lowest =
          std::min(lowest, edge, [](const Edge& a, const Edge& b) { return a.token_class < b.token_class; });
  });
  return lowest;
}

}  // namespace

Witness best_witness(const FeasibleSets& sets, std::span<const ClassScores> scores) {
  const std::vector<Column> columns = backward_columns(sets, scores, fill_best);
  const std::vector<double>& values = columns[0].values;
  const auto start = static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  return follow(sets, scores, columns, start, [&](size_t i, const Position&, StateId state) {
    return columns[i].choices[index_of(columns[i], state)];
  });
}

Witness sample_witness(const FeasibleSets& sets, std::span<const ClassScores> scores, const RngStream& rng) {
  const std::vector<Column> columns = backward_columns(sets, scores, fill_sum);
  std::vector<size_t> starts(columns[0].states.size());
  for (size_t k = 0; k < starts.size(); ++k) starts[k] = k;
  const size_t start = pick(starts, columns[0].values, rng.uniform(sets.length()));
  return follow(sets, scores, columns, start, [&](size_t i, const Position& position, StateId state) {
    return sample_edge(position, state, columns[i + 1], rng.uniform(i));
  });
}

}  // namespace lacuna
