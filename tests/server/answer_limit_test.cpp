// The most tokens that an answer may have, as clients send it (engine/answer_limit.h).
#include "engine/answer_limit.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "running_server.h"

namespace lacuna::answer_limit_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kStory = "Mia has 12 shells. She finds 7 more. How many shells does Mia have now?";

json with(json body, const std::string& key, const json& value) {
  body[key] = value;
  return body;
}

TEST(AnswerLimit, IsLoweredToWhatFitsInEveryApi) {
  RunningServer server("mini-sdar");
  const json turns = json::array({{{"role", "user"}, {"content", kStory}}});
  struct Case {
    std::string path, field;
    json body;
  };
  const Case kCases[] = {
      {"/v1/chat/completions", "max_tokens", {{"messages", turns}}},
      {"/v1/chat/completions", "max_completion_tokens", {{"messages", turns}}},
      {"/v1/chat/completions", "max_new_tokens", {{"messages", turns}}},
      {"/v1/chat/completions", "n_predict", {{"messages", turns}}},
      {"/v1/completions", "max_tokens", {{"prompt", kStory}}},
      {"/v1/messages", "max_tokens", {{"messages", turns}}},
      {"/v1/responses", "max_output_tokens", {{"input", kStory}}},
      {"/completion", "n_predict", {{"prompt", kStory}}},
      {"/api/chat", "options.num_predict", {{"messages", turns}, {"stream", false}}},
      {"/api/generate", "options.num_predict", {{"prompt", kStory}, {"stream", false}}},
  };
  for (const Case& each : kCases) {
    const bool is_option = each.field == "options.num_predict";
    const auto asked = [&](const json& value) {
      return is_option ? with(each.body, "options", {{"num_predict", value}})
                       : with(each.body, each.field, value);
    };
    for (const json& value : {json(32000U), json(4294967296U), json(9007199254740992U), json(1e6)}) {
      Call call = server.post(each.path, asked(value));
      EXPECT_EQ(call.status(), 200) << each.path << call.body();
      EXPECT_THAT(call.ignored(), StartsWith(each.field + " (")) << each.path;
      EXPECT_THAT(call.ignored(), HasSubstr(" at most)")) << each.path;
    }
    Call small = server.post(each.path, asked(8U));
    EXPECT_EQ(small.status(), 200) << small.body();
    EXPECT_EQ(small.ignored(), "") << each.path;
    for (const json& value : {json(-3), json(1.5), json(1e17), json("many"), json(true)}) {
      Call refused = server.post(each.path, asked(value));
      EXPECT_EQ(refused.status(), 400) << each.path << value;
      EXPECT_THAT(refused.body(), HasSubstr(each.field)) << value;
    }
  }
}

TEST(AnswerLimit, OfAModelThatWritesFromLeftToRightChangesNoText) {
  RunningServer server("mini-sdar");
  const json body{{"prompt", kStory}};
  const json usual = server.post("/v1/completions", with(body, "max_tokens", 64)).json();
  const json large = server.post("/v1/completions", with(body, "max_tokens", 1'000'000)).json();
  EXPECT_EQ(large["choices"][0]["text"], usual["choices"][0]["text"]);
  EXPECT_EQ(large["choices"][0]["finish_reason"], "stop");
}

TEST(AnswerLimit, OfACanvasThatIsTooLongLetsItGrowWithTheAnswer) {
  RunningServer server("mini-llada");
  const json body{{"prompt", kStory}};
  const json own = {{"gen_length", "auto"}};
  const json grown = server.post("/v1/completions", with(body, "lacuna", own)).json();
  Call large = server.post("/v1/completions", with(body, "max_tokens", 32000));
  EXPECT_EQ(large.json()["choices"][0]["text"], grown["choices"][0]["text"]);
  EXPECT_EQ(large.json()["choices"][0]["finish_reason"], "stop");
  // One that fits, and is longer than most answers, as well; nothing is left out.
  Call long_one = server.post("/v1/completions", with(body, "max_tokens", 900));
  EXPECT_EQ(long_one.json()["choices"][0]["text"], grown["choices"][0]["text"]);
  EXPECT_EQ(long_one.ignored(), "");
  // Far fewer rows than a canvas of all that the context leaves.
  EXPECT_LT(large.json()["choices"][0]["lacuna"]["stats"]["rows"].get<int64_t>(), 20'000);
}

TEST(AnswerLimit, IsTheDefaultLengthWhereTheCanvasCannotGrow) {
  for (const auto& [model, settings] : {std::pair<std::string, json>{"mini-gidd", json::object()},
                                        {"mini-llada", {{"grow", "none"}}},
                                        {"mini-llada", {{"lock", "eps=1e-3"}}}}) {
    RunningServer server(model);
    const json body{{"prompt", "Mia has"}, {"lacuna", settings}};
    const json usual = server.post("/v1/completions", body).json();
    Call large = server.post("/v1/completions", with(body, "max_tokens", 100'000));
    EXPECT_EQ(large.status(), 200) << large.body();
    EXPECT_THAT(large.ignored(), StartsWith("max_tokens (")) << model;
    EXPECT_EQ(large.json()["choices"][0]["text"], usual["choices"][0]["text"]) << model << settings;
  }
}

TEST(AnswerLimit, FitsTheServersMemoryAndItsListsOfAlternatives) {
  SchedulerLimits limits;
  limits.memory = 1 << 20;
  RunningServer small("mini-llada", limits);
  Call call = small.post("/v1/completions", {{"prompt", "Mia"}, {"max_tokens", 1000}});
  EXPECT_EQ(call.status(), 200) << call.body();
  EXPECT_THAT(call.ignored(), StartsWith("max_tokens ("));
  RunningServer server("mini-sdar");
  const json body{{"prompt", "Mia"}, {"logprobs", 20}, {"n", 100}, {"max_tokens", 900}};
  Call listed = server.post("/v1/completions", body);
  EXPECT_THAT(listed.ignored(), StartsWith("max_tokens (1")) << listed.body();
  EXPECT_NE(listed.status(), 400) << listed.body();
}

TEST(AnswerLimit, UnderOtherNamesIsALengthAndRefused) {
  RunningServer server("mini-llada");
  for (const json& body : {json{{"prompt", "a"}, {"gen_length", 100'000}},
                           json{{"prompt", "a"}, {"lacuna", {{"gen_length", 100'000}}}},
                           json{{"prompt", "a"}, {"lacuna", {{"max_tokens", 100'000}}}}}) {
    Call call = server.post("/v1/completions", body);
    EXPECT_EQ(call.status(), 400) << body;
    EXPECT_THAT(call.body(), HasSubstr("1023 at most"));
  }
  // A prompt that leaves no room has no limit that fits.
  std::string words;
  for (int i = 0; i < 3000; ++i) words += "Mia ";
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", words}, {"max_tokens", 32000}}).status(), 400);
}

TEST(AnswerLimit, TakesWholeBlocksOfTheServersOwnLength) {
  ServiceSettings settings;
  settings.defaults.block_length = 16;
  RunningServer server("mini-llada", {}, std::move(settings));
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", kStory}, {"max_tokens", 50}}).status(), 200);
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", kStory}, {"max_tokens", 5}}).status(), 200);
}

TEST(AnswerLimit, OfAHoleBecomesAsLongAsTheHoleHasToBe) {
  RunningServer server("mini-llada");
  for (const int64_t length : {5'000, 2'000, 1'000'000}) {
    Call call = server.post(
        "/infill", {{"input_prefix", "Mia has "}, {"input_suffix", " shells."}, {"n_predict", length}});
    EXPECT_EQ(call.status(), 200) << call.body();
    EXPECT_THAT(call.ignored(), StartsWith("n_predict (")) << length;
  }
  Call suffix =
      server.post("/v1/completions", {{"prompt", "Mia has "}, {"suffix", " shells."}, {"max_tokens", 32000}});
  EXPECT_EQ(suffix.status(), 200) << suffix.body();
}

}  // namespace
}  // namespace lacuna::answer_limit_test
