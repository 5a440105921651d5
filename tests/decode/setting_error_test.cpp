#include "decode/setting_error.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>

namespace lacuna::setting_error_test {
namespace {

TEST(Word, PutsASurfacesNamesInPlaceOfFields) {
  const FieldNames shout = [](std::string_view field) -> std::optional<std::string> {
    return field == "steps" || field == "cache" ? std::optional("<" + std::string(field) + ">")
                                                : std::nullopt;
  };
  EXPECT_EQ(rename_fields("`steps` 3 and `cache` dual", shout), "<steps> 3 and <cache> dual");
  EXPECT_EQ(rename_fields("`other` 3", shout), "`other` 3");
  EXPECT_EQ(rename_fields("`unmask` is '`'; expected `steps`", shout), "`unmask` is '`'; expected <steps>");
  EXPECT_EQ(rename_fields("one ` alone", shout), "one ` alone");
}

TEST(Problems, KeepTheirOrderAndThrowTheFirst) {
  Problems problems;
  EXPECT_NO_THROW(problems.throw_first());
  problems.within("steps", 3, 1, 8);
  problems.within("steps", std::optional<int32_t>(), 1, 8);
  EXPECT_TRUE(problems.empty());
  problems.within("steps", 9, 1, 8);
  problems.within_part("lock", "gate", 120.0, 0.0, 100.0);
  problems.refuse(true, "cache", "nothing is kept");
  ASSERT_EQ(problems.found().size(), 3U);
  EXPECT_EQ(problems.found()[1].sentence, "`lock` gate is 120; expected 0 to 100");
  EXPECT_EQ(problems.found()[2].expected, "");
  try {
    problems.throw_first();
    FAIL() << "three problems";
  } catch (const SettingError& error) {
    EXPECT_STREQ(error.what(), "`steps` is 9; expected 1 to 8");
    EXPECT_EQ(error.problem(), (Problem{"steps", "9", "1 to 8", "`steps` is 9; expected 1 to 8"}));
  }
}

}  // namespace
}  // namespace lacuna::setting_error_test
