#include "engine/weight_options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "decode/setting_error.h"
#include "kernels/dispatch.h"
#include "model/tiny_models.h"
#include "weights/weight_format.h"

namespace lacuna::weight_options_test {
namespace {

ModelSource source() {
  return {.folder = {}, .config = tiny_configs()[0]};
}

TEST(FasterWeights, AreNamedForLargeDenseBf16ModelsWhereSomeAreKnown) {
  ModelConfig config = tiny_configs()[0];
  config.vocab_size = 1 << 20;  // so that the embedding alone has more than 256 MiB
  config.hidden_dim = 256;
  const int64_t bytes = 2 * count_parameters(config);
  EXPECT_EQ(faster_weights(DType::kBF16, config, bytes, "avx2"), describe(faster_formats("avx2").front()));
  EXPECT_EQ(faster_weights(DType::kBF16, config, bytes, "scalar"), "");
  EXPECT_EQ(faster_weights(DType::kF32, config, 2 * bytes, "avx2"), "");
  EXPECT_EQ(faster_weights(DType::kBF16, config, bytes / 2, "avx2"), "") << "int8 as stored";
  WeightFormats int8 = DType::kBF16;
  int8.layers = weight_format("int8");
  EXPECT_EQ(faster_weights(int8, config, bytes, "avx2"), "");
  EXPECT_EQ(faster_weights(DType::kBF16, tiny_configs()[0], 1 << 20, "avx2"), "");
}

TEST(FasterFormats, AreInOrderOfTheirSpeedAt32RowsAndFasterThanBf16) {
  EXPECT_TRUE(faster_formats("scalar").empty());
  for (const char* isa : {"avx2", "avx512-fma", "avx512", "amx"}) {
    const std::vector<FormatSpeed> found = faster_formats(isa);
    ASSERT_FALSE(found.empty()) << isa;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_GT(found[i].at_32_rows, 1) << isa;
      EXPECT_LE(found[i].at_32_rows, found[i == 0 ? 0 : i - 1].at_32_rows) << isa;
      const std::optional<WeightFormat> format = weight_format(found[i].weights);
      EXPECT_TRUE(format && format->is_quantized() && format->is_for_cpu());
    }
  }
}

TEST(FasterFormats, AreThoseOfTheGuide) {
  std::ifstream page(LACUNA_SOURCE_DIR "/docs/guide/faster.md");
  std::vector<std::string> written;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `avx") || line.starts_with("| `amx")) written.push_back(line);
  }
  std::vector<std::string> known;
  for (const char* isa : {"avx2", "avx512-fma", "avx512", "amx"}) {
    for (const FormatSpeed& speed : faster_formats(isa)) {
      known.push_back(fmt::format("| `{}` | `{}` | `{}` | `{:.2f}` | `{:.2f}` | `{:.2f}` |", isa,
                                  speed.weights, speed.activations, speed.at_1_row, speed.at_32_rows,
                                  speed.at_512_rows));
    }
  }
  EXPECT_EQ(written, known);
}

TEST(WeightFormats, AreTheFastestWhereAsked) {
  const std::vector<FormatSpeed> known = faster_formats(default_table().name);
  const WeightFormats found = weight_formats({.weights = "fastest"}, source());
  if (known.empty()) {
    EXPECT_FALSE(found.layers.has_value());
    return;
  }
  EXPECT_EQ(found.layers, weight_format(known.front().weights));
  EXPECT_EQ(found.int8_activations, known.front().activations == "int8");
  const WeightFormats in_f32 = weight_formats({.dtype = "f32", .weights = "fastest"}, source());
  EXPECT_EQ(in_f32.layers, found.layers);
  EXPECT_FALSE(in_f32.int8_activations);
}

TEST(WeightFormats, OfOtherDevicesAreAsStoredWhereTheFastestAreAsked) {
  EXPECT_FALSE(weight_formats({.weights = "fastest", .for_cpu = false}, source()).layers.has_value());
}

TEST(WeightFormats, AreRefusedByTheFieldAndWhatIsAccepted) {
  EXPECT_THAT([] { weight_formats({.weights = "int3"}, source()); },
              testing::ThrowsMessage<SettingError>(
                  testing::HasSubstr("is int3; expected auto, fastest, f32, bf16, int8")));
}

}  // namespace
}  // namespace lacuna::weight_options_test
