// Parses and checks request bodies, without the model.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "server/generation_request.h"

namespace lacuna {

inline constexpr size_t kMaxBodyValues = size_t{1} << 18;  ///< JSON values of a body, at all levels together

/// Parses a body as JSON. Keeps the order of its keys, which schemas and prompts depend on. Throws
/// InputError, also for invalid UTF-8 and for nesting that is too deep.
nlohmann::ordered_json parse_body(std::string_view body);

/// A request for /v1/chat/completions. Unknown fields are ignored. Throws InputError, which names the field,
/// for an unsupported one.
///   defaults  values of settings that the request does not give
GenerationRequest parse_chat_request(const nlohmann::ordered_json& body, const GenerationOptions& defaults);
GenerationRequest parse_completion_request(const nlohmann::ordered_json& body,
                                           const GenerationOptions& defaults);
/// {"input": [text, {"hole": N}, {"hole": {"min": A, "max": B}}, {"hole": {}} of any length, {"tokens": [id
/// or null]}, ...]}, or
/// {"tokens": [id or null, ...]} (null: a hole of one token; {"mask": [index, ...]} or vLLM's
/// diffusion_pinned instead), or {"input_prefix", "input_suffix", "n_predict"}.
GenerationRequest parse_infill_request(const nlohmann::ordered_json& body, const GenerationOptions& defaults);

/// Parses {"messages": [{"role", "content"}, ...]} and the other inputs of the chat template:
/// chat_template_kwargs, enable_thinking, documents, add_generation_prompt. Contents are strings or lists of
/// {"type": "text", "text"}.
///   request  gets the names of ignored parts
Conversation parse_conversation(const nlohmann::ordered_json& body, GenerationRequest& request);

}  // namespace lacuna
