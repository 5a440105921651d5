// Ollama's chats and prompts.
#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

#include "running_server.h"
#include "server/dialect.h"

namespace lacuna::ollama_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kStory =
    "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?";
const json kOptions = {{"num_predict", 32}, {"temperature", 0}, {"num_ctx", 4096}, {"seed", 3}};

std::vector<json> lines_of(const std::string& body) {
  std::vector<json> lines;
  std::istringstream stream(body);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(Ollama, AnswersChatsAsLines) {
  RunningServer server("mini-llada");
  json body = {{"model", "any:latest"},
               {"messages", {{{"role", "user"}, {"content", kStory}}}},
               {"options", kOptions}};
  Call call = server.post("/api/chat", body);
  const std::vector<json> lines = lines_of(call.body());
  EXPECT_EQ(call.head().content_type, "application/x-ndjson");
  std::string text;
  for (const json& line : lines) {
    EXPECT_EQ(line["done"], &line == &lines.back());
    text += line["message"]["content"].get<std::string>();
  }
  EXPECT_EQ(lines.back()["done_reason"], "stop");
  body["stream"] = false;
  const json whole = server.post("/api/chat", body).json();
  EXPECT_EQ(whole["message"]["content"], text);
  EXPECT_EQ(whole["eval_count"], lines.back()["eval_count"]);
  EXPECT_GT(whole["prompt_eval_count"], 10);
}

TEST(Ollama, AnswersPromptsWithAndWithoutTheTemplate) {
  RunningServer server("mini-llada");
  json body = {{"prompt", kStory}, {"options", kOptions}, {"stream", false}};
  const json chat =
      server
          .post("/v1/chat/completions",
                {{"messages", {{{"role", "user"}, {"content", kStory}}}}, {"max_tokens", 32}, {"seed", 3}})
          .json();
  EXPECT_EQ(server.post("/api/generate", body).json()["response"], chat["choices"][0]["message"]["content"]);
  body["raw"] = true;
  const json raw =
      server.post("/v1/completions", {{"prompt", kStory}, {"max_tokens", 32}, {"seed", 3}}).json();
  EXPECT_EQ(server.post("/api/generate", body).json()["response"], raw["choices"][0]["text"]);
}

TEST(Ollama, LoadsAModelWhereNothingIsAsked) {
  RunningServer server("mini-llada");
  const json loaded = server.post("/api/generate", {{"model", "m"}}).json();
  EXPECT_EQ(loaded["done"], true);
  EXPECT_EQ(loaded["done_reason"], "load");
  EXPECT_EQ(loaded["response"], "");
  const json chat = server.post("/api/chat", {{"model", "m"}, {"messages", json::array()}}).json();
  EXPECT_EQ(chat["done_reason"], "load");
  EXPECT_EQ(chat["message"]["content"], "");
  for (const json& keep_alive : {json(0), json("0"), json("0s")}) {
    Call call = server.post("/api/generate", {{"model", "m"}, {"prompt", ""}, {"keep_alive", keep_alive}});
    EXPECT_EQ(call.json()["done_reason"], "unload");
    EXPECT_EQ(call.ignored(), "keep_alive");
  }
}

TEST(Ollama, FillsInWhatASuffixFollows) {
  RunningServer server("mini-llada");
  const json body = {
      {"prompt", "Mia has "}, {"suffix", " shells."}, {"options", {{"num_predict", 2}}}, {"stream", false}};
  const json reply = server.post("/api/generate", body).json();
  const json same =
      server.post("/v1/completions", {{"prompt", "Mia has "}, {"suffix", " shells."}, {"max_tokens", 2}})
          .json();
  EXPECT_EQ(reply["response"], same["choices"][0]["text"]);
}

TEST(Ollama, TellsOfItsModels) {
  RunningServer server("mini-llada");
  const json tag = server.get("/api/tags").json()["models"][0];
  EXPECT_EQ(tag["name"], "mini-llada");
  EXPECT_GT(tag["size"], 1000);
  EXPECT_EQ(tag["details"]["family"], "llada");
  const auto digest = tag["digest"].get<std::string>();
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(digest.find_first_not_of("0123456789abcdef"), std::string::npos);
  const json shown = server.post("/api/show", {{"model", "mini-llada"}}).json();
  EXPECT_EQ(shown["model_info"]["general.architecture"], "llada");
  EXPECT_EQ(shown["capabilities"], (json{"completion", "tools", "insert"}));
  const json loaded = server.get("/api/ps").json();
  ASSERT_EQ(loaded["models"].size(), 1U);
  EXPECT_EQ(loaded["models"][0]["name"], "mini-llada");
  EXPECT_GT(loaded["models"][0]["size"], 0);
  EXPECT_EQ(loaded["models"][0]["digest"], digest);
  EXPECT_EQ(server.get("/api/version").json()["version"], "test");
}

TEST(Ollama, ClaimsNothingOfAModelThatOnlyDecides) {
  RunningServer server("mini-decide");
  EXPECT_EQ(server.post("/api/show", {{"model", "mini-decide"}}).json()["capabilities"], json::array());
  Call call = server.post("/api/generate", {{"prompt", "Hi"}, {"stream", false}});
  EXPECT_EQ(call.status(), 400);
  EXPECT_THAT(call.json()["error"].get<std::string>(), HasSubstr("writes no text; ask it at /v1/decisions"));
  EXPECT_EQ(server.get("/props").json()["writes_text"], false);
  EXPECT_EQ(server.get("/v1/models").json()["data"][0]["meta"]["writes_text"], false);
}

TEST(Ollama, HasErrorsOfItsOwnForm) {
  RunningServer server("mini-llada");
  const auto error = [&](const json& fields) {
    json body = fields;
    body["messages"] = {{{"role", "user"}, {"content", "Hi"}}};
    Call call = server.post("/api/chat", body);
    EXPECT_EQ(call.status(), 400);
    return call.json()["error"].get<std::string>();
  };
  EXPECT_THAT(error({{"options", {{"num_predict", "x"}}}}), testing::StartsWith("options.num_predict is"));
  EXPECT_THAT(error({{"options", {{"num_predict", -3}}}}),
              testing::StartsWith("options.num_predict is \"-3\"; expected a whole number from 1"));
  EXPECT_THAT(error({{"tools", {1}}}), testing::StartsWith("tools.0 is \"1\"; expected an object"));
  EXPECT_THAT(error({{"options", 3}}), testing::StartsWith("options is"));
  EXPECT_THAT(error({{"format", 3}}), testing::StartsWith("format is"));
  EXPECT_EQ(server.post("/api/show", json::object()).status(), 400);
}

TEST(Ollama, GivesResultsToTheCallsThatTheyName) {
  const json call =
      json::parse(R"({"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": "{}"}},
      {"id": "b", "function": {"name": "now", "arguments": {}}}, {"function": {"name": "add"}}]})");
  const auto answered = [&](const json& result) {
    json body = {{"messages", {call, result}}};
    body["messages"][1]["role"] = "tool";
    body["messages"][1]["content"] = "3";
    const GenerationRequest request = kOllamaChat.parse(body, {});
    return std::get<Conversation>(request.prompts.at(0)).messages[1]["tool_call_id"].get<std::string>();
  };
  EXPECT_EQ(answered({{"tool_call_id", "b"}}), "b");
  EXPECT_EQ(answered({{"tool_name", "now"}}), "b");
  EXPECT_EQ(answered({{"tool_name", "add"}}), "call_0");
  EXPECT_EQ(answered({{"tool_call_id", "unknown"}}), "call_0");
  EXPECT_EQ(answered(json::object()), "call_0");
}

TEST(Ollama, LeavesLengthAndSeedOpen) {
  const GenerationRequest request = kOllamaGenerate.parse(
      {{"prompt", "a"}, {"options", {{"num_predict", -2}, {"seed", -1}, {"stop", {"x"}}}}}, {});
  EXPECT_FALSE(request.options.gen_length);
  EXPECT_FALSE(request.options.seed);
  EXPECT_TRUE(request.stream);
  EXPECT_THAT(request.stop, testing::ElementsAre("x"));
}

}  // namespace
}  // namespace lacuna::ollama_test
