#include "engine/chat_prompt.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "engine/tool_history.h"
#include "tokenizer/template_of.h"

namespace lacuna::chat_prompt_test {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kPlain =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if tools %}{{ tools | tojson }}{% "
    "endif %}";
constexpr const char* kWithTools =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls %}({{ c.function.name }} {{ c.function.arguments | tojson }}){% endfor %}{% "
    "endfor %}";
constexpr const char* kWithoutTools = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";

ordered_json one_tool() {
  return ordered_json::array({{{"type", "function"}, {"function", {{"name", "add"}}}}});
}

Conversation with_calls() {
  Conversation conversation(std::vector<Message>{{"user", "Hi"}});
  ToolHistory history;
  const std::vector<ToolCall> calls = {history.call("x", "id", "add", "name", R"({"b":1})", "arguments"),
                                       history.call("y", "id", "now", "name", "", "arguments")};
  add_calls(calls, conversation.add("assistant", ""));
  history.add_result("x", "id", "3", conversation);
  history.add_result("y", "id", "noon", conversation);
  return conversation;
}

std::string text_of(const char* program, const Conversation& conversation) {
  const ChatTemplate chat_template = template_of(program);
  return jinja::text_of(chat_template.pieces(as_template_shows(chat_template, conversation)));
}

TEST(ChatPrompt, LeavesToolsToTemplatesThatShowThem) {
  Conversation conversation = with_calls();
  conversation.tools = one_tool();
  EXPECT_EQ(text_of(kWithTools, conversation),
            R"([{"type": "function", "function": {"name": "add"}}][user]Hi[assistant](add {"b": 1})(now {}))"
            "[tool]3[tool]noon");
}

TEST(ChatPrompt, WritesCallsAndResultsForTemplatesThatDoNot) {
  EXPECT_EQ(text_of(kWithoutTools, with_calls()),
            "[user]Hi[assistant]<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 1}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"
            "[user]<tool_response>\n3\n</tool_response>\n<tool_response>\nnoon\n</tool_response>");
}

TEST(ChatPrompt, DescribesToolsInTheSystemTurn) {
  Conversation conversation(std::vector<Message>{{"user", "Hi"}});
  conversation.tools = one_tool();
  EXPECT_THAT(text_of(kWithoutTools, conversation), StartsWith("[system]# Tools\n\nYou may call"));
  EXPECT_THAT(text_of(kWithoutTools, conversation),
              HasSubstr("<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"add\"}}\n</tools>"));
  EXPECT_THAT(text_of(kPlain, conversation), StartsWith("[user]Hi[{")) << "it shows them";
  conversation.messages.insert(conversation.messages.begin(),
                               ordered_json{{"role", "system"}, {"content", "Be brief."}});
  EXPECT_THAT(text_of(kWithoutTools, conversation), StartsWith("[system]Be brief.\n\n# Tools"));
}

TEST(ChatPrompt, HasPlainTurnsOfEveryConversation) {
  const std::vector<Message> turns = as_plain_turns(with_calls());
  ASSERT_EQ(turns.size(), 3U);
  EXPECT_EQ(turns[2].role, "user");
  EXPECT_THAT(turns[2].content, StartsWith("<tool_response>\n3"));
}

}  // namespace
}  // namespace lacuna::chat_prompt_test
