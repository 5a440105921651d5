// A request for decisions in either format: refused with InputError, or within the bounds that the rest of
// the engine relies on.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "fuzz.h"
#include "mutators.h"
#include "wire/decision_json.h"

using fuzz::check;

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  try {
    const lacuna::DecisionBody body =
        lacuna::read_decision_body(lacuna::parse_ordered_json(text, "the body", size_t{1} << 12), "the body");
    const size_t count = body.request.questions.size();
    check(count >= 1 && count <= lacuna::kMaxQuestions);
    check(body.names.size() == count && body.options.size() == count);
    check(body.request.draws >= 1 && body.request.draws <= lacuna::kMaxDraws);
    for (size_t i = 0; i < count; ++i) {
      const lacuna::DecisionQuestion& question = body.request.questions[i];
      check(!question.options.empty() && question.options.size() <= lacuna::kMaxOptions);
      check(question.kind == lacuna::QuestionKind::kPredicate ||
            body.options[i].size() == question.options.size());
    }
  } catch (const lacuna::InputError&) {
  }
  return 0;
}
