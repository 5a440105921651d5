#include "engine/tuned_formats.h"

#include <gmock/gmock.h>

namespace lacuna::tuned_formats_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> levels_of(const FormatNames& given, const ModelSource& source,
                                   const ModelSource* guide = nullptr) {
  std::vector<std::string> levels;
  for (const TuningPath& path : format_paths(given, source, guide)) {
    EXPECT_TRUE(path.is_of_loading);
    for (const std::vector<TuningSetting>& level : path.levels) levels.push_back(describe(level));
  }
  return levels;
}

class FormatPaths : public testing::Test {
 protected:
  ModelSource source_ = find_model(LACUNA_SOURCE_DIR "/models/mini-llada");
};

TEST_F(FormatPaths, TakeFewerBytesLevelByLevel) {
  EXPECT_THAT(levels_of({}, source_), ElementsAre("--weights int8", "--weights int4", "--kv-cache int8"));
  EXPECT_THAT(levels_of({.dtype = "f32"}, source_),
              ElementsAre("--weights int8", "--weights int4", "--kv-cache int8"));
}

TEST_F(FormatPaths, OfAnF32CheckpointBeginWithBf16) {
  EXPECT_THAT(levels_of({}, find_model(LACUNA_SOURCE_DIR "/tests/golden/gidd")),
              ElementsAre("--weights bf16", "--weights int8", "--weights int4", "--kv-cache int8"));
}

TEST_F(FormatPaths, LeaveOutWhatTheUserChose) {
  EXPECT_THAT(levels_of({.weights = "int8"}, source_), ElementsAre("--kv-cache int8"));
  EXPECT_THAT(levels_of({.kv_cache = "bf16"}, source_), ElementsAre("--weights int8", "--weights int4"));
  EXPECT_THAT(levels_of({.weights = "int8", .kv_cache = "int8"}, source_), IsEmpty());
}

TEST_F(FormatPaths, LeavePackedCopiesAsTheyAre) {
  ModelSource packed = source_;
  packed.config.packed_for = DType::kBF16;
  EXPECT_THAT(levels_of({}, packed), ElementsAre("--kv-cache int8"));
  EXPECT_THAT(levels_of({}, source_, &packed), ElementsAre("--kv-cache int8"));
}

TEST(WithFormats, KeepsWhatWasGiven) {
  const std::vector<TuningSetting> loading = {{"weights", "int4"}, {"kv-cache", "int8"}};
  const FormatNames names = with_formats({.weights = "int8"}, loading);
  EXPECT_EQ(names.weights, "int8");
  EXPECT_EQ(names.kv_cache, "int8");
}

}  // namespace
}  // namespace lacuna::tuned_formats_test
