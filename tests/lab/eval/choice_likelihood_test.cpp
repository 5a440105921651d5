#include "eval/choice_likelihood.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "model/tiny_models.h"
#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::choice_likelihood_test {
namespace {

class ChoiceLikelihoodTest : public testing::Test {
 protected:
  static ModelConfig config() {
    ModelConfig config = tiny_configs()[5];  // Qwen2
    config.vocab_size = 260;                 // bytes and a few more
    config.eos_id = 257;
    config.end_ids = {257};
    return config;
  }

  /// -log p of the bytes of `scored`, a space before it, after `prompt`, from whole rows of logits.
  double slow_nats(const std::string& prompt, const std::string& scored) {
    std::vector<TokenId> tokens = ids_of_bytes(prompt + " " + scored);
    Runner runner(weights_, default_table(), 1);
    const std::vector<float> logits = runner.logits(canvas_plan(tokens, OwnRows::kCausal));
    double nats = 0;
    for (size_t i = prompt.size(); i < tokens.size(); ++i) {
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i - 1) * runner.vocab();
      double sum = 0;
      for (int64_t v = 0; v < runner.vocab(); ++v) sum += std::exp(static_cast<double>(row[v]));
      nats += std::log(sum) - static_cast<double>(row[tokens[i]]);
    }
    return nats;
  }

  ThreadPool threads_{1};
  std::shared_ptr<const Model> weights_ = tiny_model(config());
  Tokenizer tokenizer_ = parse(tiny_tokenizer());
  EvaluatedModel model_{on_cpu(weights_, default_table(), threads_), tokenizer_, {}};
  const ChoiceBenchmark& piqa_ = *find_choice_benchmark("piqa");
};

TEST_F(ChoiceLikelihoodTest, ScoresEachOptionAfterThePrompt) {
  const std::vector<ChoiceItem> items = {{"", "Dry a cup", {"use a towel", "use"}, 0, ""},
                                         {"", "Go", {"é", "walk on", "x"}, 2, ""}};
  const ChoiceLikelihoods result = choice_likelihoods(model_, piqa_, {}, items, {});
  ASSERT_EQ(result.items.size(), 2u);
  for (size_t i = 0; i < items.size(); ++i) {
    std::vector<double> nats, per_character;
    for (const std::string& option : items[i].options) {
      nats.push_back(slow_nats("Question: " + items[i].question + "\nAnswer:", option));
      per_character.push_back(nats.back() / static_cast<double>(option == "é" ? 1 : option.size()));
    }
    for (size_t option = 0; option < nats.size(); ++option) {
      EXPECT_NEAR(result.items[i].nats[option], nats[option], 1e-4);
    }
    EXPECT_EQ(result.items[i].chosen,
              static_cast<size_t>(std::min_element(nats.begin(), nats.end()) - nats.begin()));
    EXPECT_EQ(result.items[i].chosen_per_character,
              static_cast<size_t>(std::min_element(per_character.begin(), per_character.end()) -
                                  per_character.begin()));
  }
  // A short option is likelier than a long one, and less likely per character than it was.
  EXPECT_EQ(result.items[0].chosen, 1u);
  EXPECT_GT(result.forward_passes, 0);
}

TEST_F(ChoiceLikelihoodTest, DoesNotDependOnOtherItems) {
  ModelConfig masked = tiny_configs()[0];  // LLaDA: a bound, with random masks
  masked.vocab_size = 260;
  masked.mask_id = 258;
  EvaluatedModel model{on_cpu(tiny_model(masked), default_table(), threads_), tokenizer_, {}};
  const std::vector<ChoiceItem> items = {{"", "Dry a cup", {"use a towel", "use"}, 0, ""},
                                         {"", "Go", {"walk on", "run"}, 1, ""}};
  BoundSettings settings;
  settings.draws = 4;
  const auto both = choice_likelihoods(model, piqa_, {}, items, settings);
  settings.seed = 1;  // of the second item
  const auto second = choice_likelihoods(model, piqa_, {}, std::span(items).subspan(1), settings);
  EXPECT_EQ(both.items[1].nats, second.items[0].nats);
  settings.seed = 2;
  EXPECT_NE(choice_likelihoods(model, piqa_, {}, std::span(items).subspan(1), settings).items[0].nats,
            second.items[0].nats);
}

TEST_F(ChoiceLikelihoodTest, PartsTokensWhereThePromptAloneEnds) {
  const Tokenizer merging = parse(tiny_tokenizer({{"b", "c"}}));
  EvaluatedModel model{model_.model, merging, {}};
  const BoundText text = option_text(model, "ab", "bc");
  EXPECT_EQ(text.prompt, merging.encode("ab"));
  EXPECT_EQ(text.scored, merging.encode(" bc"));
  EXPECT_EQ(text.counted, static_cast<int64_t>(text.scored.size()));
}

}  // namespace
}  // namespace lacuna::choice_likelihood_test
