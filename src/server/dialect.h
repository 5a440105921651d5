// The supported HTTP APIs: how each parses a body into the common GenerationRequest and formats the answer
// as a reply.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "server/generation_request.h"
#include "server/object_fields.h"
#include "server/reply_format.h"
#include "server/request_fields.h"
#include "server/tool_request.h"

namespace lacuna {

/// Formats an error reply.
using ErrorFormat = nlohmann::ordered_json (*)(int status, std::string_view sentence, std::string_view field,
                                               std::string_view request_id);

struct Dialect {
  /// The fields of the body, without the settings that have their own names at its top level.
  RequestFields (*fields)();
  bool takes_common_settings = false;  ///< is_common_name() (server/settings.h)
  /// Names of fields that say what the answer has to be (server/answer_format.h).
  std::span<const std::string_view> answer_formats = {};
  /// Members of the objects within the body.
  const std::span<const ObjectFields>& objects;
  /// Throws InputError.
  GenerationRequest (*parse)(const nlohmann::ordered_json& body, const GenerationOptions& defaults);
  std::unique_ptr<ReplyFormat> (*make_format)(AnswerHead head);
  ErrorFormat error;
  ToolFormat tools = ToolFormat::kNone;
};

extern const Dialect kOpenAiChat, kOpenAiCompletions, kLacunaInfill;
extern const Dialect kOpenAiResponses;
extern const Dialect kAnthropicMessages;
extern const Dialect kOllamaChat, kOllamaGenerate;
extern const Dialect kLlamaCppCompletion;

/// OpenAI's error format, for all APIs that have none of their own.
nlohmann::ordered_json openai_error(int status, std::string_view sentence, std::string_view field,
                                    std::string_view request_id);
nlohmann::ordered_json anthropic_error(int status, std::string_view sentence, std::string_view field,
                                       std::string_view request_id);
nlohmann::ordered_json ollama_error(int status, std::string_view sentence, std::string_view field,
                                    std::string_view request_id);

// For parse functions:

/// Reads a setting by any of its names, from a body's top level or from its "lacuna" object.
///   place  before the name in errors: "" or "lacuna."
void read_named_setting(std::string_view key, const nlohmann::ordered_json& value, std::string_view place,
                        GenerationRequest& request);

/// "lacuna": settings by the names of the command line, and the members that are not settings.
RequestFields own_fields();
RequestFields own_members();

/// Hints: fields that clients send by habit and no answer depends on, in any API.
RequestFields hint_fields();
/// Fields of sampling that are refused unless they ask for nothing.
RequestFields sampling_fields();

/// Maps the role "developer" of newer clients to "system".
std::string role_of_turn(std::string role);

/// Whether the answer is a stream.
void read_stream(const FieldValue& field, GenerationRequest& request);

/// Texts that end the answer.
void read_stop_texts(const FieldValue& field, GenerationRequest& request);

/// Parses a body: starts from `defaults`, reads `fields`, then completes the request.
GenerationRequest read_request(const nlohmann::ordered_json& body, const GenerationOptions& defaults,
                               RequestFields fields);

/// Makes an infill of a prompt that is one text and the body's "suffix", if it has one: the hole between them
/// has as many tokens as the answer may have.
void read_suffix(const nlohmann::ordered_json& body, GenerationRequest& request);

/// Returns the body without an n_predict of 0 (llama.cpp: prefill only; sets answers_nothing) or of -2 (fill
/// the context).
nlohmann::ordered_json without_zero_length(const nlohmann::ordered_json& body, GenerationRequest& request);

/// Copies answers_nothing from without_zero_length()'s `length`. FieldError if another length was sent, too.
void take_zero_length(const GenerationRequest& length, GenerationRequest& request);

/// Gives the chat template the effort of thinking; "none" also sets enable_thinking to false, which more
/// templates read, unless the request sets it.
void set_effort(const std::string& effort, Conversation& conversation);

/// Adds a system message before the request's conversation.
void add_system(std::string_view text, GenerationRequest& request);

}  // namespace lacuna
