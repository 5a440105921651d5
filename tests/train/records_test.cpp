#include "train/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "temporary_folder.h"
#include "train/bpe.h"
#include "train/data.h"

namespace lacuna::train::records_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class RecordsTest : public ::testing::Test {
 protected:
  RecordsTest() : vocabulary_(vocabulary_of(learn_bpe({"user assistant What is 1 plus? It is 2."}, 320))) {}

  Records open(const std::string& lines, int64_t row_length = 64) {
    write(lines);
    return Records::open(file_, vocabulary_, row_length, cache_);
  }
  void write(const std::string& lines) { std::ofstream(file_, std::ios::trunc) << lines; }

  std::string text(std::span<const TokenId> tokens) const {
    return vocabulary_.tokenizer.decode(tokens, /*skip_special=*/false);
  }
  /// "prompt -> answer" of every row.
  std::vector<std::string> rows(const Records& records) const {
    std::vector<std::string> rows;
    for (uint64_t i = 0; i < records.size(); ++i) {
      const Records::Row row = records.row(i);
      rows.push_back(text(row.prompt) + " -> " + text(row.answer));
    }
    return rows;
  }

  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "data.jsonl";
  const std::filesystem::path cache_ = folder_.path() / "data.rows";
  Vocabulary vocabulary_;
};

TEST_F(RecordsTest, HaveARowForEachTurnOfTheAssistant) {
  const Records records =
      open(R"({"messages": [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "2."},)"
           R"( {"role": "user", "content": "2?"}, {"role": "assistant", "content": "3."}]})");
  EXPECT_THAT(rows(records), ::testing::ElementsAre(
                                 "<|im_start|>user\n1?<|im_end|>\n<|im_start|>assistant\n -> 2.<|im_end|>",
                                 "<|im_start|>user\n1?<|im_end|>\n<|im_start|>assistant\n2.<|im_end|>\n<|im_"
                                 "start|>user\n2?<|im_end|>\n"
                                 "<|im_start|>assistant\n -> 3.<|im_end|>"));
}

TEST_F(RecordsTest, TakePairsUnderTheNamesOfPublishedFiles) {
  const Records records =
      open("{\"prompt\": \"1?\", \"response\": \"2.\"}\n\n{\"query\": \"3?\", \"response\": \"4.\"}");
  EXPECT_THAT(rows(records), ::testing::ElementsAre(
                                 "<|im_start|>user\n1?<|im_end|>\n<|im_start|>assistant\n -> 2.<|im_end|>",
                                 "<|im_start|>user\n3?<|im_end|>\n<|im_start|>assistant\n -> 4.<|im_end|>"));
}

TEST_F(RecordsTest, ArePairsOfTextsWithoutAChatTemplate) {
  vocabulary_.chat = ChatTemplate();
  EXPECT_THAT(rows(open(R"({"prompt": "1?", "response": "2."})")),
              ::testing::ElementsAre("1? -> 2.<|endoftext|>"));
  write(R"({"messages": [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "2."}]})");
  EXPECT_THAT([&] { Records::open(file_, vocabulary_, 64, cache_); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("line 1"), HasSubstr("no chat template"))));
}

TEST_F(RecordsTest, CutTextsIntoRowsThatFollowEachOther) {
  const Records records = open("{\"text\": \"1 2 1 2\"}\n{\"text\": \"2.\"}", /*row_length=*/4);
  std::string all;
  for (uint64_t i = 0; i < records.size(); ++i) {
    const Records::Row row = records.row(i);
    EXPECT_EQ(row.prompt.size(), 1U);
    EXPECT_LE(row.answer.size(), 3U);
    all += text(row.prompt) + text(row.answer);
  }
  EXPECT_EQ(all, "1 2 1 2<|endoftext|>2.<|endoftext|>");
}

TEST_F(RecordsTest, SayWhatTheyLeftOut) {
  const Records records = open(
      "{\"prompt\": \"1?\", \"response\": \"2.\", \"id\": 7}\n{\"prompt\": \"1?\", \"response\": "
      "\"2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2\"}",
      /*row_length=*/24);
  EXPECT_EQ(records.size(), 1U);
  EXPECT_THAT(records.summary(), AllOf(HasSubstr("data.jsonl: 1 rows"), HasSubstr("1 of more than 24 tokens"),
                                       HasSubstr("not read: \"id\"")));
}

/// Changes when a file is replaced, whatever the clock.
ino_t inode(const std::filesystem::path& path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return status.st_ino;
}

TEST_F(RecordsTest, AreEncodedAgainOnlyWhenSomethingChanged) {
  open(R"({"prompt": "1?", "response": "2."})");
  const auto first = inode(cache_);
  Records::open(file_, vocabulary_, 64, cache_);
  EXPECT_EQ(inode(cache_), first);
  EXPECT_EQ(Records::open(file_, vocabulary_, 63, cache_).size(), 1U);
  EXPECT_NE(inode(cache_), first) << "the length changed";
  const Records changed =
      open("{\"prompt\": \"1?\", \"response\": \"2.\"}\n{\"prompt\": \"3?\", \"response\": \"4.\"}");
  EXPECT_EQ(changed.size(), 2U);
  std::filesystem::resize_file(cache_, 5);
  EXPECT_EQ(Records::open(file_, vocabulary_, 64, cache_).size(), 2U) << "a damaged cache is written anew";
}

TEST_F(RecordsTest, NameTheLineOfWhatTheyCannotRead) {
  const auto refused = [&](const std::string& line, const std::string& text) {
    write("{\"text\": \"1\"}\n" + line);
    EXPECT_THAT([&] { Records::open(file_, vocabulary_, 64, cache_); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("data.jsonl line 2"), HasSubstr(text))))
        << line;
  };
  refused("{\"text\": ", "");
  refused("[1]", "expected an object");
  refused(R"({"words": "1"})", "expected \"messages\"");
  refused(R"({"text": 1})", "expected a text as \"text\"");
  refused(R"({"prompt": "1", "response": [2]})", "expected a text as \"response\"");
  refused(R"({"messages": "1"})", "list of objects");
  refused(R"({"messages": [{"content": "1"}]})", "list of objects");
  write("\n");
  EXPECT_THAT([&] { Records::open(file_, vocabulary_, 64, cache_); },
              ThrowsMessage<InputError>(HasSubstr("no row")));
  EXPECT_THAT([&] { Records::open(folder_.path(), vocabulary_, 64, cache_); },
              ThrowsMessage<InputError>(HasSubstr("expected a file")));
}

/// Numbers, so that each row tells which it is.
std::string numbered_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += "{\"prompt\": \"" + std::to_string(i) + "\", \"response\": \"" + std::to_string(i) + "\"}\n";
  return lines;
}

TEST_F(RecordsTest, ComeOnceInAnOrderOfTheSeedBeforeAnyComesAgain) {
  vocabulary_.chat = ChatTemplate();
  const int count = 100, held_out = count / static_cast<int>(BatchSource::kHeldOutEvery);
  const Records records = open(numbered_lines(count));
  const auto epoch = [&](uint64_t seed) {
    DataOptions data;
    data.files = {{&records, 1}};
    data.drill_share = 0;
    data.batch_rows = 1;
    data.canvas = 2;
    data.seed = seed;
    BatchSource source(data, vocabulary_);
    std::vector<std::string> texts;
    // Batches of a pool are sorted, pools are not.
    for (uint64_t step = 0; step < static_cast<uint64_t>(count - held_out); ++step) {
      const Batch batch = source.batch(step);
      const auto* const tokens = batch.tokens.data_ptr<int64_t>();
      std::vector<TokenId> row(tokens, tokens + batch.tokens.size(1));
      texts.push_back(text(row));
    }
    return texts;
  };
  const std::vector<std::string> one = epoch(1), other = epoch(2);
  // The last pool reaches into the next epoch: of 98 rows, 96 come before it.
  EXPECT_GE(std::set<std::string>(one.begin(), one.end()).size(), 96U);
  EXPECT_NE(one, other);
  EXPECT_EQ(one, epoch(1));
}

TEST_F(RecordsTest, HoldRowsOutThatNoStepTrainsOn) {
  vocabulary_.chat = ChatTemplate();
  const Records records = open(numbered_lines(100));
  DataOptions data;
  data.files = {{&records, 1}};
  data.drill_share = 0;
  data.batch_rows = 1;
  BatchSource source(data, vocabulary_);
  const auto text_of = [&](const Batch& batch) {
    const auto* const tokens = batch.tokens.data_ptr<int64_t>();
    return text(std::vector<TokenId>(tokens, tokens + batch.tokens.size(1)));
  };
  std::set<std::string> held_out;
  for (const Batch& batch : source.held_out()) held_out.insert(text_of(batch));
  EXPECT_EQ(held_out.size(), 2U);
  for (uint64_t step = 0; step < 200; ++step)
    EXPECT_FALSE(held_out.contains(text_of(source.batch(step)))) << step;
}

}  // namespace
}  // namespace lacuna::train::records_test
