// llama.cpp's POST /completion.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "running_server.h"
#include "server/dialect.h"

namespace lacuna::llama_cpp_test {
namespace {

using nlohmann::json;

const std::string kStory =
    "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?";

TEST(LlamaCpp, ContinuesPrompts) {
  RunningServer server("mini-llada");
  json body = {{"prompt", kStory}, {"n_predict", 16}, {"seed", -1}, {"n_probs", 2}, {"cache_prompt", true}};
  const json openai = server.post("/v1/completions", {{"prompt", kStory}, {"max_tokens", 16}}).json();
  const json whole = server.post("/completion", body).json();
  EXPECT_EQ(whole["content"], openai["choices"][0]["text"]);
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["tokens_predicted"], openai["usage"]["completion_tokens"]);
  EXPECT_EQ(whole["completion_probabilities"][0]["top_logprobs"].size(), 2U);
  body["stream"] = true;
  std::string text;
  const std::vector<json> chunks = server.post("/completion", body).chunks();
  for (const json& chunk : chunks) {
    EXPECT_EQ(chunk["stop"], &chunk == &chunks.back());
    text += chunk["content"].get<std::string>();
  }
  EXPECT_EQ(text, whole["content"]);
  EXPECT_EQ(chunks.back()["stop_type"], whole["stop_type"]);
}

TEST(LlamaCpp, SaysWhatStoppedAnAnswer) {
  RunningServer server("mini-qwen");
  const auto ask = [&](int length, const json& stop) {
    return server.post("/completion", {{"prompt", kStory}, {"n_predict", length}, {"stop", stop}}).json();
  };
  EXPECT_EQ(ask(2, json::array())["stop_type"], "limit");
  const std::string text = ask(16, json::array())["content"];
  const std::string word = text.substr(1, 1);
  const json stopped = ask(16, {word});
  EXPECT_EQ(stopped["stop_type"], "word");
  EXPECT_EQ(stopped["stopping_word"], word);
}

TEST(LlamaCpp, AnswersInAForm) {
  RunningServer server("mini-llada");
  const json reply =
      server
          .post("/completion", {{"prompt", kStory}, {"n_predict", 8}, {"json_schema", {{"type", "boolean"}}}})
          .json();
  EXPECT_TRUE(json::parse(reply["content"].get<std::string>()).is_boolean());
}

TEST(LlamaCpp, AnswersInTheFormOfAGrammar) {
  RunningServer server("mini-llada");
  const json reply =
      server
          .post("/completion",
                {{"prompt", kStory}, {"n_predict", 8}, {"grammar", "root ::= \"yes\" | \"no\" [.!]*"}})
          .json();
  EXPECT_THAT(reply["content"].get<std::string>(), testing::AnyOf("yes", testing::StartsWith("no")));
}

TEST(LlamaCpp, AnswersSeveralPromptsWithAListInTheirOrder) {
  RunningServer server("mini-llada");
  const json tokens = server.post("/tokenize", {{"content", kStory}}).json()["tokens"];
  json mixed =
      json::array({tokens[0], server.post("/detokenize", {{"tokens", {tokens[1]}}}).json()["content"]});
  mixed.insert(mixed.end(), tokens.begin() + 2, tokens.end());
  const auto ask = [&](const json& prompt) {
    return server.post("/completion", {{"prompt", prompt}, {"n_predict", 8}}).json();
  };
  const json alone = ask(kStory), other = ask("Hi");
  EXPECT_EQ(ask(mixed)["content"], alone["content"]);
  EXPECT_EQ(ask({kStory})["content"], alone["content"]);
  const json all = ask({kStory, "Hi", tokens, mixed, {{"prompt_string", "Hi"}}});
  ASSERT_EQ(all.size(), 5U);
  for (size_t i = 0; i < all.size(); ++i) {
    const json& expected = i == 1 || i == 4 ? other : alone;
    EXPECT_EQ(all[i]["index"], i);
    for (const char* key : {"content", "tokens", "tokens_predicted", "tokens_evaluated", "stop_type"})
      EXPECT_EQ(all[i][key], expected[key]) << i << key;
  }
  EXPECT_EQ(server.post("/completion", {{"prompt", {"a", "b"}}, {"n_predict", 0}}).json().size(), 2U);
}

TEST(LlamaCpp, AnswersAPromptSeveralTimes) {
  RunningServer server("mini-llada");
  json body = {{"prompt", {kStory, "Hi"}}, {"n_predict", 8}, {"temperature", 1}, {"n", 2}};
  const json whole = server.post("/completion", body).json();
  ASSERT_EQ(whole.size(), 4U);
  EXPECT_EQ(whole[1]["tokens_evaluated"], whole[0]["tokens_evaluated"]);
  EXPECT_NE(whole[2]["tokens_evaluated"], whole[0]["tokens_evaluated"]);
  body["seed"] = 1;
  body["n"] = 0;
  EXPECT_EQ(server.post("/completion", body).json()[0]["content"], whole[1]["content"]);
  body["seed"] = 0;
  body["n_cmpl"] = 2;
  body["stream"] = true;
  std::vector<std::string> texts(4);
  std::vector<size_t> ended;
  for (const json& chunk : server.post("/completion", body).chunks()) {
    texts.at(chunk["index"].get<size_t>()) += chunk["content"].get<std::string>();
    if (chunk["stop"] == true) ended.push_back(chunk["index"].get<size_t>());
  }
  EXPECT_THAT(ended, testing::ElementsAre(0, 1, 2, 3));
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], whole[i]["content"]);
  EXPECT_EQ(server.post("/completion", {{"prompt", {"a", "b"}}, {"n", 65}}).status(), 400);
}

}  // namespace
}  // namespace lacuna::llama_cpp_test
