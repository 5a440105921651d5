// Calls of functions and their results in the earlier turns of a conversation.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tools.h"

namespace lacuna {

inline constexpr size_t kMostCalls = 128;  ///< of one message
inline constexpr size_t kMostCallIdBytes = 256;

/// Throws InputError at the place named, unless an id has 1 to kMostCallIdBytes bytes.
void expect_call_id(const std::string& id, std::string_view place);

/// A call as a prompt shows it. Throws InputError for a name that no function has, and for arguments that are
/// no object.
///   arguments  JSON text of an object; empty: {}
ToolCall checked_call(const std::string& name, std::string_view name_place, const std::string& arguments,
                      std::string_view arguments_place);

/// The calls and results of a conversation in the form that a prompt has for them. InputErrors name places in
/// the conversation: "messages.2.tool_call_id".
class ToolHistory {
 public:
  /// A call in an earlier message, whose id results may name from then on.
  ///   arguments  JSON text of an object; empty: {}
  ToolCall call(const std::string& id, std::string_view id_place, const std::string& name,
                std::string_view name_place, const std::string& arguments, std::string_view arguments_place);
  /// Adds the result of the call of this id. Results that follow each other share a user's turn.
  void add_result(const std::string& id, std::string_view id_place, const std::string& content,
                  std::vector<Message>& messages);
  /// Adds the result of a call that an API leaves without an id.
  void add_result(const std::string& content, std::vector<Message>& messages);

 private:
  std::set<std::string, std::less<>> ids_;  // of the calls so far
  size_t behind_results_ = 0;               // messages up to the last result; 0: there is none
};

}  // namespace lacuna
