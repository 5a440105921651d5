// Compiles constraints for tests/reference/check_constraint.py. Reads one JSON object from each line of
// standard input:
//   {"schema": any} or {"regex": "..."} or {"object": true}; "strict", "compact" (default false);
//   "samples": number of random texts to write, "seed", "length" (soft limit in bytes); "texts": [texts to
//   test]
// and answers each with a line {"states": n, "samples": [...], "accepted": [true, false, ...]} or {"error":
// "..."}.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "compiled_schema.h"
#include "constraint/constraint.h"
#include "constraint/json_schema.h"
#include "random_texts.h"

namespace {

using lacuna::ByteAutomaton;
using nlohmann::ordered_json;

ByteAutomaton compile(const ordered_json& request) {
  const auto layout =
      request.value("compact", false) ? lacuna::JsonLayout::kCompact : lacuna::JsonLayout::kSpaced;
  if (request.contains("regex"))
    return compile_constraint(lacuna::RegexConstraint{request["regex"].get<std::string>()});
  if (request.contains("object")) return compile_constraint(lacuna::JsonObjectConstraint{layout});
  return lacuna::compile_json_schema(request.at("schema"),
                                     {.layout = layout, .strict = request.value("strict", false)});
}

ordered_json answer(const ordered_json& request) {
  try {
    const ByteAutomaton automaton = compile(request);
    ordered_json reply{{"states", automaton.num_states()},
                       {"samples", ordered_json::array()},
                       {"accepted", ordered_json::array()}};
    lacuna::RandomTexts texts(automaton, request.value("seed", 0U));
    for (int i = 0; i < request.value("samples", 0); ++i) {
      reply["samples"].push_back(texts.next(request.value("length", size_t{60})));
    }
    if (request.contains("texts")) {
      for (const ordered_json& text : request["texts"])
        reply["accepted"].push_back(automaton.accepts(text.get<std::string>()));
    }
    return reply;
  } catch (const lacuna::InputError& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << answer(lacuna::parse_ordered_json(line, "request")).dump() << std::endl;
  }
}
