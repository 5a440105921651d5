// Instruments on models with random weights: what must hold whatever the weights are.
#include "eval/instruments.h"

#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "eval/random_requests.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::instruments_test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::Pair;

constexpr int32_t kContext = 60;
constexpr int32_t kPrompt = kRandomPrompt;
constexpr int32_t kAnswer = 21;
constexpr int32_t kBlock = 8;
constexpr int32_t kSteps = 6;

size_t at(Region region) {
  return static_cast<size_t>(region);
}

/// Three blocks of six steps each, of which the last reaches beyond the answer.
GenerationOptions gidd_options(const std::string& cache) {
  GenerationOptions options;
  options.gen_length = kAnswer;
  options.block_length = kBlock;
  options.steps = kSteps;
  options.ignore_eos = true;
  options.block_exit = "steps";
  options.cache = cache;
  return options;
}

GenerationOptions masked_options() {
  GenerationOptions options;
  options.gen_length = 16;
  options.block_length = 8;
  return options;
}

class Instruments : public testing::Test {
 protected:
  std::vector<std::unique_ptr<Decoder>> requests(const GenerationOptions& options, int32_t count = 1) const {
    return random_requests(*gidd_, options, count);
  }

  ThreadPool threads_{2};
  std::shared_ptr<const BackendModel> gidd_ =
      on_cpu(tiny_model(tiny_gidd_config(1000, kContext)), default_table(), threads_);
  std::shared_ptr<const BackendModel> llada_ =
      on_cpu(tiny_model(tiny_configs()[0]), default_table(), threads_);
};

TEST(Regions, LieAroundTheBlock) {
  BlockWindow window{{21, 29}, {5, 40}, 8, 60};
  const auto expect = [&](Region region, std::initializer_list<int32_t> positions) {
    for (const int32_t position : positions) {
      EXPECT_EQ(region_of(window, position), region) << position;
    }
  };
  expect(Region::kPrompt, {0, 4});
  expect(Region::kRestPast, {5, 12});
  expect(Region::kPrevious, {13, 20});
  expect(Region::kCurrent, {21, 28});
  expect(Region::kNext, {29, 36});
  expect(Region::kRestFuture, {37, 39});
  expect(Region::kFiller, {40, 59});
  window.block = {37, 45};  // the last one, beyond the answer
  expect(Region::kCurrent, {37, 40, 44});
  expect(Region::kFiller, {45, 59});
}

TEST_F(Instruments, NeverChangeWhatIsWritten) {
  GenerationOptions ancestral = gidd_options("uniform");
  ancestral.sampler = "ancestral";
  ancestral.temperature = 0.8;
  GenerationOptions drifting = gidd_options("uniform");
  drifting.drift = "tau=0.0001,page=4,budget=8";
  GenerationOptions corrected = gidd_options("none");
  corrected.self_correct = "most=4";
  GenerationOptions locked = masked_options();
  locked.lock = "eps=1e5,gate=off,min-age=1";
  locked.cfg_scale = 0.5;
  GenerationOptions dual = masked_options();
  dual.cache = "dual";
  const std::shared_ptr<const BackendModel> dream =
      on_cpu(tiny_model(tiny_configs()[4]), default_table(), threads_);
  struct Case {
    std::shared_ptr<const BackendModel> model;
    GenerationOptions options;
  };
  const std::vector<Case> cases = {{gidd_, ancestral}, {gidd_, drifting}, {gidd_, corrected},
                                   {llada_, locked},   {llada_, dual},    {dream, locked}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& tried = cases[i];
    Engine engine(tried.model, 1);
    engine.add(std::move(random_requests(*tried.model, tried.options).front()));
    engine.run();
    const auto expect_same = [&](auto analyze, const char* name) {
      const auto watched = random_requests(*tried.model, tried.options);
      analyze(*tried.model, watched, AnalysisProgress());
      EXPECT_THAT(watched.front()->canvas(), ElementsAreArray(engine.decoder(0).canvas())) << i << name;
    };
    expect_same(analyze_drift, "drift");
    expect_same(analyze_attention, "attention");
    expect_same(analyze_entropy, "entropy");
    expect_same(analyze_changes, "changes");
    expect_same(analyze_profile, "profile");
    if (tried.model != gidd_) continue;
    const auto staleness = [&](const auto& model, const auto& watched, const auto& progress) {
      return analyze_staleness(model, threads_, watched, progress);
    };
    expect_same(staleness, "staleness");
  }
}

TEST_F(Instruments, GiveAllAttentionToOneRegionOrAnother) {
  for (const char* cache : {"none", "uniform"}) {
    const AttentionFindings found = analyze_attention(*gidd_, requests(gidd_options(cache), 2));
    double sum = 0;
    for (const Average& mass : found.mass) {
      sum += mass.mean();
      // Requests, blocks, steps, rows, heads, layers.
      EXPECT_EQ(mass.count, 2 * 3 * kSteps * kBlock * 3 * 2);
      EXPECT_GT(mass.mean(), 0);
    }
    EXPECT_NEAR(sum, 1, 1e-5) << cache;
  }
}

TEST_F(Instruments, FindNoSinkOrFillerInAMaskedModel) {
  const AttentionFindings found = analyze_attention(*llada_, random_requests(*llada_, masked_options()));
  double sum = 0;
  for (const Average& mass : found.mass) sum += mass.mean();
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(found.mass[at(Region::kSink)].mean(), 0);
  EXPECT_EQ(found.mass[at(Region::kFiller)].mean(), 0);
  EXPECT_GT(found.mass[at(Region::kCurrent)].mean(), 0);
}

TEST_F(Instruments, FindThatCleanRowsMoveAtBoundariesAlone) {
  const DriftFindings found = analyze_drift(*gidd_, requests(gidd_options("none")));
  for (const Region region : {Region::kPrompt, Region::kRestPast, Region::kPrevious}) {
    EXPECT_GT(found.within[at(region)].key.count, 0);
    EXPECT_EQ(found.within[at(region)].mean(), 0) << name_of(region);
    EXPECT_GT(found.boundary[at(region)].mean(), 0) << name_of(region);
  }
  EXPECT_EQ(found.boundary[at(Region::kPrompt)].key.count, 2 * kPrompt);
  EXPECT_EQ(found.within[at(Region::kPrompt)].key.count, 3 * (kSteps - 1) * kPrompt);
  EXPECT_EQ(found.within[at(Region::kSink)].key.count, 0);
  EXPECT_GT(found.within[at(Region::kCurrent)].key.mean(), found.within[at(Region::kFiller)].key.mean());
  for (const std::optional<double>& r : {found.key_value, found.key_layers, found.value_layers}) {
    EXPECT_GE(r.value_or(-2), -1);
    EXPECT_LE(r.value_or(2), 1);
  }
}

TEST_F(Instruments, FindThatWhatIsNotComputedDoesNotMove) {
  GenerationOptions options = gidd_options("uniform");
  options.refresh = 0;
  const DriftFindings found = analyze_drift(*gidd_, requests(options));
  for (const Region region : {Region::kPrompt, Region::kNext, Region::kRestFuture, Region::kFiller}) {
    EXPECT_GT(found.within[at(region)].key.count, 0);
    EXPECT_EQ(found.within[at(region)].mean(), 0) << name_of(region);
  }
  for (const Region region : {Region::kPrompt, Region::kNext, Region::kFiller}) {
    EXPECT_GT(found.boundary[at(region)].mean(), 0) << name_of(region);
  }
  EXPECT_GT(found.within[at(Region::kCurrent)].mean(), 0);
}

TEST_F(Instruments, FindTheEntropyOfNoKnowledge) {
  ModelConfig config = tiny_gidd_config(1000, kContext);
  config.logit_scale = 0;
  const std::shared_ptr<const BackendModel> blank = on_cpu(tiny_model(config), default_table(), threads_);
  const auto choices = static_cast<double>(config.vocab_size - 1);
  const EntropyFindings found = analyze_entropy(*blank, random_requests(*blank, gidd_options("none")));
  EXPECT_EQ(found.steps.size(), 3 * kSteps);
  for (const auto& [index, step] : found.steps) {
    EXPECT_NEAR(step.entropy.mean(), std::log(choices), 1e-5) << index;
    EXPECT_NEAR(step.largest_probability.mean(), 1 / choices, 1e-6) << index;
  }
}

TEST_F(Instruments, FindEntropiesWithinTheirRange) {
  GenerationOptions sharp = masked_options();
  sharp.temperature = 0.1;  // temperature of the samples, not of the entropy
  const EntropyFindings found = analyze_entropy(*llada_, random_requests(*llada_, sharp, 2));
  EXPECT_EQ(found.steps.size(), 16);
  for (const auto& [index, step] : found.steps) {
    EXPECT_EQ(step.entropy.count, 2);
    EXPECT_GT(step.entropy.mean(), 0);
    EXPECT_LT(step.entropy.mean(), std::log(96.0));
    EXPECT_GT(step.largest_probability.mean(), 1 / 96.0);
  }
}

TEST_F(Instruments, CountTheTokensThatChange) {
  int64_t committed = 0;
  Engine engine(gidd_, 1);
  engine.add(std::move(requests(gidd_options("none")).front()));
  engine.run(
      [&](const StepEvent& event) { committed += static_cast<int64_t>(event.report.committed.size()); });
  ASSERT_GT(committed, 0);
  const ChangeFindings found = analyze_changes(*gidd_, requests(gidd_options("none")));
  int64_t counted = 0;
  double of_answer = 0;
  double of_block = 0;
  for (const auto& [index, step] : found.steps) {
    counted += step.committed;
    of_answer += step.of_answer.sum;
    of_block += step.of_block.sum;
  }
  EXPECT_EQ(counted, committed);
  EXPECT_NEAR(of_answer * kAnswer, static_cast<double>(committed), 1e-9);
  EXPECT_NEAR(of_block * kBlock, static_cast<double>(committed), 1e-9);
}

TEST_F(Instruments, FindNoStalenessWhereCachesAreExact) {
  for (const char* cache : {"none", "prefix"}) {
    const StalenessFindings found = analyze_staleness(*gidd_, threads_, requests(gidd_options(cache)));
    for (size_t region = 0; region < kRegions; ++region) {
      for (const KvAverage& error : found.error[region]) EXPECT_EQ(error.mean(), 0) << cache;
    }
    EXPECT_EQ(found.kl.count, 3 * kSteps * kBlock);
    EXPECT_EQ(found.kl.mean(), 0) << cache;
    EXPECT_EQ(found.flips.mean(), 0) << cache;
  }
}

TEST_F(Instruments, FindHowStaleAUniformCacheGrows) {
  const StalenessFindings found = analyze_staleness(*gidd_, threads_, requests(gidd_options("uniform")));
  const auto& filler = found.error[at(Region::kFiller)];
  for (const size_t age : {0, 1, 2, 3}) EXPECT_GT(filler[age].key.count, 0) << name_of_age(age);
  EXPECT_EQ(filler[0].mean(), 0);  // both layers' K/V follow from the tokens and the first layer's
  EXPECT_EQ(filler[4].key.count, 0);
  EXPECT_GT(filler[3].mean(), 0);
  for (const KvAverage& error : found.error[at(Region::kPrompt)]) EXPECT_EQ(error.mean(), 0);
  EXPECT_GT(found.kl.mean(), 0);
}

TEST_F(Instruments, CountPassesByTheirRows) {
  const ProfileFindings found = analyze_profile(*gidd_, requests(gidd_options("uniform")));
  std::vector<std::pair<int32_t, int64_t>> passes;
  double seconds = 0;
  for (const auto& [rows, of_rows] : found.passes) {
    passes.emplace_back(rows, of_rows.count);
    seconds += of_rows.seconds;
  }
  // The next block is refreshed at the fourth step of all blocks but the last.
  EXPECT_THAT(passes, ElementsAre(Pair(kBlock, 13), Pair(2 * kBlock, 2), Pair(kContext, 3)));
  EXPECT_NEAR(seconds, found.seconds, 1e-9);
  EXPECT_GT(found.times.qkv, 0);
  EXPECT_LE(found.times.total(), found.seconds);
}

TEST_F(Instruments, RefuseDecodersWithoutBlocks) {
  const std::shared_ptr<const BackendModel> causal =
      on_cpu(tiny_model(tiny_configs()[5]), default_table(), threads_);
  GenerationOptions options;
  options.gen_length = 2;
  EXPECT_THROW(analyze_entropy(*causal, random_requests(*causal, options)), InputError);
  EXPECT_THROW(analyze_staleness(*llada_, threads_, random_requests(*llada_, masked_options())), InputError);
}

TEST_F(Instruments, ReportRowsOfAKindWithTheSameKeys) {
  const auto expect_tables = [](const nlohmann::ordered_json& rows, size_t kinds) {
    std::vector<std::vector<std::string>> tables;
    for (const auto& row : rows) {
      std::vector<std::string> keys;
      for (const auto& [key, value] : row.items()) keys.push_back(key);
      if (tables.empty() || tables.back() != keys) tables.push_back(keys);
    }
    EXPECT_EQ(tables.size(), kinds) << rows.dump();
  };
  const GenerationOptions options = gidd_options("uniform");
  expect_tables(to_json(analyze_drift(*gidd_, requests(options))), 2);
  expect_tables(to_json(analyze_attention(*gidd_, requests(options))), 1);
  expect_tables(to_json(analyze_entropy(*gidd_, requests(options))), 1);
  expect_tables(to_json(analyze_changes(*gidd_, requests(options))), 1);
  expect_tables(to_json(analyze_staleness(*gidd_, threads_, requests(options))), 2);
  expect_tables(to_json(analyze_profile(*gidd_, requests(options))), 2);
}

}  // namespace
}  // namespace lacuna::instruments_test
