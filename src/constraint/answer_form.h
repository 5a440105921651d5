// Forms that a request can demand of an answer's text.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "constraint/json_texts.h"

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

/// A text that matches a grammar in llama.cpp's notation (gbnf.h).
struct GrammarConstraint {
  std::string grammar;
  bool operator==(const GrammarConstraint&) const = default;
};

using AnswerForm = std::variant<JsonSchemaConstraint, JsonObjectConstraint, RegexConstraint, ChoiceConstraint,
                                GrammarConstraint>;

}  // namespace lacuna
