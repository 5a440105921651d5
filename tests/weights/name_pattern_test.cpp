#include "weights/name_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace lacuna::name_pattern_test {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  const std::optional<NamePattern> parsed = NamePattern::parse(pattern);
  EXPECT_TRUE(parsed) << pattern;
  const std::optional<bool> is_match = parsed ? parsed->matches(name) : std::nullopt;
  EXPECT_TRUE(is_match) << pattern;
  return is_match.value_or(false);
}

TEST(NamePattern, MatchesWholeNames) {
  EXPECT_TRUE(matches("q_proj", "q_proj"));
  EXPECT_FALSE(matches("q_proj", "self_attn.q_proj"));
  EXPECT_FALSE(matches("q", "q_proj"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches(".*q_proj", "model.layers.3.self_attn.q_proj"));
  EXPECT_TRUE(matches("^model\\.norm$", "model.norm"));
  EXPECT_FALSE(matches("model\\.norm", "model_norm")) << "an escaped dot is a dot";
  EXPECT_TRUE(matches("model.norm", "model_norm")) << "a dot is any character";
}

TEST(NamePattern, KnowsGroupsAlternativesAndSets) {
  const std::string layers = R"(.*\.layers\.(?:[0-9]|1[0-5])\.self_attn\.(q_proj|v_proj)$)";
  EXPECT_TRUE(matches(layers, "model.layers.7.self_attn.q_proj"));
  EXPECT_TRUE(matches(layers, "model.layers.15.self_attn.v_proj"));
  EXPECT_FALSE(matches(layers, "model.layers.16.self_attn.v_proj"));
  EXPECT_FALSE(matches(layers, "model.layers.1.self_attn.k_proj"));
  EXPECT_TRUE(matches("[^.]+", "abc"));
  EXPECT_FALSE(matches("[^.]+", "a.c"));
  EXPECT_TRUE(matches("[]a-c-]+", "a]b-c"));
  EXPECT_TRUE(matches(R"([\d_]+)", "1_2"));
  EXPECT_TRUE(matches("a|", ""));
}

TEST(NamePattern, KnowsRepeats) {
  EXPECT_TRUE(matches("a{2,3}", "aaa"));
  EXPECT_FALSE(matches("a{2,3}", "aaaa"));
  EXPECT_FALSE(matches("a{2}", "a"));
  EXPECT_TRUE(matches("a{2,}b?", "aaaa"));
  EXPECT_TRUE(matches("(ab)*?c", "ababc"));
  EXPECT_TRUE(matches("(a*)*b", "aaab")) << "a group that may match nothing ends";
  EXPECT_TRUE(matches(R"(\w+\.\d+)", "layer_1.20"));
}

TEST(NamePattern, RefusesOtherSyntax) {
  for (const char* const text : {"(", ")", "[a", "a{", "a{3,2}", "*a", "a**", "\\", "\\b", "(?=a)", "(?i)a",
                                 "(?P<n>a)", "\\1", "a{1001}", "[b-a]"}) {
    EXPECT_FALSE(NamePattern::parse(text)) << text;
  }
  EXPECT_FALSE(NamePattern::parse(std::string(1001, 'a')));
  EXPECT_FALSE(NamePattern::parse(std::string(200, '(') + std::string(200, ')')));
}

TEST(NamePattern, GivesUpWhereAMatchTakesTooLong) {
  const std::optional<NamePattern> pattern = NamePattern::parse("(a|aa)*(a|aa)*(a|aa)*b");
  ASSERT_TRUE(pattern);
  EXPECT_FALSE(pattern->matches(std::string(60, 'a')));
  EXPECT_FALSE(pattern->matches(std::string(401, 'b')));
}

}  // namespace
}  // namespace lacuna::name_pattern_test
