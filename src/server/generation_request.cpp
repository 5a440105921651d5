#include "server/generation_request.h"

#include "server/settings.h"

namespace lacuna {

std::optional<std::string> GenerationRequest::name_of(std::string_view field) const {
  if (field == "prompt" || field == "answer") return prompt_field;
  const auto sent = keys.find(field);
  return sent != keys.end() ? sent->second : request_name(field);
}

}  // namespace lacuna
