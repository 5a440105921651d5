// DiffusionGemma: examples of its objective, its layers, and what the engine makes of its weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "train/canvas_model.h"
#include "train/evaluate.h"
#include "train/objective.h"
#include "train/predict.h"

namespace lacuna::train::canvas_test {
namespace {

constexpr int64_t kVocabulary = 50, kEnd = 49, kCanvas = 6;

ObjectiveOptions options() {
  ObjectiveOptions options;
  options.vocabulary = kVocabulary;
  options.canvas_length = kCanvas;
  options.end_id = kEnd;
  return options;
}

/// Rows of `length` tokens whose response begins at `prompt`; from `tail` on they are end tokens of low
/// weight.
Batch batch_of(int64_t rows, int64_t length, int64_t prompt, int64_t tail) {
  Batch batch{torch::arange(rows * length).remainder(40).view({rows, length}),
              torch::ones({rows, length}, torch::kBool),
              {},
              torch::ones({rows, length})};
  batch.response.slice(1, 0, prompt).fill_(false);
  batch.tokens.slice(1, tail).fill_(kEnd);
  batch.weights.slice(1, tail).fill_(kTailWeight);
  return batch;
}

ModelShape tiny_shape() {
  ModelShape shape;
  shape.family = Family::kDiffusionGemma;
  shape.layers = 3;
  shape.width = 16;
  shape.heads = 2;
  shape.ffn_width = 12;
  shape.vocabulary = kVocabulary;
  shape.experts = {.count = 4, .per_token = 2, .ffn_width = 4};
  shape.canvas = {.length = kCanvas, .window = 4};
  return shape;
}

/// The row whose prediction is at `index`, and its sample.
std::pair<int64_t, int64_t> place(const Examples& examples, int64_t index) {
  const int64_t row = examples.rows[index].item<int64_t>();
  return {row / examples.inputs.size(1), row % examples.inputs.size(1)};
}

TEST(CanvasExamples, HaveACleanRowAndBehindItACanvasAtThePositionsOfTheResponse) {
  constexpr int64_t kLength = 12, kPrompt = 4, kTail = 9;
  const Batch batch = batch_of(8, kLength, kPrompt, kTail);
  const Examples examples = canvas_examples(batch, options(), 3);
  ASSERT_EQ(examples.inputs.sizes().vec(), (std::vector<int64_t>{8, kLength + kCanvas}));
  EXPECT_EQ(examples.canvas_begin, kLength);
  EXPECT_TRUE(examples.inputs.slice(1, 0, kLength).equal(batch.tokens));
  EXPECT_TRUE(examples.positions.slice(1, 0, kLength).equal(torch::arange(kLength).repeat({8, 1})));
  const torch::Tensor places = torch::arange(kPrompt, kPrompt + kCanvas);
  EXPECT_TRUE(examples.positions.slice(1, kLength).equal(places.repeat({8, 1})));
  int64_t changed = 0;
  for (int64_t i = 0; i < examples.rows.size(0); ++i) {
    const auto [sample, row] = place(examples, i);
    const bool in_canvas = row >= kLength;
    const int64_t at = in_canvas ? kPrompt + row - kLength : row + 1;
    ASSERT_GE(at, kPrompt);
    EXPECT_EQ(examples.targets[i].item<int64_t>(), batch.tokens[sample][at].item<int64_t>());
    changed += static_cast<int64_t>(in_canvas && examples.inputs[sample][row].item<int64_t>() !=
                                                     batch.tokens[sample][at].item<int64_t>());
  }
  EXPECT_EQ(examples.rows.size(0), 8 * (kCanvas + kLength - kPrompt)) << "kept tokens are predicted, too";
  EXPECT_GT(changed, 0);
}

TEST(CanvasExamples, WeighTheCanvasAndTheNextTokensOfEachRowAlike) {
  const Batch batch = batch_of(3, 12, 4, 8);
  const Examples examples = canvas_examples(batch, options(), 0);
  double of_canvas = 0, of_next = 0;
  for (int64_t i = 0; i < examples.rows.size(0); ++i)
    (place(examples, i).second >= 12 ? of_canvas : of_next) += examples.weights[i].item<double>();
  EXPECT_NEAR(of_canvas, 1, 1e-6);
  EXPECT_NEAR(of_next, 1, 1e-6);
  // Six positions, two of them end tokens that weigh a tenth.
  const auto last = examples.weights[examples.weights.size(0) - 1].item<double>();
  EXPECT_NEAR(last, kTailWeight / (4 + 2 * kTailWeight) / 3, 1e-6);
}

TEST(CanvasExamples, ShowACanvasItselfAndTheCleanRowsBeforeIt) {
  constexpr int64_t kLength = 20, kPrompt = 3, kRows = 16;
  const Batch batch = batch_of(kRows, kLength, kPrompt, 14);  // eleven tokens: two canvases
  const Examples examples = canvas_examples(batch, options(), 1);
  std::set<int64_t> begins;
  for (int64_t sample = 0; sample < kRows; ++sample) {
    const int64_t begin = examples.positions[sample][kLength].item<int64_t>();
    begins.insert(begin);
    for (int64_t row = 0; row < kLength + kCanvas; ++row) {
      for (int64_t other = 0; other < kLength + kCanvas; ++other) {
        const bool sees = row < kLength ? other <= row : other >= kLength || other < begin;
        ASSERT_EQ(examples.unseen[sample][0][row][other].item<bool>(), !sees) << row << " and " << other;
      }
    }
  }
  EXPECT_EQ(begins, (std::set<int64_t>{kPrompt, kPrompt + kCanvas}));
}

TEST(CanvasExamples, FillACanvasBehindTheRowWithEndTokens) {
  const Batch batch = batch_of(4, 6, 4, 5);
  const Examples examples = canvas_examples(batch, options(), 0);
  for (int64_t i = 0; i < examples.rows.size(0); ++i) {
    const auto [sample, row] = place(examples, i);
    if (row > 6) {
      EXPECT_EQ(examples.targets[i].item<int64_t>(), kEnd);
    }
  }
}

TEST(CanvasExamples, GiveTheQuestionsOfDrillsAndNothingBehindThem) {
  constexpr int64_t kLength = 10, kPrompt = 4, kRows = 8;
  Batch batch = batch_of(kRows, kLength, kPrompt, kLength);
  batch.response = batch.response.logical_and(torch::arange(kLength).remainder(2).eq(0));  // 4, 6 and 8
  ObjectiveOptions wide = options();
  wide.canvas_length = 9;  // to position 12
  for (uint64_t step = 0; step < 10; ++step) {
    const Examples examples = canvas_examples(batch, wide, step);
    EXPECT_EQ(examples.rows.size(0), kRows * (3 + 3));
    const torch::Tensor given = torch::tensor({kLength + 1, kLength + 3, kLength + 5});
    const torch::Tensor places = torch::tensor({5, 7, 9});
    EXPECT_TRUE(examples.inputs.index_select(1, given).equal(batch.tokens.index_select(1, places)));
  }
}

TEST(CanvasExamples, ReplaceTokensAsOftenAsTheRatioSaysByAnyToken) {
  const Batch batch = batch_of(10, 12, 4, 12);
  double changed = 0;
  std::set<int64_t> seen;
  for (uint64_t step = 0; step < 200; ++step) {
    const Examples examples = canvas_examples(batch, options(), step);
    const torch::Tensor canvas = examples.inputs.slice(1, 12);
    const torch::Tensor clean = batch.tokens.gather(1, examples.positions.slice(1, 12).clamp_max(11));
    const torch::Tensor in_row = examples.positions.slice(1, 12).lt(12);
    changed += canvas.ne(clean).logical_and(in_row).sum().item<double>() / in_row.sum().item<double>();
    for (int64_t i = 0; i < canvas.size(1); ++i) seen.insert(canvas[0][i].item<int64_t>());
  }
  EXPECT_NEAR(changed / 200, 0.5 * (1 - 1.0 / kVocabulary), 0.02);
  EXPECT_EQ(seen.size(), static_cast<size_t>(kVocabulary));
}

TEST(CanvasExamples, ConditionHalfOfTheRowsAndDependOnSeedAndStepAlone) {
  const Batch batch = batch_of(10, 12, 4, 12);
  double conditioned = 0;
  for (uint64_t step = 0; step < 100; ++step) {
    const torch::Tensor temperatures = canvas_examples(batch, options(), step).temperatures;
    const torch::Tensor some = temperatures.masked_select(temperatures > 0);
    conditioned += static_cast<double>(some.numel()) / 1000;
    if (some.numel() == 0) continue;
    EXPECT_GT(some.min().item<double>(), kLastTemperature);
    EXPECT_LT(some.max().item<double>(), kFirstTemperature);
  }
  EXPECT_NEAR(conditioned, 0.5, 0.06);
  const auto inputs = [&](uint64_t seed, uint64_t step) {
    ObjectiveOptions seeded = options();
    seeded.seed = seed;
    return canvas_examples(batch, seeded, step).inputs;
  };
  EXPECT_TRUE(inputs(1, 5).equal(inputs(1, 5)));
  EXPECT_FALSE(inputs(1, 5).equal(inputs(1, 6)));
  EXPECT_FALSE(inputs(1, 5).equal(inputs(2, 5)));
}

TEST(RmsNorm, HasInOneLoopTheValuesAndGradientsOfItsFormula) {
  torch::manual_seed(1);
  for (const int64_t width : {1, 7, 16}) {
    const torch::Tensor x = torch::randn({3, 5, width}).set_requires_grad(true);
    const torch::Tensor weight = torch::randn({width}).set_requires_grad(true);
    const torch::Tensor factors = torch::randn({3, 5, width});
    const torch::Tensor y = rms_norm(x, weight, 1e-3);
    const torch::Tensor expected = x * torch::rsqrt(x.square().mean(-1, /*keepdim=*/true) + 1e-3) * weight;
    EXPECT_TRUE(y.allclose(expected, 1e-5, 1e-6)) << width;
    const auto gradients = torch::autograd::grad({(y * factors).sum()}, {x, weight});
    const auto wanted = torch::autograd::grad({(expected * factors).sum()}, {x, weight});
    EXPECT_TRUE(gradients[0].allclose(wanted[0], 1e-4, 1e-5)) << width;
    EXPECT_TRUE(gradients[1].allclose(wanted[1], 1e-4, 1e-5)) << width;
  }
}

class CanvasModel : public ::testing::Test {
 protected:
  CanvasModel() {
    torch::manual_seed(1);
    model_ = Transformer(tiny_shape());
  }

  Transformer model_ = nullptr;
};

TEST_F(CanvasModel, GivesAPassOfExamplesWhatReadingAndDenoisingGive) {
  const torch::NoGradGuard no_grad;
  constexpr int64_t kLength = 12, kPrompt = 7;
  const Batch batch = batch_of(4, kLength, kPrompt, kLength);
  const Examples examples = canvas_examples(batch, options(), 2);
  const torch::Tensor soft = soft_embeddings(model_, examples);
  ASSERT_TRUE(soft.defined());
  const torch::Tensor together =
      model_->hidden(examples.inputs, examples.positions, examples.unseen, {kLength, soft});
  for (int64_t sample = 0; sample < 4; ++sample) {
    const auto of_sample = [&](const torch::Tensor& x) { return x.slice(0, sample, sample + 1); };
    const torch::Tensor read = model_->hidden(of_sample(batch.tokens));
    EXPECT_TRUE(of_sample(together).slice(1, 0, kLength).allclose(read, 1e-4, 1e-5));
    const torch::Tensor decoded = torch::cat(
        {of_sample(batch.tokens).slice(1, 0, kPrompt), of_sample(examples.inputs).slice(1, kLength)}, 1);
    const bool is_conditioned = examples.temperatures[sample].item<float>() > 0;
    const torch::Tensor denoised =
        model_->hidden(decoded, {}, {}, {kPrompt, is_conditioned ? of_sample(soft) : torch::Tensor()});
    EXPECT_TRUE(of_sample(together).slice(1, kLength).allclose(denoised.slice(1, kPrompt), 1e-4, 1e-5));
  }
}

TEST_F(CanvasModel, HasTwoKindsOfLayersOfWhichTheLastSeesEverything) {
  const ModelShape shape = tiny_shape();
  const CanvasLayer first = canvas_layer(shape, 0), second = canvas_layer(shape, 1);
  EXPECT_TRUE(first.slides);
  EXPECT_FALSE(second.slides);
  EXPECT_FALSE(canvas_layer(shape, 2).slides);
  EXPECT_EQ(second.head_width, 2 * first.head_width);
  EXPECT_EQ(first.rotated_pairs, first.head_width / 2);
  EXPECT_EQ(second.rotated_pairs, second.head_width / 8);
  const auto parameters = model_->named_parameters();
  EXPECT_TRUE(parameters.contains("blocks.0.v.weight"));
  EXPECT_FALSE(parameters.contains("blocks.1.v.weight"));
  EXPECT_FALSE(parameters.contains("head.weight"));
}

TEST_F(CanvasModel, HidesFromSlidingLayersWhatIsBeforeTheirWindowAndGivesACanvasTheWindowOfItsFirstRow) {
  const ModelShape shape = tiny_shape();
  constexpr int64_t kLength = 12, kBegin = 8;
  const torch::Tensor positions = torch::arange(kLength);
  const torch::Tensor sliding =
      canvas_sequence(shape, canvas_layer(shape, 0), positions, {}, kBegin).visible->unseen;
  const torch::Tensor full =
      canvas_sequence(shape, canvas_layer(shape, 1), positions, {}, kBegin).visible->unseen;
  for (int64_t row = 0; row < kLength; ++row) {
    for (int64_t key = 0; key < kLength; ++key) {
      const bool sees = row >= kBegin || key <= row;
      const bool in_window = key > std::min(row, kBegin) - shape.canvas.window;
      EXPECT_EQ(full[row][key].item<bool>(), !sees) << row << " and " << key;
      EXPECT_EQ(sliding[row][key].item<bool>(), !(sees && in_window)) << row << " and " << key;
    }
  }
}

TEST_F(CanvasModel, IsConditionedByTheTemperedDistributionsOfAPassWithout) {
  const torch::NoGradGuard no_grad;
  Examples examples = canvas_examples(batch_of(3, 12, 4, 12), options(), 0);
  examples.temperatures = torch::tensor({0.F, 0.5F, 0.F});
  const torch::Tensor soft = soft_embeddings(model_, examples);
  EXPECT_EQ(soft[0].abs().max().item<float>(), 0);
  const torch::Tensor hidden =
      model_->hidden(examples.inputs, examples.positions, examples.unseen, {12, {}})[1].slice(0, 12);
  const torch::Tensor p = torch::softmax(model_->logits(hidden) / 0.5, -1);
  EXPECT_TRUE(
      soft[1].allclose(4 * torch::matmul(p, model_->named_parameters()["embedding.weight"]), 1e-4, 1e-5));
  const torch::Tensor plain = predict(model_, examples), conditioned = predict(model_, examples, soft);
  const torch::Tensor difference = (plain - conditioned).abs().amax(1);
  for (int64_t i = 0; i < examples.rows.size(0); ++i) {
    const auto [sample, row] = place(examples, i);
    EXPECT_EQ(difference[i].item<float>() > 0, sample == 1 && row >= 12) << sample << ", " << row;
  }
  examples.temperatures.zero_();
  EXPECT_FALSE(soft_embeddings(model_, examples).defined());
}

TEST_F(CanvasModel, CapsItsLogits) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor logits = model_->logits(1000 * torch::randn({4, 16}));
  EXPECT_LE(logits.abs().max().item<float>(), 30);
  EXPECT_GT(logits.abs().max().item<float>(), 29);
}

TEST_F(CanvasModel, AddsUpItsTwoBestExpertsByTheirShares) {
  const torch::NoGradGuard no_grad;
  const ModelShape shape = tiny_shape();
  CanvasBlock block(shape, 0);
  auto parameters = block->named_parameters();
  // Attention and the dense part add nothing; the router sees one dimension of h.
  parameters["post_attn_norm.weight"].zero_();
  parameters["post_dense_norm.weight"].zero_();
  parameters["post_ffn_norm.weight"].fill_(1);
  parameters["layer_scalar"].fill_(0.5);
  parameters["expert_scale"].copy_(torch::tensor({1.0, 2.0, 3.0, 4.0}));
  const torch::Tensor x = torch::randn({1, 1, shape.width});
  const torch::Tensor h = unit_norm(x, 1e-6)[0][0];
  parameters["router.weight"].copy_(torch::outer(torch::tensor({0.1F, 1.F, 2.F, -1.F}), h) / h.dot(h));
  const auto expert = [&](int64_t e) {
    const std::vector<torch::Tensor> both = torch::matmul(parameters["expert_gate_up"][e], h).chunk(2);
    return torch::matmul(parameters["expert_down"][e], torch::gelu(both[0], "tanh") * both[1]);
  };
  const double share = 1 / (1 + std::exp(-1.0));  // fraction of expert 2's weight: the scores are 2 and 1
  const torch::Tensor sum = 3 * share * expert(2) + 2 * (1 - share) * expert(1);
  const torch::Tensor expected = 0.5 * (x[0][0] + unit_norm(unit_norm(sum, 1e-6), 1e-6));
  const CanvasLayer layer = canvas_layer(shape, 0);
  const torch::Tensor y = block(x, canvas_sequence(shape, layer, torch::arange(1), {}, -1))[0][0];
  EXPECT_TRUE(y.allclose(expected, 1e-3, 1e-4)) << y << expected;
}

TEST_F(CanvasModel, DecodesAsManyTokensAsItIsAskedFor) {
  const auto canvases = decode(model_, {{1, 2, 3}, {4, 5, 6}}, 8, /*mask_id=*/0);
  ASSERT_EQ(canvases.size(), 2U);
  EXPECT_EQ(canvases[0].size(), 8U);
  EXPECT_THAT(canvases[1], ::testing::Each(::testing::AllOf(::testing::Ge(0), ::testing::Lt(kVocabulary))));
}

}  // namespace
}  // namespace lacuna::train::canvas_test
