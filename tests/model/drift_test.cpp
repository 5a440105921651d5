#include "model/drift.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "cache/output_cache.h"
#include "tiny_models.h"

namespace lacuna::drift_test {
namespace {

using testing::DoubleNear;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<float> random_logits(uint64_t seed, size_t count, double scale) {
  std::vector<float> logits;
  for (size_t i = 0; i < count; ++i) {
    logits.push_back(static_cast<float>((RngStream(seed).uniform(i) - 0.5) * scale));
  }
  return logits;
}

std::vector<double> log_softmax(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  std::vector<double> result;
  for (const float logit : logits) result.push_back(logit - max - std::log(sum));
  return result;
}

/// Sums over probabilities, in double.
Drift measure_plainly(std::span<const float> now, std::span<const float> before) {
  const std::vector<double> p = log_softmax(now);
  const std::vector<double> q = log_softmax(before);
  Drift drift;
  for (size_t i = 0; i < p.size(); ++i) {
    drift.kl += std::exp(p[i]) * (p[i] - q[i]);
    drift.max_log_change = std::max(drift.max_log_change, std::abs(p[i] - q[i]));
  }
  return drift;
}

TEST(Drift, IsTheDivergenceOfTheNewPosteriorFromTheOldOne) {
  const Drift drift = measure_drift(logs({0.5, 0.5}), logs({0.25, 0.75}));
  EXPECT_THAT(drift.kl, DoubleNear(0.5 * std::log(4.0 / 3), 1e-7));
  EXPECT_THAT(drift.max_log_change, DoubleNear(std::numbers::ln2, 1e-6));
  const Drift back = measure_drift(logs({0.25, 0.75}), logs({0.5, 0.5}));
  EXPECT_THAT(back.kl, DoubleNear(0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-7));
  EXPECT_THAT(back.max_log_change, DoubleNear(std::numbers::ln2, 1e-6));
  const Drift three = measure_drift(logs({0.5, 0.25, 0.25}), logs({0.5, 0.125, 0.375}));
  EXPECT_THAT(three.kl, DoubleNear(0.25 * std::log(4.0 / 3), 1e-7));
}

TEST(Drift, TheLargestChangeMayBeOfATokenThatBecameLessLikely) {
  const Drift drift = measure_drift(logs({0.1, 0.9}), logs({0.8, 0.2}));
  EXPECT_THAT(drift.max_log_change, DoubleNear(std::log(8.0), 1e-6));
  const Drift back = measure_drift(logs({0.8, 0.2}), logs({0.1, 0.9}));
  EXPECT_THAT(back.max_log_change, DoubleNear(std::log(8.0), 1e-6));
}

TEST(Drift, OfIdenticalRowsIsExactlyZero) {
  for (const double scale : {1e-3, 5.0, 200.0, 1e30}) {
    const std::vector<float> logits = random_logits(3, 1000, scale);
    const Drift drift = measure_drift(logits, logits);
    EXPECT_EQ(drift.kl, 0);
    EXPECT_EQ(drift.max_log_change, 0);
  }
  EXPECT_EQ(measure_drift(std::vector<float>{3}, std::vector<float>{-7}).kl, 0);  // one token is certain
}

TEST(Drift, AShiftOfAllLogitsChangesNothing) {
  const std::vector<float> now = {1, 2, 3.5F, -4};
  const std::vector<float> before = {1.5F, 2, -1, 0};
  const Drift expected = measure_plainly(now, before);
  for (const float shift : {-256.0F, -1.0F, 0.5F, 1024.0F}) {
    std::vector<float> shifted = now;
    for (float& logit : shifted) logit += shift;
    const Drift drift = measure_drift(shifted, before);
    EXPECT_THAT(drift.kl, DoubleNear(expected.kl, 1e-6)) << shift;
    EXPECT_THAT(drift.max_log_change, DoubleNear(expected.max_log_change, 1e-6)) << shift;
    const Drift back = measure_drift(before, shifted);
    EXPECT_THAT(back.kl, DoubleNear(measure_plainly(before, now).kl, 1e-6)) << shift;
    EXPECT_THAT(measure_drift(shifted, now).kl, DoubleNear(0, 1e-12)) << shift;
  }
}

TEST(Drift, EqualsASumOverProbabilities) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> before = random_logits(seed, 1537, 20);
    std::vector<float> now = random_logits(seed + 100, 1537, seed % 2 == 0 ? 20 : 0.01);
    if (seed % 2 == 1) std::transform(now.begin(), now.end(), before.begin(), now.begin(), std::plus<>());
    const Drift drift = measure_drift(now, before);
    const Drift expected = measure_plainly(now, before);
    EXPECT_THAT(drift.kl, DoubleNear(expected.kl, 1e-7 + 1e-6 * expected.kl)) << seed;
    EXPECT_THAT(drift.max_log_change, DoubleNear(expected.max_log_change, 1e-5)) << seed;
  }
}

TEST(Drift, IsNeverNegative) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> before = random_logits(seed, 400, 10);
    std::vector<float> now = before;
    now[seed] = std::nextafter(now[seed], 100.0F);
    EXPECT_GE(measure_drift(now, before).kl, 0);
    EXPECT_LT(measure_drift(now, before).kl, 1e-7);
  }
}

TEST(Drift, OfLogitsFarApartStaysExact) {
  const std::vector<float> certain = {1000, -1000};
  const std::vector<float> even = {0, 0};
  EXPECT_THAT(measure_drift(certain, even).kl, DoubleNear(std::numbers::ln2, 1e-9));
  EXPECT_THAT(measure_drift(certain, even).max_log_change, DoubleNear(2000 - std::numbers::ln2, 1e-9));
  EXPECT_THAT(measure_drift(even, certain).kl, DoubleNear(1000 - std::numbers::ln2, 1e-9));
  const std::vector<float> other = {-1000, 1000};
  EXPECT_THAT(measure_drift(certain, other).kl, DoubleNear(2000, 1e-9));
  EXPECT_THAT(measure_drift(certain, other).max_log_change, DoubleNear(2000, 1e-9));
}

TEST(Drift, IsInfiniteWhereALogitIsNotFinite) {
  for (const float bad : {kInfinity, -kInfinity, kNaN}) {
    for (size_t place = 0; place < 3; ++place) {
      std::vector<float> broken = {1, 2, 3};
      broken[place] = bad;
      const std::vector<float> whole = {3, 1, 2};
      for (const Drift& drift :
           {measure_drift(broken, whole), measure_drift(whole, broken), measure_drift(broken, broken)}) {
        EXPECT_EQ(drift.kl, kInfinity) << bad << " at " << place;
        EXPECT_EQ(drift.max_log_change, kInfinity) << bad << " at " << place;
      }
    }
  }
  const std::vector<float> nothing(3, -kInfinity);
  EXPECT_EQ(measure_drift(nothing, nothing).kl, kInfinity);
}

// The forward pass's drift against full logits of the passes.

class ModelDrift : public testing::TestWithParam<DType> {
 protected:
  static constexpr int32_t kRows = 75;  // more than one chunk of probes

  struct Passes {
    Passes(const ModelConfig& config, DType dtype, int32_t num_sequences) : model(tiny_model(config, dtype)) {
      for (int32_t i = 0; i < num_sequences; ++i) {
        caches.push_back(model->make_cache(128));
        plain_caches.push_back(model->make_cache(128));
        outputs.emplace_back(128, config.hidden_dim);
      }
    }

    /// Runs forward() and measures; the same pass in other memory gives the logits of plan.logits.
    std::vector<Drift> run(const StepPlan& plan, const std::vector<DriftProbe>& probes) {
      std::vector<KvCache*> cells;
      std::vector<KvCache*> plain_cells;
      std::vector<OutputCache*> remembered;
      for (KvCache& cache : caches) cells.push_back(&cache);
      for (KvCache& cache : plain_caches) plain_cells.push_back(&cache);
      for (OutputCache& output : outputs) remembered.push_back(&output);
      model->forward(context, plan, cells, workspace);
      const auto found = model->follow_up(context, plan, {.probes = probes}, remembered, workspace).drifts;
      const std::vector<Drift> drifts(found.begin(), found.end());

      before = std::move(now);
      const int64_t vocab = model->config().vocab_size;
      now.resize(plan.logits.size() * static_cast<size_t>(vocab));
      const auto rows = static_cast<int64_t>(plan.logits.size());
      model->forward_logits(context, plan, plain_cells, plain_workspace, {now.data(), rows, vocab});
      return drifts;
    }

    std::span<const float> row(const std::vector<float>& logits, size_t index) const {
      const auto vocab = static_cast<size_t>(model->config().vocab_size);
      return std::span(logits).subspan(index * vocab, vocab);
    }

    std::shared_ptr<const Model> model;
    ThreadPool threads{2};
    KernelTable kernels = default_table();
    KernelContext context{kernels, threads};
    std::vector<KvCache> caches, plain_caches;
    std::vector<OutputCache> outputs;
    Workspace workspace, plain_workspace;
    std::vector<float> now, before;  // logits of the last pass and of the one before
  };

  static std::vector<TokenId> tokens(const ModelConfig& config) {
    return random_tokens(4, kRows, config.vocab_size);
  }

  static void expect_drifts(const Passes& passes, const std::vector<Drift>& drifts) {
    for (size_t i = 0; i < drifts.size(); ++i) {
      const std::span<const float> now = passes.row(passes.now, i);
      const std::span<const float> before = passes.row(passes.before, i);
      const Drift expected = measure_plainly(now, before);
      EXPECT_GT(drifts[i].kl, 0);
      EXPECT_THAT(drifts[i].kl, DoubleNear(expected.kl, 2e-7 + 1e-5 * expected.kl)) << i;
      EXPECT_THAT(drifts[i].max_log_change, DoubleNear(expected.max_log_change, 1e-5)) << i;
      // The remembered rows give the logits of their own pass, bit for bit.
      EXPECT_EQ(drifts[i].kl, measure_drift(now, before).kl) << i;
      EXPECT_EQ(drifts[i].max_log_change, measure_drift(now, before).max_log_change) << i;
    }
  }
};

TEST_P(ModelDrift, EqualsTheDriftOfTwoPassesLogits) {
  for (const ModelConfig& config :
       {tiny_configs()[0], tiny_configs()[1], tiny_configs()[2], tiny_configs()[4]}) {
    Passes passes(config, GetParam(), 1);
    std::vector<TokenId> canvas = tokens(config);
    std::vector<DriftProbe> probes;
    for (int32_t row = 0; row < kRows; ++row) probes.push_back({row, -1, 0, row});
    passes.run(canvas_plan(canvas, OwnRows::kBidirectional), {});
    canvas[7] = (canvas[7] + 1) % 80;
    expect_drifts(passes, passes.run(canvas_plan(canvas, OwnRows::kBidirectional), probes));
    canvas[30] = (canvas[30] + 1) % 80;  // the second pass was remembered in its turn
    expect_drifts(passes, passes.run(canvas_plan(canvas, OwnRows::kBidirectional), probes));
  }
}

TEST_P(ModelDrift, ComparesGuidedPosteriorsWhereAProbeIsGuided) {
  for (const ModelConfig& config : {tiny_configs()[0], tiny_configs()[1], tiny_configs()[4]}) {
    Passes passes(config, GetParam(), 2);
    std::vector<TokenId> canvas = tokens(config);
    const auto guided_plan = [&] {
      StepPlan plan = canvas_plan(canvas, OwnRows::kBidirectional);
      for (int32_t row = 0; row < kRows; ++row) {
        plan.add_row(row < 20 ? config.mask_id : canvas[static_cast<size_t>(row)], row, row);
      }
      plan.groups.push_back({1, {kRows, 2 * kRows}, {}, OwnRows::kBidirectional});
      for (LogitRow& logit : plan.logits) {
        if (logit.row % 3 == 0) continue;  // guided probes and others together
        logit.unconditional_row = kRows + logit.row;
        logit.guidance = 1.5F;
      }
      return plan;
    };
    std::vector<DriftProbe> probes;
    for (const LogitRow& logit : guided_plan().logits) {
      probes.push_back({logit.row, logit.unconditional_row, logit.guidance, logit.row});
    }
    passes.run(guided_plan(), {});
    canvas[30] = (canvas[30] + 1) % 80;
    expect_drifts(passes, passes.run(guided_plan(), probes));
  }
}

TEST_P(ModelDrift, ARowComputedAgainFromTheSameKeysAndValuesHasNotMovedAtAll) {
  const ModelConfig config = tiny_configs()[0];
  Passes passes(config, GetParam(), 1);
  const std::vector<TokenId> canvas = tokens(config);
  StepPlan everything = canvas_plan(canvas, OwnRows::kNone);
  everything.groups[0].visible = {{0, kRows}};
  passes.run(everything, {});
  // Three rows, in another batch and at other places of the plan; the last writes to a scratch cell.
  StepPlan few;
  few.rules.emplace_back();
  std::vector<DriftProbe> probes;
  for (const int32_t row : {11, 40, 41}) {
    probes.push_back({few.num_rows(), -1, 0, row});
    few.logits.push_back({.row = few.num_rows()});
    few.add_row(canvas[static_cast<size_t>(row)], row, row == 41 ? 100 : row);
  }
  few.groups.push_back({0, {0, 3}, {{0, kRows}}, OwnRows::kNone});
  for (const Drift& drift : passes.run(few, probes)) {
    EXPECT_EQ(drift.kl, 0);
    EXPECT_EQ(drift.max_log_change, 0);
  }
}

TEST_P(ModelDrift, ACellRemembersWhatWasLastComputedInIt) {
  const ModelConfig config = tiny_configs()[0];
  Passes passes(config, GetParam(), 1);
  std::vector<TokenId> canvas = tokens(config);
  const auto plan_of = [&](std::vector<int32_t> cells) {
    StepPlan plan = canvas_plan(canvas, OwnRows::kBidirectional);
    plan.cells = std::move(cells);
    return plan;
  };
  std::vector<int32_t> cells(kRows);
  for (int32_t row = 0; row < kRows; ++row) cells[static_cast<size_t>(row)] = row;
  passes.run(plan_of(cells), {});
  const std::vector<float> first = passes.now;
  canvas[3] = (canvas[3] + 1) % 80;
  cells[5] = 100;  // the second pass leaves cell 5 as the first left it
  passes.run(plan_of(cells), {});
  const std::vector<float> second = passes.now;
  canvas[9] = (canvas[9] + 1) % 80;
  const std::vector<Drift> drifts =
      passes.run(plan_of(cells), {{5, -1, 0, 5}, {5, -1, 0, 100}, {6, -1, 0, 6}});
  EXPECT_EQ(drifts[0].kl, measure_drift(passes.row(passes.now, 5), passes.row(first, 5)).kl);
  EXPECT_EQ(drifts[1].kl, measure_drift(passes.row(passes.now, 5), passes.row(second, 5)).kl);
  EXPECT_EQ(drifts[2].kl, measure_drift(passes.row(passes.now, 6), passes.row(second, 6)).kl);
  EXPECT_NE(drifts[0].kl, drifts[1].kl);
}

TEST_P(ModelDrift, SequencesThatRememberNothingAreLeftOut) {
  const ModelConfig config = tiny_configs()[0];
  const auto model = tiny_model(config, GetParam());
  Passes passes(config, GetParam(), 1);
  const StepPlan plan = canvas_plan(tokens(config), OwnRows::kBidirectional);
  std::vector<KvCache*> cells = {passes.caches.data()};
  std::vector<OutputCache*> nothing = {nullptr};
  model->forward(passes.context, plan, cells, passes.workspace);
  EXPECT_NO_THROW(model->follow_up(passes.context, plan, {}, nothing, passes.workspace));
  const std::vector<DriftProbe> probes(1);
  EXPECT_THROW(model->follow_up(passes.context, plan, {.probes = probes}, {}, passes.workspace),
               std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(Model, ModelDrift, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

TEST(CosineDistance, GrowsWithTheAngle) {
  const std::vector<float> x = {3, 4};
  EXPECT_NEAR(cosine_distance(x, std::vector<float>{6, 8}), 0, 1e-15);
  EXPECT_NEAR(cosine_distance(x, std::vector<float>{4, -3}), 1, 1e-15);
  EXPECT_NEAR(cosine_distance(x, std::vector<float>{-3, -4}), 2, 1e-15);
}

TEST(CosineDistance, IsNoneBetweenZerosAndWholeFromZero) {
  const std::vector<float> zero = {0, 0};
  EXPECT_EQ(cosine_distance(zero, zero), 0);
  EXPECT_EQ(cosine_distance(zero, std::vector<float>{1, 0}), 1);
}

}  // namespace
}  // namespace lacuna::drift_test
