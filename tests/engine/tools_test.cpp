#include "engine/tools.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace lacuna::tools_test {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

Tools two_tools() {
  Tools tools;
  for (const char* name : {"add", "now"}) {
    ToolFunction each;
    each.function.name = name;
    each.definition = std::string(R"({"type": "function", "function": {"name": ")") + name + "\"}}";
    tools.functions.push_back(each);
  }
  return tools;
}

std::vector<std::string> names_of(const ToolCallConstraint& constraint) {
  std::vector<std::string> names;
  for (const CallableFunction& each : constraint.functions) names.push_back(each.name);
  return names;
}

TEST(Tools, AskForTheFormOfTheirChoice) {
  Tools tools = two_tools();
  EXPECT_THAT(names_of(tool_constraint(tools)), ElementsAre("add", "now"));
  EXPECT_FALSE(tool_constraint(tools).is_required);
  EXPECT_TRUE(tool_constraint(tools).is_parallel);
  tools.is_parallel = false;
  tools.choice = ToolChoice::kRequired;
  EXPECT_TRUE(tool_constraint(tools).is_required);
  EXPECT_FALSE(tool_constraint(tools).is_parallel);
  tools.is_parallel = true;
  tools.choice = ToolChoice::kNamed;
  tools.chosen = "now";
  EXPECT_THAT(names_of(tool_constraint(tools)), ElementsAre("now"));
  EXPECT_TRUE(tool_constraint(tools).is_required);
  EXPECT_FALSE(tool_constraint(tools).is_parallel) << "one call of the function that is named";
}

// The text of Qwen2.5's and Dream's template, rendered by Jinja.
const std::string kDescription =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
    "function signatures within <tools></tools> XML tags:\n<tools>\n"
    "{\"type\": \"function\", \"function\": {\"name\": \"add\"}}\n"
    "{\"type\": \"function\", \"function\": {\"name\": \"now\"}}\n</tools>\n\n"
    "For each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
    "<args-json-object>}\n</tool_call>";

TEST(Tools, AreDescribedInOneText) {
  std::vector<std::string> texts;
  for (const ToolFunction& each : two_tools().functions) texts.push_back(each.definition);
  EXPECT_EQ(description_of_tools(texts), kDescription);
  EXPECT_EQ(definitions_of(two_tools()).size(), 2U);
  EXPECT_EQ(definitions_of(two_tools())[1].dump(), R"({"type":"function","function":{"name":"now"}})");
  Tools none = two_tools();
  none.choice = ToolChoice::kNone;
  EXPECT_TRUE(definitions_of(none).is_null());
}

TEST(Tools, HaveCallsAndResultsInTheTextOfTheTemplate) {
  const std::vector<ToolCall> calls = {{"add", R"({"b": 1, "a": [1, {"x": null}]})"}, {"now", "{}"}};
  EXPECT_EQ(
      with_tool_calls("Let me see.", calls),
      "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 1, \"a\": [1, {\"x\": null}]}}\n"
      "</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>");
  EXPECT_EQ(with_tool_calls("", std::span(calls).subspan(1)),
            "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>");
  EXPECT_EQ(with_tool_calls("Hi", {}), "Hi");
  EXPECT_EQ(tool_response("3"), "<tool_response>\n3\n</tool_response>");
}

TEST(Tools, NumberCallsByTheRequest) {
  const std::vector<TokenId> prompt = {1, 2, 3}, longer = {1, 2, 3, 4};
  std::set<std::string> ids;
  for (const uint64_t seed : {0, 1}) {
    for (const auto& each : {prompt, longer}) {
      const uint64_t key = tool_call_key(seed, each);
      EXPECT_EQ(key, tool_call_key(seed, each));
      for (size_t index = 0; index < 3; ++index) ids.insert(tool_call_id(key, index));
    }
  }
  EXPECT_EQ(ids.size(), 12U);
  EXPECT_THAT(*ids.begin(), MatchesRegex("call_[0-9a-f]{24}"));
}

}  // namespace
}  // namespace lacuna::tools_test
