#include "server/tool_reply.h"

namespace lacuna {

using nlohmann::ordered_json;

std::vector<ToolCallReader::Piece> ToolReply::advance(std::string_view text, bool is_all) {
  std::vector<ToolCallReader::Piece> pieces = reader_.advance(text, is_all);
  for (const ToolCallReader::Piece& piece : pieces) {
    if (!piece.call) {
      content_ += piece.text;
    } else if (!piece.name.empty()) {
      calls_.push_back({piece.name, ""});
    } else {
      calls_.back().arguments += piece.text;
    }
  }
  return pieces;
}

ordered_json ToolReply::arguments_of(size_t call) const {
  ordered_json value = ordered_json::parse(calls_[call].arguments, nullptr, false);
  return value.is_object() ? value : ordered_json::object();
}

}  // namespace lacuna
