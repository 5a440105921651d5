#include "wire/decision_json.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace lacuna::decision_json_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr size_t kMaxValues = 10'000;

DecisionBody parse(const std::string& text) {
  return read_decision_body(parse_ordered_json(text, "the body", kMaxValues), "the body");
}

void expect_refused(const std::string& text, const std::string& part) {
  EXPECT_THAT([&] { parse(text); }, ThrowsMessage<InputError>(HasSubstr(part))) << text;
}

const std::string kOpenAi = R"({
  "model": "m", "input": "Mia is sad.", "safety_identifier": "u1", "later": {"field": 1},
  "questions": [
    {"type": "predicate", "instructions": "Is Mia sad?", "name": "sad"},
    {"type": "choice", "instructions": [{"type": "input_text", "text": "Is it"}, {"type": "input_json", "data": {"b": 1, "a": 2}}],
     "choices": [{"value": "true", "description": "a word"}, {"value": true}]},
    {"type": "score", "instructions": "How sad?", "levels": [{"label": "not"}, {"label": "very", "description": "tears"}]}],
  "lacuna": {"orders": 2, "independent": true, "draws": 8, "seed": 5}})";

const std::string kSystemOne = R"({
  "model": "m", "state": {"z": 1, "a": [true]},
  "questions": {
    "zeta": {"type": "noul", "instructions": {"task": "spam"}, "criteria": {"true": "advertising", "false": null}},
    "alpha": {"type": "choice", "criteria": {"red": "like blood", "blue": null}},
    "mid": {"type": "score", "instructions": "Urgent?", "criteria": ["no", {"level": "yes"}]}}})";

TEST(DecisionJson, ReadsOpenAisFormat) {
  const DecisionBody body = parse(kOpenAi);
  EXPECT_EQ(body.format, DecisionFormat::kOpenAi);
  EXPECT_TRUE(body.has_text);
  EXPECT_EQ(body.request.state, "Mia is sad.");
  EXPECT_TRUE(body.request.both_orders);
  EXPECT_TRUE(body.request.independent);
  EXPECT_EQ(body.request.draws, 8);
  EXPECT_EQ(body.request.seed, 5);
  ASSERT_EQ(body.request.questions.size(), 3);
  EXPECT_EQ(body.request.questions[1].instructions, "Is it\n{\"a\":2,\"b\":1}");
  EXPECT_EQ(body.request.questions[1].options[0].description, "a word");
  EXPECT_THAT(body.options[1], ElementsAre("true", true));
  EXPECT_EQ(body.request.questions[2].options[1].text, "very");
  EXPECT_EQ(body.names[0], "sad");
  EXPECT_TRUE(body.names[1].is_null());
}

TEST(DecisionJson, ReadsSystemOnesFormatInTheOrderOfTheText) {
  const DecisionBody body = parse(kSystemOne);
  EXPECT_EQ(body.format, DecisionFormat::kSystemOne);
  EXPECT_EQ(body.request.state, R"({"a":[true],"z":1})");
  EXPECT_THAT(body.names, ElementsAre("zeta", "alpha", "mid"));
  EXPECT_EQ(body.request.questions[0].instructions, R"({"task":"spam"})");
  EXPECT_EQ(body.request.questions[0].options[0].description, "advertising");
  EXPECT_EQ(body.request.questions[1].instructions, "alpha");
  EXPECT_THAT(body.options[1], ElementsAre("red", "blue"));
  EXPECT_EQ(body.request.questions[2].options[1].text, R"({"level":"yes"})");
}

TEST(DecisionJson, WritesConversationsAsATextAndSystemTurnsAsGuidance) {
  const DecisionBody body = parse(R"({"questions": [{"type": "predicate", "instructions": "?"}], "input": [
    {"role": "developer", "content": "Be strict."},
    {"role": "user", "type": "message", "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_json", "data": {}}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Yes?"}, {"type": "refusal", "refusal": "No."}], "phase": "commentary"},
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "found"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "run", "input": "ls"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "a.txt"}]}]})");
  EXPECT_EQ(body.request.guidance, "Be strict.");
  EXPECT_EQ(body.request.state,
            "user: Hi\n{}\nassistant: Yes?\nNo.\ncall of find: {}\nresult of find: found\ncall of run: ls\n"
            "result of run: a.txt");
  const DecisionBody alone = parse(
      R"({"questions": [{"type": "predicate", "instructions": "?"}], "input": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(alone.request.state, "Hi");
}

TEST(DecisionJson, NamesTheFieldThatIsWrong) {
  expect_refused("[]", "the body is not a JSON object");
  expect_refused(R"({"input": "x", "state": "y", "questions": []})", "both input and state");
  expect_refused(R"({"input": "x"})", "questions is missing");
  expect_refused(R"({"input": "x", "questions": []})", "questions has 0 elements; expected 1 to 400");
  expect_refused(R"({"input": [], "questions": [{"type": "predicate", "instructions": "?"}]})", "input is");
  expect_refused(R"({"input": "x", "questions": [{"type": "rank", "instructions": "?"}]})",
                 "questions[0].type is \"rank\"; expected predicate, choice or score");
  expect_refused(R"({"input": "x", "questions": [{"type": "predicate"}]})",
                 "questions[0].instructions is missing");
  expect_refused(
      R"({"input": "x", "questions": [{"type": "choice", "instructions": "?", "choices": [{"value": 1}, {"value": 2}]}]})",
      "questions[0].choices[0].value is");
  expect_refused(
      R"({"input": "x", "questions": [{"type": "choice", "instructions": "?", "choices": [{"value": "a"}, {"value": "a"}]}]})",
      "comes twice");
  expect_refused(
      R"({"input": "x", "questions": [{"type": "score", "instructions": "?", "levels": [{"label": "a"}]}]})",
      "questions[0].levels has 1 elements; expected 2 to 10");
  expect_refused(
      R"({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}], "questions": [{"type": "predicate", "instructions": "?"}]})",
      "expected the call_id of an earlier call");
  expect_refused(
      R"({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}], "questions": [{"type": "predicate", "instructions": "?"}]})",
      "reads texts alone");
  expect_refused(
      R"({"input": "x", "questions": [{"type": "predicate", "instructions": "?"}], "lacuna": {"orders": 3}})",
      "lacuna.orders is \"3\"; expected an integer from 1 to 2");
  expect_refused(
      R"({"input": "x", "questions": [{"type": "predicate", "instructions": "?"}], "lacuna": {"steps": 2}})",
      "lacuna.steps is \"2\"; expected 1: every label is read in the same pass");
  expect_refused(
      R"({"input": "x", "questions": [{"type": "predicate", "instructions": "?"}], "lacuna": {"label_mode": "text"}})",
      "lacuna.label_mode is not known; expected orders, independent, draws or seed");
  expect_refused(R"({"state": "x", "questions": {}})", "questions has 0 members");
  expect_refused(R"({"state": 5, "questions": {"a": {"type": "noul"}}})", "state is \"5\"");
  expect_refused(R"({"state": "x", "questions": {"a": {"type": "box"}}})", "about images");
  expect_refused(R"({"state": "x", "questions": {"a": {"type": "noul"}}, "assets": {"i": {}}})", "assets");
  expect_refused(R"({"state": "x", "questions": {"a": {"type": "choice", "criteria": {}}}})",
                 "criteria has 0 options");
}

/// A result whose questions have these probabilities of labels, which are all of the model's.
DecideResult result_of(const std::vector<std::vector<double>>& probabilities) {
  DecideResult result;
  for (const std::vector<double>& each : probabilities) result.answers.push_back({each, 0.75});
  result.prompt_tokens = 20;
  return result;
}

TEST(DecisionJson, WritesOpenAisAnswers) {
  DecideResult result = result_of({{0.25, 0.75}, {0.5, 0.5}, {0.25, 0.75}});
  result.answers[0].standard_error = 0.125;
  const json reply = json::parse(decision_reply(parse(kOpenAi), result, "mini").dump());
  EXPECT_EQ(reply["model"], "mini");
  EXPECT_EQ(reply["answers"][0], json::parse(R"({"type": "predicate", "name": "sad", "probability": 0.25,
                                                 "label_mass": 0.75, "standard_error": 0.125})"));
  EXPECT_EQ(
      reply["answers"][1],
      json::parse(R"({"type": "choice", "name": null, "choice": "true", "confidence": 0.0, "label_mass": 0.75,
              "probabilities": [{"value": "true", "probability": 0.5}, {"value": true, "probability": 0.5}]})"));
  EXPECT_EQ(
      reply["answers"][2],
      json::parse(R"({"type": "score", "name": null, "score": 0.75, "confidence": 0.5, "label_mass": 0.75,
              "probabilities": [{"label": "not", "value": 0, "probability": 0.25}, {"label": "very", "value": 1, "probability": 0.75}]})"));
  EXPECT_EQ(reply["usage"],
            json::parse(
                R"({"input_tokens": 20, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
              "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 23})"));
  EXPECT_EQ(reply["lacuna"]["calibrated"], false);
}

TEST(DecisionJson, WritesSystemOnesAnswers) {
  const json reply = json::parse(
      decision_reply(parse(kSystemOne), result_of({{0.25, 0.75}, {0.25, 0.75}, {0.25, 0.75}}), "mini")
          .dump());
  EXPECT_EQ(reply["answers"]["zeta"], json::parse(R"({"type": "noul", "noul": 0.25, "label_mass": 0.75})"));
  EXPECT_EQ(reply["answers"]["alpha"],
            json::parse(R"({"type": "choice", "choice": "blue", "confidence": 0.5, "label_mass": 0.75,
                            "probabilities": {"red": 0.25, "blue": 0.75}})"));
  EXPECT_EQ(reply["answers"]["mid"],
            json::parse(R"({"type": "score", "score": 0.75, "confidence": 0.5, "label_mass": 0.75,
                            "legend": {"0": "no", "1": {"level": "yes"}}, "probabilities": {"0": 0.25, "1": 0.75}})"));
  EXPECT_EQ(reply["usage"], json::parse(R"({"input_tokens": 20, "output_tokens": 3})"));
}

TEST(DecisionJson, WarnsWhereTheModelWouldHaveWrittenSomethingElse) {
  const DecisionBody body = parse(kSystemOne);
  DecideResult result = result_of({{0.5, 0.5}, {0.5, 0.5}, {0.5, 0.5}});
  EXPECT_THAT(decision_warnings(body, result), IsEmpty());
  result.answers[1].label_mass = 0.125;
  EXPECT_THAT(decision_warnings(body, result),
              ElementsAre(AllOf(HasSubstr("question 2"), HasSubstr("0.125"))));
}

}  // namespace
}  // namespace lacuna::decision_json_test
