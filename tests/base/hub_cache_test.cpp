#include "base/hub_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace lacuna::hub_cache_test {
namespace {

TEST(HubModel, HasAnOwnerANameARevisionAndAQuant) {
  const auto model = HubModel::parse("GSAI-ML/LLaDA-8B@refs/pr/1:Q4_K_M");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->id(), "GSAI-ML/LLaDA-8B");
  EXPECT_EQ(model->revision, "refs/pr/1");
  EXPECT_EQ(model->quant, "Q4_K_M");
  EXPECT_EQ(model->text(), "GSAI-ML/LLaDA-8B@refs/pr/1:Q4_K_M");
  EXPECT_EQ(HubModel::parse("a/b")->revision, "main");
}

TEST(HubModel, RefusesNamesThatTheHubForbids) {
  for (const char* const text :
       {"", "a", "/", "a/", "/b", "a/b/c", "../b", "a/..", "a/b@", "a/b:", "a/b@../x", "a/b@/x", "a/b@-x",
        "a--b/c", "a/b c", "a/b\n", "a/b@x:../y", "-a/b", "a/b."}) {
    EXPECT_FALSE(HubModel::parse(text)) << text;
  }
  EXPECT_FALSE(HubModel::parse("a/" + std::string(97, 'b')));
}

TEST(RelativeFile, StaysBelowItsFolder) {
  for (const char* const path : {"a", "a/b.json", "..a/b..", "with space"})
    EXPECT_TRUE(is_relative_file(path)) << path;
  for (const char* const path : {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a\\b", "a\nb", "\x7f"}) {
    EXPECT_FALSE(is_relative_file(path)) << path;
  }
}

}  // namespace
}  // namespace lacuna::hub_cache_test
