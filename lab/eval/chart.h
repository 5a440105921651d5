// Plots as SVG text, the same bytes for the same values. Colours are chosen to be read on white and on black.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string label = {};  ///< written next to the point, clear of other labels
};

struct ChartSeries {
  std::string name;  ///< in the legend
  std::vector<ChartPoint> points;
  size_t colour = 0;   ///< one of kChartColours
  bool joined = true;  ///< a line through the points; otherwise a mark at each
  bool dashed = false;
};

/// Bounds that are not given follow from the points.
struct ChartAxis {
  std::string title;
  bool logarithmic = false;
  std::optional<double> low = {};
  std::optional<double> high = {};
  std::vector<double> ticks = {};  ///< empty: round values
};

struct Chart {
  std::string title;
  ChartAxis x, y;
  std::vector<ChartSeries> series;
};

inline constexpr size_t kChartColours = 6;

std::string to_svg(const Chart& chart);
/// One figure of several charts, from left to right.
std::string side_by_side(std::span<const Chart> charts, std::string_view title);

/// One map of cells.
struct HeatMapPanel {
  std::string title;
  /// [rows][columns]; NaN: nothing was measured there, and no cell is drawn.
  std::vector<std::vector<double>> values;
};

/// Rows or columns of a heat map, numbered by consecutive integers.
struct HeatMapAxis {
  std::string title;
  int32_t first = 0;                           ///< number of the first row or column
  std::optional<int32_t> divided_before = {};  ///< columns alone: a line before this one
};

/// Panels with the same rows (downwards) and columns, and one scale of colours, which a bar at the right
/// explains.
struct HeatMap {
  std::string title;
  HeatMapAxis y, x;
  std::string value_title;   ///< unit of the values, above the bar
  bool logarithmic = false;  ///< values of at most 0 have a colour of their own, as zeros
  std::vector<HeatMapPanel> panels;
  size_t panels_per_line = 2;
};

/// Values further below the highest than this count as the lowest of a logarithmic scale.
inline constexpr int kHeatMapDecades = 5;

std::string to_svg(const HeatMap& map);

// For other kinds of figures in the same style.
std::string_view chart_colour(size_t index);  ///< "#rrggbb"; indices beyond kChartColours begin anew
inline constexpr std::string_view kChartGrey = "#808080";
std::string xml_escaped(std::string_view text);

}  // namespace lacuna
