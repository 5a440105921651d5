// A request's constraint on its answer, under the field names of other servers.
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
/// json_schema (llama.cpp, SGLang) and regex (SGLang); Ollama's format. Grammars, all in llama.cpp's
/// notation: grammar (llama.cpp), guided_grammar (vLLM) and ebnf (SGLang).
inline constexpr std::array<std::string_view, 11> kAnswerFormatKeys = {
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar",  "json_schema",        "regex",       "ebnf",         "format",
    "grammar"};

struct AnswerFormat {
  Constraint constraint;
  std::string key;  ///< the request's field: "guided_json", "text.format"
};

/// Parses those of kAnswerFormatKeys, text (OpenAI's Responses), output_config and output_format (Anthropic)
/// that `keys` lists. Empty for free text. Throws InputError, which names the key, for an invalid value or a
/// second constraint.
///   body  an object; the answer's properties have the order of its schema
///   keys  keys that the API supports
std::optional<AnswerFormat> parse_answer_format(const nlohmann::ordered_json& body,
                                                std::span<const std::string_view> keys);

}  // namespace lacuna
