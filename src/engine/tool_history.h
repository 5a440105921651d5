// Calls of functions and their results in the earlier turns of a conversation.
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

inline constexpr size_t kMaxCalls = 128;  ///< of one message
inline constexpr size_t kMaxCallIdBytes = 256;

/// Throws InputError at the place named, unless an id has 1 to kMaxCallIdBytes bytes.
void expect_call_id(const std::string& id, std::string_view place);

/// A call as a prompt shows it. Throws InputError for a name that no function has, and for arguments that are
/// no object.
///   arguments  JSON text of an object; empty: {}
ToolCall checked_call(const std::string& name, std::string_view name_place, const std::string& arguments,
                      std::string_view arguments_place);

/// Adds calls to a message, as "tool_calls".
void add_calls(std::span<const ToolCall> calls, nlohmann::ordered_json& message);

/// The calls and results of a conversation. InputErrors name places in the conversation:
/// "messages.2.tool_call_id".
class ToolHistory {
 public:
  /// A call in an earlier message, whose id results may name from then on.
  ///   id         empty: the API has none, or the request gives none; the call gets one
  ///   arguments  JSON text of an object; empty: {}
  ToolCall call(const std::optional<std::string>& id, std::string_view id_place, const std::string& name,
                std::string_view name_place, const std::string& arguments, std::string_view arguments_place);
  /// Adds the result of the call of this id.
  void add_result(const std::string& id, std::string_view id_place, const std::string& content,
                  Conversation& conversation);
  /// Adds the result of the first call that has none: of this function, if it has such a call.
  void add_result(const std::string& content, Conversation& conversation, std::string_view function = {});
  bool has_call(std::string_view id) const { return names_.find(id) != names_.end(); }
  /// Whether there are calls.
  bool has_calls() const { return !names_.empty(); }

 private:
  std::map<std::string, std::string, std::less<>> names_;  // of functions, by the ids of the calls so far
  std::deque<std::string> open_;                           // ids of calls without a result
};

}  // namespace lacuna
