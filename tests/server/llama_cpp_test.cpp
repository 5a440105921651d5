// llama.cpp's POST /completion.
#include <gmock/gmock.h>

#include <string>

#include "running_server.h"
#include "server/dialect.h"

namespace lacuna::llama_cpp_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

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

TEST(LlamaCpp, TakesOnePromptInAllItsForms) {
  const auto prompt = [](const char* text) {
    return kLlamaCppCompletion.parse({{"prompt", json::parse(text)}}, {}).prompts.at(0);
  };
  for (const char* text : {R"("a")", R"(["a"])", R"({"prompt_string": "a"})",
                           R"([{"prompt_string": "a", "multimodal_data": []}])"})
    EXPECT_EQ(prompt(text), Prompt("a")) << text;
  for (const char* text : {"[5, 6]", "[[5, 6]]"}) EXPECT_EQ(prompt(text), Prompt(std::vector<TokenId>{5, 6}));
}

TEST(LlamaCpp, RefusesAPromptThatIsNone) {
  for (const char* text :
       {"3", R"(["a", "b"])", R"([5, "a"])", "{}", R"({"prompt_string": "a", "multimodal_data": ["x"]})"})
    EXPECT_THROW((void)kLlamaCppCompletion.parse({{"prompt", json::parse(text)}}, {}), InputError) << text;
}

}  // namespace
}  // namespace lacuna::llama_cpp_test
