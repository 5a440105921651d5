// Requests that share the K/V of a prefix, compared with requests that share nothing.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::prefix_test {
namespace {

constexpr int64_t kRoom = 1 << 26;

struct Method {
  std::string name;
  ModelConfig config;
  std::function<void(GenerationOptions&)> set = {};
};

std::vector<Method> methods() {
  ModelConfig fast = tiny_block_config(8);
  fast.family = "fast-dllm";
  fast.shifted_logits = true;
  fast.sub_block_length = 4;
  ModelConfig qwen = tiny_refusion_config();
  qwen.family = "qwen3";
  qwen.plans_slots = false;
  qwen.max_positions = 512;
  ModelConfig refusion = tiny_refusion_config();
  refusion.max_positions = 512;
  ModelConfig canvases = tiny_canvas_config();
  canvases.max_positions = 512;
  canvases.canvas->image_id = -1;  // answers, which become prompts here, may hold any token
  const auto warm = [](GenerationOptions& options) { options.temperature = 1; };
  const auto quest = [](GenerationOptions& options) {
    options.sparse = "quest=24,page=8";
    options.sparse_commit = "sparse";
    options.commit = "apart";
  };
  const auto pipelined = [](GenerationOptions& options) {
    options.unmask = "dynamic=0.05";
    options.pipeline = "on";
  };
  const auto once = [](GenerationOptions& options) {
    options.prompt_block = 8;
    options.cache = "free";
    options.refresh = 5;
  };
  ModelConfig shifted = tiny_configs()[0];
  shifted.family = "dream";
  shifted.shifted_logits = true;
  return {{"masked, the prompt computed once", tiny_configs()[0], once},
          {"masked and shifted, the prompt computed once", shifted, once},
          {"autoregressive", qwen},
          {"refusion", refusion},
          {"blocks of 4", tiny_block_config(4)},
          {"blocks of 12, which fill no tile", tiny_block_config(12)},
          {"blocks of 4, sparse", tiny_block_config(4), quest},
          {"blocks of 8, shifted", fast},
          {"blocks of 4, several at once", tiny_block_config(4), pipelined},
          {"canvases", canvases, warm}};
}

class Prefixes {
 public:
  Prefixes(const Method& method, DType dtype)
      : method_(method), model_(Model::random(endless(method.config), 5, dtype, threads_)) {}

  GenerationOptions options(uint64_t seed, double temperature = 0.8) const {
    GenerationOptions options;
    options.gen_length = 24;
    options.seed = seed;
    options.temperature = temperature;
    if (method_.config.block_causal) options.block_length = method_.config.block_length;
    if (method_.set) method_.set(options);
    return options;
  }
  std::unique_ptr<Decoder> decoder(const std::vector<TokenId>& prompt, uint64_t seed) const {
    return make_decoder(model_->config(), options(seed), prompt);
  }
  Engine engine(int32_t max_running) {
    return Engine(on_cpu(model_, default_table(), threads_), max_running);
  }
  std::vector<TokenId> tokens(int32_t count, uint64_t seed = 1) const {
    return random_tokens(seed, count, 80);
  }

  struct Alone {
    std::vector<TokenId> canvas;
    int64_t rows = 0;
    int64_t baseline = 0;
  };
  Alone alone(const std::vector<TokenId>& prompt, uint64_t seed) {
    Engine lonely = engine(1);
    lonely.add(decoder(prompt, seed));
    lonely.run();
    return {canvas(lonely, 0), lonely.statistics(0).cost.rows, lonely.statistics(0).baseline.rows};
  }
  static std::vector<TokenId> canvas(const Engine& engine, size_t request) {
    const std::span<const TokenId> canvas = engine.decoder(request).canvas();
    return {canvas.begin(), canvas.end()};
  }

 private:
  /// Nothing ends an answer.
  static ModelConfig endless(ModelConfig config) {
    config.end_ids.clear();
    return config;
  }

  Method method_;
  ThreadPool threads_{1};
  std::shared_ptr<const Model> model_;
};

/// That a request's answer and baseline are those it has alone, and its rows less by what it shared. Returns
/// how many tokens that were.
int32_t expect_as_alone(Prefixes& prefixes, const Engine& engine, size_t request,
                        const std::vector<TokenId>& prompt, uint64_t seed) {
  const Prefixes::Alone alone = prefixes.alone(prompt, seed);
  const RunStatistics& statistics = engine.statistics(request);
  EXPECT_EQ(Prefixes::canvas(engine, request), alone.canvas);
  EXPECT_EQ(statistics.cost.rows + statistics.shared_tokens, alone.rows);
  EXPECT_EQ(statistics.baseline.rows, alone.baseline);
  return statistics.shared_tokens;
}

void for_all_methods(const std::function<void(const Method&, Prefixes&)>& check) {
  for (const Method& method : methods()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(method.name + " " + std::string(name_of(dtype)));
      Prefixes prefixes(method, dtype);
      check(method, prefixes);
    }
  }
}

TEST(SharedPrefixes, SaveALaterRequestWhatAnEarlierOneRead) {
  for_all_methods([](const Method&, Prefixes& prefixes) {
    Engine engine = prefixes.engine(1);
    engine.share_prefixes(kRoom);
    const std::vector<TokenId> first = prefixes.tokens(100);
    std::vector<TokenId> second = first;
    second.resize(70);
    second.resize(110, 3);
    engine.add(prefixes.decoder(first, 1));
    engine.add(prefixes.decoder(second, 2));
    engine.run();
    EXPECT_EQ(expect_as_alone(prefixes, engine, 0, first, 1), 0);
    const int32_t shared = expect_as_alone(prefixes, engine, 1, second, 2);
    EXPECT_TRUE(shared == 64 || shared == 60) << shared;
    EXPECT_GT(engine.prefix_bytes(), 0);
  });
}

TEST(SharedPrefixes, LetRequestsThatStartTogetherReadTheirPromptOnce) {
  for_all_methods([](const Method&, Prefixes& prefixes) {
    Engine engine = prefixes.engine(4);
    engine.share_prefixes(0);                                 // none of those that ran
    const std::vector<TokenId> prompt = prefixes.tokens(96);  // whole blocks: the last token is needed anew
    for (uint64_t seed = 0; seed < 3; ++seed) engine.add(prefixes.decoder(prompt, seed));
    const std::vector<TokenId> other = prefixes.tokens(50, 9);
    engine.add(prefixes.decoder(other, 7));
    engine.run();
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const int32_t shared = expect_as_alone(prefixes, engine, seed, prompt, seed);
      EXPECT_EQ(shared > 0, seed > 0);
    }
    EXPECT_EQ(expect_as_alone(prefixes, engine, 3, other, 7), 0);
    EXPECT_EQ(engine.prefix_bytes(), 0);
  });
}

TEST(SharedPrefixes, CarryAConversationOn) {
  for_all_methods([](const Method& method, Prefixes& prefixes) {
    Engine engine = prefixes.engine(1);
    engine.share_prefixes(kRoom);
    std::vector<TokenId> talk = prefixes.tokens(52);
    std::vector<int32_t> shared;
    for (uint64_t turn = 0; turn < 3; ++turn) {
      const size_t request = engine.add(prefixes.decoder(talk, turn));
      engine.run();
      shared.push_back(expect_as_alone(prefixes, engine, request, talk, turn));
      talk = Prefixes::canvas(engine, request);
      const std::vector<TokenId> question = prefixes.tokens(13, turn);
      talk.insert(talk.end(), question.begin(), question.end());
    }
    EXPECT_EQ(shared[0], 0);
    EXPECT_GT(shared[1], 0);
    EXPECT_GT(shared[2], shared[1]);
    // The answers before are shared as well, where their K/V depend on nothing but the text.
    const bool shares_answers = method.name != "refusion" && !method.set;
    EXPECT_GE(shared[2], shares_answers ? 84 : 52);
  });
}

TEST(SharedPrefixes, SurviveTheRequestThatReadThem) {
  for_all_methods([](const Method&, Prefixes& prefixes) {
    Engine engine = prefixes.engine(2);
    engine.share_prefixes(kRoom);
    const std::vector<TokenId> prompt = prefixes.tokens(100);
    const size_t gone = engine.add(prefixes.decoder(prompt, 1));
    const size_t waits = engine.add(prefixes.decoder(prompt, 2));
    engine.step();
    engine.step();
    engine.remove(gone);
    engine.run();
    EXPECT_GT(expect_as_alone(prefixes, engine, waits, prompt, 2), 0);
  });
}

TEST(SharedPrefixes, AreReadByTheNextWhereTheirReaderGoesFirst) {
  for_all_methods([](const Method&, Prefixes& prefixes) {
    Engine engine = prefixes.engine(3);
    engine.share_prefixes(kRoom);
    const std::vector<TokenId> prompt = prefixes.tokens(100);
    engine.add(prefixes.decoder(prompt, 0));
    engine.add(prefixes.decoder(prompt, 1));
    engine.add(prefixes.decoder(prompt, 2));
    engine.remove(0);
    engine.run();
    EXPECT_EQ(expect_as_alone(prefixes, engine, 1, prompt, 1), 0);
    EXPECT_GT(expect_as_alone(prefixes, engine, 2, prompt, 2), 0);
  });
}

TEST(SharedPrefixes, GiveWayToRequestsThatNeedTheirMemory) {
  const Method method = methods().front();
  Prefixes prefixes(method, DType::kF32);
  Engine engine = prefixes.engine(1);
  const std::vector<TokenId> prompt = prefixes.tokens(100);
  const int64_t needed = engine.memory_for(*prefixes.decoder(prompt, 1));
  engine.limit_memory(needed + needed / 4);
  engine.share_prefixes(kRoom);
  for (uint64_t i = 0; i < 3; ++i) {
    const std::vector<TokenId> other = prefixes.tokens(100, i);
    engine.add(prefixes.decoder(other, i));
    engine.run();
    expect_as_alone(prefixes, engine, i, other, i);
  }
  EXPECT_LE(engine.prefix_bytes(), needed);
}

TEST(SharedPrefixes, TakeTheMemoryOfOneForManyRequests) {
  for_all_methods([](const Method& method, Prefixes& prefixes) {
    if (method.config.canvas) return;  // which has more than pages
    Engine engine = prefixes.engine(32);
    engine.share_prefixes(0);
    const std::vector<TokenId> prompt = prefixes.tokens(400);
    const int64_t whole = engine.memory_for(*prefixes.decoder(prompt, 0));
    // Six whole pages of the prompt are one for all, and each has one page of its own.
    const int64_t page = whole / 7;
    ASSERT_EQ(whole, 7 * page);
    engine.limit_memory(2 * whole + 31 * page);
    for (uint64_t seed = 0; seed < 32; ++seed) engine.add(prefixes.decoder(prompt, seed));
    int64_t least = whole * 32;
    size_t most_running = 0;
    while (engine.step()) {
      EXPECT_LE(engine.memory_in_use(), 2 * whole + 31 * page);
      if (engine.num_running() < most_running) continue;
      most_running = engine.num_running();
      least = engine.memory_in_use();
    }
    EXPECT_GT(most_running, 20U);
    EXPECT_LE(least, (6 + 32) * page);
    for (const uint64_t seed : {0, 1, 31}) expect_as_alone(prefixes, engine, seed, prompt, seed);
  });
}

TEST(SharedPrefixes, StayStoredWhileARequestWaitsForTheMemoryOfOthers) {
  for_all_methods([](const Method&, Prefixes& prefixes) {
    Engine engine = prefixes.engine(3);
    engine.share_prefixes(kRoom);
    const std::vector<TokenId> first = prefixes.tokens(200);
    const int64_t whole = engine.memory_for(*prefixes.decoder(prefixes.tokens(400), 0));
    engine.limit_memory(whole * 7 / 4);
    engine.add(prefixes.decoder(first, 0));
    engine.run();
    const int64_t stored = engine.prefix_bytes();
    ASSERT_GT(stored, 0);
    engine.add(prefixes.decoder(prefixes.tokens(400, 2), 1));
    engine.add(prefixes.decoder(prefixes.tokens(400, 3), 2));  // waits for the one before it
    engine.step();
    EXPECT_EQ(engine.num_running(), 1U);
    EXPECT_EQ(engine.prefix_bytes(), stored);
    engine.run();
  });
}

TEST(SharedPrefixes, OutliveTheirPlaceInTheStoreWhileRequestsHaveThem) {
  for_all_methods([](const Method&, Prefixes& prefixes) {
    Engine engine = prefixes.engine(3);
    engine.share_prefixes(kRoom);
    const std::vector<TokenId> prompt = prefixes.tokens(400);
    const int64_t whole = engine.memory_for(*prefixes.decoder(prompt, 0));
    engine.limit_memory(whole * 9 / 4);
    engine.add(prefixes.decoder(prompt, 0));
    engine.run();
    engine.add(prefixes.decoder(prompt, 1));
    engine.step();
    EXPECT_GT(engine.statistics(1).shared_tokens, 0);
    const std::vector<TokenId> other = prefixes.tokens(400, 2);
    engine.add(prefixes.decoder(other, 2));  // takes the place of what is kept
    engine.run();
    EXPECT_GT(expect_as_alone(prefixes, engine, 1, prompt, 1), 0);
    expect_as_alone(prefixes, engine, 2, other, 2);
  });
}

TEST(SharedPrefixes, AreNotOfModelsThatSeeTheWholeCanvas) {
  const ModelConfig config = tiny_configs()[0];
  Prefixes prefixes({"masked", config}, DType::kF32);
  Engine engine = prefixes.engine(2);
  engine.share_prefixes(kRoom);
  const std::vector<TokenId> prompt = prefixes.tokens(64);
  engine.add(prefixes.decoder(prompt, 1));
  engine.add(prefixes.decoder(prompt, 2));
  engine.run();
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(expect_as_alone(prefixes, engine, i, prompt, i + 1), 0);
  EXPECT_EQ(engine.prefix_bytes(), 0);
}

}  // namespace
}  // namespace lacuna::prefix_test
