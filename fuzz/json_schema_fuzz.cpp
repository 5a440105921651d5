// Compiles a JSON schema; the first byte chooses strictness and layout. Refused with InputError, or an
// automaton within its limits, whose shortest text is JSON. The work is that of the largest automata, and
// linear beyond that.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "constraint/constraint.h"
#include "fuzz.h"
#include "mutators.h"
#include "work.h"

namespace {

using fuzz::check;

/// A shortest accepted text, by breadth-first search.
std::string shortest_text(const lacuna::ByteAutomaton& automaton) {
  struct Step {
    size_t before;
    char byte;
    lacuna::StateId state;
  };
  std::vector<Step> steps{{0, 0, lacuna::ByteAutomaton::start()}};
  std::vector<uint8_t> is_reached(static_cast<size_t>(automaton.num_states()), 0);
  size_t i = 0;
  for (; i < steps.size() && !automaton.is_accepting(steps[i].state); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      const lacuna::StateId next = automaton.next(steps[i].state, static_cast<lacuna::Symbol>(byte));
      if (next == lacuna::kNoState || is_reached[next]++ != 0) continue;
      steps.push_back({i, static_cast<char>(byte), next});
    }
  }
  check(i < steps.size());
  std::string text;
  for (; i != 0; i = steps[i].before) text.insert(text.begin(), steps[i].byte);
  return text;
}

}  // namespace

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json_after_byte)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string schema(reinterpret_cast<const char*>(data) + 1, size - 1);
  const fuzz::MeasuredWork work(size, {.base = 500'000'000, .per_byte = 1'000});
  try {
    const lacuna::ByteAutomaton automaton = lacuna::compile_constraint(lacuna::JsonSchemaConstraint{
        schema, (data[0] & 1) != 0,
        (data[0] & 2) != 0 ? lacuna::JsonLayout::kCompact : lacuna::JsonLayout::kSpaced});
    check(automaton.num_states() <= 20'000 && !automaton.is_empty());
    check(nlohmann::json::accept(shortest_text(automaton)));
  } catch (const lacuna::InputError&) {  // the one way to refuse
  }
  return 0;
}
