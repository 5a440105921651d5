// `lacuna tune` and the presets that it saves, as people use them.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "program.h"

namespace lacuna::tune_test {
namespace {

using testing::HasSubstr;

class Tune : public ProgramTest {
 protected:
  const std::string any_ = "tune -m " LACUNA_SOURCE_DIR
                           "/models/mini-llada --task arithmetic --samples 40 -t 1 "
                           "--gflops 400 ";
  const std::string tune_ = any_ + "--risk 0.1 --bandwidth 20 ";
  const std::string question_ =
      "-p \"Mia has 12 shells. She finds 7 more. How many shells does Mia have now?\" ";
  const std::string run_ = "run -m " LACUNA_SOURCE_DIR "/models/mini-llada --json " + question_;

  /// A report without its times.
  static nlohmann::json without_times(const std::string& text) {
    nlohmann::json json = nlohmann::json::parse(text);
    json.erase("baseline_seconds");
    json.erase("saved_to");
    for (nlohmann::json& tested : json["tested"]) tested["relative"].erase("seconds");
    return json;
  }
};

TEST_F(Tune, SavesASettingThatRunsUse) {
  const ProgramResult tuned = lacuna(tune_ + "--save quick");
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_THAT(tuned.out, HasSubstr("At most 10% of answers change, with 90% confidence."));
  EXPECT_THAT(tuned.out, HasSubstr("--preset quick"));
  const ProgramResult answer = lacuna(run_ + "--preset quick");
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_EQ(answer.err, "");
  const nlohmann::json json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["tokens"].size(), 32U);  // the length that it was tuned with
  EXPECT_LT(json["stats"]["rows"], json["stats"]["rows_baseline"]);
  const ProgramResult inspected = lacuna("inspect -m " LACUNA_SOURCE_DIR "/models/mini-llada");
  EXPECT_THAT(inspected.out, HasSubstr("preset quick"));
  EXPECT_THAT(lacuna("inspect -m " LACUNA_SOURCE_DIR "/models/mini-dream").out,
              testing::Not(HasSubstr("preset quick")));
}

TEST_F(Tune, PresetsAreRefusedForOtherModelsAndWarnAboutOtherFlags) {
  ASSERT_EQ(lacuna(tune_ + "--methods unmask --save quick").exit_code, 0);
  const ProgramResult other =
      lacuna("run -m " LACUNA_SOURCE_DIR "/models/mini-dream " + question_ + "--preset quick");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("--preset quick was tuned for other files than those of"));
  const ProgramResult warned = lacuna(run_ + "--preset quick --gen-length 64 --kv-cache int8");
  EXPECT_EQ(warned.exit_code, 0) << warned.err;
  EXPECT_THAT(warned.err, HasSubstr("--gen-length is given; its promise was made without that"));
  EXPECT_THAT(warned.err, HasSubstr("other formats than the tuned"));
}

TEST_F(Tune, SavesASettingThatEvalAndCompareUse) {
  ASSERT_EQ(lacuna(tune_ + "--methods unmask --save quick").exit_code, 0);
  const std::string task = " --task arithmetic --samples 4 --json ";
  const std::string model = " -m " LACUNA_SOURCE_DIR "/models/mini-llada";
  const ProgramResult evaluated = lacuna("eval" + model + task + "--preset quick");
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const nlohmann::json json = nlohmann::json::parse(evaluated.out);
  EXPECT_TRUE(json["settings"].contains("unmask"));
  EXPECT_LT(json["rows"], json["rows_baseline"]);
  const ProgramResult compared = lacuna("compare" + model + task + "--b \"--preset quick\"");
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_LT(nlohmann::json::parse(compared.out)["b_over_a"]["rows"], 0.5);
  const std::string other = " -m " LACUNA_SOURCE_DIR "/models/mini-dream";
  for (const std::string& command :
       {"eval" + other + task + "--preset quick", "compare" + other + task + "--b \"--preset quick\""}) {
    const ProgramResult refused = lacuna(command);
    EXPECT_EQ(refused.exit_code, 2) << command;
    EXPECT_THAT(refused.err, HasSubstr("was tuned for other files than those of"));
  }
}

TEST_F(Tune, SavesFormatsThatRunsLoad) {
  const ProgramResult tuned = lacuna(any_ + "--risk 0.3 --methods weights,kv --bandwidth 1 --save small");
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_THAT(tuned.out, HasSubstr("Chosen: --weights int"));
  const std::string model = " -m " LACUNA_SOURCE_DIR "/models/mini-llada";
  EXPECT_THAT(lacuna("inspect" + model).out, HasSubstr("--weights int"));
  const auto bytes = [&](const std::string& flags) {
    const ProgramResult answer = lacuna(run_ + flags);
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    return nlohmann::json::parse(answer.out)["stats"]["bytes"].get<double>();
  };
  EXPECT_LT(bytes("--preset small"), 0.7 * bytes("--gen-length 32"));
  EXPECT_THAT(lacuna(run_ + "--preset small --weights bf16").err, HasSubstr("other formats than the tuned"));
  const std::string task = " --task arithmetic --samples 4 --json ";
  const ProgramResult evaluated = lacuna("eval" + model + task + "--preset small");
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(evaluated.err, "");
  const ProgramResult compared = lacuna("compare" + model + task + "--b \"--preset small\"");
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_LT(nlohmann::json::parse(compared.out)["b_over_a"]["bytes"], 0.7);
  const ProgramResult infill = lacuna("infill" + model + " --preset small -p \"Mia has [[2]].\"");
  EXPECT_EQ(infill.exit_code, 2);
  EXPECT_THAT(infill.err, HasSubstr("--preset small was tuned for answers to prompts"));
}

TEST_F(Tune, KeepsWhatItMeasuredOfTheMachine) {
  const std::string command = any_ + "--risk 0.3 --methods unmask --json";
  const nlohmann::json first = nlohmann::json::parse(lacuna(command).out);
  const nlohmann::json second = nlohmann::json::parse(lacuna(command).out);
  EXPECT_GT(first["peak_bandwidth"], 1e8);
  EXPECT_EQ(first["peak_bandwidth"], second["peak_bandwidth"]);
  EXPECT_EQ(first["peak_flops"], 4e11);
}

TEST_F(Tune, JudgesAnswersByAnotherModel) {
  const std::string judge = "--loss judge --judge " LACUNA_SOURCE_DIR "/models/";
  const ProgramResult tuned = lacuna(tune_ + "--methods unmask --json " + judge + "mini-qwen");
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_EQ(nlohmann::json::parse(tuned.out)["loss"], "judge");
  EXPECT_THAT(lacuna(tune_ + "--loss judge").err, HasSubstr("--loss judge needs --judge"));
  EXPECT_THAT(lacuna(tune_ + "--judge mini-qwen").err, HasSubstr("it belongs to --loss judge"));
  EXPECT_THAT(lacuna(tune_ + judge + "mini-dream").err, HasSubstr("expected an autoregressive model"));
}

TEST_F(Tune, ContinuesAfterItWasKilled) {
  // Killed when some runs are on disk, whenever that is.
  const ProgramResult killed = shell(LACUNA_BINARY " " + tune_ + R"sh(--json >/dev/null & tuning=$!
until [ "$(cat cache/lacuna/tune/*.jsonl 2>/dev/null | wc -l)" -ge 60 ]; do
  kill -0 $tuning || break
  sleep 0.01
done
kill -KILL $tuning
wait $tuning
printf '{"prompt": 3, "sett' >> cache/lacuna/tune/*.jsonl)sh");
  const ProgramResult continued = lacuna(tune_ + "--json");
  ASSERT_EQ(continued.exit_code, 0) << killed.err << continued.err;
  const ProgramResult whole = shell("rm -r cache; lacuna " + tune_ + "--json");
  EXPECT_EQ(without_times(continued.out), without_times(whole.out));
}

TEST_F(Tune, TakesPromptsOfTheUsers) {
  std::string lines;
  for (int i = 1; i <= 40; ++i) {
    lines += R"({"prompt": "Mia has )" + std::to_string(i) + R"( shells. She finds 7 more. How many now?"})" +
             "\n";
  }
  folder_.write("mine.jsonl",
                lines + R"({"messages": [{"role": "user", "content": "Tom has 3 coins."}]})" + "\n");
  const std::string command =
      "tune -m " LACUNA_SOURCE_DIR
      "/models/mini-llada --prompts-file mine.jsonl --gen-length 16 --methods unmask ";
  const ProgramResult tuned = lacuna(command + "--risk 0.2 --json");
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  const nlohmann::json json = nlohmann::json::parse(tuned.out);
  EXPECT_EQ(json["race_prompts"].get<int>() + json["certification_prompts"].get<int>(), 41);
  EXPECT_TRUE(json["baseline_correct"].is_null());
  const ProgramResult few = lacuna(command);
  EXPECT_EQ(few.exit_code, 2);
  EXPECT_THAT(few.err, HasSubstr("needs at least 122 prompts"));
}

TEST_F(Tune, RefusesWhatItCannotUse) {
  const auto refused = [&](const std::string& arguments) {
    const ProgramResult result = lacuna("tune -m " LACUNA_SOURCE_DIR "/models/" + arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    return result.err;
  };
  EXPECT_THAT(refused("mini-llada"), HasSubstr("one of --task and --prompts-file"));
  EXPECT_THAT(refused("mini-llada --task arithmetic --risk 1"), HasSubstr("--risk"));
  EXPECT_THAT(refused("mini-llada --task arithmetic --budget soon"), HasSubstr("90s, 20m or 1.5h"));
  EXPECT_THAT(refused("mini-llada --task arithmetic --methods luck"),
              HasSubstr("unmask, steps, cache, prompt-block, lock"));
  EXPECT_THAT(refused("mini-llada --task arithmetic --save ../x"), HasSubstr("lower-case letters"));
  EXPECT_THAT(refused("mini-llada --task arithmetic --preset fast"), HasSubstr("--preset"));
  EXPECT_THAT(refused("mini-qwen --task arithmetic"), HasSubstr("no method to tune"));
  folder_.write("mine.jsonl", "{\"text\": 1}\n");
  EXPECT_THAT(refused("mini-llada --prompts-file mine.jsonl"),
              HasSubstr("mine.jsonl, line 1: expected \"prompt\""));
  EXPECT_THAT(refused("mini-llada --prompts-file mine.jsonl --loss wrong-answer"), HasSubstr("--task"));
}

}  // namespace
}  // namespace lacuna::tune_test
