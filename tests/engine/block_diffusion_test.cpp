// Block diffusion compared with the plain way to do it: every pass computes everything anew.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "cache/sparse_cells.h"
#include "engine/engine.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::block_diffusion_test {
namespace {

constexpr int32_t kBlock = 4;

std::shared_ptr<const Model> sdar(ThreadPool& threads, DType dtype = DType::kF32) {
  return Model::random(tiny_block_config(kBlock), 5, dtype, threads);
}

std::shared_ptr<const Model> fast_dllm(ThreadPool& threads) {
  ModelConfig config = tiny_block_config(kBlock);
  config.family = "fast-dllm";
  config.shifted_logits = true;
  config.block_length = 2 * kBlock;
  config.sub_block_length = kBlock;
  return Model::random(config, 5, DType::kF32, threads);
}

GenerationOptions options(int32_t gen_length, const std::string& unmask) {
  GenerationOptions options;
  options.gen_length = gen_length;
  options.unmask = unmask;
  return options;
}

std::vector<TokenId> decode(const std::shared_ptr<const Model>& model, ThreadPool& threads,
                            std::vector<TokenId> prompt, const GenerationOptions& options) {
  Engine engine(on_cpu(model, default_table(), threads));
  engine.add(make_decoder(model->config(), options, std::move(prompt)));
  engine.run();
  const std::span<const TokenId> canvas = engine.decoder(0).canvas();
  return {canvas.begin(), canvas.end()};
}

bool is_end(const ModelConfig& config, TokenId token) {
  return std::find(config.end_ids.begin(), config.end_ids.end(), token) != config.end_ids.end();
}

/// A pass over all blocks up to `end` without anything kept; samples from `rows`.
std::vector<RowStatistics> draw_anew(const Model& model, ThreadPool& threads,
                                     const std::vector<TokenId>& tokens, int32_t end,
                                     const std::vector<int32_t>& rows) {
  const auto block = static_cast<int32_t>(model.config().block_length);
  StepPlan plan;
  plan.rules.emplace_back().undrawn = {model.config().mask_id};
  for (int32_t position = 0; position < end; ++position) {
    plan.add_row(tokens[static_cast<size_t>(position)], position, position);
  }
  for (int32_t first = 0; first < end; first += block) {
    RowGroup group{0, {first, first + block}, {}, OwnRows::kBidirectional};
    if (first > 0) group.visible.push_back({0, first});
    plan.groups.push_back(group);
  }
  for (const int32_t row : rows) plan.logits.emplace_back().row = row;
  KvCache cache = model.make_cache(end);
  KvCache* caches[] = {&cache};
  Workspace workspace;
  const auto samples = model.forward({default_table(), threads}, plan, caches, workspace).samples;
  return {samples.begin(), samples.end()};
}

/// One token a step, the most confident of the sub-block; each pass over all blocks up to the current one.
std::vector<TokenId> decode_plainly(const Model& model, ThreadPool& threads, std::vector<TokenId> tokens,
                                    int32_t gen_length) {
  const ModelConfig& config = model.config();
  const auto block = static_cast<int32_t>(config.block_length);
  const auto stretch = static_cast<int32_t>(config.sub_block_length > 0 ? config.sub_block_length : block);
  const int32_t shift = config.shifted_logits ? 1 : 0;
  const auto prompt = static_cast<int32_t>(tokens.size());
  const int32_t length = prompt + gen_length;
  tokens.resize(static_cast<size_t>((length + block - 1) / block * block), config.mask_id);
  const auto at = [&](int32_t position) -> TokenId& { return tokens[static_cast<size_t>(position)]; };
  const auto ends_at = [&](int32_t position) {
    for (int32_t p = prompt; p <= position; ++p) {
      if (at(p) == config.mask_id) return false;
    }
    return is_end(config, at(position));
  };
  for (int32_t begin = prompt / block * block; begin < length; begin += block) {
    if (shift == 1 && at(begin) == config.mask_id) {
      at(begin) = draw_anew(model, threads, tokens, begin, {begin - 1}).front().token;
    }
    for (int32_t first = begin; first < begin + block; first += stretch) {
      for (;;) {
        for (int32_t position = prompt; position < length; ++position) {
          if (!ends_at(position)) continue;
          tokens.resize(static_cast<size_t>(position) + 1);
          return tokens;
        }
        std::vector<int32_t> rows;
        for (int32_t position = first; position < first + stretch; ++position) {
          if (at(position) == config.mask_id) rows.push_back(position - shift);
        }
        if (rows.empty()) break;
        const std::vector<RowStatistics> drawn = draw_anew(model, threads, tokens, begin + block, rows);
        const auto best = std::max_element(drawn.begin(), drawn.end(), [](const auto& a, const auto& b) {
          return a.confidence < b.confidence;
        });
        at(rows[static_cast<size_t>(best - drawn.begin())] + shift) = best->token;
      }
    }
  }
  tokens.resize(static_cast<size_t>(length));
  return tokens;
}

/// Plan and commits of every pass of a decode, and the final canvas.
struct Decoding {
  std::vector<StepPlan> plans;
  std::vector<StepReport> reports;
  std::vector<TokenId> canvas;
};

Decoding record(const std::shared_ptr<const Model>& model, ThreadPool& threads, std::vector<TokenId> prompt,
                const GenerationOptions& options) {
  Decoding result;
  Engine engine(on_cpu(model, default_table(), threads));
  engine.add(make_decoder(model->config(), options, std::move(prompt)));
  engine.run([&](const StepEvent& event) {
    result.plans.push_back(event.plan);
    result.reports.push_back(event.report);
  });
  const std::span<const TokenId> canvas = engine.decoder(0).canvas();
  result.canvas.assign(canvas.begin(), canvas.end());
  return result;
}

std::vector<std::vector<Commit>> steps_of(const Decoding& decoding) {
  std::vector<std::vector<Commit>> steps;
  for (const StepReport& report : decoding.reports) {
    if (report.kind == "denoise") steps.push_back(report.committed);
  }
  return steps;
}

std::vector<TokenId> long_prompt(const Model& model, int32_t length) {
  return random_tokens(3, length, model.config().end_ids.front());
}

GenerationOptions sparse_options(const std::string& sparse) {
  GenerationOptions sparse_options = options(12, "low-confidence");
  sparse_options.sparse = sparse;
  sparse_options.ignore_eos = true;
  return sparse_options;
}

TEST(BlockDiffusion, WritesWhatComputingEverythingAnewWrites) {
  ThreadPool threads(2);
  const std::shared_ptr<const Model> model = sdar(threads);
  for (int32_t prompt_length = 0; prompt_length < 2 * kBlock + 1; ++prompt_length) {
    for (const int32_t gen_length : {1, 6, 12}) {
      const std::vector<TokenId> prompt =
          random_tokens(static_cast<uint64_t>(prompt_length), prompt_length, model->config().end_ids.front());
      EXPECT_EQ(decode(model, threads, prompt, options(gen_length, "low-confidence")),
                decode_plainly(*model, threads, prompt, gen_length))
          << prompt_length << " and " << gen_length;
    }
  }
}

TEST(BlockDiffusion, ComputesTheLastBlockOnceMoreInTheNextBlocksFirstPass) {
  ThreadPool threads(1);
  const std::shared_ptr<const Model> model = sdar(threads);
  Engine engine(on_cpu(model, default_table(), threads));
  engine.add(make_decoder(model->config(), options(8, "threshold=1e-9"), {1, 2, 3, 4, 5}));
  std::vector<int32_t> rows;
  std::vector<size_t> committed;
  engine.run([&](const StepEvent& event) {
    rows.push_back(event.plan.num_rows());
    committed.push_back(event.report.committed.size());
  });
  // The prompt's whole block and the block of its tail; that block and the next; what is left of the canvas.
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows.front(), 2 * kBlock);
  EXPECT_EQ(committed.front(), 3U);
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_EQ(rows[i], 2 * kBlock);
}

TEST(BlockDiffusion, WithShiftedLogitsWritesWhatComputingEverythingAnewWrites) {
  ThreadPool threads(2);
  const std::shared_ptr<const Model> model = fast_dllm(threads);
  for (int32_t prompt_length = 1; prompt_length < 4 * kBlock + 2; ++prompt_length) {
    const std::vector<TokenId> prompt =
        random_tokens(static_cast<uint64_t>(prompt_length), prompt_length, model->config().end_ids.front());
    EXPECT_EQ(decode(model, threads, prompt, options(14, "low-confidence")),
              decode_plainly(*model, threads, prompt, 14))
        << prompt_length;
  }
  EXPECT_THROW(make_decoder(model->config(), options(8, "low-confidence"), {}), InputError);
}

TEST(BlockDiffusion, KeepsKeysAndValuesApartOrWithTheNextStepWithTheSameBits) {
  ThreadPool threads(2);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::shared_ptr<const Model> model = sdar(threads, dtype);
    for (const char* unmask : {"low-confidence", "dynamic=0.01", "entropy-bounded=3"}) {
      GenerationOptions fused = options(18, unmask);
      GenerationOptions apart = fused;
      apart.commit = "apart";
      const std::vector<TokenId> prompt = long_prompt(*model, 3 * kBlock + 1);
      const Decoding one = record(model, threads, prompt, fused);
      const Decoding two = record(model, threads, prompt, apart);
      EXPECT_EQ(one.canvas, two.canvas);
      EXPECT_EQ(steps_of(one), steps_of(two)) << unmask;
      EXPECT_LT(one.plans.size(), two.plans.size());
      EXPECT_EQ(two.reports.front().kind, "prefill");
    }
  }
}

TEST(BlockDiffusion, ReadsALongPromptInSeveralPasses) {
  ThreadPool threads(2);
  ModelConfig config = tiny_block_config(kBlock);
  config.max_positions = 4096;
  const std::shared_ptr<const Model> model = Model::random(config, 5, DType::kF32, threads);
  const Decoding result = record(model, threads, long_prompt(*model, 2500), options(4, "low-confidence"));
  EXPECT_EQ(result.reports[0].kind, "prefill");
  EXPECT_EQ(result.plans[0].num_rows(), 1024);
  EXPECT_EQ(result.plans[1].num_rows(), 1024);
  EXPECT_EQ(result.plans[2].num_rows(), 2500 - 2048 + kBlock) << "the rest comes with the first step";
}

class BlockDiffusionKeeps : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Locks, BlockDiffusionKeeps, testing::Values("", "eps=1e3,gate=off"));

TEST_P(BlockDiffusionKeeps, WhatAFreshPassOverTheFinalTokensComputes) {
  ThreadPool threads(1);
  const std::shared_ptr<const Model> model = sdar(threads);
  const std::string lock = GetParam();
  GenerationOptions settings = options(16, lock.empty() ? "dynamic=0.05" : "low-confidence");
  if (!lock.empty()) settings.lock = lock;
  const std::unique_ptr<Decoder> decoder = make_decoder(model->config(), settings, long_prompt(*model, 10));
  KvCache kept = model->make_cache(decoder->num_cells());
  KvCache* caches[] = {&kept};
  Workspace workspace;
  int32_t current = 0;
  size_t num_locked = 0;
  while (!decoder->done()) {
    const StepPlan& plan = decoder->plan();
    current = decoder->block().begin;
    StepReport report = decoder->apply(model->forward({default_table(), threads}, plan, caches, workspace));
    const std::vector<Drift> drifts(decoder->follow_up().probes.size());  // nothing has moved
    decoder->apply_follow_up({.drifts = drifts}, report);
    num_locked += report.locked.size();
  }
  EXPECT_EQ(num_locked > 0, !lock.empty());
  StepPlan plan;
  for (int32_t position = 0; position < current; ++position) {
    plan.add_row(decoder->canvas()[static_cast<size_t>(position)], position, position);
  }
  for (int32_t first = 0; first < current; first += kBlock) {
    RowGroup group{0, {first, first + kBlock}, {}, OwnRows::kBidirectional};
    if (first > 0) group.visible.push_back({0, first});
    plan.groups.push_back(group);
  }
  KvCache fresh = model->make_cache(decoder->num_cells());
  caches[0] = &fresh;
  model->forward({default_table(), threads}, plan, caches, workspace);
  ASSERT_GE(current, 5 * kBlock);
  const auto dim = static_cast<size_t>(model->config().head_dim);
  std::vector<float> a(2 * dim), b(2 * dim);
  for (int64_t layer = 0; layer < model->config().num_layers; ++layer) {
    for (int32_t cell = 0; cell < current; ++cell) {
      kept.read(layer, cell, 0, a.data(), a.data() + dim);
      fresh.read(layer, cell, 0, b.data(), b.data() + dim);
      EXPECT_EQ(a, b) << "layer " << layer << ", cell " << cell;
    }
  }
}

TEST(BlockDiffusion, TakesMaskTokensInAPromptAsTheyAre) {
  ThreadPool threads(1);
  const std::shared_ptr<const Model> model = sdar(threads);
  const TokenId mask = model->config().mask_id;
  const std::vector<TokenId> prompt = {1, mask, 2, 3, mask};
  const std::vector<TokenId> canvas = decode(model, threads, prompt, options(6, "low-confidence"));
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), canvas.begin()));
  EXPECT_EQ(std::count(canvas.begin() + 5, canvas.end(), mask), 0);
}

TEST(BlockDiffusion, EndsAsSoonAsNothingBeforeTheEndTokenIsMasked) {
  ThreadPool threads(1);
  ModelConfig config = tiny_block_config(kBlock);
  for (TokenId token = 0; token < 40; ++token) config.end_ids.push_back(token);  // most of the vocabulary
  std::sort(config.end_ids.begin(), config.end_ids.end());
  const std::shared_ptr<const Model> model = Model::random(config, 5, DType::kF32, threads);
  const Decoding result = record(model, threads, {41, 42}, options(12, "sequential"));
  EXPECT_LT(result.canvas.size(), 14U);
  EXPECT_TRUE(is_end(config, result.canvas.back()));
  EXPECT_EQ(result.reports.back().committed.back().position, static_cast<int32_t>(result.canvas.size()) - 1);
}

TEST(BlockDiffusion, EditsWrittenTokensUntilNothingChanges) {
  ThreadPool threads(1);
  const std::shared_ptr<const Model> model = sdar(threads);
  GenerationOptions editing = options(8, "dynamic=0.5");
  editing.edit = "tau=0,most=3";
  editing.ignore_eos = true;
  const Decoding result = record(model, threads, {1, 2, 3, 4, 5}, editing);
  std::map<int32_t, int> steps_after_masks;
  std::map<int32_t, std::vector<bool>> written;
  bool changed = false;
  for (size_t i = 0; i < result.reports.size(); ++i) {
    const StepReport& report = result.reports[i];
    std::vector<bool>& known = written[report.block];
    known.resize(4 * kBlock);
    const auto first = static_cast<int32_t>(report.block + 1) * kBlock;
    const bool had_masks =
        std::count(known.begin() + std::max(first, 5), known.begin() + first + kBlock, false) > 0;
    steps_after_masks[report.block] += had_masks ? 0 : 1;
    for (const Commit& commit : report.committed) {
      changed = changed || known[static_cast<size_t>(commit.position)];
      known[static_cast<size_t>(commit.position)] = true;
      EXPECT_GE(commit.position, 5) << "the prompt stays";
    }
  }
  EXPECT_TRUE(changed) << "with tau 0 a random model changes its mind";
  for (const auto& [block, steps] : steps_after_masks) EXPECT_LE(steps, 3) << block;
}

TEST(BlockDiffusion, WithTheBlockCacheComputesTheSubBlockAloneOnceItsFirstTokenIsKnown) {
  ThreadPool threads(1);
  const std::shared_ptr<const Model> model = fast_dllm(threads);
  GenerationOptions cached = options(14, "low-confidence");
  cached.cache = "block";
  cached.ignore_eos = true;
  const Decoding result = record(model, threads, {1, 2, 3}, cached);
  size_t narrow = 0;
  for (size_t i = 0; i < result.plans.size(); ++i) {
    const StepPlan& plan = result.plans[i];
    if (result.reports[i].kind != "denoise") continue;
    if (plan.num_rows() == 2 * kBlock) continue;
    ++narrow;
    EXPECT_EQ(plan.num_rows(), kBlock);
    EXPECT_EQ(plan.groups.back().own_rows, OwnRows::kNone);
    EXPECT_NE(plan.tokens.front(), model->config().mask_id);
  }
  EXPECT_GT(narrow, 3U);
}

// Sparse attention.

TEST(BlockDiffusion, ALockThatLocksNothingLeavesTheBitsAsTheyAre) {
  ThreadPool threads(2);
  for (const auto& model : {sdar(threads), fast_dllm(threads)}) {
    GenerationOptions settings = options(18, "low-confidence");
    settings.ignore_eos = true;
    const std::vector<TokenId> prompt = long_prompt(*model, 3 * kBlock + 1);
    const Decoding plain = record(model, threads, prompt, settings);
    settings.lock = "eps=0,gate=off";
    const Decoding never = record(model, threads, prompt, settings);
    EXPECT_EQ(steps_of(never), steps_of(plain));
    EXPECT_EQ(never.canvas, plain.canvas);
    for (size_t i = 0; i < plain.plans.size(); ++i) {
      EXPECT_EQ(never.plans[i].positions, plain.plans[i].positions);
      EXPECT_EQ(never.plans[i].groups, plain.plans[i].groups);
    }
    settings.lock = "eps=1e3,gate=off";
    const Decoding always = record(model, threads, prompt, settings);
    const auto count_rows = [](const Decoding& decoding) {
      int32_t count = 0;
      for (const StepPlan& plan : decoding.plans) count += plan.num_rows();
      return count;
    };
    EXPECT_LT(count_rows(always), count_rows(plain));
    EXPECT_EQ(always.canvas.size(), plain.canvas.size());
  }
}

TEST(BlockDiffusion, WithALockWritesTheSameWhateverTheThreadsAndTheCompany) {
  ThreadPool one(1);
  ThreadPool three(3);
  const std::shared_ptr<const Model> model = sdar(one);
  const std::vector<std::string> locks = {"eps=1e3,gate=off", "eps=0.1,gate=50,min-age=0",
                                          "eps=1e3,population=unlocked", "eps=0"};
  Engine together(on_cpu(model, default_table(), three), 8);
  std::vector<Decoding> alone;
  std::vector<std::vector<std::vector<int32_t>>> locked(locks.size());
  for (size_t i = 0; i < locks.size(); ++i) {
    GenerationOptions settings = options(14, "low-confidence");
    settings.ignore_eos = true;
    settings.lock = locks[i];
    if (i == 0) settings.sparse = "mage=12";
    const std::vector<TokenId> prompt = long_prompt(*model, 30 + 3 * static_cast<int32_t>(i));
    alone.push_back(record(model, one, prompt, settings));
    together.add(make_decoder(model->config(), settings, prompt));
  }
  together.run([&](const StepEvent& event) { locked[event.request].push_back(event.report.locked); });
  for (size_t i = 0; i < locks.size(); ++i) {
    const std::span<const TokenId> canvas = together.decoder(i).canvas();
    EXPECT_EQ(std::vector<TokenId>(canvas.begin(), canvas.end()), alone[i].canvas) << locks[i];
    std::vector<std::vector<int32_t>> expected;
    for (const StepReport& report : alone[i].reports) expected.push_back(report.locked);
    EXPECT_EQ(locked[i], expected) << locks[i];
  }
}

TEST(SparseBlockDiffusion, WithEveryCellChosenHasTheBitsOfExactAttention) {
  ThreadPool threads(2);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::shared_ptr<const Model> model = sdar(threads, dtype);
    const int32_t prefix = 37;
    StepPlan plan;
    plan.rules.emplace_back();
    const std::vector<TokenId> tokens = long_prompt(*model, prefix + kBlock);
    for (int32_t p = 0; p < prefix; ++p) plan.add_row(tokens[static_cast<size_t>(p)], p, p);
    plan.groups.push_back({0, {0, prefix}, {}, OwnRows::kBidirectional});
    KvCache cache = model->make_cache(prefix + kBlock);
    KvCache* caches[] = {&cache};
    Workspace workspace;
    const KernelContext context{default_table(), threads};
    model->forward(context, plan, caches, workspace);

    plan.clear();
    plan.rules.emplace_back();
    for (int32_t p = prefix; p < prefix + kBlock; ++p) plan.add_row(tokens[static_cast<size_t>(p)], p, p);
    plan.groups.push_back({0, {0, kBlock}, {{0, prefix}}, OwnRows::kBidirectional});
    for (int32_t row = 0; row < kBlock; ++row) plan.logits.emplace_back().row = row;
    const auto vocab = model->config().vocab_size;
    const auto logits = [&](SparseAttention::Choice choice) {
      plan.groups[0].sparse = {choice, {0, prefix}, prefix, 16};
      std::vector<float> out(static_cast<size_t>(kBlock * vocab));
      model->forward_logits(context, plan, caches, workspace, {out.data(), kBlock, vocab});
      return out;
    };
    const std::vector<float> exact = logits(SparseAttention::Choice::kAll);
    EXPECT_EQ(logits(SparseAttention::Choice::kAllAndRemember), exact);
    EXPECT_EQ(logits(SparseAttention::Choice::kRemembered), exact);
  }
}

/// A prefix of 60 cells and a block after it, computed exactly; mass by layer, kv head and cell.
struct Remembering {
  static constexpr int32_t kPrefix = 60;
  static constexpr int32_t kBudget = 9;
  std::vector<std::vector<double>> mass;     // [layers * kv heads][prefix]
  std::vector<std::vector<float>> queries;   // [layers * kv heads] rows and heads one after the other
  std::vector<std::vector<int32_t>> chosen;  // [layers * kv heads]
  std::vector<std::vector<float>> keys;      // [layers * kv heads][prefix * head_dim]
};

Remembering remember(SparseAttention::Choice choice, int32_t budget, int num_threads, int32_t dense_layers) {
  ThreadPool threads(num_threads);
  const std::shared_ptr<const Model> model = sdar(threads);
  const ModelConfig& config = model->config();
  constexpr int32_t kPrefix = Remembering::kPrefix;
  const std::vector<TokenId> tokens = long_prompt(*model, kPrefix + kBlock);
  StepPlan plan;
  for (int32_t p = 0; p < kPrefix + kBlock; ++p) plan.add_row(tokens[static_cast<size_t>(p)], p, p);
  plan.groups.push_back({0, {0, kPrefix}, {}, OwnRows::kBidirectional});
  plan.groups.push_back({0, {kPrefix, kPrefix + kBlock}, {{0, kPrefix}}, OwnRows::kBidirectional});
  plan.groups[1].sparse = {choice, {0, kPrefix}, budget, 8, dense_layers};
  Remembering result;
  const auto entries = static_cast<size_t>(config.num_layers * config.num_kv_heads);
  result.mass.resize(entries, std::vector<double>(kPrefix));
  result.queries.resize(entries);
  result.keys.resize(entries);
  const int64_t heads_per_kv = config.num_heads / config.num_kv_heads;
  Workspace workspace;
  std::mutex mutex;
  workspace.attention_probe = [&](const AttentionRow& row) {
    if (row.group != 1) return;
    const std::lock_guard lock(mutex);
    const auto entry = static_cast<size_t>(workspace.layer * config.num_kv_heads + row.head / heads_per_kv);
    result.queries[entry].insert(result.queries[entry].end(), row.query.begin(), row.query.end());
    if (choice == SparseAttention::Choice::kBestPages) return;
    for (int32_t cell = 0; cell < kPrefix; ++cell) {
      result.mass[entry][static_cast<size_t>(cell)] +=
          double{row.weights[static_cast<size_t>(cell)]} / row.sum;
    }
  };
  KvCache cache = model->make_cache(kPrefix + kBlock);
  KvCache* caches[] = {&cache};
  model->forward({default_table(), threads}, plan, caches, workspace);
  std::vector<float> key(static_cast<size_t>(config.head_dim)), value(key.size());
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (int64_t head = 0; head < config.num_kv_heads; ++head) {
      const auto entry = static_cast<size_t>(layer * config.num_kv_heads + head);
      const std::span<const int32_t> cells = cache.sparse().chosen.cells(layer, head);
      result.chosen.emplace_back(cells.begin(), cells.end());
      for (int32_t cell = 0; cell < kPrefix; ++cell) {
        cache.read(layer, cell, head, key.data(), value.data());
        result.keys[entry].insert(result.keys[entry].end(), key.begin(), key.end());
      }
    }
  }
  return result;
}

TEST(SparseBlockDiffusion, RemembersTheCellsOfMostMass) {
  for (const int32_t dense_layers : {0, 1, 2, 3}) {
    const int num_threads = 1 + dense_layers % 2;
    const Remembering found =
        remember(SparseAttention::Choice::kAllAndRemember, Remembering::kBudget, num_threads, dense_layers);
    const size_t dense = found.chosen.size() / 4 * static_cast<size_t>(dense_layers);  // of four layers
    for (size_t entry = 0; entry < found.chosen.size(); ++entry) {
      if (entry < dense) {
        EXPECT_TRUE(found.chosen[entry].empty());
        continue;
      }
      std::vector<int32_t> order(Remembering::kPrefix);
      for (int32_t cell = 0; cell < Remembering::kPrefix; ++cell) order[static_cast<size_t>(cell)] = cell;
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return found.mass[entry][static_cast<size_t>(a)] > found.mass[entry][static_cast<size_t>(b)];
      });
      order.resize(Remembering::kBudget);
      std::sort(order.begin(), order.end());
      EXPECT_EQ(found.chosen[entry], order) << entry;
    }
  }
}

TEST(SparseBlockDiffusion, ChoosesThePagesWithTheLargestMeanOfQuestsBound) {
  constexpr int32_t kPage = 8;
  constexpr int32_t kPages = 3;
  constexpr int32_t kDense = 1;  // of four layers
  const Remembering found = remember(SparseAttention::Choice::kBestPages, kPages * kPage, 2, kDense);
  const size_t dim = found.keys.front().size() / Remembering::kPrefix;
  const int32_t num_pages = (Remembering::kPrefix + kPage - 1) / kPage;
  for (size_t entry = found.chosen.size() / 4 * kDense; entry < found.chosen.size(); ++entry) {
    const std::vector<float>& queries = found.queries[entry];
    const std::vector<float>& keys = found.keys[entry];
    std::vector<double> scores(static_cast<size_t>(num_pages));
    for (int32_t page = 0; page < num_pages; ++page) {
      for (size_t q = 0; q < queries.size(); q += dim) {
        for (size_t c = 0; c < dim; ++c) {
          double largest = -1e30;
          double smallest = 1e30;
          for (int32_t cell = page * kPage; cell < std::min((page + 1) * kPage, Remembering::kPrefix);
               ++cell) {
            const double key = keys[static_cast<size_t>(cell) * dim + c];
            largest = std::max(largest, key);
            smallest = std::min(smallest, key);
          }
          scores[static_cast<size_t>(page)] += std::max(queries[q + c] * largest, queries[q + c] * smallest);
        }
      }
    }
    std::vector<int32_t> order;
    for (int32_t page = 0; page + 1 < num_pages; ++page) order.push_back(page);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    order.resize(kPages - 1);
    std::sort(order.begin(), order.end());
    order.push_back(num_pages - 1);
    std::vector<int32_t> cells;
    for (const int32_t page : order) {
      for (int32_t cell = page * kPage; cell < std::min((page + 1) * kPage, Remembering::kPrefix); ++cell) {
        cells.push_back(cell);
      }
    }
    EXPECT_EQ(found.chosen[entry], cells) << entry;
  }
}

TEST(SparseBlockDiffusion, WithABudgetOfThePrefixWritesWhatExactAttentionWrites) {
  ThreadPool threads(2);
  const std::shared_ptr<const Model> model = sdar(threads);
  const std::vector<TokenId> prompt = long_prompt(*model, 70);
  const Decoding exact = record(model, threads, prompt, sparse_options("exact"));
  for (const char* sparse : {"mage=100", "quest=100,page=8", "sparsed=100,exact=0"}) {
    const Decoding other = record(model, threads, prompt, sparse_options(sparse));
    EXPECT_EQ(other.plans, exact.plans) << sparse;
    EXPECT_EQ(steps_of(other), steps_of(exact)) << sparse;
  }
  EXPECT_NE(steps_of(record(model, threads, prompt, sparse_options("mage=4"))), steps_of(exact));
  EXPECT_EQ(record(model, threads, prompt, sparse_options("losa=100")).plans, exact.plans);
  const Decoding always = record(model, threads, prompt, sparse_options("flashblock=1"));
  EXPECT_EQ(steps_of(always), steps_of(exact)) << "every step attends to all cells";
  EXPECT_NE(steps_of(record(model, threads, prompt, sparse_options("flashblock=3"))), steps_of(exact));
}

/// A block after `prefix` cells, in passes of one request.
class KeptBlock {
 public:
  static constexpr int32_t kPrefix = 37;
  explicit KeptBlock(DType dtype, int num_threads = 2)
      : threads_(num_threads), model_(sdar(threads_, dtype)) {
    tokens_ = long_prompt(*model_, kPrefix + kBlock);
    StepPlan plan;
    for (int32_t p = 0; p < kPrefix; ++p) plan.add_row(tokens_[static_cast<size_t>(p)], p, p);
    plan.groups.push_back({0, {0, kPrefix}, {}, OwnRows::kBidirectional});
    cache_.emplace(model_->make_cache(kPrefix + kBlock));
    forward(plan);
  }

  TokenId& token(int32_t row) { return tokens_[static_cast<size_t>(kPrefix + row)]; }

  /// Logits of all rows of the block.
  std::vector<float> pass(SparseAttention sparse) {
    StepPlan plan;
    plan.rules.emplace_back();
    for (int32_t p = kPrefix; p < kPrefix + kBlock; ++p) plan.add_row(tokens_[static_cast<size_t>(p)], p, p);
    plan.groups.push_back({0, {0, kBlock}, {{0, kPrefix}}, OwnRows::kBidirectional});
    sparse.among = {0, kPrefix};
    plan.groups[0].sparse = sparse;
    for (int32_t row = 0; row < kBlock; ++row) plan.logits.emplace_back().row = row;
    const int64_t vocab = model_->config().vocab_size;
    std::vector<float> out(static_cast<size_t>(kBlock * vocab));
    KvCache* caches[] = {&*cache_};
    model_->forward_logits({default_table(), threads_}, plan, caches, workspace_,
                           {out.data(), kBlock, vocab});
    return out;
  }

 private:
  void forward(const StepPlan& plan) {
    KvCache* caches[] = {&*cache_};
    model_->forward({default_table(), threads_}, plan, caches, workspace_);
  }

  ThreadPool threads_;
  std::shared_ptr<const Model> model_;
  std::vector<TokenId> tokens_;
  std::optional<KvCache> cache_;
  Workspace workspace_;
};

SparseAttention keeping(SparseAttention::Choice choice) {
  SparseAttention sparse;
  sparse.choice = choice;
  sparse.dense_layers = 1;
  return sparse;
}

const SparseAttention kKeep = keeping(SparseAttention::Choice::kAllAndKeep);
const SparseAttention kReuse = keeping(SparseAttention::Choice::kKept);

void expect_near(const std::vector<float>& values, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], tolerance) << i;
}

TEST(SparseBlockDiffusion, KeepsAttentionWithTheBitsOfExactAttentionAndReusesItWithinRounding) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    KeptBlock block(dtype);
    const std::vector<float> exact = block.pass({});
    EXPECT_EQ(block.pass(kKeep), exact);
    const std::vector<float> reused = block.pass(kReuse);
    // Nothing has changed since, so that only the order of sums differs.
    expect_near(reused, exact, dtype == DType::kF32 ? 1e-4 : 0.2);
    EXPECT_EQ(KeptBlock(dtype, 3).pass(kKeep), exact);
    block.token(2) += 1;
    const std::vector<float> changed = block.pass(kReuse);
    EXPECT_NE(changed, reused);
    EXPECT_EQ(block.pass(kReuse), changed) << "a pass that reuses keeps nothing";
    block.token(2) -= 1;
    EXPECT_EQ(block.pass(kReuse), reused);
  }
}

TEST(SparseBlockDiffusion, WithAllRowsActiveHasTheBitsOfBestPages) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    KeptBlock block(dtype);
    SparseAttention sparse = kKeep;
    sparse.budget = 16;
    sparse.page_size = 4;
    sparse.active_rows = kBlock;
    block.pass(sparse);
    block.token(1) += 1;
    sparse.choice = SparseAttention::Choice::kBestPages;
    const std::vector<float> pages = block.pass(sparse);
    sparse.choice = SparseAttention::Choice::kKept;
    EXPECT_EQ(block.pass(sparse), pages);
    sparse.active_rows = kBlock - 1;
    EXPECT_NE(block.pass(sparse), pages);
    SparseAttention all = sparse;
    all.budget = KeptBlock::kPrefix + 4;
    all.active_rows = kBlock;
    EXPECT_EQ(block.pass(all), block.pass({})) << "all pages";
  }
}

TEST(SparseBlockDiffusion, ReusesNothingThatWasNotKept) {
  EXPECT_THROW(KeptBlock(DType::kF32).pass(kReuse), std::logic_error);
}

TEST(SparseBlockDiffusion, WritesTheSameWhateverTheThreadsAndTheCompany) {
  ThreadPool one(1);
  ThreadPool three(3);
  const std::shared_ptr<const Model> model = sdar(one);
  const std::vector<std::string> policies = {"mage=12",
                                             "quest=24,page=8",
                                             "sparsed=16,exact=0.3",
                                             "flashblock=2",
                                             "losa=16,page=4",
                                             "flashblock=3,dense-layers=1",
                                             "losa=8,page=8,active=0.6,dense-layers=0",
                                             "exact"};
  Engine together(on_cpu(model, default_table(), three), 8);
  std::vector<std::vector<TokenId>> alone;
  for (size_t i = 0; i < policies.size(); ++i) {
    GenerationOptions options = sparse_options(policies[i]);
    if (i < 3) options.sparse_commit = i % 2 == 0 ? "sparse" : "exact";
    const std::vector<TokenId> prompt = long_prompt(*model, 50 + 7 * static_cast<int32_t>(i));
    alone.push_back(decode(model, one, prompt, options));
    together.add(make_decoder(model->config(), options, prompt));
  }
  together.run();
  for (size_t i = 0; i < policies.size(); ++i) {
    const std::span<const TokenId> canvas = together.decoder(i).canvas();
    EXPECT_EQ(std::vector<TokenId>(canvas.begin(), canvas.end()), alone[i]) << policies[i];
  }
}

TEST(FocusBlockDiffusion, WritesTheSameWhateverTheThreadsAndTheCompany) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    ThreadPool one_thread(1), four_threads(4);
    const auto model = Model::random(tiny_block_config(16), 5, dtype, one_thread);
    const auto wish = [](int32_t i) {
      GenerationOptions chosen = options(20 + i, i % 2 == 0 ? "threshold=0.02" : "low-confidence");
      chosen.focus = 1 + 0.5 * i;
      return chosen;
    };
    const auto prompt = [&](int32_t i) { return random_tokens(static_cast<uint64_t>(i), 9 + i, 80); };
    Engine together(on_cpu(model, default_table(), four_threads));
    for (int32_t i = 0; i < 4; ++i) together.add(make_decoder(model->config(), wish(i), prompt(i)));
    together.run();
    int64_t evicted = 0;
    for (int32_t i = 0; i < 4; ++i) {
      const auto index = static_cast<size_t>(i);
      const std::span<const TokenId> canvas = together.decoder(index).canvas();
      EXPECT_EQ(std::vector(canvas.begin(), canvas.end()), decode(model, one_thread, prompt(i), wish(i)));
      const RunStatistics& statistics = together.statistics(index);
      evicted += statistics.uncached.rows - statistics.cost.rows;
    }
    EXPECT_GT(evicted, 0);
  }
}

TEST(FocusBlockDiffusion, ThatKeepsEveryMaskComputesTheRowsOfPlainStepsButThoseOfTokensThatWereRead) {
  ThreadPool threads(1);
  const auto model = Model::random(tiny_block_config(8), 5, DType::kF32, threads);
  GenerationOptions all = options(8, "low-confidence");
  all.focus = 100;
  Engine engine(on_cpu(model, default_table(), threads));
  engine.add(make_decoder(model->config(), all, random_tokens(3, 8, 80)));
  engine.run();
  // The prompt's block and eight steps of at most eight rows each.
  EXPECT_LE(engine.statistics(0).cost.rows, 8 + 8 * 8);
  EXPECT_GE(engine.statistics(0).cost.rows, 8 + 8 + 7 + 6 + 5 + 4 + 3 + 2 + 1);
}

TEST(BlockDiffusion, RefusesWhatItWouldIgnore) {
  ThreadPool threads(1);
  const ModelConfig config = sdar(threads)->config();
  for (const char* unmask : {"origin", "nonsense"}) {
    EXPECT_THROW(make_decoder(config, options(8, unmask), {1}), InputError) << unmask;
  }
  for (const char* sparse : {"mage", "mage=0", "quest=8", "sparsed=4,exact=2", "mage=4,page=2", "other=3",
                             "flashblock=0", "losa=8", "losa=16,active=2"}) {
    EXPECT_THROW(make_decoder(config, sparse_options(sparse), {1}), InputError) << sparse;
  }
  GenerationOptions fused = sparse_options("mage=8");
  fused.sparse_commit = "sparse";
  fused.commit = "fused";
  EXPECT_THROW(make_decoder(config, fused, {1}), InputError);
  GenerationOptions exact = sparse_options("exact");
  exact.sparse_after = 2;
  EXPECT_THROW(make_decoder(config, exact, {1}), InputError);
  for (const char* lock : {"eps=1e-3,unlock-every=2", "gate=101", "eps=-1"}) {
    GenerationOptions locked = options(8, "low-confidence");
    locked.lock = lock;
    EXPECT_THROW(make_decoder(config, locked, {1}), InputError) << lock;
  }
  GenerationOptions edited = options(8, "low-confidence");
  edited.lock = "eps=1e-3";
  EXPECT_NO_THROW(make_decoder(config, edited, {1}));
  edited.edit = "tau=0.5";
  EXPECT_THROW(make_decoder(config, edited, {1}), InputError);
  GenerationOptions cached = options(8, "low-confidence");
  cached.cache = "dual";
  EXPECT_THROW(make_decoder(config, cached, {1}), InputError);
}

}  // namespace
}  // namespace lacuna::block_diffusion_test
