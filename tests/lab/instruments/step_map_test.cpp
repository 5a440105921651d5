#include "instruments/step_map.h"

#include <gmock/gmock.h>

#include <array>

#include "base/error.h"

namespace lacuna::step_map_test {
namespace {

using Json = nlohmann::ordered_json;

Json rows_of(const StepMap& map) {
  Json rows = Json::array();
  const auto part_name = [](int32_t part) { return part == 0 ? "prompt" : "answer"; };
  add_map_rows(map, "part", part_name, std::array{"key", "value"}, rows);
  return rows;
}

/// Layers 0 and 1 at two steps and positions, in both parts: key = 100 step + 10 layer + position, value = 0.
StepMap filled(MapSettings settings) {
  StepMap map(std::move(settings));
  for (const int32_t step : {0, 1}) {
    for (const int32_t layer : {0, 1}) {
      for (const int32_t position : {-1, 2}) {
        map.add({step, layer, position}, position < 0 ? 0 : 1,
                std::array{100.0 * step + 10.0 * layer + position, 0.0});
      }
    }
  }
  return map;
}

TEST(StepMap, AveragesOverLayersUnlessTheyHavePanels) {
  const Json rows = rows_of(filled(parse_map("step,position")));
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[0].dump(), R"({"step":0,"position":-1,"key":4.0,"value":0.0,"count":2})");
  EXPECT_EQ(rows[3].dump(), R"({"step":1,"position":2,"key":107.0,"value":0.0,"count":2})");

  MapSettings second = parse_map("step,position");
  second.layers = {1};
  const Json panel = rows_of(filled(second));
  ASSERT_EQ(panel.size(), 4);
  EXPECT_EQ(panel[0].dump(), R"({"step":0,"position":-1,"layer":1,"key":9.0,"value":0.0,"count":1})");
}

TEST(StepMap, AveragesOverPositionsOfAPart) {
  const Json rows = rows_of(filled(parse_map("step,layer")));
  ASSERT_EQ(rows.size(), 8);
  EXPECT_EQ(rows[0].dump(), R"({"step":0,"layer":0,"part":"prompt","key":-1.0,"value":0.0,"count":1})");
  EXPECT_EQ(rows[7].dump(), R"({"step":1,"layer":1,"part":"answer","key":112.0,"value":0.0,"count":1})");
}

TEST(StepMap, AveragesOverSteps) {
  const Json rows = rows_of(filled(parse_map("layer,position")));
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[2].dump(), R"({"layer":1,"position":-1,"key":59.0,"value":0.0,"count":2})");
}

TEST(StepMap, KnowsThreePairsOfAxes) {
  for (const char* text : {"position,step", "step", "step,layer,position", "layer,step", ""}) {
    EXPECT_THROW(parse_map(text), InputError) << text;
  }
}

}  // namespace
}  // namespace lacuna::step_map_test
