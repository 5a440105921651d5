#include "constraint/transition_table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/budget.h"

namespace lacuna {
namespace {

/// Transitions grouped by target state.
struct Incoming {
  struct Edge {
    int32_t symbol_class, source;
  };
  std::vector<size_t> first;  // [num_states + 1]
  std::vector<Edge> edges;    // by target, then class
};

Incoming incoming_of(const TransitionTable& table) {
  Incoming incoming;
  incoming.first.assign(table.num_states() + 1, 0);
  for (const int32_t target : table.next) {
    if (target != TransitionTable::kNone) ++incoming.first[static_cast<size_t>(target) + 1];
  }
  std::partial_sum(incoming.first.begin(), incoming.first.end(), incoming.first.begin());
  incoming.edges.resize(incoming.first.back());
  std::vector<size_t> next(incoming.first.begin(), incoming.first.end() - 1);
  for (int c = 0; c < table.num_classes; ++c) {
    for (size_t state = 0; state < table.num_states(); ++state) {
      const int32_t target = table.at(state, c);
      if (target == TransitionTable::kNone) continue;
      incoming.edges[next[static_cast<size_t>(target)]++] = {c, static_cast<int32_t>(state)};
    }
  }
  return incoming;
}

/// Drops transitions into states from which nothing is accepted.
void trim(TransitionTable& table) {
  const Incoming incoming = incoming_of(table);
  std::vector<uint8_t> is_live = table.accepting;
  std::vector<size_t> open;
  for (size_t state = 0; state < table.num_states(); ++state) {
    if (is_live[state] != 0) open.push_back(state);
  }
  while (!open.empty()) {
    const size_t state = open.back();
    open.pop_back();
    for (size_t e = incoming.first[state]; e < incoming.first[state + 1]; ++e) {
      const auto source = static_cast<size_t>(incoming.edges[e].source);
      if (is_live[source] != 0) continue;
      is_live[source] = 1;
      open.push_back(source);
    }
  }
  for (int32_t& target : table.next) {
    if (target != TransitionTable::kNone && is_live[static_cast<size_t>(target)] == 0)
      target = TransitionTable::kNone;
  }
}

/// A partition of the states into blocks, each a range of one list.
class Partition {
 public:
  explicit Partition(const std::vector<uint8_t>& accepting)
      : states_(accepting.size()), place_(accepting.size()), block_of_(accepting.size()) {
    std::iota(states_.begin(), states_.end(), 0);
    const auto middle = std::stable_partition(states_.begin(), states_.end(),
                                              [&](size_t state) { return accepting[state] != 0; });
    const auto num_accepting = static_cast<size_t>(middle - states_.begin());
    for (const auto& [begin, end] : {std::pair{size_t{0}, num_accepting}, {num_accepting, states_.size()}}) {
      if (begin == end) continue;
      for (size_t i = begin; i < end; ++i) block_of_[states_[i]] = blocks_.size();
      blocks_.push_back({begin, end, begin});
    }
    for (size_t i = 0; i < states_.size(); ++i) place_[states_[i]] = i;
  }

  size_t num_blocks() const { return blocks_.size(); }
  size_t block_of(size_t state) const { return block_of_[state]; }
  size_t size(size_t block) const { return blocks_[block].end - blocks_[block].begin; }
  std::vector<size_t> members(size_t block) const {
    return {states_.begin() + static_cast<std::ptrdiff_t>(blocks_[block].begin),
            states_.begin() + static_cast<std::ptrdiff_t>(blocks_[block].end)};
  }

  /// Marks a state. Returns true if it is the first marked state of its block.
  bool mark(size_t state) {
    Block& block = blocks_[block_of_[state]];
    if (place_[state] < block.marked_end) return false;  // already marked
    const size_t other = states_[block.marked_end];
    std::swap(states_[place_[state]], states_[block.marked_end]);
    std::swap(place_[state], place_[other]);
    return block.marked_end++ == block.begin;
  }

  /// Moves the marked states to a new block, unless all are marked; returns whether it did. Clears the marks.
  bool split(size_t index) {
    Block& block = blocks_[index];
    const size_t middle = std::exchange(block.marked_end, block.begin);
    if (middle == block.end) return false;
    const Block marked{block.begin, middle, block.begin};
    block.begin = block.marked_end = middle;
    for (size_t i = marked.begin; i < marked.end; ++i) block_of_[states_[i]] = blocks_.size();
    blocks_.push_back(marked);
    return true;
  }

 private:
  struct Block {
    size_t begin, end, marked_end;  // places in states_
  };
  std::vector<size_t> states_, place_, block_of_;
  std::vector<Block> blocks_;
};

/// Hopcroft's partition refinement. Each splitter is applied to all symbol classes.
Partition equivalent_states(const TransitionTable& table) {
  const Incoming incoming = incoming_of(table);
  Partition partition(table.accepting);
  std::vector<size_t> splitters(partition.num_blocks());
  std::iota(splitters.begin(), splitters.end(), 0);
  std::vector<uint8_t> is_splitter(partition.num_blocks(), 1);
  std::vector<std::vector<size_t>> sources(static_cast<size_t>(table.num_classes));
  std::vector<size_t> touched;
  while (!splitters.empty()) {
    const size_t splitter = splitters.back();
    splitters.pop_back();
    is_splitter[splitter] = 0;
    for (const size_t state : partition.members(splitter)) {
      spend_steps(1 + incoming.first[state + 1] - incoming.first[state]);
      for (size_t e = incoming.first[state]; e < incoming.first[state + 1]; ++e) {
        const auto& [symbol_class, source] = incoming.edges[e];
        sources[static_cast<size_t>(symbol_class)].push_back(static_cast<size_t>(source));
      }
    }
    for (std::vector<size_t>& of_class : sources) {
      touched.clear();
      for (const size_t source : of_class) {
        if (partition.mark(source)) touched.push_back(partition.block_of(source));
      }
      of_class.clear();
      for (const size_t block : touched) {
        if (!partition.split(block)) continue;
        const size_t part = partition.num_blocks() - 1;
        // Unless the whole block still was a splitter, one half suffices: the smaller one is cheaper.
        const bool takes_part = is_splitter[block] != 0 || partition.size(part) <= partition.size(block);
        is_splitter.push_back(takes_part ? 1 : 0);
        if (!takes_part) is_splitter[block] = 1;
        splitters.push_back(takes_part ? part : block);
      }
    }
  }
  return partition;
}

TransitionTable merge_states(const TransitionTable& table) {
  const Partition partition = equivalent_states(table);
  TransitionTable merged;
  merged.symbol_classes = table.symbol_classes;
  merged.num_classes = table.num_classes;
  std::vector<int32_t> number(partition.num_blocks(), TransitionTable::kNone);
  std::vector<size_t> representative{0};
  number[partition.block_of(0)] = 0;
  for (size_t i = 0; i < representative.size(); ++i) {
    const size_t state = representative[i];
    merged.accepting.push_back(table.accepting[state]);
    for (int c = 0; c < table.num_classes; ++c) {
      const int32_t target = table.at(state, c);
      int32_t next = TransitionTable::kNone;
      if (target != TransitionTable::kNone) {
        int32_t& known = number[partition.block_of(static_cast<size_t>(target))];
        if (known == TransitionTable::kNone) {
          known = static_cast<int32_t>(representative.size());
          representative.push_back(static_cast<size_t>(target));
        }
        next = known;
      }
      merged.next.push_back(next);
    }
  }
  return merged;
}

TransitionTable merge_classes(const TransitionTable& table) {
  std::map<std::vector<int32_t>, uint16_t> known;  // column of the table: new class
  std::vector<uint16_t> number(static_cast<size_t>(table.num_classes));
  std::vector<int> representative;
  std::vector<int32_t> column(table.num_states());
  for (int c = 0; c < table.num_classes; ++c) {
    for (size_t state = 0; state < table.num_states(); ++state) column[state] = table.at(state, c);
    const auto [entry, is_new] = known.try_emplace(column, static_cast<uint16_t>(representative.size()));
    if (is_new) representative.push_back(c);
    number[static_cast<size_t>(c)] = entry->second;
  }
  TransitionTable merged;
  merged.num_classes = static_cast<int>(representative.size());
  for (const uint16_t c : table.symbol_classes) merged.symbol_classes.push_back(number[c]);
  merged.accepting = table.accepting;
  for (size_t state = 0; state < table.num_states(); ++state) {
    for (const int c : representative) merged.next.push_back(table.at(state, c));
  }
  return merged;
}

}  // namespace

TransitionTable minimized(TransitionTable table) {
  constexpr size_t kStepsPerTransition = 4;
  spend_steps(table.next.size() * kStepsPerTransition);
  trim(table);
  return merge_classes(merge_states(table));
}

}  // namespace lacuna
