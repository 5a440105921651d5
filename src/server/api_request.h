// Bodies of requests, parsed and checked as far as that needs no model.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "server/generation_request.h"

namespace lacuna {

inline constexpr size_t kMaxBodyValues = size_t{1} << 18;  ///< of any kind, at every level of its JSON

/// Parses a body as JSON, once for all that read it: its order of keys is that of schemas and prompts.
/// InputError says what is wrong, also with UTF-8 and with nesting.
nlohmann::ordered_json parse_body(std::string_view body);

/// A request for /v1/chat/completions, /v1/completions and /v1/infill. Unknown fields are ignored; InputError
/// names a field that asks for what is not there.
///   defaults  settings that a request need not give
GenerationRequest parse_chat_request(const nlohmann::ordered_json& body, const GenerationOptions& defaults);
GenerationRequest parse_completion_request(const nlohmann::ordered_json& body,
                                           const GenerationOptions& defaults);
/// {"input": [text, {"hole": N}, {"hole": {"min": A, "max": B}}, {"hole": {}} of any length, {"tokens": [id
/// or null]}, ...]}, or
/// {"tokens": [id or null, ...]} (null: a hole of one token; {"mask": [index, ...]} or vLLM's
/// diffusion_pinned instead), or {"input_prefix", "input_suffix", "n_predict"}.
GenerationRequest parse_infill_request(const nlohmann::ordered_json& body, const GenerationOptions& defaults);

/// {"messages": [{"role", "content"}, ...]}, and what else the chat template is given: chat_template_kwargs,
/// enable_thinking, documents, add_generation_prompt. Contents are strings or lists of {"type": "text",
/// "text"}.
///   request  gets the names of parts that are left out
Conversation parse_conversation(const nlohmann::ordered_json& body, GenerationRequest& request);

}  // namespace lacuna
