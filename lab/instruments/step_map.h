// Averages by two of step, layer and position, for the heat maps of `lacuna analyze`.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

struct Average {
  double sum = 0;
  int64_t count = 0;

  void add(double value) {
    sum += value;
    ++count;
  }
  /// 0 if nothing was counted.
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

enum class MapAxis : uint8_t { kStep, kLayer, kPosition };

std::string_view name_of(MapAxis axis);

struct MapSettings {
  MapAxis rows = MapAxis::kStep;
  MapAxis columns = MapAxis::kPosition;
  /// Layers that get a panel each in maps of steps by positions; empty: one panel, the mean over all layers.
  std::vector<int32_t> layers = {};

  bool has_positions() const { return columns == MapAxis::kPosition; }
};

/// "step,layer", "step,position" or "layer,position": rows, then columns. InputError for anything else.
MapSettings parse_map(std::string_view text);

/// Where something was measured.
struct MapPlace {
  int32_t step = 0;      ///< StepReport::step
  int32_t layer = 0;     ///< 0-based
  int32_t position = 0;  ///< in the answer; negative in the prompt
};

class StepMap {
 public:
  /// Maximum number of figures of a cell.
  static constexpr size_t kMaxFigures = 2;
  using Figures = std::array<Average, kMaxFigures>;

  struct Key {
    int32_t panel = 0;  ///< a layer of MapSettings::layers, or a part; 0 if there is one panel
    int32_t row = 0;
    int32_t column = 0;

    auto operator<=>(const Key&) const = default;
  };

  explicit StepMap(MapSettings settings) : settings_(std::move(settings)) {}

  const MapSettings& settings() const { return settings_; }

  /// Adds figures, at most kMaxFigures, to the averages of a place; drops those of layers without a panel.
  ///   part  part of the positions, for maps of steps by layers; other maps ignore it
  void add(const MapPlace& place, int32_t part, std::span<const double> figures);

  const std::map<Key, Figures>& cells() const { return cells_; }

 private:
  MapSettings settings_;
  std::map<Key, Figures> cells_;
};

/// Appends a flat object for each cell: its row and column under the names of the axes, the layer or part if
/// there are several panels, the means of the figures, and "count".
///   part_key   key for the parts in maps of steps by layers ("region")
///   part_name  name of each of them
void add_map_rows(const StepMap& map, std::string_view part_key,
                  const std::function<std::string_view(int32_t part)>& part_name,
                  std::span<const char* const> figures, nlohmann::ordered_json& rows);

}  // namespace lacuna
