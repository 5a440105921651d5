// A user's constraint on the form of an answer.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "constraint/byte_automaton.h"
#include "constraint/json_schema.h"
#include "constraint/tool_calls.h"

namespace lacuna {

/// A JSON value that is valid against a schema.
struct JsonSchemaConstraint {
  std::string schema;  ///< JSON text; the order of its keys matters
  bool strict = false;
  JsonLayout layout = JsonLayout::kSpaced;
  bool operator==(const JsonSchemaConstraint&) const = default;
};

/// Any JSON object (any_json_object).
struct JsonObjectConstraint {
  JsonLayout layout = JsonLayout::kSpaced;
  bool operator==(const JsonObjectConstraint&) const = default;
};

/// A text that the expression matches from its beginning to its end.
struct RegexConstraint {
  std::string pattern;
  bool operator==(const RegexConstraint&) const = default;
};

/// One of these texts.
struct ChoiceConstraint {
  std::vector<std::string> choices;
  bool operator==(const ChoiceConstraint&) const = default;
};

/// A text of a grammar in llama.cpp's notation (gbnf.h).
struct GrammarConstraint {
  std::string grammar;
  bool operator==(const GrammarConstraint&) const = default;
};

using Constraint = std::variant<JsonSchemaConstraint, JsonObjectConstraint, RegexConstraint, ChoiceConstraint,
                                ToolCallConstraint, GrammarConstraint>;

inline constexpr size_t kMaxSchemaBytes = size_t{1} << 18;
inline constexpr size_t kMaxSchemaValues = 50'000;
inline constexpr size_t kMaxChoices = 1'000;
inline constexpr size_t kMaxChoiceBytes = 4'096;  ///< of one choice

/// Limits of the Budget that compiling one constraint has: some two seconds, and memory.
inline constexpr int64_t kMaxConstraintSteps = 600'000'000;
inline constexpr int64_t kMaxConstraintBytes = int64_t{128} << 20;

/// The texts that a constraint allows, as a part of a larger expression. Throws InputError, which names what
/// of the constraint is wrong: "schema: ...", "regex: ...", "choice: ...", "tools: ...",
/// "grammar: ...", CallableFunction::place.
Expression constraint_expression(const Constraint& constraint);

/// Throws InputError as constraint_expression() does, and where no text is allowed; BudgetSpent where it
/// takes more than kMaxConstraintSteps or kMaxConstraintBytes; WorkCancelled where a budget around it is
/// over.
ByteAutomaton compile_constraint(const Constraint& constraint);

size_t hash_value(const Constraint& constraint);

}  // namespace lacuna
