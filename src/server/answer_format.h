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
  std::string_view key;  ///< that it came by
};

/// OpenAI's response_format; vLLM's structured_outputs and guided_json, guided_regex, guided_choice;
/// json_schema (llama.cpp, SGLang) and regex (SGLang); Ollama's format. Nothing where the text is free.
/// InputError names the key where a value is none, where there are several, and for grammars.
///   body  as it was sent: a schema's properties are written in the order of its text
std::optional<AnswerFormat> parse_answer_format(std::string_view body);

}  // namespace lacuna
