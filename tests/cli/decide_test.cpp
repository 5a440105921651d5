// `lacuna decide`.
#include "program.h"

namespace lacuna::decide_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Decide : public ProgramTest {
 protected:
  ProgramResult decide(const std::string& arguments, const std::string& input = "") const {
    return lacuna("decide --threads 1 -m " LACUNA_SOURCE_DIR "/models/mini-llada " + arguments, input);
  }
};

TEST_F(Decide, PrintsEachQuestionWithItsOptions) {
  const ProgramResult result = decide(
      "--state 'Ben is happy.' -q 'Is Ben happy?' -q 'Who?' --choice 'Ben, Mia' -q 'How much?' --levels "
      "low,high");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith("Is Ben happy?\n  yes  0."), HasSubstr("Who?\n  Ben  0."),
                                HasSubstr("  high  0."), HasSubstr("score "), HasSubstr("confidence ")));
  EXPECT_THAT(result.err, HasSubstr("question 1: the labels have"));  // nobody trained it for this
}

TEST_F(Decide, PrintsTheReplyOfTheServerAsJson) {
  const ProgramResult result = decide("--json -q 'Who?' --choice 'Ben, Mia'", "Ben is happy.\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json reply = json::parse(result.out);
  EXPECT_EQ(reply["answers"][0]["type"], "choice");
  EXPECT_EQ(reply["answers"][0]["probabilities"][1]["value"], "Mia");
  EXPECT_EQ(reply["lacuna"]["stats"]["forward_passes"], 1);
  folder_.write("text", "Ben is happy.\n");
  EXPECT_EQ(json::parse(decide("--json -q 'Who?' --choice 'Ben, Mia' -f text").out)["answers"],
            reply["answers"]);
}

TEST_F(Decide, ReadsQuestionsInBothFormats) {
  folder_.write(
      "openai.json",
      R"({"input": "Ben is happy.", "questions": [{"type": "predicate", "instructions": "Is Ben happy?"}]})");
  folder_.write("system_one.json",
                R"({"questions": {"happy": {"type": "noul", "instructions": "Is Ben happy?"}}})");
  const json openai = json::parse(decide("--json --questions openai.json").out);
  const json system_one =
      json::parse(decide("--json --questions system_one.json --state 'Ben is happy.'").out);
  EXPECT_EQ(openai["answers"][0]["probability"], system_one["answers"]["happy"]["noul"]);
}

TEST_F(Decide, NamesFieldsThatTheFormatDoesNotHave) {
  folder_.write("misspelt.json",
                R"({"inptu": 1, "questions": [{"type": "predicate", "instructions": "?", "nmae": "q"}]})");
  const ProgramResult result = decide("--state x --questions misspelt.json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("ignored, since the format has no such fields: inptu, questions[0].nmae"));
}

TEST_F(Decide, SaysWhatIsWrong) {
  const auto expect_refused = [&](const std::string& arguments, const std::string& part) {
    const ProgramResult result = decide(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(part)) << arguments;
  };
  expect_refused("--state x", "expected --question or --questions; found neither");
  expect_refused("--state x --choice a,b", "--choice \"a,b\": expected one --question before it");
  expect_refused("--state x -q a --choice a,b --levels a,b",
                 "--levels \"a,b\": expected one --question before it");
  expect_refused("--state x -q a --choice a", "expected 2 to 255");
  expect_refused("--state x -q a --choice a,,b", "expected different options");
  expect_refused("--state x -f y -q a", "found both");
  expect_refused("--state x -q a --draws 65", "--draws");
  folder_.write("bad.json", R"({"questions": [{"type": "rank", "instructions": "?"}]})");
  expect_refused("--state x --questions bad.json", "questions[0].type is \"rank\"");
}

TEST_F(Decide, KeepsFittedTemperaturesInTheModelsFolder) {
  const std::string model = " -m model --samples 3 --json --threads 1";
  const ProgramResult copied = shell("cp -r models/mini-llada model");
  ASSERT_EQ(copied.exit_code, 0) << copied.err;
  const json before = json::parse(lacuna("eval --task decisions" + model).out);
  EXPECT_EQ(before["calibrated"], false);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "model/decisions.json"));
  const ProgramResult fitted = lacuna("eval --task decisions --fit" + model);
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  EXPECT_EQ(json::parse(fitted.out)["nll"], before["nll"]);
  const json after = json::parse(lacuna("eval --task decisions" + model).out);
  EXPECT_EQ(after["calibrated"], true);
  EXPECT_EQ(after["nll"], json::parse(fitted.out)["fit"]["judged"]["nll"]);
  EXPECT_EQ(lacuna("eval --task decisions --gen-length 8" + model).exit_code, 2);
  EXPECT_EQ(lacuna("eval --task arithmetic --fit" + model).exit_code, 2);
}

}  // namespace
}  // namespace lacuna::decide_test
