// Checks that every test of an SVG uses.
#pragma once

#include <gmock/gmock.h>

#include <regex>
#include <string>
#include <vector>

namespace lacuna {

/// How often `part` stands in `text`.
inline size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Every element is closed, in order; attributes are quoted; nothing else is left of the markup.
inline void expect_well_formed(const std::string& svg) {
  static const std::regex kTag("<(/?)([a-z]+)((?: [a-zA-Z0-9-]+=\"[^\"<>]*\")*)(/?)>");
  std::vector<std::string> open;
  for (std::sregex_iterator tag(svg.begin(), svg.end(), kTag), end; tag != end; ++tag) {
    if ((*tag)[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), (*tag)[2]);
      open.pop_back();
    } else if ((*tag)[4].length() == 0) {
      open.push_back((*tag)[2]);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_THAT(std::regex_replace(svg, kTag, ""),
              testing::AllOf(testing::Not(testing::HasSubstr("<")), testing::Not(testing::HasSubstr(">"))));
}

}  // namespace lacuna
