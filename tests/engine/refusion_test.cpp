// ReFusion on real forward passes.
#include "decode/refusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/result.h"
#include "engine/stop.h"
#include "model/tiny_models.h"
#include "options/choose.h"
#include "tokenizer/tiny_tokenizer.h"
#include "wish.h"

namespace lacuna::refusion_test {
namespace {

Refusion settings(const ModelConfig& config, RefusionRules rules, double threshold = 0.004) {
  Refusion options;
  options.rules = rules;
  options.mask_id = config.mask_id;
  options.gen_length = 22;
  options.block_length = 12;
  options.slot_size = 3;
  options.slot_threshold = 0.03;
  options.token_threshold = threshold;
  options.sampling.undrawn = {config.mask_id};
  return options;
}

std::vector<TokenId> some_prompt(const ModelConfig& config, int32_t length = 7) {
  return random_tokens(static_cast<uint64_t>(length), length, config.end_ids.front());
}

/// A decoder whose passes a test runs itself, and the cells that they wrote.
class ByHand {
 public:
  struct Step {
    std::string kind;
    std::vector<Commit> committed;
    std::vector<int32_t> slots;  // where they begin
    int32_t num_clean = 0;       // before the pass
  };

  ByHand(std::shared_ptr<const Model> model, const Refusion& options, const std::vector<TokenId>& prompt)
      : model_(std::move(model)),
        decoder_(options, prompt),
        cache_(model_->make_cache(decoder_.num_cells())),
        written_(static_cast<size_t>(decoder_.num_cells())) {
    for (size_t i = 0; i < prompt.size(); ++i) clean_.push_back({static_cast<int32_t>(i), prompt[i], 1});
    while (!decoder_.done()) pass();
  }

  const RefusionDecoder& decoder() const { return decoder_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// In the order of their cells, the prompt's first.
  const std::vector<Commit>& clean() const { return clean_; }

  /// Cells of tokens whose own K/V were computed at some time, which a pass of this kind committed; no kind:
  /// all cells that were clean when the last plan was made, prompt included.
  std::vector<int32_t> computed_cells(const std::string& kind) const {
    std::vector<int32_t> cells;
    int32_t last_plan = 0;
    for (const Step& step : steps_) {
      if (step.kind == "plan") last_plan = step.num_clean;
      if (step.kind != kind) continue;
      for (size_t i = 0; i < step.committed.size(); ++i)
        cells.push_back(step.num_clean + static_cast<int32_t>(i));
    }
    if (kind.empty()) {
      for (int32_t cell = 0; cell < last_plan; ++cell) cells.push_back(cell);
    }
    std::erase_if(cells, [&](int32_t cell) {
      const Commit& clean = clean_[static_cast<size_t>(cell)];
      return written_[static_cast<size_t>(cell)] != std::pair(clean.token, clean.position);
    });
    return cells;
  }

  /// K and V of a cell in all layers.
  static std::vector<float> content(const KvCache& cache, int32_t cell) {
    const KvShape& shape = cache.shape();
    const auto dim = static_cast<size_t>(shape.head_dim);
    std::vector<float> values;
    for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
      for (int64_t head = 0; head < shape.num_kv_heads; ++head) {
        values.resize(values.size() + 2 * dim);
        cache.read(layer, cell, head, values.data() + values.size() - 2 * dim,
                   values.data() + values.size() - dim);
      }
    }
    return values;
  }
  std::vector<float> content(int32_t cell) const { return content(cache_, cell); }

 private:
  void pass() {
    const StepPlan plan = decoder_.plan();
    for (size_t i = 0; i < plan.cells.size(); ++i) {
      written_.at(static_cast<size_t>(plan.cells[i])) = {plan.tokens[i], plan.positions[i]};
    }
    KvCache* caches[] = {&cache_};
    const KernelContext context{default_table(), threads_};
    StepReport report = decoder_.apply(model_->forward(context, plan, caches, workspace_));
    if (const FollowUp wanted = decoder_.follow_up(); !wanted.empty()) {
      decoder_.apply_follow_up(model_->follow_up(context, plan, wanted, {}, workspace_), report);
    }
    Step step{std::string(report.kind), report.committed, {}, static_cast<int32_t>(clean_.size())};
    for (const SlotReport& slot : report.slots) step.slots.push_back(slot.position);
    clean_.insert(clean_.end(), report.committed.begin(), report.committed.end());
    steps_.push_back(std::move(step));
  }

  std::shared_ptr<const Model> model_;
  ThreadPool threads_{1};
  Workspace workspace_;
  RefusionDecoder decoder_;
  KvCache cache_;
  std::vector<std::pair<TokenId, int32_t>> written_;  // of each cell: token and position of its last row
  std::vector<Commit> clean_;
  std::vector<Step> steps_;
};

/// Tokens at their positions, one causal sequence in cells 0, 1, 2, ...
StepPlan causal_plan(std::span<const Commit> tokens) {
  StepPlan plan;
  plan.rules.emplace_back();
  for (const Commit& token : tokens) plan.add_row(token.token, token.position, plan.num_rows());
  plan.groups.push_back({0, {0, plan.num_rows()}, {}, OwnRows::kCausal});
  return plan;
}

KvCache causal_cache(const Model& model, std::span<const Commit> tokens) {
  ThreadPool threads(1);
  KvCache cache = model.make_cache(static_cast<int64_t>(tokens.size()));
  KvCache* caches[] = {&cache};
  Workspace workspace;
  model.forward({default_table(), threads}, causal_plan(tokens), caches, workspace);
  return cache;
}

/// Logits after the last of `tokens` in one causal pass: [vocab].
std::vector<float> next_logits(const Model& model, std::span<const Commit> tokens) {
  ThreadPool threads(1);
  KvCache cache = model.make_cache(static_cast<int64_t>(tokens.size()));
  KvCache* caches[] = {&cache};
  Workspace workspace;
  StepPlan plan = causal_plan(tokens);
  LogitRow logit;
  logit.row = plan.num_rows() - 1;
  plan.logits.push_back(logit);
  const int64_t vocab = model.config().vocab_size;
  std::vector<float> logits(static_cast<size_t>(vocab));
  model.forward_logits({default_table(), threads}, plan, caches, workspace, {logits.data(), 1, vocab});
  return logits;
}

constexpr RefusionRules kAllRules[] = {RefusionRules::kPaper, RefusionRules::kReleased,
                                       RefusionRules::kLacuna};

class RefusionKv : public testing::TestWithParam<DType> {
 protected:
  ModelConfig config_ = tiny_refusion_config();
  std::shared_ptr<const Model> model_ = tiny_model(config_, GetParam());

  /// How many of the cells are not those of one causal pass over all clean tokens, bit for bit.
  int differing(const ByHand& run, const std::vector<int32_t>& cells) {
    const KvCache fresh = causal_cache(*model_, run.clean());
    int count = 0;
    for (const int32_t cell : cells) count += run.content(cell) == ByHand::content(fresh, cell) ? 0 : 1;
    return count;
  }

  /// Whether finished slots are fed again changes no commit.
  void expect_same_together(RefusionRules rules) {
    size_t rounds = 0;
    for (const uint64_t seed : {1, 2, 3, 4}) {
      Refusion options = settings(config_, rules);
      options.sampling.temperature = seed == 1 ? 0 : 0.7F;
      options.seed = seed;
      if (seed == 3) options.end_ids = config_.end_ids;
      const ByHand apart(model_, options, some_prompt(config_));
      options.advances_together = true;
      const ByHand together(model_, options, some_prompt(config_));
      ASSERT_EQ(apart.steps().size(), together.steps().size());
      for (size_t i = 0; i < apart.steps().size(); ++i) {
        EXPECT_TRUE(apart.steps()[i].committed == together.steps()[i].committed) << "pass " << i;
        rounds += apart.steps()[i].kind == "check" ? 1 : 0;
      }
    }
    EXPECT_GT(rounds, 4U);
  }
};

TEST_P(RefusionKv, WhatVerificationCommitsIsThatOfOneCausalPass) {
  size_t cells = 0;
  for (const RefusionRules rules : kAllRules) {
    for (const double threshold : {0.002, 0.006}) {
      for (const int32_t prompt_length : {3, 40}) {
        Refusion options = settings(config_, rules, threshold);
        options.recomputes_kv = true;  // cells before it must not hold completed K/V, which differ
        const ByHand run(model_, options, some_prompt(config_, prompt_length));
        const std::vector<int32_t> verified = run.computed_cells("verify");
        EXPECT_EQ(differing(run, verified), 0);
        cells += verified.size();
      }
    }
  }
  EXPECT_GT(cells, 40U);
}

TEST_P(RefusionKv, RecomputedKvIsThatOfOneCausalPass) {
  bool completes = false;
  for (const RefusionRules rules : kAllRules) {
    for (const double revoke : {0.0, 0.008}) {
      if (revoke > 0 && rules != RefusionRules::kLacuna) continue;
      Refusion options = settings(config_, rules);
      options.revoke = revoke;
      options.recomputes_kv = true;
      const ByHand run(model_, options, some_prompt(config_));
      const std::vector<int32_t> cells = run.computed_cells("");
      EXPECT_GT(cells.size(), 7U);
      EXPECT_EQ(differing(run, cells), 0);
      for (const ByHand::Step& step : run.steps()) {
        completes |= step.kind != "verify" && step.slots.size() > 1 && !step.committed.empty();
      }
    }
  }
  EXPECT_TRUE(completes);
}

TEST_P(RefusionKv, KvOfVerifiedFillsAreThoseOfOneCausalPass) {
  const Refusion options = settings(config_, RefusionRules::kLacuna);
  ASSERT_TRUE(options.verifies_fills);
  const ByHand run(model_, options, some_prompt(config_));
  const std::vector<int32_t> cells = run.computed_cells("");
  EXPECT_GT(cells.size(), 15U);
  EXPECT_EQ(differing(run, cells), 0);
}

TEST_P(RefusionKv, KvOfSlotsThatWereFilledSideBySideDoNotKnowEachOther) {
  Refusion options = settings(config_, RefusionRules::kLacuna);
  options.verifies_fills = false;
  const ByHand run(model_, options, some_prompt(config_));
  EXPECT_GT(differing(run, run.computed_cells("")), 0);
}

TEST_P(RefusionKv, ASlotThatIsCompletedAloneIsThatOfOneCausalPass) {
  bool completes = false;
  for (const RefusionRules rules : kAllRules) {
    for (const bool together : {false, true}) {
      Refusion options = settings(config_, rules, 0.01);
      options.slot_threshold = 1;  // the likeliest slot alone
      options.advances_together = together && rules != RefusionRules::kLacuna;
      const ByHand run(model_, options, some_prompt(config_));
      const std::vector<int32_t> cells = run.computed_cells("");
      EXPECT_GT(cells.size(), 20U);
      EXPECT_EQ(differing(run, cells), 0);
      for (const ByHand::Step& step : run.steps())
        completes |= step.kind != "verify" && !step.committed.empty();
    }
  }
  EXPECT_TRUE(completes);
}

TEST_P(RefusionKv, AdvancingTogetherCommitsTheSameByThePapersRules) {
  expect_same_together(RefusionRules::kPaper);
}

TEST_P(RefusionKv, AdvancingTogetherCommitsTheSameByTheReleasedRules) {
  expect_same_together(RefusionRules::kReleased);
}

TEST_P(RefusionKv, AcceptingExactlyWritesWhatLeftToRightDecodingOfASlotWrites) {
  size_t checked = 0;
  for (const double threshold : {0.02, 0.03, 0.05}) {
    Refusion options = settings(config_, RefusionRules::kLacuna);
    options.slot_threshold = threshold;
    options.accepts_exactly = true;
    options.recomputes_kv = true;  // so that one causal pass over the clean tokens knows all there is
    const ByHand run(model_, options, some_prompt(config_));
    for (const ByHand::Step& step : run.steps()) {
      // A slot sees the tokens that were clean before it was completed; in a verify pass also the slots
      // before it.
      const auto clean = std::span(run.clean()).first(static_cast<size_t>(step.num_clean));
      std::vector<Commit> context(clean.begin(), clean.end());
      for (const Commit& commit : step.committed) {
        const bool begins =
            std::find(step.slots.begin(), step.slots.end(), commit.position) != step.slots.end();
        if (begins) {
          if (step.kind == "fill") context.assign(clean.begin(), clean.end());
        } else {
          const std::vector<float> logits = next_logits(*model_, context);
          std::vector<float> drawable = logits;
          drawable[static_cast<size_t>(config_.mask_id)] = -1e30F;
          EXPECT_EQ(std::max_element(drawable.begin(), drawable.end()) - drawable.begin(), commit.token);
          ++checked;
        }
        context.push_back(commit);
      }
    }
  }
  EXPECT_GT(checked, 30U);
}

INSTANTIATE_TEST_SUITE_P(Types, RefusionKv, testing::Values(DType::kF32, DType::kBF16));

// ---- Requests

struct Seen {
  StepPlan plan;
  std::vector<Commit> committed;
  std::vector<std::vector<double>> probabilities;  // of each slot

  bool operator==(const Seen&) const = default;
};

std::map<size_t, std::vector<Seen>> run(const std::shared_ptr<const Model>& model,
                                        const std::vector<Wish>& wishes, int num_threads = 1,
                                        int32_t max_running = 1) {
  ThreadPool threads(num_threads);
  Engine engine(on_cpu(model, default_table(), threads), max_running);
  for (const Wish& wish : wishes) engine.add(make_decoder(model->config(), wish.options, wish.prompt));
  std::map<size_t, std::vector<Seen>> passes;
  engine.run([&](const StepEvent& event) {
    Seen& seen = passes[event.request].emplace_back();
    seen.plan = event.plan;
    seen.committed = event.report.committed;
    for (const SlotReport& slot : event.report.slots) seen.probabilities.push_back(slot.probabilities);
  });
  for (size_t i = 0; i < wishes.size(); ++i) EXPECT_TRUE(engine.decoder(i).done());
  return passes;
}

Wish wish(const ModelConfig& config, int32_t prompt_length = 7) {
  Wish wish;
  wish.prompt = some_prompt(config, prompt_length);
  wish.options.gen_length = 14;
  wish.options.block_length = 8;
  wish.options.slot_size = 3;
  wish.options.slot_threshold = 0.03;
  wish.options.token_threshold = 0.004;
  return wish;
}

/// Every mode, with prompts, seeds and temperatures of their own.
std::vector<Wish> wishes(const ModelConfig& config) {
  std::vector<Wish> result;
  for (const char* mode : {"released", "paper", "lacuna", "exact", "revoke"}) {
    for (const char* kv : {"reuse", "recompute"}) {
      const auto index = static_cast<int32_t>(result.size());
      Wish one = wish(config, 1 + 5 * index);
      GenerationOptions& options = one.options;
      options.refusion = index < 4 ? mode : "lacuna";
      options.kv = kv;
      if (options.refusion == "lacuna") options.fill = "side-by-side";
      if (options.refusion != "lacuna") options.suppress_mask = true;
      if (mode == std::string("exact")) {
        options.accept = "exact";
        options.token_threshold.reset();
      }
      if (mode == std::string("revoke")) options.revoke = 0.008;
      options.seed = static_cast<uint64_t>(index);
      options.temperature = index % 3 == 1 ? 0.8 : 0.0;
      result.push_back(one);
    }
  }
  return result;
}

TEST(RefusionRequests, AreTheSameAloneAndInAnyBatchOnAnyNumberOfThreads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const ModelConfig config = tiny_refusion_config();
    const auto model = tiny_model(config, dtype);
    const std::vector<Wish> all = wishes(config);
    std::map<size_t, std::vector<Seen>> alone;
    for (size_t i = 0; i < all.size(); ++i) alone[i] = run(model, {all[i]})[0];
    for (const auto& [num_threads, max_running] : {std::pair(1, 10), {2, 1}, {2, 4}, {3, 10}}) {
      EXPECT_EQ(run(model, all, num_threads, max_running), alone) << num_threads << " " << max_running;
    }
  }
}

TEST(RefusionRequests, DoNotNeedTheNeighboursTheyHave) {
  const ModelConfig config = tiny_refusion_config();
  const auto model = tiny_model(config);
  std::vector<Wish> all = wishes(config);
  auto forwards = run(model, all, 1, 3);
  std::reverse(all.begin(), all.end());
  auto backwards = run(model, all, 1, 4);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(forwards[i], backwards[all.size() - 1 - i]);
}

TEST(RefusionRequests, CountTokensForEachPass) {
  const ModelConfig config = tiny_refusion_config();
  ModelConfig endless = config;
  endless.end_ids.clear();
  const auto model = tiny_model(endless);
  Wish one = wish(endless);
  ThreadPool threads(1);
  Engine engine(on_cpu(model, default_table(), threads));
  engine.add(make_decoder(endless, one.options, one.prompt));
  int32_t passes = 0;
  int64_t rows = 0;
  engine.run([&](const StepEvent& event) {
    ++passes;
    rows += event.plan.num_rows();
  });
  const RunStatistics& statistics = engine.statistics(0);
  EXPECT_EQ(statistics.forward_passes, passes);
  EXPECT_EQ(statistics.steps, passes);
  EXPECT_EQ(statistics.cost.rows, rows);
  EXPECT_GT(statistics.uncached.rows, rows);
  const GenerationResult result = make_result(engine.decoder(0), statistics, endless, nullptr, 0);
  EXPECT_EQ(result.answer_tokens, 14);
  EXPECT_DOUBLE_EQ(result.tokens_per_forward(), 14.0 / passes);
  EXPECT_EQ(to_json(result)["stop_reason"], "length");
}

TEST(RefusionRequests, EndAtAStopText) {
  ModelConfig config = tiny_refusion_config();
  config.end_ids.clear();
  const auto model = tiny_model(config);
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  const Wish one = wish(config);
  const auto decode = [&](const std::vector<std::string>& texts) {
    ThreadPool threads(1);
    Engine engine(on_cpu(model, default_table(), threads));
    DecoderContext context;
    context.find_stop = make_stop_finder(tokenizer, texts);
    engine.add(make_decoder(config, one.options, one.prompt, context));
    engine.run();
    return make_result(engine.decoder(0), engine.statistics(0), config, &tokenizer, 0, texts);
  };
  const GenerationResult whole = decode({});
  ASSERT_EQ(whole.text, tokenizer.decode(whole.tokens));
  ASSERT_EQ(whole.text.size(), 14U);  // a byte for each token
  const std::string text = whole.text.substr(5, 2);
  const size_t found = whole.text.find(text);
  const GenerationResult stopped = decode({text});
  EXPECT_EQ(stopped.text, whole.text.substr(0, found));
  EXPECT_EQ(stopped.tokens.size(), found + 2);
  EXPECT_EQ(to_json(stopped)["stop_reason"], "stop");
  EXPECT_EQ(stopped.answer_tokens, static_cast<int32_t>(found) + 2);
  EXPECT_DOUBLE_EQ(stopped.tokens_per_forward(),
                   static_cast<double>(found + 2) / stopped.statistics.forward_passes);
}

// ---- Acceptance above temperature 0

TEST(RefusionAcceptance, ExactlyDrawsFromTheLeftToRightDistribution) {
  constexpr TokenId kVocab = 6;
  constexpr int kDraws = 24'000;
  ModelConfig config = tiny_refusion_config();
  config.vocab_size = kVocab;
  config.mask_id = kVocab - 1;
  config.logit_scale = 0.5F;
  config.end_ids.clear();
  const auto model = tiny_model(config);
  const std::vector<TokenId> prompt = {1, 3};
  Refusion options = settings(config, RefusionRules::kLacuna);
  options.gen_length = options.block_length = options.slot_size = 2;
  options.accepts_exactly = true;
  options.sampling.temperature = 0.7F;

  // Everything that a decoding may ask the model for: two mask rows, and the row of each first token.
  std::vector<std::vector<float>> masks;
  std::vector<std::vector<float>> left_to_right;
  std::vector<Commit> tokens = {{0, prompt[0], 1}, {1, prompt[1], 1}};
  for (TokenId token = 0; token < kVocab; ++token) {
    tokens.push_back({2, token, 1});
    left_to_right.push_back(next_logits(*model, tokens));
    tokens.pop_back();
  }
  for (const int32_t position : {2, 3}) {
    tokens.push_back({position, config.mask_id, 1});
    masks.push_back(next_logits(*model, tokens));
  }
  const auto answer = [&](const StepPlan& plan, const LogitRow& logit) {
    const auto row = static_cast<size_t>(logit.row);
    const TokenId token = plan.tokens[row];
    std::vector<float> logits = token == config.mask_id
                                    ? masks.at(static_cast<size_t>(plan.positions[row] - 2))
                                    : left_to_right.at(static_cast<size_t>(token));
    return draw(default_table(), plan.rules.at(static_cast<size_t>(logit.rule)), logit.noise, logits,
                logit.scored);
  };

  std::map<TokenId, std::map<TokenId, int>> counts;
  int fallen = 0;
  for (int seed = 0; seed < kDraws; ++seed) {
    options.seed = static_cast<uint64_t>(seed);
    RefusionDecoder decoder(options, prompt);
    while (!decoder.done()) {
      const StepPlan& plan = decoder.plan();
      std::vector<RowStatistics> drawn;
      for (const LogitRow& logit : plan.logits) drawn.push_back(answer(plan, logit));
      StepReport report = decoder.apply({drawn});
      drawn.clear();
      for (const LogitRow& logit : decoder.follow_up().logits) drawn.push_back(answer(plan, logit));
      decoder.apply_follow_up({drawn}, report);
      if (report.kind == "verify" && report.slots.at(0).accepted < 2) ++fallen;
    }
    ++counts[decoder.canvas()[2]][decoder.canvas()[3]];
  }
  EXPECT_GT(fallen, kDraws / 50);  // drafts and judges do differ
  // Five tokens sampled without a common noise would agree far less often.
  EXPECT_LT(fallen, kDraws * 3 / 5);

  const auto distribution = [&](const std::vector<float>& logits) {
    std::vector<double> p(kVocab, 0.0);
    double sum = 0;
    for (size_t i = 0; i + 1 < p.size(); ++i) sum += p[i] = std::exp(static_cast<double>(logits[i]) / 0.7);
    for (double& value : p) value /= sum;
    return p;
  };
  const auto expect_near = [](int count, int total, double p) {
    EXPECT_NEAR(count, total * p, 5 * std::sqrt(total * p * (1 - p)) + 1e-9) << "of " << total;
  };
  const std::vector<double> first = distribution(masks[0]);
  for (TokenId a = 0; a < kVocab; ++a) {
    int total = 0;
    for (TokenId b = 0; b < kVocab; ++b) total += counts[a][b];
    expect_near(total, kDraws, first[static_cast<size_t>(a)]);
    const std::vector<double> second = distribution(left_to_right[static_cast<size_t>(a)]);
    for (TokenId b = 0; b < kVocab; ++b) expect_near(counts[a][b], total, second[static_cast<size_t>(b)]);
  }
}

}  // namespace
}  // namespace lacuna::refusion_test
