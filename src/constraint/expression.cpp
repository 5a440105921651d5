#include "constraint/expression.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "constraint/byte_automaton.h"
#include "constraint/expression_node.h"

namespace lacuna {
namespace {

/// Charges the thread's Budget for a node before it is created.
///   parts  number of expressions, texts or intervals in the node, of `size` bytes each
void spend_node(size_t parts, size_t size) {
  constexpr size_t kSteps = 30, kStepsPerPart = 2, kOverhead = 32;
  spend_steps(kSteps + parts * kStepsPerPart);
  spend_bytes(sizeof(Expression::Node) + kOverhead + parts * size);
}

}  // namespace

Expression::Expression(Node node) : node_(std::make_shared<const Node>(std::move(node))) {}

Expression Expression::nothing() {
  static const Expression none(Node{});
  return none;
}

Expression Expression::text(std::string_view bytes) {
  spend_node(bytes.size(), 1);
  return Expression(Node{TextNode{std::string(bytes)}});
}

Expression Expression::code_points(const CodePointSet& set, TextEncoding encoding) {
  if (set.is_empty()) return nothing();
  EncodedCharacters characters = encode_characters(set, encoding);
  spend_node(characters.nodes.size(), sizeof(characters.nodes.front()));
  return Expression(Node{CodePointsNode{std::move(characters)}});
}

Expression Expression::special(int index) {
  expects(index >= 0 && index < kMaxSpecials, "a special token's index is below kMaxSpecials");
  return Expression(Node{SpecialNode{index}});
}

Expression Expression::sequence(std::vector<Expression> parts) {
  const auto is_nothing = [](const Expression& part) { return part.is_nothing(); };
  if (std::any_of(parts.begin(), parts.end(), is_nothing)) return nothing();
  if (parts.size() == 1) return parts.front();
  spend_node(parts.size(), sizeof(Expression));
  return Expression(Node{SequenceNode{std::move(parts)}});
}

Expression Expression::choice(std::vector<Expression> parts) {
  std::erase_if(parts, [](const Expression& part) { return part.is_nothing(); });
  if (parts.empty()) return nothing();
  if (parts.size() == 1) return parts.front();
  spend_node(parts.size(), sizeof(Expression));
  return Expression(Node{ChoiceNode{std::move(parts)}});
}

Expression Expression::repeat(const Expression& part, int least, std::optional<int> most,
                              std::optional<Expression> separator) {
  expects(least >= 0 && (!most || *most >= least), "a repetition has 0 <= least <= most");
  if (part.is_nothing() || most == 0) return least == 0 ? text("") : nothing();
  spend_node(0, 0);
  return Expression(Node{RepeatNode{part, least, most, std::move(separator)}});
}

Expression Expression::members(std::vector<Member> members, const Expression& separator, int least,
                               std::optional<int> most) {
  int num_required = 0;
  for (const Member& member : members) {
    if (member.is_required && member.part.is_nothing()) return nothing();
    num_required += member.is_required ? 1 : 0;
  }
  std::erase_if(members, [](const Member& member) { return member.part.is_nothing(); });
  const auto count = static_cast<int>(members.size());
  if (most && *most >= count) most.reset();
  if (least > count || (most && (*most < least || *most < num_required))) return nothing();
  if (least <= num_required) least = 0;
  spend_node(members.size(), sizeof(Member));
  return Expression(Node{MembersNode{std::move(members), separator, least, most}});
}

Expression Expression::of(AutomatonNode part) {
  if (part.automaton->is_empty()) return nothing();
  spend_node(part.automaton->memory_bytes(), 1);
  return Expression(Node{std::move(part)});
}

Expression Expression::automaton(ByteAutomaton automaton) {
  return of({std::make_shared<const ByteAutomaton>(std::move(automaton))});
}

Expression Expression::without_specials(ByteAutomaton automaton, int chosen) {
  return of({std::make_shared<const ByteAutomaton>(std::move(automaton)), AutomatonNode::Specials::kErase,
             chosen, chosen});
}

Expression Expression::among_specials(ByteAutomaton automaton, int chosen, int written) {
  return of({std::make_shared<const ByteAutomaton>(std::move(automaton)), AutomatonNode::Specials::kIgnore,
             chosen, written});
}

Expression Expression::begin() {
  return Expression(Node{BeginNode{}});
}

Expression Expression::end() {
  return Expression(Node{EndNode{}});
}

bool Expression::is_nothing() const {
  return std::holds_alternative<NothingNode>(node_->part);
}

}  // namespace lacuna
