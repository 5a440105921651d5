// A user's constraint on the form of an answer.
#pragma once

#include <cstddef>
#include <optional>
#include <variant>

#include "constraint/answer_form.h"
#include "constraint/byte_automaton.h"
#include "constraint/tool_calls.h"

namespace lacuna {

using Constraint = std::variant<JsonSchemaConstraint, JsonObjectConstraint, RegexConstraint, ChoiceConstraint,
                                ToolCallConstraint, GrammarConstraint>;

/// Converts an answer's form into a constraint, and back; empty for a ToolCallConstraint.
Constraint as_constraint(const AnswerForm& form);
std::optional<AnswerForm> answer_form_of(const Constraint& constraint);

inline constexpr size_t kMaxSchemaBytes = size_t{1} << 18;
inline constexpr size_t kMaxSchemaValues = 50'000;
inline constexpr size_t kMaxChoices = 1'000;
inline constexpr size_t kMaxChoiceBytes = 4'096;  ///< of one choice

/// Limits of the Budget for compiling one constraint: steps (about two seconds) and bytes of memory.
inline constexpr int64_t kMaxConstraintSteps = 600'000'000;
inline constexpr int64_t kMaxConstraintBytes = int64_t{128} << 20;

/// The texts that a constraint allows, for use in a larger expression. Throws InputError that begins with the
/// faulty part of the constraint: "schema: ...", "regex: ...", "choice: ...", "tools: ...",
/// "grammar: ...", CallableFunction::place.
Expression constraint_expression(const Constraint& constraint);

/// Throws InputError as constraint_expression() does, and if no text is allowed; BudgetSpent if it takes more
/// than kMaxConstraintSteps or kMaxConstraintBytes; WorkCancelled if an enclosing budget is exhausted.
ByteAutomaton compile_constraint(const Constraint& constraint);

size_t hash_value(const Constraint& constraint);

}  // namespace lacuna
