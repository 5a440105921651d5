#include "server/tool_request.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/chat_prompt.h"
#include "engine/tool_history.h"
#include "server/api_request.h"

namespace lacuna::tool_request_test {
namespace {

using json = nlohmann::ordered_json;
using testing::HasSubstr;

const std::string kAdd =
    R"({"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object",
    "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}, "required": ["b", "a"]}, "strict": true}})";
const std::string kNow = R"({"type": "function", "function": {"name": "now"}})";

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::optional<Tools> tools_of(const std::string& body, ToolFormat format,
                              std::vector<std::string>* left_out = nullptr) {
  return parse_tools(parse_body(body), format, left_out);
}

Conversation conversation_of(const std::string& body) {
  GenerationRequest request;
  return parse_conversation(parse_body(body), request);
}

std::string tools_error(const std::string& body) {
  return error_of([&] { tools_of(body, ToolFormat::kChat); });
}

std::string messages_error(const std::string& messages) {
  return error_of([&] { conversation_of("{\"messages\": " + messages + "}"); });
}

TEST(ToolRequest, HasFunctionsInTheOrderOfTheirKeys) {
  const std::optional<Tools> tools = tools_of("{\"tools\": [" + kAdd + ", " + kNow + "]}", ToolFormat::kChat);
  ASSERT_TRUE(tools);
  EXPECT_EQ(tools->choice, ToolChoice::kAuto);
  EXPECT_TRUE(tools->is_parallel);
  ASSERT_EQ(tools->functions.size(), 2U);
  const CallableFunction& add = tools->functions[0].function;
  EXPECT_EQ(add.name, "add");
  EXPECT_EQ(
      add.parameters,
      R"({"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"}},"required":["b","a"]})");
  EXPECT_TRUE(add.strict);
  EXPECT_EQ(add.place, "tools.0.function.parameters");
  EXPECT_EQ(tools->functions[1].function.parameters, "");
  EXPECT_EQ(tools->functions[1].definition, R"({"type": "function", "function": {"name": "now"}})");
}

TEST(ToolRequest, HasEveryChoice) {
  const auto tools = [](const std::string& choice) {
    return tools_of("{\"tools\": [" + kAdd + "], \"tool_choice\": " + choice + "}", ToolFormat::kChat)
        .value();
  };
  EXPECT_EQ(tools("\"none\"").choice, ToolChoice::kNone);
  EXPECT_EQ(tools("\"auto\"").choice, ToolChoice::kAuto);
  EXPECT_EQ(tools("null").choice, ToolChoice::kAuto);
  EXPECT_EQ(tools("\"required\"").choice, ToolChoice::kRequired);
  const Tools named = tools(R"({"type": "function", "function": {"name": "add"}})");
  EXPECT_EQ(named.choice, ToolChoice::kNamed);
  EXPECT_EQ(named.chosen, "add");
  EXPECT_FALSE(tools_of("{\"tools\": [" + kAdd + "], \"parallel_tool_calls\": false}", ToolFormat::kChat)
                   ->is_parallel);
}

TEST(ToolRequest, MayBeWithoutTools) {
  for (const char* body : {"{}", R"({"tools": null})", R"({"tools": []})", R"({"tool_choice": "auto"})",
                           R"({"tools": [], "tool_choice": "none"})"}) {
    EXPECT_FALSE(tools_of(body, ToolFormat::kChat)) << body;
  }
}

TEST(ToolRequest, NamesTheFieldThatIsWrong) {
  const auto with = [](const std::string& tool) { return tools_error("{\"tools\": [" + tool + "]}"); };
  const auto choose = [](const std::string& choice) {
    return tools_error("{\"tools\": [" + kAdd + "], \"tool_choice\": " + choice + "}");
  };
  EXPECT_THAT(tools_error(R"({"tools": {}})"), HasSubstr("tools is \"{}\"; expected a list"));
  EXPECT_THAT(with("3"), HasSubstr("tools.0 is \"3\"; expected an object"));
  EXPECT_THAT(with(R"({"type": "function"})"), HasSubstr("tools.0.function is missing"));
  EXPECT_THAT(with(R"({"function": {}})"), HasSubstr("tools.0.function.name is missing"));
  EXPECT_THAT(with(R"({"function": {"name": 3}})"), HasSubstr("tools.0.function.name is \"3\""));
  EXPECT_THAT(with(R"({"function": {"name": "a b"}})"), HasSubstr("tools.0.function.name is \"a b\""));
  EXPECT_THAT(with(R"({"function": {"name": ")" + std::string(129, 'a') + "\"}}"),
              HasSubstr("1 to 128 letters"));
  EXPECT_EQ(with(R"({"function": {"name": "mcp.server:get/item-1_)" + std::string(64, 'a') + "\"}}"),
            "no error");
  EXPECT_THAT(with(kNow + "," + kNow), HasSubstr("tools.1.function.name is \"now\", the name of an earlier"));
  EXPECT_THAT(with(R"({"function": {"name": "a", "parameters": []}})"),
              HasSubstr("tools.0.function.parameters is \"[]\""));
  EXPECT_THAT(with(R"({"function": {"name": "a", "strict": 1}})"),
              HasSubstr("tools.0.function.strict is \"1\""));
  EXPECT_THAT(with(R"({"function": {"name": "a", "description": 1}})"),
              HasSubstr("tools.0.function.description"));
  EXPECT_THAT(choose("\"all\""), HasSubstr("tool_choice is \"all\""));
  EXPECT_THAT(choose("{}"), HasSubstr("tool_choice.function is missing"));
  EXPECT_THAT(choose(R"({"type": "allowed_tools"})"), HasSubstr("tool_choice.type is \"allowed_tools\""));
  EXPECT_THAT(choose(R"({"function": {"name": "sub"}})"), HasSubstr("tool_choice.function.name is \"sub\""));
  EXPECT_THAT(tools_error(R"({"tool_choice": "required"})"), HasSubstr("there are no tools"));
  EXPECT_THAT(tools_error("{\"tools\": [" + kAdd + "], \"parallel_tool_calls\": 1}"),
              HasSubstr("parallel_tool_calls is \"1\""));
}

TEST(ToolRequest, HasABoundedNumberOfFunctions) {
  std::string list;
  for (size_t i = 0; i <= kMaxFunctions; ++i)
    list += (i > 0 ? "," : "") + std::string(R"({"function": {"name": "f)") + std::to_string(i) + "\"}}";
  EXPECT_THAT(tools_error("{\"tools\": [" + list + "]}"), HasSubstr("tools has more than 128 functions"));
}

TEST(ToolRequest, BoundsTheCallsOfAMessage) {
  const json call = {{"id", "a"}, {"type", "function"}, {"function", {{"name", "now"}, {"arguments", "{}"}}}};
  const json message = {{"role", "assistant"}, {"tool_calls", std::vector<json>(kMaxCalls + 1, call)}};
  EXPECT_THAT(messages_error(json{message}.dump()), HasSubstr("expected a list of at most 128 calls"));
}

TEST(ToolRequest, RefusesWhatToolsReplaced) {
  EXPECT_THAT(error_of([] { refuse_legacy_functions(json::parse(R"({"functions": [{}]})")); }),
              HasSubstr("functions is not supported; use tools"));
  EXPECT_THAT(error_of([] { refuse_legacy_functions(json::parse(R"({"function_call": {"name": "a"}})")); }),
              HasSubstr("function_call is not supported; use tools"));
  refuse_legacy_functions(json::parse(R"({"functions": [], "function_call": "none"})"));
}

const std::string kCall =
    R"({"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"b\":1,\"a\":[2]}"}})";

TEST(ToolRequest, HasEarlierCallsAndTheirResults) {
  const Conversation conversation =
      conversation_of(R"({"messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": null, "tool_calls": [)" +
                      kCall + R"(, {"id": "c2", "function": {"name": "now", "arguments": ""}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "3"},
      {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "noon"}]},
      {"role": "assistant", "content": "Three.", "tool_calls": []},
      {"role": "tool", "tool_call_id": "c1", "content": "4"}]})");
  ASSERT_EQ(conversation.messages.size(), 6U);
  EXPECT_EQ(conversation.messages[1]["tool_calls"][0]["function"]["arguments"].dump(), R"({"b":1,"a":[2]})");
  EXPECT_EQ(conversation.messages[2].dump(),
            R"({"role":"tool","content":"3","tool_call_id":"c1","name":"add"})");
  const std::vector<Message> messages = as_plain_turns(conversation);
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].content,
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 1, \"a\": [2]}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>");
  EXPECT_EQ(messages[2].role, "user");
  EXPECT_EQ(messages[2].content,
            "<tool_response>\n3\n</tool_response>\n<tool_response>\nnoon\n</tool_response>");
  EXPECT_EQ(messages[3].content, "Three.");
  EXPECT_EQ(messages[4].content, "<tool_response>\n4\n</tool_response>");
}

TEST(ToolRequest, ShowsCallsOfCustomToolsAsFunctionsOfAnInput) {
  const Conversation conversation =
      conversation_of(R"({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "custom",
                       "custom": {"name": "patch", "input": "a \"b\""}}]},
      {"role": "tool", "tool_call_id": "c", "content": "3"}]})");
  EXPECT_EQ(conversation.messages[0]["tool_calls"][0]["function"].dump(),
            R"({"name":"patch","arguments":{"input":"a \"b\""}})");
  EXPECT_EQ(conversation.messages[1]["name"], "patch");
}

TEST(ToolRequest, TakesCallsAsTemplatesHaveThem) {
  const Conversation conversation = conversation_of(
      R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": {"z": 1, "x": {"b": 2, "a": 3}}}}]},
      {"role": "tool", "content": "3"}]})");
  EXPECT_EQ(conversation.messages[0]["tool_calls"][0]["function"]["arguments"].dump(),
            R"({"z":1,"x":{"b":2,"a":3}})");
  EXPECT_EQ(conversation.messages[1]["name"], "a");
}

TEST(ToolRequest, NamesTheMessageThatIsWrong) {
  const auto calls = [](const std::string& list) {
    return messages_error(R"([{"role": "assistant", "tool_calls": )" + list + "}]");
  };
  EXPECT_THAT(messages_error(R"([{"role": "tool", "content": "3"}])"),
              HasSubstr("messages.0.tool_call_id is missing"));
  EXPECT_THAT(messages_error(R"([{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "x"}])"),
              HasSubstr("messages.1.tool_call_id is \"x\"; expected the id of a call"));
  EXPECT_THAT(messages_error(R"([{"role": "assistant", "function_call": {}}])"),
              HasSubstr("messages.0.function_call is not supported"));
  EXPECT_THAT(calls("{}"), HasSubstr("messages.0.tool_calls is"));
  EXPECT_THAT(calls("[3]"), HasSubstr("messages.0.tool_calls.0 is \"3\""));
  EXPECT_THAT(calls(R"([{"id": "", "function": {"name": "a", "arguments": ""}}])"),
              HasSubstr("messages.0.tool_calls.0.id is"));
  EXPECT_THAT(calls(R"([{"id": "a", "type": "custom"}])"), HasSubstr("messages.0.tool_calls.0.type is"));
  EXPECT_THAT(calls(R"([{"id": "a"}])"), HasSubstr("messages.0.tool_calls.0.function is missing"));
  EXPECT_THAT(calls(R"([{"id": "a", "function": {"name": "a\"", "arguments": "{}"}}])"),
              HasSubstr("messages.0.tool_calls.0.function.name is"));
  EXPECT_THAT(calls(R"([{"id": "a", "function": {"name": "a", "arguments": 5}}])"),
              HasSubstr("messages.0.tool_calls.0.function.arguments is"));
  EXPECT_THAT(calls(R"([{"id": "a", "function": {"name": "a", "arguments": "{"}}])"),
              HasSubstr("messages.0.tool_calls.0.function.arguments"));
  EXPECT_THAT(calls(R"([{"id": "a", "function": {"name": "a", "arguments": "[1]"}}])"),
              HasSubstr("expected the JSON text of an object"));
}

TEST(ToolRequest, ReadsTheFormsOfOtherApis) {
  const std::optional<Tools> flat = tools_of(
      R"({"tools": [{"type": "function", "name": "add", "description": "Adds.", "parameters": {"type": "object"}}],
          "tool_choice": {"type": "function", "name": "add"}, "parallel_tool_calls": false})",
      ToolFormat::kResponses);
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->choice, ToolChoice::kNamed);
  EXPECT_FALSE(flat->is_parallel);
  EXPECT_EQ(flat->functions[0].function.parameters, R"({"type":"object"})");
  EXPECT_EQ(flat->functions[0].definition,
            R"({"type": "function", "function": {"name": "add", "description": "Adds.", )"
            R"("parameters": {"type": "object"}}})");
  const auto anthropic = [](const std::string& choice) {
    return tools_of(R"({"tools": [{"name": "add", "input_schema": {"type": "object"}}], "tool_choice": )" +
                        choice + "}",
                    ToolFormat::kAnthropic)
        .value();
  };
  EXPECT_EQ(anthropic("null").choice, ToolChoice::kAuto);
  EXPECT_EQ(anthropic(R"({"type": "any"})").choice, ToolChoice::kRequired);
  EXPECT_EQ(anthropic(R"({"type": "none"})").choice, ToolChoice::kNone);
  EXPECT_EQ(anthropic(R"({"type": "tool", "name": "add"})").chosen, "add");
  EXPECT_FALSE(anthropic(R"({"type": "auto", "disable_parallel_tool_use": true})").is_parallel);
  EXPECT_EQ(anthropic("null").functions[0].definition,
            R"({"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}})");
  EXPECT_EQ(anthropic("null").functions[0].function.place, "tools.0.input_schema");
}

TEST(ToolRequest, LeavesOutToolsThatAreNoFunctions) {
  std::vector<std::string> left_out;
  const char* const body = R"({"tools": [{"type": "web_search"}, {"type": "function", "name": "add"},
                                         {"type": "custom", "name": "patch"}]})";
  const std::optional<Tools> tools = tools_of(body, ToolFormat::kResponses, &left_out);
  ASSERT_TRUE(tools);
  EXPECT_EQ(tools->functions.size(), 1U);
  EXPECT_THAT(left_out, testing::ElementsAre("tools.web_search", "tools.custom"));
  left_out.clear();
  EXPECT_FALSE(tools_of(R"({"tools": [{"type": "bash_20250124", "name": "bash"}]})", ToolFormat::kAnthropic,
                        &left_out));
  EXPECT_THAT(left_out, testing::ElementsAre("tools.bash_20250124"));
}

TEST(ToolRequest, HasTheFunctionsThatAChoiceAllows) {
  const std::string tools = R"({"tools": [{"type": "function", "function": {"name": "a"}},
      {"type": "function", "function": {"name": "b"}}], "tool_choice": {"type": "allowed_tools", "allowed_tools": )";
  const auto chosen = [&](const std::string& allowed) {
    return tools_of(tools + allowed + "}}", ToolFormat::kChat).value();
  };
  const std::string only_b =
      R"("tools": [{"type": "function", "function": {"name": "b"}}, {"type": "mcp"}]})";
  ASSERT_EQ(chosen(R"({"mode": "auto", )" + only_b).functions.size(), 1U);
  EXPECT_EQ(chosen(R"({"mode": "auto", )" + only_b).functions[0].function.name, "b");
  EXPECT_EQ(chosen(R"({"mode": "auto", )" + only_b).choice, ToolChoice::kAuto);
  EXPECT_EQ(chosen(R"({"mode": "required", )" + only_b).choice, ToolChoice::kRequired);
  EXPECT_EQ(chosen(R"({"mode": "auto", "tools": []})").choice, ToolChoice::kNone);
  for (const auto& [allowed, part] : std::vector<std::pair<std::string, std::string>>{
           {R"({"mode": "any", )" + only_b, "tool_choice.allowed_tools.mode is \"any\""},
           {R"({"mode": "required", "tools": []})", "has no functions"},
           {R"({"mode": "auto", "tools": [{"function": {"name": "c"}}]})",
            "tool_choice.allowed_tools.tools.0.function.name is \"c\""}})
    EXPECT_THAT(error_of([&] { chosen(allowed); }), HasSubstr(part));
  EXPECT_EQ(tools_of(R"({"tools": [{"type": "function", "name": "a"}, {"type": "function", "name": "b"}],
      "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "a"}]}})",
                     ToolFormat::kResponses)
                ->functions.size(),
            1U);
}

TEST(ToolRequest, RefusesWhatOtherApisDoNotMean) {
  const auto error = [](const char* body, ToolFormat format) {
    return error_of([&] { tools_of(body, format); });
  };
  EXPECT_THAT(
      error(R"({"tools": [{"type": "web_search"}], "tool_choice": "required"})", ToolFormat::kResponses),
      HasSubstr("there are no tools"));
  EXPECT_THAT(error(R"({"tools": [{"name": "a"}], "tool_choice": {"type": "tool", "name": "b"}})",
                    ToolFormat::kAnthropic),
              HasSubstr("tool_choice.name is \"b\"; expected the name of one of tools"));
  EXPECT_THAT(error(R"({"tools": [{"name": "a"}], "tool_choice": "auto"})", ToolFormat::kAnthropic),
              HasSubstr("tool_choice is \"auto\"; expected an object"));
  EXPECT_THAT(error(R"({"tools": [], "tool_choice": {"type": "any"}})", ToolFormat::kAnthropic),
              HasSubstr("there are no tools"));
}

}  // namespace
}  // namespace lacuna::tool_request_test
