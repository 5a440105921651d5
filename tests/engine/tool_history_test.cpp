#include "engine/tool_history.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace lacuna::tool_history_test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

std::string refusal_of(auto action) {
  try {
    action();
    return "nothing was refused";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(ToolHistory, ShowsArgumentsInOneLayout) {
  ToolHistory history;
  const ToolCall call = history.call("a", "id", "find", "name", R"({"b":1,"a":[ 2 ]})", "arguments");
  EXPECT_EQ(call.name, "find");
  EXPECT_EQ(call.arguments, R"({"b": 1, "a": [2]})");
  EXPECT_EQ(history.call("b", "id", "find", "name", "", "arguments").arguments, "{}");
}

TEST(ToolHistory, NamesTheCallAndTheFunctionOfResults) {
  ToolHistory history;
  history.call("a", "id", "find", "name", "{}", "arguments");
  history.call("b", "id", "look", "name", "{}", "arguments");
  Conversation conversation;
  history.add_result("b", "id", "1", conversation);
  history.add_result("2", conversation);
  history.add_result("3", conversation);
  ASSERT_THAT(conversation.messages, SizeIs(3));
  EXPECT_EQ(conversation.messages[0].dump(),
            R"({"role":"tool","content":"1","tool_call_id":"b","name":"look"})");
  EXPECT_EQ(conversation.messages[1]["tool_call_id"], "a") << "the first call without a result";
  EXPECT_EQ(conversation.messages[2].dump(), R"({"role":"tool","content":"3"})") << "there is no such call";
}

TEST(ToolHistory, GivesResultsOfAFunctionToItsFirstOpenCall) {
  ToolHistory history;
  for (const char* name : {"find", "look", "look"}) history.call({}, "id", name, "name", "{}", "arguments");
  Conversation conversation;
  for (const char* name : {"look", "look", "other"}) history.add_result("1", conversation, name);
  ASSERT_THAT(conversation.messages, SizeIs(3));
  EXPECT_EQ(conversation.messages[0]["tool_call_id"], "call_1");
  EXPECT_EQ(conversation.messages[1]["tool_call_id"], "call_2");
  EXPECT_EQ(conversation.messages[2]["tool_call_id"], "call_0") << "the first of any function";
}

TEST(ToolHistory, GivesCallsWithoutIdsSuchOfTheirOwn) {
  ToolHistory history;
  const ToolCall first = history.call({}, "id", "find", "name", "{}", "arguments");
  EXPECT_FALSE(first.id.empty());
  EXPECT_NE(history.call({}, "id", "find", "name", "{}", "arguments").id, first.id);
}

TEST(ToolHistory, ShowsCallsWithTheirArgumentsAsObjects) {
  nlohmann::ordered_json message{{"role", "assistant"}, {"content", ""}};
  add_calls(std::vector<ToolCall>{{"find", R"({"b": 1, "a": [2]})", "x"}}, message);
  EXPECT_EQ(message["tool_calls"].dump(),
            R"([{"id":"x","type":"function","function":{"name":"find","arguments":{"b":1,"a":[2]}}}])");
}

TEST(ToolHistory, NamesWhatNoCallHas) {
  ToolHistory history;
  Conversation messages;
  EXPECT_THAT(refusal_of([&] { history.add_result("a", "messages.1.tool_call_id", "1", messages); }),
              HasSubstr("messages.1.tool_call_id is \"a\"; expected the id of a call"));
  EXPECT_THAT(refusal_of([&] { history.call("", "the id", "find", "name", "{}", "arguments"); }),
              HasSubstr("the id is \"\"; expected 1 to 256 bytes"));
  EXPECT_THAT(refusal_of([&] { history.call("a", "id", "a b", "the name", "{}", "arguments"); }),
              HasSubstr("the name is \"a b\""));
  EXPECT_THAT(refusal_of([&] { history.call("a", "id", "find", "name", "[]", "the arguments"); }),
              HasSubstr("the arguments is \"[]\"; expected the JSON text of an object"));
  EXPECT_TRUE(messages.messages.empty());
}

}  // namespace
}  // namespace lacuna::tool_history_test
