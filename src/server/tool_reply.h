// Splits an answer that may call tools into free text and calls.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tool_call_reader.h"
#include "engine/tools.h"

namespace lacuna {

/// Reads the text of one choice incrementally.
class ToolReply {
 public:
  ///   key   key from which the calls' ids are derived (tool_call_key)
  ///   form  format of the model's calls
  explicit ToolReply(uint64_t key, const ToolCallForm& form = kTaggedCalls) : key_(key), reader_(form) {}

  /// Takes newly final text and returns the pieces that it adds to the message.
  ///   is_all  no further text follows
  std::vector<ToolCallReader::Piece> advance(std::string_view text, bool is_all);

  const std::string& content() const { return content_; }  ///< free text so far
  std::span<const ToolCall> calls() const { return calls_; }
  std::string id_of(size_t call) const { return tool_call_id(key_, call); }
  /// The parsed arguments of a call; an empty object if a stop text has cut the call.
  nlohmann::ordered_json arguments_of(size_t call) const;

  /// Whether the answer has calls and ends with a complete one.
  bool has_called() const { return reader_.has_complete_calls(); }

 private:
  uint64_t key_;
  ToolCallReader reader_;
  std::string content_;
  std::vector<ToolCall> calls_;
};

}  // namespace lacuna
