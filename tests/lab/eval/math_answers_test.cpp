#include "eval/math_answers.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::math_answers_test {
namespace {

using testing::HasSubstr;
using testing::Optional;
using testing::ThrowsMessage;

TEST(MathAnswers, TheLastBoxCountsWithItsBraces) {
  EXPECT_THAT(final_math_answer(R"(So \boxed{1}, no, \boxed{\frac{1}{2}}.)"),
              Optional(std::string(R"(\frac{1}{2})")));
  EXPECT_THAT(final_math_answer(R"(\fbox{\{1, 2\}})"), Optional(std::string(R"(\{1, 2\})")));
  // A box that is never closed is no box.
  EXPECT_THAT(final_math_answer(R"(\boxed{4} and \boxed{\frac{1}{2})"), Optional(std::string("4")));
}

TEST(MathAnswers, WithoutABoxTheNamedAnswerCounts) {
  EXPECT_THAT(final_math_answer("Final Answer: The final answer is $5$. I hope it is correct."),
              Optional(std::string("5")));
  EXPECT_THAT(final_math_answer("The final answer is: $x+1$.\nMore"), Optional(std::string("x+1")));
  EXPECT_EQ(final_math_answer("It is 5."), std::nullopt);
  EXPECT_EQ(final_math_answer("The final answer is "), std::nullopt);
  EXPECT_EQ(final_math_answer(""), std::nullopt);
  EXPECT_EQ(final_math_answer("box"), std::nullopt);
}

TEST(MathAnswers, SpellingsOfTheSameAnswerAreOne) {
  const std::vector<std::pair<std::string, std::string>> same = {
      {R"(\dfrac{1}{2})", R"(\frac12)"},
      {R"(\tfrac1{72})", R"(\frac{1}{72})"},
      {"1/2", R"(\frac{1}{2})"},
      {"-3/4", R"(-\frac{3}{4})"},
      {".5", "0.5"},
      {"x=5", "5"},
      {R"(90^\circ)", "90"},
      {R"(10\%)", "10"},
      {"1,234,567", "1234567"},
      {R"(\left( 1, 2 \right))", "(1,2)"},
      {R"(5\text{ cm}^2)", "5"},
      {R"(\text{even})", "even"},
      {R"(\sqrt2)", R"(\sqrt{2})"},
      {R"(\$18.90)", "18.90"},
      {"7.", "7"},
      {R"(2\sqrt{\frac12})", R"(2\sqrt{\frac{1}{2}})"}};
  for (const auto& [one, other] : same) EXPECT_EQ(normalized_math(one), normalized_math(other)) << one;
}

TEST(MathAnswers, DifferentAnswersStayDifferent) {
  const std::vector<std::pair<std::string, std::string>> different = {{"1,2", "12"},
                                                                      {"(1,234)", "(1234)"},
                                                                      {"1/2", "2/1"},
                                                                      {"x+1", "x-1"},
                                                                      {R"(\frac{1}{2})", R"(\frac{1}{3})"},
                                                                      {"0.5", "5"},
                                                                      {R"(\text{odd})", "even"},
                                                                      {"", "0"}};
  for (const auto& [one, other] : different) EXPECT_NE(normalized_math(one), normalized_math(other)) << one;
  // Broken LaTeX is compared as it is.
  EXPECT_EQ(normalized_math(R"(\frac{1)"), R"(\frac{1)");
  EXPECT_EQ(normalized_math(R"(\text{a)"), R"(\text{a)");
  EXPECT_EQ(normalized_math(R"(\frac)"), R"(\frac)");
}

TEST(MathAnswers, ProblemsAreReadWithTheirAnswers) {
  const TemporaryFolder folder;
  folder.write("math.jsonl", R"({"problem": "1+1?", "solution": "It is $\\boxed{2}$."})"
                             "\n"
                             R"({"problem": "2+2?", "solution": "no box", "answer": "4"})"
                             "\n");
  const std::string path = (folder.path() / "math.jsonl").string();
  const std::vector<MathProblem> problems = read_math(path);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].answer, "2");
  EXPECT_EQ(problems[1].answer, "4");
  EXPECT_EQ(math_prompt(problems[0]), "Problem:\n1+1?\n\nSolution:");
  EXPECT_THAT(math_request(problems[0]), HasSubstr("\\boxed{}"));
  folder.write("math.jsonl", R"({"problem": "1+1?", "solution": "2"})");
  EXPECT_THAT([&] { read_math(path); }, ThrowsMessage<InputError>(HasSubstr("line 1")));
  EXPECT_THAT([&] { read_math(path); }, ThrowsMessage<InputError>(HasSubstr("\\boxed{}")));
}

}  // namespace
}  // namespace lacuna::math_answers_test
