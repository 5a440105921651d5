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

/// An answer's form as a constraint, and back: none of tool calls.
Constraint as_constraint(const AnswerForm& form);
std::optional<AnswerForm> answer_form_of(const Constraint& constraint);

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
