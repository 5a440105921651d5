#include "eval/longbench.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "temporary_folder.h"
#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::longbench_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kLine =
    R"({"input": "Where does Mia live?", "context": "Mia lives in Oslo. Ben lives in Rome.", )"
    R"("answers": ["Oslo", "in Oslo"], "length": 9, "dataset": "qasper", "language": "en", )"
    R"("all_classes": null, "_id": "1"})";

class LongBench : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    folder_.write("data.jsonl", text);
    return (folder_.path() / "data.jsonl").string();
  }
  void expect_refused(const std::string& text, const char* sentence) {
    const std::string path = write(text);
    EXPECT_THAT([&] { read_longbench(path); }, ThrowsMessage<InputError>(HasSubstr(sentence))) << text;
  }

  TemporaryFolder folder_;
};

TEST_F(LongBench, ReadsQuestionsWithTheirReferences) {
  const LongBenchFile file = read_longbench(write(std::string(kLine) + "\n" + kLine));
  EXPECT_EQ(file.task->name, "qasper");
  EXPECT_EQ(file.task->metric, TextMetric::kTokenF1);
  EXPECT_EQ(file.task->gen_length, 128);
  ASSERT_EQ(file.items.size(), 2u);
  EXPECT_EQ(file.items[1].input, "Where does Mia live?");
  EXPECT_EQ(file.items[1].answers, (std::vector<std::string>{"Oslo", "in Oslo"}));
}

TEST_F(LongBench, RefusesOtherFilesWithLineAndKey) {
  const std::string line = kLine;
  expect_refused(R"({"context": "c", "answers": ["a"], "dataset": "trec"})", "\"dataset\" is \"trec\"");
  expect_refused(R"({"context": "c", "answers": ["a"], "dataset": "trec"})", "narrativeqa");
  expect_refused(line + "\n" + R"({"context": "c", "answers": ["a"], "dataset": "lcc"})",
                 "data.jsonl line 2");
  expect_refused(R"({"context": "c", "answers": [], "dataset": "lcc"})", "1 to 64 texts");
  expect_refused(R"({"answers": ["a"], "dataset": "lcc"})", "context");
  expect_refused(R"({"context": "c", "answers": [")" + std::string(kMaxReferenceBytes + 1, 'a') +
                     R"("], "dataset": "lcc"})",
                 "expected at most 65536");
}

TEST_F(LongBench, FillsTheTemplatesOfItsDataSets) {
  const LongBenchItem item{"A {input} B", "why {context}?", {"x"}};
  EXPECT_EQ(longbench_prompt("", item), "A {input} B\n\nwhy {context}?");
  EXPECT_EQ(longbench_prompt("", {"code", "", {"x"}}), "code");
  EXPECT_EQ(longbench_prompt("Read: {context}\nQ: {input} {other}", item),
            "Read: A {input} B\nQ: why {context}? {other}");
  const auto forms =
      read_longbench_templates(write(R"({"lcc": "{context}>", "qasper": "{context}{input}"})"));
  EXPECT_EQ(forms.at("lcc"), "{context}>");
  const std::string path = write(R"({"lcc": "code"})");
  EXPECT_THAT([&] { read_longbench_templates(path); },
              ThrowsMessage<InputError>(HasSubstr("a text with {context}")));
}

TEST_F(LongBench, LeavesOutTheMiddleOfWhatIsTooLong) {
  const Tokenizer bytes = parse(tiny_tokenizer());
  EXPECT_EQ(without_middle(bytes, "0123456789", 10), "0123456789");
  EXPECT_EQ(without_middle(bytes, "0123456789", 5), "0189");
}

TEST_F(LongBench, ScoresTheBestReference) {
  const auto tasks = longbench_tasks();
  const auto task = [&](std::string_view name) -> const LongBenchTask& {
    return *std::find_if(tasks.begin(), tasks.end(), [&](const auto& row) { return row.name == name; });
  };
  const LongBenchItem item{"", "", {"Rome", "in Oslo"}};
  EXPECT_DOUBLE_EQ(longbench_score(task("qasper"), item, "Oslo"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(longbench_score(task("qasper"), item, "Paris\nRome"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(longbench_score(task("triviaqa"), item, "\nRome\nParis"), 1);  // its first line
  EXPECT_DOUBLE_EQ(longbench_score(task("qmsum"), item, "in Oslo today"), 2 * 2.0 / 5);
  EXPECT_DOUBLE_EQ(longbench_score(task("lcc"), {"", "", {"b = 2"}}, "# first\nb = 3"), 2 * 4.0 / 10);
}

}  // namespace
}  // namespace lacuna::longbench_test
