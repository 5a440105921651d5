// The two JSON formats of decision requests and replies: OpenAI's (POST /v1/decisions, a beta) and System
// One's (POST /v1/systemone). docs/reference/server.md lists the fields.
//
// Unknown fields are reported and ignored; unknown types are errors. Long inputs are not truncated.
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

/// A parsed request.
struct DecisionBody {
  DecisionFormat format = DecisionFormat::kOpenAi;
  DecideRequest request;
  bool has_text = false;                      ///< `input` or `state` was given
  std::vector<nlohmann::ordered_json> names;  ///< [questions] name as sent: text or null
  /// [questions, options] values as sent. Choice: texts or booleans. Score: labels or levels.
  std::vector<std::vector<nlohmann::ordered_json>> options;
  std::vector<std::string> unknown;  ///< places of unknown fields: "questions[0].cirteria"
};

/// Parses a body. Throws InputError, which names the field, its value and what is accepted. Questions and
/// options keep the order of the body's keys.
///   name    name of the whole body in errors
///   format  none: detected from `state` or `input`, or from the type of `questions` (object or list)
DecisionBody read_decision_body(const nlohmann::ordered_json& body, std::string_view name,
                                std::optional<DecisionFormat> format = {});

/// The reply, in the body's format. In addition, each answer has "label_mass", and "standard_error" if it is
/// estimated from noisy passes; the object "lacuna" has the cost and warnings.
///   model  name of the model
nlohmann::ordered_json decision_reply(const DecisionBody& body, const DecideResult& result,
                                      const std::string& model);

/// Warnings about answers with little label mass, and about unknown fields.
std::vector<std::string> decision_warnings(const DecisionBody& body, const DecideResult& result);

}  // namespace lacuna
