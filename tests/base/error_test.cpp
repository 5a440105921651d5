#include "base/error.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/field_error.h"

namespace lacuna::error_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

TEST(InputError, FormatsItsArgumentsAndTakesATextWithoutThemLiterally) {
  EXPECT_STREQ(InputError("{}: {} bytes", "a.bin", 3).what(), "a.bin: 3 bytes");
  EXPECT_STREQ(InputError(std::string("100% of {}")).what(), "100% of {}");
}

TEST(InputError, QuotesLongTextsWithoutTheirMiddle) {
  const std::string value(10'000'000, 'x');
  const std::string sentence = InputError("{}: {:.2f}: \"prepend\" is '{}', {}; expected {}",
                                          "tokenizer.json", 1.5, value, value.c_str(), "a text")
                                   .what();
  EXPECT_THAT(sentence, StartsWith("tokenizer.json: 1.50: \"prepend\" is 'xxx"));
  EXPECT_THAT(sentence, HasSubstr("xxx...xxx"));
  EXPECT_THAT(sentence, EndsWith("xxx; expected a text"));
  EXPECT_LE(sentence.size(), kMaxErrorBytes);
}

TEST(InputError, IsBoundedWhateverItSays) {
  const std::vector<std::string> names(100'000, "name");
  EXPECT_THAT(std::string(InputError("a.json: {}; expected {}", fmt::join(names, ", "), "b").what()),
              testing::AllOf(SizeIs(testing::Le(kMaxErrorBytes)), EndsWith("; expected b")));
  EXPECT_THAT(std::string(InputError(std::string(100'000, 'x')).what()), SizeIs(kMaxErrorBytes));
  EXPECT_THAT(FieldError(std::string(100'000, 'x'), "x is 0").field(), SizeIs(kMaxErrorBytes));
}

TEST(CutMiddle, CutsNoCharacter) {
  EXPECT_EQ(cut_middle("0123456789abcdef", 16), "0123456789abcdef");
  EXPECT_EQ(cut_middle("0123456789abcdefg", 16), "01234567...cdefg");
  for (size_t bytes = 16; bytes < 40; ++bytes) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += "漢";
    const std::string cut = cut_middle(text, bytes);
    EXPECT_LE(cut.size(), bytes);
    EXPECT_EQ((cut.size() - 3) % 3, 0U);
    EXPECT_THAT(cut, StartsWith("漢"));
    EXPECT_THAT(cut, EndsWith("漢"));
  }
  EXPECT_THAT(cut_middle(std::string(100, '\x80'), 16), SizeIs(testing::Le(16)));
}

TEST(Expects, ThrowsOnlyWhereItsConditionFails) {
  EXPECT_NO_THROW(expects(true, "holds"));
  EXPECT_THROW(expects(false, "does not hold"), std::logic_error);
}

}  // namespace
}  // namespace lacuna::error_test
