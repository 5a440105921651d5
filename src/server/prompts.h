// Prompts of requests, and conversations whose last message the answer continues.
#pragma once

#include <string>

#include "server/generation_request.h"
#include "server/request_fields.h"

namespace lacuna {

/// Adds the prompts of a body, as OpenAI's completions and llama.cpp have them. One prompt is text, a list of
/// token ids or of texts and ids, or {"prompt_string"} without other media; a list without a number is one of
/// prompts. FieldError, which names a prompt that is none: "prompt.1".
void read_prompts(const FieldValue& field, GenerationRequest& request);

/// Choices of each prompt, from 1. FieldError where another name has set another number.
void read_num_choices(const FieldValue& field, GenerationRequest& request);

/// Throws FieldError where the prompts ask for more than kMaxRequestChoices answers.
void check_num_answers(const GenerationRequest& request);

/// Takes the last message, an assistant's, as the beginning of the answer (Conversation::continuation).
/// FieldError where it is another's, has calls, or is the only one.
///   place  what asks for it: "messages.2.prefix"
void continue_last_message(const std::string& place, Conversation& conversation);

}  // namespace lacuna
