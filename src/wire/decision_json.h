// The two formats in which programs ask for decisions, and their answers: OpenAI's (POST /v1/decisions, a
// beta) and System One's (POST /v1/systemone). docs/reference/server.md says which fields are read.
//
// Unknown fields are named, and otherwise ignored; unknown types are refused. Nothing is shortened.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/decide.h"
#include "engine/decision.h"

namespace lacuna {

enum class DecisionFormat : uint8_t { kOpenAi, kSystemOne };

/// A request as it was sent.
struct DecisionBody {
  DecisionFormat format = DecisionFormat::kOpenAi;
  DecideRequest request;
  bool has_text = false;                      ///< `input` or `state` was given
  std::vector<nlohmann::ordered_json> names;  ///< [questions] text, or null
  /// [questions, options] of a choice: its values, texts or flags; of a score: its labels or levels.
  std::vector<std::vector<nlohmann::ordered_json>> options;
  std::vector<std::string>
      unknown;  ///< places of fields that the format does not have: "questions[0].cirteria"
};

/// Reads a body. Throws InputError, which names the field, its value and what is accepted; `name` stands for
/// the whole body. Questions and options are asked in the order of its keys.
///   format  none: as `state` or `input` say, and without both as a list or an object of questions
DecisionBody read_decision_body(const nlohmann::ordered_json& body, std::string_view name,
                                std::optional<DecisionFormat> format = {});

/// The reply, in the body's format. Besides the format's own fields, each answer has "label_mass", and
/// "standard_error" where there was noise; the object "lacuna" says what the run cost, and warns.
///   model  its name
nlohmann::ordered_json decision_reply(const DecisionBody& body, const DecideResult& result,
                                      const std::string& model);

/// Sentences about answers that may mislead, and about fields that the format does not have.
std::vector<std::string> decision_warnings(const DecisionBody& body, const DecideResult& result);

}  // namespace lacuna
