#include "constraint/constraint.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"
#include "base/overloaded.h"
#include "base/rng.h"
#include "constraint/gbnf.h"
#include "constraint/json_schema.h"
#include "constraint/regex.h"

namespace lacuna {
namespace {

Expression choice_expression(const ChoiceConstraint& constraint) {
  if (constraint.choices.empty() || constraint.choices.size() > kMaxChoices)
    throw InputError("choice: has {} texts; expected 1 to {}", constraint.choices.size(), kMaxChoices);
  std::vector<Expression> texts;
  for (const std::string& choice : constraint.choices) {
    if (choice.empty() || choice.size() > kMaxChoiceBytes)
      throw InputError("choice: {} has {} bytes; expected 1 to {}", in_quotes(choice), choice.size(),
                       kMaxChoiceBytes);
    texts.push_back(Expression::text(choice));
  }
  return Expression::choice(std::move(texts));
}

/// Noun for messages about the automaton: "the regex is too large".
std::string_view name_of(const Constraint& constraint) {
  return std::visit(Overloaded{[](const JsonSchemaConstraint&) { return "schema"; },
                               [](const JsonObjectConstraint&) { return "JSON object"; },
                               [](const RegexConstraint&) { return "regex"; },
                               [](const ChoiceConstraint&) { return "choice"; },
                               [](const ToolCallConstraint&) { return "set of tools"; },
                               [](const GrammarConstraint&) { return "grammar"; }},
                    constraint);
}

}  // namespace

Constraint as_constraint(const AnswerForm& form) {
  return std::visit([](const auto& each) { return Constraint(each); }, form);
}

std::optional<AnswerForm> answer_form_of(const Constraint& constraint) {
  return std::visit(Overloaded{[](const ToolCallConstraint&) { return std::optional<AnswerForm>(); },
                               [](const auto& form) { return std::optional<AnswerForm>(form); }},
                    constraint);
}

Expression constraint_expression(const Constraint& constraint) {
  return std::visit(
      Overloaded{[](const JsonSchemaConstraint& schema) {
                   if (schema.schema.size() > kMaxSchemaBytes)
                     throw InputError("schema: has {} bytes; expected at most {}", schema.schema.size(),
                                      kMaxSchemaBytes);
                   return json_schema_expression(
                       parse_ordered_json(schema.schema, "schema", kMaxSchemaValues),
                       {.layout = schema.layout, .strict = schema.strict});
                 },
                 [](const JsonObjectConstraint& object) { return any_json_object(object.layout); },
                 [](const RegexConstraint& regex) {
                   return regex_expression(regex.pattern, RegexMatch::kWhole, TextEncoding::kUtf8, "regex");
                 },
                 [](const ChoiceConstraint& choice) { return choice_expression(choice); },
                 [](const ToolCallConstraint& tools) { return tool_call_expression(tools); },
                 [](const GrammarConstraint& grammar) {
                   AutomatonLimits limits;
                   return gbnf_expression(grammar.grammar, "grammar", limits);
                 }},
      constraint);
}

ByteAutomaton compile_constraint(const Constraint& constraint) {
  const Budget budget(std::string(name_of(constraint)),
                      {.steps = kMaxConstraintSteps, .bytes = kMaxConstraintBytes});
  ByteAutomaton automaton = ByteAutomaton::compile(constraint_expression(constraint), name_of(constraint));
  if (automaton.is_empty()) throw InputError("{}: no text matches it", name_of(constraint));
  return automaton;
}

size_t hash_value(const Constraint& constraint) {
  uint64_t hash = mix_bits(constraint.index() + 1);
  const auto add = [&](const auto& part) {
    hash = mix_bits(hash ^ std::hash<std::decay_t<decltype(part)>>()(part));
  };
  std::visit(Overloaded{[&](const JsonSchemaConstraint& schema) {
                          add(schema.schema);
                          add(schema.strict);
                          add(static_cast<int>(schema.layout));
                        },
                        [&](const JsonObjectConstraint& object) { add(static_cast<int>(object.layout)); },
                        [&](const RegexConstraint& regex) { add(regex.pattern); },
                        [&](const GrammarConstraint& grammar) { add(grammar.grammar); },
                        [&](const ChoiceConstraint& choice) {
                          for (const std::string& text : choice.choices) add(text);
                        },
                        [&](const ToolCallConstraint& tools) {
                          for (const CallableFunction& function : tools.functions) {
                            add(function.name);
                            add(function.parameters);
                          }
                          add(tools.form->begin);
                          add(tools.is_required);
                          add(tools.is_parallel);
                          if (tools.answer) add(hash_value(as_constraint(*tools.answer)));
                        }},
             constraint);
  return hash;
}

}  // namespace lacuna
