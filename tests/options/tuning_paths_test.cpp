#include "options/tuning_paths.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "model/tiny_models.h"
#include "options/choose.h"
#include "options/saved_preset.h"

namespace lacuna::tuning_paths_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

std::vector<ModelConfig> every_config() {
  std::vector<ModelConfig> configs = tiny_configs();
  for (const ModelConfig& config :
       {tiny_block_config(4), tiny_d2f_config(4), tiny_nemotron_config(), tiny_gidd_config(1000, 80),
        tiny_sumi_config(80), tiny_canvas_config(), tiny_refusion_config()}) {
    configs.push_back(config);
  }
  return configs;
}

TEST(TuningPaths, HaveLevelsThatTheModelTakes) {
  for (const ModelConfig& config : every_config()) {
    GenerationOptions asked;
    asked.gen_length = 32;
    const std::vector<TuningPath> paths = tuning_paths(config, asked, false);
    EXPECT_EQ(paths.empty(), config.paradigm() == Paradigm::kCausal) << config.family;
    for (size_t path = 0; path < paths.size(); ++path) {
      for (size_t level = 1; level <= paths[path].levels.size(); ++level) {
        std::vector<int32_t> levels(paths.size(), 0);
        levels[path] = static_cast<int32_t>(level);
        const auto options = tuned_options(config, asked, paths, levels);
        ASSERT_TRUE(options);
        EXPECT_NO_THROW(choose_strategy(config, *options)) << config.family << " " << paths[path].name;
      }
    }
  }
}

TEST(TuningPaths, EachLevelIsAnotherStrategy) {
  for (const ModelConfig& config : every_config()) {
    GenerationOptions asked;
    asked.gen_length = 32;
    const std::vector<TuningPath> paths = tuning_paths(config, asked, false);
    for (size_t path = 0; path < paths.size(); ++path) {
      Strategy before = choose_strategy(config, baseline_options(config, asked));
      for (size_t level = 1; level <= paths[path].levels.size(); ++level) {
        std::vector<int32_t> levels(paths.size(), 0);
        levels[path] = static_cast<int32_t>(level);
        const Strategy strategy = choose_strategy(config, *tuned_options(config, asked, paths, levels));
        EXPECT_NE(strategy, before) << config.family << " " << paths[path].name << " " << level;
        before = strategy;
      }
    }
  }
}

TEST(TuningPaths, LeaveOutWhatTheUserChose) {
  GenerationOptions asked;
  asked.unmask = "entropy";
  EXPECT_THAT(methods_of(tuning_paths(tiny_configs()[0], asked, false)), Not(Contains("unmask")));
  asked.cache = "dual";
  EXPECT_THAT(methods_of(tuning_paths(tiny_configs()[0], asked, false)), Not(Contains("cache")));
}

TEST(TuningPaths, OfAGuideNeedOne) {
  EXPECT_THAT(methods_of(tuning_paths(tiny_configs()[0], {}, false)), Not(Contains("guide")));
  EXPECT_THAT(methods_of(tuning_paths(tiny_configs()[0], {}, true)), Contains("guide"));
  EXPECT_THAT(methods_of(tuning_paths(tiny_block_config(4), {}, false)), Not(Contains("guide")));
  EXPECT_THAT(methods_of(tuning_paths(tiny_block_config(4), {}, true)), Contains("guide"));
}

TEST(TunedOptions, OfNoLevelAreTheBaseline) {
  for (const ModelConfig& config : every_config()) {
    const std::vector<TuningPath> paths = tuning_paths(config, {}, false);
    const auto options = tuned_options(config, {}, paths, std::vector<int32_t>(paths.size(), 0));
    ASSERT_TRUE(options);
    EXPECT_EQ(choose_strategy(config, *options), choose_strategy(config, baseline_options(config, {})));
  }
}

TEST(TunedOptions, CombineMethodsAndRefusePathsOfOneMethod) {
  const ModelConfig config = tiny_configs()[0];
  const std::vector<TuningPath> paths = {{"a", "unmask", {{{"unmask", "threshold=0.9"}}}},
                                         {"b", "unmask", {{{"unmask", "factor=1"}}}},
                                         {"c", "lock", {{{"lock", "eps=1e-3"}}}}};
  const auto both = tuned_options(config, {}, paths, std::vector<int32_t>{1, 0, 1});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->unmask, "threshold=0.9");
  EXPECT_EQ(both->lock, "eps=1e-3");
  EXPECT_FALSE(tuned_options(config, {}, paths, std::vector<int32_t>{1, 1, 0}));
  EXPECT_EQ(describe(settings_of(paths, std::vector<int32_t>{1, 0, 1})),
            "--unmask threshold=0.9 --lock eps=1e-3");
}

TEST(TunedOptions, LeaveFormatsToTheLoading) {
  std::vector<TuningPath> paths = {{"weights", "weights", {{{"weights", "int8"}}}},
                                   {"lock", "lock", {{{"lock", "eps=1e-3"}}}}};
  paths.front().is_of_loading = true;
  const std::vector<int32_t> levels = {1, 1};
  EXPECT_EQ(tuned_options(tiny_configs()[0], {}, paths, levels)->lock, "eps=1e-3");
  EXPECT_EQ(describe(settings_of(paths, levels)), "--weights int8 --lock eps=1e-3");
  EXPECT_EQ(describe(loading_of(paths, levels)), "--weights int8");
}

TEST(TunedOptions, RefuseTwoValuesOfOneOption) {
  const std::vector<TuningPath> paths = {
      {"a", "guide", {{{"cache", "none"}, {"guide-match", "exact"}}}, true},
      {"b", "cache", {{{"cache", "dual"}}}}};
  EXPECT_FALSE(tuned_options(tiny_configs()[0], {}, paths, std::vector<int32_t>{1, 1}));
}

TEST(BaselineOptions, KeepWhatTheUserChose) {
  GenerationOptions asked;
  asked.unmask = "entropy";
  asked.gen_length = 12;
  const GenerationOptions options = baseline_options(tiny_block_config(4), asked);
  EXPECT_EQ(options.unmask, "entropy");
  EXPECT_EQ(options.gen_length, 12);
  EXPECT_EQ(baseline_options(tiny_block_config(4), {}).unmask, "low-confidence");
  asked.unmask.reset();
  asked.pipeline = "on";
  EXPECT_EQ(baseline_options(tiny_block_config(4), asked).unmask, std::nullopt) << "it needs a threshold";
}

TEST(BaselineOptions, OfWindowsAreTheLeftToRightMode) {
  ModelConfig config = tiny_nemotron_causal_config();
  EXPECT_FALSE(baseline_options(config, {}).block_length);
  config.mask_drafts = 3;
  config.drafts_see_each_other = true;
  EXPECT_EQ(baseline_options(config, {}).block_length, 1);
}

TEST(BaselineOptions, OfSlotsWriteEachTokenFromTheLeftAndKeepTheOrderOfSlots) {
  const ModelConfig config = tiny_refusion_config();
  const GenerationOptions options = baseline_options(config, {});
  EXPECT_EQ(options.token_threshold, 1);
  EXPECT_FALSE(options.slot_threshold);
  const std::vector<TuningPath> paths = tuning_paths(config, {}, false);
  const auto exact = std::find_if(paths.begin(), paths.end(),
                                  [](const TuningPath& path) { return path.name == "accept exact"; });
  ASSERT_NE(exact, paths.end());
  std::vector<int32_t> levels(paths.size(), 0);
  levels[static_cast<size_t>(exact - paths.begin())] = 1;
  EXPECT_FALSE(tuned_options(config, {}, paths, levels)->token_threshold);
}

TEST(WithoutAccelerations, LeavesWhatIsNoAcceleration) {
  GenerationOptions options;
  options.gen_length = 64;
  options.block_length = 16;
  options.temperature = 0.7;
  options.unmask = "entropy";
  const std::string kept = describe(given_settings(options));
  options.preset = "fast";
  options.steps = 8;
  options.eos_exit = true;
  options.cache = "dual";
  options.lock = "eps=5e-3";
  options.sparse = "mage=64";
  options.pipeline = "on";
  EXPECT_EQ(describe(given_settings(without_accelerations(options))), kept);
  for (const char* const rule : {"threshold=0.9", "factor=1", "dynamic=0.9", "entropy-bounded=0.35", "klass",
                                 "local-leap=0.9", "eb=0.1", "streaming", "wino", "saber=4", "credit",
                                 "slow-fast", "dsb", "adablock", "d3llm", "prophet"}) {
    options.unmask = rule;
    EXPECT_FALSE(without_accelerations(options).unmask) << rule;
  }
  options.sampler = "threshold=0.9";
  EXPECT_FALSE(without_accelerations(options).sampler);
  options.sampler = "ancestral";
  EXPECT_EQ(without_accelerations(options).sampler, "ancestral");
}

}  // namespace
}  // namespace lacuna::tuning_paths_test
