#include "decode/make_decoder.h"

#include <gmock/gmock.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/tiny_models.h"

namespace lacuna::make_decoder_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;

ModelConfig llada() {
  return tiny_configs()[0];
}
ModelConfig dream() {
  return tiny_configs()[4];
}
ModelConfig qwen() {
  return tiny_configs()[5];
}

/// A model and the default strategy of its paradigm, for each paradigm.
std::vector<std::pair<ModelConfig, Strategy>> each_paradigm() {
  return {{llada(), MaskedStrategy()},
          {tiny_block_config(4), BlockStrategy()},
          {tiny_gidd_config(1000), UniformStrategy()},
          {tiny_canvas_config(), CanvasStrategy()},
          {tiny_refusion_config(), SlotStrategy()},
          {qwen(), CausalStrategy()}};
}

std::vector<std::string> fields(const std::vector<Problem>& problems) {
  std::vector<std::string> names;
  for (const Problem& problem : problems) names.push_back(problem.field);
  return names;
}

std::vector<std::string> wrong_fields(const Strategy& strategy, const ModelConfig& config) {
  return fields(validate(strategy, config));
}

TEST(Strategy, OfAParadigmIsValidByDefaultAndMakesADecoder) {
  for (const auto& [config, strategy] : each_paradigm()) {
    EXPECT_THAT(validate(strategy, config), IsEmpty()) << describe(strategy);
    EXPECT_THAT(validate(strategy, config, {{1, 2}, 8}), IsEmpty()) << describe(strategy);
    EXPECT_EQ(paradigm_of(strategy), config.paradigm());
    const auto decoder = make_decoder(config, strategy, {{1, 2}, 8});
    EXPECT_FALSE(decoder->done());
  }
}

TEST(Strategy, IsOfOneParadigmAlone) {
  for (const auto& [config, own] : each_paradigm()) {
    for (const auto& [other, strategy] : each_paradigm()) {
      if (other.paradigm() == config.paradigm()) continue;
      const std::vector<Problem> problems = validate(strategy, config);
      ASSERT_EQ(problems.size(), 1U);
      EXPECT_EQ(problems[0].field, "paradigm");
      EXPECT_EQ(problems[0].value, name_of(other.paradigm()));
      EXPECT_EQ(problems[0].expected, name_of(config.paradigm()));
    }
  }
}

TEST(Validate, NamesFieldValueAndWhatIsExpected) {
  MaskedStrategy strategy;
  strategy.sampling.temperature = -1;
  const std::vector<Problem> problems = validate(strategy, llada());
  EXPECT_THAT(problems, ElementsAre(Problem{"temperature", "-1", "0 to 1000",
                                            "`temperature` is -1; expected 0 to 1000"}));
}

ModelConfig rnd1() {
  ModelConfig config = dream();
  config.family = "rnd1";
  config.diffusion_steps = 7;
  return config;
}

/// Passes of a decoder whose model is equally sure of everything.
int32_t passes_of(const MaskedStrategy& strategy, const ModelConfig& config, int32_t gen_length) {
  DecodeRequest request;
  request.prompt = {1, 2};
  request.gen_length = gen_length;
  const std::unique_ptr<Decoder> decoder = make_decoder(config, strategy, request);
  int32_t passes = 0;
  for (; !decoder->done(); ++passes) {
    std::vector<RowStatistics> samples(decoder->plan().logits.size());
    for (RowStatistics& row : samples) row.token = 5;
    decoder->apply({samples});
  }
  return passes;
}

TEST(MakeDecoder, GivesRnd1sScheduleThePublishedStepsUnlessBlocksDivideIt) {
  MaskedStrategy strategy;
  strategy.commit = UnmaskRule{{LinearSchedule{}}, ConfidenceMeasure::kNegativeEntropy};
  EXPECT_EQ(passes_of(strategy, rnd1(), 16), 7);
  EXPECT_EQ(passes_of(strategy, rnd1(), 5), 5) << "steps that would write nothing are skipped";
  strategy.block_length = 4;
  EXPECT_EQ(passes_of(strategy, rnd1(), 16), 16);
  strategy.steps = 8;
  EXPECT_EQ(passes_of(strategy, rnd1(), 16), 8);
  strategy.commit = UnmaskRule{{EvenSplit{}}};
  strategy.steps.reset();
  strategy.block_length.reset();
  EXPECT_EQ(passes_of(strategy, rnd1(), 16), 16) << "another rule takes one step for each position";
}

TEST(Validate, FindsEveryProblemAtOnce) {
  MaskedStrategy strategy;
  strategy.steps = 8;
  strategy.commit = UnmaskRule{{Threshold{2}}};
  strategy.cfg_scale = -1;
  strategy.cache = FreeCache{-1};
  strategy.lock.emplace().gate = 120;
  EXPECT_THAT(wrong_fields(strategy, llada()),
              ElementsAre("cfg_scale", "cache_block", "lock", "unmask", "steps"));
}

TEST(Validate, RefusesWhatASparseCacheCannotHave) {
  MaskedStrategy strategy;
  strategy.cache = SparseDllm{0.001, 2, -1};
  EXPECT_THAT(wrong_fields(strategy, llada()), ElementsAre("refresh", "cache", "cache"));
  strategy.cache = SparseDllm{1, 99};
  EXPECT_THAT(wrong_fields(strategy, llada()), IsEmpty());
  strategy.lock.emplace();
  EXPECT_THAT(wrong_fields(strategy, llada()), ElementsAre("lock"));
  strategy.lock.reset();
  strategy.suffix = 4;
  EXPECT_THAT(wrong_fields(strategy, llada()), ElementsAre("suffix"));
  strategy = {};
  strategy.cache = SparseDllm{};
  strategy.commit = UnmaskRule{{Prophet{}}};
  EXPECT_THAT(wrong_fields(strategy, llada()), ElementsAre("cache"));
  strategy.commit = UnmaskRule{{Remasking{}}};
  EXPECT_THAT(wrong_fields(strategy, llada()), ElementsAre("cache"));
}

TEST(Validate, RefusesWhatACacheOfLayersCannotHave) {
  MaskedStrategy strategy;
  strategy.cache = DllmCache{.ratio = 0, .answer = 0, .refresh = 0};
  EXPECT_THAT(wrong_fields(strategy, llada()), ElementsAre("refresh", "cache", "cache"));
  strategy.cache = DllmCache{};
  EXPECT_THAT(wrong_fields(strategy, llada()), IsEmpty());
  strategy.lock.emplace();
  strategy.suffix = 4;
  strategy.prompt_block = 4;
  EXPECT_THAT(wrong_fields(strategy, llada()), IsSupersetOf({"lock", "suffix", "prompt_block"}));
  strategy = {};
  strategy.cache = DllmCache{};
  strategy.commit = UnmaskRule{{SlowFast{}}};
  EXPECT_THAT(wrong_fields(strategy, llada()), Contains("cache"));
}

TEST(Validate, RefusesWhatD2CacheCannotHave) {
  MaskedStrategy strategy;
  strategy.cache = D2Cache{0, 2, 0, -1, -1};
  EXPECT_THAT(wrong_fields(strategy, llada()), ElementsAre("refresh", "cache", "cache", "cache", "cache"));
  strategy.cache = D2Cache{};
  EXPECT_THAT(wrong_fields(strategy, llada()), IsEmpty());
  strategy.lock.emplace();
  strategy.suffix = 4;
  strategy.prompt_block = 4;
  EXPECT_THAT(wrong_fields(strategy, llada()), IsSupersetOf({"suffix", "lock", "prompt_block"}));
  strategy = {};
  strategy.cache = D2Cache{};
  const std::vector<UnmaskPolicy> refused = {
      {Prophet{}},       {Remasking{}},  {SlowFast{}},         {Klass{}},
      {AdaptiveBlock{}}, {MultiBlock{}}, {AncestralSampling{}}};
  for (const UnmaskPolicy& unmask : refused) {
    strategy.commit = UnmaskRule{unmask};
    EXPECT_THAT(wrong_fields(strategy, llada()), ElementsAre("cache")) << unmask.count.index();
  }
  strategy.commit = UnmaskRule{{Threshold{}}};
  ModelConfig sliding = llada();
  sliding.sliding.emplace();
  EXPECT_THAT(wrong_fields(strategy, sliding), ElementsAre("cache"));
}

TEST(Validate, CountsTheStepsOfAnInfillByTheBlockThatItsTextNeeds) {
  const ModelConfig config = tiny_editing_config();  // blocks of 8
  BlockStrategy strategy;
  strategy.unmask = UnmaskRule{{Dynamic{0.5}}};
  DecodeRequest request;
  request.prompt = {1, 2};
  request.context.answer.assign(12, static_cast<TokenId>(config.mask_id));  // a block of 16
  for (const int32_t steps : {1, 15, 16, 17, 1000}) {
    strategy.steps = steps;
    EXPECT_THAT(validate(strategy, config, request), IsEmpty()) << steps;
  }
  strategy.steps = 1001;
  EXPECT_THAT(validate(strategy, config, request),
              ElementsAre(Problem{"steps", "1001", "1 to 1000", "`steps` is 1001; expected 1 to 1000"}));
}

TEST(Validate, TakesMoreStepsThanABlockHasPositionsWhereItIsEdited) {
  BlockStrategy strategy;
  strategy.unmask = UnmaskRule{{Dynamic{0.5}}};
  strategy.steps = 32;
  for (const int32_t block_length : {8, 16, 32, 64}) {
    strategy.block_length = block_length;
    EXPECT_THAT(validate(strategy, tiny_editing_config()), IsEmpty()) << block_length;
  }
  strategy.block_length = 8;
  EXPECT_THAT(wrong_fields(strategy, tiny_block_config(8)), ElementsAre("steps"));
  strategy.edit = TokenEditing{};
  EXPECT_THAT(wrong_fields(strategy, tiny_block_config(8)), IsEmpty()) << "LLaDA 2.1";
}

TEST(Validate, FindsWhatAStrategyWouldIgnore) {
  MaskedStrategy filters;
  filters.sampling.top_p = 0.5;
  EXPECT_THAT(wrong_fields(filters, llada()), ElementsAre("top_p"));
  EXPECT_THAT(wrong_fields(filters, dream()), IsEmpty()) << "Dream measures its confidence after filters";
  MaskedStrategy blind;
  blind.commit = UnmaskRule{{EvenSplit(), UnmaskOrder::kRandom, 0.5F}};
  EXPECT_THAT(wrong_fields(blind, dream()), ElementsAre("alg_temp"));
  MaskedStrategy of_blocks;
  of_blocks.commit = UnmaskRule{{Dynamic()}};
  EXPECT_THAT(wrong_fields(of_blocks, llada()), ElementsAre("unmask"));
  BlockStrategy after;
  after.sparse_after = 2;
  EXPECT_THAT(wrong_fields(after, tiny_block_config(4)), ElementsAre("sparse_after"));
  BlockStrategy kept;
  kept.sparse = Losa{.budget = 16, .dense_layers = 0};
  EXPECT_THAT(wrong_fields(kept, tiny_block_config(4)), IsEmpty());
  kept.commits_sparsely = true;
  EXPECT_THAT(wrong_fields(kept, tiny_block_config(4)), ElementsAre("sparse_commit"));
  BlockStrategy unlocking;
  unlocking.lock.emplace().unlock_every = 4;
  EXPECT_THAT(wrong_fields(unlocking, tiny_block_config(4)), ElementsAre("lock"));
  unlocking.lock->unlock_every = 0;
  EXPECT_THAT(wrong_fields(unlocking, tiny_block_config(4)), IsEmpty());
  BlockStrategy long_blocks;
  long_blocks.block_length = 516;
  EXPECT_THAT(wrong_fields(long_blocks, tiny_block_config(4)), ElementsAre("block_length"))
      << "the model has 512 positions";
  long_blocks.block_length = 512;
  EXPECT_THAT(wrong_fields(long_blocks, tiny_block_config(4)), IsEmpty());
  BlockStrategy unjudged;
  unjudged.accepts_exactly = true;
  EXPECT_THAT(wrong_fields(unjudged, tiny_block_config(4)), ElementsAre("accept"));
  EXPECT_THAT(wrong_fields(unjudged, tiny_nemotron_config()), IsEmpty());
  BlockStrategy pipelined;
  pipelined.pipeline = Pipeline();
  EXPECT_THAT(wrong_fields(pipelined, tiny_block_config(4)), ElementsAre("unmask")) << "no threshold";
  pipelined.unmask.policy.count = Dynamic();
  EXPECT_THAT(wrong_fields(pipelined, tiny_block_config(4)), IsEmpty());
  EXPECT_THAT(wrong_fields(pipelined, tiny_nemotron_config()), ElementsAre("pipeline"));
  BlockStrategy soft;
  soft.unmask.policy.count = SoftTokens();
  EXPECT_THAT(wrong_fields(soft, tiny_block_config(4)), IsEmpty());
  EXPECT_THAT(wrong_fields(soft, tiny_d2f_config(4)), ElementsAre("unmask"));
  EXPECT_THAT(wrong_fields(soft, tiny_nemotron_config()), ElementsAre("unmask"));
  EXPECT_THAT(wrong_fields(soft, tiny_editing_config()), ElementsAre("unmask"));
  soft.edit = TokenEditing();
  soft.lock.emplace();
  soft.steps = 2;
  EXPECT_THAT(wrong_fields(soft, tiny_block_config(4)), ElementsAre("steps", "edit", "lock", "lock"));
  soft = {};
  soft.unmask = {{SoftTokens{-1, 2}}, ConfidenceMeasure::kMargin};
  EXPECT_THAT(wrong_fields(soft, tiny_block_config(4)), ElementsAre("unmask", "unmask", "unmask"));
  of_blocks.commit = UnmaskRule{{SoftTokens()}};
  EXPECT_THAT(wrong_fields(of_blocks, llada()), ElementsAre("unmask"));
  ModelConfig shifted = tiny_block_config(4);
  shifted.shifted_logits = true;
  EXPECT_THAT(wrong_fields(pipelined, shifted), ElementsAre("pipeline"));
  EXPECT_THAT(wrong_fields(pipelined, tiny_d2f_config(4, true)), IsEmpty());
  EXPECT_THAT(wrong_fields(pipelined, tiny_editing_config()), ElementsAre("pipeline"));
  pipelined.commit = BlockStrategy::Commit::kSeparate;
  pipelined.edit = TokenEditing();
  pipelined.sparse = Mage{.budget = 4, .dense_layers = 0};
  pipelined.lock.emplace();
  pipelined.pipeline->add = 1.5;
  EXPECT_THAT(wrong_fields(pipelined, tiny_block_config(4)),
              ElementsAre("lock", "pipeline", "edit", "sparse", "lock", "commit"));
  EXPECT_THAT(wrong_fields(BlockStrategy(), tiny_d2f_config(4)), IsEmpty());
  BlockStrategy locked;
  locked.lock.emplace();
  EXPECT_THAT(wrong_fields(locked, tiny_d2f_config(4)), ElementsAre("lock"));
  BlockStrategy seeded;
  seeded.commit = BlockStrategy::Commit::kSeparate;
  seeded.sparse = Mage{.budget = 4, .dense_layers = 0};
  seeded.edit = TokenEditing();
  EXPECT_THAT(wrong_fields(seeded, tiny_nemotron_config()), ElementsAre("commit", "edit", "sparse"));
  UniformStrategy boundary;
  boundary.boundary = BoundaryRefresh();
  EXPECT_THAT(wrong_fields(boundary, tiny_gidd_config(1000)), ElementsAre("boundary"));
  UniformStrategy in_blocks;
  in_blocks.block_length = 8;
  in_blocks.cache = UniformCacheKind::kUniform;
  in_blocks.boundary = BoundaryRefresh();
  in_blocks.drift = DriftRefresh();
  EXPECT_THAT(wrong_fields(in_blocks, tiny_sumi_config()), ElementsAre("block_length", "boundary", "drift"));
  UniformStrategy inexact;
  inexact.cache = UniformCacheKind::kPrefix;
  EXPECT_THAT(wrong_fields(inexact, tiny_gidd_config(1000)), IsEmpty());
  EXPECT_THAT(wrong_fields(inexact, tiny_sumi_config()), ElementsAre("cache")) << "prompts see the noise";
  UniformStrategy greedy;
  greedy.sampler = UniformSampler::kGreedy;
  greedy.sampling.temperature = 1;
  EXPECT_THAT(wrong_fields(greedy, tiny_sumi_config()), ElementsAre("temperature"));
  SlotStrategy recomputed;
  recomputed.recomputes_kv = true;
  EXPECT_THAT(wrong_fields(recomputed, tiny_refusion_config()), ElementsAre("kv"));
  SlotStrategy apart;
  apart.verifies_fills = false;
  apart.recomputes_apart = true;
  EXPECT_THAT(wrong_fields(apart, tiny_refusion_config()), ElementsAre("kv"));
  apart.recomputes_kv = true;
  EXPECT_THAT(wrong_fields(apart, tiny_refusion_config()), IsEmpty());
  SlotStrategy paper;
  paper.rules = RefusionRules::kPaper;
  paper.revoke = 0.5;
  EXPECT_THAT(wrong_fields(paper, tiny_refusion_config()), ElementsAre("revoke"));
}

TEST(Validate, KnowsWhatDependsOnTheRequest) {
  MaskedStrategy strategy;
  strategy.block_length = 3;
  EXPECT_THAT(validate(strategy, llada()), IsEmpty());
  EXPECT_THAT(fields(validate(strategy, llada(), {{1, 2}, 8})), ElementsAre("block_length"));
  EXPECT_THAT(validate(strategy, llada(), {{1, 2}, 9}), IsEmpty());
  EXPECT_THAT(fields(validate(MaskedStrategy(), llada(), {{1, 97}, 8})), ElementsAre("prompt"));
  EXPECT_THAT(fields(validate(MaskedStrategy(), llada(), {{1}, 0})), ElementsAre("gen_length"));
  EXPECT_THAT(fields(validate(MaskedStrategy(), llada(), {{1}, 5000})), ElementsAre("gen_length"));
  EXPECT_THAT(fields(validate(MaskedStrategy(), llada(), {std::vector<TokenId>(4096, 1)})),
              ElementsAre("prompt"));
  EXPECT_THAT(fields(validate(CausalStrategy(), qwen(), {{}, 8})), ElementsAre("prompt"));
  DecodeRequest stops{{1, 2}, 8};
  stops.context.find_stop = [](std::span<const TokenId>) { return std::optional<int32_t>(); };
  EXPECT_THAT(fields(validate(MaskedStrategy(), llada(), stops)), ElementsAre("stop"));
  EXPECT_THAT(validate(CausalStrategy(), qwen(), stops), IsEmpty());
}

TEST(Validate, WantsAGuideWhereTheStrategyLeavesTheChoiceToOneAndNowhereElse) {
  const ModelConfig guide = qwen();
  DecodeRequest request{{1, 2}, 8};
  MaskedStrategy guided;
  guided.commit = GuideRule();
  EXPECT_THAT(fields(validate(guided, llada(), request)), ElementsAre("guide"));
  request.context.guide = GuideContext{&guide, {1, 2}, shared_vocabulary(llada(), guide)};
  EXPECT_THAT(validate(guided, llada(), request), IsEmpty());
  EXPECT_THAT(fields(validate(MaskedStrategy(), llada(), request)), ElementsAre("guide"));
  EXPECT_THAT(fields(validate(CausalStrategy(), qwen(), request)), ElementsAre("guide"));
  guided.sampling = {0.5, 0.9, 5};  // of the drafts
  EXPECT_THAT(validate(guided, llada(), request), IsEmpty());
  guided.sampling.temperature = 0;
  guided.steps = 4;
  EXPECT_THAT(wrong_fields(guided, llada()), ElementsAre("top_p", "top_k", "steps"));
  EXPECT_THAT(wrong_fields(guided, dream()), ElementsAre("top_p", "top_k", "steps"));
}

TEST(Validate, WantsASmallerModelOfTheSameKindWhereItDrafts) {
  const ModelConfig config = tiny_block_config(4);
  DecodeRequest request{{1, 2}, 8};
  BlockStrategy guided;
  guided.guided = true;
  EXPECT_THAT(fields(validate(guided, config, request)), ElementsAre("guide"));
  ModelConfig guide = config;
  request.context.guide = GuideContext{&guide, {1, 2}, shared_vocabulary(config, guide)};
  guide.num_layers = 1;
  EXPECT_THAT(validate(guided, config, request), IsEmpty());
  EXPECT_THAT(fields(validate(BlockStrategy(), config, request)), ElementsAre("guide"));
  for (const auto change :
       {+[](ModelConfig& other) { other = tiny_configs()[5]; },
        +[](ModelConfig& other) { ++other.vocab_size; }, +[](ModelConfig& other) { --other.mask_id; },
        +[](ModelConfig& other) { other.block_length = 8; },
        +[](ModelConfig& other) { other.shifted_logits = true; },
        +[](ModelConfig& other) { other.whole_prompt = true; }}) {
    change(guide);
    EXPECT_THAT(fields(validate(guided, config, request)), testing::Contains("guide"));
    guide = config;
  }
  guide.block_length = 8;
  guided.block_length = 4;
  EXPECT_THAT(validate(guided, config, request), IsEmpty()) << "blocks as long as requested";
  guide.max_positions = 9;
  EXPECT_THAT(fields(validate(guided, config, request)), ElementsAre("gen_length"));
  guide = config;
  request.context.num_alternatives = 2;
  request.context.adjustments.min_p = 0.1;
  EXPECT_THAT(fields(validate(guided, config, request)), ElementsAre("min_p", "alternatives"));
}

TEST(Validate, RefusesWhatNeedsRowsThatAVerifyPassDoesNotCompute) {
  BlockStrategy guided;
  guided.guided = true;
  EXPECT_THAT(wrong_fields(guided, tiny_block_config(4)), IsEmpty());
  guided.commit = BlockStrategy::Commit::kSeparate;
  guided.focus = 1.5;
  EXPECT_THAT(wrong_fields(guided, tiny_block_config(4)), ElementsAre("focus", "commit"));
  guided = {};
  guided.guided = true;
  for (const auto change :
       {+[](BlockStrategy& one) { one.edit = TokenEditing(); }, +[](BlockStrategy& one) { one.drafts = 3; },
        +[](BlockStrategy& one) { one.lock.emplace(); },
        +[](BlockStrategy& one) { one.sparse = Mage{.budget = 4, .dense_layers = 0}; },
        +[](BlockStrategy& one) { one.unmask.policy.count = SoftTokens(); }}) {
    BlockStrategy other = guided;
    change(other);
    EXPECT_THAT(wrong_fields(other, tiny_block_config(4)), ElementsAre("guide"));
  }
  EXPECT_THAT(wrong_fields(guided, tiny_nemotron_config()), ElementsAre("guide"));
  EXPECT_THAT(wrong_fields(guided, tiny_d2f_config(4)), ElementsAre("guide"));
  EXPECT_THAT(wrong_fields(guided, tiny_editing_config()), testing::Contains("guide"));
}

TEST(Validate, KnowsWhatACanvasCannotDo) {
  const ModelConfig config = tiny_canvas_config();
  const auto wrong = [&](const auto& change) {
    CanvasStrategy strategy;
    change(strategy);
    return wrong_fields(strategy, config);
  };
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.temperature = 0.5; }), ElementsAre("temperature"));
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.temperature = 0; }), IsEmpty());
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.block_length = 0; }), ElementsAre("block_length"));
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.block_length = 1025; }), ElementsAre("block_length"));
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.block_length = 1024; }), IsEmpty());
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.steps = 0; }), ElementsAre("steps"));
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.entropy_bound = -0.1; }), ElementsAre("unmask"));
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.entropy_bound = 0; }), IsEmpty());
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.stop_entropy = -1; }), ElementsAre("stop_entropy"));
  EXPECT_THAT(wrong([](CanvasStrategy& s) { s.soft_embedding_slack = 1.5; }),
              ElementsAre("soft_embedding_slack"));

  const auto of_prompt = [&](std::vector<TokenId> prompt) {
    return fields(validate(CanvasStrategy(), config, {std::move(prompt), 8}));
  };
  EXPECT_THAT(of_prompt({}), ElementsAre("prompt"));
  EXPECT_THAT(of_prompt({1, config.canvas->image_id}), ElementsAre("prompt"));
  EXPECT_THAT(of_prompt({1, config.canvas->image_id - 1}), IsEmpty());
  EXPECT_THAT(of_prompt(std::vector<TokenId>(4096 - 7, 1)), ElementsAre("gen_length"));
  EXPECT_THAT(of_prompt(std::vector<TokenId>(4096 - 8, 1)), IsEmpty());
  EXPECT_EQ(validate(CanvasStrategy(), config, {{91}, 8}).front().sentence,
            "`prompt` is with the image token 91; expected text alone");
}

TEST(MakeDecoder, TakesThePublishedSettingsOfACanvasWhereNothingElseIsSaid) {
  ModelConfig config = tiny_canvas_config();
  config.canvas->first_temperature = 1.5F;
  config.canvas->last_temperature = 0.5F;
  const auto decoder = make_decoder(config, CanvasStrategy(), {{1, 2}, 12});
  EXPECT_EQ(decoder->measurements().planned_steps(), 2 * 6);
  EXPECT_EQ(decoder->num_cells(), 2 + 16);
  EXPECT_EQ(decoder->plan().rules[0].temperature, 1.5F);
  EXPECT_TRUE(decoder->plan().rules[0].draws);
  EXPECT_EQ(decoder->plan().logits.size(), 8U);
  EXPECT_EQ(decoder->plan().logits[0].soft_embedding_slack, 1e-6F);

  CanvasStrategy strategy;
  strategy.block_length = 4;
  strategy.steps = 3;
  strategy.temperature = 0;
  strategy.soft_embedding_slack = 0;
  const auto other = make_decoder(config, strategy, {{1, 2}, 12});
  EXPECT_EQ(other->measurements().planned_steps(), 3 * 3);
  EXPECT_EQ(other->num_cells(), 2 + 12);
  EXPECT_FALSE(other->plan().rules[0].draws);
  EXPECT_EQ(other->plan().rules[0].temperature, 1.5F);
  EXPECT_EQ(other->plan().logits.size(), 4U);
  EXPECT_EQ(other->plan().logits[0].soft_embedding_slack, 0);
}

TEST(MakeDecoder, ThrowsTheFirstProblem) {
  MaskedStrategy strategy;
  strategy.block_length = 3;
  try {
    make_decoder(llada(), strategy, {{1, 2}, 8});
    FAIL() << "3 does not divide 8";
  } catch (const SettingError& error) {
    EXPECT_STREQ(error.what(), "`block_length` 3 does not divide `gen_length` 8");
    EXPECT_EQ(error.problem().field, "block_length");
  }
}

}  // namespace
}  // namespace lacuna::make_decoder_test
