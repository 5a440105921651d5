#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "program.h"

namespace lacuna::first_run_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

using FirstRun = ProgramTest;

TEST_F(FirstRun, NeedsNoFlagsButAModelAndAPrompt) {
  for (const char* model : {"mini-llada", "mini-dream", "mini-gidd", "mini-gidd-mask", "mini-sdar",
                            "mini-llada2", "mini-fast-dllm", "mini-refusion", "mini-gemma", "mini-qwen"}) {
    const ProgramResult run = shell(std::string("lacuna run -p 'Mia has 12 shells.' --json -m ") + model);
    ASSERT_EQ(run.exit_code, 0) << model << ": " << run.err;
    const json result = json::parse(run.out);
    const auto config = json::parse(shell(std::string("cat models/") + model + "/config.json").out);
    const json& of_text = config.contains("text_config") ? config["text_config"] : config;
    const int most = of_text.value("max_position_embeddings", of_text.value("max_sequence_length", 0));
    EXPECT_LE(result["prompt_tokens"].get<int>() + static_cast<int>(result["tokens"].size()), most) << model;
    EXPECT_GT(result["stats"]["rows_baseline"], 0) << model;
  }
}

constexpr std::array kDiffusionModels = {"mini-llada", "mini-dream",  "mini-gidd",      "mini-gidd-mask",
                                         "mini-sdar",  "mini-llada2", "mini-fast-dllm", "mini-refusion"};
constexpr std::array kStories = {
    "Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many shells does Mia have now?",
    "Mia had 12 shells. Then she found 7 more and gave Sam 5 of them. How many did she have left?",
    "There are 12 shells in Mia's bag. Sam gives her 7 more. Later she loses 5. How many shells are left?"};
constexpr std::string_view kAnswer = "12+7=19. 19-5=14. The answer is 14.\n";

TEST_F(FirstRun, AnswersTheStoryOfTheReadmeWithoutFlags) {
  for (const char* const model : kDiffusionModels) {
    for (const char* const story : kStories) {
      EXPECT_EQ(shell(fmt::format("lacuna run -m {} -p \"{}\"", model, story)).out, kAnswer)
          << model << ": " << story;
      EXPECT_EQ(shell(fmt::format("echo \"{}\" | lacuna chat -m {}", story, model)).out, kAnswer)
          << model << ": " << story;
    }
  }
}

TEST_F(FirstRun, DecidesWithTheModelThatWasTrainedForIt) {
  const ProgramResult run = shell(
      "lacuna decide -m mini-decide --json"
      " --state 'Ben the fox lives in the barn. One day Ben loses the bell. Ben is very sad.'"
      " -q 'Is Ben happy?' -q 'Is Ben sad?'"
      " -q 'Where does Ben live?' --choice 'by the lake,in the barn,near the sea'");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json answers = json::parse(run.out)["answers"];
  EXPECT_LT(answers[0]["probability"], 0.1);
  EXPECT_GT(answers[1]["probability"], 0.9);
  EXPECT_EQ(answers[2]["choice"], "in the barn");
}

TEST_F(FirstRun, ServesEveryModelWithoutFlags) {
  for (const char* model : {"mini-gidd", "mini-gidd-mask"}) {
    const ProgramResult served =
        shell(std::string("LACUNA_PORT=0 timeout -s INT 5 '" LACUNA_BINARY "' serve -m ") + model);
    EXPECT_THAT(served.err, HasSubstr("at http://")) << model;
  }
  const ProgramResult refused =
      shell("timeout 20 '" LACUNA_BINARY "' serve -m mini-gidd --gen-length 100000");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--gen-length 100000 leaves no position for a prompt")));
}

TEST_F(FirstRun, TakesTheLengthOfTheAnswerFromTheModelsFiles) {
  shell("cp -r models/mini-llada own");
  const auto tokens = [&](const std::string& generation, const std::string& flags = "") {
    folder_.write("own/generation_config.json", generation);
    const ProgramResult run = shell("lacuna run -m own -p 'Mia has 12 shells.' --json " + flags);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const json result = json::parse(run.out);
    return std::pair<size_t, size_t>(result["prompt_tokens"], result["tokens"].size());
  };
  EXPECT_EQ(tokens("{}").second, 128U);
  EXPECT_EQ(tokens(R"({"max_new_tokens": 24})").second, 24U);
  EXPECT_EQ(tokens(R"({"max_new_tokens": 24, "max_length": 99})").second, 24U);
  EXPECT_EQ(tokens(R"({"max_new_tokens": null})").second, 128U);
  EXPECT_EQ(tokens(R"({"max_new_tokens": 24})", "-n 16").second, 16U);
  EXPECT_EQ(tokens(R"({"max_new_tokens": 30})", "--block-length 8").second, 24U);
  const auto [prompt, answer] = tokens(R"({"max_length": 60})");
  EXPECT_EQ(prompt + answer, 60U);
  const auto [long_prompt, longest] = tokens(R"({"max_new_tokens": 1000000})", "--steps 1");
  EXPECT_EQ(long_prompt + longest, 1024U);
  folder_.write("own/generation_config.json", R"({"max_new_tokens": "many"})");
  EXPECT_THAT(shell("lacuna run -m own -p a").err, AllOf(HasSubstr("max_new_tokens"), HasSubstr("many")));
}

TEST_F(FirstRun, SaysWhatFitsWhereALengthDoesNot) {
  const ProgramResult run = shell("lacuna run -m mini-llada --prompt-tokens 5,6,7 -n 1022");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("expected --gen-length 1021 at most"));
}

TEST_F(FirstRun, ReadsThePromptFromStandardInput) {
  const std::string flags = "run -m mini-llada -n 16 ";
  const std::string given = shell("lacuna " + flags + "-p 'Mia has 12 shells.'").out;
  EXPECT_EQ(shell("echo 'Mia has 12 shells.' | lacuna " + flags).out, given);
  EXPECT_EQ(shell("printf 'Mia has 12 shells.\\r\\n' | lacuna " + flags + "-p -").out, given);
  EXPECT_EQ(shell("lacuna " + flags + "-f - <<< 'Mia has 12 shells.'").out, given);

  const ProgramResult empty = shell("lacuna " + flags + " </dev/null");
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_THAT(empty.err, HasSubstr("standard input is empty"));
  const ProgramResult endless = shell("yes | lacuna " + flags);
  EXPECT_EQ(endless.exit_code, 2);
  EXPECT_THAT(endless.err, HasSubstr("standard input has more than"));
}

TEST_F(FirstRun, EndsInputThatNeverEnds) {
  expect_program_refuses(shell("yes | lacuna tokenize -m mini-llada"), "standard input: has more than");
  expect_program_refuses(shell("yes | lacuna run -m mini-llada"), "standard input has more than");
}

TEST_F(FirstRun, SaysThatAModelWithoutATokenizerAnswersInIds) {
  const std::string golden =
      "lacuna run -m " LACUNA_SOURCE_DIR "/tests/golden/llada --prompt-tokens 5,6 -n 8";
  const ProgramResult ids = shell(golden);
  EXPECT_EQ(json::parse(ids.out).size(), 8U);
  EXPECT_THAT(ids.err, HasSubstr("no tokenizer"));
  EXPECT_THAT(shell(golden + " --json").err, IsEmpty());
}

TEST_F(FirstRun, TellsTheSavingInItsLastLineOnATerminal) {
  TerminalProgram program("TERM=xterm", "run -m " LACUNA_SOURCE_DIR
                                        "/models/mini-llada -n 32 --unmask threshold=0.0001 --no-live "
                                        "-p 'Mia has 12 shells.'");
  int status = -1;
  EXPECT_THAT(program.finish(status), HasSubstr(" rows: 32x fewer"));
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lacuna::first_run_test
