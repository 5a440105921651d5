#include "engine/engine.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "decode/make_decoder.h"
#include "model/tiny_models.h"

namespace lacuna {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Wish {
  std::vector<TokenId> prompt;
  GenerationOptions options;
};

/// Requests that differ in length, rule, temperature and guidance.
std::vector<Wish> wishes(const ModelConfig& config) {
  std::vector<Wish> result;
  for (int32_t i = 0; i < 7; ++i) {
    Wish wish;
    wish.prompt = random_tokens(static_cast<uint64_t>(i), 1 + 5 * i, config.vocab_size - 10);
    wish.options.gen_length = 4 + 4 * (i % 3);
    wish.options.seed = static_cast<uint64_t>(i);
    wish.options.temperature = i % 2 == 0 ? 0.9 : 0.0;
    if (!config.causal) {
      const char* rules[] = {"low-confidence", "random", "threshold=0.3", "origin"};
      wish.options.unmask = rules[i % 4];
      wish.options.block_length = 4;
      if (i % 3 == 0) wish.options.cfg_scale = 0.5;
    }
    result.push_back(wish);
  }
  return result;
}

std::vector<TokenId> tokens_of(const Decoder& decoder) {
  return {decoder.canvas().begin(), decoder.canvas().end()};
}

std::vector<std::vector<TokenId>> run(const std::shared_ptr<const Model>& model,
                                      const std::vector<Wish>& wishes, int num_threads, int32_t max_running) {
  ThreadPool threads(num_threads);
  Engine engine(model, default_table(), threads, max_running);
  for (const Wish& wish : wishes) engine.add(make_decoder(model->config(), wish.options, wish.prompt));
  engine.run();
  std::vector<std::vector<TokenId>> result;
  for (size_t i = 0; i < wishes.size(); ++i) {
    EXPECT_TRUE(engine.decoder(i).done());
    result.push_back(tokens_of(engine.decoder(i)));
  }
  return result;
}

TEST(Engine, GivesARequestTheSameTokensAloneAndInAnyBatch) {
  for (const size_t index : {0U, 2U, 4U, 5U}) {
    const ModelConfig config = tiny_configs()[index];
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto model = tiny_model(config, dtype);
      const std::vector<Wish> all = wishes(config);
      std::vector<std::vector<TokenId>> alone;
      for (const Wish& wish : all) alone.push_back(run(model, {wish}, 1, 1).at(0));
      for (const int32_t max_running : {1, 2, 4}) {
        for (const int num_threads : {1, 2}) {
          EXPECT_EQ(run(model, all, num_threads, max_running), alone)
              << "config " << index << " running " << max_running << " threads " << num_threads;
        }
      }
    }
  }
}

TEST(Engine, ShowsEveryStepOfEveryRequestOnce) {
  const ModelConfig config = tiny_configs()[0];
  ThreadPool threads(1);
  const auto model = tiny_model(config);
  Engine engine(model, default_table(), threads, 3);
  std::map<size_t, std::vector<TokenId>> canvases;
  for (const Wish& wish : wishes(config)) {
    auto decoder = make_decoder(config, wish.options, wish.prompt);
    const std::vector<TokenId> canvas = tokens_of(*decoder);
    canvases[engine.add(std::move(decoder))] = canvas;
  }
  std::map<size_t, int32_t> passes;
  std::map<size_t, StepCost> costs;
  engine.run([&](const StepEvent& event) {
    EXPECT_EQ(++passes[event.request], event.statistics.forward_passes);
    EXPECT_EQ(&event.decoder, &engine.decoder(event.request));
    EXPECT_EQ(event.plan.groups.at(0).sequence, 0);  // the request's own part
    EXPECT_GE(event.pass_seconds, 0);
    costs[event.request] += event.cost;
    EXPECT_EQ(event.cost.flops(), cost(config, DType::kF32, work_of(event.plan)).flops());
    for (const Commit& commit : event.report.committed) {
      canvases[event.request][static_cast<size_t>(commit.position)] = commit.token;
    }
    EXPECT_EQ(tokens_of(event.decoder), canvases[event.request]);
  });
  ASSERT_EQ(passes.size(), 7U);
  for (size_t request = 0; request < 7; ++request) {
    const RunStatistics& statistics = engine.statistics(request);
    EXPECT_EQ(statistics.steps, passes[request]);
    EXPECT_EQ(statistics.forward_passes, passes[request]);
    EXPECT_EQ(statistics.cost.rows, costs[request].rows);
    EXPECT_EQ(statistics.cost.flops(), costs[request].flops());
    EXPECT_EQ(statistics.baseline.rows, costs[request].rows);  // nothing is cached
    EXPECT_EQ(statistics.baseline.flops(), costs[request].flops());
    EXPECT_GT(statistics.seconds, 0);
  }
}

TEST(Engine, CountsWhatKeptKeysAndValuesSave) {
  ModelConfig config = tiny_configs()[5];
  config.end_ids.clear();
  ThreadPool threads(1);
  Engine engine(tiny_model(config), default_table(), threads);
  GenerationOptions options;
  options.gen_length = 4;
  engine.add(make_decoder(config, options, {1, 2, 3}));
  engine.run();
  const RunStatistics& statistics = engine.statistics(0);
  EXPECT_EQ(statistics.cost.rows, 3 + 1 + 1 + 1);
  EXPECT_EQ(statistics.baseline.rows, 3 + 4 + 5 + 6);
  EXPECT_LT(statistics.cost.flops(), statistics.baseline.flops());
}

TEST(Engine, TakesRequestsWhileOthersRun) {
  const ModelConfig config = tiny_configs()[0];
  const auto model = tiny_model(config);
  const std::vector<Wish> all = wishes(config);
  ThreadPool threads(1);
  Engine engine(model, default_table(), threads, 2);
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(engine.add(make_decoder(config, all[0].options, all[0].prompt)), 0U);
  EXPECT_TRUE(engine.step());
  EXPECT_EQ(engine.add(make_decoder(config, all[3].options, all[3].prompt)), 1U);
  engine.run();
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(tokens_of(engine.decoder(0)), run(model, {all[0]}, 1, 1)[0]);
  EXPECT_EQ(tokens_of(engine.decoder(1)), run(model, {all[3]}, 1, 1)[0]);
}

TEST(Engine, StartsRequestsInTheirOrderAndKeepsToItsLimit) {
  const ModelConfig config = tiny_configs()[0];
  ThreadPool threads(1);
  Engine engine(tiny_model(config), default_table(), threads, 2);
  for (const Wish& wish : wishes(config)) engine.add(make_decoder(config, wish.options, wish.prompt));
  std::vector<size_t> started;
  std::vector<size_t> in_pass;
  const auto observe = [&](const StepEvent& event) {
    in_pass.push_back(event.request);
    if (event.statistics.forward_passes == 1) started.push_back(event.request);
  };
  while (engine.step(observe)) {
    EXPECT_LE(in_pass.size(), 2U);
    in_pass.clear();
  }
  EXPECT_THAT(in_pass, IsEmpty());
  EXPECT_THAT(started, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

}  // namespace
}  // namespace lacuna
