// `lacuna replay`.
#include "program.h"

namespace lacuna::replay_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Replay : public ProgramTest {
 protected:
  /// The text of a run, whose trace is t.jsonl.
  std::string record(const std::string& family) const {
    const ProgramResult run =
        lacuna("run --threads 1 -n 8 -p Hi --trace t.jsonl -m " + model_with_text(family));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  }
};

TEST_F(Replay, EndsWithTheTextOfTheRun) {
  for (const char* family : {"llada", "dream", "qwen2"}) {
    const std::string text = record(family);
    const ProgramResult result = lacuna("replay t.jsonl");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, text) << family;
    EXPECT_THAT(result.err, IsEmpty());
  }
}

TEST_F(Replay, PlaysOnATerminalAtTheSpeedThatIsAskedFor) {
  record("llada");
  TerminalProgram program("TERM=xterm", "replay --fps 100 " + path("t.jsonl"));
  int status = -1;
  const std::string screen = program.finish(status);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(screen,
              AllOf(HasSubstr("step 1 "), HasSubstr("step 8 "), HasSubstr("8 masked"), HasSubstr("░")));
}

TEST_F(Replay, TakesTextsOfOlderTracesFromTheModel) {
  const std::string text = record("llada");
  std::string old;
  std::istringstream trace(file_text(path("t.jsonl")));
  for (std::string line; std::getline(trace, line);) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(line);
    for (const char* key : {"v", "mask", "ends", "pieces", "length", "changed"}) json.erase(key);
    old += json.dump() + "\n";
  }
  folder_.write("old.jsonl", old);
  EXPECT_EQ(lacuna("replay old.jsonl -m " + path("llada")).out, text);
  EXPECT_THAT(lacuna("replay old.jsonl").out, HasSubstr("<"));
}

TEST_F(Replay, PlaysTheRequestThatIsAskedFor) {
  folder_.write("prompts.jsonl", "{\"prompt\": \"Hi\"}\n{\"prompt\": \"And\"}\n");
  const ProgramResult run =
      lacuna("run --threads 1 -n 8 --batch 2 --prompts-file prompts.jsonl --trace t.jsonl -m " +
             model_with_text("llada"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(lacuna("replay t.jsonl").out + lacuna("replay t.jsonl --request 1").out, run.out);
  expect_program_refuses(lacuna("replay t.jsonl --request 2"), "holds no request 2");
}

TEST_F(Replay, RefusesWhatIsNoTrace) {
  expect_program_refuses(lacuna("replay none.jsonl"), "none.jsonl: cannot be read");
  expect_program_refuses(lacuna("replay ."), "cannot be read");
  folder_.write("t.jsonl", "{\"prompt_tokens\":0,\"canvas\":[1]}\n{\"step\":0,\"committed\":[{}]}\n");
  expect_program_refuses(lacuna("replay t.jsonl"), "t.jsonl, line 2");
  folder_.write("t.jsonl", "hello\n");
  expect_program_refuses(lacuna("replay t.jsonl"), "t.jsonl, line 1");
  expect_program_refuses(lacuna("replay t.jsonl --fps 0"), "--fps");
  expect_program_refuses(lacuna("replay t.jsonl --color blue"), "--color");
}

TEST_F(Replay, LetsNoTraceControlTheTerminal) {
  folder_.write(
      "t.jsonl",
      "{\"prompt_tokens\":0,\"canvas\":[1,2],\"pieces\":{\"1\":\"\\u001b[31mred\",\"2\":\"\\u202ex\"}}\n"
      "{\"step\":0,\"committed\":[{\"position\":0,\"token\":1}]}\n");
  TerminalProgram program("TERM=xterm", "replay --fps 100 " + path("t.jsonl"));
  int status = -1;
  EXPECT_THAT(program.finish(status),
              AllOf(HasSubstr("␛[31mred"), Not(HasSubstr("\x1b[31m")), Not(HasSubstr("\u202e"))));
}

}  // namespace
}  // namespace lacuna::replay_test
