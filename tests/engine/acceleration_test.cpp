// Properties that all caches, locks and guides must have, on real forward passes.
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "model/tiny_models.h"
#include "options/choose.h"
#include "wish.h"

namespace lacuna::acceleration_test {
namespace {

using testing::IsEmpty;

constexpr size_t kLlada = 0;
constexpr size_t kDream = 4;

struct Pass {
  std::vector<int32_t> rows;
  std::vector<Commit> committed;
  std::vector<int32_t> locked, unlocked;

  bool operator==(const Pass&) const = default;
};

using Passes = std::vector<Pass>;

/// The passes of each request.
std::map<size_t, Passes> run(const std::shared_ptr<const Model>& model, const std::vector<Wish>& wishes,
                             int num_threads = 1, int32_t max_running = 1,
                             const std::shared_ptr<const Model>& guide = nullptr) {
  ThreadPool threads(num_threads);
  Engine engine(on_cpu(model, default_table(), threads), max_running,
                on_cpu(guide, default_table(), threads));
  for (const Wish& wish : wishes) engine.add(make_decoder(*model, wish, guide.get()));
  std::map<size_t, Passes> passes;
  engine.run([&](const StepEvent& event) {
    passes[event.request].push_back(
        {event.plan.positions, event.report.committed, event.report.locked, event.report.unlocked});
  });
  return passes;
}

Wish wish(const ModelConfig& config, const std::string& rule, int32_t prompt_length = 9) {
  Wish wish;
  wish.prompt = random_tokens(static_cast<uint64_t>(prompt_length), prompt_length, config.end_ids.front());
  wish.options.gen_length = 12;
  wish.options.block_length = 4;
  if (!rule.empty()) wish.options.unmask = rule;
  wish.options.suppress_mask = true;
  return wish;
}

/// A request for each rule, temperature and guidance, prompts of different lengths.
std::vector<Wish> wishes(const ModelConfig& config) {
  std::vector<Wish> result;
  for (const char* rule : {"low-confidence", "random", "entropy", "threshold=0.2", "factor=1", "origin"}) {
    result.push_back(wish(config, rule, 1 + 5 * static_cast<int32_t>(result.size())));
    if (result.size() % 2 == 0) result.back().options.cfg_scale = 0.5;
    if (result.size() % 3 == 0) result.back().options.temperature = 0.7;
    if (result.size() == 4) result.back().prompt[3] = config.mask_id;
  }
  return result;
}

std::vector<Wish> with(std::vector<Wish> wishes, const std::function<void(GenerationOptions&)>& set) {
  for (Wish& wish : wishes) set(wish.options);
  return wishes;
}

int64_t rows_of(const Passes& passes) {
  int64_t rows = 0;
  for (const Pass& pass : passes) rows += static_cast<int64_t>(pass.rows.size());
  return rows;
}

/// An autoregressive model over the same vocabulary.
ModelConfig tiny_guide_config(const ModelConfig& config) {
  ModelConfig guide = tiny_configs()[5];
  guide.vocab_size = config.vocab_size;
  return guide;
}

/// Logits of every row of one whole pass: [tokens, vocab].
std::vector<float> logits_of(const Model& model, const std::vector<TokenId>& tokens, OwnRows own_rows) {
  ThreadPool threads(1);
  KvCache cache = model.make_cache(static_cast<int64_t>(tokens.size()));
  KvCache* caches[] = {&cache};
  const auto rows = static_cast<int64_t>(tokens.size());
  std::vector<float> logits(static_cast<size_t>(rows * model.config().vocab_size));
  Workspace workspace;
  model.forward_logits({default_table(), threads}, canvas_plan(tokens, own_rows), caches, workspace,
                       {logits.data(), rows, model.config().vocab_size, model.config().vocab_size});
  return logits;
}

class Acceleration : public testing::TestWithParam<std::tuple<size_t, DType>> {
 protected:
  ModelConfig config_ = tiny_configs()[std::get<0>(GetParam())];
  std::shared_ptr<const Model> model_ = tiny_model(config_, std::get<1>(GetParam()));
};

TEST_P(Acceleration, ACacheThatRefreshesEveryPassIsNoCacheBitForBit) {
  const auto plain = run(model_, wishes(config_));
  for (const char* cache : {"prefix", "dual", "free", "free-literal", "dkv", "sparse-dllm"}) {
    EXPECT_EQ(run(model_, with(wishes(config_),
                               [&](GenerationOptions& o) {
                                 o.cache = cache;
                                 o.refresh = 1;
                               })),
              plain)
        << cache;
  }
}

TEST_P(Acceleration, ALockWithEpsZeroLocksNothing) {
  const auto plain = run(model_, wishes(config_));
  for (const char* lock : {"eps=0,gate=off", "eps=0", "eps=0,min-age=0,prompt=eager,unlock-every=2"}) {
    EXPECT_EQ(run(model_, with(wishes(config_), [&](GenerationOptions& o) { o.lock = lock; })), plain)
        << lock;
  }
}

TEST_P(Acceleration, ALockedRowIsNeverComputedAgain) {
  for (const char* cache : {"none", "prefix", "dual", "free", "dkv"}) {
    int64_t locked_rows = 0;
    for (const auto& [request, passes] : run(model_, with(wishes(config_), [&](GenerationOptions& o) {
                                               o.cache = cache;
                                               o.lock = "eps=10,gate=50";
                                             }))) {
      std::set<int32_t> locked;
      for (const Pass& pass : passes) {
        for (const int32_t row : pass.rows) EXPECT_EQ(locked.count(row), 0U) << cache << " row " << row;
        locked.insert(pass.locked.begin(), pass.locked.end());
        EXPECT_THAT(pass.unlocked, IsEmpty());
      }
      locked_rows += static_cast<int64_t>(locked.size());
    }
    EXPECT_GT(locked_rows, 0) << cache;
  }
}

TEST_P(Acceleration, ARequestLocksTheSameRowsAloneAndInAnyBatch) {
  const std::vector<Wish> all = with(wishes(config_), [](GenerationOptions& o) {
    o.cache = "free";
    o.lock = "eps=0.5,gate=60,unlock-every=3,unlock-eps=0.01,interval=1,cooldown=1";
  });
  std::map<size_t, Passes> alone;
  for (size_t i = 0; i < all.size(); ++i) alone[i] = run(model_, {all[i]})[0];
  for (const int32_t max_running : {2, 6}) {
    for (const int num_threads : {1, 2}) {
      EXPECT_EQ(run(model_, all, num_threads, max_running), alone);
    }
  }
}

TEST_P(Acceleration, ProbesUnlockRowsThatMoved) {
  size_t unlocked = 0;
  for (const auto& [request, passes] :
       run(model_, with(wishes(config_), [](GenerationOptions& o) {
             o.lock = "eps=1,gate=off,unlock-every=1,unlock-eps=0,interval=0,cooldown=0";
           }))) {
    std::set<int32_t> locked;
    for (const Pass& pass : passes) {
      for (const int32_t row : pass.unlocked) EXPECT_EQ(locked.erase(row), 1U);
      locked.insert(pass.locked.begin(), pass.locked.end());
      unlocked += pass.unlocked.size();
    }
  }
  EXPECT_GT(unlocked, 0U);
}

TEST_P(Acceleration, ASparseCacheWritesTheSameAloneAndInAnyBatchAndNotWhatDualCacheWrites) {
  std::vector<Wish> all = wishes(config_);
  for (Wish& wish : all) {
    wish.options.gen_length = 24;
    wish.options.block_length = 8;
    wish.options.cache = "sparse-dllm=0.3";
  }
  std::map<size_t, Passes> alone;
  for (size_t i = 0; i < all.size(); ++i) alone[i] = run(model_, {all[i]})[0];
  for (const int32_t max_running : {2, 6}) {
    for (const int num_threads : {1, 2}) EXPECT_EQ(run(model_, all, num_threads, max_running), alone);
  }
  const auto with_all = run(model_, with(all, [](GenerationOptions& o) { o.cache = "sparse-dllm=1"; }));
  EXPECT_NE(with_all, alone);
}

std::vector<Wish> d2_wishes(const ModelConfig& config) {
  std::vector<Wish> all = wishes(config);
  std::erase_if(all, [](const Wish& wish) {
    return wish.options.unmask == "random" || wish.options.unmask == "origin";
  });
  return with(all, [](GenerationOptions& o) {
    o.gen_length = 24;
    o.block_length = 8;
    o.cache = "d2cache=4";
  });
}

TEST_P(Acceleration, D2CacheWritesTheSameAloneAndInAnyBatch) {
  std::vector<Wish> all = d2_wishes(config_);
  for (const char* other : {"none", "dllm-cache=0.3,answer=3"}) {
    all.push_back(wish(config_, "threshold=0.2", 17));
    all.back().options.cache = other;
  }
  std::map<size_t, Passes> alone;
  for (size_t i = 0; i < all.size(); ++i) alone[i] = run(model_, {all[i]})[0];
  for (const int32_t max_running : {2, 6}) {
    for (const int num_threads : {1, 2}) EXPECT_EQ(run(model_, all, num_threads, max_running), alone);
  }
}

TEST_P(Acceleration, D2CacheThatRefreshesEveryPassIsNoCacheBitForBit) {
  const auto refreshed = run(model_, with(d2_wishes(config_), [](GenerationOptions& o) { o.refresh = 1; }));
  EXPECT_EQ(refreshed, run(model_, with(d2_wishes(config_), [](GenerationOptions& o) { o.cache = "none"; })));
  EXPECT_NE(refreshed, run(model_, d2_wishes(config_)));
}

TEST_P(Acceleration, D2CacheCountsTheAttentionOfItsFirstPassAndRefusesWhatIsTooLarge) {
  ThreadPool threads(1);
  Engine engine(on_cpu(model_, default_table(), threads), 1);
  ModelConfig config = config_;
  config.max_positions = 1 << 20;
  const auto decoder_of = [&](const char* cache, int32_t gen_length) {
    Wish one = wish(config, "threshold=0.2");
    one.options.gen_length = gen_length;
    one.options.cache = cache;
    return make_decoder(config, one.options, one.prompt);
  };
  EXPECT_EQ(engine.memory_for(*decoder_of("d2cache", 12)) - engine.memory_for(*decoder_of("dual", 12)),
            config.num_layers * 21 * 21 * 4);
  EXPECT_NO_THROW(engine.check(*decoder_of("d2cache", 12)));
  EXPECT_THAT([&] { engine.check(*decoder_of("d2cache", 40000)); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("keeps the attention of all layers")));
}

/// docs/methods/caches.md: 2 N rows for the first two passes of each block, then those of the block.
TEST_P(Acceleration, ASparseCacheComputesTheRowsOfItsFormula) {
  Wish one = wish(config_, "threshold=1", 9);  // one position a pass
  one.options.gen_length = 24;
  one.options.block_length = 8;
  one.options.cache = "sparse-dllm";
  const Passes passes = run(model_, {one})[0];
  const int64_t length = 9 + 24, live = config_.shifted_logits ? 9 : 8;
  EXPECT_EQ(passes.size(), 24U);
  EXPECT_EQ(rows_of(passes), 3 * (2 * length + (8 - 2) * live));
}

TEST_P(Acceleration, ACacheOfLayersWritesTheSameAloneAndInAnyBatch) {
  std::vector<Wish> all = wishes(config_);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].options.cache = i % 2 == 0 ? "dllm-cache=0.3,answer=3" : "dllm-cache=0.1,answer=4";
    all[i].options.refresh = 5;
    if (i % 3 == 0) all[i].options.cfg_scale = 0.5;
  }
  std::map<size_t, Passes> alone;
  for (size_t i = 0; i < all.size(); ++i) alone[i] = run(model_, {all[i]})[0];
  for (const int32_t max_running : {2, 6}) {
    for (const int num_threads : {1, 2}) EXPECT_EQ(run(model_, all, num_threads, max_running), alone);
  }
}

TEST_P(Acceleration, ACacheOfLayersThatReusesNothingIsNoCacheBitForBit) {
  const auto plain = run(model_, wishes(config_));
  for (const char* cache : {"dllm-cache,answer=1", "dllm-cache=1,answer=9"}) {
    EXPECT_EQ(run(model_, with(wishes(config_),
                               [&](GenerationOptions& o) {
                                 o.cache = cache;
                                 o.refresh = 1;
                               })),
              plain)
        << cache;
  }
}

TEST_P(Acceleration, CachesComputeFewerRowsInTheirOrder) {
  const auto rows = [&](const char* cache) {
    Wish one = wish(config_, "", 30);
    one.options.cache = cache;
    return rows_of(run(model_, {one})[0]);
  };
  EXPECT_LT(rows("prefix"), rows("none"));
  EXPECT_LT(rows("dual"), rows("prefix"));
  EXPECT_LT(rows("free"), rows("prefix"));
  EXPECT_LE(rows("free-literal"), rows("free"));
  EXPECT_LT(rows("dkv"), rows("none"));
}

TEST_P(Acceleration, AGuidedRequestIsTheSameAloneAndInAnyBatch) {
  const auto guide = tiny_model(tiny_guide_config(config_), DType::kF32);
  std::vector<Wish> all;
  for (const char* cache : {"none", "prefix", "dual", "free", "dkv", "sparse-dllm"}) {
    for (const char* match : {"exact", "top-k=20", "relative=0.1", "tau-literal=0.5"}) {
      Wish one = wish(config_, "", 2 + static_cast<int32_t>(all.size()));
      one.options.suppress_mask = false;
      one.options.cache = cache;
      one.options.guide_match = match;
      one.options.guide_fallback = all.size() % 2 == 0 ? "dlm" : "ar";
      one.options.guide_block = 3;
      if (all.size() % 3 == 0 && one.options.cache != "sparse-dllm") one.options.lock = "eps=1,gate=50";
      if (all.size() % 4 == 0) one.options.cfg_scale = 0.5;
      all.push_back(one);
    }
  }
  std::map<size_t, Passes> alone;
  for (size_t i = 0; i < all.size(); ++i) alone[i] = run(model_, {all[i]}, 1, 1, guide)[0];
  for (const int num_threads : {1, 2}) EXPECT_EQ(run(model_, all, num_threads, 7, guide), alone);
}

/// The rule itself on whole, uncached passes of both models.
std::vector<TokenId> guided_by_hand(const Model& model, const Model& guide, std::vector<TokenId> canvas,
                                    int32_t gen_length, int32_t top_k) {
  const TokenId mask = model.config().mask_id;
  auto next = static_cast<int32_t>(canvas.size());
  canvas.resize(canvas.size() + static_cast<size_t>(gen_length), mask);
  const auto length = static_cast<int32_t>(canvas.size());
  const auto best = [](std::span<const float> row, TokenId never) {
    TokenId token = never == 0 ? 1 : 0;
    for (TokenId i = 0; i < static_cast<TokenId>(row.size()); ++i) {
      if (i != never && row[static_cast<size_t>(i)] > row[static_cast<size_t>(token)]) token = i;
    }
    return token;
  };
  while (next < length) {
    const std::vector<float> logits = logits_of(model, canvas, OwnRows::kBidirectional);
    const auto vocab = static_cast<size_t>(model.config().vocab_size);
    std::vector<TokenId> drafted = canvas;
    for (int32_t p = next; p < length; ++p) {
      const auto row = static_cast<size_t>(model.config().shifted_logits && p > 0 ? p - 1 : p);
      drafted[static_cast<size_t>(p)] = best(std::span(logits).subspan(row * vocab, vocab), mask);
    }
    const std::vector<float> judged = logits_of(guide, drafted, OwnRows::kCausal);
    const int32_t first = next;
    for (; next < length; ++next) {
      const auto row = std::span(judged).subspan(static_cast<size_t>(next - 1) * vocab, vocab);
      const TokenId draft = drafted[static_cast<size_t>(next)];
      int32_t before = 0;
      for (TokenId i = 0; i < static_cast<TokenId>(vocab); ++i) {
        const float a = row[static_cast<size_t>(i)];
        const float b = row[static_cast<size_t>(draft)];
        before += a > b || (a == b && i < draft) ? 1 : 0;
      }
      if (before >= top_k) break;
      canvas[static_cast<size_t>(next)] = draft;
    }
    if (next == first) {
      canvas[static_cast<size_t>(next)] = drafted[static_cast<size_t>(next)];
      ++next;
    }
  }
  return canvas;
}

TEST_P(Acceleration, GuidedTokensAreThoseOfWholeUncachedPasses) {
  const auto guide = tiny_model(tiny_guide_config(config_), DType::kF32);
  size_t rounds = 0;
  for (const int32_t top_k : {1, 5, 40}) {
    Wish one = wish(config_, "", 7);
    one.options.suppress_mask = false;
    one.options.block_length = 12;
    one.options.guide_match = "top-k=" + std::to_string(top_k);
    one.options.guide_block = 4;
    ThreadPool threads(1);
    Engine engine(on_cpu(model_, default_table(), threads), 1, on_cpu(guide, default_table(), threads));
    engine.add(make_decoder(
        config_, one.options, one.prompt,
        {.guide = GuideContext{&guide->config(), one.prompt, shared_vocabulary(config_, guide->config())}}));
    engine.run();
    const std::span<const TokenId> canvas = engine.decoder(0).canvas();
    EXPECT_EQ(std::vector<TokenId>(canvas.begin(), canvas.end()),
              guided_by_hand(*model_, *guide, one.prompt, 12, top_k));
    rounds += static_cast<size_t>(engine.statistics(0).steps);
  }
  EXPECT_GT(rounds, 3U);
}

TEST(AccelerationCost, CountsTheGuideAndTheDrift) {
  const ModelConfig config = tiny_configs()[kLlada];
  const auto model = tiny_model(config);
  const auto guide = tiny_model(tiny_guide_config(config));
  Wish one = wish(config, "", 5);
  one.options.suppress_mask = false;
  one.options.guide_match = "top-k=1";
  ThreadPool threads(1);
  Engine engine(on_cpu(model, default_table(), threads), 1, on_cpu(guide, default_table(), threads));
  engine.add(make_decoder(
      config, one.options, one.prompt,
      {.guide = GuideContext{&guide->config(), one.prompt, shared_vocabulary(config, guide->config())}}));
  int64_t guide_rows = 0;
  int32_t drafts = 0;
  engine.run([&](const StepEvent& event) {
    if (event.report.kind == "verify") guide_rows += event.plan.num_rows();
    if (event.report.kind == "draft") ++drafts;
  });
  const RunStatistics& statistics = engine.statistics(0);
  EXPECT_EQ(statistics.guide_rows, guide_rows);
  EXPECT_EQ(statistics.steps, drafts);
  EXPECT_EQ(statistics.cost.rows, guide_rows + drafts * 17);
  EXPECT_GE(statistics.forward_passes, 2 * drafts);

  Wish plain = wish(config, "low-confidence", 5);
  Wish locked = plain;
  locked.options.lock = "eps=0,gate=off";
  const auto head_flops = [&](const Wish& wanted) {
    Engine alone(on_cpu(model, default_table(), threads));
    alone.add(make_decoder(config, wanted.options, wanted.prompt));
    alone.run();
    return alone.statistics(0).cost.head_flops;
  };
  EXPECT_GT(head_flops(locked), head_flops(plain));
}

INSTANTIATE_TEST_SUITE_P(Families, Acceleration,
                         testing::Combine(testing::Values(kLlada, kDream),
                                          testing::Values(DType::kF32, DType::kBF16)));

}  // namespace
}  // namespace lacuna::acceleration_test
