#include <gmock/gmock.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "program.h"

namespace lacuna::help_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

using Help = ProgramTest;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The commands that a list of commands names.
std::vector<std::string> commands_in(const std::string& page) {
  std::vector<std::string> commands;
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("  ") && line.size() > 3 && line[2] != ' ' && !line.starts_with("  lacuna ")) {
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return commands;
}

TEST_F(Help, ListsTheCommandsByWhatPeopleWantToDo) {
  const ProgramResult bare = shell("lacuna");
  EXPECT_EQ(bare.exit_code, 0);
  EXPECT_THAT(bare.err, IsEmpty());
  EXPECT_EQ(shell("lacuna help").out, bare.out);
  EXPECT_EQ(shell("lacuna --help").out, bare.out);
  size_t place = 0;
  for (const char* heading :
       {"Run a model:", "Serve:", "Look inside:", "Measure:", "Convert:", "Help:", "First steps:"}) {
    const size_t found = bare.out.find(heading);
    ASSERT_NE(found, std::string::npos) << heading;
    EXPECT_GT(found, place) << heading;
    place = found;
  }
  EXPECT_THAT(commands_in(bare.out),
              IsSupersetOf({"run", "serve", "inspect", "eval", "quantize", "help", "completion", "man"}));
  EXPECT_THAT(bare.out, Not(HasSubstr("\nCommands:")));  // every command has its place
}

TEST_F(Help, BeginsEachPageWithTwoExamples) {
  for (const std::string& command : commands_in(shell("lacuna help").out)) {
    const ProgramResult page = shell("lacuna " + command + " --help");
    EXPECT_EQ(page.exit_code, 0) << command;
    EXPECT_EQ(shell("lacuna help " + command).out, page.out) << command;
    const std::vector<std::string> lines = lines_of(page.out);
    ASSERT_GT(lines.size(), 3U) << command;
    for (size_t i : {0U, 1U}) {
      EXPECT_THAT(lines[i], AllOf(StartsWith("  "), HasSubstr("lacuna " + command))) << command;
    }
  }
}

TEST_F(Help, ShowsExamplesThatWork) {
  folder_.write("request.json", R"({"tokens": [1, 2, 3]})");
  for (const char* command :
       {"run", "infill", "decide", "inspect", "tokenize", "logits", "help", "quantize", "pack"}) {
    const std::vector<std::string> page = lines_of(shell(std::string("lacuna help ") + command).out);
    for (size_t i : {0U, 1U}) {
      const ProgramResult outcome = shell(page.at(i));
      EXPECT_EQ(outcome.exit_code, 0) << page[i] << "\n" << outcome.err;
    }
  }
}

TEST_F(Help, ShowsExamplesWithTheRightAnswers) {
  const auto answers = [&](const char* command, size_t example) {
    return shell(lines_of(shell(std::string("lacuna help ") + command).out).at(example)).out;
  };
  EXPECT_EQ(answers("run", 0), "12+7=19. The answer is 19.\n");
  EXPECT_THAT(answers("run", 1), HasSubstr("9-4=5. The answer is 5."));
  EXPECT_THAT(answers("infill", 0), HasSubstr("of them. Now she has 7 shells."));
  EXPECT_THAT(answers("infill", 1), testing::ContainsRegex("He (earns|finds|gets|buys|wins) 4 coins"));
  EXPECT_THAT(answers("decide", 0), HasSubstr("shells  1.000"));
  EXPECT_THAT(answers("decide", 1), HasSubstr(R"("probability":0.99)"));
  EXPECT_EQ(shell("eval \"$(lacuna | sed -n 's/^First steps: //p')\"").out, "12+7=19. The answer is 19.\n");
}

TEST_F(Help, SaysAFlagInOneShortLine) {
  for (const char* command : {"run", "serve"}) {
    for (const std::string& line : lines_of(shell(std::string("lacuna ") + command + " --help").out)) {
      if (!line.starts_with("  -") && !line.starts_with("      --")) continue;
      EXPECT_LE(line.size(), 2 + 30 + 2 + 100U) << line;
    }
  }
}

TEST_F(Help, KeepsRareFlagsForHelpAll) {
  const std::string usual = shell("lacuna run --help").out;
  const std::string all = shell("lacuna run --help-all").out;
  for (const char* flag :
       {"--prompt ", "--gen-length ", "--steps ", "--temperature ", "--cache ", "--json"}) {
    EXPECT_THAT(usual, HasSubstr(flag));
    EXPECT_THAT(all, HasSubstr(std::string(flag).substr(0, std::string(flag).size() - 1)));
  }
  for (const char* flag : {"--slot-size", "--self-correct", "--sparse-after", "--rope-scale", "--alg-temp"}) {
    EXPECT_THAT(usual, Not(HasSubstr(flag)));
    EXPECT_THAT(all, HasSubstr(flag));
  }
  EXPECT_THAT(usual, AllOf(HasSubstr("\nModel:"), HasSubstr("\nPrompt:"), HasSubstr("\nSampling:"),
                           HasSubstr("\nSpeed:"), HasSubstr("\nOutput:"), HasSubstr("--help-all")));
  EXPECT_THAT(all, HasSubstr("--max-new-tokens"));  // other names
}

TEST_F(Help, SuggestsTheNearestOfWhatThereIs) {
  const auto refuses = [&](const std::string& arguments, const std::string& part) {
    const ProgramResult outcome = shell("lacuna " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(part)) << arguments;
    EXPECT_EQ(lines_of(outcome.err).size(), 1U) << outcome.err;
  };
  refuses("rnu -m x", "did you mean run?");
  refuses("sreve", "did you mean serve?");
  refuses("rnu mini-llada 'a question'", "did you mean run?");
  refuses("infil mini-llada", "did you mean infill?");
  refuses("run -m mini-llada -p a --gen-lenght 8", "did you mean --gen-length?");
  refuses("run -m mini-llada -p a --gen-lenght=8", "did you mean --gen-length?");
  refuses("run -m mini-llada -p a --dtype bf61", "did you mean bf16?");
  refuses("run -m mini-llada -p a --unmask entorpy", "did you mean entropy?");
  refuses("run -m mini-llada -p a --unmask treshold=0.9", "did you mean threshold?");
  refuses("run -m mini-llada -p a --cache prefx", "did you mean prefix?");
  refuses("run -m mini-llada -p a --preset fsat", "did you mean fast?");
  refuses("help rnu", "did you mean run?");
  refuses("bench stpe", "did you mean step?");
  EXPECT_THAT(shell("lacuna xyzzy").err, Not(HasSubstr("did you mean")));
}

/// Completions that bash would offer after these words.
std::string completing(const std::string& words) {
  return "source <(lacuna completion bash) && COMP_WORDS=(lacuna " + words +
         ") COMP_CWORD=$((${#COMP_WORDS[@]}-1)) && _lacuna && printf '%s\\n' \"${COMPREPLY[@]}\"";
}

TEST_F(Help, CompletesCommandsFlagsAndValuesInBash) {
  const auto offers = [&](const std::string& words) {
    const ProgramResult outcome = shell(completing(words));
    EXPECT_THAT(outcome.err, IsEmpty()) << words;
    return lines_of(outcome.out);
  };
  EXPECT_THAT(offers("''"), IsSupersetOf({"run", "serve", "bench", "completion"}));
  EXPECT_THAT(offers("in"), Contains("inspect"));
  EXPECT_THAT(offers("in"), Each(StartsWith("in")));
  EXPECT_THAT(offers("run --gen"), testing::ElementsAre("--gen-length"));
  EXPECT_THAT(offers("run -m x --see"), testing::ElementsAre("--seed"));
  EXPECT_THAT(offers("run --dtype ''"), testing::ElementsAre("auto", "f32", "bf16"));
  EXPECT_THAT(offers("bench ''"), IsSupersetOf({"step", "decode"}));
  EXPECT_THAT(offers("bench step --canv"), testing::ElementsAre("--canvas"));
  EXPECT_THAT(offers("help ru"), testing::ElementsAre("run"));
  EXPECT_THAT(offers("run -m mod"), testing::ElementsAre("models"));  // a file
  EXPECT_THAT(offers("run mod"), testing::ElementsAre("models"));
  EXPECT_THAT(offers("run mini-llada --see"), testing::ElementsAre("--seed"));
  EXPECT_THAT(offers("bench step mini-llada --canv"), testing::ElementsAre("--canvas"));
  EXPECT_THAT(offers("completion ''"), IsSupersetOf({"bash", "zsh", "fish"}));
}

TEST_F(Help, PrintsCompletionsThatTheirShellsRead) {
  for (const char* name : {"bash", "zsh", "fish"}) {
    const std::string shell_name = name;
    EXPECT_THAT(shell("lacuna completion " + shell_name).out, HasSubstr("gen-length")) << name;
    if (std::system(("command -v " + shell_name + " >/dev/null").c_str()) != 0) continue;
    const ProgramResult read =
        shell("lacuna completion " + shell_name + " > script && " + shell_name + " -n script");
    EXPECT_EQ(read.exit_code, 0) << name << read.err;
  }
}

TEST_F(Help, PrintsAManualWithoutWarnings) {
  const std::string page = shell("lacuna man").out;
  EXPECT_THAT(page,
              AllOf(StartsWith(".TH LACUNA 1"), HasSubstr("\\-\\-gen\\-length"), HasSubstr("EXIT STATUS")));
  if (std::system("command -v groff >/dev/null") != 0) GTEST_SKIP() << "needs groff";
  const ProgramResult set = shell("lacuna man | groff -man -ww -z");
  EXPECT_EQ(set.exit_code, 0);
  EXPECT_THAT(set.err, IsEmpty());
  EXPECT_THAT(shell("lacuna man | groff -man -Tascii -P-cbou").out,
              AllOf(HasSubstr("--gen-length"), HasSubstr("lacuna bench step")));
}

}  // namespace
}  // namespace lacuna::help_test
