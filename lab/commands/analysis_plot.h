// Charts and heat maps of the rows that `lacuna analyze` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "eval/chart.h"
#include "instruments/step_map.h"

namespace lacuna {

/// How an instrument's rows make a chart: those that have `x`, which is a number, or a name that is written
/// next to the first of its marks.
struct ChartSpec {
  const char* title;
  const char* x;
  const char* y_title;
  std::vector<const char*> figures;  ///< each a series, or one for each value of `series`
  const char* series = nullptr;
  bool logarithmic = false;  ///< zeros are left out
};

/// How the rows of an instrument's map make a heat map.
struct HeatMapSpec {
  const char* title;
  const char* value_title;
  std::vector<const char*> figures;  ///< each has panels of its own
  /// Maps with positions have a logarithmic scale, whatever this says: a few positions get most.
  bool logarithmic = false;
};

Chart make_chart(const ChartSpec& spec, const nlohmann::ordered_json& rows);

/// Takes the rows that add_map_rows() wrote with these settings.
HeatMap make_heat_map(const HeatMapSpec& spec, const MapSettings& settings, std::string_view model,
                      const nlohmann::ordered_json& rows);

}  // namespace lacuna
