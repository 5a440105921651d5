// What a request asks of the form of its answer, under the names that other servers have for it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "constraint/constraint.h"

namespace lacuna {

/// Whether a body has a key that parse_answer_format() reads.
bool has_answer_format(const nlohmann::json& body);

struct AnswerFormat {
  Constraint constraint;
  std::string_view key;  ///< of the request, such as "guided_json"
};

/// OpenAI's response_format; vLLM's structured_outputs and guided_json, guided_regex, guided_choice;
/// json_schema (llama.cpp, SGLang) and regex (SGLang); Ollama's format. Empty for free text.
/// InputError names the key: an invalid value, a second constraint, or a grammar, which is not supported.
///   body  the request's JSON text; object properties are written in the order of this text
std::optional<AnswerFormat> parse_answer_format(std::string_view body);

}  // namespace lacuna
