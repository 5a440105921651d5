// Anthropic's Messages.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "running_server.h"
#include "server/dialect.h"

namespace lacuna::anthropic_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kStory =
    "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?";

json body_of(int max_tokens) {
  return {{"max_tokens", max_tokens},
          {"messages", {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", kStory}}}}}}}};
}

TEST(AnthropicMessages, AnswerAsChatsDo) {
  RunningServer server("mini-llada");
  const json chat = server
                        .post("/v1/chat/completions",
                              {{"messages", {{{"role", "user"}, {"content", kStory}}}}, {"max_tokens", 32}})
                        .json();
  const json reply = server.post("/v1/messages", body_of(32)).json();
  EXPECT_EQ(reply["type"], "message");
  EXPECT_EQ(reply["role"], "assistant");
  EXPECT_EQ(reply["content"][0]["text"], chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(reply["stop_reason"], "end_turn");
  EXPECT_EQ(reply["usage"]["output_tokens"], chat["usage"]["completion_tokens"]);
  EXPECT_EQ(reply["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
}

TEST(AnthropicMessages, NameTheSequenceThatStoppedThem) {
  RunningServer server("mini-llada");
  json body = body_of(32);
  body["stop_sequences"] = {"nothing like it", "answer"};
  const json reply = server.post("/v1/messages", body).json();
  EXPECT_EQ(reply["stop_reason"], "stop_sequence");
  EXPECT_EQ(reply["stop_sequence"], "answer");
  RunningServer causal("mini-qwen");
  EXPECT_EQ(causal.post("/v1/messages", body_of(2)).json()["stop_reason"], "max_tokens");
}

TEST(AnthropicMessages, StreamTheirEvents) {
  RunningServer server("mini-llada");
  json body = body_of(32);
  const json whole = server.post("/v1/messages", body).json();
  body["stream"] = true;
  std::vector<std::string> types;
  std::string text;
  json delta;
  Call call = server.post("/v1/messages", body);
  for (const json& event : call.chunks()) {
    if (types.empty() || types.back() != event["type"]) types.push_back(event["type"]);
    if (event["type"] == "content_block_delta") text += event["delta"]["text"].get<std::string>();
    if (event["type"] == "message_delta") delta = event;
    if (event["type"] == "message_start") {
      EXPECT_EQ(event["message"]["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
    }
  }
  EXPECT_THAT(types, ElementsAre("message_start", "content_block_start", "content_block_delta",
                                 "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(text, whole["content"][0]["text"]);
  EXPECT_EQ(delta["delta"]["stop_reason"], "end_turn");
  EXPECT_EQ(delta["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
  EXPECT_THAT(call.body(), HasSubstr("event: message_stop\ndata: {"));
}

TEST(AnthropicMessages, HaveErrorsOfTheirOwnForm) {
  RunningServer server("mini-llada");
  HttpRequest request{"POST", "/v1/messages", "", R"({"messages": []})"};
  request.id = "req_7";
  Call call(server.service(), request);
  EXPECT_EQ(call.status(), 400);
  const json reply = call.json();
  EXPECT_EQ(reply["type"], "error");
  EXPECT_EQ(reply["error"]["type"], "invalid_request_error");
  EXPECT_EQ(reply["request_id"], "req_7");
  const auto message = [&](const json& body) {
    return server.post("/v1/messages", body).json()["error"]["message"].get<std::string>();
  };
  json body = body_of(32);
  body.erase("max_tokens");
  EXPECT_THAT(message(body), testing::StartsWith("max_tokens is missing"));
  body = body_of(-1);
  EXPECT_THAT(message(body), testing::StartsWith("max_tokens is"));
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{
           {"tools", {{{"name", ""}}}}, {"thinking", {{"type", "on"}}}, {"stop_sequences", "a"}}) {
    body = body_of(32);
    body[key] = value;
    EXPECT_THAT(message(body), testing::StartsWith(key));
  }
  ServiceSettings settings;
  settings.access.keys = {"secret"};
  RunningServer closed("mini-llada", {}, std::move(settings));
  EXPECT_EQ(closed.post("/v1/messages", body_of(2)).json()["error"]["type"], "authentication_error");
  HttpRequest with_key{"POST", "/v1/messages", "", body_of(2).dump()};
  with_key.api_key = "secret";
  EXPECT_EQ(Call(closed.service(), with_key).status(), 200);
}

TEST(AnthropicMessages, LeaveOutWhatOnlyAnotherServiceCanUse) {
  json body = body_of(4);
  const json mark = {{"type", "ephemeral"}};
  const json question = {{"type", "text"}, {"text", "Hi"}, {"cache_control", mark}};
  const json thought = {{"type", "thinking"}, {"thinking", "hm"}, {"signature", "s"}};
  const json hidden = {{"type", "redacted_thinking"}, {"data", "x"}};
  const json search = {
      {"type", "server_tool_use"}, {"id", "a"}, {"name", "web_search"}, {"input", json::object()}};
  const json found = {{"type", "web_search_tool_result"}, {"tool_use_id", "a"}, {"content", json::array()}};
  const json answer = {{"type", "text"}, {"text", "Hello"}};
  const json note = {{"type", "document"},
                     {"source", {{"type", "text"}, {"media_type", "text/plain"}, {"data", "A note."}}}};
  const json result = {{"type", "search_result"},
                       {"source", "s"},
                       {"title", "t"},
                       {"content", {{{"type", "text"}, {"text", "Found."}}}}};
  body["messages"] = {{{"role", "user"}, {"content", {question}}},
                      {{"role", "assistant"}, {"content", {thought, hidden, search, found, answer}}},
                      {{"role", "system"}, {"content", "Be kind."}},
                      {{"role", "user"}, {"content", {note, result, question}}}};
  for (const char* type : {"enabled", "adaptive"}) {
    body["thinking"] = {{"type", type}};
    GenerationRequest request = kAnthropicMessages.parse(parse_body(body.dump()), {});
    note_object_fields(body, kMessagesObjects, kAnthropicMessages.fields(), {}, request);
    const auto& messages = std::get<Conversation>(request.prompts.at(0)).messages;
    ASSERT_EQ(messages.size(), 4U);
    EXPECT_EQ(messages[1]["content"], "Hello");
    EXPECT_EQ(messages[2]["role"], "system");
    EXPECT_EQ(messages[3]["content"], "A note.Found.Hi");
    EXPECT_THAT(request.left_out, testing::UnorderedElementsAre("cache_control", "source", "title",
                                                                "thinking", "redacted_thinking",
                                                                "server_tool_use", "web_search_tool_result"));
  }
  body["messages"][0]["content"][0] = {{"type", "image"}, {"source", json::object()}};
  try {
    (void)kAnthropicMessages.parse(parse_body(body.dump()), {});
    ADD_FAILURE();
  } catch (const FieldError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("messages.0.content.0.type is "));
    EXPECT_THAT(error.what(), HasSubstr("this server reads texts alone"));
  }
}

TEST(AnthropicMessages, PutTheSystemFirst) {
  json body = body_of(4);
  body["system"] = {{{"type", "text"}, {"text", "Be "}}, {{"type", "text"}, {"text", "brief."}}};
  const GenerationRequest request = kAnthropicMessages.parse(parse_body(body.dump()), {});
  const auto& messages = std::get<Conversation>(request.prompts.at(0)).messages;
  EXPECT_EQ(messages.at(0).dump(), R"({"role":"system","content":"Be brief."})");
}

}  // namespace
}  // namespace lacuna::anthropic_test
