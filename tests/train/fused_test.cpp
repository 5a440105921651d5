#include "train/fused.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace lacuna::train::fused_test {
namespace {

using Tensors = std::vector<torch::Tensor>;
using Operation = std::function<torch::Tensor(const Tensors&)>;

/// The result of an operation and the gradients of a weighted sum of it.
Tensors with_gradients(const Operation& operation, const Tensors& inputs) {
  Tensors leaves;
  for (const torch::Tensor& input : inputs) leaves.push_back(input.detach().clone().requires_grad_());
  const torch::Tensor y = operation(leaves);
  const torch::Tensor weights =
      torch::linspace(-1, 2, y.numel(), y.options().dtype(torch::kFloat64)).view(y.sizes());
  Tensors results = torch::autograd::grad({(y.to(torch::kFloat64) * weights).sum()}, leaves);
  results.insert(results.begin(), y.detach());
  return results;
}

/// Both operations give the same result and gradients, up to `tolerance` of the largest number.
void expect_same(const Operation& fused, const Operation& plain, const Tensors& inputs, double tolerance) {
  const Tensors got = with_gradients(fused, inputs), wanted = with_gradients(plain, inputs);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), wanted[i].sizes()) << i;
    const torch::Tensor difference = (got[i].to(torch::kFloat64) - wanted[i].to(torch::kFloat64)).abs();
    const double scale = wanted[i].to(torch::kFloat64).abs().max().item<double>();
    EXPECT_LE(difference.max().item<double>(), tolerance * (scale + 1e-30)) << i;
  }
}

constexpr double kRoundings = 2e-6;  // of f32, relative to the largest number
constexpr double kBf16Roundings = 2e-2;

TEST(Fused, EmbeddingsAreRowsAndGradientsAddUpInF32) {
  torch::manual_seed(6);
  const torch::Tensor tokens = torch::tensor({5, 0, 5, 5, 2, 8, 0, 5}).view({2, 4});
  const torch::Tensor of_rows = torch::randn({2, 4, 3});
  const torch::Tensor wanted = torch::zeros({9, 3}).index_add_(0, tokens.flatten(), of_rows.flatten(0, 1));
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    const torch::Tensor weight = torch::randn({9, 3}).to(type).requires_grad_();
    const torch::Tensor rows = embed_tokens(tokens, weight, false);
    EXPECT_EQ(rows.scalar_type(), torch::kFloat32);
    EXPECT_TRUE(torch::equal(rows, torch::embedding(weight.to(torch::kFloat32), tokens)));
    const torch::Tensor got = torch::autograd::grad({(rows * of_rows).sum()}, {weight})[0];
    EXPECT_EQ(got.scalar_type(), type);
    EXPECT_TRUE(torch::allclose(got, wanted.to(type), 1e-5, 1e-6)) << type;
  }
}

TEST(Fused, ATiedHeadAndEmbeddingLearnFromBoth) {
  torch::manual_seed(7);
  const torch::Tensor tokens = torch::tensor({3, 1, 3}), targets = torch::tensor({0, 3, 4});
  const torch::Tensor weights = torch::ones({3});
  const auto fused = [&](const Tensors& x) {
    return cross_entropy(embed_tokens(tokens, x[0], true), x[0], targets, weights, 1, -1);
  };
  const auto plain = [&](const Tensors& x) {
    const torch::Tensor logits = torch::matmul(torch::embedding(x[0], tokens), x[0].t());
    return -torch::log_softmax(logits, -1).gather(1, targets.unsqueeze(1)).sum();
  };
  expect_same(fused, plain, {torch::randn({5, 4})}, kRoundings);
}

TEST(Fused, NormsAreThoseOfTheFormula) {
  torch::manual_seed(1);
  const auto plain = [](const Tensors& x) {
    return x[0] * torch::rsqrt(x[0].square().mean(-1, true) + 1e-5) * x[1];
  };
  for (const int64_t width : {2, 7, 64, 577}) {
    expect_same([](const Tensors& x) { return rms_norm(x[0], x[1], 1e-5); }, plain,
                {torch::randn({3, 5, width}), torch::randn({width})}, kRoundings);
  }
}

TEST(Fused, GatesAreThoseOfTheFormula) {
  torch::manual_seed(2);
  const auto fused = [](const Tensors& x) { return swiglu(x[0], x[1]); };
  const auto plain = [](const Tensors& x) { return torch::silu(x[0]) * x[1]; };
  const Tensors inputs = {4 * torch::randn({3, 5, 37}), torch::randn({3, 5, 37})};
  expect_same(fused, plain, inputs, kRoundings);
  expect_same(fused, plain, {inputs[0].to(torch::kFloat64), inputs[1].to(torch::kFloat64)}, 1e-12);
  expect_same(fused, plain, {inputs[0].to(torch::kBFloat16), inputs[1].to(torch::kBFloat16)}, kBf16Roundings);
  // Far from zero a gate is x or nothing.
  const torch::Tensor far = swiglu(torch::tensor({-200.F, 200.F}), torch::ones({2}));
  EXPECT_NEAR(far[0].item<float>(), 0, 1e-30);
  EXPECT_EQ(far[1].item<float>(), 200);
}

class Rotations : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Angles, Rotations, ::testing::Bool());

TEST_P(Rotations, TurnPairsOfEachHeadAndLeaveTheOthers) {
  torch::manual_seed(3);
  constexpr int64_t kBatch = 2, kHeads = 3, kLength = 5, kWidth = 10, kHalf = 4;
  const torch::Tensor angles =
      GetParam() ? torch::randn({kBatch, 1, kLength, kHalf}) : torch::randn({kLength, kHalf});
  const torch::Tensor cos = angles.cos(), sin = angles.sin();
  const auto plain = [&](const Tensors& x) {
    const torch::Tensor a = x[0].slice(-1, 0, kHalf), b = x[0].slice(-1, kHalf, 2 * kHalf);
    return torch::cat({a * cos - b * sin, b * cos + a * sin, x[0].slice(-1, 2 * kHalf)}, -1);
  };
  const auto fused = [&](const Tensors& x) { return apply_rope(x[0], cos, sin); };
  expect_same(fused, plain, {torch::randn({kBatch, kHeads, kLength, kWidth})}, kRoundings);
  expect_same(fused, plain, {torch::randn({kBatch, kLength, kHeads, kWidth}).transpose(1, 2)}, kRoundings);
  expect_same(fused, plain, {torch::randn({kBatch, kHeads, kLength, kWidth}).to(torch::kBFloat16)},
              kBf16Roundings);
}

TEST(Fused, LowRankUpdatesAreAddedAndLearnedAlone) {
  torch::manual_seed(4);
  const torch::Tensor weight = torch::randn({6, 9}), bias = torch::randn({6});
  const auto fused = [&](const Tensors& x) {
    return lora_linear(x[0], weight.to(x[0].scalar_type()), bias, x[1], x[2], 0.5);
  };
  const auto plain = [&](const Tensors& x) {
    return torch::linear(x[0], (weight + 0.5 * torch::matmul(x[2], x[1])).to(x[0].scalar_type()),
                         bias.to(x[0].scalar_type()));
  };
  const Tensors inputs = {torch::randn({2, 4, 9}), torch::randn({3, 9}), torch::randn({6, 3})};
  expect_same(fused, plain, inputs, kRoundings);
  Tensors exact;
  for (const torch::Tensor& input : inputs) exact.push_back(input.to(torch::kFloat64));
  expect_same(fused, plain, exact, 1e-12);
}

/// softmax(cap(scale q k^T)) v with every score at once.
torch::Tensor plain_attention(const Tensors& x, const torch::Tensor& unseen, double scale, double cap) {
  const int64_t shared = x[0].size(1) / x[1].size(1);
  torch::Tensor scores = torch::matmul(scale * x[0], x[1].repeat_interleave(shared, 1).transpose(-1, -2));
  if (cap > 0) scores = cap * torch::tanh(scores / cap);
  if (unseen.defined()) scores = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity());
  return torch::matmul(torch::softmax(scores, -1), x[2].repeat_interleave(shared, 1))
      .transpose(1, 2)
      .flatten(2);
}

struct AttentionCase {
  int64_t length, keys, heads, groups;
  double cap;
  int mask;  // 0 none, 1 causal, 2 random for each row of the batch, 3 blocks in two copies
};

class AttentionCases : public ::testing::TestWithParam<AttentionCase> {};

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionCases,
                         ::testing::Values(AttentionCase{5, 5, 2, 2, 0, 0}, AttentionCase{70, 70, 4, 2, 0, 1},
                                           AttentionCase{130, 131, 3, 1, 0, 2},
                                           AttentionCase{70, 70, 2, 2, 3, 2},
                                           AttentionCase{160, 160, 6, 2, 0, 3}));

torch::Tensor mask_of(const AttentionCase& instance, int64_t batch) {
  const auto causal = [](int64_t rows, int64_t keys) {
    return torch::arange(rows).unsqueeze(1) < torch::arange(keys).unsqueeze(0);
  };
  if (instance.mask == 1) return causal(instance.length, instance.keys);
  if (instance.mask == 2) {
    torch::Tensor unseen = torch::rand({batch, 1, instance.length, instance.keys}) < 0.7;
    unseen.select(-1, instance.keys - 1).fill_(false);  // every row sees something
    return unseen;
  }
  if (instance.mask ==
      3) {  // a copy behind the clean rows: each of its blocks of 4 sees itself and what is before
    const int64_t half = instance.length / 2;
    const torch::Tensor block = torch::arange(half).div(4, "floor");
    const torch::Tensor others = block.unsqueeze(1) != block.unsqueeze(0);
    const torch::Tensor later = block.unsqueeze(1) <= block.unsqueeze(0);
    return torch::cat({torch::cat({causal(half, half), torch::ones({half, half}, torch::kBool)}, 1),
                       torch::cat({later, others}, 1)});
  }
  return {};
}

TEST_P(AttentionCases, IsThatOfAllScoresAtOnce) {
  torch::manual_seed(5);
  const AttentionCase& instance = GetParam();
  constexpr int64_t kBatch = 2, kWidth = 8;
  const torch::Tensor unseen = mask_of(instance, kBatch);
  const auto visible = c10::make_intrusive<Visibility>(unseen);
  const auto fused = [&](const Tensors& x) {
    return attention(x[0], x[1], x[2], visible, 0.3, instance.cap);
  };
  const auto plain = [&](const Tensors& x) { return plain_attention(x, unseen, 0.3, instance.cap); };
  const Tensors inputs = {torch::randn({kBatch, instance.heads, instance.length, kWidth}),
                          torch::randn({kBatch, instance.groups, instance.keys, kWidth}),
                          torch::randn({kBatch, instance.groups, instance.keys, kWidth})};
  expect_same(fused, plain, inputs, 1e-5);
  Tensors exact;
  for (const torch::Tensor& input : inputs) exact.push_back(input.to(torch::kFloat64));
  expect_same(fused, plain, exact, 1e-12);
}

TEST(Visibility, HasTheRangesOfKeysThatSomeRowSees) {
  torch::Tensor unseen = torch::ones({70, 100}, torch::kBool);
  unseen[3][1] = false;
  unseen[60][40] = false;
  unseen[64][99] = false;
  const Visibility visible(unseen);
  using Ranges = std::vector<Visibility::Range>;
  ASSERT_EQ(visible.ranges.size(), 1U);
  EXPECT_EQ(visible.ranges[0], (std::vector<Ranges>{{{0, 64}}, {{96, 100}}}));
  EXPECT_TRUE(Visibility(torch::Tensor()).ranges.empty());
}

TEST(Fused, CrossEntropyIsThatOfLogSoftmax) {
  torch::manual_seed(6);
  constexpr int64_t kRows = 300, kVocabulary = 41, kWidth = 12;
  const torch::Tensor targets = torch::randint(0, kVocabulary - 1, {kRows});
  const torch::Tensor weights = torch::rand({kRows});
  for (const int64_t suppressed : {int64_t{-1}, kVocabulary - 1}) {
    const auto fused = [&](const Tensors& x) {
      return cross_entropy(x[0], x[1], targets, weights, 0.5, suppressed);
    };
    const auto plain = [&](const Tensors& x) {
      torch::Tensor logits = 0.5 * torch::linear(x[0], x[1]);
      if (suppressed >= 0) {
        logits = logits.index_fill(-1, torch::tensor({suppressed}), -std::numeric_limits<double>::infinity());
      }
      const torch::Tensor losses = -torch::log_softmax(logits, -1).gather(1, targets.unsqueeze(1)).squeeze(1);
      return (losses * weights).sum();
    };
    const Tensors inputs = {torch::randn({kRows, kWidth}), torch::randn({kVocabulary, kWidth})};
    expect_same(fused, plain, inputs, 5e-6);
    const torch::Tensor with = fused(inputs);
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(fused(inputs).equal(with));
  }
}

TEST(Fused, CrossEntropyOfAHeadThatIsNotLearnedHasTheSameGradientsOfRows) {
  torch::manual_seed(7);
  const torch::Tensor targets = torch::randint(0, 41, {300}), weights = torch::rand({300});
  const auto loss = [&](const torch::Tensor& hidden, const torch::Tensor& head) {
    return cross_entropy(hidden, head, targets, weights, /*scale=*/0.5, /*suppressed=*/-1);
  };
  const torch::Tensor hidden = torch::randn({300, 12}).requires_grad_(), head = torch::randn({41, 12});
  const torch::Tensor alone = torch::autograd::grad({loss(hidden, head)}, {hidden})[0];
  const torch::Tensor learned = head.clone().requires_grad_();
  const torch::Tensor both = torch::autograd::grad({loss(hidden, learned)}, {hidden, learned})[0];
  EXPECT_LE((alone - both).abs().max().item<double>(), 1e-6);
}

TEST(Fused, ProductsHaveTheTypeOfAutocast) {
  const torch::Tensor x = torch::ones({2, 4});
  EXPECT_EQ(matmul_dtype(x), torch::kFloat32);
  at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
  at::autocast::set_cpu_enabled(true);
  EXPECT_EQ(matmul_dtype(x), torch::kBFloat16);
  const torch::Tensor y =
      lora_linear(x, torch::ones({3, 4}), {}, torch::ones({1, 4}), torch::ones({3, 1}), 1);
  at::autocast::set_cpu_enabled(false);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(y[0][0].to(torch::kFloat32).item<float>(), 8);
}

}  // namespace
}  // namespace lacuna::train::fused_test
