#include "server/events.h"

#include <gmock/gmock.h>

#include <limits>

#include "server/written_canvas.h"

namespace lacuna::events_test {
namespace {

using nlohmann::ordered_json;
using test::WrittenCanvas;
using test::WrittenStep;

constexpr TokenId kMask = 99;

WrittenCanvas masked_canvas() {
  WrittenCanvas canvas;
  canvas.tokens = {5, 6, kMask, kMask, kMask};
  canvas.num_prompt = 2;
  return canvas;
}

TEST(EventLog, StartsWithTheWholeCanvas) {
  EventLog log(nullptr, kMask);
  const ordered_json start = log.start(masked_canvas());
  EXPECT_EQ(start,
            ordered_json::parse(R"({"v":2,"type":"start","prompt":2,"mask":99,"canvas":[5,6,99,99,99]})"));
}

TEST(EventLog, ListsEachKindOfChangeOnce) {
  EventLog log(nullptr, kMask);
  WrittenCanvas canvas = masked_canvas();
  log.start(canvas);

  WrittenStep step;
  step.report.committed = {{2, 7, 0.75}, {3, 8, 0.5}};
  canvas.tokens = {5, 6, 7, 8, kMask};
  ordered_json json = log.step(step.event(canvas));
  EXPECT_EQ(json["set"], ordered_json::parse("[[2,7,0.75],[3,8,0.5]]"));
  EXPECT_FALSE(json.contains("edit") || json.contains("remask") || json.contains("length")) << json;

  step.report.committed = {{2, 9, 0.25}};
  canvas.tokens = {5, 6, 9, kMask, kMask, kMask};
  json = log.step(step.event(canvas));
  EXPECT_EQ(json["edit"], ordered_json::parse("[[2,9,0.25]]"));
  EXPECT_EQ(json["remask"], ordered_json::parse("[3,5]"));
  EXPECT_EQ(json["length"], 6);
  EXPECT_FALSE(json.contains("set")) << json;
}

TEST(EventLog, ListsEditsBeforeWhatIsWrittenAfterThem) {
  EventLog log(nullptr, kMask);
  WrittenCanvas canvas = masked_canvas();
  log.start(canvas);
  WrittenStep step;
  step.report.edits = {{2}, {{3, 2}}};
  step.report.committed = {{5, 8, 0.5}};
  step.plan.positions = {0, 2, 3};  // of the canvas that the pass read
  canvas.tokens = {5, 6, kMask, kMask, kMask, 8};
  const ordered_json json = log.step(step.event(canvas));
  EXPECT_EQ(json["drop"], ordered_json::parse("[2]"));
  EXPECT_EQ(json["insert"], ordered_json::parse("[[3,2]]"));
  EXPECT_EQ(json["set"], ordered_json::parse("[[5,8,0.5]]"));
  EXPECT_FALSE(json.contains("remask") || json.contains("length")) << json;
  EXPECT_EQ(json["computed"], ordered_json::parse("[[0,1],[2,3]]"));
}

TEST(EventLog, GivesNullForTokensThatNoCommitExplains) {
  EventLog log(nullptr, kMask);
  WrittenCanvas canvas = masked_canvas();
  log.start(canvas);
  canvas.tokens[4] = 3;
  EXPECT_EQ(log.step(WrittenStep().event(canvas))["set"], ordered_json::parse("[[4,3,null]]"));
}

TEST(EventLog, ListsComputedPositionsAsRangesExceptForTheGuidesPasses) {
  EventLog log(nullptr, kMask);
  WrittenCanvas canvas = masked_canvas();
  log.start(canvas);
  WrittenStep step;
  step.plan.positions = {4, 0, 1, 1, 700};  // in any order, repeated, beyond the canvas
  EXPECT_EQ(log.step(step.event(canvas))["computed"], ordered_json::parse("[[0,2],[4,5]]"));
  step.statistics.guide_rows = 3;
  EXPECT_FALSE(log.step(step.event(canvas)).contains("computed"));
  EXPECT_TRUE(log.step(step.event(canvas)).contains("computed")) << "the guide computed nothing more";
}

TEST(EventLog, ReportsCostsOfEachStepAndNotTheirSum) {
  EventLog log(nullptr, kMask);
  WrittenCanvas canvas = masked_canvas();
  log.start(canvas);
  WrittenStep step;
  step.cost.rows = 3;
  step.statistics.uncached.rows = 5;
  EXPECT_EQ(log.step(step.event(canvas))["rows_uncached"], 5);
  step.statistics.uncached.rows = 11;
  const ordered_json json = log.step(step.event(canvas));
  EXPECT_EQ(json["rows"], 3);
  EXPECT_EQ(json["rows_uncached"], 6);
}

TEST(EventLog, WritesValidJsonForConfidencesThatAreNotFinite) {
  EventLog log(nullptr, kMask);
  WrittenCanvas canvas = masked_canvas();
  log.start(canvas);
  WrittenStep step;
  step.report.committed = {{2, 7, -std::numeric_limits<double>::infinity()}};
  canvas.tokens[2] = 7;
  EXPECT_THAT(log.step(step.event(canvas)).dump(), testing::HasSubstr("[2,7,null]"));
}

}  // namespace
}  // namespace lacuna::events_test
