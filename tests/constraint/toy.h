// Small vocabularies and canvases whose answers can be enumerated.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/constraint.h"
#include "constraint/feasible.h"
#include "constraint/token_automaton.h"
#include "constraint/token_vocabulary.h"

namespace lacuna {

/// A vocabulary whose last two ids are the end token and the mask token.
struct Toy {
  explicit Toy(std::vector<std::string> tokens) {
    table.bytes = std::move(tokens);
    end = static_cast<TokenId>(table.bytes.size());
    mask = end + 1;
    table.bytes.resize(table.bytes.size() + 2);
    table.end_ids = {end};
    table.excluded = {mask};
  }

  TokenVocabulary vocabulary() const { return TokenVocabulary(table); }
  TokenAutomaton automaton(const std::string& regex) const {
    return TokenAutomaton(compile_constraint(RegexConstraint{regex}), vocabulary());
  }

  /// The definition: whether tokens, cut at the first end token, write a text that the automaton accepts.
  bool accepts(const ByteAutomaton& automaton, const std::vector<TokenId>& tokens) const {
    std::string text;
    for (const TokenId token : tokens) {
      if (token == end) break;
      if (table.bytes[static_cast<size_t>(token)].empty()) return false;
      text += table.bytes[static_cast<size_t>(token)];
    }
    return automaton.accepts(text);
  }

  /// Calls `visit` with every way to fill the open positions (mask) with tokens.
  void for_each_filling(const std::vector<TokenId>& canvas,
                        const std::function<void(const std::vector<TokenId>&)>& visit) const {
    std::vector<TokenId> tokens = canvas;
    fill(tokens, 0, visit);
  }

  TokenTable table;
  TokenId end = 0, mask = 0;

 private:
  void fill(std::vector<TokenId>& tokens, size_t from,
            const std::function<void(const std::vector<TokenId>&)>& visit) const {
    const auto open = static_cast<size_t>(
        std::find(tokens.begin() + static_cast<std::ptrdiff_t>(from), tokens.end(), mask) - tokens.begin());
    if (open == tokens.size()) return visit(tokens);
    for (TokenId token = 0; token < mask; ++token) {
      tokens[open] = token;
      fill(tokens, open + 1, visit);
    }
    tokens[open] = mask;
  }
};

/// A regular expression over a and b.
inline std::string random_regex(std::mt19937& random, int depth) {
  const auto inner = [&] { return random_regex(random, depth - 1); };
  switch (depth == 0 ? random() % 3 : random() % 9) {
    case 0:
      return "a";
    case 1:
      return "b";
    case 2:
      return "[ab]";
    case 3:
    case 4:
    case 5:
      return inner() + inner();
    case 6:
      return "(" + inner() + "|" + inner() + ")";
    case 7:
      return "(" + inner() + ")*";
    default:
      return "(" + inner() + "){0,2}";
  }
}

/// A canvas of known and open positions.
inline std::vector<TokenId> random_canvas(const Toy& toy, std::mt19937& random, size_t length) {
  std::vector<TokenId> canvas(length, toy.mask);
  for (TokenId& token : canvas) {
    if (random() % 4 == 0) token = static_cast<TokenId>(random() % static_cast<unsigned>(toy.mask));
  }
  return canvas;
}

}  // namespace lacuna
