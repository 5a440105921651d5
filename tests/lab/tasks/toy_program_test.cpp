#include "tasks/toy_program.h"

#include <gtest/gtest.h>

#include <string>

namespace lacuna::toy_program_test {
namespace {

using Numbers = ToyProgram::Numbers;

std::optional<Numbers> run(const std::string& text, const Numbers& inputs) {
  const std::optional<ToyProgram> program = ToyProgram::parse(text);
  EXPECT_TRUE(program) << text;
  return program ? program->run(inputs) : std::nullopt;
}

TEST(ToyProgram, ComputesAnswersFromItsInputs) {
  EXPECT_EQ(run("a=a+3.", {4, 5}), (Numbers{7, 5}));
  EXPECT_EQ(run("a=b.", {4, 5}), (Numbers{5, 5}));
  EXPECT_EQ(run("b = a - 999 ;\n a = 2*b .\n", {4, 5}), (Numbers{-1990, -995}));
  EXPECT_EQ(run("a=c;b=b*b.", {4, 5}), (Numbers{0, 25}));  // c begins with 0
  EXPECT_EQ(run("c=a; a=b; b=c.", {4, 5}), (Numbers{5, 4}));
}

TEST(ToyProgram, AsksBeforeAStatement) {
  EXPECT_EQ(run("a>b?a=1.", {5, 4}), (Numbers{1, 4}));
  EXPECT_EQ(run("a>b?a=1.", {4, 4}), (Numbers{4, 4}));
  EXPECT_EQ(run("b>a?a=1.", {4, 5}), (Numbers{1, 5}));
  EXPECT_EQ(run("a>b?a=b;b>a?b=a.", {9, 5}), (Numbers{5, 5}));
}

TEST(ToyProgram, IsNothingElse) {
  for (const std::string text :
       {"",      ".",       "a=a+3",       "a=a+3;",   "a=a+3;.",      "a=.",    "=3.",
        "a=a+.", "a=a+3..", "a=a+3. b=1.", "a=a+3+4.", "d=1.",         "A=1.",   "a=1234.",
        "a=-1.", "a=1 2.",  "a>b?.",       "a>1?a=1.", "a>b?a>b?a=1.", "a=a/2.", "a=a+3.x"}) {
    EXPECT_FALSE(ToyProgram::parse(text)) << text;
  }
  EXPECT_FALSE(ToyProgram::parse(std::string("a=1.\0", 5)));
  EXPECT_FALSE(ToyProgram::parse(std::string("a=1\0.", 5)));
}

TEST(ToyProgram, EndsWhereItGrowsBeyondItsBounds) {
  EXPECT_EQ(run("a=999*999.", {0, 0}), (Numbers{998'001, 0}));
  EXPECT_EQ(run("a=999*999; a=a+999; a=a+999; a=a+2.", {0, 0}), std::nullopt);
  std::string statements = "a=a+1";
  for (size_t i = 1; i < ToyProgram::kMaxStatements; ++i) statements += ";a=a+1";
  EXPECT_EQ(run(statements + ".", {0, 0}), (Numbers{32, 0}));
  EXPECT_FALSE(ToyProgram::parse(statements + ";a=a+1."));
  EXPECT_FALSE(ToyProgram::parse(std::string(1 << 20, ' ') + std::string(1 << 20, ';')));
}

TEST(BehaveAlike, ComparesWhatProgramsDoAndNotHowTheyAreWritten) {
  const auto alike = [](const std::string& one, const std::string& other) {
    return behave_alike(*ToyProgram::parse(one), *ToyProgram::parse(other));
  };
  EXPECT_TRUE(alike("a=a+3.", "a=a+1;a=2+a;c=7."));
  EXPECT_FALSE(alike("a=a+3.", "a=a+4."));
  EXPECT_FALSE(alike("a>b?a=b.", "a=b."));
  EXPECT_FALSE(alike("a>b?b=1.", "b>a?b=1."));
  EXPECT_FALSE(alike("a>b?b=1;b>a?b=1.", "b=1."));  // equal numbers tell them apart
  EXPECT_FALSE(alike("a=999*999;a=a*9.", "a=999*999;a=a*9."));
}

}  // namespace
}  // namespace lacuna::toy_program_test
