#include "eval/choices.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::choices_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// One line of each benchmark, in the form in which the hub exports its data set.
const std::map<std::string, std::string> kLines = {
    {"arc-challenge",
     R"({"id": "M_1", "question": "What is hot?", "choices": {"text": ["ice", "fire", "snow"], )"
     R"("label": ["1", "2", "3"]}, "answerKey": "2"})"},
    {"arc-easy", R"({"id": "M_2", "question": "What is wet?", "choices": {"text": ["rain", "sand"], )"
                 R"("label": ["A", "B"]}, "answerKey": "A"})"},
    {"gpqa", R"({"Record ID": "r", "Question": " What is it? ", "Correct Answer": "right\n", )"
             R"("Incorrect Answer 1": "w1", "Incorrect Answer 2": "w2", "Incorrect Answer 3": "w3"})"},
    {"hellaswag",
     R"({"ind": 4, "activity_label": "Making tea", "ctx_a": "[header] Boil water [title] Wait.", )"
     R"("ctx_b": "then She", "ctx": "unused", "endings": ["pours it.", " sings [step] loudly.", )"
     R"("sleeps.", "runs."], "label": "1", "split": "val"})"},
    {"mmlu-pro", R"({"question_id": 70, "question": "How many?", "options": ["1", "2", "3", "N/A"], )"
                 R"("answer": "C", "answer_index": 2, "cot_content": "A: Let's think step by step. It is )"
                 R"(3. The answer is (C).", "category": "math", "src": "ours"})"},
    {"piqa", R"({"goal": "Dry a cup", "sol1": "use a towel", "sol2": "use a spoon", "label": 0})"},
};

class Choices : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    folder_.write("data.jsonl", text);
    return (folder_.path() / "data.jsonl").string();
  }
  ChoiceItem item_of(const std::string& name, uint64_t seed = 0) {
    return read_choices(benchmark(name), write(kLines.at(name)), seed).at(0);
  }
  static const ChoiceBenchmark& benchmark(const std::string& name) { return *find_choice_benchmark(name); }
  std::string likelihood_prompt_of(const std::string& name) {
    return likelihood_prompt(benchmark(name), {}, item_of(name));
  }
  std::string request_of(const std::string& name) {
    return generation_prompt(benchmark(name), {}, item_of(name));
  }
  std::optional<size_t> chosen(const std::string& name, const std::string& text) {
    return chosen_option(benchmark(name), item_of(name), text);
  }
  void expect_refused(const std::string& name, const std::string& from, const std::string& to,
                      const char* sentence) {
    std::string line = kLines.at(name);
    const size_t at = line.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    line.replace(at, from.size(), to);
    const std::string path = write(kLines.at(name) + "\n\n" + line);
    EXPECT_THAT(
        [&] { read_choices(benchmark(name), path, 0); },
        ThrowsMessage<InputError>(testing::AllOf(HasSubstr("data.jsonl line 3"), HasSubstr(sentence))))
        << line;
  }

  TemporaryFolder folder_;
};

TEST_F(Choices, AreSixBenchmarksInOrder) {
  std::vector<std::string_view> names;
  for (const ChoiceBenchmark& benchmark : choice_benchmarks()) names.push_back(benchmark.name);
  EXPECT_THAT(names, ElementsAre("arc-challenge", "arc-easy", "gpqa", "hellaswag", "mmlu-pro", "piqa"));
  EXPECT_EQ(find_choice_benchmark("arc"), nullptr);
}

TEST_F(Choices, AreReadFromFilesOfTheHub) {
  ChoiceItem item = item_of("arc-challenge");
  EXPECT_EQ(item.question, "What is hot?");
  EXPECT_THAT(item.options, ElementsAre("ice", "fire", "snow"));
  EXPECT_EQ(item.answer, 1u);
  EXPECT_EQ(item_of("arc-easy").answer, 0u);
  item = item_of("mmlu-pro");
  EXPECT_EQ(item.subject, "math");
  EXPECT_THAT(item.options, ElementsAre("1", "2", "3"));
  EXPECT_EQ(item.answer, 2u);
  EXPECT_EQ(item.worked, "Let's think step by step. It is 3. The answer is (C).");
  item = item_of("piqa");
  EXPECT_THAT(item.options, ElementsAre("use a towel", "use a spoon"));
  item = item_of("hellaswag");
  EXPECT_EQ(item.question, "Making tea: Boil water. Wait. Then she");
  EXPECT_THAT(item.options, ElementsAre("pours it.", "sings loudly.", "sleeps.", "runs."));
  EXPECT_EQ(item.answer, 1u);
  folder_.write("number.jsonl",
                R"({"activity_label": "a", "ctx_a": "b", "endings": ["c", "d"], "label": 1})");
  EXPECT_EQ(read_choices(benchmark("hellaswag"), (folder_.path() / "number.jsonl").string(), 0)[0].answer,
            1u);
}

TEST_F(Choices, OfGpqaAreShuffledByTheSeed) {
  std::set<std::vector<std::string>> orders;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ChoiceItem item = item_of("gpqa", seed);
    EXPECT_EQ(item.question, "What is it?");
    EXPECT_EQ(item.options.at(item.answer), "right");
    EXPECT_EQ(item_of("gpqa", seed).options, item.options);
    orders.insert(item.options);
  }
  EXPECT_EQ(orders.size(), 24u);
}

TEST_F(Choices, AreRefusedWithFileLineAndKey) {
  expect_refused("arc-easy", R"("answerKey": "A")", R"("answerKey": "C")", "answerKey");
  expect_refused("arc-easy", R"(["A", "B"])", R"(["A"])", "label");
  expect_refused("arc-easy", R"(["rain", "sand"])", R"(["rain"])", "2 to 16 texts");
  expect_refused("gpqa", "Incorrect Answer 2", "Incorrect", "Incorrect Answer 2");
  expect_refused("hellaswag", R"("label": "1")", R"("label": "4")", "label");
  expect_refused("hellaswag", R"("label": "1")", R"("label": "")", "label");
  expect_refused("hellaswag", R"("label": "1")", R"("label": 4)", "label");
  expect_refused("mmlu-pro", R"("answer_index": 2)", R"("answer_index": 3)", "answer_index");
  expect_refused("mmlu-pro", R"("answer": "C")", R"("answer": "A")", "answer");
  expect_refused("mmlu-pro", R"(["1", "2", "3", "N/A"])",
                 R"(["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])", "2 to 16 texts");
  expect_refused("mmlu-pro", "How many?", std::string(kMaxQuestionBytes, 'a'), "at most 1048576 bytes");
  expect_refused("piqa", R"("label": 0)", R"("label": -1)", "label");
  expect_refused("piqa", "sol2", "sol3", "sol2");
}

TEST_F(Choices, AreAskedAsTheHarnessAsksForLikelihoods) {
  EXPECT_EQ(likelihood_prompt_of("piqa"), "Question: Dry a cup\nAnswer:");
  EXPECT_EQ(likelihood_prompt_of("arc-easy"), "Question: What is wet?\nAnswer:");
  EXPECT_EQ(likelihood_prompt_of("hellaswag"), "Making tea: Boil water. Wait. Then she");
  const ChoiceItem item = item_of("gpqa");
  EXPECT_EQ(likelihood_prompt_of("gpqa"), "Question: What is it?\nChoices:\n(A) " + item.options[0] +
                                              "\n(B) " + item.options[1] + "\n(C) " + item.options[2] +
                                              "\n(D) " + item.options[3] + "\nAnswer:");
  EXPECT_EQ(scored_text(benchmark("gpqa"), item, 3), "(D)");
  EXPECT_EQ(scored_text(benchmark("piqa"), item_of("piqa"), 1), "use a spoon");
}

TEST_F(Choices, AreAskedForAnExplainedAnswer) {
  EXPECT_THAT(
      request_of("arc-challenge"),
      testing::AllOf(HasSubstr("three Answers"),
                     HasSubstr("Sentence: What is hot?\n\nAnswer1: ice\nAnswer2: fire\nAnswer3: snow\n"),
                     HasSubstr("either Answer1, Answer2, or Answer3.")));
  EXPECT_THAT(request_of("hellaswag"), HasSubstr("either Ending1, Ending2, Ending3, or Ending4."));
  EXPECT_THAT(request_of("piqa"), HasSubstr("Instruction: Dry a cup\n\nSolution1: use a towel\nSolution2: "));
  EXPECT_THAT(request_of("gpqa"), HasSubstr("with four possible answers"));
  EXPECT_EQ(request_of("mmlu-pro"),
            "The following are multiple choice questions (with answers) about math. Think step by step and "
            "then finish your answer with \"the answer is (X)\" where X is the correct letter choice.\n\n"
            "Question:\nHow many?\nOptions:\nA. 1\nB. 2\nC. 3\nAnswer: Let's think step by step.");
}

TEST_F(Choices, KeepPlaceholdersThatAQuestionHolds) {
  ChoiceItem item{"", "{options} {", {"{question}", "b"}, 0, ""};
  EXPECT_EQ(likelihood_prompt(benchmark("piqa"), {}, item), "Question: {options} {\nAnswer:");
  EXPECT_THAT(generation_prompt(benchmark("piqa"), {}, item), HasSubstr("Solution1: {question}\n"));
}

TEST_F(Choices, FollowSolvedQuestionsOfTheirSubject) {
  const ChoiceItem item = item_of("mmlu-pro");
  ChoiceItem other = item;
  other.subject = "law";
  const std::vector<ChoiceItem> solved = {other, item, item};
  const std::string prompt = generation_prompt(benchmark("mmlu-pro"), {solved, 1, "val.jsonl"}, item);
  EXPECT_THAT(prompt, HasSubstr("letter choice.\n\nQuestion:\nHow many?\nOptions:\nA. 1\nB. 2\nC. 3\nAnswer: "
                                "Let's think step by step. It is 3. The answer is (C).\n\nQuestion:\n"));
  EXPECT_THAT(
      [&] {
        generation_prompt(benchmark("mmlu-pro"), {solved, 3, "val.jsonl"}, item);
      },
      ThrowsMessage<InputError>(HasSubstr("--shots 3: val.jsonl holds 2 solved questions of 'math'")));
  const std::vector<ChoiceItem> cups = {item_of("piqa")};
  EXPECT_EQ(likelihood_prompt(benchmark("piqa"), {cups, 1, "f"}, cups[0]),
            "Question: Dry a cup\nAnswer: use a towel\n\nQuestion: Dry a cup\nAnswer:");
}

TEST_F(Choices, AreReadFromTheLetterOfAnAnswer) {
  EXPECT_EQ(chosen("mmlu-pro", "So it is 2. The answer is (B)."), 1u);
  EXPECT_EQ(chosen("mmlu-pro", "The answer is C. The answer is A."), 2u);
  EXPECT_EQ(chosen("mmlu-pro", "The answer is unclear, the answer is (A)"), 0u);
  EXPECT_EQ(chosen("mmlu-pro", "Answer: A or rather\nAnswer:  C"), 2u);
  EXPECT_EQ(chosen("mmlu-pro", "I choose B, not A, no: B!"), 1u);
  EXPECT_EQ(chosen("mmlu-pro", "The answer is (J)"), std::nullopt);  // there are three options
  EXPECT_EQ(chosen("mmlu-pro", "no Answer here"), std::nullopt);
  EXPECT_EQ(chosen("mmlu-pro", ""), std::nullopt);
  EXPECT_EQ(chosen("mmlu-pro", "It is 2.\n\nQuestion:\nThe answer is (A)"), std::nullopt);
}

TEST_F(Choices, AreReadFromTheNameOfAnAnswer) {
  EXPECT_EQ(chosen("arc-challenge", "Fire burns.\nThe final answer is Answer2"), 1u);
  EXPECT_EQ(chosen("arc-challenge", "The final answer is Answer1. No, the final answer is **answer 3**."),
            2u);
  EXPECT_EQ(chosen("arc-challenge", "The final answer is [Fire]."), 1u);
  EXPECT_EQ(chosen("arc-challenge", "The final answer is fire\nThat burns."), 1u);
  EXPECT_EQ(chosen("arc-challenge", "The final answer is Answer4"), std::nullopt);
  EXPECT_EQ(chosen("arc-challenge", "The final answer is Answer0"), std::nullopt);
  EXPECT_EQ(chosen("arc-challenge", "The final answer is Answer"), std::nullopt);
  EXPECT_EQ(chosen("arc-challenge", "Answer2"), std::nullopt);
  EXPECT_EQ(chosen("arc-challenge", "The final answer is"), std::nullopt);
  EXPECT_EQ(chosen("piqa", "The final answer is Solution2"), 1u);
  EXPECT_EQ(chosen("hellaswag", "The final answer is Ending4"), 3u);
}

}  // namespace
}  // namespace lacuna::choices_test
