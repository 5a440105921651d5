#include "options/presets.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::presets_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A config for each entry of presets_of().
std::vector<ModelConfig> every_kind() {
  std::vector<ModelConfig> configs = tiny_configs();
  configs.push_back(tiny_refusion_config());
  configs.push_back(tiny_gidd_config(1000));
  configs.push_back(tiny_gidd_config(-1000));
  configs.push_back(tiny_sumi_config());
  configs.push_back(tiny_nemotron_config());
  configs.push_back(tiny_canvas_config());
  ModelConfig blocks = tiny_block_config(4);
  configs.push_back(blocks);
  blocks.family = "fast-dllm";
  blocks.shifted_logits = true;
  blocks.sub_block_length = 2;
  configs.push_back(blocks);
  return configs;
}

TEST(Presets, AreTheSameThreeInEveryFamily) {
  for (const ModelConfig& config : every_kind()) {
    const auto presets = presets_of(config);
    ASSERT_EQ(presets.size(), 3U);
    EXPECT_EQ(presets[0].name, "exact");
    EXPECT_EQ(presets[1].name, "balanced");
    EXPECT_EQ(presets[2].name, "fast");
  }
}

TEST(Presets, MakeDecodersOfEveryFamily) {
  for (const ModelConfig& config : every_kind()) {
    for (const Preset& preset : presets_of(config)) {
      GenerationOptions options;
      options.gen_length = 8;
      options.preset = std::string(preset.name);
      EXPECT_NO_THROW(make_decoder(config, options, {1, 2})) << config.architecture << " " << preset.name;
    }
  }
}

TEST(Presets, SetWhatTheySay) {
  for (const ModelConfig& config : every_kind()) {
    for (const Preset& preset : presets_of(config)) {
      GenerationOptions asked;
      asked.preset = std::string(preset.name);
      const GenerationOptions found = with_preset(config, asked);
      size_t num_set = 0;
      visit_options(found, [&](const Setting&, const auto& field) { num_set += is_given(field) ? 1 : 0; });
      EXPECT_EQ(num_set, preset.settings.size());
      EXPECT_EQ(describe(preset).starts_with("--"), !preset.settings.empty());
    }
  }
}

TEST(Presets, GiveWayToWhatWasAskedFor) {
  GenerationOptions options;
  options.preset = "fast";
  options.cache = "prefix";
  const GenerationOptions found = with_preset(tiny_configs()[0], options);
  EXPECT_EQ(found.cache, "prefix");
  EXPECT_TRUE(found.unmask.has_value());
  EXPECT_FALSE(found.preset.has_value());
}

/// Options that may come together with a preset, one at a time.
std::vector<GenerationOptions> single_settings() {
  std::vector<GenerationOptions> all;
  const auto add = [&](const auto& set) {
    GenerationOptions options;
    options.gen_length = 8;
    set(options);
    all.push_back(std::move(options));
  };
  add([](auto& o) { o.steps = 8; });
  add([](auto& o) { o.eps = 0.5; });
  add([](auto& o) { o.alg_temp = 0.5; });
  add([](auto& o) { o.block_length = 4; });
  add([](auto& o) { o.suffix = 2; });
  add([](auto& o) { o.cfg_scale = 1; });
  add([](auto& o) { o.confidence_eos_eot_inf = true; });
  add([](auto& o) { o.suppress_mask = true; });
  add([](auto& o) { o.ignore_eos = true; });
  add([](auto& o) { o.lock = "eps=1e-3"; });
  add([](auto& o) { o.boundary = "blocks=2"; });
  add([](auto& o) { o.drift = "tau=0.5"; });
  add([](auto& o) { o.self_correct = "on"; });
  add([](auto& o) { o.sampler = "ancestral"; });
  add([](auto& o) { o.edit = "tau=0.5"; });
  add([](auto& o) { o.sparse = "mage=4,dense-layers=1"; });
  add([](auto& o) { o.temperature = 0.5; });
  add([](auto& o) { o.accept = "exact"; });
  for (const char* rule : {"entropy", "random", "origin", "threshold=0.5", "dynamic=0.5", "sequential", "p2",
                           "klass", "local-leap", "eb", "streaming", "wino", "saber", "credit", "slow-fast",
                           "dsb", "adablock", "d3llm", "prophet"}) {
    add([&](auto& o) { o.unmask = rule; });
  }
  for (const char* cache : {"none", "prefix", "dual", "free", "delayed", "dkv", "sparse-dllm", "dllm-cache",
                            "d2cache", "uniform", "block"}) {
    add([&](auto& o) { o.cache = cache; });
    add([&](auto& o) {
      o.cache = cache;
      o.refresh = 3;
    });
    add([&](auto& o) {
      o.cache = cache;
      o.drift = "tau=0.5";
    });
  }
  return all;
}

TEST(Presets, MakeNoOptionsInvalidThatAreValidWithoutThem) {
  int valid = 0;
  for (const ModelConfig& config : every_kind()) {
    for (GenerationOptions options : single_settings()) {
      options.preset.reset();
      try {
        make_decoder(config, options, {1, 2});
      } catch (const InputError&) {
        continue;
      }
      ++valid;
      for (const Preset& preset : presets_of(config)) {
        options.preset = std::string(preset.name);
        EXPECT_NO_THROW(make_decoder(config, options, {1, 2})) << config.architecture << " " << preset.name;
      }
    }
  }
  EXPECT_GT(valid, 100);
}

Strategy strategy_of(const ModelConfig& config, const Preset& preset) {
  GenerationOptions options;
  options.preset = std::string(preset.name);
  return choose_strategy(config, options);
}

TEST(Presets, AreStrategies) {
  const ModelConfig llada = tiny_configs()[0];
  MaskedStrategy expected;
  expected.eos_exit = true;
  EXPECT_EQ(strategy_of(llada, presets_of(llada)[0]), Strategy(expected));
  expected.cache = DkvCache{8};
  expected.commit = UnmaskRule{{Threshold{0.9}}};
  EXPECT_EQ(strategy_of(llada, presets_of(llada)[1]), Strategy(expected));
  const ModelConfig gidd = tiny_gidd_config(1000);
  UniformStrategy boundary;
  boundary.cache = UniformCacheKind::kUniform;
  boundary.refresh = 0;
  boundary.boundary = BoundaryRefresh{2, 4};
  EXPECT_EQ(strategy_of(gidd, presets_of(gidd)[2]), Strategy(boundary));
}

TEST(Presets, AreOptional) {
  GenerationOptions options;
  options.gen_length = 8;
  const GenerationOptions found = with_preset(tiny_configs()[0], options);
  EXPECT_FALSE(found.cache || found.unmask || found.eos_exit);
}

template <typename T>
GenerationOptions with(std::optional<T> GenerationOptions::*option, T value) {
  GenerationOptions options;
  options.*option = std::move(value);
  return options;
}

TEST(Defaults, AreThoseOfTheFamilyWhereTheModelHasNone) {
  for (const ModelConfig& config : every_kind()) {
    const bool unmasks = config.fills_canvas() || config.block_causal;
    EXPECT_EQ(with_defaults(config, {}, false).unmask.has_value(), unmasks) << config.architecture;
    EXPECT_FALSE(with_defaults(config, {}, false).tokens_per_step.has_value());
    EXPECT_FALSE(with_defaults(config, {}, true).unmask.has_value() && config.fills_canvas());
  }
}

TEST(Defaults, OfTheModelGiveWayToAnyOptionThatChoosesASchedule) {
  ModelConfig config = tiny_configs()[0];
  config.default_unmask = "threshold=1";
  EXPECT_EQ(with_defaults(config, {}, false).unmask, "threshold=1");
  EXPECT_EQ(with_defaults(config, with<std::string>(&GenerationOptions::unmask, "margin"), false).unmask,
            "margin");
  EXPECT_EQ(with_defaults(config, with(&GenerationOptions::steps, 4), false).unmask, "low-confidence");
  EXPECT_EQ(with_defaults(config, with<std::string>(&GenerationOptions::preset, "fast"), false).unmask,
            "threshold=0.9");
  EXPECT_FALSE(with_defaults(config, {}, true).unmask.has_value());
}

TEST(Defaults, OfTheModelChooseHowManyNoisyTokensAStepReplaces) {
  for (ModelConfig config : every_kind()) {
    config.default_tokens_per_step = 1;
    const bool adapts = config.noise && !config.denoises_whole_canvas();  // unless told otherwise
    EXPECT_EQ(with_defaults(config, {}, false).tokens_per_step.has_value(), adapts);
    EXPECT_EQ(with_defaults(config, with(&GenerationOptions::tokens_per_step, 2), false).tokens_per_step, 2);
    EXPECT_FALSE(with_defaults(config, with<std::string>(&GenerationOptions::sampler, "ancestral"), false)
                     .tokens_per_step.has_value());
  }
}

TEST(Defaults, OfTheModelMustBeRules) {
  ModelConfig config = tiny_configs()[0];
  config.default_unmask = "fastest";
  EXPECT_THAT(
      [&] {
        make_decoder(config, {}, {1, 2});
      },
      ThrowsMessage<InputError>(AllOf(HasSubstr("generation_config.json: \"lacuna.unmask\""),
                                      HasSubstr("'fastest'"), HasSubstr("low-confidence"))));
}

TEST(Presets, RefuseUnknownNames) {
  GenerationOptions options;
  options.preset = "turbo";
  EXPECT_THAT(
      [&] {
        make_decoder(tiny_configs()[0], options, {1, 2});
      },
      ThrowsMessage<InputError>(
          AllOf(HasSubstr("--preset"), HasSubstr("turbo"), HasSubstr("exact, balanced or fast"))));
}

}  // namespace
}  // namespace lacuna::presets_test
