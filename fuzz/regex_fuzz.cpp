// Compiles a regular expression in every way: refused with InputError, or an automaton within its limits.
// Where both a search and a whole match compile, every text of the second is one of the first. The work is
// that of the largest automata, and linear beyond that.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "constraint/byte_automaton.h"
#include "constraint/regex.h"
#include "fuzz.h"
#include "work.h"

namespace {

using lacuna::ByteAutomaton;

using fuzz::check;

ByteAutomaton compile(std::string_view pattern, lacuna::RegexMatch match, lacuna::TextEncoding encoding) {
  return ByteAutomaton::compile(regex_expression(pattern, match, encoding, "regex"), "regex");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view pattern = fuzz::text_of(data, size);
  const fuzz::MeasuredWork work(size, {.base = 500'000'000, .per_byte = 1'000});
  for (const auto encoding : {lacuna::TextEncoding::kUtf8, lacuna::TextEncoding::kJsonString}) {
    try {
      const ByteAutomaton whole = compile(pattern, lacuna::RegexMatch::kWhole, encoding);
      const ByteAutomaton search = compile(pattern, lacuna::RegexMatch::kSearch, encoding);
      lacuna::AutomatonLimits limits;
      check(ByteAutomaton::intersection(whole, search, "regex", limits).num_states() == whole.num_states());
    } catch (const lacuna::InputError&) {  // the one way to refuse
    }
  }
  return 0;
}
