// The tree of a template.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

/// Maximum nesting of brackets, statements and conditions.
inline constexpr int kMaxNesting = 64;

struct Expression {
  enum class Kind : uint8_t {
    kConstant,     ///< value
    kName,         ///< text
    kTuple,        ///< operands
    kList,         ///< operands
    kDict,         ///< operands: key, value, key, value ...
    kConcat,       ///< operands, joined by ~
    kConditional,  ///< operands[1] if operands[0] else operands[2], which may be null
    kMember,       ///< an assigned member of a namespace: text is the namespace, member its name
    // These begin with operands[0].
    kAttribute,  ///< operands[0].text
    kItem,       ///< operands[0][operands[1]]
    kSlice,      ///< operands[0][operands[1]:operands[2]:operands[3]]; an absent bound is null
    kCall,       ///< operands[0](arguments)
    kFilter,     ///< operands[0] | text(arguments); operands[0] is null at the start of a filter block
    kTest,       ///< operands[0] is text(arguments)
    kNot,        ///< operands[0]
    kNegate,     ///< operands[0]
    kPlus,       ///< operands[0]
    kBinary,     ///< operands[0] op operands[1]
    kCompare,    ///< operands, with operators between them
    kAnd,        ///< operands[0], operands[1]
    kOr          ///< operands[0], operands[1]
  };

  Kind kind = Kind::kConstant;
  Operator op = Operator::kAdd;
  int line = 1;
  std::string text;
  std::string member;
  Value value;
  std::vector<const Expression*> operands;
  std::vector<Operator> operators;
  std::vector<const Expression*> arguments;
  std::vector<std::pair<std::string, const Expression*>> named;
  const Expression* rest = nullptr;        ///< *rest of the arguments
  const Expression* named_rest = nullptr;  ///< **rest of the arguments
};

using ExpressionKind = Expression::Kind;

struct Statement;
using Body = std::vector<const Statement*>;

/// Parameters of a macro or a call block, and the special names that its body reads.
struct Signature {
  std::vector<std::string> names;
  std::vector<const Expression*> defaults;  ///< for the last defaults.size() names
  bool reads_caller = false;
  bool reads_varargs = false;
  bool reads_kwargs = false;
};

struct Statement {
  enum class Kind : uint8_t {
    kText,         ///< text, printed as it is
    kOutput,       ///< expression
    kIf,           ///< branches, other
    kFor,          ///< target in expression, condition, body, other
    kSet,          ///< target = expression
    kSetBlock,     ///< target = body, through the filters of `expression` (or null)
    kMacro,        ///< text, signature, body
    kCallBlock,    ///< expression is the call; signature, body
    kFilterBlock,  ///< expression has the filters; body
    kWith,         ///< assignments, body
    kScope,        ///< body with variables of its own (generation)
    kBreak,
    kContinue
  };

  Kind kind = Kind::kText;
  int line = 1;
  bool is_recursive = false;
  std::string text;
  Value value;  ///< kText: the text
  const Expression* target = nullptr;
  const Expression* expression = nullptr;
  const Expression* condition = nullptr;
  std::vector<std::pair<const Expression*, Body>> branches;
  std::vector<std::pair<const Expression*, const Expression*>> assignments;
  Signature signature;
  Body body;
  Body other;
};

using StatementKind = Statement::Kind;

/// A parsed template. It owns all nodes in deques, so that their destruction does not recurse.
struct Program {
  std::string name;
  std::deque<Expression> expressions;
  std::deque<Statement> statements;
  Body body;
};

}  // namespace lacuna::jinja
