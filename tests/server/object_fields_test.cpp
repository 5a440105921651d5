// Members of the objects within bodies: each that is misspelt is named, whatever the object.
#include "server/object_fields.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/name_list.h"
#include "running_server.h"
#include "server/api_request.h"
#include "server/dialect.h"

namespace lacuna::object_fields_test {
namespace {

using json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

/// Bodies that have all objects of an API. Arguments, schemas and results are the client's own.
struct Sample {
  std::string path;
  const Dialect* dialect;
  json body;
};

json text_part(const char* type) {
  return {{"type", type}, {"text", "Hi"}};
}

std::vector<Sample> samples() {
  const json schema = json::parse(R"({"type": "object", "properties": {}, "additionalProperties": false})");
  const json format = {{"type", "json_schema"}, {"schema", schema}};
  const json function = {{"name", "add"}, {"description", "Adds."}, {"parameters", schema}};
  const json tool = {{"type", "function"}, {"function", function}};
  const json call = {{"id", "c"}, {"type", "function"}, {"function", {{"name", "add"}, {"arguments", "{}"}}}};
  const json custom_call = {{"id", "d"}, {"type", "custom"}, {"custom", {{"name", "patch"}, {"input", "x"}}}};
  json own_call = call;
  own_call["function"]["arguments"] = json::object();
  const json turns = {{{"role", "user"}, {"content", {text_part("text")}}},
                      {{"role", "assistant"}, {"tool_calls", {call, custom_call}}},
                      {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "1"}},
                      {{"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "No"}}}}},
                      {{"role", "user"}, {"content", "Hi"}}};
  json flat = function;
  flat["type"] = "function";
  const json items = {
      {{"role", "user"}, {"content", {text_part("input_text")}}},
      {{"type", "message"}, {"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "No"}}}}},
      {{"type", "function_call"}, {"call_id", "c"}, {"name", "add"}, {"arguments", "{}"}},
      {{"type", "function_call_output"}, {"call_id", "c"}, {"output", {text_part("input_text")}}}};
  const json note = {{"type", "document"}, {"source", {{"type", "text"}, {"data", "A"}}}};
  const json notes = {{"type", "document"},
                      {"source", {{"type", "content"}, {"content", {text_part("text")}}}}};
  const json found = {{"type", "search_result"}, {"content", {text_part("text")}}};
  const json blocks = {
      {{"role", "user"}, {"content", {text_part("text"), note, notes, found}}},
      {{"role", "assistant"},
       {"content", {{{"type", "tool_use"}, {"id", "c"}, {"name", "add"}, {"input", json::object()}}}}},
      {{"role", "user"},
       {"content",
        {{{"type", "tool_result"},
          {"tool_use_id", "c"},
          {"content", {text_part("text"), note, notes, found}}}}}}};
  return {
      {"/v1/chat/completions",
       &kOpenAiChat,
       {{"messages", {turns[0]}},
        {"tools", {tool}},
        {"tool_choice",
         {{"type", "allowed_tools"},
          {"allowed_tools",
           {{"mode", "auto"}, {"tools", {{{"type", "function"}, {"function", {{"name", "add"}}}}}}}}}},
        {"max_tokens", 64}}},
      {"/v1/responses",
       &kOpenAiResponses,
       {{"input", "a"},
        {"tools", {flat}},
        {"tool_choice",
         {{"type", "allowed_tools"}, {"mode", "auto"}, {"tools", {{{"type", "function"}, {"name", "add"}}}}}},
        {"max_output_tokens", 64}}},
      {"/v1/chat/completions",
       &kOpenAiChat,
       {{"messages", turns},
        {"tools", {tool}},
        {"tool_choice", {{"type", "function"}, {"function", {{"name", "add"}}}}},
        {"stream_options", {{"include_usage", true}}},
        {"max_tokens", 64}}},
      {"/v1/chat/completions",
       &kOpenAiChat,
       {{"messages", {turns[0]}},
        {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", schema}}}}},
        {"max_tokens", 64}}},
      {"/v1/chat/completions",
       &kOpenAiChat,
       {{"messages", {turns[0]}}, {"response_format", {{"type", "json_object"}}}, {"max_tokens", 64}}},
      {"/v1/completions",
       &kOpenAiCompletions,
       {{"prompt", "a"}, {"structured_outputs", {{"choice", {"a"}}}}, {"max_tokens", 4}}},
      {"/v1/infill",
       &kLacunaInfill,
       {{"input", {"a", {{"hole", {{"min", 1}, {"max", 2}}}}, {{"tokens", {5}}}}}}},
      {"/v1/responses",
       &kOpenAiResponses,
       {{"input", items},
        {"text", {{"verbosity", "low"}}},
        {"reasoning", {{"effort", "none"}}},
        {"stream_options", {{"include_obfuscation", false}}},
        {"tools", {flat}},
        {"tool_choice", {{"type", "function"}, {"name", "add"}}},
        {"max_output_tokens", 64}}},
      {"/v1/responses",
       &kOpenAiResponses,
       {{"input", "a"}, {"text", {{"format", format}}}, {"max_output_tokens", 64}}},
      {"/v1/responses",
       &kOpenAiResponses,
       {{"input", "a"}, {"text", {{"format", {{"type", "text"}}}}}, {"max_output_tokens", 1}}},
      {"/v1/messages",
       &kAnthropicMessages,
       {{"messages", blocks},
        {"system", {text_part("text")}},
        {"tools", {{{"name", "add"}, {"input_schema", schema}}}},
        {"tool_choice", {{"type", "any"}}},
        {"thinking", {{"type", "adaptive"}}},
        {"max_tokens", 64}}},
      {"/v1/messages",
       &kAnthropicMessages,
       {{"messages", {blocks[0]}}, {"output_config", {{"format", format}}}, {"max_tokens", 64}}},
      {"/v1/messages",
       &kAnthropicMessages,
       {{"messages", {blocks[0]}}, {"output_format", format}, {"max_tokens", 64}}},
      {"/api/chat",
       &kOllamaChat,
       {{"messages",
         {turns[0],
          {{"role", "assistant"}, {"tool_calls", {own_call}}},
          {{"role", "tool"}, {"tool_name", "add"}, {"content", "1"}}}},
        {"tools", {tool}},
        {"options", {{"num_predict", 64}}},
        {"stream", false}}},
      {"/completion", &kLlamaCppCompletion, {{"prompt", {{"prompt_string", "a"}}}, {"n_predict", 1}}},
      {"/completion", &kLlamaCppCompletion, {{"prompt", {{{"prompt_string", "a"}}}}, {"n_predict", 1}}},
  };
}

/// The places of the objects in a body, as JSON pointers: all but those whose members are the client's own.
void add_objects(const json& value, const json::json_pointer& at, std::vector<json::json_pointer>& places) {
  constexpr std::string_view kFree = "schema parameters input_schema arguments lacuna";
  if (value.is_object() && !at.empty()) places.push_back(at);
  for (const auto& [key, member] : value.items()) {
    const bool is_call_input = key == "input" && value.is_object() && value.contains("id");
    if (value.is_object() && (has_name(kFree, key) || is_call_input)) continue;
    if (member.is_structured())
      add_objects(member, value.is_array() ? at / std::stoul(key) : at / key, places);
  }
}

/// "tools.0.function" of "/tools/0/function".
std::string dotted(const json::json_pointer& place) {
  std::string text = place.to_string().substr(1);
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

TEST(ObjectFields, OfEveryObjectOfARequestNameAMisspeltMemberAndAreRefusedWhereFieldsAreStrict) {
  ServiceSettings settings;
  settings.refuses_unknown_fields = true;
  RunningServer server("mini-llada"), strict("mini-llada", {}, std::move(settings));
  for (const Sample& sample : samples()) {
    std::vector<json::json_pointer> places;
    add_objects(sample.body, json::json_pointer(), places);
    json all = sample.body;
    for (size_t i = 0; i < places.size(); ++i) all[places[i]]["nmae" + std::to_string(i)] = 1;
    Call call = server.post(sample.path, all);
    EXPECT_EQ(call.status(), 200) << call.body();
    const std::string ignored = call.ignored();
    EXPECT_EQ(std::count(ignored.begin(), ignored.end(), '('), static_cast<ptrdiff_t>(places.size()))
        << ignored;
    for (size_t i = 0; i < places.size(); ++i) {
      const std::string name = dotted(places[i]) + ".nmae" + std::to_string(i);
      EXPECT_THAT(ignored, HasSubstr(name + " (unknown)")) << sample.path;
      json body = sample.body;
      body[places[i]]["nmae" + std::to_string(i)] = 1;
      Call refused = strict.post(sample.path, body);
      EXPECT_EQ(refused.status(), 400) << name;
      EXPECT_THAT(refused.body(), HasSubstr(name + " is not a field")) << sample.path;
    }
  }
}

/// The paths of the rows that a walk of the samples meets.
TEST(ObjectFields, AreAllInTheSamples) {
  std::map<std::span<const ObjectFields>::pointer, std::set<std::string>> seen;
  for (const Sample& sample : samples()) {
    std::vector<json::json_pointer> places;
    add_objects(sample.body, json::json_pointer(), places);
    for (const json::json_pointer& place : places) {
      std::string path;
      for (json::json_pointer rest = place; !rest.empty(); rest = rest.parent_pointer()) {
        const std::string step = rest.back();
        path = (step.find_first_not_of("0123456789") == step.npos ? "*" : step) + (path.empty() ? "" : ".") +
               path;
      }
      seen[sample.dialect->objects.data()].insert(path);
    }
  }
  for (const auto& objects : {kOpenAiObjects, kResponsesObjects, kMessagesObjects, kOllamaObjects}) {
    for (const ObjectFields& row : objects)
      EXPECT_EQ(seen[objects.data()].count(std::string(row.path)), 1U) << row.path;
  }
}

GenerationRequest noted(const json& body, const std::function<bool(std::string_view)>& is_shown = {}) {
  GenerationRequest request;
  note_object_fields(body, kOpenAiObjects, kOpenAiChat.fields(), is_shown, request);
  return request;
}

TEST(ObjectFields, NameHintsOfElementsByTheirNameAndEachMemberOnce) {
  const json turn = {{"role", "user"},  {"content", "a"},   {"nmae", 1},
                     {"refusal", "no"}, {"audio", nullptr}, {"thinking", ""}};
  const GenerationRequest request =
      noted({{"messages", {turn, turn}},
             {"stream_options", {{"include_obfuscation", true}, {"x", 1}, {"y", nullptr}}}});
  EXPECT_THAT(request.left_out, ElementsAre("stream_options.include_obfuscation", "refusal"));
  EXPECT_THAT(request.unknown, ElementsAre("stream_options.x", "messages.0.nmae"));
}

TEST(ObjectFields, SkipObjectsOfOtherTypesAndOfFieldsThatTheApiDoesNotHave) {
  EXPECT_TRUE(
      noted({{"tools", {{{"type", "web_search"}, {"a", 1}}}}, {"input", {{{"a", 1}}}}}).unknown.empty());
  EXPECT_TRUE(noted({{"tools", 1}, {"messages", {1, {2}}}, {"response_format", "a"}}).unknown.empty());
  EXPECT_THAT(noted({{"tools", {{{"a", 1}}}}}).unknown, ElementsAre("tools.0.a"));
}

TEST(ObjectFields, OfMessagesThatTheTemplateShowsAreNotNamed) {
  const json body = {{"messages", {{{"role", "user"}, {"a", 1}, {"name", "n"}}}}, {"tools", {{{"a", 1}}}}};
  const GenerationRequest request = noted(body, [](std::string_view) { return true; });
  EXPECT_TRUE(request.left_out.empty());
  EXPECT_THAT(request.unknown, ElementsAre("tools.0.a"));
}

}  // namespace
}  // namespace lacuna::object_fields_test
