// Function calls and their results in earlier turns of a conversation.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/tools.h"
#include "tokenizer/conversation.h"

namespace lacuna {

inline constexpr size_t kMaxCalls = 128;  ///< per message
inline constexpr size_t kMaxCallIdBytes = 256;

/// Throws InputError naming `place` unless the id has 1 to kMaxCallIdBytes bytes.
void expect_call_id(const std::string& id, std::string_view place);

/// Checks a call and formats its arguments for a prompt. Throws InputError for an invalid function name and
/// for arguments that are not an object.
///   arguments  JSON text of an object; empty: {}
ToolCall checked_call(const std::string& name, std::string_view name_place, const std::string& arguments,
                      std::string_view arguments_place);

/// Adds calls to a message, as "tool_calls".
void add_calls(std::span<const ToolCall> calls, nlohmann::ordered_json& message);

/// The calls and results of a conversation. InputErrors name places in the conversation:
/// "messages.2.tool_call_id".
class ToolHistory {
 public:
  /// Registers a call of an earlier message; later results may name its id.
  ///   id         empty: an id is generated
  ///   arguments  JSON text of an object; empty: {}
  ToolCall call(const std::optional<std::string>& id, std::string_view id_place, const std::string& name,
                std::string_view name_place, const std::string& arguments, std::string_view arguments_place);
  /// Adds the result of the call with this id.
  void add_result(const std::string& id, std::string_view id_place, const std::string& content,
                  Conversation& conversation);
  /// Adds the result of the first call without one, preferably of `function`.
  void add_result(const std::string& content, Conversation& conversation, std::string_view function = {});
  bool has_call(std::string_view id) const { return names_.find(id) != names_.end(); }
  bool has_calls() const { return !names_.empty(); }

 private:
  std::map<std::string, std::string, std::less<>> names_;  // function names by call id
  std::deque<std::string> open_;                           // ids of calls without a result
};

}  // namespace lacuna
