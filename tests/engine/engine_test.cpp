#include "engine/engine.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "decode/likelihood.h"
#include "decode/strided_decoding.h"
#include "model/adapters.h"
#include "model/parameters.h"
#include "model/read_config.h"
#include "model/tiny_models.h"
#include "options/choose.h"
#include "wish.h"

namespace lacuna::engine_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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
  Engine engine(on_cpu(model, default_table(), threads), max_running);
  for (const Wish& wish : wishes) engine.add(make_decoder(*model, wish));
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

TEST(Engine, GivesARequestWithSeveralBlocksAtOnceTheSameTokensAloneAndInAnyBatch) {
  for (const bool of_dream : {false, true}) {
    const auto model = tiny_model(tiny_d2f_config(4, of_dream));
    std::vector<Wish> all = wishes(model->config());
    for (Wish& wish : all) {
      wish.options.cfg_scale.reset();
      wish.options.unmask = "dynamic=0.03";
      wish.options.pipeline = "add=0.25,full=0.75";
    }
    std::vector<std::vector<TokenId>> alone;
    for (const Wish& wish : all) alone.push_back(run(model, {wish}, 1, 1).at(0));
    EXPECT_EQ(run(model, all, 2, 4), alone);
  }
}

/// Golden LLaDA in which the embedding of one token is NaN.
std::shared_ptr<const Model> load_with_damaged_token(TokenId token, ThreadPool& threads) {
  const std::filesystem::path folder = LACUNA_SOURCE_DIR "/tests/golden/llada";
  const ModelConfig config = read_config(folder);
  Parameters parameters = load_parameters(config, *open_weights(folder, config), DType::kF32, threads, {});
  const PackedMatrix healthy = std::move(parameters.embedding);
  parameters.embedding =
      PackedMatrix(threads, DType::kF32, config.vocab_size, config.hidden_dim, [&](int64_t n, float* row) {
        healthy.read_row(n, row);
        if (n == token) std::fill_n(row, config.hidden_dim, std::numeric_limits<float>::quiet_NaN());
      });
  return std::make_shared<Model>(config, DType::kF32, std::move(parameters));
}

TEST(Engine, EndsTheRequestWhoseLogitsAreNotNumbers) {
  constexpr TokenId kDamaged = 7;
  ThreadPool threads(1);
  const auto model = load_with_damaged_token(kDamaged, threads);
  const auto decoder_for = [&](const std::string& unmask, TokenId token) {
    GenerationOptions options;
    options.gen_length = 8;
    options.block_length = 4;
    options.unmask = unmask;
    return make_decoder(model->config(), options, std::vector<TokenId>{1, token, 3});
  };
  for (const char* unmask :
       {"low-confidence", "threshold=0.9", "factor=0.5", "entropy", "margin", "random"}) {
    Engine alone(on_cpu(model, default_table(), threads), 1);
    alone.add(decoder_for(unmask, 2));
    alone.run();

    Engine both(on_cpu(model, default_table(), threads), 2);
    const size_t damaged = both.add(decoder_for(unmask, kDamaged));
    const size_t healthy = both.add(decoder_for(unmask, 2));
    std::vector<size_t> failed;
    std::string why;
    both.when_failed([&](size_t request, const std::string& sentence) {
      failed.push_back(request);
      why = sentence;
      both.remove(request);
    });
    both.run();
    EXPECT_THAT(failed, ElementsAre(damaged)) << unmask;
    EXPECT_THAT(why, testing::HasSubstr("infinite or NaN logits at position")) << unmask;
    EXPECT_TRUE(both.decoder(healthy).done());
    EXPECT_EQ(tokens_of(both.decoder(healthy)), tokens_of(alone.decoder(0))) << unmask;

    Engine strict(on_cpu(model, default_table(), threads), 1);
    strict.add(decoder_for(unmask, kDamaged));
    EXPECT_THROW(strict.run(), InputError) << unmask;
  }
}

TEST(Engine, ShowsEveryStepOfEveryRequestOnce) {
  const ModelConfig config = tiny_configs()[0];
  ThreadPool threads(1);
  const auto model = tiny_model(config);
  Engine engine(on_cpu(model, default_table(), threads), 3);
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
    EXPECT_EQ(event.cost.flops(), cost(config, ModelBytes(), work_of(event.plan)).flops());
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
    EXPECT_EQ(statistics.uncached.rows, costs[request].rows);  // nothing is cached
    EXPECT_EQ(statistics.uncached.flops(), costs[request].flops());
    EXPECT_GT(statistics.seconds, 0);
  }
}

TEST(Engine, CountsWhatKeptKeysAndValuesSave) {
  ModelConfig config = tiny_configs()[5];
  config.end_ids.clear();
  ThreadPool threads(1);
  Engine engine(on_cpu(tiny_model(config), default_table(), threads));
  GenerationOptions options;
  options.gen_length = 4;
  engine.add(make_decoder(config, options, {1, 2, 3}));
  engine.run();
  const RunStatistics& statistics = engine.statistics(0);
  EXPECT_EQ(statistics.cost.rows, 3 + 1 + 1 + 1);
  EXPECT_EQ(statistics.uncached.rows, 3 + 4 + 5 + 6);
  EXPECT_LT(statistics.cost.flops(), statistics.uncached.flops());
}

TEST(Engine, TakesRequestsWhileOthersRun) {
  const ModelConfig config = tiny_configs()[0];
  const auto model = tiny_model(config);
  const std::vector<Wish> all = wishes(config);
  ThreadPool threads(1);
  Engine engine(on_cpu(model, default_table(), threads), 2);
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
  Engine engine(on_cpu(tiny_model(config), default_table(), threads), 2);
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

TEST(Engine, ForgetsRequestsThatAreRemoved) {
  const ModelConfig config = tiny_configs()[0];
  const auto model = tiny_model(config);
  const std::vector<Wish> all = wishes(config);
  ThreadPool threads(1);
  Engine engine(on_cpu(model, default_table(), threads), 2);
  for (int i = 0; i < 4; ++i) {
    engine.add(make_decoder(config, all[static_cast<size_t>(i)].options, all[static_cast<size_t>(i)].prompt));
  }
  EXPECT_TRUE(engine.step());
  EXPECT_EQ(engine.num_running(), 2U);
  engine.remove(0);  // runs
  engine.remove(2);  // waits
  EXPECT_EQ(engine.num_running(), 1U);
  EXPECT_EQ(engine.memory_in_use(), engine.memory_for(engine.decoder(1)));
  engine.run();
  EXPECT_EQ(tokens_of(engine.decoder(1)), run(model, {all[1]}, 1, 1)[0]);
  EXPECT_EQ(tokens_of(engine.decoder(3)), run(model, {all[3]}, 1, 1)[0]);
  EXPECT_EQ(engine.memory_in_use(), 0);
  engine.remove(1);  // is done
  EXPECT_THROW(engine.decoder(1), std::out_of_range);
  EXPECT_EQ(engine.add(make_decoder(config, all[5].options, all[5].prompt)), 4U);
  engine.run();
  EXPECT_EQ(tokens_of(engine.decoder(4)), run(model, {all[5]}, 1, 1)[0]);
}

TEST(Engine, StartsARequestWhenThereIsMemoryForIt) {
  const ModelConfig config = tiny_configs()[0];
  ThreadPool threads(1);
  Engine engine(on_cpu(tiny_model(config), default_table(), threads), 8);
  GenerationOptions options;
  options.gen_length = 64;
  std::vector<size_t> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(engine.add(make_decoder(config, options, {1, 2, 3})));
  const int64_t each = engine.memory_for(engine.decoder(0));
  EXPECT_GT(each, 0);
  engine.limit_memory(2 * each + each / 2);
  EXPECT_TRUE(engine.step());
  EXPECT_EQ(engine.num_running(), 2U);
  EXPECT_EQ(engine.memory_in_use(), 2 * each);
  engine.remove(0);
  EXPECT_TRUE(engine.step());
  EXPECT_EQ(engine.num_running(), 2U);
  engine.run();
  EXPECT_TRUE(engine.decoder(2).done());

  engine.limit_memory(each - 1);
  engine.add(make_decoder(config, options, {1, 2, 3}));
  EXPECT_FALSE(engine.step());
}

TEST(Engine, SharesRowsFairlyBetweenLongAndShortPasses) {
  const ModelConfig config = tiny_configs()[0];
  const auto model = tiny_model(config);
  GenerationOptions short_options;
  short_options.gen_length = 16;
  GenerationOptions long_options;
  long_options.gen_length = 12;
  const std::vector<TokenId> long_prompt = random_tokens(1, 148, 80);
  ThreadPool threads(1);
  Engine engine(on_cpu(model, default_table(), threads), 8);
  engine.limit_rows(100);
  const size_t whole = engine.add(make_decoder(config, long_options, long_prompt));           // 160 rows
  for (int i = 0; i < 4; ++i) engine.add(make_decoder(config, short_options, {1, 2, 3, 4}));  // 20 rows each
  int passes_of_others = 0;
  int most_between = 0;
  int passes_of_whole = 0;
  while (!engine.decoder(1).done()) {
    int32_t rows = 0;
    bool has_whole = false;
    engine.step([&](const StepEvent& event) {
      rows += event.plan.num_rows();
      has_whole = has_whole || event.request == whole;
    });
    EXPECT_EQ(rows, has_whole ? 160 : 80);
    passes_of_whole += has_whole ? 1 : 0;
    passes_of_others = has_whole ? 0 : passes_of_others + 1;
    most_between = std::max(most_between, passes_of_others);
  }
  EXPECT_EQ(most_between, 8);  // 8 x 20 rows for its 160
  EXPECT_GE(passes_of_whole, 2);
  engine.run();
  EXPECT_EQ(tokens_of(engine.decoder(whole)), run(model, {{long_prompt, long_options}}, 1, 1)[0]);
}

TEST(Engine, GivesTheSameTokensWhateverTheRowsOfAPass) {
  const ModelConfig config = tiny_configs()[0];
  const auto model = tiny_model(config);
  const std::vector<Wish> all = wishes(config);
  std::vector<std::vector<TokenId>> alone;
  for (const Wish& wish : all) alone.push_back(run(model, {wish}, 1, 1).at(0));
  for (const int32_t rows : {1, 20, 50}) {
    ThreadPool threads(1);
    Engine engine(on_cpu(model, default_table(), threads), 8);
    engine.limit_rows(rows);
    for (const Wish& wish : all) engine.add(make_decoder(config, wish.options, wish.prompt));
    engine.run();
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(tokens_of(engine.decoder(i)), alone[i]) << rows;
  }
}

/// Checks that final tokens never change and that the whole answer is final in the end.
void check_final_tokens(const ModelConfig& config, const std::string& unmask, int32_t block_length) {
  GenerationOptions options;
  options.gen_length = 24;
  options.block_length = block_length;
  if (!unmask.empty()) options.unmask = unmask;
  const bool has_no_blocks = (config.causal && !config.plans_slots) || config.denoises_whole_canvas();
  if (has_no_blocks) options.block_length.reset();
  ThreadPool threads(1);
  Engine engine(on_cpu(tiny_model(config), default_table(), threads));
  engine.add(make_decoder(config, options, {1, 2, 3}));
  std::vector<TokenId> known;
  const auto check = [&](const Decoder& decoder) {
    const auto prompt = static_cast<size_t>(decoder.prompt_length());
    const auto final = static_cast<size_t>(decoder.num_final());
    ASSERT_GE(final, known.size());
    ASSERT_LE(prompt + final, decoder.canvas().size());
    const std::span<const TokenId> now = decoder.canvas().subspan(prompt, final);
    EXPECT_TRUE(std::equal(known.begin(), known.end(), now.begin()));
    known.assign(now.begin(), now.end());
  };
  engine.run([&](const StepEvent& event) { check(event.decoder); });
  const Decoder& decoder = engine.decoder(0);
  EXPECT_EQ(known.size() + static_cast<size_t>(decoder.prompt_length()), decoder.canvas().size());
}

TEST(Engine, KeepsWhatADecoderCallsFinal) {
  for (const char* unmask : {"low-confidence", "random", "threshold=0.02"}) {
    check_final_tokens(tiny_configs()[0], unmask, 8);
    check_final_tokens(tiny_configs()[4], unmask, 24);
    check_final_tokens(tiny_configs()[7], unmask, 8);
  }
  check_final_tokens(tiny_configs()[5], "", 0);
  check_final_tokens(tiny_refusion_config(), "", 8);
  check_final_tokens(tiny_gidd_config(1000, 64), "", 8);
  check_final_tokens(tiny_sumi_config(64), "", 0);
  check_final_tokens(tiny_nemotron_config(), "threshold=0.02", 8);
  check_final_tokens(tiny_canvas_config(), "", 8);
  check_final_tokens(tiny_d2f_config(8), "dynamic=0.02", 8);
  check_final_tokens(tiny_d2f_config(8, true), "dynamic=0.02", 8);
}

std::vector<TokenId> read_in_parts(const std::shared_ptr<const Model>& model, int32_t most_rows) {
  StridedDecoding options;
  options.num_drafts = 0;
  options.gen_length = 6;
  options.most_rows = most_rows;
  ThreadPool threads(1);
  Engine engine(on_cpu(model, default_table(), threads));
  engine.add(std::make_unique<StridedDecoder>(options, random_tokens(3, 41, 80)));
  engine.run();
  return tokens_of(engine.decoder(0));
}

TEST(Engine, GivesTheSameTokensInHoweverManyPartsAPromptIsRead) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = tiny_model(tiny_configs()[6], dtype);
    const std::vector<TokenId> whole = read_in_parts(model, 1024);
    for (const int32_t rows : {1, 7, 40}) EXPECT_EQ(read_in_parts(model, rows), whole) << rows;
  }
}

std::vector<TokenScore> score(const std::shared_ptr<const Model>& model, const std::vector<TokenId>& tokens,
                              int32_t most_rows) {
  ThreadPool threads(1);
  Engine engine(on_cpu(model, default_table(), threads));
  engine.add(std::make_unique<CausalLikelihood>(tokens, most_rows));
  engine.run();
  const Decoder& decoder = engine.decoder(0);
  EXPECT_TRUE(decoder.done());
  return {decoder.measurements().scores().begin(), decoder.measurements().scores().end()};
}

TEST(Likelihood, IsThatOfTheTokensThatTheModelWouldWrite) {
  ModelConfig config = tiny_configs()[6];
  config.end_ids.clear();
  const auto model = tiny_model(config);
  ThreadPool threads(1);
  Engine engine(on_cpu(model, default_table(), threads));
  GenerationOptions options;
  options.gen_length = 8;
  engine.add(make_decoder(config, options, {1, 2, 3}));
  std::vector<double> confidences;
  engine.run([&](const StepEvent& event) { confidences.push_back(event.report.committed[0].confidence); });
  const std::vector<TokenId> text = tokens_of(engine.decoder(0));
  const std::vector<TokenScore> scores = score(model, text, 1024);
  ASSERT_EQ(scores.size(), text.size());
  for (size_t i = 0; i < confidences.size(); ++i) {
    const TokenScore& each = scores[i + 3];
    EXPECT_EQ(each.best.value().first, text[i + 3]);
    EXPECT_EQ(each.best.value().second, std::log(confidences[i]));
    EXPECT_DOUBLE_EQ(each.logprob.value(), std::log(confidences[i]));
  }
  const std::vector<TokenScore> in_parts = score(model, text, 3);
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(in_parts.at(i).logprob, scores[i].logprob);
    EXPECT_EQ(scores[i].logprob.has_value(), i > 0);
    if (i == 0) continue;
    EXPECT_GE(scores[i].best.value().second, scores[i].logprob.value());
  }
  EXPECT_FALSE(score(model, {5}, 4).at(0).logprob);
}

}  // namespace
}  // namespace lacuna::engine_test
