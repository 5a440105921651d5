#include "engine/preset_use.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "base/error.h"
#include "options/sample_preset.h"
#include "temporary_folder.h"

namespace lacuna::preset_use_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

class PresetUse : public testing::Test {
 protected:
  PresetUse() {
    setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
    preset_.model = "mini-llada";
    preset_.model_hash = model_hash(opened_.source(), opened_.name());
    preset_.formats = preset_formats(DType::kBF16);
    save_preset(preset_);
    options_.preset = "quick";
  }
  ~PresetUse() override { unsetenv("XDG_CONFIG_HOME"); }

  ResolvedRun resolve(const OpenedModel& opened, const FormatNames& formats = {.dtype = "bf16"}) const {
    return resolve_run(opened.source(), opened.name(), opened.guide(), formats, options_);
  }
  GenerationOptions use(const OpenedModel& opened, const FormatNames& formats = {.dtype = "bf16"}) {
    ResolvedRun run = resolve(opened, formats);
    warnings_ = run.warnings;
    return std::move(run.options);
  }

  TemporaryFolder folder_;
  OpenedModel opened_{"mini-llada", find_model(LACUNA_SOURCE_DIR "/models/mini-llada")};
  SavedPreset preset_ = sample_preset();
  GenerationOptions options_;
  std::vector<std::string> warnings_;
};

TEST_F(PresetUse, SetsWhatWasTuned) {
  const GenerationOptions used = use(opened_);
  EXPECT_FALSE(used.preset);
  EXPECT_EQ(used.unmask, "threshold=0.9");
  EXPECT_EQ(used.gen_length, 32);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(PresetUse, LeavesOtherPresetsAlone) {
  for (const char* const name : {"fast", "never-saved"}) {
    options_.preset = name;
    EXPECT_EQ(use(opened_).preset, name);
  }
}

TEST_F(PresetUse, RefusesOtherFiles) {
  const OpenedModel other("mini-dream", find_model(LACUNA_SOURCE_DIR "/models/mini-dream"));
  EXPECT_THAT([&] { use(other); },
              ThrowsMessage<InputError>(HasSubstr("was tuned for other files than those of")));
}

TEST_F(PresetUse, NeedsTheGuideThatItWasTunedWith) {
  OpenedModel guided("mini-llada", find_model(LACUNA_SOURCE_DIR "/models/mini-llada"));
  guided.use_guide(LACUNA_SOURCE_DIR "/models/mini-qwen");
  EXPECT_THAT([&] { use(guided); }, ThrowsMessage<InputError>(HasSubstr("was tuned without one")));
  preset_.settings = {{"guide-match", "exact"}};
  preset_.guide = "mini-qwen";
  preset_.guide_hash = model_hash(guided.guide()->source, guided.guide()->model);
  save_preset(preset_);
  EXPECT_EQ(use(guided).guide_match, "exact");
  EXPECT_THAT([&] { use(opened_); }, ThrowsMessage<InputError>(HasSubstr("was tuned with a guide")));
  preset_.guide_hash = "0000000000000000";
  save_preset(preset_);
  EXPECT_THAT([&] { use(guided); }, ThrowsMessage<InputError>(HasSubstr("is not the guide")));
}

TEST_F(PresetUse, WarnsAboutFormatsFlagsAndVersions) {
  use(opened_, {.dtype = "bf16", .kv_cache = "int8"});
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("other formats")));
  options_.gen_length = 64;
  use(opened_);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("--gen-length is given")));
  options_.gen_length = 32;
  preset_.certificate.version = "0.1.0";
  save_preset(preset_);
  use(opened_);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("tuned with Lacuna 0.1.0")));
}

TEST_F(PresetUse, ChoosesTheFormatsThatWereTuned) {
  EXPECT_EQ(resolve(opened_, {}).formats.weights, "auto");
  preset_.loading = {{"weights", "int8"}, {"kv-cache", "int8"}};
  save_preset(preset_);
  const FormatNames names = resolve(opened_, {.weights = "int4"}).formats;
  EXPECT_EQ(names.weights, "int4");  // a given format stays
  EXPECT_EQ(names.kv_cache, "int8");
  options_.preset.reset();
  EXPECT_EQ(resolve(opened_, {}).formats.kv_cache, "auto");
}

TEST_F(PresetUse, NeedsTheFormatsThatWereTunedWhereNobodyIsWarned) {
  preset_.loading = {{"weights", "int8"}, {"kv-cache", "int8"}};
  const WeightFormats tuned = weight_formats(resolve(opened_, {}).formats, opened_.source());
  FormatNames names;
  names.weights = names.kv_cache = "int8";
  const WeightFormats loaded = weight_formats(names, opened_.source());
  preset_.formats = preset_formats(loaded);
  save_preset(preset_);
  EXPECT_EQ(resolve_options(opened_, &loaded, options_).unmask, "threshold=0.9");
  EXPECT_THAT([&] { resolve_options(opened_, &tuned, options_); },
              ThrowsMessage<InputError>(HasSubstr("loaded with `weights` int8, `kv_cache` int8")));
}

TEST_F(PresetUse, ListsThePresetsOfAModel) {
  EXPECT_THAT(saved_presets_of(opened_.source(), opened_.name()), SizeIs(1));
  EXPECT_THAT(saved_presets_of(find_model(LACUNA_SOURCE_DIR "/models/mini-dream"), "mini-dream"), IsEmpty());
}

}  // namespace
}  // namespace lacuna::preset_use_test
