#include "eval/benchmarks.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "tasks/written_numbers.h"
#include "temporary_folder.h"

namespace lacuna::benchmarks_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kProblem =
    R"({"question": "Mia has 3 eggs. She buys 1,200. How many?", "answer": "3+1200=<<3+1200=1203>>1203\n#### 1,203"})";

class Files : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    folder_.write("data.jsonl", text);
    return (folder_.path() / "data.jsonl").string();
  }
  std::string write_gzip(const std::string& text) {
    const std::string path = (folder_.path() / "data.jsonl.gz").string();
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return path;
  }
  template <typename Read>
  void expect_refused(Read&& read, const std::string& text, const char* sentence) {
    const std::string path = write(text);
    EXPECT_THAT([&] { read(path); }, ThrowsMessage<InputError>(HasSubstr(sentence))) << text;
  }

  TemporaryFolder folder_;
};

TEST_F(Files, MayBeCompressed) {
  const std::string text = std::string(kProblem) + "\n\n" + kProblem + "\n";
  for (const std::string& path : {write(text), write_gzip(text)}) {
    const std::vector<WordProblem> problems = read_gsm8k(path);
    ASSERT_EQ(problems.size(), 2u);
    EXPECT_EQ(problems[1].number, "1203");
  }
  const std::string path = write_gzip(text);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 9);
  EXPECT_THAT([&] { read_gsm8k(path); }, ThrowsMessage<InputError>(HasSubstr("data.jsonl.gz")));
  EXPECT_THAT([&] { read_gsm8k("/no/such"); },
              ThrowsMessage<InputError>(HasSubstr("/no/such: cannot be read: No such file")));
  EXPECT_THROW(read_gsm8k("/"), InputError);
}

TEST_F(Files, AreRefusedWithFileLineAndKey) {
  expect_refused(read_gsm8k, "", "at least one line");
  expect_refused(read_gsm8k, "[]\n", "data.jsonl line 1: expected a JSON object");
  expect_refused(read_gsm8k, std::string(kProblem) + "\n{", "data.jsonl line 2");
  expect_refused(read_gsm8k, R"({"question": "q"})", "answer");
  expect_refused(read_gsm8k, R"({"question": 7, "answer": "#### 1"})", "question");
  expect_refused(read_gsm8k, R"({"question": "q", "answer": "1"})", "'#### '");
  expect_refused(read_humaneval, R"({"task_id": "a", "prompt": "b", "test": "c"})", "entry_point");
  expect_refused(read_mt_bench, R"({"question_id": 1, "category": "c", "turns": []})", "turns");
  expect_refused(read_mt_bench, R"({"question_id": "x", "category": "c", "turns": ["t"]})", "question_id");
}

TEST_F(Files, OfChatQuestionsHoldTurns) {
  const std::vector<ChatQuestion> questions = read_mt_bench(
      write(R"({"question_id": 81, "category": "writing", "turns": ["One?", "Two?"], "reference": []})"));
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].id, 81);
  EXPECT_EQ(questions[0].turns, (std::vector<std::string>{"One?", "Two?"}));
}

TEST(Gsm8kPrompt, ShowsSolvedProblemsAndAsksTheNext) {
  EXPECT_EQ(gsm8k_prompt({}, "How many?"), "Question: How many?\nAnswer:");
  EXPECT_EQ(gsm8k_prompt({{"One?", "1\n#### 1", "1"}}, "How many?"),
            "Question: One?\nAnswer: 1\n#### 1\n\nQuestion: How many?\nAnswer:");
}

const CodeProblem kCode{"T/0", "def add(a, b):\n    \"\"\"Sum.\"\"\"\n", "add",
                        "def check(candidate):\n    assert candidate(1, 2) == 3\n"};

TEST(HumanevalCompletion, OfABaseModelEndsBeforeTheNextStatement) {
  EXPECT_EQ(humaneval_completion(kCode, "    return a + b\n\ndef other():\n", false), "    return a + b\n");
  EXPECT_EQ(humaneval_completion(kCode, "    return a + b\n# Next\nprint(1)", false), "    return a + b");
  EXPECT_EQ(humaneval_completion(kCode, "    if a:\n        return 1", false), "    if a:\n        return 1");
}

TEST(HumanevalCompletion, OfAChatModelIsItsFirstBlock) {
  EXPECT_EQ(
      humaneval_completion(kCode, "Sure:\n```python\ndef add(a, b):\n    return a + b\n```\nDone.", true),
      "\ndef add(a, b):\n    return a + b\n");
  EXPECT_EQ(humaneval_completion(kCode, "    return a + b", true), "    return a + b");
  EXPECT_EQ(humaneval_completion(kCode, "```", true), "");
  EXPECT_EQ(humaneval_completion(kCode, "```python", true), "");
}

TEST(HumanevalProgram, EndsWithItsTest) {
  EXPECT_EQ(humaneval_program(kCode, "    return a + b\n"),
            "def add(a, b):\n    \"\"\"Sum.\"\"\"\n    return a + b\n\n"
            "def check(candidate):\n    assert candidate(1, 2) == 3\n\ncheck(add)\n");
}

TEST(FlashdlmTurns, AreRequestsAndAnswersThatEndWithTheNumber) {
  const std::vector<std::string> turns =
      gsm8k_flashdlm_turns({{"Mia has 3 eggs. How many?", "There are 3.\n#### 3", "3"}}, "And 4?");
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_THAT(turns[0], HasSubstr("Problem: Mia has 3 eggs. How many?\n\nYour response"));
  EXPECT_EQ(turns[1], "There are 3.\nThe final answer is 3");
  EXPECT_THAT(turns[2], HasSubstr("Problem: And 4?\n"));
}

TEST(FlashdlmNumber, FollowsTheLastNamedAnswer) {
  EXPECT_EQ(flashdlm_number("The final answer is 5, and 6 are left. 7"), "5");
  EXPECT_EQ(flashdlm_number("The final answer is $1,203.00. So"), "1203.00");
  EXPECT_EQ(flashdlm_number("The final answer is -4"), "-4");
  EXPECT_EQ(flashdlm_number("The final answer is none of 3.\nThe final answer is x"), "3");
  EXPECT_EQ(flashdlm_number("It is 12"), "12");
  EXPECT_EQ(flashdlm_number("none"), std::nullopt);
}

constexpr const char* kMbppLine =
    R"({"task_id": 11, "text": "Add two numbers.", "code": "", "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0"], "test_setup_code": "import math"})";

TEST_F(Files, OfMbppHaveTheirTestsInTheRequest) {
  const std::vector<CodeProblem> whole = read_mbpp(write(kMbppLine));
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].task_id, "11");
  EXPECT_EQ(whole[0].prompt,
            "You are an expert Python programmer, and here is your task: Add two numbers. Your code should "
            "pass these "
            "tests:\n\nassert add(1, 2) == 3\nassert add(0, 0) == 0\n");
  EXPECT_EQ(mbpp_program(whole[0], "def add(a, b): return a + b"),
            "def add(a, b): return a + b\nimport math\nassert add(1, 2) == 3\nassert add(0, 0) == 0\n");
  EXPECT_TRUE(mbpp_prompt(whole[0]).ends_with("\n[BEGIN]\n"));
  const std::vector<CodeProblem> sanitized = read_mbpp(write(
      R"json({"task_id": 2, "prompt": "Add.", "test_imports": ["import re"], "test_list": ["assert f()"]})json"));
  EXPECT_THAT(sanitized[0].prompt, HasSubstr("task: Add. Your"));
  EXPECT_THAT(sanitized[0].test, HasSubstr("import re"));
  expect_refused(read_mbpp, R"({"task_id": 2, "text": "Add.", "test_list": []})", "test_list");
  expect_refused(read_mbpp, R"({"task_id": "2", "text": "Add.", "test_list": ["a"]})", "task_id");
  expect_refused(read_mbpp, R"({"task_id": 2, "test_list": ["a"]})", "text");
}

TEST(MbppCompletion, EndsAtItsMarkOrIsTheFirstBlock) {
  EXPECT_EQ(mbpp_completion("def f(): pass\n[DONE]\nmore", false), "def f(): pass\n");
  EXPECT_EQ(mbpp_completion("Here:\n```python\ndef f(): pass\n```\nmore", true), "def f(): pass\n");
  EXPECT_EQ(mbpp_completion("def f(): pass", true), "def f(): pass");
}

TEST(PublishedFiles, CanBeRead) {
  const std::string folder = LACUNA_SHARED_DIR "/data";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  const std::vector<WordProblem> problems = read_gsm8k(folder + "/gsm8k/test.jsonl");
  EXPECT_EQ(problems.size(), 1319u);
  EXPECT_EQ(problems[0].number, "18");
  for (const WordProblem& problem : problems) EXPECT_EQ(last_number(problem.solution), problem.number);
  EXPECT_EQ(read_humaneval(folder + "/humaneval/HumanEval.jsonl.gz").size(), 164u);
  const std::vector<ChatQuestion> questions = read_mt_bench(folder + "/mt_bench/question.jsonl");
  EXPECT_EQ(questions.size(), 80u);
  for (const ChatQuestion& question : questions) EXPECT_EQ(question.turns.size(), 2u);
}

}  // namespace
}  // namespace lacuna::benchmarks_test
