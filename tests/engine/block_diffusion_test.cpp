// Block diffusion beside the plain way to do it: every pass computes everything anew.
#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "decode/make_decoder.h"
#include "engine/engine.h"
#include "model/tiny_models.h"

namespace lacuna {
namespace {

constexpr int32_t kBlock = 4;

std::shared_ptr<const Model> sdar(ThreadPool& threads) {
  ModelConfig config = tiny_refusion_config();
  config.causal = false;
  config.plans_slots = false;
  config.block_causal = true;
  config.block_length = kBlock;
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
  Engine engine(model, default_table(), threads);
  engine.add(make_decoder(model->config(), options, std::move(prompt)));
  engine.run();
  const std::span<const TokenId> canvas = engine.decoder(0).canvas();
  return {canvas.begin(), canvas.end()};
}

/// One token a step, the surest; each pass over all blocks up to the current one.
std::vector<TokenId> decode_plainly(const Model& model, ThreadPool& threads, std::vector<TokenId> tokens,
                                    int32_t gen_length) {
  const ModelConfig& config = model.config();
  const auto prompt = static_cast<int32_t>(tokens.size());
  const int32_t length = prompt + gen_length;
  const int32_t padded = (length + kBlock - 1) / kBlock * kBlock;
  tokens.resize(static_cast<size_t>(padded), config.mask_id);
  for (int32_t begin = prompt / kBlock * kBlock; begin < length; begin += kBlock) {
    for (;;) {
      StepPlan plan;
      plan.rules.emplace_back().undrawn = {config.mask_id};
      for (int32_t position = 0; position < begin + kBlock; ++position) {
        const TokenId token = tokens[static_cast<size_t>(position)];
        if (position >= begin && token == config.mask_id) {
          LogitRow logit;
          logit.row = position;
          plan.logits.push_back(logit);
        }
        plan.add_row(token, position, position);
      }
      if (plan.logits.empty()) break;
      for (int32_t first = 0; first <= begin; first += kBlock) {
        RowGroup group{0, {first, first + kBlock}, {}, OwnRows::kBidirectional};
        if (first > 0) group.visible.push_back({0, first});
        plan.groups.push_back(group);
      }
      KvCache cache = model.make_cache(padded);
      KvCache* caches[] = {&cache};
      Workspace workspace;
      std::vector<RowStatistics> drawn(plan.logits.size());
      model.forward({default_table(), threads}, plan, caches, workspace, drawn);
      size_t surest = 0;
      for (size_t i = 1; i < drawn.size(); ++i) {
        if (drawn[i].confidence > drawn[surest].confidence) surest = i;
      }
      tokens[static_cast<size_t>(plan.logits[surest].row)] = drawn[surest].token;
    }
    for (int32_t position = std::max(begin, prompt); position < std::min(begin + kBlock, length);
         ++position) {
      const TokenId token = tokens[static_cast<size_t>(position)];
      if (std::find(config.end_ids.begin(), config.end_ids.end(), token) == config.end_ids.end()) continue;
      tokens.resize(static_cast<size_t>(std::min(begin + kBlock, length)));
      return tokens;
    }
  }
  tokens.resize(static_cast<size_t>(length));
  return tokens;
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
  Engine engine(model, default_table(), threads);
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

TEST(BlockDiffusion, RefusesWhatItWouldIgnore) {
  ThreadPool threads(1);
  const ModelConfig config = sdar(threads)->config();
  for (const char* unmask : {"origin", "nonsense"}) {
    EXPECT_THROW(make_decoder(config, options(8, unmask), {1}), InputError) << unmask;
  }
  GenerationOptions cached = options(8, "low-confidence");
  cached.cache = "dual";
  EXPECT_THROW(make_decoder(config, cached, {1}), InputError);
}

}  // namespace
}  // namespace lacuna
