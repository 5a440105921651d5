#include "decode/likelihood.h"

#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/tiny_models.h"

namespace lacuna::likelihood_test {
namespace {

/// LLaDA, and Dream, whose logits are those of the row before.
std::vector<ModelConfig> masked_configs() {
  const std::vector<ModelConfig> all = tiny_configs();
  const auto dream = std::find_if(all.begin(), all.end(),
                                  [](const ModelConfig& config) { return config.family == "dream"; });
  return {all.front(), *dream};
}

MaskedLikelihood::Options options(const ModelConfig& config, int32_t given, int32_t draws = 0) {
  MaskedLikelihood::Options options;
  options.mask_id = config.mask_id;
  options.shifted_logits = config.shifted_logits;
  options.given = given;
  options.draws = draws;
  return options;
}

std::vector<TokenScore> score(Runner& runner, const MaskedLikelihood::Options& options,
                              const std::vector<TokenId>& tokens) {
  MaskedLikelihood decoder(options, tokens);
  while (!decoder.done()) decoder.apply({runner.draws(decoder.plan())});
  return {decoder.scores().begin(), decoder.scores().end()};
}

double sum(const std::vector<TokenScore>& scores) {
  return std::accumulate(scores.begin(), scores.end(), 0.0,
                         [](double sum, const auto& score) { return sum + score.logprob.value_or(0); });
}

/// ln p(token at `position`), from the logits themselves, with some positions masked.
double log_probability(Runner& runner, std::vector<TokenId> tokens, const std::vector<int32_t>& masked,
                       int32_t position) {
  const ModelConfig& config = runner.model().config();
  const TokenId token = tokens[static_cast<size_t>(position)];
  for (const int32_t each : masked) tokens[static_cast<size_t>(each)] = config.mask_id;
  const std::vector<float> logits = runner.logits(canvas_plan(tokens, OwnRows::kBidirectional));
  const int32_t row = position - (config.shifted_logits ? 1 : 0);
  const float* of_row = logits.data() + row * runner.vocab();
  double total = 0;
  for (int64_t i = 0; i < runner.vocab(); ++i) total += std::exp(static_cast<double>(of_row[i]));
  return static_cast<double>(of_row[token]) - std::log(total);
}

TEST(MaskedLikelihood, IsThatOfWritingTheTextFromLeftToRight) {
  for (const ModelConfig& config : masked_configs()) {
    Runner runner(tiny_model(config), default_table(), 1);
    const std::vector<TokenId> tokens = {3, 1, 4, 1, 5, 9};
    const std::vector<TokenScore> scores = score(runner, options(config, 2), tokens);
    ASSERT_EQ(scores.size(), tokens.size());
    for (int32_t position = 0; position < 6; ++position) {
      const TokenScore& each = scores[static_cast<size_t>(position)];
      EXPECT_EQ(each.logprob.has_value(), position >= 2);
      if (!each.logprob) continue;
      std::vector<int32_t> masked(static_cast<size_t>(6 - position));
      std::iota(masked.begin(), masked.end(), position);
      EXPECT_NEAR(*each.logprob, log_probability(runner, tokens, masked, position), 1e-5);
      EXPECT_GE(each.best.value().second, *each.logprob);
    }
  }
}

TEST(MaskedLikelihood, WithDrawsApproachesTheMeanOverAllMasks) {
  for (const ModelConfig& config : masked_configs()) {
    Runner runner(tiny_model(config), default_table(), 1);
    const std::vector<TokenId> tokens = {3, 1, 4, 1, 5};
    // Three tokens are scored: every number of masks is as likely, then every choice of as many.
    double expected = 0;
    for (int32_t choice = 1; choice < 8; ++choice) {
      std::vector<int32_t> masked;
      for (int32_t i = 0; i < 3; ++i) {
        if ((choice >> i) % 2 == 1) masked.push_back(2 + i);
      }
      const double choices = masked.size() == 3 ? 1 : 3;
      for (const int32_t position : masked) {
        expected +=
            log_probability(runner, tokens, masked, position) / choices / static_cast<double>(masked.size());
      }
    }
    EXPECT_NEAR(sum(score(runner, options(config, 2, 3000), tokens)), expected, 0.01 * std::abs(expected));
  }
}

TEST(MaskedLikelihood, OfOneTokenIsTheSameByDrawsAndFromLeftToRight) {
  const ModelConfig config = masked_configs().front();
  Runner runner(tiny_model(config), default_table(), 1);
  const std::vector<TokenId> tokens = {3, 1, 4};
  EXPECT_DOUBLE_EQ(sum(score(runner, options(config, 2, 4), tokens)),
                   sum(score(runner, options(config, 2), tokens)));
}

TEST(MaskedLikelihood, DependsOnItsSeedAlone) {
  const ModelConfig config = masked_configs().front();
  Runner runner(tiny_model(config), default_table(), 1);
  const std::vector<TokenId> tokens = random_tokens(1, 20, 50);
  MaskedLikelihood::Options drawn = options(config, 4, 2);
  const double first = sum(score(runner, drawn, tokens));
  EXPECT_EQ(sum(score(runner, drawn, tokens)), first);
  drawn.seed = 1;
  EXPECT_NE(sum(score(runner, drawn, tokens)), first);
}

TEST(MaskedLikelihood, GivesTokensThatNoDrawMaskedNoPartInTheSum) {
  const ModelConfig config = masked_configs().front();
  Runner runner(tiny_model(config), default_table(), 1);
  const auto scores = score(runner, options(config, 1, 1), random_tokens(1, 40, 50));
  int32_t idle = 0;
  for (size_t i = 1; i < scores.size(); ++i) idle += scores[i].logprob.value() == 0 ? 1 : 0;
  EXPECT_GT(idle, 0);
  EXPECT_LT(idle, 39);
}

TEST(MaskedLikelihood, NeedsATokenThatIsGivenAndOneThatIsNot) {
  const ModelConfig config = masked_configs().front();
  EXPECT_THROW(MaskedLikelihood(options(config, 1), {5}), std::logic_error);
  EXPECT_THROW(MaskedLikelihood(options(config, 0), {5, 6}), std::logic_error);
}

}  // namespace
}  // namespace lacuna::likelihood_test
