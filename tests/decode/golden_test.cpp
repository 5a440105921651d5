// Whole decodes of the checkpoints under tests/golden/, against an independent reference.
#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::golden_test {
namespace {

template <typename T>
void take(const nlohmann::json& run, const char* key, std::optional<T>& field) {
  if (run.contains(key)) field = run.at(key).get<T>();
}

GenerationOptions options_of(const nlohmann::json& run, bool causal) {
  GenerationOptions options;
  take(run, "gen_length", options.gen_length);
  take(run, "steps", options.steps);
  take(run, "block_length", options.block_length);
  take(run, "rule", options.unmask);
  take(run, "cfg_scale", options.cfg_scale);
  take(run, "top_p", options.top_p);
  take(run, "top_k", options.top_k);
  take(run, "eps", options.eps);
  options.logits_eos_inf = run.value("logits_eos_inf", false);
  options.confidence_eos_eot_inf = run.value("confidence_eos_eot_inf", false);
  options.ignore_eos = causal;
  return options;
}

class GoldenDecode : public testing::TestWithParam<std::string> {};

TEST_P(GoldenDecode, EveryTokenAndEveryCommitEqualTheReference) {
  ThreadPool threads(1);
  const auto model = Model::load(golden_folder(GetParam()), DType::kF32, threads);
  const ModelConfig& config = model->config();
  const nlohmann::json runs = read_golden_json(GetParam(), "decodes.json");
  ASSERT_GE(runs.size(), 3U);
  for (const KernelTable& kernels : supported_tables()) {
    for (const nlohmann::json& run : runs) {
      const auto decoder =
          make_decoder(config, options_of(run, config.causal), run.at("prompt").get<std::vector<TokenId>>(),
                       DecoderContext{run.value("eot_token_id", -1)});
      Runner runner(model, kernels, 1, decoder->num_cells(), decoder->num_sequences());
      std::vector<std::vector<int32_t>> commits;
      while (!decoder->done()) {
        const std::vector<RowStatistics> drawn = runner.draws(decoder->plan());
        commits.emplace_back();
        for (const Commit& commit : decoder->apply({drawn}).committed) {
          commits.back().push_back(commit.position);
        }
      }
      const auto prompt_length = static_cast<size_t>(decoder->prompt_length());
      const std::vector<TokenId> tokens(decoder->canvas().begin() + decoder->prompt_length(),
                                        decoder->canvas().end());
      EXPECT_EQ(decoder->canvas().size() - prompt_length, run.at("gen_length").get<size_t>());
      EXPECT_EQ(tokens, run.at("tokens").get<std::vector<TokenId>>()) << kernels.name << " " << run;
      if (run.contains("commits")) {
        EXPECT_EQ(commits, run.at("commits").get<std::vector<std::vector<int32_t>>>()) << run;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Decode, GoldenDecode, testing::ValuesIn(golden_families()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace lacuna::golden_test
