#include "engine/result.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "decode/masked_diffusion.h"
#include "model/tiny_models.h"
#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::result_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

MaskedDiffusionDecoder example_decoder() {
  MaskedDiffusion options;
  options.mask_id = 90;
  options.end_ids = {88, 89};
  options.gen_length = options.block_length = 3;
  options.steps = 1;
  return MaskedDiffusionDecoder(options, {1, 89});
}

TEST(AnswerPart, EndsBeforeTheFirstEndToken) {
  const std::vector<TokenId> tokens = {5, 6, 89, 7, 88};
  const std::vector<TokenId> ends = {88, 89};
  EXPECT_THAT(answer_part(tokens, ends), ElementsAre(5, 6));
  EXPECT_THAT(answer_part(tokens, {}), ElementsAre(5, 6, 89, 7, 88));
  EXPECT_THAT(answer_part(std::span(tokens).subspan(2), ends), IsEmpty());
  EXPECT_THAT(answer_part({}, ends), IsEmpty());
}

TEST(Result, HoldsWhatTheRequestGenerated) {
  MaskedDiffusionDecoder decoder = example_decoder();
  const std::vector<RowStatistics> drawn = {{7, 0.5}, {89, 0.5}, {8, 0.25}};
  decoder.plan();
  decoder.apply({drawn});
  ASSERT_TRUE(decoder.done());
  RunStatistics statistics;
  statistics.seconds = 0.5;
  const GenerationResult result = make_result(decoder, statistics, tiny_configs()[0], nullptr, 42);
  EXPECT_EQ(result.text, "");
  EXPECT_THAT(result.tokens, ElementsAre(7, 89, 8));
  EXPECT_EQ(result.prompt_tokens, 2);
  EXPECT_EQ(result.answer_tokens, 1);
  EXPECT_EQ(result.stop_reason, StopReason::kEndToken);
  EXPECT_EQ(result.seed, 42U);
  EXPECT_EQ(result.tokens_per_second(), 2);
  EXPECT_EQ(result.canvas_tokens_per_second(), 6);
  EXPECT_EQ(GenerationResult().tokens_per_second(), 0);
}

/// The explanation of an answer of these tokens, of which 'a' to 'z' are letters, 32 a space and 256 special.
std::string explain(const ModelConfig& config, std::vector<TokenId> tokens,
                    const std::vector<std::string>& stop = {}) {
  nlohmann::json json = tiny_tokenizer();
  add_token(json, 256, "<|mask|>", true);
  const Tokenizer tokenizer = Tokenizer::from_json(json.dump(), "tokenizer.json");
  GenerationResult result;
  const std::span<const TokenId> answer = answer_part(tokens, config.end_ids);
  result.text = tokenizer.decode(answer);
  result.text.resize(
      std::min(result.text.size(), stop.empty() ? std::string::npos : result.text.find(stop[0])));
  result.answer_tokens = static_cast<int32_t>(answer.size());
  result.tokens = std::move(tokens);
  return explain_no_text(result, config, &tokenizer, stop);
}

TEST(Result, SaysWhyAnAnswerHasNoTextAndWhatToTry) {
  ModelConfig llada = tiny_configs()[0];
  ModelConfig qwen = tiny_configs()[5];
  ModelConfig gidd = tiny_gidd_config(0);
  for (ModelConfig* config : {&llada, &qwen, &gidd}) config->end_ids = {0};
  EXPECT_EQ(explain(llada, {'a', 'b', 0, 0}), "");
  EXPECT_THAT(explain(llada, std::vector<TokenId>(128, 0)),
              AllOf(HasSubstr("all 128 tokens are end tokens"), HasSubstr("--gen-length, such as 64")));
  EXPECT_THAT(explain(llada, {0, 'a', 0}), HasSubstr("its first token is an end token"));
  EXPECT_THAT(explain(qwen, {0}), HasSubstr("--ignore-eos"));
  EXPECT_THAT(explain(gidd, {0, 0}), HasSubstr("--min-length"));
  EXPECT_THAT(explain(llada, {256, 256, 0}),
              AllOf(HasSubstr("2 tokens are special"), HasSubstr("--suppress-mask")));
  EXPECT_THAT(explain(llada, {' ', ' '}), HasSubstr("white space"));
  EXPECT_THAT(explain(qwen, {'x', 'y'}, {"x"}), HasSubstr("--stop"));
  EXPECT_THAT(explain_no_text({}, llada, nullptr), HasSubstr("no tokenizer"));
}

TEST(Result, PrintsTheObjectThatToolsRelyOn) {
  GenerationResult result;
  result.text = "a\"b";
  result.tokens = {4, 5};
  result.prompt_tokens = 3;
  result.answer_tokens = 1;
  result.stop_reason = StopReason::kEndToken;
  result.seed = 18446744073709551615U;
  result.statistics.steps = 6;
  result.statistics.forward_passes = 7;
  result.statistics.cost = {80, 0, 8e10, 1e10, 5};
  result.statistics.baseline = {100, 0, 9e10, 2e10, 6};
  result.statistics.uncached = {90, 0, 8.5e10, 1.5e10, 7};
  result.statistics.seconds = 0.5;
  const nlohmann::ordered_json json = to_json(result);
  EXPECT_THAT(keys(json), ElementsAre("text", "tokens", "prompt_tokens", "stop_reason", "seed", "stats"));
  EXPECT_THAT(keys(json["stats"]),
              ElementsAre("steps", "forward_passes", "rows", "rows_baseline", "rows_uncached", "flops",
                          "flops_baseline", "flops_uncached", "layer_flops", "layer_flops_baseline",
                          "layer_flops_uncached", "bytes", "bytes_baseline", "bytes_uncached", "seconds",
                          "tokens_per_second", "canvas_tokens_per_second", "tokens_per_forward"));
  EXPECT_EQ(json["text"], "a\"b");
  EXPECT_EQ(json["tokens"].dump(), "[4,5]");
  EXPECT_EQ(json["stop_reason"], "eos");
  EXPECT_EQ(json["seed"].dump(), "18446744073709551615");
  EXPECT_EQ(json["stats"]["rows"], 80);
  EXPECT_EQ(json["stats"]["rows_baseline"], 100);
  EXPECT_EQ(json["stats"]["rows_uncached"], 90);
  EXPECT_EQ(json["stats"]["flops"], 9e10);
  EXPECT_EQ(json["stats"]["flops_uncached"], 10e10);
  EXPECT_EQ(json["stats"]["flops_baseline"], 11e10);
  EXPECT_EQ(json["stats"]["layer_flops"], 8e10);
  EXPECT_EQ(json["stats"]["layer_flops_baseline"], 9e10);
  EXPECT_EQ(json["stats"]["bytes"], 5);
  EXPECT_EQ(json["stats"]["bytes_baseline"], 6);
  EXPECT_EQ(json["stats"]["tokens_per_second"], 2);
  EXPECT_EQ(json["stats"]["canvas_tokens_per_second"], 4);
  EXPECT_FALSE(json["stats"].contains("lock"));
  EXPECT_FALSE(json["stats"].contains("guide_rows"));
  result.stop_reason = StopReason::kLength;
  result.drift_estimate = DriftEstimate{70, 0.5, 3, 1e-3};
  result.statistics.guide_rows = 9;
  EXPECT_EQ(to_json(result)["stats"]["lock"].dump(),
            R"({"samples":70,"contraction":0.5,"gain":3.0,"eps":0.001})");
  EXPECT_EQ(to_json(result)["stats"]["guide_rows"], 9);
  EXPECT_EQ(to_json(result)["stop_reason"], "length");
}

TEST(Trace, StartsWithTheWholeCanvas) {
  const MaskedDiffusionDecoder decoder = example_decoder();
  const nlohmann::ordered_json line = trace_start(4, decoder.canvas(), decoder.prompt_length());
  EXPECT_EQ(line.dump(), R"({"request":4,"prompt_tokens":2,"canvas":[1,89,90,90,90]})");
}

TEST(Trace, HasOneLineForEachPass) {
  MaskedDiffusionDecoder decoder = example_decoder();
  const StepPlan plan = decoder.plan();
  const std::vector<RowStatistics> drawn = {{7, 0.5}, {89, 0.75}, {8, 0.25}};
  const StepReport report = decoder.apply({drawn});
  RunStatistics statistics;
  statistics.forward_passes = 3;
  const nlohmann::ordered_json line =
      trace_step({4, decoder, plan, report, statistics, {5, 0, 6, 7, 8}, nullptr, 0.125});
  EXPECT_THAT(keys(line), ElementsAre("request", "pass", "step", "block", "kind", "rows", "committed",
                                      "locked", "unlocked", "layer_flops", "head_flops", "bytes", "seconds",
                                      "step_tokens_per_second"));
  EXPECT_EQ(line["pass"], 2);
  EXPECT_EQ(line["step"], 0);
  EXPECT_EQ(line["block"], 0);
  EXPECT_EQ(line["kind"], "denoise");
  EXPECT_EQ(line["rows"].dump(), "[0,1,2,3,4]");
  EXPECT_EQ(line["committed"].dump(), R"([{"position":2,"token":7,"confidence":0.5},)"
                                      R"({"position":3,"token":89,"confidence":0.75},)"
                                      R"({"position":4,"token":8,"confidence":0.25}])");
  EXPECT_EQ(line["locked"].dump(), "[]");
  EXPECT_EQ(line["unlocked"].dump(), "[]");
  EXPECT_EQ(line["layer_flops"], 6);
  EXPECT_EQ(line["head_flops"], 7);
  EXPECT_EQ(line["bytes"], 8);
  EXPECT_EQ(line["seconds"], 0.125);
  EXPECT_EQ(line["step_tokens_per_second"], 3 / 0.125);
}

}  // namespace
}  // namespace lacuna::result_test
