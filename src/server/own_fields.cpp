// The field "lacuna": settings by their command-line names, and options of this server alone.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "options/names.h"
#include "server/dialect.h"
#include "server/settings.h"

namespace lacuna {

using nlohmann::ordered_json;

void read_named_setting(std::string_view key, const ordered_json& value, std::string_view place,
                        GenerationRequest& request) {
  GenerationOptions sent;
  expect_setting(key, value, place, sent);
  if (!value.is_null()) take_setting(setting_named(key), fmt::format("{}{}", place, key), sent, request);
}

namespace {

// Members of "lacuna" that are not settings.

void read_guide(const FieldValue& field, GenerationRequest& request) {
  request.uses_guide = field.flag();
  if (request.uses_guide) return;
  request.options.guide_match.reset();  // drops defaults, too
  request.options.guide_fallback.reset();
  request.options.guide_block.reset();
}

void read_given_tokens(const FieldValue& field, GenerationRequest& request) {
  request.given_tokens = static_cast<int32_t>(field.integer(1, std::numeric_limits<int32_t>::max()));
}

void read_likelihood_draws(const FieldValue& field, GenerationRequest& request) {
  request.likelihood_draws = static_cast<int32_t>(field.integer(1, kMaxLikelihoodDraws));
}

constexpr RequestField kOwnMembers[] = {
    {"events", kBoolean, "each step's changes (OpenAI's endpoints)", as_flag<&GenerationRequest::events>},
    {"step_map", kBoolean, "the pass that committed each token", as_flag<&GenerationRequest::wants_step_map>},
    {"guide", kBoolean, "the server's guide verifies drafts, or makes them", read_guide},
    {"given_tokens", kPositiveInteger, "tokens of a scored prompt that are given", read_given_tokens},
    {"likelihood_draws", kPositiveInteger, "passes of a likelihood bound", read_likelihood_draws},
};

void read_own_object(const FieldValue& field, GenerationRequest& request) {
  if (!field.value.is_object()) field.refuse("an object of settings");
  read_fields(field.value, "lacuna.", kOwnMembers, request);
  for (const auto& [key, value] : field.value.items()) {
    if (!has_field(kOwnMembers, key)) read_named_setting(key, value, "lacuna.", request);
  }
}

constexpr RequestField kOwnField[] = {
    {"lacuna", kObject, "settings by the names of lacuna run, and what clients of this server ask for",
     read_own_object},
};

}  // namespace

RequestFields own_fields() {
  return kOwnField;
}

RequestFields own_members() {
  return kOwnMembers;
}

}  // namespace lacuna
