// Reads prompts, and conversations whose last message the answer continues.
#pragma once

#include <string>

#include "server/generation_request.h"
#include "server/request_fields.h"

namespace lacuna {

/// Reads the prompts of a body, in the formats of OpenAI's completions and llama.cpp. One prompt is a text, a
/// list of token ids or of texts and ids, or {"prompt_string"} without other media. A list without a number
/// is a list of prompts. Throws FieldError, which names an invalid prompt ("prompt.1").
void read_prompts(const FieldValue& field, GenerationRequest& request);

/// Reads the number of choices per prompt, from 1. FieldError if another name has set another number.
void read_num_choices(const FieldValue& field, GenerationRequest& request);

/// Throws FieldError if the request asks for more than kMaxRequestChoices answers.
void check_num_answers(const GenerationRequest& request);

/// Makes the last message, an assistant's, the beginning of the answer (Conversation::continuation).
/// FieldError if the role is not assistant, the message has calls, or it is the only one.
///   place  field that requests the continuation: "messages.2.prefix"
void continue_last_message(const std::string& place, Conversation& conversation);

}  // namespace lacuna
