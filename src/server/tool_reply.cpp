#include "server/tool_reply.h"

#include <utility>

namespace lacuna {

using nlohmann::ordered_json;

std::vector<ordered_json> ToolReply::advance(std::string_view text, bool is_all) {
  std::vector<ordered_json> deltas;
  for (const ToolCallReader::Piece& piece : reader_.advance(text, is_all)) {
    ordered_json delta;
    if (!piece.call) {
      content_ += piece.text;
      delta["content"] = piece.text;
    } else if (!piece.name.empty()) {
      calls_.push_back({piece.name, ""});
      const ordered_json function{{"name", piece.name}, {"arguments", ""}};
      delta["tool_calls"].push_back({{"index", *piece.call},
                                     {"id", tool_call_id(key_, *piece.call)},
                                     {"type", "function"},
                                     {"function", function}});
    } else {
      calls_.back().arguments += piece.text;
      ordered_json call{{"index", *piece.call}};
      call["function"]["arguments"] = piece.text;
      delta["tool_calls"].push_back(std::move(call));
    }
    deltas.push_back(std::move(delta));
  }
  return deltas;
}

void ToolReply::add_to(ordered_json& message) const {
  message["content"] = content_.empty() && !calls_.empty() ? ordered_json() : ordered_json(content_);
  if (calls_.empty()) return;
  ordered_json calls = ordered_json::array();
  for (size_t i = 0; i < calls_.size(); ++i) {
    const ordered_json function{{"name", calls_[i].name}, {"arguments", calls_[i].arguments}};
    calls.push_back({{"id", tool_call_id(key_, i)}, {"type", "function"}, {"function", function}});
  }
  message["tool_calls"] = std::move(calls);
}

}  // namespace lacuna
