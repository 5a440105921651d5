// --shard in the program: what a model over several processes of this machine prints is what one prints.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"

namespace lacuna::shard_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kModels = LACUNA_SOURCE_DIR "/models/";
const std::vector<std::string> kWays{"outputs", "rows", "layers"};

class Shard : public ProgramTest {};

std::string on_ranks(const std::string& way, int ranks = 3) {
  return " --threads 1 --shard " + way + " --ranks " + std::to_string(ranks);
}

TEST_F(Shard, WritesTheLogitsOfOneProcess) {
  folder_.write("request.json", R"({"tokens": [5, 17, 8, 400, 21, 33, 2, 1000, 77]})");
  for (const char* model : {"mini-llada", "mini-llada2"}) {
    const std::string logits = "logits -m " + kModels + model + " --request request.json --out ";
    ASSERT_EQ(lacuna(logits + "one.npy").exit_code, 0);
    for (const std::string& way : kWays) {
      const ProgramResult result = lacuna(logits + "ranks.npy" + on_ranks(way));
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(file_text(path("ranks.npy")), file_text(path("one.npy"))) << model << " by " << way;
    }
  }
}

/// Without times, and without bytes, which are those that rank 0 reads.
json without_costs(const json& report) {
  json kept;
  for (const auto& [key, value] : report.items()) {
    const bool is_cost = key.find("second") != std::string::npos || key.find("bytes") == 0;
    if (!is_cost && key != "threads") kept[key] = value;
  }
  return kept;
}

TEST_F(Shard, EvaluatesAsOneProcessDoes) {
  for (const std::string& task :
       {std::string("arithmetic --samples 4 --batch 2"), std::string("perplexity --samples 2 --draws 2")}) {
    const std::string eval = "eval -m " + kModels + "mini-llada --json --task " + task;
    const json expected = without_costs(json::parse(lacuna(eval).out));
    for (const std::string& way : kWays) {
      const ProgramResult result = lacuna(eval + on_ranks(way));
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(without_costs(json::parse(result.out)), expected) << task << " by " << way;
    }
  }
}

TEST_F(Shard, TimesAStep) {
  for (const std::string& way : kWays) {
    const ProgramResult result = lacuna(
        "bench step -m " + kModels + "mini-llada --canvas 64 --rows 8,32 --repeat 1 --json" + on_ranks(way));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(json::parse(result.out)["results"].size(), 2U) << way;
  }
}

TEST_F(Shard, ChoosesAWayAndSaysWhy) {
  const std::string run = "run -m " + kModels + "mini-llada -p 'Tom has 9 coins.' --gen-length 16";
  const ProgramResult alone = lacuna(run);
  const ProgramResult fast = lacuna(run + on_ranks("auto", 2) + " --link 100Gb");
  EXPECT_EQ(fast.exit_code, 0) << fast.err;
  EXPECT_EQ(fast.out, alone.out);
  EXPECT_THAT(fast.err, StartsWith("--shard auto: "));
  EXPECT_THAT(fast.err, HasSubstr("links of 1e+02 Gbit/s"));
  const ProgramResult measured = lacuna(run + on_ranks("auto", 2));
  EXPECT_EQ(measured.out, alone.out);
  EXPECT_THAT(measured.err, HasSubstr("ms for a pass of 256 rows"));
}

TEST_F(Shard, RefusesFlagsThatHaveNoEffect) {
  const std::string run = "run -m " + kModels + "mini-llada -p x --gen-length 8";
  const auto expect_refused = [&](const std::string& arguments, const std::string& sentence) {
    const ProgramResult result = lacuna(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(sentence)) << arguments;
  };
  expect_refused(run + " --ranks 2", "--ranks is 2; expected --shard with it");
  expect_refused(run + on_ranks("rows") + " --link 1Gb", "--link 1Gb: expected --shard auto with it");
  expect_refused(run + on_ranks("auto") + " --link fast", "--link fast: expected bits per second");
  expect_refused(run + on_ranks("layers", 5),
                 "--shard layers: the model has 4 layers and there are 5 ranks; expected at most 4");
  expect_refused(run + " --shard rows", "--shard rows: expected --ranks N, or a start by mpirun");
}

TEST_F(Shard, IsRefusedWhereOneProcessIsNeeded) {
  const auto expect_refused = [&](const std::string& arguments) {
    const ProgramResult result = lacuna(arguments + on_ranks("outputs", 2));
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr("--shard outputs: expected none, as ")) << arguments;
  };
  expect_refused("bench load -m " + kModels + "mini-llada");
  expect_refused("bench block -m " + kModels + "mini-sdar");
  expect_refused("analyze attention -m " + kModels + "mini-llada -p x");
}

}  // namespace
}  // namespace lacuna::shard_test
