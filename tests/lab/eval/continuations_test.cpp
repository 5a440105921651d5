#include "eval/continuations.h"

#include <gmock/gmock.h>

#include <string>

#include "base/error.h"
#include "temporary_folder.h"
#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::continuations_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Records : public testing::Test {
 protected:
  std::string write(const char* name, const std::string& text) {
    folder_.write(name, text);
    return (folder_.path() / name).string();
  }

  TemporaryFolder folder_;
};

TEST_F(Records, AreLinesOrTextsOfJsonLines) {
  EXPECT_THAT(read_records(write("a.txt", " = Title = \n\n \t\nFirst words.\r\nlast")),
              ElementsAre(" = Title = ", "First words.", "last"));
  EXPECT_THAT(read_records(write("a.jsonl", R"({"text": ""})"
                                            "\n"
                                            R"({"text": "One\nrecord.", "id": 3})")),
              ElementsAre("One\nrecord."));
}

TEST_F(Records, AreRefusedWithFileLineAndKey) {
  const auto refused = [&](const char* name, const std::string& text, const char* sentence) {
    const std::string path = write(name, text);
    EXPECT_THAT([&] { read_records(path); }, ThrowsMessage<InputError>(HasSubstr(sentence)));
  };
  refused("b.txt", "\n \n", "b.txt: expected at least one record with a text");
  refused("b.jsonl", R"({"text": " "})", "expected at least one record");
  refused("b.jsonl",
          R"({"text": "a"})"
          "\n"
          R"({"page": "b"})",
          "b.jsonl line 2");
  refused("b.jsonl", R"({"text": 3})", "text");
}

TEST(BeginningOf, HoldsTheFirstTokens) {
  const Tokenizer bytes = parse(tiny_tokenizer());
  EXPECT_EQ(beginning_of(bytes, "0123456789", 4), "0123");
  EXPECT_EQ(beginning_of(bytes, "0123", 4), "0123");
  EXPECT_EQ(beginning_of(bytes, std::string(5000, 'a'), 4), "aaaa");
}

TEST(BeginningOf, DoesNotEndInsideACharacter) {
  const Tokenizer bytes = parse(tiny_tokenizer());
  EXPECT_EQ(beginning_of(bytes, "ab\u20AC", 3), "ab");
  EXPECT_EQ(beginning_of(bytes, "ab\u20ACc", 5), "ab\u20AC");
}

}  // namespace
}  // namespace lacuna::continuations_test
