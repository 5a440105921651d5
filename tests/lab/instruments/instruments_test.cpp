// Instruments on models with random weights: what must hold whatever the weights are.
#include "instruments/instruments.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "instruments/attention_mass.h"
#include "instruments/random_requests.h"
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
    // Maps as well, which read more.
    const auto drift = [](const auto& model, const auto& watched, const auto& progress) {
      return analyze_drift(model, watched, parse_map("step,layer"), progress);
    };
    const auto attention = [](const auto& model, const auto& watched, const auto& progress) {
      return analyze_attention(model, watched, parse_map("layer,position"), progress);
    };
    const auto profile = [](const auto& model, const auto& watched, const auto& progress) {
      return analyze_profile(model, watched, nullptr, progress);
    };
    expect_same(drift, "drift");
    expect_same(attention, "attention");
    expect_same(analyze_entropy, "entropy");
    expect_same(analyze_changes, "changes");
    expect_same(profile, "profile");
    if (tried.model != gidd_) continue;
    const auto staleness = [&](const auto& model, const auto& watched, const auto& progress) {
      return analyze_staleness(model, threads_, watched, progress);
    };
    expect_same(staleness, "staleness");
  }
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

/// Measures drift anew: copies all cells after each pass and compares them with the copies before.
class CellTape final : public Instrument {
 public:
  explicit CellTape(const ModelConfig& config) : config_(config) {}

  struct Place {
    int32_t step, layer, position;
    auto operator<=>(const Place&) const = default;
  };
  std::map<Place, std::array<double, 2>> drifts;  ///< of keys and of values

  void finished(const FollowedPass& pass, const StepReport& report) override {
    for (int32_t position = 0; position < pass.window.num_positions; ++position) {
      for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
        std::array<std::vector<float>, 2> now = read(pass.sequence, layer, position);
        std::array<std::vector<float>, 2>& before = cells_[{layer, position}];
        const bool is_empty = before[0].empty() || before[0] == std::vector<float>(now[0].size(), 0.0F);
        if (!is_empty) {
          drifts[{report.step, layer, position - pass.window.answer.begin}] = {distance(now[0], before[0]),
                                                                               distance(now[1], before[1])};
        }
        before = std::move(now);
      }
    }
  }

 private:
  std::array<std::vector<float>, 2> read(const KvSequence& sequence, int32_t layer, int32_t position) const {
    const int64_t dim = config_.head_dim;
    std::array<std::vector<float>, 2> cell;
    for (std::vector<float>& each : cell) each.resize(static_cast<size_t>(config_.num_kv_heads * dim));
    for (int64_t head = 0; head < config_.num_kv_heads; ++head) {
      sequence.read_cells(layer, head, {position, position + 1}, {cell[0].data() + head * dim, 1, dim},
                          {cell[1].data() + head * dim, 1, dim});
    }
    return cell;
  }

  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double product = 0, of_a = 0, of_b = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      product += double{a[i]} * b[i];
      of_a += double{a[i]} * a[i];
      of_b += double{b[i]} * b[i];
    }
    return 1 - product / std::sqrt(of_a * of_b);
  }

  const ModelConfig& config_;
  std::map<std::pair<int32_t, int32_t>, std::array<std::vector<float>, 2>> cells_;
};

TEST_F(Instruments, MapTheDriftThatTheCellsShow) {
  struct Case {
    std::shared_ptr<const BackendModel> model;
    GenerationOptions options;
  };
  GenerationOptions dual = masked_options();
  dual.cache = "dual";
  for (const Case& tried :
       {Case{llada_, masked_options()}, Case{llada_, dual}, Case{gidd_, gidd_options("uniform")}}) {
    const ModelConfig& config = tried.model->config();
    CellTape tape(config);
    follow(*tried.model, *random_requests(*tried.model, tried.options).front(), tape);
    MapSettings settings = parse_map("step,position");
    for (int32_t layer = 0; layer < config.num_layers; ++layer) settings.layers.push_back(layer);
    const DriftFindings found =
        analyze_drift(*tried.model, random_requests(*tried.model, tried.options), settings);
    EXPECT_EQ(found.map->cells().size(), tape.drifts.size());
    double most = 0;
    for (const auto& [place, drift] : tape.drifts) {
      const auto cell = found.map->cells().find({place.layer, place.step, place.position});
      ASSERT_NE(cell, found.map->cells().end());
      for (const size_t figure : {0, 1}) {
        EXPECT_NEAR(cell->second[figure].mean(), drift[figure], 1e-6) << place.step << " " << place.position;
        most = std::max(most, drift[figure]);
      }
    }
    EXPECT_GT(most, 1e-3);
  }
}

TEST_F(Instruments, MapTheDriftOfPromptAnswerAndFiller) {
  const DriftFindings found = analyze_drift(*gidd_, requests(gidd_options("none")), parse_map("step,layer"));
  const auto cell = [&](DriftPart part, int32_t step) {
    return found.map->cells().at({static_cast<int32_t>(part), step, 1});
  };
  // The first step has nothing before it; clean rows move where a block begins.
  EXPECT_EQ(found.map->cells().begin()->first.row, 1);
  EXPECT_EQ(cell(DriftPart::kPrompt, 3)[1].mean(), 0);
  EXPECT_GT(cell(DriftPart::kPrompt, kSteps)[1].mean(), 0);
  EXPECT_EQ(cell(DriftPart::kPrompt, 3)[1].count, kPrompt);
  EXPECT_EQ(cell(DriftPart::kMasked, 3)[1].count, kAnswer);
  EXPECT_EQ(cell(DriftPart::kFiller, 3)[1].count, kContext - kPrompt - kAnswer);
  EXPECT_GT(cell(DriftPart::kMasked, 3)[1].mean(), cell(DriftPart::kFiller, 3)[1].mean());
  EXPECT_EQ(cell(DriftPart::kJustDecoded, kSteps)[1].count, kBlock);
  EXPECT_EQ(cell(DriftPart::kDecoded, kSteps + 1)[1].count, kBlock);
  EXPECT_EQ(cell(DriftPart::kDecoded, kSteps + 1)[1].mean(), 0);
}

TEST_F(Instruments, MapTheDriftOfTokensAsTheyAreDecoded) {
  const DriftFindings found =
      analyze_drift(*llada_, random_requests(*llada_, masked_options()), parse_map("step,layer"));
  const auto& cells = found.map->cells();
  for (int32_t step = 1; step < 16; ++step) {
    const auto count = [&](DriftPart part) {
      const auto cell = cells.find({static_cast<int32_t>(part), step, 0});
      return cell == cells.end() ? 0 : cell->second[0].count;
    };
    EXPECT_EQ(count(DriftPart::kPrompt), kPrompt);
    EXPECT_EQ(count(DriftPart::kDecoded), step - 1);
    EXPECT_EQ(count(DriftPart::kJustDecoded), 1);
    EXPECT_EQ(count(DriftPart::kMasked), 16 - step);
    // Without layers before it, a row of the first depends on its own token alone.
    const auto drift = [&](DriftPart part) {
      return cells.at({static_cast<int32_t>(part), step, 0})[1].mean();
    };
    EXPECT_GT(drift(DriftPart::kJustDecoded), 0.1) << step;
    EXPECT_NEAR(drift(DriftPart::kPrompt), 0, 1e-6);
    EXPECT_NEAR(drift(DriftPart::kMasked), 0, 1e-6);
  }
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
  for (const auto& [rows, of_rows] : found.by_rows) {
    passes.emplace_back(rows, of_rows.count);
    seconds += of_rows.seconds;
  }
  // The next block is refreshed at the fourth step of all blocks but the last.
  EXPECT_THAT(passes, ElementsAre(Pair(kBlock, 13), Pair(2 * kBlock, 2), Pair(kContext, 3)));
  EXPECT_NEAR(seconds, found.all.seconds, 1e-9);
  EXPECT_GT(found.all.times.qkv, 0);
  EXPECT_LE(found.all.times.total(), found.all.seconds);
}

/// Passes and rows of a profile, compared with those that the engine counts.
void expect_same_work(const ProfileFindings& found, const RunStatistics& counted, const std::string& name) {
  EXPECT_EQ(found.all.count, counted.forward_passes) << name;
  EXPECT_EQ(found.all.rows, counted.cost.rows) << name;
  EXPECT_GT(found.all.times.attention, 0) << name;
  EXPECT_LE(found.all.times.total(), found.all.seconds) << name;
  ProfileFindings::Passes sum;
  for (const auto& [kind, passes] : found.by_kind) sum += passes;
  EXPECT_EQ(sum.count, found.all.count) << name;
  EXPECT_NEAR(sum.times.ffn, found.all.times.ffn, 1e-9) << name;
}

TEST_F(Instruments, ProfileEveryDecoder) {
  const auto kinds = [](const ProfileFindings& found) {
    std::string names;
    for (const auto& [kind, passes] : found.by_kind) names += kind + " ";
    return names;
  };
  GenerationOptions options;
  options.gen_length = 8;
  GenerationOptions growing = options;
  growing.gen_length.is_auto = true;
  struct Case {
    const char* kinds;
    ModelConfig config;
    GenerationOptions options;
  };
  for (const Case& tried :
       {Case{"denoise ", tiny_configs()[0], options},
        Case{"denoise ", tiny_gidd_config(1000, kContext), options},
        Case{"denoise ", tiny_sumi_config(), options}, Case{"decode prefill ", tiny_configs()[5], options},
        Case{"fill plan verify ", tiny_refusion_config(), options},
        Case{"denoise ", tiny_block_config(4), options}, Case{"denoise ", tiny_canvas_config(), options},
        Case{"denoise grow ", tiny_configs()[0], growing}}) {
    const std::string name(tried.config.family);
    const auto model = on_cpu(tiny_model(tried.config), default_table(), threads_);
    Engine engine(model, 1);
    engine.add(std::move(random_requests(*model, tried.options).front()));
    engine.run();
    const ProfileFindings found = analyze_profile(*model, random_requests(*model, tried.options));
    EXPECT_EQ(kinds(found), tried.kinds) << name;
    expect_same_work(found, engine.statistics(0), name);
  }
}

TEST_F(Instruments, ProfileAModelAndItsGuide) {
  ModelConfig config = tiny_configs()[5];
  config.vocab_size = llada_->config().vocab_size;
  const auto guide = on_cpu(tiny_model(config), default_table(), threads_);
  const auto guided = [&] {
    const std::vector<TokenId> prompt = random_tokens(11, kPrompt, 80);
    std::vector<std::unique_ptr<Decoder>> made;
    made.push_back(make_decoder(
        llada_->config(), masked_options(), prompt,
        {.guide =
             GuideContext{&guide->config(), prompt, shared_vocabulary(llada_->config(), guide->config())}}));
    return made;
  };
  Engine engine(llada_, 1, guide);
  engine.add(std::move(guided().front()));
  engine.run();
  const auto requests = guided();
  const ProfileFindings found = analyze_profile(*llada_, requests, guide.get());
  expect_same_work(found, engine.statistics(0), "guided");
  EXPECT_EQ(found.by_kind.size(), 2);
  EXPECT_EQ(found.by_kind.at("draft").count, engine.statistics(0).steps);
  EXPECT_EQ(found.by_kind.at("verify").rows, engine.statistics(0).guide_rows);
  EXPECT_THAT(requests.front()->canvas(), ElementsAreArray(engine.decoder(0).canvas()));
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
  expect_tables(to_json(analyze_drift(*gidd_, requests(options), parse_map("step,layer"))), 3);
  expect_tables(to_json(analyze_entropy(*gidd_, requests(options))), 1);
  expect_tables(to_json(analyze_changes(*gidd_, requests(options))), 1);
  expect_tables(to_json(analyze_staleness(*gidd_, threads_, requests(options))), 2);
  expect_tables(to_json(analyze_profile(*gidd_, requests(options))), 3);
}

}  // namespace
}  // namespace lacuna::instruments_test
