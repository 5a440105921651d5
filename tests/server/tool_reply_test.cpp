#include "server/tool_reply.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace lacuna::tool_reply_test {
namespace {

using nlohmann::ordered_json;

const std::string kText =
    "See.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": "
    "1}}\n</tool_call>\n<tool_call>\n{\"name\": "
    "\"now\", \"arguments\": {}}\n</tool_call>";

TEST(ToolReply, TellsNamesBeforeArguments) {
  ToolReply reply(7);
  std::vector<ToolCallReader::Piece> pieces;
  for (const char byte : kText) {
    for (const ToolCallReader::Piece& piece : reply.advance(std::string(1, byte), false))
      pieces.push_back(piece);
  }
  EXPECT_TRUE(reply.advance("", true).empty());
  std::string content;
  std::vector<std::string> names, arguments;
  for (const ToolCallReader::Piece& piece : pieces) {
    if (!piece.call) {
      content += piece.text;
    } else if (!piece.name.empty()) {
      EXPECT_EQ(*piece.call, names.size());
      names.push_back(piece.name);
      arguments.emplace_back();
    } else {
      EXPECT_EQ(*piece.call, names.size() - 1);
      arguments.back() += piece.text;
    }
  }
  EXPECT_EQ(content, "See.");
  EXPECT_EQ(names, (std::vector<std::string>{"add", "now"}));
  EXPECT_EQ(arguments, (std::vector<std::string>{"{\"a\": 1}", "{}"}));
  EXPECT_TRUE(reply.has_called());
}

TEST(ToolReply, KeepsTextAndCalls) {
  ToolReply reply(7);
  reply.advance(kText, true);
  EXPECT_EQ(reply.content(), "See.");
  ASSERT_EQ(reply.calls().size(), 2U);
  EXPECT_EQ(reply.calls()[0].name, "add");
  EXPECT_EQ(reply.calls()[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(reply.arguments_of(0), (ordered_json{{"a", 1}}));
  EXPECT_EQ(reply.id_of(1), tool_call_id(7, 1));
  ToolReply text(7);
  text.advance("Hi", true);
  EXPECT_FALSE(text.has_called());
}

TEST(ToolReply, HasNoArgumentsOfACallThatWasCut) {
  ToolReply reply(7);
  reply.advance(kText.substr(0, kText.find("1}}")), true);
  ASSERT_EQ(reply.calls().size(), 1U);
  EXPECT_EQ(reply.arguments_of(0), ordered_json::object());
  EXPECT_FALSE(reply.has_called());
}

}  // namespace
}  // namespace lacuna::tool_reply_test
