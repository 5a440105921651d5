#include "options/saved_preset.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::saved_preset_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

SavedPreset some_preset() {
  SavedPreset preset;
  preset.name = "quick";
  preset.settings = {{"unmask", "threshold=0.9"}, {"eos-exit", ""}};
  preset.tested_with = {{"gen-length", "32"}, {"block-length", "8"}};
  preset.model = "mini-llada";
  preset.model_hash = "0123456789abcdef";
  preset.loading = {{"weights", "int8"}};
  preset.formats = {"bf16", "int8", "as stored", "bf16", "auto"};
  preset.baseline_formats = {"bf16", "as stored", "as stored", "bf16", "auto"};
  preset.certificate = {"changed-answer",
                        0.02,
                        0.9,
                        0.0123456789012345,
                        400,
                        2,
                        "task arithmetic",
                        "fedcba9876543210",
                        8e11,
                        2.5e10,
                        0.09,
                        0.1,
                        0.11,
                        0.12,
                        "2026-01-31",
                        "0.2.0"};
  return preset;
}

/// Files in a folder of the test.
class SavedPresets : public testing::Test {
 protected:
  SavedPresets() { setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1); }
  ~SavedPresets() override { unsetenv("XDG_CONFIG_HOME"); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(presets_folder());
    std::ofstream(presets_folder() / name) << text;
  }

  TemporaryFolder folder_;
};

TEST_F(SavedPresets, AreReadAsTheyWereWritten) {
  EXPECT_FALSE(load_saved_preset("quick"));
  const std::filesystem::path file = save_preset(some_preset());
  EXPECT_EQ(file, folder_.path() / "lacuna" / "presets" / "quick.json");
  EXPECT_EQ(load_saved_preset("quick"), some_preset());
  EXPECT_THAT(saved_presets(), ElementsAre(some_preset()));
}

TEST_F(SavedPresets, HaveNamesThatStayInTheirFolder) {
  for (const char* const name : {"quick", "a", "2-percent", "v1.2_b"})
    EXPECT_TRUE(is_preset_name(name)) << name;
  for (const char* const name : {"", "exact", "fast", "../x", "a/b", ".hidden", "Upper", "a b", "-x"}) {
    EXPECT_FALSE(is_preset_name(name)) << name;
    EXPECT_FALSE(load_saved_preset(name));
  }
  EXPECT_FALSE(is_preset_name(std::string(65, 'a')));
}

TEST_F(SavedPresets, ThatAreDamagedAreRefusedAndNotListed) {
  using Json = nlohmann::ordered_json;
  struct Damage {
    std::function<void(Json&)> change;
    std::string sentence;
  };
  const std::vector<Damage> damages = {
      {[](Json& json) { json["format"] = "x"; }, "is not a saved preset"},
      {[](Json& json) { json["version"] = 2; }, "version"},
      {[](Json& json) { json["name"] = "other"; }, "name"},
      {[](Json& json) { json["settings"] = 3; }, "settings"},
      {[](Json& json) { json["settings"]["no-such"] = "1"; }, "no_such"},
      {[](Json& json) { json["settings"]["preset"] = "fast"; }, "preset"},
      {[](Json& json) { json["tested_with"]["gen-length"] = "many"; }, "expected a number"},
      {[](Json& json) { json["tested_with"]["gen-length"] = 32; }, "gen-length"},
      {[](Json& json) { json["model_hash"] = "../../x"; }, "model_hash"},
      {[](Json& json) { json["loading"] = 3; }, "loading"},
      {[](Json& json) { json["loading"]["weights"] = 8; }, "weights"},
      {[](Json& json) { json.erase("formats"); }, "formats"},
      {[](Json& json) { json.erase("baseline_formats"); }, "baseline_formats"},
      {[](Json& json) { json["certificate"]["peak_flops"] = 0; }, "certificate.peak_flops"},
      {[](Json& json) { json.erase("certificate"); }, "certificate"},
      {[](Json& json) { json["certificate"]["loss"] = "luck"; }, "certificate.loss"},
      {[](Json& json) { json["certificate"]["risk"] = 2; }, "certificate.risk"},
      {[](Json& json) { json["certificate"]["prompts"] = -1; }, "certificate.prompts"},
      {[](Json& json) { json["certificate"]["losses"] = 401; }, "certificate.losses"},
      {[](Json& json) { json["certificate"]["bound"] = "0"; }, "certificate.bound"}};
  for (const Damage& damage : damages) {
    Json json = to_json(some_preset());
    damage.change(json);
    write("quick.json", json.dump());
    EXPECT_THAT([] { load_saved_preset("quick"); }, ThrowsMessage<InputError>(HasSubstr(damage.sentence)));
    EXPECT_THAT(saved_presets(), IsEmpty());
  }
  write("quick.json", "{");
  EXPECT_THROW(load_saved_preset("quick"), InputError);
  write("quick.json", std::string(kMaxPresetBytes + 1, ' '));
  EXPECT_THAT([] { load_saved_preset("quick"); }, ThrowsMessage<InputError>(HasSubstr("larger than")));
}

TEST_F(SavedPresets, SetWhatWasNotGiven) {
  GenerationOptions given;
  given.preset = "quick";
  given.block_length = 16;
  const GenerationOptions options = with_saved_preset(some_preset(), given);
  EXPECT_FALSE(options.preset);
  EXPECT_EQ(options.unmask, "threshold=0.9");
  EXPECT_TRUE(options.eos_exit);
  EXPECT_EQ(options.gen_length, 32);
  EXPECT_EQ(options.block_length, 16);
}

TEST_F(SavedPresets, NameSettingsThatBreakThePromise) {
  GenerationOptions given;
  given.preset = "quick";
  given.seed = 7;
  given.gen_length = 32;
  EXPECT_THAT(overridden_settings(some_preset(), given), IsEmpty());
  given.gen_length = 64;
  given.temperature = 1;
  EXPECT_THAT(overridden_settings(some_preset(), given), ElementsAre("gen-length", "temperature"));
}

}  // namespace
}  // namespace lacuna::saved_preset_test
