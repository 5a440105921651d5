// Times the compilation of a constraint for a vocabulary, and one witness:
//   constraint_timing VOCABULARY SCHEMA [POSITIONS]
// VOCABULARY has the bytes of one token as hexadecimal digits on each line; an empty line is a special token,
// the first of which ends the answer.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "constraint/constraint.h"
#include "constraint/feasible.h"
#include "constraint/token_automaton.h"
#include "constraint/token_vocabulary.h"
#include "constraint/witness.h"

namespace {

using lacuna::TokenAutomaton;
using lacuna::TokenId;

lacuna::TokenTable read_vocabulary(const char* path) {
  lacuna::TokenTable table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::string bytes;
    for (size_t i = 0; i + 1 < line.size(); i += 2)
      bytes += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
    if (bytes.empty() && table.end_ids.empty())
      table.end_ids.push_back(static_cast<TokenId>(table.bytes.size()));
    table.bytes.push_back(bytes);
  }
  return table;
}

class Stopwatch {
 public:
  explicit Stopwatch(const char* what) : what_(what) {}
  ~Stopwatch() {
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start_;
    std::printf("%-28s %8.2f ms\n", what_, time.count());
  }

 private:
  const char* what_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

template <typename Make>
auto timed(const char* what, Make make) {
  const Stopwatch stopwatch(what);
  return make();
}

void time_witness(const TokenAutomaton& automaton, size_t num_positions) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(-8, 3);
  const auto num_classes = static_cast<size_t>(automaton.num_classes());
  std::vector<std::vector<float>> scores(num_positions, std::vector<float>(num_classes));
  std::vector<TokenId> first(num_classes);
  for (size_t c = 0; c < num_classes; ++c) first[c] = automaton.first_token(static_cast<lacuna::ClassId>(c));
  std::vector<lacuna::ClassScores> rows;
  for (auto& row : scores) {
    for (float& score : row) score = normal(random);
    rows.push_back({.token = first, .logprob = row, .lse = row, .sampling_lse = {}});
  }
  const std::vector<TokenId> open(num_positions, -1);
  const lacuna::ConstrainedCanvas canvas{open};
  const auto sets = timed("feasible sets", [&] { return lacuna::FeasibleSets(automaton, canvas); });
  timed("all allowed classes", [&] {
    size_t count = 0;
    for (size_t i = 0; i < num_positions; ++i) count += sets.allowed(i).count();
    return count;
  });
  if (!sets.completable()) return;
  timed("best witness", [&] { return lacuna::best_witness(sets, rows); });
  timed("sampled witness", [&] { return lacuna::sample_witness(sets, rows, lacuna::RngStream(1)); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const lacuna::TokenTable table = timed("read", [&] { return read_vocabulary(argv[1]); });
  const auto vocabulary = timed("trie", [&] { return lacuna::TokenVocabulary(table); });
  std::ifstream file(argv[2]);
  const lacuna::JsonSchemaConstraint schema{std::string(std::istreambuf_iterator<char>(file), {})};
  const auto bytes = timed("schema to byte automaton", [&] { return compile_constraint(schema); });
  const auto automaton = timed("byte to token automaton", [&] { return TokenAutomaton(bytes, vocabulary); });
  size_t num_edges = 0, num_pairs = 0;
  for (int state = 0; state < automaton.num_states(); ++state) {
    num_edges += automaton.edges(static_cast<lacuna::StateId>(state)).size();
    num_pairs += automaton.successors(static_cast<lacuna::StateId>(state)).size();
  }
  std::printf(
      "%d tokens, %zu nodes, %d states, %d classes, %zu edges, %zu pairs, %zu bytes, least tokens %d\n",
      automaton.vocab_size(), vocabulary.nodes().size(), automaton.num_states(), automaton.num_classes(),
      num_edges, num_pairs, automaton.memory_bytes(), automaton.min_tokens(TokenAutomaton::start()));
  time_witness(automaton, argc > 3 ? std::stoul(argv[3]) : 128);
}
