#include "instruments/step_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

int32_t coordinate(const MapPlace& place, MapAxis axis) {
  switch (axis) {
    case MapAxis::kStep:
      return place.step;
    case MapAxis::kLayer:
      return place.layer;
    case MapAxis::kPosition:
      break;
  }
  return place.position;
}

}  // namespace

std::string_view name_of(MapAxis axis) {
  constexpr std::array<std::string_view, 3> kNames = {"step", "layer", "position"};
  return kNames[static_cast<size_t>(axis)];
}

MapSettings parse_map(std::string_view text) {
  for (const auto& [rows, columns] : {std::pair{MapAxis::kStep, MapAxis::kLayer},
                                      {MapAxis::kStep, MapAxis::kPosition},
                                      {MapAxis::kLayer, MapAxis::kPosition}}) {
    if (text == fmt::format("{},{}", name_of(rows), name_of(columns))) return {rows, columns};
  }
  throw InputError("--map {}: expected step,layer, step,position or layer,position", text);
}

void StepMap::add(const MapPlace& place, int32_t part, std::span<const double> figures) {
  Key key{0, coordinate(place, settings_.rows), coordinate(place, settings_.columns)};
  if (!settings_.has_positions()) {
    key.panel = part;
  } else if (!settings_.layers.empty()) {
    if (std::find(settings_.layers.begin(), settings_.layers.end(), place.layer) == settings_.layers.end()) {
      return;
    }
    key.panel = place.layer;
  }
  Figures& cell = cells_[key];
  for (size_t figure = 0; figure < figures.size(); ++figure) cell[figure].add(figures[figure]);
}

void add_map_rows(const StepMap& map, std::string_view part_key,
                  const std::function<std::string_view(int32_t part)>& part_name,
                  std::span<const char* const> figures, nlohmann::ordered_json& rows) {
  const MapSettings& settings = map.settings();
  for (const auto& [key, cell] : map.cells()) {
    nlohmann::ordered_json row{{name_of(settings.rows), key.row}, {name_of(settings.columns), key.column}};
    if (!settings.has_positions()) {
      row[std::string(part_key)] = part_name(key.panel);
    } else if (!settings.layers.empty()) {
      row[std::string(name_of(MapAxis::kLayer))] = key.panel;
    }
    for (size_t figure = 0; figure < figures.size(); ++figure) row[figures[figure]] = cell[figure].mean();
    row["count"] = cell.front().count;
    rows.push_back(std::move(row));
  }
}

}  // namespace lacuna
