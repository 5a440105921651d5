// The supported HTTP APIs: how each parses a body into the common GenerationRequest and formats the answer
// as a reply.
#pragma once

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
  /// Fields of the body, without the common settings (takes_common_settings).
  RequestFields (*fields)();
  bool takes_common_settings = false;  ///< accepts settings with is_common_name() at the top level
  /// Fields that constrain the answer's format (server/answer_format.h).
  std::span<const std::string_view> answer_formats = {};
  /// Known members of the objects within the body.
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

/// OpenAI's error format, also used by APIs without their own.
nlohmann::ordered_json openai_error(int status, std::string_view sentence, std::string_view field,
                                    std::string_view request_id);
nlohmann::ordered_json anthropic_error(int status, std::string_view sentence, std::string_view field,
                                       std::string_view request_id);
nlohmann::ordered_json ollama_error(int status, std::string_view sentence, std::string_view field,
                                    std::string_view request_id);

// For parse functions:

/// Reads a setting by any of its names, from a body's top level or from its "lacuna" object.
///   place  prefix of the name in errors: "" or "lacuna."
void read_named_setting(std::string_view key, const nlohmann::ordered_json& value, std::string_view place,
                        GenerationRequest& request);

/// The field "lacuna", an object with settings by their command-line names and other members.
RequestFields own_fields();
/// The members of "lacuna" that are not settings.
RequestFields own_members();

/// Hints: fields of all APIs that never change an answer here.
RequestFields hint_fields();
/// Sampling fields, including unsupported ones, which are refused unless they have no effect.
RequestFields sampling_fields();

/// Maps the role "developer" of newer clients to "system".
std::string role_of_turn(std::string role);

/// Reads true or false into a member of the request.
template <bool GenerationRequest::*kMember>
void as_flag(const FieldValue& field, GenerationRequest& request) {
  request.*kMember = field.flag();
}

/// Reads the stop texts.
void read_stop_texts(const FieldValue& field, GenerationRequest& request);

/// Parses a body: starts from `defaults`, reads `fields`, then completes the request.
GenerationRequest read_request(const nlohmann::ordered_json& body, const GenerationOptions& defaults,
                               RequestFields fields);

/// If the body has a "suffix", turns the request into an infill between its prompt, which must be one text,
/// and the suffix, with an open hole of at most the answer's token limit.
void read_suffix(const nlohmann::ordered_json& body, GenerationRequest& request);

/// Returns the body without an n_predict of 0 (llama.cpp: prefill only; sets answers_nothing) or of -2 (fill
/// the context).
nlohmann::ordered_json without_zero_length(const nlohmann::ordered_json& body, GenerationRequest& request);

/// Copies answers_nothing from `length`, the request that without_zero_length() set. FieldError if another
/// length was sent, too.
void take_zero_length(const GenerationRequest& length, GenerationRequest& request);

/// Passes the reasoning effort to the chat template. "none" also sets enable_thinking to false unless the
/// request sets it, because more templates read that variable.
void set_effort(const std::string& effort, Conversation& conversation);

/// Adds a system message before the request's conversation.
void add_system(std::string_view text, GenerationRequest& request);

}  // namespace lacuna
