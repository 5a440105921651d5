#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lacuna/lacuna.h"

namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string folder_of(const char* model) {
  return (std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / model).string();
}

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    session = lacuna_load(folder_of("mini-llada").c_str(), R"({"threads": 1})");
    ASSERT_NE(session, nullptr) << lacuna_error();
  }
  void TearDown() override { lacuna_free(session); }

  lacuna_session* session = nullptr;
};

TEST(CApiVersion, IsThatOfTheHeaders) {
  EXPECT_STREQ(lacuna_version(), LACUNA_VERSION);
}

TEST_F(CApi, AnswersAndTellsOfPasses) {
  const auto count = [](const lacuna_pass_event* event, void* user) {
    EXPECT_EQ(event->size, sizeof(lacuna_pass_event));
    ++*static_cast<int*>(user);
    return 1;
  };
  int passes = 0;
  lacuna_answer* answer = lacuna_generate(
      session,
      R"({"prompt": "Mia has 12 shells. She finds 5 more. How many shells does Mia have?", "gen_length": 32})",
      count, &passes);
  ASSERT_NE(answer, nullptr) << lacuna_error();
  EXPECT_THAT(lacuna_answer_text(answer), HasSubstr("17"));
  size_t tokens = 0;
  EXPECT_NE(lacuna_answer_tokens(answer, &tokens), nullptr);
  EXPECT_EQ(tokens, 32U);
  const json told = json::parse(lacuna_answer_json(answer));
  EXPECT_EQ(told.at("text"), lacuna_answer_text(answer));
  EXPECT_EQ(told.at("stats").at("steps"), passes);
  lacuna_answer_free(answer);
}

TEST_F(CApi, CallsFunctionsAndTakesTheirResults) {
  json request = json::parse(R"({"messages": [{"role": "user", "content": "Where are the shells of Mia?"}],
      "gen_length": 96, "tool_choice": "required", "tools": [{"type": "function", "function": {"name": "find",
      "parameters": {"type": "object", "required": ["what"], "properties": {"what": {"const": "shells"}}}}}]})");
  for (int turn = 0; turn < 2; ++turn) {
    lacuna_answer* answer = lacuna_generate(session, request.dump().c_str(), nullptr, nullptr);
    ASSERT_NE(answer, nullptr) << lacuna_error();
    const json message = json::parse(lacuna_answer_json(answer)).at("message");
    lacuna_answer_free(answer);
    ASSERT_FALSE(message.at("tool_calls").empty());
    request["messages"].push_back(message);
    for (const json& call : message["tool_calls"]) {
      EXPECT_EQ(call.at("function").at("arguments"), R"({"what": "shells"})");
      request["messages"].push_back(
          {{"role", "tool"}, {"tool_call_id", call.at("id")}, {"content", "there"}});
    }
  }
  request["messages"].back()["tool_call_id"] = "call_of_nobody";
  EXPECT_EQ(lacuna_generate(session, request.dump().c_str(), nullptr, nullptr), nullptr);
  EXPECT_THAT(lacuna_error(), HasSubstr("tool_call_id is \"call_of_nobody\""));
}

TEST_F(CApi, FillsHoles) {
  lacuna_answer* answer = lacuna_infill(session, "Mia has 12 shells. She finds 5 more. Mia has [[2]] shells.",
                                        nullptr, nullptr, nullptr);
  ASSERT_NE(answer, nullptr) << lacuna_error();
  EXPECT_THAT(lacuna_answer_text(answer), HasSubstr("17 shells"));
  lacuna_answer_free(answer);
}

TEST_F(CApi, TurnsTextsIntoTokensAndBackInBuffersOfAnySize) {
  const std::string text = "Mia has 12 shells.";
  const int64_t count = lacuna_tokenize(session, text.data(), text.size(), nullptr, 0);
  ASSERT_GT(count, 3);
  std::vector<int32_t> tokens(static_cast<size_t>(count), -1);
  EXPECT_EQ(lacuna_tokenize(session, text.data(), text.size(), tokens.data(), 2), count);
  EXPECT_EQ(tokens[2], -1);
  lacuna_tokenize(session, text.data(), text.size(), tokens.data(), tokens.size());
  std::string back(text.size(), ' ');
  EXPECT_EQ(lacuna_detokenize(session, tokens.data(), tokens.size(), back.data(), back.size()),
            static_cast<int64_t>(text.size()));
  EXPECT_EQ(back, text);
}

TEST_F(CApi, ComputesLogits) {
  const std::vector<int32_t> tokens = {3, 5, 7};
  std::vector<float> logits(3 * static_cast<size_t>(lacuna_vocab_size(session)), -1e9F);
  EXPECT_EQ(lacuna_logits(session, tokens.data(), tokens.size(), logits.data()), 0) << lacuna_error();
  EXPECT_GT(logits.back(), -1e9F);
}

TEST_F(CApi, KnowsItsModel) {
  EXPECT_EQ(json::parse(lacuna_info_json(session)).at("architecture"), "LLaDAModelLM");
}

TEST_F(CApi, SaysWhatItCannotDo) {
  const auto expect = [](bool failed, const std::string& sentence) {
    EXPECT_TRUE(failed) << sentence;
    EXPECT_THAT(lacuna_error(), HasSubstr(sentence));
    EXPECT_EQ(lacuna_error_kind(), LACUNA_INVALID_INPUT);
  };
  const auto refused = [&](const char* request) {
    return lacuna_generate(session, request, nullptr, nullptr) == nullptr;
  };
  expect(refused(R"({"prompt": "Hi", "stepz": 3})"), "stepz is not a setting");
  expect(refused(R"({"prompt": "Hi", "steps": "three"})"), "steps is 'three'; expected a whole number");
  expect(refused(R"({"prompt": 3})"), "request_json: \"prompt\" is");
  expect(refused(R"({"prompt": "Hi", "messages": [{"role": "user", "content": "Hi"}]})"),
         "2 of prompt, messages");
  expect(refused("[]"), "request_json: not a JSON object");
  expect(refused("{"), "request_json");
  expect(refused(nullptr), "request_json is NULL");
  expect(lacuna_load("no-such-model", nullptr) == nullptr, "no-such-model");
  expect(lacuna_load("x", R"({"threds": 2})") == nullptr, "\"threds\" is not known");
  expect(lacuna_load(nullptr, nullptr) == nullptr, "model is NULL");
  const int32_t unknown = -7;
  float logit = 0;
  expect(lacuna_logits(session, &unknown, 1, &logit) == LACUNA_INVALID_INPUT, "tokens has -7");
  expect(lacuna_tokenize(nullptr, "a", 1, nullptr, 0) == LACUNA_INVALID_INPUT, "session is NULL");
}

TEST(CApiHandles, MayBeNull) {
  lacuna_free(nullptr);
  lacuna_answer_free(nullptr);
  EXPECT_STREQ(lacuna_answer_text(nullptr), "");
  EXPECT_STREQ(lacuna_answer_json(nullptr), "{}");
  EXPECT_STREQ(lacuna_info_json(nullptr), "{}");
  size_t count = 7;
  EXPECT_EQ(lacuna_answer_tokens(nullptr, &count), nullptr);
  EXPECT_EQ(count, 0U);
}

}  // namespace
