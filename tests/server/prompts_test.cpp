#include "server/prompts.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "running_server.h"
#include "server/dialect.h"

namespace lacuna::prompts_test {
namespace {

using json = nlohmann::ordered_json;
using testing::HasSubstr;

std::vector<Prompt> prompts_of(const char* text) {
  GenerationRequest request;
  read_prompts({"prompt", json::parse(text)}, request);
  return request.prompts;
}

std::string refusal_of(const char* text) {
  try {
    (void)prompts_of(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(Prompts, AreTextsTokensOrBoth) {
  const std::vector<TokenId> tokens{5, 6};
  const MixedPrompt mixed{{TokenId{5}, std::string("b"), TokenId{6}}};
  EXPECT_EQ(prompts_of(R"("a")"), std::vector<Prompt>{"a"});
  EXPECT_EQ(prompts_of("[5, 6]"), std::vector<Prompt>{tokens});
  EXPECT_EQ(prompts_of(R"([5, "b", 6])"), std::vector<Prompt>{mixed});
  EXPECT_EQ(prompts_of(R"({"prompt_string": "a", "multimodal_data": []})"), std::vector<Prompt>{"a"});
  EXPECT_EQ(prompts_of(R"(["a", [5, 6], [5, "b", 6], {"prompt_string": [5, "b", 6]}])"),
            (std::vector<Prompt>{"a", tokens, mixed, mixed}));
}

TEST(Prompts, ThatAreNoneAreNamed) {
  EXPECT_THAT(refusal_of("true"), HasSubstr("prompt is"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("expected text or a list of token ids"));
  EXPECT_THAT(refusal_of(R"(["a", true])"), HasSubstr("prompt.1 is"));
  EXPECT_THAT(refusal_of(R"([["a", -1]])"), HasSubstr("prompt.0.1 is"));
  EXPECT_THAT(refusal_of(R"([5, "a", 0.5])"), HasSubstr("prompt.2 is"));
  EXPECT_THAT(refusal_of(R"([5, {"prompt_string": "a"}])"), HasSubstr("prompt is"));
  EXPECT_THAT(refusal_of(R"([{"prompt_string": "a", "multimodal_data": ["x"]}])"),
              HasSubstr("prompt.0.multimodal_data is not supported"));
}

TEST(Prompts, AskForABoundedNumberOfAnswers) {
  GenerationRequest request;
  request.prompts.assign(3, "a");
  read_num_choices({"n", 42}, request);
  check_num_answers(request);
  EXPECT_THROW(read_num_choices({"n_cmpl", 41}, request), FieldError);
  read_num_choices({"n_cmpl", 42}, request);
  request.prompts.emplace_back("b");
  EXPECT_THROW(check_num_answers(request), FieldError);
  request.num_choices = 1;
  request.num_candidates = 33;
  EXPECT_THROW(check_num_answers(request), FieldError);
}

// A conversation whose last message begins the answer.

json turns(const json& last) {
  return json::array({{{"role", "user"}, {"content", "How many?"}}, last});
}
const json kBegun = {{"role", "assistant"}, {"content", "There are "}};

TEST(Continuations, EndThePromptWithTheLastMessage) {
  RunningServer server("mini-llada");
  const auto prompt = [&](const json& body) {
    return server.post("/apply-template", body).json()["prompt"].get<std::string>();
  };
  const std::string plain = prompt({{"messages", {turns(kBegun)[0]}}});
  json marked = kBegun;
  marked["prefix"] = true;
  EXPECT_EQ(prompt({{"messages", turns(marked)}}), plain + "There are ");
  EXPECT_EQ(
      prompt(
          {{"messages", turns(kBegun)}, {"continue_final_message", true}, {"add_generation_prompt", false}}),
      plain + "There are ");
  EXPECT_THAT(prompt({{"messages", turns(kBegun)}, {"continue_final_message", false}}),
              testing::Not(testing::EndsWith("There are ")));
}

TEST(Continuations, AreThoseOfAnthropicAndOllama) {
  const auto continuation = [](const Dialect& dialect, const json& body) {
    return std::get<Conversation>(dialect.parse(body, {}).prompts.at(0)).continuation;
  };
  const json blocks = {
      {"role", "assistant"},
      {"content", {{{"type", "thinking"}, {"thinking", "x"}}, {{"type", "text"}, {"text", "A"}}}}};
  EXPECT_EQ(continuation(kAnthropicMessages, {{"max_tokens", 8}, {"messages", turns(kBegun)}}), "There are ");
  EXPECT_EQ(continuation(kAnthropicMessages, {{"max_tokens", 8}, {"messages", turns(blocks)}}), "A");
  EXPECT_EQ(continuation(kOllamaChat, {{"messages", turns(kBegun)}}), "There are ");
  const json thoughts = {{"role", "assistant"}, {"content", {{{"type", "thinking"}, {"thinking", "x"}}}}};
  const auto request = kAnthropicMessages.parse({{"max_tokens", 8}, {"messages", turns(thoughts)}}, {});
  EXPECT_EQ(std::get<Conversation>(request.prompts.at(0)).messages.size(), 1U);
}

TEST(Continuations, AreRefusedByThePlaceThatAsksForThem) {
  const auto refusal = [](const Dialect& dialect, const json& body) {
    try {
      (void)dialect.parse(body, {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(refusal(kOpenAiChat, {{"messages", turns({{"role", "user"}, {"content", "a"}})},
                                    {"continue_final_message", true}}),
              HasSubstr("continue_final_message: the answer can continue the assistant's message alone"));
  json first = turns(kBegun);
  first[0]["prefix"] = true;
  EXPECT_THAT(refusal(kOpenAiChat, {{"messages", first}}), HasSubstr("messages.0.prefix is"));
  const json call = {{"type", "tool_use"}, {"id", "t"}, {"name", "f"}, {"input", json::object()}};
  EXPECT_THAT(refusal(kAnthropicMessages,
                      {{"max_tokens", 8}, {"messages", turns({{"role", "assistant"}, {"content", {call}}})}}),
              HasSubstr("messages.1: the assistant's last message has calls"));
  EXPECT_THAT(refusal(kAnthropicMessages, {{"max_tokens", 8}, {"messages", {kBegun}}}),
              HasSubstr("messages.0: the assistant's is the only message"));
  for (const json& form : {json{{"output_config", {{"format", {{"type", "json_schema"}, {"schema", true}}}}}},
                           json{{"output_format", {{"type", "json_schema"}, {"schema", true}}}}}) {
    json body = form;
    body["max_tokens"] = 8;
    body["messages"] = turns(kBegun);
    EXPECT_THAT(refusal(kAnthropicMessages, body), HasSubstr("of a whole answer; expected one of them"));
  }
}

}  // namespace
}  // namespace lacuna::prompts_test
