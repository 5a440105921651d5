// The pages of `lacuna report` from made-up measurements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "claims_report.h"
#include "decoding_film.h"
#include "decoding_picture.h"
#include "eval/svg.h"
#include "frontier_report.h"
#include "mage_report.h"
#include "refusion_report.h"
#include "server_report.h"
#include "shapes_report.h"
#include "uniform_report.h"
#include "zoo_report.h"

namespace lacuna {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

json row_of(const std::string& command) {
  return {{"command", command},
          {"machine", {{"processor", "P"}, {"cores", 2}, {"instructions", "avx2"}}},
          {"commit", "abc"}};
}

json evaluation_row(const std::string& command) {
  json row = row_of(command);
  row["result"] = {{"samples", 10},
                   {"accuracy", 0.5},
                   {"accuracy_low", 0.25},
                   {"accuracy_high", 0.75},
                   {"steps_mean", 8},
                   {"passes_mean", 8},
                   {"tokens_per_forward", 2.5},
                   {"rows", command.find("released") == std::string::npos ? 400 : 800},
                   {"row_ratio", 0.5},
                   {"layer_flops", 1},
                   {"layer_flops_baseline", 2},
                   {"seconds", 4},
                   {"processor_seconds", command.find("recompute") == std::string::npos ? 2 : 4},
                   {"settings", {{"gen-length", 56}}}};
  row["row_ratio_by_step"] = json::array();
  return row;
}

json decode_row(const std::string& command) {
  json row = row_of(command);
  row["result"] = {{"plain", {{"passes", 30}, {"rows", 3000}}},
                   {"setting", {{"passes", 20}, {"rows", 1234}}},
                   {"flops_ratio", 0.41},
                   {"time_ratio", 0.52}};
  return row;
}

json printed_row(const std::string& command, json printed) {
  json row = row_of(command);
  row["result"] = std::move(printed);
  return row;
}

/// Two slots of three positions behind a prompt of four: planned, one draft falls, filled.
json trace_row(const std::string& command) {
  json row = row_of(command);
  row["prompt_length"] = 4;
  const auto slot = [](int position, bool selected, int accepted, const std::vector<int>& tokens) {
    return json{{"position", position}, {"selected", selected}, {"accepted", accepted}, {"tokens", tokens}};
  };
  const auto commit = [](int position, int token) { return json{{"position", position}, {"token", token}}; };
  const auto pass = [](const char* kind, int iteration, json committed, json slots) {
    return json{{"kind", kind},
                {"iteration", iteration},
                {"rows", json::array({4})},
                {"committed", std::move(committed)},
                {"slots", std::move(slots)}};
  };
  const json none = json::array();
  row["result"] = {
      {"trace",
       {pass("plan", 0, none, {slot(4, true, 0, {1}), slot(7, false, 0, {2})}),
        pass("verify", 0, none, {slot(4, true, 2, {1, 3, 5})}),
        pass("fill", 0, {commit(4, 1), commit(5, 3), commit(6, 4)}, {slot(4, true, 3, {1, 3, 4})}),
        pass("plan", 1, none, {slot(7, true, 0, {2})}),
        pass("verify", 1, {commit(7, 2), commit(8, 2), commit(9, 6)}, {slot(7, true, 3, {2, 2, 6})})}},
      {"texts",
       {{{"token", 1}, {"text", " Ben"}},
        {{"token", 2}, {"text", "a<b&\"c"}},
        {{"token", 3}, {"text", "\n\t"}},
        {{"token", 4}, {"text", "new"}},
        {{"token", 5}, {"text", "old"}},
        {{"token", 6}, {"text", "<|endoftext|>"}}}}};
  return row;
}

RefusionGrid grid() {
  RefusionGrid grid;
  grid.model = "slots";
  grid.twin = "line";
  grid.masked = "masks";
  grid.shape = "random:big";
  return grid;
}

class RefusionPage : public testing::Test {
 protected:
  std::map<std::string, std::string> write(const RefusionGrid& grid) {
    const Measure measure = [&](const std::string& command, Purpose purpose) {
      ++(purpose == Purpose::kTimes ? timed_ : figures_)[command];
      json row = command.starts_with(kDecodeBenchCommand) ? decode_row(command)
                 : command.starts_with(kRunCommand)       ? trace_row(command)
                                                          : evaluation_row(command);
      check_row(row);
      return row;
    };
    std::map<std::string, std::string> files;
    for (const PageFile& file : write_refusion_page(grid, measure)) files[file.name] = file.text;
    return files;
  }

  std::map<std::string, int> figures_, timed_;
};

TEST_F(RefusionPage, HoldsEverySettingWithItsCommand) {
  const std::map<std::string, std::string> files = write(grid());
  const std::string& page = files.at("refusion.md");
  for (const auto& [command, times] : figures_) EXPECT_THAT(page, HasSubstr("`" + command + "`"));
  EXPECT_THAT(
      page,
      AllOf(HasSubstr("Machine: P, 2 cores, avx2."), HasSubstr("Commit (code and models): abc."),
            HasSubstr("| ReFusion, lacuna | 50.0% (25.0 to 75.0) | 2.50 | 8.0 | 2.00 | 100 | 50 | 0.50× "),
            HasSubstr("| ReFusion, released | 50.0% (25.0 to 75.0) | 2.50 | 8.0 | 4.00 | 100 | 50 | 1.00× "),
            HasSubstr("| lacuna | recompute | 50.0% (25.0 to 75.0) | 8.0 | 2.00 | 50 | 50 | 0.50× "),
            HasSubstr("| GSM8K | 32/128 | 0.7 | 20 | 30 | 1234 | 3000 | 0.41 | 0.52 "),
            HasSubstr("block diffusion 12.11"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  EXPECT_EQ(count(page, "-m masks"), 2);  // on the task that it knows
  EXPECT_EQ(count(page, "-m masks --task arithmetic"), 2);
  EXPECT_EQ(count(page, "(default)"), 4);  // one for each sweep
  EXPECT_EQ(write(grid()), files);
}

TEST_F(RefusionPage, HasPlotsThatAreXml) {
  const std::map<std::string, std::string> files = write(grid());
  EXPECT_EQ(files.size(), 8);
  for (const auto& [name, text] : files) {
    if (name == "refusion.md") continue;
    EXPECT_THAT(files.at("refusion.md"), HasSubstr("](" + name + ")"));
    expect_well_formed(text);
  }
}

TEST_F(RefusionPage, TimesAloneWhatIsTimed) {
  write(grid());
  for (const auto& [command, times] : timed_) {
    EXPECT_THAT(command, AllOf(HasSubstr("--batch 1 --samples 16"), Not(HasSubstr("threshold 0.3"))));
  }
  // Both tasks: the twin, three modes, and each with reused and recomputed K/V; arithmetic: masked and
  // blocks, twice.
  EXPECT_EQ(timed_.size(), 2 * (1 + 3 + 6) + 4);
}

TEST_F(RefusionPage, DoesWithoutAShape) {
  RefusionGrid without = grid();
  without.shape.clear();
  EXPECT_THAT(write(without).at("refusion.md"),
              AllOf(HasSubstr("Not measured: no `--shape`."), Not(HasSubstr("bench decode"))));
}

json analysis_row(const std::string& command) {
  json row = row_of(command);
  row["result"] = {
      {"tables",
       {{{"head", {"step", "entropy"}}, {"rows", {{0, 2.5}, {1, 1.25}}}},
        {{"head", {"output", "kl"}}, {"rows", json::array({json::array({"block", nullptr})})}}}}};
  return row;
}

TEST(UniformPage, HoldsEveryPartFromMadeUpMeasurements) {
  UniformGrid grid;
  grid.model = "noise";
  grid.masked = "masks";
  grid.judge = "judge";
  grid.shapes = {"random:big"};
  std::set<std::string> commands;
  const auto write = [&] {
    std::map<std::string, std::string> files;
    const Measure measure = [&](const std::string& command, Purpose purpose) {
      if (purpose == Purpose::kFigures) commands.insert(command);
      json row = command.starts_with(kDecodeBenchCommand) ? decode_row(command)
                 : command.starts_with(kAnalyzeCommand)   ? analysis_row(command)
                                                          : evaluation_row(command);
      check_row(row);
      return row;
    };
    for (const PageFile& file : write_uniform_page(grid, measure)) files[file.name] = file.text;
    return files;
  };
  const std::map<std::string, std::string> files = write();
  const std::string& page = files.at("uniform.md");
  EXPECT_THAT(page,
              AllOf(HasSubstr("| step | entropy |"), HasSubstr("| block | - |"),
                    HasSubstr("| 8 | 2.44× | 1.92× | 78.8% |"), HasSubstr("Commit (code and models): abc."),
                    Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  for (const std::string& command : commands) {
    if (command.starts_with(kEvalCommand)) continue;
    EXPECT_THAT(page, HasSubstr("`" + command + "`"));
  }
  expect_well_formed(files.at("uniform_steps.svg"));
  expect_well_formed(files.at("uniform_entropy.svg"));
  EXPECT_EQ(write(), files);
}

json block_row(const std::string& command) {
  json row = row_of(command);
  const auto timed = [](int prefix, const char* sparse, double speedup, double allowed) {
    return json{{"prefix", prefix},
                {"sparse", sparse},
                {"block_seconds", 12.5},
                {"speedup", speedup},
                {"flops_allow", allowed},
                {"first_step_ratio", 1.05},
                {"later_step", {{"attention", 0.25}, {"selection", 0.01}, {"rest", 0.5}}}};
  };
  row["result"] = {{"results", {timed(8192, "exact", 1, 1), timed(8192, "mage=512", 1.8, 2)}}};
  return row;
}

TEST(FrontierPage, NamesTheQuickestSettingForEachGoal) {
  FrontierGrid grid;
  grid.families = {{"sort",
                    "mini-x",
                    "--task arithmetic",
                    {{"plain", ""},
                     {"same", "--same"},
                     {"close", "--close"},
                     {"quick", "--quick"},
                     {"wrong", "--wrong"}}}};
  struct Given {
    const char* flag;
    double accuracy, seconds;
    const char* texts;
  };
  const Given given[] = {{"--same", 0.9, 50, "a"},
                         {"--close", 0.89, 30, "b"},
                         {"--quick", 0.81, 10, "c"},
                         {"--wrong", 0.4, 1, "d"}};
  std::vector<std::string> commands;
  const Measure measure = [&](const std::string& command, Purpose purpose) {
    EXPECT_EQ(purpose, Purpose::kTimes);
    commands.push_back(command);
    json row = evaluation_row(command);
    json& result = row["result"];
    result["accuracy"] = 0.9;
    result["processor_seconds"] = 100;
    result["texts"] = "a";
    for (const Given& setting : given) {
      if (command.find(setting.flag) == std::string::npos) continue;
      result["accuracy"] = setting.accuracy;
      result["processor_seconds"] = setting.seconds;
      result["texts"] = setting.texts;
    }
    return row;
  };
  const std::vector<PageFile> files = write_frontier_page(grid, measure);
  const std::string& page = files.at(0).text;
  EXPECT_EQ(files.at(0).name, "README.md");
  EXPECT_THAT(page,
              HasSubstr("| mini-x | the defaults: 90.0% | `--same` 90.0% (time 0.50, rows 1.00) | `--close` "
                        "89.0% (time 0.30, rows 1.00) | `--quick` 81.0% (time 0.10, rows 1.00) |"));
  for (const std::string& command : commands) EXPECT_THAT(page, HasSubstr("`" + command + "`"));
  EXPECT_EQ(files.at(1).name, "frontier_sort.svg");
  expect_well_formed(files.at(1).text);
  EXPECT_EQ(write_frontier_page(grid, measure).at(1).text, files.at(1).text);
}

TEST(FrontierPage, HasAFamilyForEachDiffusionModelOfTheRepository) {
  std::set<std::string> known;
  for (const FrontierFamily& family : frontier_families()) known.insert(family.model);
  for (const ZooModel& model : zoo_models()) {
    if (model.name == "mini-fast-dllm") continue;  // the page has its predecessor, which retrieves
    const bool is_diffusion = model.family.find("qwen") == std::string::npos;
    EXPECT_EQ(known.contains(model.name), is_diffusion) << model.name;
  }
}

TEST(ClaimsPage, JudgesEachClaimByItsRows) {
  ClaimsGrid grid;
  bool is_better = false;
  std::set<std::string> commands;
  const Measure measure = [&](const std::string& command, Purpose) {
    commands.insert(command);
    json row = command.starts_with(kBlockBenchCommand)    ? block_row(command)
               : command.starts_with(kDecodeBenchCommand) ? decode_row(command)
                                                          : evaluation_row(command);
    const bool has_method = command.find("--lock") != std::string::npos;
    if (has_method) row["result"]["accuracy"] = is_better ? 0.6 : 0.4;
    if (has_method && is_better) row["result"]["layer_flops"] = 0.6;
    check_row(row);
    return row;
  };
  const std::string worse = write_claims_page(grid, measure).at(0).text;
  EXPECT_THAT(worse, AllOf(HasSubstr("fall by 30 to 50% | by 0% | no |"),
                           HasSubstr("| SureLock: answers are as good | 40.0% right, 50.0% without | no |"),
                           HasSubstr("| SureLock: a larger ε saves more"), Not(HasSubstr("nan"))));
  for (const std::string& command : commands) EXPECT_THAT(worse, HasSubstr("`" + command + "`"));
  is_better = true;
  EXPECT_THAT(write_claims_page(grid, measure).at(0).text,
              AllOf(HasSubstr("fall by 30 to 50% | by 40% | yes |"),
                    HasSubstr("| SureLock: answers are as good | 60.0% right, 50.0% without | yes |")));
  grid.has_shapes = false;
  EXPECT_THAT(write_claims_page(grid, measure).at(0).text, Not(HasSubstr("lacuna bench")));
}

TEST(ZooPage, HasARowForEachModelAndACommandForEachOfItsTasks) {
  ZooGrid grid;
  grid.models = {{"mini-a", "sdar", "--unmask threshold=1", {"arithmetic", "retrieval 4096"}},
                 {"mini-b", "llada", "", {"stories"}}};
  grid.seed = 7;
  std::set<std::string> commands, of_formats;
  const Measure measure = [&](const std::string& command, Purpose) {
    if (command.starts_with(kQuantizeCommand))
      return printed_row(command, {{"relative_error", 0.083}, {"kl_mean", 0.56}});
    (command.ends_with("--samples 200") ? commands : of_formats).insert(command);
    return evaluation_row(command);
  };
  const std::string page = write_zoo_page(grid, measure).at(0).text;
  EXPECT_THAT(commands, ElementsAre("lacuna eval -m mini-a --task arithmetic --unmask threshold=1 --seed 7 "
                                    "--samples 200",
                                    "lacuna eval -m mini-a --task retrieval --length 4096 --unmask "
                                    "threshold=1 --seed 7 --samples 200",
                                    "lacuna eval -m mini-b --task stories --seed 7 --samples 200"));
  EXPECT_EQ(of_formats.size(), 2 * 8);
  EXPECT_THAT(of_formats,
              Contains("lacuna eval -m mini-b --task stories --seed 7 --samples 1000 --weights int4-min"));
  EXPECT_THAT(page, HasSubstr("| mini-b | 50.0% (25.0 to 75.0) | 50.0% (25.0 to 75.0) |"));
  EXPECT_THAT(page, HasSubstr("| mini-b | 0.083 | 0.56 | 0.083 |"));
  for (const std::string& command : commands) EXPECT_THAT(page, HasSubstr("`" + command + "`"));
  EXPECT_THAT(page, HasSubstr("| [mini-b](../models/mini-b/README.md) | llada | - |"));
}

TEST(ZooPage, KnowsEveryModelOfTheRepository) {
  std::set<std::string> known, shipped;
  for (const ZooModel& model : zoo_models()) {
    known.insert(model.name);
    for (const std::string& task : model.tasks) EXPECT_THAT(ZooGrid::columns(), Contains(task));
  }
  for (const auto& entry : std::filesystem::directory_iterator(LACUNA_SOURCE_DIR "/models")) {
    if (entry.is_directory()) shipped.insert(entry.path().filename().string());
  }
  EXPECT_EQ(known, shipped);
}

TEST(MagePage, HoldsEveryPartFromMadeUpMeasurements) {
  MageGrid grid;
  grid.model = "blocks";
  grid.needles = "needles";
  grid.twin = "twin";
  grid.shapes = {"random:big"};
  std::set<std::string> commands;
  const auto write = [&] {
    std::map<std::string, std::string> files;
    const Measure measure = [&](const std::string& command, Purpose) {
      commands.insert(command);
      json row = command.starts_with(kBlockBenchCommand) ? block_row(command)
                 : command.starts_with(kAnalyzeCommand)  ? analysis_row(command)
                                                         : evaluation_row(command);
      check_row(row);
      return row;
    };
    for (const PageFile& file : write_mage_page(grid, measure)) files[file.name] = file.text;
    return files;
  };
  const std::map<std::string, std::string> files = write();
  const std::string& page = files.at("mage.md");
  EXPECT_THAT(page, AllOf(HasSubstr("| 8192 | mage=512 | 12.5 | 1.80× | 2.00× | 90.0% | 1.05× | 0.250 s |"),
                          HasSubstr("| quest | 128 | 4096 | 50.0% (25.0 to 75.0) |"),
                          HasSubstr("Commit (code and models): abc."), HasSubstr("--as-blocks 8"),
                          HasSubstr("| quest | 16 | 50.0% (25.0 to 75.0) |"), Not(HasSubstr("nan")),
                          Not(HasSubstr("inf"))));
  for (const std::string& command : commands) {
    if (command.find("--depth") != std::string::npos) continue;  // one stands for all
    EXPECT_THAT(page, HasSubstr("`" + command + "`"));
  }
  expect_well_formed(files.at("mage_depths.svg"));
  EXPECT_EQ(count(files.at("mage_depths.svg"), "<rect"), 4 * 4 * 5);
  EXPECT_EQ(write(), files);

  grid.shapes.clear();
  grid.needles.clear();
  EXPECT_THAT(write().at("mage.md"),
              AllOf(HasSubstr("Not measured: no `--shapes`."), HasSubstr("Not measured: no `--needles`")));
}

TEST(ShapesPage, HoldsEveryPartFromMadeUpMeasurements) {
  ShapesGrid grid;
  grid.model = "random:some";
  grid.steps = {{64, {64, 16}}};
  grid.decodes = {{"a lock", "-m random:some --lock eps=1", "twice as fast"}};
  grid.whole = "random:whole";
  grid.loads = {"packed"};
  grid.beside_ggml = "python3 beside.py";
  grid.common_flags = " --threads 2";
  std::set<std::string> commands;
  const auto write = [&] {
    return write_shapes_page(grid, [&](const std::string& command, Purpose) {
      commands.insert(command);
      json row = decode_row(command);
      row["result"]["plain"]["seconds"] = 17.5;
      if (command.starts_with(kStepBenchCommand)) {
        const json step = {{"rows", 16},          {"seconds_median", 2}, {"gflops", 1234.5},
                           {"flops_ratio", 0.25}, {"time_ratio", 0.26},  {"other_share", 0.075},
                           {"products", 1},       {"head", 0.5},         {"attention", 0.25}};
        row = printed_row(command, {{"results", {step}}, {"most_resident_bytes", 3LL << 29}});
      }
      if (command.find("bench load") != std::string::npos) {
        row = printed_row(command, {{"file_bytes", 1LL << 30},
                                    {"seconds_median", 0.5},
                                    {"first_use_seconds_median", 0.25},
                                    {"peak_bytes", 3LL << 29}});
      }
      if (command == grid.beside_ggml) {
        const json files = {{"weights", "bf16"},    {"lacuna_seconds", 1}, {"lacuna_gflops", 900},
                            {"ggml_seconds", 10.5}, {"ggml_gflops", 85},   {"ratio", 10.5}};
        row = printed_row(
            command,
            {{"llama_cpp", "0.3"}, {"layers", 8}, {"rows", 96}, {"threads", 2}, {"results", {files}}});
      }
      check_row(row);
      return row;
    });
  };
  const std::string page = write().at(0).text;
  EXPECT_THAT(page, AllOf(HasSubstr("| 16 | 2.000 | 1234 | 0.250 | 0.260 | 7.5% |"),
                          HasSubstr("| a lock | 0.411 | 0.410 | 0.520 | 1.92× | twice as fast |"),
                          HasSubstr("| 2.00 s, 1234 GFLOP/s, 87.5% of it products and attention |"),
                          HasSubstr("| 1.5 GiB |"), HasSubstr("| 17.5 s |"),
                          HasSubstr("| 1.00 | 0.500 s | 0.250 s | 1.50 GiB |"),
                          HasSubstr("| bf16 | 1.000 s, 900 GFLOP/s | 10.500 s, 85 GFLOP/s | 10.50× |")));
  EXPECT_EQ(commands.size(), 6);
  for (const std::string& command : commands) EXPECT_THAT(page, HasSubstr("`" + command + "`"));

  grid.whole.clear();
  grid.loads.clear();
  grid.beside_ggml.clear();
  EXPECT_THAT(write().at(0).text,
              AllOf(Not(HasSubstr("All layers")), Not(HasSubstr("## Loading")), Not(HasSubstr("ggml"))));
}

TEST(ServerPage, HoldsEveryCommandWithWhatItPrinted) {
  const ServerGrid grid = server_grid();
  const Measure measure = [](const std::string& command, Purpose) {
    return printed_row(command, {{"answers", 4493},
                                 {"hung_up", 516},
                                 {"refused", 0},
                                 {"errors", 0},
                                 {"texts_that_differ", 0},
                                 {"latency_median", 2.25},
                                 {"latency_99", 3.5},
                                 {"memory_first_third", 41.7},
                                 {"memory_afterwards", 42},
                                 {"run_seconds", 1.5},
                                 {"server_seconds", 1.25},
                                 {"server_by_run", 1.0166},
                                 {"client_by_run", 1.02},
                                 {"rows_per_second_alone", 744.4},
                                 {"batch", 8},
                                 {"rows_per_second_at_once", 922},
                                 {"gain", 1.238}});
  };
  const std::string page = write_server_page(grid, measure).at(0).text;
  EXPECT_THAT(
      page,
      AllOf(HasSubstr("| 4493 | 516 | 0 | 0 | 0 | 2.250 s | 3.500 s | 42 MiB | 42 MiB |"),
            HasSubstr("| 1.500 s | 1.250 s | 1.017 | 1.020 | 744.4 rows/s | 922.0 rows/s | 8 requests | "
                      "1.24 |")));
  for (const std::string& command : grid.loads) EXPECT_THAT(page, HasSubstr("`" + command + "`"));
  for (const std::string& command : grid.overheads) EXPECT_THAT(page, HasSubstr("`" + command + "`"));
}

TEST(CheckRow, WantsTheFiguresOfItsCommand) {
  const std::string eval = std::string(kEvalCommand) + "-m x";
  const std::string run = std::string(kRunCommand) + "-m x";
  const std::string decode = std::string(kDecodeBenchCommand) + "-m x";
  EXPECT_NO_THROW(check_row(evaluation_row(eval)));
  EXPECT_THROW(check_row(evaluation_row(run)), json::exception);
  EXPECT_NO_THROW(check_row(decode_row(decode)));
  EXPECT_THROW(check_row(decode_row(eval)), json::exception);
  EXPECT_NO_THROW(check_row(trace_row(run)));
  EXPECT_THROW(check_row(trace_row(decode)), json::exception);
  EXPECT_NO_THROW(check_row(printed_row("python3 x", {{"seconds", 1}})));
  EXPECT_THROW(check_row(printed_row("python3 x", 1)), json::exception);
}

TEST(DecodingPicture, MarksWhatFellAndWhatTookItsPlace) {
  const std::string svg = draw_decoding(trace_of(trace_row("lacuna run")), "One & all");
  expect_well_formed(svg);
  EXPECT_EQ(svg, draw_decoding(trace_of(trace_row("lacuna run")), "One & all"));
  EXPECT_THAT(svg, AllOf(HasSubstr("One &amp; all"), HasSubstr("text-decoration=\"line-through\">old<"),
                         HasSubstr("fill=\"#ffffff\" text-decoration=\"underline\">new<"),
                         HasSubstr("a&lt;b&amp;&quot;c"), HasSubstr(">&lt;|end…<"), HasSubstr(">1 plan<"),
                         HasSubstr(">5 verify<")));
  EXPECT_EQ(count(svg, "line-through"), 1);
  EXPECT_EQ(count(svg, "stroke-dasharray"), 2);  // one slot selected by each plan
  EXPECT_EQ(count(svg, "#ffffff"), 5);           // tokens with a text where they were committed
  EXPECT_EQ(count(svg, "fill-opacity=\"0.3\""), 6);
}

TEST(DecodingFilm, ShowsEachTokenFromThePassThatWroteItOn) {
  json quick = trace_row("lacuna run");
  json slow = quick;
  for (json& pass : slow["result"]["trace"]) pass["rows"] = json::array({1, 2, 3, 4});
  slow["result"]["trace"][4]["committed"].push_back(
      {{"position", 4}, {"token", 4}});  // in place of the first
  const std::vector<FilmLane> lanes = {{"quick & short", trace_of(quick)}, {"slow", trace_of(slow)}};
  const std::string svg = draw_film(lanes, "Both");
  expect_well_formed(svg);
  EXPECT_EQ(svg, draw_film(lanes, "Both"));
  EXPECT_THAT(svg,
              AllOf(HasSubstr("quick &amp; short: 5 passes, 5 rows"), HasSubstr("slow: 5 passes, 20 rows"),
                    HasSubstr("prefers-reduced-motion"),
                    // 3 of the 20 rows that the longest lane has, of the four fifths that are played
                    HasSubstr("@keyframes t1200_10000 { 0% { opacity: 0; } 12.00% { opacity: 1; } 100%"),
                    HasSubstr(".t4800_8000 { animation: t4800_8000 14s step-end infinite; opacity: 0; }")));
  EXPECT_EQ(count(svg, "<g class="), 6 + 7);
}

TEST(DecodingPicture, StrikesOutNothingBehindTheEndOfASlot) {
  json row = trace_row("lacuna run");
  row["result"]["trace"][2]["slots"][0]["tokens"] = {1, 3};  // what stood was all of it
  EXPECT_THAT(draw_decoding(trace_of(row), ""), Not(HasSubstr("line-through")));
}

TEST(DecodingPicture, UnderlinesAReplacementThatIsNotCommittedYet) {
  json row = trace_row("lacuna run");
  row["result"]["trace"][2]["committed"] = json::array();
  EXPECT_THAT(draw_decoding(trace_of(row), ""), HasSubstr("text-decoration=\"underline\">new<"));
}

}  // namespace
}  // namespace lacuna
