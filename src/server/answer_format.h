// A request's constraint on the form of its answer, under the names that other servers use.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "constraint/constraint.h"

namespace lacuna {

/// OpenAI's response_format; vLLM's structured_outputs and guided_json, guided_regex, guided_choice;
/// json_schema (llama.cpp, SGLang) and regex (SGLang); Ollama's format; grammars as llama.cpp (grammar), vLLM
/// (guided_grammar) and SGLang (ebnf) name them, all in llama.cpp's notation.
inline constexpr std::array<std::string_view, 11> kAnswerFormatKeys = {
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar",  "json_schema",        "regex",       "ebnf",         "format",
    "grammar"};

struct AnswerFormat {
  Constraint constraint;
  std::string key;  ///< of the request, such as "guided_json" or "text.format"
};

/// Parses the keys kAnswerFormatKeys, or text (OpenAI's Responses), output_config or output_format
/// (Anthropic). Empty for free text. Throws InputError, which names the key: an invalid value, or a
/// second constraint.
///   body  an object; properties of an answer are written in the order that its schema has here
///   keys  that the API has
std::optional<AnswerFormat> parse_answer_format(const nlohmann::ordered_json& body,
                                                std::span<const std::string_view> keys);

}  // namespace lacuna
