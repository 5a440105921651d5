// Alternatives of committed tokens: the answer stays what it is without them, and they are the likeliest
// tokens of the distribution that the confidence is measured in.
#include "decode/alternatives.h"

#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "constraint/constraint.h"
#include "engine/engine.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::alternatives_test {
namespace {

using testing::HasSubstr;

struct Outcome {
  std::vector<TokenId> canvas;
  std::vector<Commit> commits;
  std::vector<Alternatives> alternatives;  // [commits.size()]
  RunStatistics statistics;
};

class Model {
 public:
  explicit Model(const ModelConfig& config) : model_(on_cpu(tiny_model(config), default_table(), threads_)) {}

  std::unique_ptr<Decoder> decoder(const GenerationOptions& options, int32_t num_alternatives,
                                   std::shared_ptr<const TokenAutomaton> automaton = nullptr) const {
    DecodeRequest request;
    request.prompt = random_tokens(3, 9, 60);
    request.gen_length = options.gen_length;
    request.seed = 5;
    request.context.num_alternatives = num_alternatives;
    request.context.constraint = std::move(automaton);
    return make_decoder(model_->config(), choose_strategy(model_->config(), options), std::move(request));
  }

  Outcome run(const GenerationOptions& options, int32_t num_alternatives,
              std::shared_ptr<const TokenAutomaton> automaton = nullptr) const {
    Engine engine(model_);
    engine.add(decoder(options, num_alternatives, std::move(automaton)));
    Outcome run;
    engine.run([&](const StepEvent& event) {
      const StepReport& report = event.report;
      EXPECT_EQ(report.alternatives.size(), num_alternatives > 0 ? report.committed.size() : 0U);
      run.commits.insert(run.commits.end(), report.committed.begin(), report.committed.end());
      run.alternatives.insert(run.alternatives.end(), report.alternatives.begin(), report.alternatives.end());
    });
    run.canvas.assign(engine.decoder(0).canvas().begin(), engine.decoder(0).canvas().end());
    run.statistics = engine.statistics(0);
    return run;
  }

  const ModelConfig& config() const { return model_->config(); }

 private:
  mutable ThreadPool threads_{1};
  std::shared_ptr<const BackendModel> model_;
};

GenerationOptions of_length(int32_t gen_length, double temperature = 0) {
  GenerationOptions options;
  options.gen_length = gen_length;
  options.temperature = temperature;
  return options;
}

/// `is_exact`: the confidence is the probability of the token in the same distribution.
void expect_alternatives(const Model& model, const GenerationOptions& options, const std::string& name,
                         bool is_exact = true) {
  const Outcome plain = model.run(options, 0);
  const Outcome listed = model.run(options, 4);
  EXPECT_EQ(listed.canvas, plain.canvas) << name;
  EXPECT_EQ(listed.commits, plain.commits) << name;
  EXPECT_EQ(listed.statistics.forward_passes, plain.statistics.forward_passes) << name;
  EXPECT_EQ(listed.statistics.cost.rows, plain.statistics.cost.rows) << name;
  ASSERT_FALSE(listed.commits.empty()) << name;
  const bool is_greedy = options.temperature.value_or(0) == 0;
  for (size_t i = 0; i < listed.commits.size(); ++i) {
    const Alternatives& each = listed.alternatives[i];
    ASSERT_EQ(each.size(), 4U) << name << " " << i;
    for (size_t j = 1; j < each.size(); ++j) EXPECT_LE(each[j].second, each[j - 1].second) << name;
    EXPECT_LE(each[0].second, 0) << name;
    if (is_greedy) {
      EXPECT_EQ(each[0].first, listed.commits[i].token) << name << " " << i;
    }
    for (const auto& [token, logprob] : each) {
      if (!is_exact || token != listed.commits[i].token) continue;
      EXPECT_NEAR(logprob, std::log(listed.commits[i].confidence), 1e-5) << name << " " << i;
    }
  }
}

TEST(AlternativesDecoder, ListsWhatMaskedPositionsMightHaveGot) {
  for (const bool shifted : {false, true}) {
    ModelConfig config = tiny_configs()[0];
    config.shifted_logits = shifted;
    const Model model(config);
    for (const double temperature : {0.0, 0.8}) {
      expect_alternatives(model, of_length(16, temperature), "masked");
      GenerationOptions options = of_length(32, temperature);
      options.block_length = 8;
      options.cache = "dual";
      options.lock = "eps=1e-3,gate=50";  // asks for drifts before
      expect_alternatives(model, options, "with a cache and a lock");
      options = of_length(16, temperature);
      options.unmask = "threshold=0.3";
      expect_alternatives(model, options, "by a threshold");
    }
  }
}

TEST(AlternativesDecoder, ListsThemForBlocksAndFromLeftToRight) {
  for (const double temperature : {0.0, 0.8}) {
    expect_alternatives(Model(tiny_block_config(4)), of_length(16, temperature), "blocks");
    expect_alternatives(Model(tiny_configs()[6]), of_length(16, temperature), "left to right");
  }
}

TEST(AlternativesDecoder, ListsThemForAnswersThatAreConstrained) {
  const Model model(tiny_configs()[0]);
  TokenTable table;
  for (int64_t id = 0; id < model.config().vocab_size; ++id) {
    table.bytes.emplace_back(1, static_cast<char>('a' + id % 26));
  }
  table.end_ids = model.config().end_ids;
  for (const TokenId end : table.end_ids) table.bytes[static_cast<size_t>(end)].clear();
  if (model.config().mask_id >= 0) table.excluded = {static_cast<TokenId>(model.config().mask_id)};
  const auto automaton = std::make_shared<const TokenAutomaton>(
      compile_constraint(RegexConstraint{"(ab|cd)+"}), TokenVocabulary(table));
  const GenerationOptions options = of_length(16);
  const Outcome plain = model.run(options, 0, automaton);
  const Outcome listed = model.run(options, 3, automaton);
  EXPECT_EQ(listed.canvas, plain.canvas);
  EXPECT_EQ(listed.commits, plain.commits);
  for (const Alternatives& each : listed.alternatives) EXPECT_EQ(each.size(), 3U);
}

TEST(AlternativesDecoder, IsRefusedWhereAPassDoesNotSamplePositions) {
  const Model model(tiny_refusion_config());
  try {
    (void)model.decoder(of_length(16), 2);
    FAIL() << "not refused";
  } catch (const SettingError& error) {
    EXPECT_EQ(error.problem().field, "alternatives");
    EXPECT_THAT(error.what(), HasSubstr("ReFusion"));
  }
  EXPECT_FALSE(lists_alternatives(model.config(), choose_strategy(model.config(), {})));
}

}  // namespace
}  // namespace lacuna::alternatives_test
