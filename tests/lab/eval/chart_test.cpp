#include "eval/chart.h"

#include <gmock/gmock.h>

#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "eval/svg.h"

namespace lacuna::chart_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Chart chart() {
  return {"Rows & <steps>",
          {"step"},
          {"ratio", false, 0, 1},
          {{"m = 10", {{0, 1}, {1, 0.5}, {2, 0.25}}, 0, true, false},
           {"m = 20", {{0, 0.9}, {2, 0.1}}, 1, true, true},
           {"points", {{1, 0.5, "a\"b"}, {1, 0.5, "again"}}, 2, false, false}}};
}

TEST(ChartSvg, IsWellFormedAndTheSameEachTime) {
  const std::string svg = to_svg(chart());
  expect_well_formed(svg);
  EXPECT_EQ(svg, to_svg(chart()));
  EXPECT_EQ(count(svg, "<polyline"), 2);
  EXPECT_EQ(count(svg, "<circle"), 3);  // two points and the legend
  EXPECT_THAT(svg, AllOf(HasSubstr("Rows &amp; &lt;steps&gt;"), HasSubstr(">m = 20<"),
                         HasSubstr("stroke-dasharray"), HasSubstr("a&quot;b")));
}

TEST(ChartSvg, PutsValuesWhereTheAxesSay) {
  const std::string svg = to_svg(chart());
  // The first series: from the top left of the plot, then to half its height.
  EXPECT_THAT(svg, testing::ContainsRegex("points=\"[0-9.]+,44\\.0 [0-9.]+,234\\.0 [0-9.]+,329\\.0\""));
  for (const char* tick : {">0<", ">0.2<", ">0.4<", ">0.6<", ">0.8<", ">1<"}) {
    EXPECT_THAT(svg, HasSubstr(tick));
  }
}

TEST(ChartSvg, HasLogarithmicAxes) {
  const std::string svg =
      to_svg({"t", {"x", true}, {"y"}, {{"s", {{0.02, 1}, {0.2, 2}, {2, 3}}, 0, true, false}}});
  EXPECT_THAT(svg, AllOf(HasSubstr(">0.05<"), HasSubstr(">0.1<"), HasSubstr(">0.5<")));
  std::smatch found;
  ASSERT_TRUE(
      std::regex_search(svg, found, std::regex("points=\"([0-9.]+),[0-9.]+ ([0-9.]+),[0-9.]+ ([0-9.]+),")));
  EXPECT_NEAR(std::stod(found[2]) - std::stod(found[1]), std::stod(found[3]) - std::stod(found[2]), 0.2);
}

TEST(ChartSvg, TakesTheTicksThatItIsGiven) {
  const std::string svg = to_svg({"t", {"x", true, {}, {}, {1, 4}}, {"y"}, {{"s", {{1, 1}, {4, 9}}}}});
  const std::string below = " text-anchor=\"middle\" fill=\"#808080\">";  // the x axis
  EXPECT_THAT(svg, AllOf(HasSubstr(below + "1<"), HasSubstr(below + "4<"), Not(HasSubstr(below + "2<"))));
}

TEST(ChartSvg, DrawsChartsWithoutRange) {
  expect_well_formed(to_svg(Chart{"empty", {"x"}, {"y"}, {}}));
  expect_well_formed(to_svg({"one", {"x"}, {"y", true}, {{"s", {{3, 3, "here"}}, 7, false, false}}}));
}

TEST(ChartSvg, KeepsLabelsApart) {
  Chart crowded{"t", {"x"}, {"y"}, {{"s", {}, 0, false, false}}};
  for (int i = 0; i < 12; ++i) crowded.series[0].points.push_back({1.0, 1.0, "label" + std::to_string(i)});
  crowded.series[0].points.push_back({0, 0});
  const std::string svg = to_svg(crowded);
  static const std::regex kLabel("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\"[^>]*>label");
  std::vector<std::pair<double, double>> places;
  for (std::sregex_iterator label(svg.begin(), svg.end(), kLabel), end; label != end; ++label) {
    places.emplace_back(std::stod((*label)[1]), std::stod((*label)[2]));
  }
  ASSERT_EQ(places.size(), 12);
  for (size_t a = 0; a < places.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      EXPECT_TRUE(std::abs(places[a].second - places[b].second) > 13.9 ||
                  std::abs(places[a].first - places[b].first) > 36)
          << a << ", " << b;
    }
  }
}

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kLowest = "stroke=\"#261c5c\"";
constexpr const char* kHighest = "stroke=\"#f6e246\"";

TEST(HeatMap, DrawsRunsOfCellsInTheColourOfTheirValue) {
  HeatMap map{"A & B", {"step", 3}, {"layer", -2}, "share", false, {}, 2};
  map.panels = {{"prompt", {{0, 0, 1}, {kNothing, 0, 0.5}}}, {"answer", {{1, 1, 1}, {1, 1, 1}}}};
  const std::string svg = to_svg(map);
  expect_well_formed(svg);
  EXPECT_EQ(svg, to_svg(map));
  EXPECT_THAT(svg, AllOf(HasSubstr("A &amp; B"), HasSubstr(">prompt<"), HasSubstr(">answer<"),
                         HasSubstr(">-2<"), HasSubstr(">4<"), HasSubstr(">share<")));
  // Two neighbours are one stroke; nothing is drawn where nothing was measured.
  EXPECT_THAT(svg, HasSubstr(std::string(kLowest) + " d=\"M0 0h2M1 1h1\""));
  EXPECT_THAT(svg, HasSubstr(std::string(kHighest) + " d=\"M2 0h1\""));
  EXPECT_THAT(svg, HasSubstr(std::string(kHighest) + " d=\"M0 0h3M0 1h3\""));
  // The bar: from 0 to the highest value, with the middle.
  EXPECT_THAT(svg, AllOf(HasSubstr(">1<"), HasSubstr(">0.5<"), HasSubstr(">0<")));
}

TEST(HeatMap, HasALogarithmicScale) {
  HeatMap map{"t",          {"step"}, {"position", -1, 0},
              "1 - cosine", true,     {{"", {{1e-4, 1e-2, 1}, {0, 1e-9, 1}}}}};
  const std::string svg = to_svg(map);
  expect_well_formed(svg);
  // Zero is grey, 1e-9 is as low as the scale goes, and 1e-2 is 60% of the way from 1e-5 to 1.
  EXPECT_THAT(svg, AllOf(HasSubstr("stroke=\"#808080\" d=\"M0 1h1\""),
                         HasSubstr(std::string(kLowest) + " d=\"M1 1h1\""), HasSubstr(">\u2264 1e-05<"),
                         HasSubstr(">1<"), HasSubstr(">0<"), HasSubstr("stroke-dasharray")));
  map.panels[0].values = {{1e-3, 1e-1}};
  const std::string narrow = to_svg(map);
  EXPECT_THAT(narrow, AllOf(HasSubstr(std::string(kLowest) + " d=\"M0 0h1\""), HasSubstr(">0.001<"),
                            HasSubstr(">0.01<"), HasSubstr(">0.1<"), Not(HasSubstr("\u2264"))));
}

TEST(HeatMap, IsSmallEnoughForALongAnswer) {
  HeatMap map{"t", {"step"}, {"position"}, "v", false, {{"", {}}}};
  for (int row = 0; row < 32; ++row) {
    std::vector<double>& values = map.panels[0].values.emplace_back();
    for (int column = 0; column < 128; ++column) values.push_back((7 * row + 13 * column) % 64);
  }
  EXPECT_LT(to_svg(map).size(), 64U << 10);
  EXPECT_THAT(to_svg(map), AllOf(HasSubstr(">120<"), HasSubstr(">30<")));
}

TEST(HeatMap, DrawsNothingOfNoValues) {
  expect_well_formed(to_svg(HeatMap{"t", {"step"}, {"layer"}, "v", true, {}}));
  expect_well_formed(to_svg(HeatMap{"t", {"step"}, {"layer"}, "v", true, {{"", {{kNothing}}}}}));
  expect_well_formed(to_svg(HeatMap{"t", {"step"}, {"layer"}, "v", true, {{"", {{0}}}}}));
}

}  // namespace
}  // namespace lacuna::chart_test
