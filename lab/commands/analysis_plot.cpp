#include "analysis_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

/// Collects the points of a chart's series.
class ChartMaker {
 public:
  explicit ChartMaker(const ChartSpec& spec) : spec_(spec) {}

  void add(const Json& row) {
    if (!row.contains(spec_.x)) return;
    for (const char* figure : spec_.figures) {
      if (!row.contains(figure)) continue;
      const std::string name = series_name(row, figure);
      const auto value = row[figure].get<double>();
      const Json& x = row[spec_.x];
      Place number{x.is_number() ? x.get<double>() : 0, ""};
      Place& place = x.is_number() ? number : place_of(x.get<std::string>());
      if (spec_.logarithmic && value <= 0) continue;
      series(name).points.push_back({place.x, value, std::exchange(place.label, "")});
    }
  }

  Chart chart() const {
    Chart chart{spec_.title, {spec_.x}, {spec_.y_title}, series_};
    chart.y.logarithmic = spec_.logarithmic;
    if (names_.empty()) return chart;
    chart.x.low = -0.5;
    chart.x.high = static_cast<double>(names_.size());
    for (size_t i = 0; i < names_.size(); ++i) chart.x.ticks.push_back(static_cast<double>(i));
    return chart;
  }

 private:
  std::string series_name(const Json& row, const char* figure) const {
    if (spec_.series == nullptr) return figure;
    const Json& value = row[spec_.series];
    return value.is_string() ? value.get<std::string>() : fmt::format("{} {}", spec_.series, value.dump());
  }

  /// The abscissa of a name: how many came before it, and the name itself until a mark has it.
  struct Place {
    double x = 0;
    std::string label;
  };

  Place& place_of(const std::string& name) {
    const auto number = static_cast<double>(names_.size());
    return names_.try_emplace(name, Place{number, name}).first->second;
  }

  ChartSeries& series(const std::string& name) {
    for (ChartSeries& known : series_) {
      if (known.name == name) return known;
    }
    ChartSeries added;
    added.name = name;
    added.colour = series_.size();
    added.joined = spec_.x == std::string("step");
    series_.push_back(added);
    return series_.back();
  }

  const ChartSpec& spec_;
  std::vector<ChartSeries> series_;
  std::map<std::string, Place> names_;
};

/// Numbers of the rows or of the columns of a heat map.
struct AxisRange {
  int32_t first = std::numeric_limits<int32_t>::max();
  int32_t last = std::numeric_limits<int32_t>::min();

  void include(int32_t number) {
    first = std::min(first, number);
    last = std::max(last, number);
  }
  size_t size() const { return static_cast<size_t>(last - first) + 1; }
  size_t index(int32_t number) const { return static_cast<size_t>(number - first); }
};

/// The parts or layers that have panels of their own, in the order of the rows; one empty name without any.
std::string panel_name(const Json& row, const std::vector<std::string>& axes) {
  if (row.contains("part")) return row["part"].get<std::string>();
  const bool has_layer = row.contains("layer") && std::find(axes.begin(), axes.end(), "layer") == axes.end();
  return has_layer ? fmt::format("layer {}", row["layer"].get<int32_t>()) : "";
}

std::string axis_title(MapAxis axis) {
  return axis == MapAxis::kPosition ? "position (0: the answer's first)" : std::string(name_of(axis));
}

}  // namespace

Chart make_chart(const ChartSpec& spec, const nlohmann::ordered_json& rows) {
  ChartMaker maker(spec);
  for (const Json& row : rows) maker.add(row);
  return maker.chart();
}

HeatMap make_heat_map(const HeatMapSpec& spec, const MapSettings& settings, std::string_view model,
                      const nlohmann::ordered_json& rows) {
  const std::vector<std::string> axes = {std::string(name_of(settings.rows)),
                                         std::string(name_of(settings.columns))};
  std::vector<const Json*> cells;
  std::vector<std::string> names;
  AxisRange y, x;
  for (const Json& row : rows) {
    if (!row.contains(axes[0]) || !row.contains(axes[1])) continue;
    cells.push_back(&row);
    y.include(row[axes[0]].get<int32_t>());
    x.include(row[axes[1]].get<int32_t>());
    const std::string name = panel_name(row, axes);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  HeatMap map;
  map.title = fmt::format("{}: {}, by {} and {}", spec.title, model, axes[0], axes[1]);
  map.value_title = spec.value_title;
  map.logarithmic = spec.logarithmic || settings.has_positions();
  map.panels_per_line = spec.figures.size() > 1 ? spec.figures.size() : settings.has_positions() ? 2 : 4;
  if (cells.empty()) return map;
  map.y = {axis_title(settings.rows), y.first};
  map.x = {axis_title(settings.columns), x.first};
  if (settings.has_positions() && x.first < 0) map.x.divided_before = 0;
  const std::vector<std::vector<double>> nothing(
      y.size(), std::vector<double>(x.size(), std::numeric_limits<double>::quiet_NaN()));
  for (const std::string& name : names) {
    for (const char* figure : spec.figures) {
      std::string title = spec.figures.size() > 1 ? figure : "";
      if (!title.empty() && !name.empty()) title += ", ";
      map.panels.push_back({title + name, nothing});
    }
  }
  for (const Json* cell : cells) {
    const auto name = std::find(names.begin(), names.end(), panel_name(*cell, axes)) - names.begin();
    for (size_t figure = 0; figure < spec.figures.size(); ++figure) {
      HeatMapPanel& panel = map.panels[static_cast<size_t>(name) * spec.figures.size() + figure];
      panel.values[y.index((*cell)[axes[0]].get<int32_t>())][x.index((*cell)[axes[1]].get<int32_t>())] =
          (*cell)[spec.figures[figure]].get<double>();
    }
  }
  return map;
}

}  // namespace lacuna
