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

TEST(ToolHistory, PutsResultsThatFollowEachOtherIntoOneTurn) {
  ToolHistory history;
  history.call("a", "id", "find", "name", "{}", "arguments");
  history.call("b", "id", "find", "name", "{}", "arguments");
  std::vector<Message> messages;
  history.add_result("a", "id", "1", messages);
  history.add_result("b", "id", "2", messages);
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(messages[0].role, "user");
  EXPECT_EQ(messages[0].content,
            "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>");
  messages.push_back({"assistant", "x"});
  history.add_result("a", "id", "3", messages);
  EXPECT_THAT(messages, SizeIs(3));
}

TEST(ToolHistory, NamesWhatNoCallHas) {
  ToolHistory history;
  std::vector<Message> messages;
  EXPECT_THAT(refusal_of([&] { history.add_result("a", "messages.1.tool_call_id", "1", messages); }),
              HasSubstr("messages.1.tool_call_id is \"a\"; expected the id of a call"));
  EXPECT_THAT(refusal_of([&] { history.call("", "the id", "find", "name", "{}", "arguments"); }),
              HasSubstr("the id is \"\"; expected 1 to 256 bytes"));
  EXPECT_THAT(refusal_of([&] { history.call("a", "id", "a b", "the name", "{}", "arguments"); }),
              HasSubstr("the name is \"a b\""));
  EXPECT_THAT(refusal_of([&] { history.call("a", "id", "find", "name", "[]", "the arguments"); }),
              HasSubstr("the arguments is \"[]\"; expected the JSON text of an object"));
  EXPECT_TRUE(messages.empty());
}

}  // namespace
}  // namespace lacuna::tool_history_test
