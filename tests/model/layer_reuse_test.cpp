#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tiny_models.h"

namespace lacuna::layer_reuse_test {
namespace {

constexpr int32_t kLength = 24;
constexpr int32_t kPrompt = 8;  // its rows keep nothing
constexpr LayerReuse kKeep{.keeps = true};

LayerReuse computing(int32_t rows) {
  return {.keeps = true, .num_computed = rows};
}

/// A pass over the prompt, if `with_prompt`, and the answer; logits of all rows.
StepPlan pass_over(const std::vector<TokenId>& tokens, LayerReuse reuse, bool with_prompt = true,
                   int32_t sequence = 0) {
  StepPlan plan;
  plan.rules.emplace_back();
  const auto add = [&](int32_t begin, int32_t end, LayerReuse of_group) {
    RowGroup group{
        sequence, {plan.num_rows(), plan.num_rows() + end - begin}, {{0, kLength}}, OwnRows::kNone};
    group.reuse = of_group;
    plan.groups.push_back(std::move(group));
    for (int32_t position = begin; position < end; ++position) {
      LogitRow logit;
      logit.row = plan.num_rows();
      plan.logits.push_back(logit);
      plan.add_row(tokens[static_cast<size_t>(position)], position, position);
    }
  };
  if (with_prompt) add(0, kPrompt, {});
  add(kPrompt, kLength, reuse);
  return plan;
}

std::shared_ptr<const Model> model_of(DType dtype = DType::kF32) {
  ModelConfig config = tiny_configs()[0];
  config.num_layers = 4;
  return tiny_model(config, dtype);
}

/// A runner whose caches keep what layers add to the answer's rows.
class Keeper : public Runner {
 public:
  explicit Keeper(const std::shared_ptr<const Model>& model, int threads = 1, int num_sequences = 1)
      : Runner(model, supported_tables().front(), threads, kLength, num_sequences) {
    for (int i = 0; i < num_sequences; ++i)
      cache(i).keep_layers({kPrompt, kLength}, model->config().hidden_dim);
  }
};

std::vector<TokenId> tokens_of(uint64_t seed, const Model& model) {
  return random_tokens(seed, kLength, model.config().vocab_size);
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

TEST(LayerReuse, APassThatKeepsLayersOrComputesAllRowsChangesNoBit) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = model_of(dtype);
    const std::vector<TokenId> tokens = tokens_of(1, *model);
    Keeper plain(model), keeping(model);
    const std::vector<float> expected = plain.logits(pass_over(tokens, {}));
    EXPECT_EQ(keeping.logits(pass_over(tokens, kKeep)), expected);
    EXPECT_EQ(keeping.logits(pass_over(tokens, computing(kLength - kPrompt))), expected);
  }
}

TEST(LayerReuse, RowsThatHaveNotChangedAddWhatTheyKept) {
  const auto model = model_of();
  const std::vector<TokenId> tokens = tokens_of(2, *model);
  for (const int32_t computed : {0, 1, 5}) {
    Keeper runner(model);
    const std::vector<float> expected = runner.logits(pass_over(tokens, kKeep));
    // The difference from the layer's output and its sum round once each.
    EXPECT_LT(largest_difference(runner.logits(pass_over(tokens, computing(computed))), expected), 2e-5);
  }
}

TEST(LayerReuse, EachLayerComputesTheRowsWhoseValuesChangedMost) {
  const auto model = model_of();
  std::vector<TokenId> tokens = tokens_of(3, *model);
  Keeper some(model), none(model), all(model);
  for (Keeper* runner : {&some, &none, &all}) runner->logits(pass_over(tokens, kKeep));
  tokens[kPrompt + 6] = (tokens[kPrompt + 6] + 1) % static_cast<TokenId>(model->config().vocab_size);
  const std::vector<float> exact = all.logits(pass_over(tokens, kKeep, /*with_prompt=*/false));
  const std::vector<float> one = some.logits(pass_over(tokens, computing(1), false));
  const std::vector<float> zero = none.logits(pass_over(tokens, computing(0), false));
  const auto row_of = [&](const std::vector<float>& logits, int64_t row) {
    const auto vocab = static_cast<std::ptrdiff_t>(model->config().vocab_size);
    return std::vector<float>(logits.begin() + row * vocab, logits.begin() + (row + 1) * vocab);
  };
  // Only the attention to rows that were not computed again differs in the changed row.
  EXPECT_LT(largest_difference(row_of(one, 6), row_of(exact, 6)),
            0.3 * largest_difference(row_of(zero, 6), row_of(exact, 6)));
}

TEST(LayerReuse, IsTheSameForAnyNumberOfThreadsAndInAnyBatch) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = model_of(dtype);
    std::vector<TokenId> first = tokens_of(4, *model), second = tokens_of(5, *model);
    Keeper alone(model), other(model), both(model, 4, 2);
    for (const int32_t computed : {-1, 4, 3, 4}) {
      first[kPrompt + 3] = (first[kPrompt + 3] + 1) % static_cast<TokenId>(model->config().vocab_size);
      second[kPrompt + 9] = first[kPrompt + 3];
      StepPlan plan = pass_over(first, computing(computed));
      std::vector<float> expected = alone.logits(plan);
      const std::vector<float> more = other.logits(pass_over(second, kKeep));
      expected.insert(expected.end(), more.begin(), more.end());
      plan.append(pass_over(second, kKeep), 1);
      EXPECT_EQ(both.logits(plan), expected) << computed;
    }
  }
}

}  // namespace
}  // namespace lacuna::layer_reuse_test
