// Drafts of block diffusion on real passes: the bits of a draft's rows are those of the step that it stands
// for.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::block_drafts_test {
namespace {

struct Decoding {
  std::vector<TokenId> canvas;
  std::vector<Commit> commits;  // ascending positions
  int32_t passes = 0;
};

Decoding decode(const std::shared_ptr<const Model>& model, ThreadPool& threads,
                const std::vector<TokenId>& prompt, const GenerationOptions& options) {
  Decoding result;
  Engine engine(on_cpu(model, default_table(), threads));
  engine.add(make_decoder(model->config(), options, prompt));
  engine.run([&](const StepEvent& event) {
    const std::vector<Commit>& committed = event.report.committed;
    result.commits.insert(result.commits.end(), committed.begin(), committed.end());
    ++result.passes;
  });
  const std::span<const TokenId> canvas = engine.decoder(0).canvas();
  result.canvas.assign(canvas.begin(), canvas.end());
  std::ranges::sort(result.commits, {}, &Commit::position);
  return result;
}

GenerationOptions random_options(const RngStream& choose) {
  const std::vector<std::string> rules = {"low-confidence", "margin",     "entropy",
                                          "sequential",     "random",     "dynamic=0.03",
                                          "threshold=0.03", "factor=1.9", "entropy-bounded=6"};
  GenerationOptions options;
  const uint32_t rule = choose.below(0, static_cast<uint32_t>(rules.size()));
  options.unmask = rules[rule];
  options.block_length = 1 << (1 + choose.below(1, 4));
  options.gen_length = 1 + static_cast<int32_t>(choose.below(2, 30));
  options.seed = choose.bits(3);
  if (choose.below(4, 2) == 1) options.temperature = 0.05;
  if (choose.below(5, 2) == 1) options.commit = "apart";
  if (rule <= 5 && choose.below(6, 2) == 1)
    options.steps = 1 + static_cast<int32_t>(choose.below(7, static_cast<uint32_t>(*options.block_length)));
  options.ignore_eos = choose.below(8, 2) == 1;
  return options;
}

class BlockDrafts : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, BlockDrafts, testing::Values(DType::kF32, DType::kBF16));

TEST_P(BlockDrafts, WriteTheSameBitsInFewerPasses) {
  ThreadPool threads(2);
  const std::shared_ptr<const Model> model = Model::random(tiny_block_config(4), 5, GetParam(), threads);
  int32_t fewer = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const RngStream choose(seed, 92);
    GenerationOptions options = random_options(choose);
    // Blocks lie anywhere in tiles of cells, before and behind their boundaries.
    const std::vector<TokenId> prompt =
        random_tokens(seed, static_cast<int32_t>(choose.below(20, 90)), model->config().end_ids.front());
    const Decoding plain = decode(model, threads, prompt, options);
    options.drafts = 1 + static_cast<int32_t>(choose.below(21, 6));
    const Decoding drafted = decode(model, threads, prompt, options);
    ASSERT_EQ(drafted.canvas, plain.canvas);
    ASSERT_EQ(drafted.commits, plain.commits) << "confidences included";
    ASSERT_LE(drafted.passes, plain.passes);
    fewer += drafted.passes < plain.passes ? 1 : 0;
  }
  EXPECT_GT(fewer, 20);
}

TEST(BlockDraftsRefused, WhereTheyWouldNotBeExact) {
  const ModelConfig config = tiny_block_config(4);
  const auto refusal = [&](const auto& change) -> std::string {
    GenerationOptions options;
    options.gen_length = 8;
    options.drafts = 3;
    change(options);
    try {
      make_decoder(config, options, {1, 2});
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal([](GenerationOptions&) {}), "");
  EXPECT_EQ(refusal([](GenerationOptions& o) { o.drafts = 33; }), "--drafts is 33; expected 1 to 32");
  EXPECT_EQ(refusal([](GenerationOptions& o) { o.drafts = 0; }), "--drafts is 0; expected 1 to 32");
  EXPECT_EQ(refusal([](GenerationOptions& o) { o.edit = "tau=0.5"; }),
            "--drafts has no effect here: --edit may replace any token of a block");
  EXPECT_EQ(refusal([](GenerationOptions& o) { o.presence_penalty = 1; }),
            "--presence-penalty has no effect here: a pass may write the tokens of several steps (--drafts)");
  EXPECT_EQ(refusal([](GenerationOptions& o) { o.min_p = 0.1; }), "");
}

}  // namespace
}  // namespace lacuna::block_drafts_test
