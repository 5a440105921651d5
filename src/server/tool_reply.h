// An answer that may call tools, as the message of OpenAI's chat format.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tool_call_reader.h"
#include "engine/tools.h"

namespace lacuna {

/// Follows the text of one choice.
class ToolReply {
 public:
  ///   key  of the calls' ids (tool_call_key)
  explicit ToolReply(uint64_t key) : key_(key) {}

  /// Takes the text that became final and returns what a stream says of it, in deltas of one thing each:
  /// {"content"}, {"tool_calls": [{"index", "id", "type", "function": {"name", "arguments": ""}}]} of a call
  /// that begins, {"tool_calls": [{"index", "function": {"arguments"}}]} of its arguments.
  ///   is_all  no text follows
  std::vector<nlohmann::ordered_json> advance(std::string_view text, bool is_all);

  /// Adds "content" (null where there is no text next to calls) and, where there are any, "tool_calls".
  void add_to(nlohmann::ordered_json& message) const;

  /// Whether the answer has calls and ends with a complete one.
  bool has_called() const { return reader_.has_complete_calls(); }

 private:
  uint64_t key_;
  ToolCallReader reader_;
  std::string content_;
  std::vector<ToolCall> calls_;
};

}  // namespace lacuna
