// `lacuna infill`.
#include "program.h"

namespace lacuna::infill_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Infill : public ProgramTest {
 protected:
  ProgramResult infill(const std::string& arguments, const std::string& input = "") const {
    return lacuna("infill --threads 1 -m " + path("llada") + " " + arguments, input);
  }
};

TEST_F(Infill, FillsHolesAndKeepsTheRest) {
  model_with_text("llada");
  const ProgramResult result = infill("'Mia [[2]] has [[1-3]] more.'");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith("Mia "), HasSubstr(" has "), EndsWith(" more.\n")));
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_EQ(infill("", "Mia [[2]] has [[1-3]] more.\n").out, result.out);
  folder_.write("text", "Mia [[2]] has [[1-3]] more.\n");
  EXPECT_EQ(infill("-f text").out, result.out);
  EXPECT_EQ(infill("-f -", "Mia [[2]] has [[1-3]] more.\n").out, result.out);
}

TEST_F(Infill, TellsWhatItWroteAsJson) {
  model_with_text("llada");
  const ProgramResult result = infill("--json 'ab[[2]]c\\[[[[1-3]]'");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json object = json::parse(result.out);
  EXPECT_EQ(object["candidates"], 3);
  ASSERT_EQ(object["holes"].size(), 2U);
  EXPECT_EQ(object["holes"][0]["position"], 2);
  EXPECT_EQ(object["holes"][0]["tokens"].size(), 2U);
  const std::string first = object["holes"][0]["text"], second = object["holes"][1]["text"];
  EXPECT_EQ(object["text"], "ab" + first + "c[[" + second);
}

TEST_F(Infill, TakesTheLengthThatTheModelIsMostConfidentOf) {
  model_with_text("llada");
  double best = -1e9;
  std::string text;
  for (const char* hole : {"[[1]]", "[[2]]", "[[3]]"}) {
    const json object = json::parse(infill("--json 'ab" + std::string(hole) + "cd'").out);
    if (object["mean_log_confidence"] <= best) continue;
    best = object["mean_log_confidence"];
    text = object["text"];
  }
  EXPECT_EQ(infill("'ab[[1-3]]cd'").out, text + "\n");
}

TEST_F(Infill, ShowsTheWholeCanvasOnATerminal) {
  const std::string model = model_with_text("llada");
  const std::string arguments = "infill --threads 1 --fps 50 -m " + model + " 'Mia[[2-3]]x'";
  TerminalProgram program("TERM=xterm", arguments);
  int status = -1;
  const std::string screen = program.finish(status);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(screen,
              AllOf(HasSubstr("\x1b[0;2mM"), HasSubstr("lengths 1 of 2"), HasSubstr("lengths 2 of 2")));
  EXPECT_THAT(screen, HasSubstr(infill("'Mia[[2-3]]x'").out.substr(0, 4)));
}

TEST_F(Infill, SaysWhatItCannotFill) {
  model_with_text("llada");
  expect_program_refuses(infill("'no hole'"), "has no hole");
  expect_program_refuses(infill("'a [[x]]'"), "\"[[x]]\" is not a hole");
  expect_program_refuses(infill("'a [[1-65]]'"), "more than 64 combinations");
  expect_program_refuses(infill("'a [[1]]' -n 5"), "gen-length");
  expect_program_refuses(infill("'a [[1]]' -f text"), "found both");
  expect_program_refuses(infill("'a [[4000]] [[4000]]'"), "positions of the model");
  expect_program_refuses(infill("''"), "has no hole");
  expect_program_refuses(lacuna("infill -m random:llada-8b,layers=1 'a [[1]]'"), "has no tokenizer");
  for (const char* family : {"qwen2", "llada2", "gidd"}) {
    expect_program_refuses(
        lacuna("infill 'a [[1]]' -m " LACUNA_SOURCE_DIR "/tests/golden/" + std::string(family)),
        "a model that fills any position of a canvas of masks");
  }
}

}  // namespace
}  // namespace lacuna::infill_test
