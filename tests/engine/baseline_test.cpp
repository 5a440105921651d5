#include "decode/baseline.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/result.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::baseline_test {
namespace {

/// A model and the flags that make its uncached baseline of it.
struct Plain {
  std::string name;
  ModelConfig config;
  std::function<void(GenerationOptions&)> set = [](GenerationOptions&) {};
};

std::vector<Plain> plain_decoders() {
  const auto writes_masks_last = [](GenerationOptions& options) { options.suppress_mask = true; };
  const auto guided = [](GenerationOptions& options) {
    options.suppress_mask = true;
    options.cfg_scale = 0.5;
  };
  const auto one_by_one = [](GenerationOptions& options) {
    options.unmask = "low-confidence";
    options.commit = "apart";
  };
  const auto behind_the_prompt = [](GenerationOptions& options) { options.unmask = "low-confidence"; };
  const auto seeded_one_by_one = [](GenerationOptions& options) { options.unmask = "low-confidence"; };
  const auto no_shortcut = [](GenerationOptions& options) {
    options.block_exit = "steps";
    options.last_layer = "all";
  };
  const auto draws_nothing = [=](GenerationOptions& options) {
    no_shortcut(options);
    options.sampler = "greedy";
  };
  const auto no_drafts = [](GenerationOptions& options) {
    options.slot_threshold = options.token_threshold = 1;
  };
  ModelConfig canvases = tiny_canvas_config();
  canvases.num_layers = 2;  // the part of each is a number without a rest
  canvases.sliding->layers = {true, false};
  const auto never_sure = [](GenerationOptions& options) { options.stop_entropy = 0; };
  ModelConfig shifted = tiny_block_config(8);
  shifted.family = "fast-dllm";
  shifted.shifted_logits = true;
  shifted.sub_block_length = 4;
  const std::vector<ModelConfig> tiny = tiny_configs();
  return {{"LLaDA", tiny[0], writes_masks_last},
          {"LLaDA with classifier-free guidance", tiny[0], guided},
          {"LLaDA-MoE", tiny[2], writes_masks_last},
          {"Dream", tiny[4], writes_masks_last},
          {"Qwen2", tiny[5]},
          {"Qwen3", tiny[6]},
          {"SDAR, blocks of 4", tiny_block_config(4), one_by_one},
          {"SDAR, blocks of 16", tiny_block_config(16), one_by_one},
          {"LLaDA 2", tiny[7], one_by_one},
          {"D2F, LLaDA", tiny_d2f_config(8), behind_the_prompt},
          {"Fast-dLLM v2", shifted, one_by_one},
          {"Nemotron-Labs-Diffusion", tiny_nemotron_config(), seeded_one_by_one},
          {"GIDD with uniform noise", tiny_gidd_config(1000, 80), no_shortcut},
          {"GIDD with masks", tiny_gidd_config(-1000, 80), no_shortcut},
          {"Sumi", tiny_sumi_config(80), draws_nothing},
          {"DiffusionGemma", canvases, never_sure},
          {"ReFusion", tiny_refusion_config(), no_drafts}};
}

RunStatistics decode(const Plain& plain, const GenerationOptions& options, const std::vector<TokenId>& prompt,
                     const std::vector<TokenId>& infill = {}) {
  ModelConfig config = plain.config;
  config.end_ids.clear();  // the answer is as long as asked for
  ThreadPool threads(1);
  Engine engine(on_cpu(tiny_model(config), default_table(), threads));
  DecoderContext context;
  context.answer = infill;
  engine.add(make_decoder(config, options, prompt, context));
  engine.run();
  return engine.statistics(0);
}

void expect_is_its_own_baseline(const RunStatistics& statistics) {
  EXPECT_EQ(statistics.baseline.rows, statistics.cost.rows);
  EXPECT_EQ(statistics.baseline.layer_flops, statistics.cost.layer_flops);
  EXPECT_EQ(statistics.baseline.head_flops, statistics.cost.head_flops);
}

TEST(Baseline, IsExactlyWhatTheUncachedDecoderOfEveryFamilyComputes) {
  for (const Plain& plain : plain_decoders()) {
    for (const int32_t prompt_length : {1, 7, 16}) {
      for (const int32_t gen_length : {8, 40}) {
        SCOPED_TRACE(plain.name + ": " + std::to_string(prompt_length) + " and " +
                     std::to_string(gen_length));
        GenerationOptions options;
        options.gen_length = gen_length;
        plain.set(options);
        expect_is_its_own_baseline(decode(plain, options, random_tokens(3, prompt_length, 80)));
      }
    }
  }
}

TEST(Baseline, KnowsTheMasksOfAnInfill) {
  for (const Plain& plain : plain_decoders()) {
    if (plain.name != "LLaDA" && plain.name != "Dream") continue;
    SCOPED_TRACE(plain.name);
    const TokenId mask = plain.config.mask_id;
    expect_is_its_own_baseline(decode(plain, {}, {1, 2, 3}, {mask, 5, 6, mask, mask, 7, mask, 8}));
  }
}

TEST(Baseline, IsTheSameWhateverTheMethod) {
  const Plain llada = plain_decoders().front();
  const std::vector<TokenId> prompt = random_tokens(3, 27, 80);
  GenerationOptions options;
  options.gen_length = 32;
  options.unmask = "threshold=0.000001";  // everything at once
  const RunStatistics statistics = decode(llada, options, prompt);
  EXPECT_EQ(statistics.cost.rows, 59);
  EXPECT_EQ(statistics.baseline.rows, 1888);
  EXPECT_EQ(statistics.uncached.rows, 59);  // the same pass with every row
  EXPECT_EQ(describe_rows(statistics.cost, statistics.baseline), "59 of 1,888 rows: 32x fewer");

  options.unmask.reset();
  options.suppress_mask = true;
  options.cache = "dual";
  options.steps = 8;
  options.block_length = 16;
  EXPECT_EQ(decode(llada, options, prompt).baseline.rows, 1888);
}

TEST(Baseline, OfADecoderThatStopsIsThatOfWhatItWrote) {
  // With every token an end token, the first one written ends the answer.
  for (const Plain& plain : plain_decoders()) {
    const ModelConfig& config = plain.config;
    const bool stops = config.causal || config.block_causal || config.noise || config.canvas;
    if (!stops || config.denoises_whole_canvas()) continue;
    SCOPED_TRACE(plain.name);
    BaselineRequest request{7, 40, 40};
    request.context = 80;
    const BaselineWork whole = baseline_work(config, request);
    request.answer_length = 3;
    EXPECT_LT(baseline_work(config, request).work.rows, whole.work.rows);
    request.answer_length = 0;
    EXPECT_GE(baseline_work(config, request).work.rows, 0);
  }
}

TEST(Baseline, SaysHowManyTimesFewerOrMoreRowsWereComputed) {
  const auto say = [](int64_t rows, int64_t baseline) { return describe_rows({rows}, {baseline}); };
  EXPECT_EQ(say(59, 1888), "59 of 1,888 rows: 32x fewer");
  EXPECT_EQ(say(1000, 1234567), "1,000 of 1,234,567 rows: 1235x fewer");
  EXPECT_EQ(say(1000, 2500), "1,000 of 2,500 rows: 2.5x fewer");
  EXPECT_EQ(say(1888, 1888), "1,888 rows");
  EXPECT_EQ(say(300, 200), "300 of 200 rows: 1.5x more");
  EXPECT_EQ(say(0, 200), "0 rows");
  EXPECT_EQ(say(5, 0), "5 rows");
}

}  // namespace
}  // namespace lacuna::baseline_test
