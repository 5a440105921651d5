#include "options/names.h"

#include <gmock/gmock.h>

#include <string>

#include "base/error.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::names_test {
namespace {

TEST(Names, FindASettingByItsNameOrAnyAlias) {
  EXPECT_EQ(setting_named("gen-length"), "gen-length");
  EXPECT_EQ(setting_named("gen_length"), "gen-length");
  EXPECT_EQ(setting_named("max_tokens"), "gen-length");
  EXPECT_EQ(setting_named("-n"), "gen-length");
  EXPECT_EQ(setting_named("remasking"), "unmask");
  EXPECT_EQ(setting_named("n"), "");
  EXPECT_EQ(setting_named(""), "");
}

TEST(Names, OfFlagsBelongToSettingsAlone) {
  EXPECT_EQ(flag_name("block_length"), "--block-length");
  EXPECT_EQ(flag_name("guide"), "--guide");
  EXPECT_EQ(flag_name("max_tokens"), std::nullopt) << "an alias is not what flags are called";
  EXPECT_EQ(flag_name("prompt"), std::nullopt);
}

TEST(Names, OfFlagsExistForEverySetting) {
  GenerationOptions options;
  visit_options(options, [&](const Setting& setting, auto&) {
    EXPECT_EQ(flag_name(with_underscores(setting.name)), "--" + std::string(setting.name));
  });
}

TEST(Names, OfOneErrorDifferBetweenSurfaces) {
  GenerationOptions options;
  options.gen_length = 8;
  options.block_length = 3;
  try {
    make_decoder(tiny_configs()[0], options, {1, 2});
    FAIL() << "3 does not divide 8";
  } catch (const SettingError& error) {
    EXPECT_STREQ(error.what(), "--block-length 3 does not divide --gen-length 8");
    const auto plain = [](std::string_view field) { return std::optional(std::string(field)); };
    EXPECT_EQ(sentence_of(error, plain), "block_length 3 does not divide gen_length 8");
  }
  EXPECT_EQ(sentence_of(InputError("as it is"), flag_name), "as it is");
}

}  // namespace
}  // namespace lacuna::names_test
