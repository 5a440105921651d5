// Node types of an Expression, for the code that compiles it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "constraint/encoded_characters.h"
#include "constraint/expression.h"

namespace lacuna {

struct NothingNode {};
struct TextNode {
  std::string bytes;
};
struct CodePointsNode {
  EncodedCharacters characters;
};
struct SpecialNode {
  int index;
};
struct SequenceNode {
  std::vector<Expression> parts;
};
struct ChoiceNode {
  std::vector<Expression> parts;
};
struct RepeatNode {
  Expression part;
  int least;
  std::optional<int> most;
  std::optional<Expression> separator;
};
struct MembersNode {
  std::vector<Expression::Member> members;
  Expression separator;
  int least;
  std::optional<int> most;
};
struct AutomatonNode {
  enum class Specials {
    kKeep,
    kErase,   ///< edges below `chosen` become epsilon
    kIgnore,  ///< every state loops on all specials; `chosen` becomes `written`
  };
  std::shared_ptr<const ByteAutomaton> automaton;
  Specials specials = Specials::kKeep;
  int chosen = 0, written = 0;
};
struct BeginNode {};
struct EndNode {};

struct Expression::Node {
  std::variant<NothingNode, TextNode, CodePointsNode, SpecialNode, SequenceNode, ChoiceNode, RepeatNode,
               MembersNode, AutomatonNode, BeginNode, EndNode>
      part;
};

}  // namespace lacuna
