#include "instruments/attention_mass.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "instruments/random_requests.h"
#include "model/tiny_models.h"

namespace lacuna::attention_mass_test {
namespace {

constexpr int32_t kPrompt = kRandomPrompt;
constexpr int32_t kAnswer = 16;
constexpr int32_t kBlock = 8;

size_t at(Region region) {
  return static_cast<size_t>(region);
}

int32_t panel(AttendedPart part) {
  return static_cast<int32_t>(part);
}

GenerationOptions masked_options() {
  GenerationOptions options;
  options.gen_length = kAnswer;
  options.block_length = kBlock;
  return options;
}

/// Three blocks of six steps each, of which the last reaches beyond the answer.
GenerationOptions gidd_options(const std::string& cache) {
  GenerationOptions options;
  options.gen_length = 21;
  options.block_length = kBlock;
  options.steps = 6;
  options.ignore_eos = true;
  options.block_exit = "steps";
  options.cache = cache;
  return options;
}

class AttentionMass : public testing::Test {
 protected:
  std::shared_ptr<const BackendModel> model(const ModelConfig& config) {
    return on_cpu(tiny_model(config), default_table(), threads_);
  }

  /// One whose queries see all visible cells alike: attention scores are capped at almost nothing.
  std::shared_ptr<const BackendModel> even_model() {
    ModelConfig config = tiny_configs()[0];
    config.attn_soft_cap = 1e-6F;
    return model(config);
  }

  ThreadPool threads_{2};
};

std::map<StepMap::Key, StepMap::Figures> cells(const BackendModel& model, const GenerationOptions& options,
                                               std::string_view map, int32_t count = 1) {
  return analyze_attention(model, random_requests(model, options, count), parse_map(map)).map->cells();
}

TEST_F(AttentionMass, GoesToOneRegionOrAnother) {
  const auto gidd = model(tiny_gidd_config(1000, 60));
  for (const char* cache : {"none", "uniform"}) {
    const AttentionFindings found = analyze_attention(*gidd, random_requests(*gidd, gidd_options(cache), 2));
    double sum = 0;
    for (const Average& mass : found.mass) {
      sum += mass.mean();
      // Requests, blocks, steps, rows, heads, layers.
      EXPECT_EQ(mass.count, 2 * 3 * 6 * kBlock * 3 * 2);
      EXPECT_GT(mass.mean(), 0);
    }
    EXPECT_NEAR(sum, 1, 1e-5) << cache;
    EXPECT_FALSE(found.map);
  }
}

TEST_F(AttentionMass, FindsNoSinkOrFillerInAMaskedModel) {
  const auto llada = model(tiny_configs()[0]);
  const AttentionFindings found = analyze_attention(*llada, random_requests(*llada, masked_options()));
  double sum = 0;
  for (const Average& mass : found.mass) sum += mass.mean();
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(found.mass[at(Region::kSink)].mean(), 0);
  EXPECT_EQ(found.mass[at(Region::kFiller)].mean(), 0);
  EXPECT_GT(found.mass[at(Region::kCurrent)].mean(), 0);
}

TEST_F(AttentionMass, OfEvenAttentionIsTheShareOfEachPart) {
  // One token a step, two blocks of eight: at step s, s positions are decoded.
  const auto even = even_model();
  constexpr double kAll = kPrompt + kAnswer;
  const auto found = cells(*even, masked_options(), "step,layer", 2);
  for (int32_t step = 0; step < kAnswer; ++step) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      const auto mass = [&](AttendedPart part) {
        const auto cell = found.find({panel(part), step, layer});
        if (cell == found.end()) return 0.0;
        EXPECT_EQ(cell->second[0].count, 2);  // requests
        return cell->second[0].mean();
      };
      // A query is not counted among the decoded or masked positions.
      const double decoded_queries = static_cast<double>(step % kBlock) / kBlock;
      EXPECT_NEAR(mass(AttendedPart::kFirstToken), 1 / kAll, 1e-6);
      EXPECT_NEAR(mass(AttendedPart::kPrompt), (kPrompt - 1) / kAll, 1e-6);
      EXPECT_NEAR(mass(AttendedPart::kDecoded), (step - decoded_queries) / kAll, 1e-6) << step;
      EXPECT_NEAR(mass(AttendedPart::kMasked), (kAnswer - step - (1 - decoded_queries)) / kAll, 1e-6) << step;
      EXPECT_NEAR(mass(AttendedPart::kSelf), 1 / kAll, 1e-6);
      EXPECT_EQ(mass(AttendedPart::kSink) + mass(AttendedPart::kFiller), 0);
    }
  }
}

TEST_F(AttentionMass, OfEvenAttentionIsTheSameAtEachPosition) {
  const auto even = even_model();
  for (const char* map : {"step,position", "layer,position"}) {
    const auto found = cells(*even, masked_options(), map);
    const bool has_steps = map[0] == 's';
    EXPECT_EQ(found.size(), static_cast<size_t>((has_steps ? kAnswer : 2) * (kPrompt + kAnswer)));
    EXPECT_EQ(found.begin()->first.column, -kPrompt);
    EXPECT_EQ(found.rbegin()->first.column, kAnswer - 1);
    for (const auto& [key, cell] : found) {
      EXPECT_NEAR(cell[0].mean(), 1.0 / (kPrompt + kAnswer), 1e-6) << map;
      EXPECT_EQ(cell[0].count, has_steps ? 2 : kAnswer) << map;
    }
  }
}

TEST_F(AttentionMass, OfAllPartsAddsUpToOneAtEachStepAndLayer) {
  const auto gidd = model(tiny_gidd_config(1000, 60));
  std::map<std::pair<int32_t, int32_t>, double> sums;
  std::map<int32_t, double> of_part;
  for (const auto& [key, cell] : cells(*gidd, gidd_options("uniform"), "step,layer")) {
    sums[{key.row, key.column}] += cell[0].mean();
    of_part[key.panel] += cell[0].mean();
  }
  EXPECT_EQ(sums.size(), 3 * 6 * 2);
  for (const auto& [place, sum] : sums) EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(of_part.size(), kAttendedParts);
  // Noise of the first block and of what follows it is not decided.
  const auto first = cells(*gidd, gidd_options("none"), "step,layer");
  EXPECT_FALSE(first.contains({panel(AttendedPart::kDecoded), 0, 0}));
  EXPECT_TRUE(first.contains({panel(AttendedPart::kDecoded), 6, 0}));
}

TEST_F(AttentionMass, IsThatOfTheRegionsAgain) {
  // Another way to the same figures: positions of the prompt, from the map of steps.
  const auto llada = model(tiny_configs()[0]);
  const AttentionFindings found =
      analyze_attention(*llada, random_requests(*llada, masked_options()), parse_map("step,position"));
  double prompt = 0;
  for (const auto& [key, cell] : found.map->cells()) prompt += key.column < 0 ? cell[0].mean() / kAnswer : 0;
  EXPECT_NEAR(prompt, found.mass[at(Region::kPrompt)].mean(), 1e-6);
}

TEST_F(AttentionMass, RowsOfTheReportHaveTheSameKeysForEachKind) {
  const auto llada = model(tiny_configs()[0]);
  const auto requests = random_requests(*llada, masked_options());
  const nlohmann::ordered_json rows = to_json(analyze_attention(*llada, requests, parse_map("step,layer")));
  EXPECT_EQ(rows.front().dump().substr(0, 16), R"({"region":"sink")");
  for (const char* key : {"step", "layer", "part", "mass", "count"}) EXPECT_TRUE(rows.back().contains(key));
}

}  // namespace
}  // namespace lacuna::attention_mass_test
