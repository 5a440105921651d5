// The first byte names an endpoint, the rest is a body for it: refused with InputError, or a request within
// the bounds that the rest of the server relies on.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "fuzz.h"
#include "mutators.h"
#include "server/answer_format.h"
#include "server/api_request.h"
#include "server/dialect.h"
#include "server/tool_request.h"

namespace {

using fuzz::check;

void check(const lacuna::GenerationRequest& request) {
  check(request.num_choices >= 1 && request.num_choices <= lacuna::kMaxRequestChoices);
  check(request.prompts.size() <= static_cast<size_t>(lacuna::kMaxRequestChoices));
  const bool loads = request.answers_nothing == "load" || request.answers_nothing == "unload";
  check(request.prompts.empty() == (request.is_infill() || loads));
  check(request.stop.size() <= lacuna::kMaxStops);
  for (const std::string& stop : request.stop) check(!stop.empty() && stop.size() <= lacuna::kMaxStopBytes);
  check(request.canvas.size() <= lacuna::kMaxCanvasParts);
  for (const lacuna::CanvasPart& part : request.canvas) {
    const auto* hole = std::get_if<lacuna::Hole>(&part);
    check(hole == nullptr ||
          (hole->least >= 1 && hole->least <= hole->most && hole->most <= lacuna::kMaxHoleTokens));
  }
}

void check(const lacuna::Tools& tools) {
  check(!tools.functions.empty() && tools.functions.size() <= lacuna::kMaxFunctions);
  const lacuna::ToolCallConstraint constraint = lacuna::tool_constraint(tools);
  for (const lacuna::CallableFunction& each : constraint.functions)
    check(lacuna::is_function_name(each.name));
}

}  // namespace

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json_after_byte)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const nlohmann::ordered_json json = lacuna::parse_body(body);
    constexpr std::array<const lacuna::Dialect*, 8> kDialects = {
        &lacuna::kOpenAiChat,      &lacuna::kOpenAiCompletions, &lacuna::kLacunaInfill,
        &lacuna::kOpenAiResponses, &lacuna::kAnthropicMessages, &lacuna::kOllamaChat,
        &lacuna::kOllamaGenerate,  &lacuna::kLlamaCppCompletion};
    const lacuna::Dialect& dialect = *kDialects[data[0] % kDialects.size()];
    check(dialect.parse(json, {}));
    if (dialect.tools != lacuna::ToolFormat::kNone) {
      if (const auto tools = lacuna::parse_tools(json, dialect.tools)) check(*tools);
    }
    (void)lacuna::parse_answer_format(json, dialect.answer_formats);
  } catch (const lacuna::InputError&) {  // the one way to refuse
  }
  return 0;
}
