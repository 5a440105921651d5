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

TEST(ToolReply, StreamsNamesBeforeArguments) {
  ToolReply reply(7);
  std::vector<ordered_json> deltas;
  for (const char byte : kText) {
    for (ordered_json& delta : reply.advance(std::string(1, byte), false)) deltas.push_back(std::move(delta));
  }
  EXPECT_TRUE(reply.advance("", true).empty());
  std::string content;
  std::vector<std::string> names, arguments, ids;
  for (const ordered_json& delta : deltas) {
    ASSERT_EQ(delta.size(), 1U);
    if (delta.contains("content")) {
      content += delta["content"].get<std::string>();
      continue;
    }
    ASSERT_EQ(delta["tool_calls"].size(), 1U);
    const ordered_json& call = delta["tool_calls"][0];
    if (call.contains("id")) {
      EXPECT_EQ(call["index"], names.size());
      EXPECT_EQ(call["type"], "function");
      EXPECT_EQ(call["function"]["arguments"], "");
      names.push_back(call["function"]["name"]);
      ids.push_back(call["id"]);
      arguments.emplace_back();
    } else {
      EXPECT_EQ(call["index"], names.size() - 1);
      EXPECT_FALSE(call["function"].contains("name"));
      arguments.back() += call["function"]["arguments"].get<std::string>();
    }
  }
  EXPECT_EQ(content, "See.");
  EXPECT_EQ(names, (std::vector<std::string>{"add", "now"}));
  EXPECT_EQ(arguments, (std::vector<std::string>{"{\"a\": 1}", "{}"}));
  EXPECT_EQ(ids, (std::vector<std::string>{tool_call_id(7, 0), tool_call_id(7, 1)}));
  EXPECT_TRUE(reply.has_called());
}

TEST(ToolReply, IsAMessageAsAWhole) {
  ToolReply reply(7);
  reply.advance(kText, true);
  ordered_json message;
  reply.add_to(message);
  EXPECT_EQ(message["content"], "See.");
  ASSERT_EQ(message["tool_calls"].size(), 2U);
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "add");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
  EXPECT_EQ(message["tool_calls"][1]["id"], tool_call_id(7, 1));
}

TEST(ToolReply, HasContentOrNull) {
  ToolReply text(7);
  text.advance("Hi", true);
  ordered_json message;
  text.add_to(message);
  EXPECT_EQ(message, (ordered_json{{"content", "Hi"}}));
  EXPECT_FALSE(text.has_called());
  ToolReply calls(7);
  calls.advance(kText.substr(5), true);
  message = {};
  calls.add_to(message);
  EXPECT_TRUE(message["content"].is_null());
  ToolReply empty(7);
  empty.advance("", true);
  message = {};
  empty.add_to(message);
  EXPECT_EQ(message["content"], "");
}

}  // namespace
}  // namespace lacuna::tool_reply_test
