// JSON schemas as automata.
#pragma once

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "constraint/byte_automaton.h"
#include "constraint/json_schema.h"

namespace lacuna {

/// json_schema_expression(), compiled.
inline ByteAutomaton compile_json_schema(const nlohmann::ordered_json& schema,
                                         const JsonSchemaOptions& options = {}) {
  ByteAutomaton automaton = ByteAutomaton::compile(json_schema_expression(schema, options), options.name);
  if (automaton.is_empty()) throw InputError("{}: no text can be written for it", options.name);
  return automaton;
}

}  // namespace lacuna
