// Logits and whole runs of checkpoints under tests/golden/ whose decoders need more than rows of samples, by
// the flags that decodes.json gives, against the independent references of tests/reference.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/logits.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::golden_runs_test {
namespace {

class GoldenRuns : public testing::TestWithParam<std::string> {
 protected:
  ThreadPool threads_{2};
  std::shared_ptr<const Model> model_ = Model::load(golden_folder(GetParam()), DType::kF32, threads_);
};

TEST_P(GoldenRuns, LogitsEqualTheReference) {
  const nlohmann::json request = read_golden_json(GetParam(), "tokens.json");
  LogitsGroups groups;
  groups.clean_prefix = request.value("clean_prefix", 0);
  groups.canvas_begin = request.value("canvas_begin", -1);
  const auto tokens = request.at("tokens").get<std::vector<TokenId>>();
  StepPlan plan = logits_plan(model_->config(), tokens, {}, groups);
  for (int32_t row = 0; row < plan.num_rows(); ++row) plan.logits.emplace_back().row = row;
  const std::vector<float> expected = golden_logits(GetParam(), plan.num_rows(), model_->config().vocab_size);
  for (const KernelTable& kernels : supported_tables()) {
    Runner runner(model_, kernels, 1);
    EXPECT_THAT(runner.logits(plan), testing::Pointwise(testing::FloatNear(4e-4F), expected)) << kernels.name;
  }
}

GenerationOptions options_of(const nlohmann::json& flags) {
  GenerationOptions options;
  visit_options(options, [&](const Setting& setting, auto& field) {
    const std::string name(setting.name);
    using Field = std::remove_reference_t<decltype(field)>;
    if (!flags.contains(name)) return;
    const nlohmann::json& value = flags.at(name);
    if constexpr (std::is_same_v<Field, bool>) {
      field = value.get<bool>();
    } else if constexpr (!std::is_same_v<Field, std::vector<std::string>>) {
      field = value.get<typename Field::value_type>();
    }
  });
  return options;
}

TEST_P(GoldenRuns, AnswersEqualTheReferenceTokenForToken) {
  for (const nlohmann::json& run : read_golden_json(GetParam(), "decodes.json")) {
    Engine engine(on_cpu(model_, default_table(), threads_));
    engine.add(make_decoder(model_->config(), options_of(run.at("flags")),
                            run.at("prompt").get<std::vector<TokenId>>()));
    engine.run();
    const Decoder& decoder = engine.decoder(0);
    const std::vector<TokenId> answer(decoder.canvas().begin() + decoder.prompt_length(),
                                      decoder.canvas().end());
    EXPECT_EQ(answer, run.at("answer").get<std::vector<TokenId>>()) << run.at("flags");
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenRuns, testing::Values("gidd", "sumi", "nemotron_labs"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace lacuna::golden_runs_test
