#include "eval/bound.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "model/tiny_models.h"

namespace lacuna::bound_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr size_t kLlada = 0, kDream = 4, kQwen2 = 5, kLlada2 = 7;

const std::vector<TokenId> kPrompt = {3, 14, 15};
const std::vector<TokenId> kScored = {9, 26, 5, 35};

/// Log-probabilities of every row of a pass, [rows][vocab], one pass at a time.
class SlowModel {
 public:
  explicit SlowModel(const ModelConfig& config)
      : model_(tiny_model(config)), runner_(model_, default_table(), 1) {}

  double nats(const StepPlan& plan, int32_t row, TokenId token) {
    const std::vector<float> logits = runner_.logits(plan);
    const float* const of = logits.data() + row * runner_.vocab();
    double sum = 0;
    for (int64_t v = 0; v < runner_.vocab(); ++v) sum += std::exp(static_cast<double>(of[v]));
    return std::log(sum) - static_cast<double>(of[token]);
  }
  std::vector<double> probabilities(const StepPlan& plan, int32_t row, TokenId without) {
    const std::vector<float> logits = runner_.logits(plan);
    std::vector<double> p;
    for (int64_t v = 0; v < runner_.vocab(); ++v) {
      const float logit = logits[static_cast<size_t>(row * runner_.vocab() + v)];
      p.push_back(v == without ? 0 : std::exp(static_cast<double>(logit)));
    }
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p) value /= sum;
    return p;
  }
  Bound bound(const std::vector<BoundText>& texts, const BoundSettings& settings, int num_threads = 1) {
    ThreadPool threads(num_threads);
    return lacuna::bound(*on_cpu(model_, default_table(), threads), texts, settings);
  }

 private:
  std::shared_ptr<const Model> model_;
  Runner runner_;
};

std::vector<TokenId> join(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The mean over sizes and sets of masks of (L / l) times the sum of `nats` of what is masked, by trying all.
double over_all_masks(int32_t count, const std::function<double(uint32_t set, int32_t index)>& nats) {
  std::vector<double> sums(static_cast<size_t>(count) + 1), sets(static_cast<size_t>(count) + 1);
  for (uint32_t set = 1; set < (1U << count); ++set) {
    const auto size = static_cast<size_t>(std::popcount(set));
    ++sets[size];
    for (int32_t i = 0; i < count; ++i) {
      if ((set >> i & 1) == 1) sums[size] += nats(set, i);
    }
  }
  double total = 0;
  for (size_t size = 1; size < sums.size(); ++size)
    total += sums[size] / sets[size] / static_cast<double>(size);
  return total;  // count / size, times 1 / count for the size
}

TEST(Bound, IsTheProductOfConditionalsForALeftToRightModel) {
  SlowModel model(tiny_configs()[kQwen2]);
  const std::vector<TokenId> tokens = join(kPrompt, kScored);
  const StepPlan plan = canvas_plan(tokens, OwnRows::kCausal);
  double expected = 0;
  for (int32_t i = 3; i < 7; ++i) expected += model.nats(plan, i - 1, tokens[static_cast<size_t>(i)]);
  const Bound bound = model.bound({{kPrompt, kScored, 4}}, {});
  EXPECT_NEAR(bound.texts[0].nats, expected, 1e-4);
  EXPECT_NEAR(bound.nats_per_token(), expected / 4, 1e-4);
  EXPECT_EQ(bound.rows, 7);
}

TEST(Bound, OfSlotsIsTheLikelihoodOfDecodingThemFromLeftToRight) {
  const ModelConfig config = tiny_refusion_config();
  SlowModel model(config);
  const std::vector<TokenId> tokens = join(kPrompt, kScored);
  double expected = 0;
  for (size_t i = 3; i < 7; ++i) {
    const bool opens_slot = (i - 3) % 3 == 0;
    std::vector<TokenId> seen(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i));
    if (opens_slot) seen.push_back(config.mask_id);
    expected +=
        model.nats(canvas_plan(seen, OwnRows::kCausal), static_cast<int32_t>(seen.size()) - 1, tokens[i]);
  }
  EXPECT_NEAR(model.bound({{kPrompt, kScored, 4}}, {.slot_size = 3}).texts[0].nats, expected, 1e-4);
}

TEST(Bound, IsTheMeanOverAllSetsOfMasks) {
  for (const size_t kind : {kLlada, kDream}) {
    const ModelConfig config = tiny_configs()[kind];
    SlowModel model(config);
    const std::vector<TokenId> tokens = join(kPrompt, kScored);
    const double expected = over_all_masks(4, [&](uint32_t set, int32_t index) {
      std::vector<TokenId> seen = tokens;
      for (size_t i = 0; i < 4; ++i) {
        if ((set >> i & 1) == 1) seen[3 + i] = config.mask_id;
      }
      return model.nats(canvas_plan(seen, OwnRows::kBidirectional),
                        3 + index - (config.shifted_logits ? 1 : 0), kScored[static_cast<size_t>(index)]);
    });
    const Bound bound = model.bound({{kPrompt, kScored, 4}}, {.draws = 4000});
    EXPECT_NEAR(bound.texts[0].nats, expected, 0.01 * expected);
  }
}

TEST(Bound, OfBlocksSeesTheCleanBlocksBefore) {
  for (const bool shifted : {false, true}) {
    ModelConfig config = tiny_configs()[kLlada2];
    config.shifted_logits = shifted;
    SlowModel model(config);
    const std::vector<TokenId> tokens = join(kPrompt, kScored);
    constexpr int32_t kBlock = 2;
    double expected = 0;
    for (int32_t begin = 2; begin < 7; begin += kBlock) {
      const int32_t end = std::min(begin + kBlock, 7);
      int32_t first = std::max(begin, 3);
      if (shifted && begin > 2) {  // the last row of the block before
        const std::vector<TokenId> clean(tokens.begin(), tokens.begin() + begin);
        expected += model.nats(blocks_plan(clean, kBlock), begin - 1, tokens[static_cast<size_t>(begin)]);
        ++first;
      }
      if (first == end) continue;
      expected += over_all_masks(end - first, [&](uint32_t set, int32_t index) {
        std::vector<TokenId> seen(tokens.begin(), tokens.begin() + end);
        for (int32_t i = 0; i < end - first; ++i) {
          if ((set >> i & 1) == 1) seen[static_cast<size_t>(first + i)] = config.mask_id;
        }
        return model.nats(blocks_plan(seen, kBlock), first + index - (shifted ? 1 : 0),
                          tokens[static_cast<size_t>(first + index)]);
      });
    }
    const Bound bound = model.bound({{kPrompt, kScored, 4}}, {.draws = 2000, .block_length = kBlock});
    EXPECT_NEAR(bound.texts[0].nats, expected, 0.01 * expected) << shifted;
  }
}

/// The discrete-time bound of a chain from q to q in many small steps, from Bayes' rule alone, with what lies
/// beyond the process's ends as its first and last step.
double stepwise_bound(const ModelConfig& config, const std::vector<TokenId>& prompt,
                      const std::vector<TokenId>& x, SlowModel& model) {
  const auto vocab = static_cast<TokenId>(config.vocab_size);
  const TokenId mask = config.mask_id;
  const auto sigmoid = [](double value) { return 1 / (1 + std::exp(-value)); };
  const auto prior = [&](double t, TokenId k) {
    const double shown = sigmoid(std::log((1 - t) / t) + config.noise->uniform_shift);
    return k == mask ? 1 - shown : shown / (vocab - 1);
  };
  const auto marginal = [&](double t, TokenId k, double of_k) { return (1 - t) * of_k + t * prior(t, k); };
  const double first = sigmoid(-config.noise->max_log_snr);
  const double last = sigmoid(-config.noise->min_log_snr);
  constexpr int kSteps = 1000;
  const double step = (last - first) / kSteps;
  std::vector<double> by_step(kSteps);
  for (TokenId z0 = 0; z0 < vocab; ++z0) {
    for (TokenId z1 = 0; z1 < vocab; ++z1) {
      const TokenId z[] = {z0, z1};
      StepPlan plan = canvas_plan(join(prompt, {z0, z1}), OwnRows::kBidirectional);
      plan.groups = {{0, {0, 1}, {}, OwnRows::kBidirectional},
                     {0, {1, 3}, {{0, 1}}, OwnRows::kBidirectional}};
      const std::vector<double> predicted[] = {model.probabilities(plan, 1, mask),
                                               model.probabilities(plan, 2, mask)};
      for (int i = 0; i < kSteps; ++i) {
        const double s = first + i * step;
        const double t = s + step;
        const double r = (1 - t) / (1 - s);
        const double likelihood = marginal(t, z0, z0 == x[0]) * marginal(t, z1, z1 == x[1]);
        if (likelihood <= 0) continue;
        for (int at = 0; at < 2; ++at) {
          const double c = t * prior(t, z[at]) - r * s * prior(s, z[at]);
          for (TokenId k = 0; k < vocab; ++k) {
            const double kernel = (k == z[at] ? r : 0) + c;
            const double of_k = predicted[at][static_cast<size_t>(k)];
            const double of_z = predicted[at][static_cast<size_t>(z[at])];
            const double q = kernel * marginal(s, k, k == x[at]) / marginal(t, z[at], z[at] == x[at]);
            const double p = kernel * marginal(s, k, of_k) / marginal(t, z[at], of_z);
            if (q > 0) by_step[static_cast<size_t>(i)] += likelihood * q * std::log(q / p);
          }
        }
      }
    }
  }
  return std::accumulate(by_step.begin(), by_step.end(), 0.0) +
         (by_step.front() * first + by_step.back() * (1 - last)) / step;
}

TEST(Bound, OfNoiseIsThatOfManySmallSteps) {
  for (const float shift : {1000.0F, 0.0F, -1000.0F}) {  // uniform, mixed, masks
    ModelConfig config = tiny_gidd_config(shift);
    config.vocab_size = 4;
    config.mask_id = 2;
    config.eos_id = 1;
    config.end_ids = {1};
    config.noise->min_log_snr = -3;
    config.noise->max_log_snr = 3;
    config.logit_scale = 3;
    SlowModel model(config);
    const double expected = stepwise_bound(config, {0}, {3, 1}, model);
    const Bound bound = model.bound({{{0}, {3, 1}, 2}}, {.draws = 10000, .seed = 1});
    EXPECT_NEAR(bound.texts[0].nats, expected, 0.05 * expected) << shift;
  }
}

TEST(Bound, DependsOnTheSeedAlone) {
  for (const ModelConfig& config :
       {tiny_configs()[kLlada], tiny_configs()[kLlada2], tiny_gidd_config(1000), tiny_sumi_config()}) {
    SlowModel model(config);
    const BoundText text{kPrompt, kScored, 4};
    const BoundText other{{7}, random_tokens(1, 30, 80), 30};
    const BoundSettings settings{.draws = 5, .seed = 3};
    const Bound one = model.bound({text, other}, settings);
    const Bound again = model.bound({text, other, other}, settings, 2);
    EXPECT_EQ(one.texts[0].nats, again.texts[0].nats);
    EXPECT_EQ(one.texts[1].nats, again.texts[1].nats);
    EXPECT_NE(again.texts[1].nats, again.texts[2].nats);  // each text has its own draws
    EXPECT_NE(model.bound({text}, {.draws = 5, .seed = 4}).texts[0].nats, one.texts[0].nats);
  }
}

TEST(Bound, RefusesTextsThatTheModelCannotRead) {
  ModelConfig config = tiny_configs()[kLlada];
  config.max_positions = 6;
  SlowModel model(config);
  const auto refusal = [&](const BoundText& text, const char* sentence) {
    EXPECT_THAT([&] { model.bound({text}, {}); }, ThrowsMessage<InputError>(HasSubstr(sentence)));
  };
  refusal({{5}, {97}, 1}, "token 97");
  refusal({{5}, {-1}, 1}, "token -1");
  refusal({{90}, {5}, 1}, "token 90");  // the mask
  refusal({kPrompt, kScored, 4}, "7 positions with its canvas; the model has 6");
}

TEST(BoundInterval, IsThatOfARatioOfSums) {
  Bound bound;
  EXPECT_EQ(bound.nats_per_token(), 0);
  bound.texts = {{10, 5}};
  EXPECT_FALSE(bound.interval());
  EXPECT_TRUE(to_json(bound)["perplexity_high"].is_null());
  bound.texts = {{10, 5}, {20, 10}, {2, 1}};  // all at 2 nats a token
  EXPECT_DOUBLE_EQ(bound.nats_per_token(), 2);
  EXPECT_DOUBLE_EQ(bound.interval()->low, 2);
  bound.texts = {{10, 10}, {30, 10}};
  // Residuals -10 and 10: 1.96 sqrt(2 / 1 * 200) / 20.
  EXPECT_NEAR(bound.interval()->high - 2, 1.959964 * 20 / 20, 1e-6);
  EXPECT_DOUBLE_EQ(to_json(bound)["perplexity"], std::exp(2.0));
}

TEST(BoundText, FillsTheCanvasOfDiffusionModelsAlone) {
  const std::vector<TokenId> answer = {5, 6};
  const auto scored = [&](const ModelConfig& config, TokenId end, int32_t block = 0) {
    return bound_text(config, kPrompt, answer, end, 5, block);
  };
  EXPECT_EQ(scored(tiny_configs()[kLlada], 88).scored, (std::vector<TokenId>{5, 6, 88, 89, 89}));
  EXPECT_EQ(scored(tiny_configs()[kLlada], 88).counted, 3);
  EXPECT_EQ(scored(tiny_configs()[kLlada], -1).scored, answer);
  EXPECT_EQ(scored(tiny_configs()[kQwen2], 88).scored, (std::vector<TokenId>{5, 6, 88}));
  EXPECT_EQ(scored(tiny_refusion_config(), 88).scored.size(), 3);
  EXPECT_EQ(scored(tiny_configs()[kLlada2], 89).scored.size(), 5);  // 3 + 5 fill a block of 8
  EXPECT_EQ(scored(tiny_configs()[kLlada2], 89, 5).scored.size(), 7);
}

}  // namespace
}  // namespace lacuna::bound_test
