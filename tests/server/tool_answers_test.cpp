// Requests with tools, from the body to the reply.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "running_server.h"
#include "temporary_folder.h"

namespace lacuna::tool_answers_test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::HasSubstr;

const json kTools = json::parse(R"([
    {"type": "function", "function": {"name": "add", "parameters": {"type": "object",
     "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["x", "y"]}}, "required": ["a"]}}},
    {"type": "function", "function": {"name": "now"}}])");

json request(const json& settings) {
  json body = {
      {"messages", {{{"role", "user"}, {"content", "Mia has 12 shells. How many shells does Mia have?"}}}},
      {"tools", kTools},
      {"max_tokens", 80},
      {"lacuna", {{"unmask", "threshold=0.7"}}}};
  body.update(settings);
  return body;
}

void expect_conforming(const json& call) {
  EXPECT_EQ(call["type"], "function");
  const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
  if (call["function"]["name"] == "now") {
    EXPECT_EQ(arguments, json::object());
    return;
  }
  EXPECT_EQ(call["function"]["name"], "add");
  EXPECT_TRUE(arguments["a"].is_number_unsigned() && arguments["a"] <= 99) << arguments;
  EXPECT_TRUE(!arguments.contains("b") || arguments["b"] == "x" || arguments["b"] == "y") << arguments;
}

/// The message that the deltas of a stream add up to, and what ended it.
json message_of(const std::vector<json>& chunks) {
  json message = {{"role", "assistant"}, {"content", nullptr}};
  std::string reason;
  for (const json& chunk : chunks) {
    if (chunk["choices"].empty()) continue;
    const json& choice = chunk["choices"][0];
    EXPECT_TRUE(reason.empty());
    if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
    const json& delta = choice["delta"];
    if (delta.contains("content") && delta["content"].is_string())
      message["content"] = message.value("content", json()).is_null()
                               ? delta["content"].get<std::string>()
                               : message["content"].get<std::string>() + delta["content"].get<std::string>();
    if (!delta.contains("tool_calls")) continue;
    const json& part = delta["tool_calls"][0];
    if (part.contains("id")) {
      EXPECT_EQ(part["index"], message.value("tool_calls", json::array()).size());
      message["tool_calls"].push_back(part);
      message["tool_calls"].back().erase("index");
    } else {
      json& whole = message["tool_calls"].back()["function"]["arguments"];
      whole = whole.get<std::string>() + part["function"]["arguments"].get<std::string>();
    }
  }
  message["finish_reason"] = reason;
  return message;
}

TEST(ToolAnswers, CallWhereACallIsRequiredStreamedAndNot) {
  for (const char* model : {"mini-llada", "mini-sdar"}) {
    RunningServer server(model);
    for (const json& choice :
         {json("required"), json{{"type", "function"}, {"function", {{"name", "now"}}}}, json("auto")}) {
      const json body = request({{"tool_choice", choice}, {"temperature", 0.7}, {"seed", 5}});
      const json reply = server.post("/v1/chat/completions", body).json();
      ASSERT_TRUE(reply.contains("choices")) << reply;
      json message = reply["choices"][0]["message"];
      message["finish_reason"] = reply["choices"][0]["finish_reason"];
      if (choice != "auto") {
        EXPECT_TRUE(message["content"].is_null());
        EXPECT_EQ(message["finish_reason"], "tool_calls");
        ASSERT_TRUE(message.contains("tool_calls")) << message;
      }
      for (const json& call : message.value("tool_calls", json::array())) {
        expect_conforming(call);
        EXPECT_TRUE(!choice.is_object() || call["function"]["name"] == "now") << call;
      }
      EXPECT_TRUE(!choice.is_object() || message["tool_calls"].size() == 1) << message;
      json streamed = body;
      streamed["stream"] = true;
      EXPECT_EQ(message_of(server.post("/v1/chat/completions", streamed).chunks()), message) << model;
    }
  }
}

TEST(ToolAnswers, CallOnceWhereCallsAreNotParallel) {
  RunningServer server("mini-llada");
  for (int seed = 1; seed <= 2; ++seed) {
    const json reply = server
                           .post("/v1/chat/completions", request({{"tool_choice", "required"},
                                                                  {"parallel_tool_calls", false},
                                                                  {"temperature", 1},
                                                                  {"seed", seed}}))
                           .json();
    EXPECT_EQ(reply["choices"][0]["message"]["tool_calls"].size(), 1U);
  }
}

TEST(ToolAnswers, AreTheFreeTextWhereTheModelCallsNothing) {
  RunningServer server("mini-llada");
  json body = request({{"max_tokens", 32}});
  const json reply = server.post("/v1/chat/completions", body).json();
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  EXPECT_FALSE(reply["choices"][0]["message"].contains("tool_calls"));
  // The same prompt without a constraint.
  const json prompt = server.post("/apply-template", body).json();
  const json free = server
                        .post("/v1/completions",
                              {{"prompt", prompt["tokens"]}, {"max_tokens", 32}, {"lacuna", body["lacuna"]}})
                        .json();
  EXPECT_EQ(reply["choices"][0]["message"]["content"], free["choices"][0]["text"]);
}

TEST(ToolAnswers, HaveIdsThatDependOnTheRequestAlone) {
  RunningServer server("mini-llada");
  const auto ids = [&](const json& settings) {
    const json body = request(settings);
    const json reply = server.post("/v1/chat/completions", body).json();
    std::vector<std::string> all;
    for (const json& choice : reply.value("choices", json::array())) {
      for (const json& call : choice["message"]["tool_calls"]) all.push_back(call["id"]);
    }
    return all;
  };
  const json now = {{"type", "function"}, {"function", {{"name", "now"}}}};
  const json required = {{"tool_choice", now}, {"n", 2}};
  const std::vector<std::string> once = ids(required);
  ASSERT_EQ(once.size(), 2U);
  EXPECT_NE(once[0], once[1]);
  EXPECT_EQ(ids(required), once);
  json longer = required;
  longer["messages"] = {{{"role", "user"}, {"content", "Mia has 12 shells."}}};
  EXPECT_NE(ids(longer)[0], once[0]);
}

TEST(ToolAnswers, LeaveFunctionsOutWhereThereIsNoChoice) {
  RunningServer server("mini-llada");
  const json plain = server.post("/apply-template", request({{"tools", nullptr}})).json();
  EXPECT_EQ(server.post("/apply-template", request({{"tool_choice", "none"}})).json(), plain);
  const json described = server.post("/apply-template", request(json::object())).json();
  EXPECT_THAT(described["prompt"].get<std::string>(),
              HasSubstr("<tools>\n{\"function\": {\"name\": \"add\", \"parameters\""));
  const json reply =
      server
          .post("/v1/chat/completions",
                request({{"tool_choice", "none"}, {"response_format", {{"type", "json_object"}}}}))
          .json();
  EXPECT_TRUE(json::accept(reply["choices"][0]["message"]["content"].get<std::string>()));
}

TEST(ToolAnswers, ContinueWithTheResults) {
  RunningServer server("mini-llada");
  json body = request({{"tool_choice", "required"}, {"parallel_tool_calls", false}});
  const json message = server.post("/v1/chat/completions", body).json()["choices"][0]["message"];
  body["messages"].push_back(message);
  body["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", message["tool_calls"][0]["id"]}, {"content", "19"}});
  body["tool_choice"] = "auto";
  EXPECT_THAT(
      server.post("/apply-template", body).json()["prompt"].get<std::string>(),
      HasSubstr("</tool_call><|eot_id|><|start_header_id|>user<|end_header_id|>\n\n<tool_response>\n19\n"
                "</tool_response><|eot_id|>"));
  EXPECT_EQ(server.post("/v1/chat/completions", body).json()["choices"][0]["message"]["role"], "assistant");
}

TEST(ToolAnswers, AreRefusedByTheFieldThatIsWrong) {
  RunningServer server("mini-llada");
  const auto refusal = [&](const json& settings) {
    Call call = server.post("/v1/chat/completions", request(settings));
    EXPECT_EQ(call.status(), 400);
    return call.json()["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(refusal({{"max_tokens", 5}, {"tool_choice", "required"}}),
              HasSubstr("max_tokens 5 is too short"));
  EXPECT_THAT(refusal({{"response_format", {{"type", "json_schema"}, {"schema", {{"extends", true}}}}}}),
              HasSubstr("response_format: schema: \"#/extends\" is not supported"));
  EXPECT_THAT(refusal({{"tool_choice", "required"}, {"lacuna", {{"regex", "a"}}}}),
              HasSubstr("lacuna.regex has no effect here: tool_choice requires a call"));
  EXPECT_THAT(refusal({{"functions", kTools}}), HasSubstr("functions is not supported; use tools"));
  json schema = kTools;
  schema[1]["function"]["parameters"] = {{"properties", {{"x", {{"$dynamicRef", "#a"}}}}}};
  Call relaxed = server.post("/v1/chat/completions", request({{"tools", schema}}));
  EXPECT_EQ(relaxed.status(), 200);
  EXPECT_EQ(relaxed.ignored(), "tools.1.function.parameters");
  schema[1]["function"]["strict"] = true;
  EXPECT_THAT(refusal({{"tools", schema}}), HasSubstr("tools.1.function.parameters"));
  Call completion = server.post("/v1/completions", {{"prompt", "a"}, {"tools", kTools}});
  EXPECT_EQ(completion.status(), 400);
  RunningServer slots("mini-refusion");
  EXPECT_THAT(slots.post("/v1/chat/completions", request({{"lacuna", {{"refusion", "released"}}}}))
                  .json()["error"]["message"]
                  .get<std::string>(),
              HasSubstr("tools: the answer cannot be constrained: only lacuna.refusion"));
}

/// Whether a reply of chats calls a function, or answers as the schema says.
void expect_call_or_count(const json& choice) {
  const json& message = choice["message"];
  if (message.contains("tool_calls")) {
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    for (const json& call : message["tool_calls"]) expect_conforming(call);
    EXPECT_TRUE(message["content"].is_null()) << message;
  } else {
    const json answer = json::parse(message["content"].get<std::string>());
    EXPECT_EQ(answer.size(), 1U) << answer;
    EXPECT_TRUE(answer["count"].is_number_integer()) << answer;
  }
}

TEST(ToolAnswers, AreCallsOrInTheFormThatTheAnswerHas) {
  const json schema = {{"type", "object"},
                       {"properties", {{"count", {{"type", "integer"}, {"maximum", 99}}}}},
                       {"required", {"count"}},
                       {"additionalProperties", false}};
  const json format = {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", schema}}}};
  for (const char* model : {"mini-llada", "mini-qwen"}) {
    RunningServer server(model);
    size_t num_calls = 0;
    for (int seed = 0; seed < 6; ++seed) {
      const json body =
          request({{"response_format", format}, {"seed", seed}, {"temperature", 1}, {"lacuna", nullptr}});
      Call call = server.post("/v1/chat/completions", body);
      ASSERT_EQ(call.status(), 200) << call.body();
      EXPECT_EQ(call.ignored(), "");
      const json choice = call.json()["choices"][0];
      expect_call_or_count(choice);
      num_calls += choice["message"].contains("tool_calls");
    }
    RecordProperty(std::string("calls_") + model, std::to_string(num_calls));
    const json required = request({{"response_format", format}, {"tool_choice", "any"}, {"lacuna", nullptr}});
    Call call = server.post("/v1/chat/completions", required);
    EXPECT_EQ(call.ignored(), "response_format");
    EXPECT_TRUE(call.json()["choices"][0]["message"].contains("tool_calls"));
  }
}

// The same tools in other APIs.

json function_of(const json& tool, const char* schema) {
  json function = {{"name", tool["function"]["name"]}};
  if (tool["function"].contains("parameters")) function[schema] = tool["function"]["parameters"];
  return function;
}

json flat_tools(const char* schema) {
  json tools = json::array();
  for (const json& tool : kTools) tools.push_back(function_of(tool, schema));
  return tools;
}

void expect_conforming(const std::string& name, const json& arguments) {
  expect_conforming({{"type", "function"}, {"function", {{"name", name}, {"arguments", arguments.dump()}}}});
}

TEST(ToolAnswers, AreItemsOfResponses) {
  RunningServer server("mini-llada");
  json tools = flat_tools("parameters");
  for (json& tool : tools) tool["type"] = "function";
  for (const json& choice : {json("required"), json{{"type", "function"}, {"name", "now"}}, json("auto")}) {
    json body = {{"input", "Mia has 12 shells. How many shells does Mia have?"},
                 {"tools", tools},
                 {"tool_choice", choice},
                 {"max_output_tokens", 80},
                 {"lacuna", {{"unmask", "threshold=0.7"}}}};
    const json reply = server.post("/v1/responses", body).json();
    ASSERT_TRUE(reply.contains("output")) << reply;
    EXPECT_EQ(reply["status"], "completed");
    for (const json& item : reply["output"]) {
      EXPECT_TRUE(choice == "auto" || item["type"] == "function_call") << item;
      if (item["type"] != "function_call") continue;
      expect_conforming(item["name"], json::parse(item["arguments"].get<std::string>()));
    }
    body["stream"] = true;
    json streamed = json::array();
    std::string arguments;
    for (const json& event : server.post("/v1/responses", body).chunks()) {
      if (event["type"] == "response.output_item.added") arguments.clear();
      if (event["type"] == "response.function_call_arguments.delta") {
        EXPECT_EQ(event["output_index"], streamed.size());
        arguments += event["delta"].get<std::string>();
      }
      if (event["type"] == "response.function_call_arguments.done") {
        EXPECT_EQ(event["arguments"], arguments);
      }
      if (event["type"] == "response.output_item.done") streamed.push_back(event["item"]);
      if (event["type"] == "response.completed") {
        EXPECT_EQ(event["response"]["output"], streamed);
      }
    }
    json wanted = reply["output"];
    for (json* items : {&streamed, &wanted}) {
      for (json& item : *items) {
        if (item["type"] == "message") item.erase("id");
      }
    }
    EXPECT_EQ(streamed, wanted);
  }
}

TEST(ToolAnswers, ContinueAResponseWithTheOutputs) {
  RunningServer server("mini-llada");
  json tools = flat_tools("parameters");
  for (json& tool : tools) tool["type"] = "function";
  json body = {{"input", {{{"role", "user"}, {"content", "Mia has 12 shells."}}}},
               {"tools", tools},
               {"tool_choice", "required"},
               {"max_output_tokens", 80}};
  const json reply = server.post("/v1/responses", body).json();
  for (const json& item : reply["output"]) body["input"].push_back(item);
  for (const json& item : reply["output"])
    body["input"].push_back(
        {{"type", "function_call_output"}, {"call_id", item["call_id"]}, {"output", "19"}});
  body["tool_choice"] = "auto";
  EXPECT_EQ(server.post("/v1/responses", body).status(), 200);
  body["input"].back()["call_id"] = "call_of_nobody";
  EXPECT_THAT(server.post("/v1/responses", body).json()["error"]["message"].get<std::string>(),
              HasSubstr("call_id is \"call_of_nobody\"; expected the id of a call"));
}

TEST(ToolAnswers, AreBlocksOfMessages) {
  RunningServer server("mini-llada");
  for (const char* type : {"any", "auto", "tool"}) {
    json body = {{"messages", {{{"role", "user"}, {"content", "Mia has 12 shells. How many shells?"}}}},
                 {"tools", flat_tools("input_schema")},
                 {"tool_choice", {{"type", type}}},
                 {"max_tokens", 80},
                 {"lacuna", {{"unmask", "threshold=0.7"}}}};
    if (type == std::string("tool")) body["tool_choice"]["name"] = "now";
    const json reply = server.post("/v1/messages", body).json();
    ASSERT_TRUE(reply.contains("content")) << reply;
    EXPECT_TRUE(type == std::string("auto") || reply["stop_reason"] == "tool_use") << reply;
    for (const json& block : reply["content"]) {
      EXPECT_TRUE(type == std::string("auto") || block["type"] == "tool_use") << block;
      if (block["type"] == "tool_use") expect_conforming(block["name"], block["input"]);
    }
    body["stream"] = true;
    json streamed = json::array();
    std::string input;
    for (const json& event : server.post("/v1/messages", body).chunks()) {
      if (event["type"] == "content_block_start") {
        EXPECT_EQ(event["index"], streamed.size());
        streamed.push_back(event["content_block"]);
        input.clear();
      } else if (event["type"] == "content_block_delta") {
        const json& delta = event["delta"];
        if (delta["type"] == "text_delta") {
          streamed.back()["text"] =
              streamed.back()["text"].get<std::string>() + delta["text"].get<std::string>();
        } else {
          input += delta["partial_json"].get<std::string>();
        }
      } else if (event["type"] == "content_block_stop" && streamed.back()["type"] == "tool_use") {
        streamed.back()["input"] = json::parse(input);
      } else if (event["type"] == "message_delta") {
        EXPECT_EQ(event["delta"]["stop_reason"], reply["stop_reason"]);
      }
    }
    EXPECT_EQ(streamed, reply["content"]);
  }
}

TEST(ToolAnswers, ContinueMessagesWithTheResults) {
  RunningServer server("mini-llada");
  json body = {{"messages", {{{"role", "user"}, {"content", "Mia has 12 shells."}}}},
               {"tools", flat_tools("input_schema")},
               {"tool_choice", {{"type", "any"}, {"disable_parallel_tool_use", true}}},
               {"max_tokens", 80}};
  const json reply = server.post("/v1/messages", body).json();
  ASSERT_EQ(reply["content"].size(), 1U) << reply;
  body["messages"].push_back({{"role", "assistant"}, {"content", reply["content"]}});
  const json result = {
      {"type", "tool_result"}, {"tool_use_id", reply["content"][0]["id"]}, {"content", "19"}};
  body["messages"].push_back(
      {{"role", "user"}, {"content", {result, {{"type", "text"}, {"text", "And now?"}}}}});
  body["tool_choice"] = {{"type", "auto"}};
  EXPECT_EQ(server.post("/v1/messages", body).status(), 200);
  body["messages"].back()["content"][0]["tool_use_id"] = "toolu_1";
  EXPECT_THAT(server.post("/v1/messages", body).json()["error"]["message"].get<std::string>(),
              HasSubstr("messages.2.content.0.tool_use_id is \"toolu_1\""));
}

TEST(ToolAnswers, AreObjectsInOllamasChats) {
  RunningServer server("mini-llada");
  json body = {{"messages", {{{"role", "user"}, {"content", "Mia has 12 shells. How many shells?"}}}},
               {"tools", kTools},
               {"options", {{"num_predict", 80}}},
               {"stream", false},
               {"lacuna", {{"unmask", "threshold=0.7"}}}};
  for (const int seed : {1, 2, 3, 4}) {
    body["options"]["seed"] = seed;
    body["options"]["temperature"] = 1.5;
    body["stream"] = false;
    const json message = server.post("/api/chat", body).json()["message"];
    const json calls = message.value("tool_calls", json::array());
    for (const json& call : calls) expect_conforming(call["function"]["name"], call["function"]["arguments"]);
    body["stream"] = true;
    json streamed = json::array();
    std::string content;
    const std::string lines = server.post("/api/chat", body).body();
    for (size_t begin = 0; begin < lines.size(); begin = lines.find('\n', begin) + 1) {
      const json line = json::parse(lines.substr(begin, lines.find('\n', begin) - begin));
      content += line["message"]["content"].get<std::string>();
      for (const json& call : line["message"].value("tool_calls", json::array())) streamed.push_back(call);
    }
    EXPECT_EQ(streamed, calls);
    EXPECT_EQ(content, message["content"]);
  }
  const json call = {{"function", {{"name", "add"}, {"arguments", {{"a", 1}}}}}};
  body["messages"].push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}});
  body["messages"].push_back({{"role", "tool"}, {"tool_name", "add"}, {"content", "19"}});
  EXPECT_EQ(server.post("/api/chat", body).status(), 200);
}

/// mini-llada, whose last two tokens are tags.
void write_model_with_tags(const TemporaryFolder& folder, bool are_special) {
  for (const char* file :
       {"config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json"}) {
    std::filesystem::create_symlink(zoo_folder("mini-llada") / file, folder.path() / file);
  }
  std::ifstream file(zoo_folder("mini-llada") / "tokenizer.json");
  ordered_json tokenizer = ordered_json::parse(file);
  ordered_json& merges = tokenizer["model"]["merges"];
  for (int i = 0; i < 2; ++i) {
    const ordered_json& last = merges.back();
    const std::string merged = last.is_string()
                                   ? last.get<std::string>().erase(last.get<std::string>().find(' '), 1)
                                   : last[0].get<std::string>() + last[1].get<std::string>();
    ordered_json tag = tokenizer["added_tokens"][0];
    tag["id"] = tokenizer["model"]["vocab"].at(merged);
    tag["content"] = i == 0 ? "</tool_call>" : "<tool_call>";
    tag["special"] = are_special;
    tokenizer["added_tokens"].push_back(tag);
    tokenizer["model"]["vocab"].erase(merged);
    merges.erase(merges.size() - 1);
  }
  folder.write("tokenizer.json", tokenizer.dump());
}

TEST(ToolAnswers, TakeTheTagsAsTokensWhereTheModelHasThem) {
  for (const bool are_special : {false, true}) {
    const TemporaryFolder folder;
    write_model_with_tags(folder, are_special);
    RunningServer server(folder.path().string());
    const TokenId begin = server.tokenizer().id_of("<tool_call>").value();
    const TokenId end = server.tokenizer().id_of("</tool_call>").value();
    const json reply = server
                           .post("/v1/chat/completions",
                                 request({{"tool_choice", "required"}, {"parallel_tool_calls", false}}))
                           .json();
    const json& choice = reply["choices"][0];
    ASSERT_TRUE(choice["message"].contains("tool_calls")) << reply;
    expect_conforming(choice["message"]["tool_calls"][0]);
    const auto tokens = choice["lacuna"]["tokens"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokens.front(), begin);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), end), 1);
  }
}

/// mini-llada with a template that shows calls in a form of its own.
void write_model_with_template(const TemporaryFolder& folder, const std::string& call) {
  for (const char* file : {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                           "tokenizer_config.json"}) {
    std::filesystem::create_symlink(zoo_folder("mini-llada") / file, folder.path() / file);
  }
  folder.write("chat_template.jinja",
               "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}{{ m.role }}: "
               "{{ m.content }}"
               "{% for c in m.tool_calls or [] %}{% set f = c.function %}" +
                   call + "{% endfor %}\n{% endfor %}assistant:");
}

TEST(ToolAnswers, CallInTheFormThatTheTemplateShows) {
  const std::string bare =
      R"({{ '{"name": "' + f.name + '", "parameters": ' }}{{ f.arguments | tojson }}{{ '}' }})";
  const std::string quoted =
      R"(<|tool_call>call:{{ f.name }}{{ '{' }}{% for k, v in f.arguments | dictsort %}{{ k }}:{{ '<|"|>' + v + '<|"|>' if v is string else v }}{{ ',' if not loop.last }}{% endfor %}{{ '}' }}<tool_call|>)";
  for (const std::string& call : {bare, quoted}) {
    const TemporaryFolder folder;
    write_model_with_template(folder, call);
    RunningServer server(folder.path().string());
    for (const char* choice : {"required", "auto"}) {
      json body = request({{"tool_choice", choice}, {"temperature", 0.7}, {"seed", 5}});
      const json reply = server.post("/v1/chat/completions", body).json();
      ASSERT_TRUE(reply.contains("choices")) << reply;
      json message = reply["choices"][0]["message"];
      message["finish_reason"] = reply["choices"][0]["finish_reason"];
      if (choice == std::string("required")) {
        EXPECT_EQ(message["finish_reason"], "tool_calls") << reply;
        EXPECT_TRUE(message["content"].is_null()) << reply;
      }
      const std::string text =
          server.tokenizer().decode(reply["choices"][0]["lacuna"]["tokens"].get<std::vector<TokenId>>());
      const json calls = message.value("tool_calls", json::array());
      for (const json& each : calls) {
        const std::string name = each["function"]["name"];
        EXPECT_TRUE(name == "add" || name == "now") << each;
        const json arguments = json::parse(each["function"]["arguments"].get<std::string>());
        EXPECT_TRUE(name == "now" ? arguments.empty() : arguments["a"].is_number_integer()) << each;
        EXPECT_THAT(text, HasSubstr(call == bare ? "{\"name\": \"" + name + "\", \"parameters\": {"
                                                 : "<|tool_call>call:" + name + "{"));
      }
      EXPECT_TRUE(call != bare || calls.size() <= 1) << "a call is the whole answer";
      body["stream"] = true;
      EXPECT_EQ(message_of(server.post("/v1/chat/completions", body).chunks()), message);
    }
  }
}

}  // namespace
}  // namespace lacuna::tool_answers_test
