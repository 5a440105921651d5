// The tokens of a tokenizer as byte strings, arranged for automata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "constraint/expression.h"

namespace lacuna {

/// The bytes that each token of a model writes.
struct TokenTable {
  /// [vocab_size] bytes that each token adds to the text; empty for ids that add none (special tokens, unused
  /// ids). Tokens may begin or end within a character.
  std::vector<std::string> bytes;
  std::vector<TokenId> end_ids;   ///< tokens that end the answer; at least one. Their bytes are ignored
  std::vector<TokenId> excluded;  ///< never written, not even after an end token; for example, the mask token
  std::vector<TokenId> specials;  ///< token k stands for symbol kFirstSpecial + k; at most kMaxSpecials
};

/// A trie over the bytes of all tokens that write text. Created once per tokenizer; immutable.
class TokenVocabulary {
 public:
  /// Throws InputError if there is no end token, or an id is not below the vocabulary's size; expects
  /// vocab_size >= 1.
  explicit TokenVocabulary(const TokenTable& table);

  /// Nodes in depth-first order, children in ascending order of their bytes. The root is not among them.
  struct Node {
    uint32_t end;          ///< index after the last node below this one
    uint32_t first_token;  ///< into tokens(): the tokens that end here, up to the next node's first
    uint16_t depth;        ///< bytes from the root; 1 for the root's children
    uint8_t byte;
  };

  int vocab_size() const { return vocab_size_; }
  std::span<const Node> nodes() const { return nodes_; }
  /// Tokens that end at node i, ascending; may be empty.
  std::span<const TokenId> tokens_at(size_t i) const {
    const size_t end = i + 1 < nodes_.size() ? nodes_[i + 1].first_token : tokens_.size();
    return std::span(tokens_).subspan(nodes_[i].first_token, end - nodes_[i].first_token);
  }
  std::span<const TokenId> end_ids() const { return end_ids_; }    ///< ascending, each once
  std::span<const TokenId> excluded() const { return excluded_; }  ///< ascending, each once
  std::span<const TokenId> specials() const { return specials_; }
  size_t memory_bytes() const;

 private:
  void add_nodes(const TokenTable& table);

  int vocab_size_ = 0;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // in the order of their bytes
  std::vector<TokenId> end_ids_, excluded_, specials_;
};

}  // namespace lacuna
