// OpenAI's Responses.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "running_server.h"
#include "server/dialect.h"

namespace lacuna::responses_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kStory =
    "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?";

TEST(Responses, NameTheirToolsAlikeInAndOutsideOfAStream) {
  RunningServer server("mini-llada");
  const json tool{{"type", "function"},
                  {"name", "add"},
                  {"description", "Adds."},
                  {"parameters",
                   {{"type", "object"},
                    {"properties", {{"a", {{"type", "integer"}}}}},
                    {"required", {"a"}},
                    {"additionalProperties", false}}},
                  {"strict", true}};
  json body{{"input", kStory}, {"max_output_tokens", 80}, {"tools", {tool}}};
  const json whole = server.post("/v1/responses", body).json();
  EXPECT_EQ(whole["tools"], json::array({tool}));
  EXPECT_EQ(whole["usage"]["input_tokens_details"].size(), 2U);
  EXPECT_EQ(whole["usage"]["input_tokens_details"]["cache_write_tokens"], 0);
  body["tool_choice"] = {{"type", "function"}, {"name", "add"}};
  body["stream"] = true;
  int seen = 0;
  for (const json& event : server.post("/v1/responses", body).chunks()) {
    if (!event.contains("response")) continue;
    ++seen;
    EXPECT_EQ(event["response"]["tools"], json::array({tool})) << event["type"];
    EXPECT_EQ(event["response"]["tool_choice"], body["tool_choice"]);
  }
  EXPECT_EQ(seen, 3);
}

TEST(Responses, AnswerAsChatsDo) {
  RunningServer server("mini-llada");
  const json chat = server
                        .post("/v1/chat/completions",
                              {{"messages", {{{"role", "user"}, {"content", kStory}}}}, {"max_tokens", 32}})
                        .json();
  const json expected = chat["choices"][0]["message"]["content"];
  const json list = {{{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", kStory}}}}}};
  for (const json& input : {json(kStory), list}) {
    const json reply =
        server.post("/v1/responses", {{"input", input}, {"max_output_tokens", 32}, {"store", false}}).json();
    EXPECT_EQ(reply["object"], "response");
    EXPECT_EQ(reply["status"], "completed");
    EXPECT_EQ(reply["output"][0]["content"][0]["text"], expected);
    EXPECT_EQ(reply["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
    EXPECT_EQ(reply["usage"]["output_tokens"], chat["usage"]["completion_tokens"]);
  }
}

TEST(Responses, StreamTypedEvents) {
  RunningServer server("mini-llada");
  json body = {{"input", kStory}, {"max_output_tokens", 32}, {"include", {"message.output_text.logprobs"}}};
  const json whole = server.post("/v1/responses", body).json();
  body["stream"] = true;
  Call call = server.post("/v1/responses", body);
  std::vector<std::string> types;
  std::string text;
  int64_t number = 0;
  for (const json& event : call.chunks()) {
    EXPECT_EQ(event["sequence_number"], number++);
    if (types.empty() || types.back() != event["type"]) types.push_back(event["type"]);
    if (event["type"] == "response.output_text.delta") text += event["delta"].get<std::string>();
  }
  EXPECT_THAT(types, ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                                 "response.content_part.added", "response.output_text.delta",
                                 "response.output_text.done", "response.content_part.done",
                                 "response.output_item.done", "response.completed"));
  EXPECT_EQ(text, whole["output"][0]["content"][0]["text"]);
  const json last = call.chunks().back()["response"];
  EXPECT_EQ(last["output"][0]["content"], whole["output"][0]["content"]);
  EXPECT_EQ(last["usage"], whole["usage"]);
  EXPECT_THAT(call.body(), HasSubstr("event: response.completed\ndata: {"));
}

TEST(Responses, GiveLogprobsOfTheTextNextToTools) {
  RunningServer server("mini-llada");
  const json tool = {{"type", "function"}, {"name", "add"}};
  json body = {{"input", kStory},
               {"max_output_tokens", 32},
               {"include", {"message.output_text.logprobs"}},
               {"tools", {tool}}};
  const json whole = server.post("/v1/responses", body).json()["output"];
  ASSERT_EQ(whole[0]["type"], "message");  // this model has never seen a call
  const json content = whole[0]["content"][0];
  std::string text;
  for (const json& each : content["logprobs"]) text += each["token"].get<std::string>();
  EXPECT_EQ(text, content["text"]);
  EXPECT_FALSE(text.empty());
  body["stream"] = true;
  Call call = server.post("/v1/responses", body);
  json streamed = json::array();
  for (const json& event : call.chunks()) {
    if (event["type"] != "response.output_text.delta") continue;
    streamed.insert(streamed.end(), event["logprobs"].begin(), event["logprobs"].end());
  }
  EXPECT_EQ(streamed, content["logprobs"]);
  body["stream"] = false;
  body["tool_choice"] = "required";
  body["max_output_tokens"] = 96;
  EXPECT_EQ(server.post("/v1/responses", body).json()["output"][0]["type"], "function_call");
}

TEST(Responses, SayThatAnAnswerWasCutOff) {
  RunningServer server("mini-qwen");
  const json reply = server.post("/v1/responses", {{"input", kStory}, {"max_output_tokens", 2}}).json();
  EXPECT_EQ(reply["status"], "incomplete");
  EXPECT_EQ(reply["incomplete_details"]["reason"], "max_output_tokens");
}

TEST(Responses, AnswerInAForm) {
  RunningServer server("mini-llada");
  const json format = {
      {"type", "json_schema"}, {"name", "n"}, {"schema", {{"type", "integer"}, {"maximum", 99}}}};
  const json reply = server
                         .post("/v1/responses",
                               {{"input", kStory}, {"max_output_tokens", 16}, {"text", {{"format", format}}}})
                         .json();
  EXPECT_TRUE(json::parse(reply["output"][0]["content"][0]["text"].get<std::string>()).is_number_integer());
}

TEST(Responses, ShowToolsThatTheAnswerMayNotCall) {
  RunningServer server("mini-llada");
  const json tool = {{"type", "function"}, {"name", "add"}, {"parameters", nullptr}, {"strict", false}};
  json body = {{"input", "a"}, {"max_output_tokens", 1}, {"tools", {tool}}, {"tool_choice", "none"}};
  for (const bool is_parallel : {true, false}) {
    body["parallel_tool_calls"] = is_parallel;
    const json reply = server.post("/v1/responses", body).json();
    EXPECT_EQ(reply["tools"], json::array({tool}));
    EXPECT_EQ(reply["tool_choice"], "none");
    EXPECT_EQ(reply["parallel_tool_calls"], is_parallel);
  }
  const json plain = server.post("/v1/responses", {{"input", "a"}, {"max_output_tokens", 1}}).json();
  EXPECT_EQ(plain["tools"], json::array());
  EXPECT_EQ(plain["tool_choice"], "auto");
}

TEST(Responses, RefuseWhatIsStoredByName) {
  for (const json& fields :
       {json{{"previous_response_id", "resp_1"}}, json{{"conversation", "c"}}, json{{"background", true}},
        json{{"prompt", {{"id", "p"}}}}, json{{"top_logprobs", 21}}}) {
    json body = fields;
    body["input"] = "Hi";
    try {
      (void)kOpenAiResponses.parse(body, {});
      ADD_FAILURE() << body;
    } catch (const FieldError& error) {
      EXPECT_EQ(error.field(), fields.begin().key());
      EXPECT_THAT(error.what(), testing::StartsWith(fields.begin().key()));
    }
  }
}

TEST(Responses, LeaveOutWhatOnlyAnotherServiceCanUse) {
  const json body = {{"input",
                      {{{"role", "user"}, {"content", "a"}},
                       {{"type", "reasoning"}, {"summary", json::array()}},
                       {{"type", "web_search_call"}, {"id", "w"}},
                       {{"type", "custom_tool_call"}, {"call_id", "c"}, {"name", "n"}, {"input", "x"}},
                       {{"type", "custom_tool_call_output"}, {"call_id", "c"}, {"output", "y"}},
                       {{"role", "user"}, {"content", "b"}}}},
                     {"store", true},
                     {"truncation", "auto"},
                     {"reasoning", {{"effort", "low"}}},
                     {"text", {{"verbosity", "low"}}},
                     {"include", {"reasoning.encrypted_content"}}};
  GenerationRequest request = kOpenAiResponses.parse(body, {});
  note_object_fields(body, kResponsesObjects, kOpenAiResponses.fields(), {}, request);
  const auto& messages = std::get<Conversation>(request.prompts.at(0)).messages;
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[1]["content"], "b");
  EXPECT_THAT(request.left_out,
              testing::UnorderedElementsAre("reasoning", "web_search_call", "custom_tool_call",
                                            "custom_tool_call_output", "store", "truncation",
                                            "text.verbosity", "include"));
}

TEST(Responses, GiveTheTemplateTheEffortOfThinking) {
  const auto keywords = [](const json& reasoning) {
    const json body = {{"input", "a"}, {"reasoning", reasoning}};
    return std::get<Conversation>(kOpenAiResponses.parse(body, {}).prompts.at(0)).keywords;
  };
  EXPECT_EQ(keywords({{"effort", "low"}}).dump(), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(keywords({{"effort", "none"}}).dump(), R"({"reasoning_effort":"none","enable_thinking":false})");
  EXPECT_TRUE(keywords({{"summary", "auto"}}).empty());
  EXPECT_THROW(keywords({{"effort", 3}}), FieldError);
  RunningServer server("mini-llada");
  Call call =
      server.post("/v1/responses", {{"input", "Hi"},
                                    {"max_output_tokens", 4},
                                    {"reasoning", {{"effort", "low"}, {"summary", "auto"}, {"efort", 1}}},
                                    {"stream_options", {{"include_usage", true}}}});
  EXPECT_EQ(call.ignored(),
            "stream_options, reasoning.effort, reasoning.summary, reasoning.efort (unknown), "
            "stream_options.include_usage (unknown)");
}

TEST(Responses, SayHowToSendItemsThatAreReferredTo) {
  const json body = {{"input", {{{"type", "item_reference"}, {"id", "msg_1"}}}}};
  EXPECT_THAT([&] { (void)kOpenAiResponses.parse(body, {}); },
              testing::ThrowsMessage<FieldError>(testing::HasSubstr("expected the item itself")));
}

TEST(Responses, PutInstructionsFirst) {
  const GenerationRequest request = kOpenAiResponses.parse(
      {{"input", {{{"role", "developer"}, {"content", "b"}}, {{"role", "user"}, {"content", "c"}}}},
       {"instructions", "a"}},
      {});
  const auto& messages = std::get<Conversation>(request.prompts.at(0)).messages;
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0].dump(), R"({"role":"system","content":"a"})");
  EXPECT_EQ(messages[1].dump(), R"({"role":"system","content":"b"})");
}

}  // namespace
}  // namespace lacuna::responses_test
