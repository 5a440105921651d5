#include "options/choose.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "decode/fake_model.h"
#include "model/tiny_models.h"
#include "options/parse_policies.h"

namespace lacuna::choose_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

ModelConfig llada() {
  return tiny_configs()[0];
}
ModelConfig dream() {
  return tiny_configs()[4];
}
ModelConfig qwen() {
  return tiny_configs()[5];
}

using Change = std::function<void(GenerationOptions&)>;

std::unique_ptr<Decoder> make(const ModelConfig& config, const Change& change,
                              std::vector<TokenId> prompt = {1, 2}, TokenId end_of_turn = -1) {
  GenerationOptions options;
  options.gen_length = 8;
  change(options);
  return make_decoder(config, options, std::move(prompt), DecoderContext{end_of_turn});
}

SamplingRule rule_of(const ModelConfig& config, const Change& change, TokenId end_of_turn = -1) {
  return make(config, change, {1, 2}, end_of_turn)->plan().rules.at(0);
}

template <typename... Parts>
void expect_refusal(const ModelConfig& config, const Change& change, const Parts&... parts) {
  EXPECT_THAT([&] { make(config, change); }, ThrowsMessage<InputError>(AllOf(HasSubstr(parts)...)));
}

TEST(MakeDecoder, DefaultsToOneBlockOfOneStepPerPosition) {
  for (const ModelConfig& config : {llada(), dream()}) {
    const auto decoder = make_decoder(config, {}, {1, 2});
    EXPECT_EQ(decoder->canvas().size(), 130U);
    EXPECT_EQ(decoder->plan().logits.size(), 128U);
    FakeModel model;
    model.vocab = config.vocab_size;
    model.favour.assign(static_cast<size_t>(config.vocab_size), 0.0);
    model.favour[static_cast<size_t>(config.mask_id)] = -100;
    int passes = 0;
    model.run(*decoder, [&](const StepPlan&, const StepReport&) { ++passes; });
    EXPECT_EQ(passes, config.shifted_logits ? 127 : 128);  // Dream's first step commits nothing
  }
}

TEST(MakeDecoder, GivesEachFamilyItsOwnConfidence) {
  const auto nothing = [](GenerationOptions&) {};
  EXPECT_EQ(rule_of(llada(), nothing).measure, ConfidenceMeasure::kProbability);
  EXPECT_EQ(rule_of(llada(), nothing).source, ConfidenceSource::kRawLogits);
  EXPECT_EQ(rule_of(dream(), nothing).measure, ConfidenceMeasure::kNegativeEntropy);
  EXPECT_EQ(rule_of(dream(), nothing).source, ConfidenceSource::kSampled);
}

TEST(MakeDecoder, KnowsEveryNameOfAnUnmaskRuleWithDashesOrUnderscores) {
  const std::pair<const char*, ConfidenceMeasure> names[] = {
      {"low-confidence", ConfidenceMeasure::kProbability},
      {"low_confidence", ConfidenceMeasure::kProbability},
      {"maskgit", ConfidenceMeasure::kProbability},
      {"maskgit_plus", ConfidenceMeasure::kProbability},
      {"margin", ConfidenceMeasure::kMargin},
      {"topk_margin", ConfidenceMeasure::kMargin},
      {"topk-margin", ConfidenceMeasure::kMargin},
      {"entropy", ConfidenceMeasure::kNegativeEntropy},
      {"random", ConfidenceMeasure::kProbability},
      {"origin", ConfidenceMeasure::kProbability},
      {"local_leap", ConfidenceMeasure::kProbability},
      {"local-leap=0.8,radius=2", ConfidenceMeasure::kProbability},
      {"eb=0.1", ConfidenceMeasure::kNegativeEntropy},
      {"streaming=0.8,alpha=0.5", ConfidenceMeasure::kProbability},
      {"klass=0.6,kl=0.015", ConfidenceMeasure::kProbability},
      {"klass,history=3", ConfidenceMeasure::kProbability},
      {"saber=4", ConfidenceMeasure::kProbability},
      {"slow_fast", ConfidenceMeasure::kProbability},
      {"slow-fast=0.8,span=0.1", ConfidenceMeasure::kProbability},
      {"dsb=0.8,start=8", ConfidenceMeasure::kProbability},
      {"adablock=0.8,delimiter=0.4", ConfidenceMeasure::kProbability},
      {"d3llm=0.3", ConfidenceMeasure::kNegativeEntropy},
      {"threshold", ConfidenceMeasure::kProbability},
      {"threshold=0.9", ConfidenceMeasure::kProbability},
      {"factor=2", ConfidenceMeasure::kProbability},
      {"factor", ConfidenceMeasure::kProbability}};
  for (const ModelConfig& config : {llada(), dream()}) {
    for (const auto& entry : names) {
      const auto named = [&](GenerationOptions& o) { o.unmask = entry.first; };
      EXPECT_EQ(rule_of(config, named).measure, entry.second) << entry.first;
    }
  }
}

TEST(MakeDecoder, AnswersAnUnknownUnmaskRuleWithTheList) {
  for (const char* name :
       {"best", "", "low confidence", "thresholds=0.9", "=0.9", "threshold,kl=0.1", ",", "klas"}) {
    expect_refusal(
        llada(), [&](GenerationOptions& o) { o.unmask = name; }, "--unmask",
        "low-confidence, random, margin, entropy, maskgit, origin, p2, threshold=TAU, factor=F, "
        "local-leap=TAU, eb=E, streaming=TAU, klass=TAU, wino=TAU, saber=N, credit=TAU, slow-fast=TAU, "
        "dsb=TAU, adablock=TAU, d3llm=E or prophet");
  }
}

TEST(MakeDecoder, RefusesUnmaskValuesThatAreNoProbability) {
  for (const char* value : {"abc", "0", "1.5", "-1", "nan", "", "0.9x", "1e999"}) {
    expect_refusal(
        llada(), [&](GenerationOptions& o) { o.unmask = std::string("threshold=") + value; },
        "--unmask threshold=", std::string("'") + value + "'", "(0, 1]");
  }
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.unmask = "factor=-2"; }, "--unmask factor=-2", "'-2'");
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.unmask = "entropy=3"; }, "entropy", "no value");
}

TEST(MakeDecoder, ReadsTheNumbersOfAnUnmaskRuleInAnyOrder) {
  const auto rule = [](const char* text) { return parse_unmask(text, EvenSplit{}).policy.count; };
  EXPECT_EQ(rule("klass"), CountRule(Klass{}));
  EXPECT_EQ(rule("klass=0.6,history=3,kl=0.02"), CountRule(Klass{0.6, 0.02, 3}));
  EXPECT_EQ(rule("klass,kl=0.02"), CountRule(Klass{0.9, 0.02, 2}));
  EXPECT_EQ(rule("local_leap=0.8,radius=0"), CountRule(LocalLeap{0.8, 0.75, 0}));
  EXPECT_EQ(rule("local-leap,relaxed=1,local-leap=0.7"), CountRule(LocalLeap{0.7, 1, 4}));
  EXPECT_EQ(rule("wino=0.7,back=0.5"), CountRule(Wino{0.7, 0.5}));
  EXPECT_EQ(rule("saber=5"), CountRule(Saber{5}));
  EXPECT_EQ(rule("eb=0.5"), CountRule(EntropyBudget{0.5}));
  EXPECT_EQ(rule("streaming,alpha=0.5"), CountRule(DecayingThreshold{0.9, 0.5}));
  EXPECT_EQ(rule("credit=0.8,beta=1,alpha=0.5,gamma=2"), CountRule(TraceCredit{0.8, 0.5, 2, 1}));
  EXPECT_EQ(rule("slow-fast=0.8,slow=0.7,span=0.1,explore=3"), CountRule(SlowFast{0.8, 0.7, 0.1, 3}));
  EXPECT_EQ(rule("dsb"), CountRule(SlidingBlock{}));
  EXPECT_EQ(rule("dsb=0.8,start=16,most=24"), CountRule(SlidingBlock{0.8, 16, 24}));
  EXPECT_EQ(rule("soft"), CountRule(SoftTokens{0.5, 0.9}));
  EXPECT_EQ(rule("soft=0,accept=1"), CountRule(SoftTokens{0, 1}));
  EXPECT_EQ(rule("adablock"), CountRule(AdaptiveBlock{}));
  EXPECT_EQ(rule("adablock=0.8,delimiter=0.4"), CountRule(AdaptiveBlock{0.8, 0.4}));
  EXPECT_EQ(rule("d3llm"), CountRule(MultiBlock{}));
  EXPECT_EQ(rule("d3llm=0.3,add=0.5"), CountRule(MultiBlock{0.3, 0.5}));
  EXPECT_EQ(rule("prophet"), CountRule(Prophet{}));
  EXPECT_EQ(rule("prophet=8,mid=6,late=4,answer=0,length=3"), CountRule(Prophet{8, 6, 4, 0, 3}));
  const auto refused = [](const char* text, const auto&... parts) {
    expect_refusal(
        llada(), [&](GenerationOptions& o) { o.unmask = text; }, "--unmask", parts...);
  };
  refused("klass=0", "klass is '0'", "from 1e-09 to 1");
  refused("klass=1.5", "klass is '1.5'");
  refused("klass=", "klass is ''");
  refused("klass=0.9,kl=nan", "kl is 'nan'", "to 1000000");
  refused("klass=0.9,history=0", "history is '0'", "from 1 to");
  refused("klass=0.9,history=1.5", "history is '1.5'");
  refused("klass=0.9,radius=3", "klass knows no 'radius'; expected klass, kl, history");
  refused("klass=0.9,kl=0.1,kl=0.2", "kl is given twice");
  refused("klass,", "nothing follows the last comma");
  refused("klass=0.9,", "nothing follows the last comma");
  refused("klass,kl", "'kl' has no value");
  refused("local-leap=0.9,radius=-1", "radius is '-1'", "from 0 to");
  refused("local-leap=0.9,relaxed=2", "relaxed is '2'");
  refused("wino=0.6,back=0", "back is '0'");
  refused("saber=0", "saber is '0'", "from 1 to");
  refused("credit=0.9,beta=1.1", "beta is '1.1'");
  refused("prophet,answer=-1", "answer is '-1'", "from 0 to");
  refused("prophet,length=0", "length is '0'");
  refused("slow-fast,explore=0", "explore is '0'", "from 1 to");
  refused("slow-fast,span=2", "span is '2'");
  refused("dsb,most=0", "most is '0'", "from 1 to");
  refused("adablock,delimiter=2", "delimiter is '2'");
  refused("saber=2,least=3", "saber knows no 'least'; expected saber");
}

TEST(MakeDecoder, ChecksTheNumbersOfUnmaskRulesThatAreNotTyped) {
  const auto problems_of = [](const CountRule& rule) {
    MaskedStrategy strategy;
    strategy.commit = UnmaskRule{{rule}};
    return validate(strategy, llada());
  };
  EXPECT_THAT(problems_of(Klass{}), IsEmpty());
  EXPECT_THAT(problems_of(Klass{0, 0.01, 2}), SizeIs(1));
  EXPECT_THAT(problems_of(Klass{0.9, -1, 2}), SizeIs(1));
  EXPECT_THAT(problems_of(Klass{0.9, 0.01, 0}), SizeIs(1));
  EXPECT_THAT(problems_of(LocalLeap{0.9, 1.5, -1}), SizeIs(2));
  EXPECT_THAT(problems_of(Wino{2, 0}), SizeIs(2));
  EXPECT_THAT(problems_of(Saber{0}), SizeIs(1));
  EXPECT_THAT(problems_of(TraceCredit{0, 0, 0, 2}), SizeIs(4));
  EXPECT_THAT(problems_of(Prophet{0, 0, 0, -2, 0}), SizeIs(5));
  EXPECT_THAT(problems_of(SlowFast{0, 2, 0, 0}), SizeIs(4));
  EXPECT_THAT(problems_of(SlidingBlock{0, 0, 0}), SizeIs(3));
  EXPECT_THAT(problems_of(AdaptiveBlock{0, 2}), SizeIs(2));
  EXPECT_THAT(problems_of(MultiBlock{0, 2}), SizeIs(2));
}

TEST(MakeDecoder, RefusesRulesOfACanvasWhereThereIsNone) {
  for (const char* rule : {"origin", "p2", "local-leap", "eb", "streaming", "klass", "wino", "saber",
                           "credit", "slow-fast", "dsb", "adablock", "d3llm", "prophet"}) {
    expect_refusal(
        tiny_block_config(4), [&](GenerationOptions& o) { o.unmask = rule; },
        std::string("--unmask ") + rule);
  }
  expect_refusal(
      dream(), [](GenerationOptions& o) { o.unmask = "wino"; }, "--unmask", "predict the next one");
  expect_refusal(
      llada(),
      [](GenerationOptions& o) {
        o.unmask = "credit";
        o.temperature = 0.5;
      },
      "--temperature", "likeliest tokens");
  expect_refusal(
      llada(),
      [](GenerationOptions& o) {
        o.unmask = "prophet";
        o.lock = "eps=1e-3";
      },
      "--lock", "prophet");
  expect_refusal(
      llada(),
      [](GenerationOptions& o) {
        o.unmask = "slow-fast";
        o.lock = "eps=1e-3";
      },
      "--lock", "slow-fast do not see");
  for (const char* rule : {"klass", "eb", "streaming", "wino", "saber", "credit", "slow-fast", "dsb",
                           "adablock", "d3llm", "prophet"}) {
    const auto grows = [&](GenerationOptions& o) {
      o.unmask = rule;
      o.grow = "end-mass";
    };
    expect_refusal(llada(), grows, "--");
  }
}

TEST(AdaBlock, EndsBlocksAtTokensThatTheModelHas) {
  GenerationOptions options;
  options.unmask = "adablock";
  options.gen_length = 16;
  DecoderContext context;
  const auto make_with = [&] { return make_decoder(llada(), options, {1, 2}, context); };
  make_with();  // nothing is looked up
  context.token_of = [](std::string_view text) {
    return text == "\n" ? std::optional<TokenId>(5) : std::nullopt;
  };
  make_with();
  const auto refusal = [&] {
    try {
      make_with();
    } catch (const SettingError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  options.delimiter = {"\n", ". "};
  EXPECT_EQ(refusal(), "--delimiter is \". \"; expected a text that is one token of the model");
  options.delimiter = {};
  context.token_of = [](std::string_view) { return std::nullopt; };
  EXPECT_EQ(
      refusal(),
      "--unmask is adablock; expected another rule, or --delimiter TEXT: no token of the model ends a line");
  context.token_of = {};
  options.suffix = 4;
  EXPECT_THAT(refusal(), HasSubstr("--suffix has no effect here: --unmask adablock looks for the end"));
  options.suffix.reset();
  options.unmask = "threshold";
  options.delimiter = {"\n"};
  EXPECT_EQ(refusal(), "--delimiter has no effect here: it belongs to --unmask adablock");
}

TEST(MakeDecoder, RefusesNumbersOutOfRangeByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int32_t steps : {0, -3}) {
    expect_refusal(
        llada(), [&](GenerationOptions& o) { o.steps = steps; }, "--steps", std::to_string(steps),
        "expected 1 to");
  }
  for (const double top_p : {0.0, -0.5, 1.5, nan}) {
    expect_refusal(
        dream(), [&](GenerationOptions& o) { o.top_p = top_p; }, "--top-p", "to 1");
  }
  for (const double temperature : {-0.1, nan, 1e9}) {
    expect_refusal(
        qwen(), [&](GenerationOptions& o) { o.temperature = temperature; }, "--temperature", "expected 0 to");
  }
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.top_k = -1; }, "--top-k", "-1");
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.gen_length = 0; }, "--gen-length", "0", "expected 1 to");
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.cfg_scale = -1; }, "--cfg-scale", "-1");
  expect_refusal(
      dream(), [](GenerationOptions& o) { o.eps = 2; }, "--eps", "2");
  expect_refusal(
      dream(), [](GenerationOptions& o) { o.alg_temp = -1; }, "--alg-temp", "-1");
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.block_length = 9; }, "--block-length", "9", "1 to 8");
}

TEST(MakeDecoder, RefusesBlocksAndStepsThatDoNotDivide) {
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.block_length = 3; }, "--block-length 3", "--gen-length 8");
  const auto six_steps = [](GenerationOptions& o) {
    o.block_length = 2;
    o.steps = 6;
  };
  expect_refusal(llada(), six_steps, "--steps 6", "4 blocks");
}

TEST(MakeDecoder, RefusesWhatAnAutoregressiveModelWouldIgnore) {
  const std::pair<const char*, Change> flags[] = {
      {"--steps", [](GenerationOptions& o) { o.steps = 8; }},
      {"--block-length", [](GenerationOptions& o) { o.block_length = 8; }},
      {"--unmask", [](GenerationOptions& o) { o.unmask = "entropy"; }},
      {"--alg-temp", [](GenerationOptions& o) { o.alg_temp = 0; }},
      {"--eps", [](GenerationOptions& o) { o.eps = 0.1; }},
      {"--cfg-scale", [](GenerationOptions& o) { o.cfg_scale = 1; }},
      {"--logits-eos-inf", [](GenerationOptions& o) { o.logits_eos_inf = true; }},
      {"--confidence-eos-eot-inf", [](GenerationOptions& o) { o.confidence_eos_eot_inf = true; }},
      {"--suppress-mask", [](GenerationOptions& o) { o.suppress_mask = true; }},
      {"--eos-exit", [](GenerationOptions& o) { o.eos_exit = true; }},
      {"--cache", [](GenerationOptions& o) { o.cache = "dual"; }},
      {"--refresh", [](GenerationOptions& o) { o.refresh = 2; }},
      {"--cache-block", [](GenerationOptions& o) { o.cache_block = 2; }},
      {"--suffix", [](GenerationOptions& o) { o.suffix = 2; }},
      {"--prompt-block", [](GenerationOptions& o) { o.prompt_block = 2; }},
      {"--lock", [](GenerationOptions& o) { o.lock = "eps=1"; }}};
  for (const auto& [flag, change] : flags) expect_refusal(qwen(), change, flag, "autoregressive");
}

TEST(MakeDecoder, RefusesAPromptBlockWherePassesComputeThePromptAgain) {
  const auto refuse = [](auto&& change, const char* reason) {
    const auto with_block = [&](GenerationOptions& o) {
      o.prompt_block = 8;
      change(o);
    };
    expect_refusal(llada(), with_block, "--prompt-block", reason);
  };
  refuse([](GenerationOptions& o) { o.lock = "eps=1e-3"; }, "compares passes");
  refuse([](GenerationOptions& o) { o.cfg_scale = 1; }, "second sequence");
  refuse(
      [](GenerationOptions& o) {
        o.grow = "end-mass";
        o.unmask = "threshold=0.9";
      },
      "changes its length");
  refuse([](GenerationOptions& o) { o.prompt_block = 0; }, "expected 1 to");
}

TEST(MakeDecoder, RefusesASuffixWhereAllOfTheCanvasIsAsked) {
  for (const char* rule : {"prophet", "wino", "klass", "slow-fast"}) {
    const auto with_rule = [&](GenerationOptions& o) {
      o.suffix = 8;
      o.unmask = rule;
    };
    expect_refusal(llada(), with_rule, "--suffix");
  }
  const auto locks = [](GenerationOptions& o) {
    o.suffix = 8;
    o.lock = "eps=1e-3";
  };
  expect_refusal(llada(), locks, "--suffix", "did not see");
  const auto grows = [](GenerationOptions& o) {
    o.suffix = 8;
    o.grow = "end-mass";
    o.unmask = "threshold=0.9";
  };
  expect_refusal(llada(), grows, "--suffix", "changes its length");
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.suffix = -1; }, "--suffix", "expected 0 to");
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.suffix_dropout = "on"; }, "--suffix-dropout", "of --suffix");
  const auto misspelled = [](GenerationOptions& o) {
    o.suffix = 8;
    o.suffix_dropout = "decays=3";
  };
  expect_refusal(llada(), misspelled, "--suffix-dropout", "on, or decay or scale");
}

TEST(MakeDecoder, RefusesWhatAnUnmaskRuleWouldIgnore) {
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.ignore_eos = true; }, "--ignore-eos");
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.eps = 0.1; }, "--eps", "no time schedule");
  for (const char* rule : {"threshold=0.9", "factor=1"}) {
    const auto with = [&](const Change& change) {
      return [=](GenerationOptions& o) {
        o.unmask = rule;
        change(o);
      };
    };
    expect_refusal(llada(), with([](GenerationOptions& o) { o.steps = 8; }), "--steps");
    expect_refusal(dream(), with([](GenerationOptions& o) { o.eps = 0.1; }), "--eps");
    expect_refusal(dream(), with([](GenerationOptions& o) { o.alg_temp = 0.1; }), "--alg-temp");
  }
  for (const char* rule : {"random", "origin"}) {
    const auto blind = [&](GenerationOptions& o) {
      o.unmask = rule;
      o.alg_temp = 0.1;
    };
    expect_refusal(dream(), blind, "--alg-temp");
  }
}

TEST(MakeDecoder, RefusesWhatDoesNotGoWithARuleThatRemasks) {
  const auto with = [](auto change) {
    return [=](GenerationOptions& o) {
      o.unmask = "p2";
      change(o);
    };
  };
  expect_refusal(dream(), with([](GenerationOptions& o) { o.lock = "eps=1e-3"; }), "--lock", "masks again");
  expect_refusal(dream(), with([](GenerationOptions& o) { o.cache = "dkv"; }), "--cache", "masks again");
  expect_refusal(dream(), with([](GenerationOptions& o) { o.cache = "sparse-dllm"; }), "--cache",
                 "masks again");
  expect_refusal(dream(), with([](GenerationOptions& o) { o.cache = "d2cache"; }), "--cache", "masks again");
  expect_refusal(dream(), with([](GenerationOptions& o) { o.alg_temp = 0.1; }), "--alg-temp");
  expect_refusal(dream(), with([](GenerationOptions& o) { o.eps = 0.1; }), "--eps");
  for (const char* const rule : {"wino", "saber"}) {
    const auto also = [&](auto change) {
      return [=](GenerationOptions& o) {
        o.unmask = rule;
        change(o);
      };
    };
    expect_refusal(llada(), also([](GenerationOptions& o) { o.lock = "eps=1e-3"; }), "--lock", "masks again");
    expect_refusal(llada(), also([](GenerationOptions& o) { o.cache = "dkv"; }), "--cache", "masks again");
    expect_refusal(llada(), also([](GenerationOptions& o) { o.steps = 4; }), "--steps");
  }
  GenerationOptions options;
  options.unmask = "p2";
  for (const char* const cache : {"none", "prefix", "dual", "free"}) {
    options.cache = cache;
    EXPECT_NO_THROW(make_decoder(dream(), options, {1, 2}));
  }
}

TEST(MakeDecoder, RefusesPromptsThatTheModelCannotRead) {
  GenerationOptions options;
  options.gen_length = 128;
  const auto refuse = [&](const ModelConfig& config, std::vector<TokenId> prompt, const auto&... parts) {
    EXPECT_THAT([&] { make_decoder(config, options, prompt); },
                ThrowsMessage<InputError>(AllOf(HasSubstr(parts)...)));
  };
  refuse(llada(), {1, 97}, "prompt token 97 at index 1", "vocabulary of 97");
  refuse(llada(), {-1}, "prompt token -1 at index 0");
  refuse(qwen(), {}, "prompt is empty");
  refuse(llada(), std::vector<TokenId>(3969, 1), "3969", "--gen-length 128", "4097", "4096");
  EXPECT_NO_THROW(make_decoder(llada(), options, std::vector<TokenId>(3968, 1)));
  EXPECT_NO_THROW(
      make_decoder(llada(), GenerationOptions(), {}));  // a diffusion model may start from nothing
  expect_refusal(
      llada(), [](GenerationOptions& o) { o.gen_length = std::numeric_limits<int32_t>::max(); },
      "--gen-length");
}

TEST(MakeDecoder, NeverDrawsTheMaskWhereARuleWouldNotEnd) {
  const auto with = [](const char* rule) { return [=](GenerationOptions& o) { o.unmask = rule; }; };
  EXPECT_THAT(rule_of(llada(), with("low-confidence")).undrawn, IsEmpty());
  EXPECT_THAT(rule_of(llada(), with("threshold=0.5")).undrawn, ElementsAre(90));
  EXPECT_THAT(rule_of(dream(), with("factor=1")).undrawn, ElementsAre(90));
  EXPECT_THAT(rule_of(llada(), [](GenerationOptions& o) { o.suppress_mask = true; }).undrawn,
              ElementsAre(90));
}

TEST(MakeDecoder, SwitchesAgainstEndTokensActAsPublished) {
  const auto logits_inf = [](GenerationOptions& o) { o.logits_eos_inf = true; };
  EXPECT_THAT(rule_of(llada(), logits_inf, 88).forbidden, ElementsAre(89));
  EXPECT_THAT(rule_of(llada(), logits_inf, 88).unsure, IsEmpty());
  const auto confidence_inf = [](GenerationOptions& o) { o.confidence_eos_eot_inf = true; };
  EXPECT_THAT(rule_of(llada(), confidence_inf, 88).unsure, ElementsAre(89, 88));
  const auto warm = [](GenerationOptions& o) {
    o.confidence_eos_eot_inf = true;
    o.temperature = 0.5;
  };
  EXPECT_THAT(rule_of(llada(), warm, 88).unsure, ElementsAre(88));  // the published quirk
  ModelConfig endless = llada();
  endless.eos_id = -1;
  expect_refusal(endless, logits_inf, "--logits-eos-inf", "config.json");
  expect_refusal(endless, confidence_inf, "--confidence-eos-eot-inf", "config.json");
}

TEST(MakeDecoder, RefusesFiltersThatCannotChangeTheBestToken) {
  const auto filter_p = [](GenerationOptions& o) { o.top_p = 0.9; };
  const auto filter_k = [](GenerationOptions& o) { o.top_k = 5; };
  for (const ModelConfig& config : {llada(), qwen()}) {
    expect_refusal(config, filter_p, "--top-p", "--temperature 0");
    expect_refusal(config, filter_k, "--top-k", "--temperature 0");
    EXPECT_NO_THROW(make(config, [](GenerationOptions& o) { o.top_p = 1.0; }));
  }
  EXPECT_EQ(rule_of(dream(), filter_p).top_p, 0.9F);  // Dream measures its confidence after them
  expect_refusal(
      llada(),
      [](GenerationOptions& o) {
        o.confidence_eos_eot_inf = true;
        o.temperature = 0.5;
      },
      "--confidence-eos-eot-inf", "end-of-turn");
}

TEST(MakeDecoder, PassesOnEverySetting) {
  const auto everything = [](GenerationOptions& o) {
    o.temperature = 0.7;
    o.top_p = 0.9;
    o.top_k = 5;
    o.cfg_scale = 1.5;
    o.seed = 3;
    o.block_length = 4;
    o.steps = 2;
  };
  const auto decoder = make(llada(), everything);
  const StepPlan& plan = decoder->plan();
  EXPECT_EQ(plan.rules[0].temperature, 0.7F);
  EXPECT_EQ(plan.rules[0].top_p, 0.9F);
  EXPECT_EQ(plan.rules[0].top_k, 5);
  EXPECT_EQ(plan.logits.size(), 4U);
  EXPECT_EQ(plan.logits[0].guidance, 1.5F);
  EXPECT_EQ(decoder->num_sequences(), 2);
  const auto other_seed = make(llada(), [&](GenerationOptions& o) {
    everything(o);
    o.seed = 4;
  });
  EXPECT_NE(other_seed->plan().logits[0].noise, plan.logits[0].noise);
}

TEST(MakeDecoder, RefusesWhatACanvasWouldIgnore) {
  const std::pair<const char*, Change> flags[] = {
      {"--top-p", [](GenerationOptions& o) { o.top_p = 0.9; }},
      {"--top-k", [](GenerationOptions& o) { o.top_k = 5; }},
      {"--alg-temp", [](GenerationOptions& o) { o.alg_temp = 0; }},
      {"--eps", [](GenerationOptions& o) { o.eps = 0.1; }},
      {"--cfg-scale", [](GenerationOptions& o) { o.cfg_scale = 1; }},
      {"--logits-eos-inf", [](GenerationOptions& o) { o.logits_eos_inf = true; }},
      {"--confidence-eos-eot-inf", [](GenerationOptions& o) { o.confidence_eos_eot_inf = true; }},
      {"--suppress-mask", [](GenerationOptions& o) { o.suppress_mask = true; }},
      {"--eos-exit", [](GenerationOptions& o) { o.eos_exit = true; }},
      {"--cache", [](GenerationOptions& o) { o.cache = "dual"; }},
      {"--refresh", [](GenerationOptions& o) { o.refresh = 2; }},
      {"--cache-block", [](GenerationOptions& o) { o.cache_block = 2; }},
      {"--suffix", [](GenerationOptions& o) { o.suffix = 2; }},
      {"--prompt-block", [](GenerationOptions& o) { o.prompt_block = 2; }},
      {"--lock", [](GenerationOptions& o) { o.lock = "eps=1"; }},
      {"--sparse", [](GenerationOptions& o) { o.sparse = "mage=8"; }},
      {"--commit", [](GenerationOptions& o) { o.commit = "apart"; }},
      {"--slot-size", [](GenerationOptions& o) { o.slot_size = 4; }},
      {"--tokens-per-step", [](GenerationOptions& o) { o.tokens_per_step = 4; }},
      {"--unmask", [](GenerationOptions& o) { o.unmask = "low-confidence"; }},
      {"--temperature", [](GenerationOptions& o) { o.temperature = 0.5; }},
      {"--block-length", [](GenerationOptions& o) { o.block_length = 0; }},
      {"--stop-entropy", [](GenerationOptions& o) { o.stop_entropy = -1; }}};
  for (const auto& [flag, change] : flags) expect_refusal(tiny_canvas_config(), change, flag);
}

TEST(MakeDecoder, KeepsTheFlagsOfACanvasToModelsThatHaveOne) {
  const Change stop = [](GenerationOptions& o) { o.stop_entropy = 0.01; };
  const Change conditioning = [](GenerationOptions& o) { o.self_conditioning = "exact"; };
  for (const ModelConfig& config :
       {llada(), dream(), qwen(), tiny_block_config(4), tiny_refusion_config(), tiny_gidd_config(1000)}) {
    expect_refusal(config, stop, "--stop-entropy", "DiffusionGemma");
    expect_refusal(config, conditioning, "--self-conditioning", "DiffusionGemma");
  }
  EXPECT_NO_THROW(make(tiny_canvas_config(), stop));
}

TEST(ChooseStrategy, PassesOnEverySettingOfACanvas) {
  const auto chosen = [](const Change& change) {
    GenerationOptions options;
    change(options);
    return std::get<CanvasStrategy>(choose_strategy(tiny_canvas_config(), options));
  };
  EXPECT_EQ(chosen([](GenerationOptions&) {}), CanvasStrategy());
  EXPECT_EQ(chosen([](GenerationOptions& o) { o.unmask = "entropy-bounded"; }), CanvasStrategy());
  CanvasStrategy expected;
  expected.block_length = 4;
  expected.steps = 3;
  expected.entropy_bound = 0.25;
  expected.stop_entropy = 0.5;
  expected.temperature = 0;
  expected.soft_embedding_slack = 0.125;
  expected.ignore_eos = true;
  EXPECT_EQ(chosen([](GenerationOptions& o) {
              o.block_length = 4;
              o.steps = 3;
              o.unmask = "entropy-bounded=0.25";
              o.stop_entropy = 0.5;
              o.temperature = 0;
              o.self_conditioning = "0.125";
              o.ignore_eos = true;
            }),
            expected);
}

TEST(ChooseStrategy, ReadsHowMuchSelfConditioningMayLeaveOut) {
  const auto slack_of = [](const char* text) {
    GenerationOptions options;
    options.self_conditioning = text;
    return std::get<CanvasStrategy>(choose_strategy(tiny_canvas_config(), options)).soft_embedding_slack;
  };
  EXPECT_EQ(slack_of("exact"), 0);
  EXPECT_EQ(slack_of("0"), 0);
  EXPECT_EQ(slack_of("1e-4"), 1e-4);
  EXPECT_EQ(slack_of("1"), 1);
  for (const char* text : {"", "off", "exactly", "-0.1", "1.1", "nan", "inf", "0.1x", " 0.1", "1e999"}) {
    expect_refusal(
        tiny_canvas_config(), [&](GenerationOptions& o) { o.self_conditioning = text; },
        "--self-conditioning is '" + std::string(text) + "'", "expected exact or a probability from 0 to 1");
  }
}

ModelConfig dreamon_config() {
  ModelConfig config = tiny_configs()[4];
  config.expand_id = 7;
  config.delete_id = config.eos_id;
  return config;
}

TEST(ChooseStrategy, GivesRnd1ALinearScheduleForEveryOrder) {
  ModelConfig rnd1 = tiny_configs()[4];
  rnd1.family = "rnd1";
  rnd1.diffusion_steps = 256;
  const auto rule_of = [&](std::optional<std::string> unmask) {
    GenerationOptions options;
    options.unmask = std::move(unmask);
    return std::get<UnmaskRule>(std::get<MaskedStrategy>(choose_strategy(rnd1, options)).commit);
  };
  EXPECT_EQ(rule_of({}).policy.count, CountRule(LinearSchedule{}));
  EXPECT_EQ(rule_of({}).measure, ConfidenceMeasure::kNegativeEntropy);
  EXPECT_EQ(rule_of("margin").policy.count, CountRule(LinearSchedule{}));
  EXPECT_EQ(rule_of("random").policy.count, CountRule(LinearSchedule{}));
  EXPECT_EQ(rule_of("threshold=0.5").policy.count, CountRule(Threshold{0.5}));
  expect_refusal(
      rnd1, [](GenerationOptions& o) { o.eps = 1e-2; }, "--eps", "");
}

TEST(Growth, IsDreamOnsDefaultAndOthersOnlyWhereTheAnswerEndsByItself) {
  const auto masked = [](const ModelConfig& config, const GenerationOptions& options) {
    return std::get<MaskedStrategy>(choose_strategy(config, options));
  };
  GenerationOptions options;
  EXPECT_FALSE(masked(tiny_configs()[0], options).growth);
  const MaskedStrategy dreamon = masked(dreamon_config(), options);
  EXPECT_EQ(dreamon.growth, CanvasGrowth(TokenGrowth{}));
  EXPECT_EQ(dreamon.sampling.temperature, 0.2);
  EXPECT_EQ(dreamon.sampling.top_p, 0.9);
  EXPECT_EQ(std::get<UnmaskRule>(dreamon.commit).measure, ConfidenceMeasure::kNegativeEntropy);
  options.gen_length.is_auto = true;
  const MaskedStrategy ends = masked(tiny_configs()[0], options);
  EXPECT_EQ(ends.growth, CanvasGrowth(EndMassGrowth{}));
  EXPECT_EQ(std::get<UnmaskRule>(ends.commit).policy.count, CountRule(Threshold{0.9}));
  options.grow = "none";
  expect_refusal(
      tiny_configs()[0],
      [](GenerationOptions& o) {
        o.gen_length.is_auto = true;
        o.grow = "none";
      },
      "--gen-length is auto", "a number");
}

TEST(Growth, ReadsItsNumbersInAnyOrder) {
  GenerationOptions options;
  options.grow = "end-mass,by=4,start=16,tail=8,unsure=0.2,plenty=0.8,enough=0.4";
  EXPECT_EQ(*choose_growth(tiny_configs()[0], options), CanvasGrowth(EndMassGrowth{16, 4, 8, 0.4, 0.8, 0.2}));
  options.grow = "tokens,rest=drop,start=2";
  EXPECT_EQ(*choose_growth(dreamon_config(), options), CanvasGrowth(TokenGrowth{2, true}));
  options.grow = "tokens,budget=64";
  EXPECT_EQ(*choose_growth(dreamon_config(), options), CanvasGrowth(TokenGrowth{4, false, 64}));
  options.grow = "none";
  EXPECT_FALSE(choose_growth(dreamon_config(), options));
  for (const char* text : {"", "end-mass,", "end-mass,by=1", "end-mass,by", "end-mass,enough=1.1",
                           "end-mass,rest=drop", "tokens,by=2", "tokens,rest=no", "tokens,budget=0",
                           "end-mass,budget=4", "tokens,start=0", "end-mass,by=2,by=3", "daedal"}) {
    expect_refusal(
        dreamon_config(), [&](GenerationOptions& o) { o.grow = text; }, "--grow", "");
  }
}

TEST(Growth, RefusesWhatDoesNotGoWithIt) {
  const auto refused = [](auto change, const std::string& name) {
    expect_refusal(
        dreamon_config(), [&](GenerationOptions& o) { change(o); }, name, "");
  };
  refused([](GenerationOptions& o) { o.lock = "eps=1e-3"; }, "--lock");
  refused([](GenerationOptions& o) { o.steps = 8; }, "--steps");
  refused([](GenerationOptions& o) { o.block_length = 8; }, "--block-length");
  refused([](GenerationOptions& o) { o.unmask = "threshold=0.9"; }, "--unmask");
  refused([](GenerationOptions& o) { o.eos_exit = true; }, "--eos-exit");
  expect_refusal(
      tiny_configs()[0], [](GenerationOptions& o) { o.grow = "tokens"; }, "--grow is tokens",
      "end-mass or none");
  expect_refusal(
      tiny_configs()[5], [](GenerationOptions& o) { o.grow = "end-mass"; }, "--grow", "");
}

TEST(VisitOptions, NamesEachSettingOnce) {
  GenerationOptions options;
  std::set<std::string> names;
  int visits = 0;
  visit_options(options, [&](const Setting& setting, auto&) {
    ++visits;
    EXPECT_TRUE(names.emplace(setting.name).second) << setting.name;
    for (const std::string_view alias : setting.aliases) EXPECT_TRUE(names.emplace(alias).second) << alias;
    EXPECT_FALSE(setting.help.empty());
  });
  EXPECT_EQ(visits, 71);
}

BlockStrategy blocks_of(const ModelConfig& config, const GenerationOptions& options) {
  return std::get<BlockStrategy>(choose_strategy(config, options));
}

TEST(ChooseStrategy, D2fWritesSeveralBlocksAtOnceAsPublishedWhereTheRuleHasAThreshold) {
  for (const bool of_dream : {false, true}) {
    const ModelConfig d2f = tiny_d2f_config(4, of_dream);
    const BlockStrategy published = blocks_of(d2f, {});
    EXPECT_EQ(published.pipeline, (Pipeline{0.1, 0.95}));
    EXPECT_EQ(published.unmask.policy.count, CountRule(Dynamic{0.9}));
    GenerationOptions options;
    options.unmask = "low-confidence";
    EXPECT_FALSE(blocks_of(d2f, options).pipeline);
    EXPECT_NO_THROW(make_decoder(d2f, options, {1, 2}));
    options.unmask.reset();
    options.pipeline = "none";
    EXPECT_FALSE(blocks_of(d2f, options).pipeline);
    EXPECT_NE(blocks_of(d2f, options).unmask.policy.count, CountRule(Dynamic{0.9}));
  }
  EXPECT_FALSE(blocks_of(tiny_block_config(4), {}).pipeline);
}

TEST(ChooseStrategy, ReadsAPipelineAndGivesItARuleWithAThreshold) {
  const ModelConfig sdar = tiny_block_config(4);
  GenerationOptions options;
  options.pipeline = "add=0.5";
  EXPECT_EQ(blocks_of(sdar, options).pipeline, (Pipeline{0.5, 0.95}));
  EXPECT_EQ(blocks_of(sdar, options).unmask.policy.count, CountRule(Dynamic{0.9}));
  options.pipeline = "full=1,add=0";
  EXPECT_EQ(blocks_of(sdar, options).pipeline, (Pipeline{0, 1}));
  options.unmask = "threshold=0.7";
  EXPECT_EQ(blocks_of(sdar, options).unmask.policy.count, CountRule(Threshold{0.7}));
  const auto refusal = [&](const char* text) {
    options.pipeline = text;
    try {
      choose_strategy(sdar, options);
    } catch (const SettingError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("add=1.5"), HasSubstr("0 to 1"));
  EXPECT_THAT(refusal("blocks=2"), HasSubstr("expected add or full"));
  EXPECT_THAT(refusal("off"), HasSubstr("expected on, none, or shares"));
}

TEST(ChooseStrategy, OfSumiIsThePublishedSampler) {
  const ModelConfig sumi = tiny_sumi_config();
  UniformStrategy expected;
  expected.sampler = UniformSampler::kAncestral;
  expected.schedule = NoiseCurve::kLinear;
  expected.noise_shows_special = true;
  expected.sampling.temperature = 1;
  EXPECT_EQ(choose_strategy(sumi, {}), Strategy(expected));
  GenerationOptions options;
  options.temperature = 0.5;
  options.schedule = "cosine";
  options.noise = "safe";
  expected.sampling.temperature = 0.5;
  expected.schedule = NoiseCurve::kCosine;
  expected.noise_shows_special = false;
  EXPECT_EQ(choose_strategy(sumi, options), Strategy(expected));

  options = {};
  options.sampler = "greedy";
  EXPECT_EQ(std::get<UniformStrategy>(choose_strategy(sumi, options)).sampling.temperature, 0);
  options.sampler = "adaptive";
  ModelConfig published = sumi;
  published.default_tokens_per_step = 1;
  const auto adaptive = std::get<UniformStrategy>(choose_strategy(published, options));
  EXPECT_EQ(adaptive.tokens_per_step, 1);
  EXPECT_EQ(adaptive.sampling.temperature, 1);
  options.sampler = "best";
  EXPECT_THAT([&] { choose_strategy(sumi, options); },
              ThrowsMessage<InputError>(HasSubstr("expected adaptive, ancestral, greedy or threshold=0.9")));
}

TEST(ChooseStrategy, TheThresholdOfAUniformModelHasTwoNumbers) {
  const ModelConfig gidd = tiny_gidd_config(1000, 80);
  GenerationOptions options;
  const auto chosen = [&](const char* sampler) {
    options.sampler = sampler;
    return std::get<UniformStrategy>(choose_strategy(gidd, options));
  };
  EXPECT_EQ(chosen("threshold").sampler, UniformSampler::kThreshold);
  EXPECT_EQ(chosen("threshold").threshold, PreferenceThreshold());
  EXPECT_EQ(chosen("threshold=0.25").threshold, (PreferenceThreshold{0.25, 1}));
  EXPECT_EQ(chosen("threshold=0.25,least=0").threshold, (PreferenceThreshold{0.25, 0}));
  const auto refused = [&](const char* sampler, const char* sentence) {
    options.sampler = sampler;
    EXPECT_THAT([&] { make_decoder(gidd, options, {1}); }, ThrowsMessage<InputError>(HasSubstr(sentence)))
        << sampler;
  };
  refused("threshold=0", "--sampler is threshold=0; expected a threshold in (0, 1]");
  refused("threshold=2", "--sampler threshold is '2'; expected a number from 0 to 1");
  refused("threshold=0.5,most=1", "--sampler threshold has no 'most'; expected least");
  refused("threshold=", "--sampler threshold is ''");
  options.tokens_per_step = 2;
  refused("threshold=0.5", "--tokens-per-step has no effect here: it belongs to --sampler adaptive");
}

TEST(MakeDecoder, FillsTheGapsOfAnAnswerThatIsGiven) {
  const ModelConfig config = llada();
  DecoderContext context;
  context.answer = {config.mask_id, 5, config.mask_id, 6};
  const std::unique_ptr<Decoder> decoder = make_decoder(config, {}, {1, 2}, context);
  FakeModel model;
  model.vocab = config.vocab_size;
  model.favour.assign(90, 0);
  model.favour[89] = 100;  // an end token, which does not belong into a gap
  while (!decoder->done()) decoder->apply({model.forward(decoder->plan())});
  ASSERT_EQ(decoder->canvas().size(), 6U);
  EXPECT_EQ(decoder->num_final(), 4);
  EXPECT_EQ(decoder->canvas()[3], 5);
  EXPECT_EQ(decoder->canvas()[5], 6);
  for (const size_t gap : {2U, 4U}) {
    EXPECT_NE(decoder->canvas()[gap], config.mask_id);
    EXPECT_NE(decoder->canvas()[gap], 88);
    EXPECT_NE(decoder->canvas()[gap], 89);
  }
}

TEST(MakeDecoder, RefusesInfillWhereItCannotBe) {
  DecoderContext context;
  context.answer = {90, 5};
  GenerationOptions options;
  EXPECT_THAT(
      [&] {
        make_decoder(qwen(), options, {1, 2}, context);
      },
      ThrowsMessage<InputError>(HasSubstr("infill needs")));
  options.gen_length = 2;
  EXPECT_THAT(
      [&] {
        make_decoder(llada(), options, {1, 2}, context);
      },
      ThrowsMessage<InputError>(HasSubstr("--gen-length has no effect here")));
  context.answer = {90, 97};
  EXPECT_THAT(
      [&] {
        make_decoder(llada(), {}, {1, 2}, context);
      },
      ThrowsMessage<InputError>(HasSubstr("canvas token 97 is outside")));
}

TEST(ChooseLiterals, TakesDecodedOrGiven) {
  GenerationOptions options;
  EXPECT_FALSE(choose_literals(options));
  options.literals = "given";
  EXPECT_TRUE(choose_literals(options));
  options.literals = "decoded";
  EXPECT_FALSE(choose_literals(options));
  options.literals = "pinned";
  EXPECT_THROW(choose_literals(options), SettingError);
}

}  // namespace
}  // namespace lacuna::choose_test
