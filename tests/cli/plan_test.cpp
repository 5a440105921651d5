// `lacuna plan`: flags, the table and the JSON. tests/backend/shard/machine_plan_test.cpp checks the
// formulas.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "program.h"

namespace lacuna::plan_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

/// With speeds that are given, so that nothing is measured.
ProgramResult plan(const std::string& arguments, const std::string& model = "random:llada-8b") {
  const TemporaryFolder folder;
  return run_line(LACUNA_BINARY " plan -m " + model + " --gflops 1000 --bandwidth 100 " + arguments,
                  folder.path(), folder.path());
}

TEST(Plan, PrintsARowForEachWayToUseTheMachines) {
  const ProgramResult result = plan("--machines 4");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, StartsWith("4 machines of 1000 GFLOP/s and 100 GB/s"));
  for (const char* way : {"one ", "replicas ", "rows ", "outputs ", "layers "})
    EXPECT_THAT(result.out, HasSubstr(std::string("\n") + way));
}

TEST(Plan, PredictsLessMemoryAndMoreTrafficOfAModelThatIsCut) {
  const json report = json::parse(plan("--machines 4 --link 10Gb --json").out);
  EXPECT_EQ(report["link"], 1.25e9);
  const json& one = report["ways"][0];
  const json& outputs = report["ways"][3];
  EXPECT_EQ(outputs["way"], "outputs");
  EXPECT_LT(outputs["weight_bytes"], one["weight_bytes"]);
  EXPECT_LT(outputs["compute_seconds"], one["compute_seconds"]);
  EXPECT_EQ(one["received_bytes"], 0);
  EXPECT_GT(outputs["received_bytes"], 0);
}

TEST(Plan, PredictsMemoryAndTimeOfAllThreeWaysToShard) {
  const json report = json::parse(plan("--machines 4 --link 10Gb --json").out);
  const auto way = [&](const char* name) {
    for (const json& each : report["ways"]) {
      if (each["way"] == name) return each;
    }
    return json();
  };
  for (const char* cut : {"outputs", "layers"}) {
    EXPECT_LT(way(cut)["weight_bytes"], 0.4 * way("one")["weight_bytes"].get<double>()) << cut;
    EXPECT_LT(way(cut)["kv_bytes"], 0.3 * way("one")["kv_bytes"].get<double>()) << cut;
  }
  EXPECT_EQ(way("rows")["weight_bytes"], way("one")["weight_bytes"]);
  EXPECT_LT(way("layers")["received_bytes"], way("rows")["received_bytes"]);
  EXPECT_LT(way("rows")["received_bytes"], way("outputs")["received_bytes"]);
  for (const char* name : {"rows", "outputs", "layers"}) {
    EXPECT_GT(way(name)["seconds"], 0) << name;
    EXPECT_TRUE(way(name)["possible"]) << name;
  }
}

TEST(Plan, MarksAWayThatIsNotPossible) {
  const ProgramResult result = plan("--machines 4", "random:llada-8b,layers=2");
  EXPECT_THAT(result.out, HasSubstr("\nlayers* "));
  EXPECT_THAT(result.out, HasSubstr("fewer layers than there are machines"));
}

TEST(Plan, TakesTheSpeedOfLinksInBitsPerSecond) {
  const auto wire_seconds = [](const std::string& link) {
    const json report = json::parse(plan("--latency 0 --json --link " + link).out);
    return report["ways"][3]["wire_seconds"].get<double>();
  };
  EXPECT_DOUBLE_EQ(wire_seconds("1Gb"), 10 * wire_seconds("10Gb"));
  EXPECT_DOUBLE_EQ(wire_seconds("100Mb"), 10 * wire_seconds("1Gb"));
}

TEST(Plan, NamesAFlagThatIsWrong) {
  for (const char* link : {"10", "10GB", "fast", "-1Gb", "nanGb", "1e30Gb"}) {
    const ProgramResult result = plan(std::string("--link ") + link);
    EXPECT_EQ(result.exit_code, 2) << link;
    EXPECT_THAT(result.err, HasSubstr("--link")) << link;
  }
  const ProgramResult few = plan("--rows 256 --cells 16");
  EXPECT_EQ(few.exit_code, 2);
  EXPECT_THAT(few.err, HasSubstr("--cells is 16; expected at least --rows, which is 256"));
}

}  // namespace
}  // namespace lacuna::plan_test
