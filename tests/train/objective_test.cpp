#include "train/objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "train/model.h"
#include "train/predict.h"

namespace lacuna::train::objective_test {
namespace {

constexpr int64_t kMask = 9;
const std::vector<int64_t> kSizes = {4, 8};

Batch batch_of(int64_t rows, int64_t length, int64_t prompt) {
  Batch batch{torch::arange(rows * length).remainder(9).view({rows, length}),
              torch::ones({rows, length}, torch::kBool)};
  batch.response.slice(1, 0, prompt).fill_(false);
  return batch;
}

/// The first token of each row is asked for token 7 after the last block, the second for token 5 before it.
Batch with_questions(Batch batch) {
  batch.auxiliary = torch::full_like(batch.tokens, -1);
  batch.auxiliary_weights = torch::zeros(batch.tokens.sizes());
  batch.blocks_left = torch::zeros_like(batch.tokens);
  batch.auxiliary.select(1, 0).fill_(7);
  batch.auxiliary.select(1, 1).fill_(5);
  batch.auxiliary_weights.slice(1, 0, 2).fill_(0.5);
  batch.blocks_left.select(1, 1).fill_(1);
  return batch;
}

const FamilyTraits& llada() {
  return traits_of(Family::kLlada);
}

/// `values` [B, T] at the rows that predict.
torch::Tensor at_rows(const torch::Tensor& values, const Examples& examples) {
  return values.flatten().index_select(0, examples.rows);
}

/// The ratios of a step: the same for all objectives that have them.
torch::Tensor ratios_of(const Batch& batch, uint64_t step) {
  std::vector<double> ratios;
  for (const SlotPlan& plan : sample_slot_plans(batch, kSizes, 1, step)) ratios.push_back(plan.ratio);
  return torch::tensor(ratios, torch::kFloat64);
}

TEST(MaskedExamples, HidesOnlyTokensOfTheResponse) {
  for (uint64_t step = 0; step < 50; ++step) {
    const Batch batch = batch_of(8, 10, 4);
    const Examples masked = masked_examples(llada(), batch, kMask, 1, step);
    EXPECT_TRUE(at_rows(batch.response, masked).all().item<bool>());
    EXPECT_TRUE(at_rows(masked.inputs, masked).eq(kMask).all().item<bool>());
    EXPECT_TRUE(masked.targets.equal(at_rows(batch.tokens, masked)));
    const torch::Tensor restored = masked.inputs.flatten().index_copy(0, masked.rows, masked.targets);
    EXPECT_TRUE(restored.equal(batch.tokens.flatten()));
  }
}

TEST(MaskedExamples, HidesAllCopiesOfOneTokenWhereToldTo) {
  Batch batch = batch_of(1, 10, 4);
  auto tokens = batch.tokens.accessor<int64_t, 2>();
  for (int64_t at = 0; at < 10; ++at) tokens[0][at] = at % 2 + 1;
  for (uint64_t step = 0; step < 20; ++step) {
    const Examples masked = masked_examples(llada(), batch, kMask, 1, step, 1);
    ASSERT_EQ(masked.targets.size(0), 3);  // 1 and 2 stand three times each after the prompt
    EXPECT_TRUE(masked.targets.eq(masked.targets[0]).all().item<bool>());
    EXPECT_NEAR(masked.weights.sum().item<double>(), 1, 1e-6);
  }
}

TEST(MaskedExamples, SpreadsTheRatiosOfABatchEvenly) {
  const Batch batch = batch_of(10, 11, 1);
  for (uint64_t step = 0; step < 20; ++step) {
    const torch::Tensor ratios = std::get<0>(ratios_of(batch, step).sort());
    EXPECT_GE(ratios[0].item<double>(), kMinRatio);
    EXPECT_LE(ratios[9].item<double>(), 1);
    const torch::Tensor distances = ratios.slice(0, 1) - ratios.slice(0, 0, 9);
    EXPECT_LT((distances - 0.1 * (1 - kMinRatio)).abs().max().item<double>(), 1e-9);
  }
}

TEST(MaskedExamples, WeighATokenByItsRatioTheResponseAndTheBatch) {
  const Batch batch = batch_of(10, 11, 1);
  const Examples masked = masked_examples(llada(), batch, kMask, 1, 3);
  const torch::Tensor ratios = ratios_of(batch, 3).index_select(0, masked.rows.div(11, "floor"));
  EXPECT_TRUE(masked.weights.allclose((1 / (10 * 10 * ratios)).to(torch::kFloat32)));
}

TEST(MaskedExamples, MasksEveryPositionAsOftenAsItsRatioSays) {
  const Batch batch = batch_of(10, 11, 1);
  torch::Tensor counts = torch::zeros({11});
  double expected = 0;
  for (uint64_t step = 0; step < 1000; ++step) {
    const Examples masked = masked_examples(llada(), batch, kMask, 1, step);
    counts += masked.inputs.eq(kMask).sum(0);
    expected += ratios_of(batch, step).sum().item<double>();
  }
  // About half of 10,000 coins, deviation below 50.
  EXPECT_LT((counts.slice(0, 1) - expected).abs().max().item<float>(), 250);
}

TEST(MaskedExamples, DependsOnSeedAndStepAlone) {
  const Batch batch = batch_of(8, 10, 4);
  const auto rows = [&](uint64_t seed, uint64_t step) {
    return masked_examples(llada(), batch, kMask, seed, step).rows;
  };
  EXPECT_TRUE(rows(1, 5).equal(rows(1, 5)));
  EXPECT_FALSE(rows(1, 5).equal(rows(1, 6)));
  EXPECT_FALSE(rows(1, 5).equal(rows(2, 5)));
}

TEST(MaskedExamples, AreAskedForOneRowEarlierWhereLogitsAreShifted) {
  const Batch batch = batch_of(8, 10, 4);
  const Examples plain = masked_examples(llada(), batch, kMask, 1, 0);
  const Examples shifted = masked_examples(traits_of(Family::kDream), batch, kMask, 1, 0);
  EXPECT_TRUE(shifted.rows.equal(plain.rows - 1));
  EXPECT_TRUE(shifted.targets.equal(plain.targets));
}

TEST(WithAuxiliary, AsksRowsOfThePromptBesidesTheResponse) {
  const Batch batch = with_questions(batch_of(4, 10, 4));
  const Examples masked = masked_examples(llada(), batch, kMask, 1, 0);
  const Examples all = with_auxiliary(masked, batch);
  const int64_t count = masked.rows.size(0);
  ASSERT_EQ(all.rows.size(0), count + 8);
  EXPECT_TRUE(all.inputs.equal(masked.inputs));
  EXPECT_TRUE(all.rows.slice(0, 0, count).equal(masked.rows));
  EXPECT_TRUE(all.rows.slice(0, count).equal(torch::tensor({0, 1, 10, 11, 20, 21, 30, 31}, torch::kInt64)));
  EXPECT_TRUE(all.targets.slice(0, count).equal(torch::tensor({7, 5, 7, 5, 7, 5, 7, 5}, torch::kInt64)));
  EXPECT_TRUE(all.weights.slice(0, count).equal(torch::full({8}, 0.5 / 4)));
  EXPECT_EQ(all.blocks_left.slice(0, 0, count).count_nonzero().item<int64_t>(), 0);
  EXPECT_TRUE(all.blocks_left.slice(0, count).equal(torch::arange(8).remainder(2)));
}

TEST(Predict, ReadsRowsAsManyBlocksEarlyAsTheyAreAsked) {
  torch::manual_seed(1);
  ModelShape shape;
  shape.layers = 3;
  shape.width = 8;
  shape.heads = 2;
  shape.ffn_width = 12;
  shape.vocabulary = 10;
  Transformer model(shape);
  Examples examples = masked_examples(llada(), batch_of(2, 10, 2), kMask, 1, 0);
  const torch::Tensor last = predict(model, examples);
  EXPECT_TRUE(model->logits(model->hidden(examples.inputs))
                  .flatten(0, 1)
                  .index_select(0, examples.rows)
                  .allclose(last));
  examples.blocks_left = torch::arange(examples.rows.size(0)).remainder(3);
  const torch::Tensor read = predict(model, examples);
  const auto residuals = model->residuals(examples.inputs, {}, {}, {});
  for (int64_t i = 0; i < examples.rows.size(0); ++i) {
    const torch::Tensor row =
        residuals[static_cast<size_t>(2 - i % 3)].flatten(0, 1)[examples.rows[i].item<int64_t>()];
    EXPECT_TRUE(model->logits(model->normed(row.unsqueeze(0)))[0].allclose(read[i])) << i;
    EXPECT_EQ(read[i].allclose(last[i]), i % 3 == 0) << i;
  }
}

TEST(NextTokenExamples, AskForEveryTokenOfTheResponseAndHideNone) {
  const Batch batch = batch_of(2, 5, 3);
  const Examples examples = next_token_examples(batch);
  EXPECT_TRUE(examples.inputs.equal(batch.tokens));
  EXPECT_TRUE(examples.rows.equal(torch::tensor({2, 3, 7, 8})));
  EXPECT_TRUE(examples.targets.equal(torch::tensor({3, 4, 8, 0})));
  EXPECT_TRUE(examples.weights.equal(torch::full({4}, 0.25F)));
}

/// Rows with prompts of 2, 1 and 3 tokens and responses of 5, 3 and 2; 8s fill them.
Batch three_rows() {
  const torch::Tensor tokens =
      torch::tensor({{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 8, 8, 8, 8}, {1, 2, 3, 4, 5, 8, 8, 8}});
  const torch::Tensor response =
      torch::tensor({{0, 0, 1, 1, 1, 1, 1, 0}, {0, 1, 1, 1, 0, 0, 0, 0}, {0, 0, 0, 1, 1, 0, 0, 0}});
  return {tokens, response.to(torch::kBool)};
}

TEST(SlotExamples, AreWhatAHandArranges) {
  const std::vector<SlotPlan> plans = {{0.5, {{6, 1}, {2, 2}}, {{4, 2}}},  // slots of 2, the last is shorter
                                       {0.9, {{1, 3}}, {}},
                                       {0.01, {}, {{3, 2}}}};
  constexpr int M = 9;
  const Examples examples = slot_examples(three_rows(), plans, M);
  EXPECT_TRUE(examples.inputs.equal(
      torch::tensor({{1, 2, 7, 3, 4, M, M, 8}, {1, 2, 3, 4, 8, 8, 8, 8}, {1, 2, 3, M, M, 8, 8, 8}})));
  EXPECT_TRUE(examples.positions.equal(
      torch::tensor({{0, 1, 6, 2, 3, 4, 5, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}})));
  // Clean: 3 -> 4 of the first row, 2 -> 3 and 3 -> 4 of the second; the last of a slot predicts nothing.
  EXPECT_TRUE(examples.rows.equal(torch::tensor({3, 5, 6, 9, 10, 19, 20})));
  EXPECT_TRUE(examples.targets.equal(torch::tensor({4, 5, 6, 3, 4, 4, 5})));
  const float clean = 1.F / 3;                // weight of each of the three clean rows that predict
  const float masked = 1.F / (3 * 0.5F * 5);  // three samples, the ratio, a response of 5
  const float rare = 1.F / (3 * 0.05F * 2);   // a ratio of 0.01 counts as 0.05
  EXPECT_TRUE(examples.weights.allclose(torch::tensor({clean, masked, masked, clean, clean, rare, rare})));
}

TEST(SlotExamples, OfHalfWrittenSlotsPredictTheNextTokenFromTheTokensAndTheirOwnFromTheMasks) {
  const std::vector<SlotPlan> plans = {{0.5, {{5, 2}}, {{2, 3, 2}}},  // tokens 3 and 4 are given, 5 is masked
                                       {0.5, {{1, 3}}, {}},
                                       {0.5, {}, {{3, 2, 1}}}};
  constexpr int M = 9;
  const Examples examples = slot_examples(three_rows(), plans, M);
  EXPECT_TRUE(examples.inputs.equal(
      torch::tensor({{1, 2, 6, 7, 3, 4, M, 8}, {1, 2, 3, 4, 8, 8, 8, 8}, {1, 2, 3, 4, M, 8, 8, 8}})));
  EXPECT_TRUE(examples.positions.equal(
      torch::tensor({{0, 1, 5, 6, 2, 3, 4, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}})));
  EXPECT_TRUE(examples.rows.equal(torch::tensor({2, 4, 5, 6, 9, 10, 19, 20})));
  EXPECT_TRUE(examples.targets.equal(torch::tensor({7, 4, 5, 5, 3, 4, 5, 5})));
  const float clean = 1.F / 6;
  const float masked = 1.F / (3 * 0.5F * 5), last = 1.F / (3 * 0.5F * 2);
  EXPECT_TRUE(
      examples.weights.allclose(torch::tensor({clean, clean, clean, masked, clean, clean, clean, last})));
}

TEST(SlotExamples, GiveAFiniteLossWhereNoCleanOrNoRowPredicts) {
  const std::vector<SlotPlan> masked = {{1, {}, {{2, 5}}}, {1, {}, {{1, 3}}}, {1, {}, {{3, 2}}}};
  const Examples all_masked = slot_examples(three_rows(), masked, kMask);
  const torch::Tensor logits = torch::zeros({10, 10});
  // The mean of log 10 over the masked tokens.
  EXPECT_NEAR(weighted_loss(logits, all_masked).item<double>(), std::log(10), 1e-5);

  const std::vector<SlotPlan> single = {{0.5, {{2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}}, {}},
                                        {0.5, {{1, 1}, {2, 1}, {3, 1}}, {}},
                                        {0.5, {{3, 1}, {4, 1}}, {}}};
  const Examples none = slot_examples(three_rows(), single, kMask);
  EXPECT_EQ(none.rows.size(0), 0);
  EXPECT_EQ(weighted_loss(logits.slice(0, 0, 0), none).item<double>(), 0);
}

TEST(SlotExamples, KeepEachTokenAtItsPositionAndThePromptInItsPlace) {
  constexpr int64_t kLength = 30;
  constexpr int64_t kPrompt = 5;
  const Batch batch = batch_of(8, kLength, kPrompt);
  bool shuffles = false;
  for (uint64_t step = 0; step < 30; ++step) {
    const Examples examples = slot_examples(batch, sample_slot_plans(batch, kSizes, 1, step), kMask);
    EXPECT_TRUE(std::get<0>(examples.positions.sort(1)).equal(torch::arange(kLength).repeat({8, 1})));
    const torch::Tensor original = batch.tokens.gather(1, examples.positions);
    const torch::Tensor masks = examples.inputs.eq(kMask);
    EXPECT_TRUE(torch::where(masks, original, examples.inputs).equal(original));
    EXPECT_TRUE(examples.positions.slice(1, 0, kPrompt).equal(torch::arange(kPrompt).repeat({8, 1})));
    EXPECT_TRUE(examples.rows.remainder(kLength).ge(kPrompt).all().item<bool>());

    // Every mask predicts its own token; a clean row the token at the next position, which is the next row's.
    const torch::Tensor own = at_rows(masks, examples);
    EXPECT_EQ(own.sum().item<int64_t>(), masks.sum().item<int64_t>());
    EXPECT_TRUE(examples.targets.masked_select(own).equal(at_rows(original, examples).masked_select(own)));
    const torch::Tensor clean = examples.rows.masked_select(own.logical_not());
    EXPECT_TRUE(examples.targets.masked_select(own.logical_not())
                    .equal(examples.inputs.flatten().index_select(0, clean + 1)));
    const torch::Tensor positions = examples.positions.flatten();
    EXPECT_TRUE(positions.index_select(0, clean + 1).equal(positions.index_select(0, clean) + 1));
    shuffles = shuffles || !examples.positions.equal(torch::arange(kLength).repeat({8, 1}));
  }
  EXPECT_TRUE(shuffles);
}

TEST(SampleSlotPlans, CutsEachResponseIntoSlotsOfOneSizeAndALastOne) {
  const Batch batch = batch_of(8, 30, 5);
  std::set<int64_t> sizes;
  for (uint64_t step = 0; step < 30; ++step) {
    for (const SlotPlan& plan : sample_slot_plans(batch, kSizes, 1, step)) {
      std::map<int64_t, int64_t> slots;
      for (const Slot& slot : plan.clean) slots[slot.first] = slot.size;
      for (const Slot& slot : plan.masked) slots[slot.first] = slot.size;
      ASSERT_EQ(slots.size(), plan.clean.size() + plan.masked.size());
      const int64_t size = slots.begin()->second;
      sizes.insert(size);
      int64_t at = 5;
      for (const auto& [first, count] : slots) {
        EXPECT_EQ(first, at);
        EXPECT_EQ(count, std::min(size, 30 - first));
        at += count;
      }
      EXPECT_EQ(at, 30);
    }
  }
  EXPECT_EQ(sizes, std::set<int64_t>(kSizes.begin(), kSizes.end()));
}

TEST(SampleSlotPlans, MasksSlotsAsOftenAsTheirRatioSaysAndInAnyPlace) {
  const Batch batch = batch_of(8, 33, 1);
  std::map<int64_t, int64_t> masked;  // masks by place in slots of 4
  double expected = 0;
  bool mixes = false, shuffles = false;
  for (uint64_t step = 0; step < 500; ++step) {
    for (const SlotPlan& plan : sample_slot_plans(batch, std::vector<int64_t>{4}, 1, step)) {
      for (const Slot& slot : plan.masked) ++masked[slot.first];
      expected += plan.ratio;
      mixes = mixes || (!plan.clean.empty() && !plan.masked.empty());
      shuffles = shuffles || (plan.clean.size() > 1 && plan.clean[0].first > plan.clean[1].first);
    }
  }
  // About half of 4,000 coins, deviation below 32.
  EXPECT_EQ(masked.size(), 8U);
  EXPECT_TRUE(mixes);     // each slot has a coin of its own
  EXPECT_TRUE(shuffles);  // clean slots, that is
  for (const auto& [first, count] : masked) EXPECT_NEAR(static_cast<double>(count), expected, 160) << first;
}

TEST(SampleSlotPlans, BeginAShareOfTheMaskedSlotsWithSomeOfTheirTokens) {
  const Batch batch = batch_of(8, 33, 1);
  double masked = 0, half_written = 0;
  std::map<int64_t, int64_t> written;
  for (uint64_t step = 0; step < 500; ++step) {
    const std::vector<int64_t> sizes = {4};
    const std::vector<SlotPlan> plans = sample_slot_plans(batch, sizes, 1, step, 0.25);
    const std::vector<SlotPlan> whole = sample_slot_plans(batch, sizes, 1, step);
    for (size_t row = 0; row < plans.size(); ++row) {
      ASSERT_EQ(plans[row].masked.size(), whole[row].masked.size());
      for (const Slot& slot : plans[row].clean) EXPECT_EQ(slot.written, 0);
      for (const Slot& slot : whole[row].masked) EXPECT_EQ(slot.written, 0);
      for (const Slot& slot : plans[row].masked) {
        masked += 1;
        if (slot.written == 0) continue;
        half_written += 1;
        ++written[slot.written];
      }
    }
  }
  // About 16,000 slots: the deviation of the share is 0.0035, that of each number about 32.
  EXPECT_NEAR(half_written / masked, 0.25, 0.02);
  EXPECT_EQ(written.size(), 3U);
  for (const auto& [tokens, count] : written)
    EXPECT_NEAR(static_cast<double>(count), half_written / 3, 160) << tokens;
}

TEST(SampleSlotPlans, DependOnSeedAndStepAlone) {
  const Batch batch = batch_of(8, 30, 5);
  const auto positions = [&](uint64_t seed, uint64_t step) {
    return slot_examples(batch, sample_slot_plans(batch, kSizes, seed, step), kMask).positions;
  };
  EXPECT_TRUE(positions(1, 5).equal(positions(1, 5)));
  EXPECT_FALSE(positions(1, 5).equal(positions(1, 6)));
  EXPECT_FALSE(positions(1, 5).equal(positions(2, 5)));
}

TEST(WeightedLoss, EqualsTheSumByHand) {
  // Two samples. The first has a response of 4, t = 1/2, 2 masked; the second one of 3, t = 1/4, 1 masked.
  const torch::Tensor probabilities = torch::tensor({{0.5F, 0.5F}, {0.75F, 0.25F}, {0.9F, 0.1F}});
  const double row0 = (-std::log(0.5) - std::log(0.25)) / 0.5 / 4;
  const double row1 = -std::log(0.1) / 0.25 / 3;
  const Examples examples{
      {}, {}, {}, {}, torch::tensor({0, 1, 1}), torch::tensor({1 / 4.F, 1 / 4.F, 2 / 3.F})};
  EXPECT_NEAR(weighted_loss(probabilities.log(), examples).item<double>(), (row0 + row1) / 2, 1e-6);
}

Examples noisy_examples(Family family, const Batch& batch, uint64_t seed, uint64_t step,
                        int64_t canvas = 32) {
  return interpolation_examples(
      traits_of(family), batch,
      {.mask_id = kMask, .slot_sizes = {}, .seed = seed, .canvas = canvas, .vocabulary = 10}, step);
}

/// The first noisy position of a row. Every row that sees less than all is clean.
int64_t clean_prefix(const Examples& examples, int64_t row) {
  return examples.unseen[row][0].any(-1).sum().item<int64_t>();
}

TEST(InterpolationExamples, LeaveThePromptAndNeverSampleTheMaskAsUniformNoise) {
  const Batch batch = batch_of(8, 40, 4);
  bool changes = false;
  for (uint64_t step = 0; step < 50; ++step) {
    const Examples examples = noisy_examples(Family::kGidd, batch, 1, step);
    EXPECT_TRUE(examples.inputs.slice(1, 0, 4).equal(batch.tokens.slice(1, 0, 4)));
    EXPECT_FALSE(examples.inputs.eq(kMask).any().item<bool>());
    EXPECT_TRUE(examples.targets.equal(at_rows(batch.tokens, examples)));
    EXPECT_TRUE(at_rows(batch.response, examples).all().item<bool>());
    changes = changes || !examples.inputs.equal(batch.tokens);

    const Examples masks = noisy_examples(Family::kGiddMask, batch, 1, step);
    EXPECT_TRUE(at_rows(masks.inputs, masks).eq(kMask).all().item<bool>());
    EXPECT_TRUE(masks.inputs.eq(kMask).logical_or(masks.inputs.eq(batch.tokens)).all().item<bool>());
  }
  EXPECT_TRUE(changes);
}

TEST(InterpolationExamples, HideWhatIsNoisyFromWhatIsClean) {
  constexpr int64_t kLength = 60, kPrompt = 4, kRows = 8;
  const Batch batch = batch_of(kRows, kLength, kPrompt);
  const torch::Tensor index = torch::arange(kLength);
  std::set<int64_t> windows;
  for (uint64_t step = 0; step < 50; ++step) {
    const Examples examples = noisy_examples(Family::kGidd, batch, 1, step);
    ASSERT_EQ(examples.unseen.sizes().vec(), (std::vector<int64_t>{kRows, 1, kLength, kLength}));
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t clean = clean_prefix(examples, row);
      ASSERT_GE(clean, kPrompt);
      SCOPED_TRACE(::testing::Message() << "step " << step << ", row " << row << ", clean " << clean);
      const torch::Tensor unseen = index.lt(clean).unsqueeze(1).logical_and(index.ge(clean).unsqueeze(0));
      EXPECT_TRUE(examples.unseen[row][0].equal(unseen));
      EXPECT_TRUE(examples.inputs[row].slice(0, 0, clean).equal(batch.tokens[row].slice(0, 0, clean)));
      // All of the window has a loss, or all of the response.
      const torch::Tensor places =
          examples.rows.masked_select(examples.rows.div(kLength, "floor") == row) - row * kLength;
      const int64_t end = clean + places.size(0);
      EXPECT_TRUE(places.equal(torch::arange(clean, end)));
      if (clean > kPrompt && end < kLength) windows.insert(end - clean);
    }
  }
  EXPECT_EQ(windows, (std::set<int64_t>{4, 8, 16, 32}));
}

TEST(InterpolationExamples, KeepTokensAsOftenAsTheirLevelsSay) {
  const Batch batch = batch_of(10, 41, 1);
  double kept = 0, expected = 0;
  for (uint64_t step = 0; step < 300; ++step) {
    const Examples examples = noisy_examples(Family::kGidd, batch, 1, step);
    EXPECT_LE(examples.log_snr.abs().max().item<float>(), kMaxLogSnr);
    kept += at_rows(examples.inputs, examples).eq(examples.targets).sum().item<double>();
    const torch::Tensor alpha = examples.log_snr.to(torch::kFloat64).sigmoid();
    expected += (alpha + (1 - alpha) / 9).sum().item<double>();  // noise may sample the token itself
  }
  // About half of 84,000 coins, deviation below 150.
  EXPECT_NEAR(kept, expected, 700);
}

TEST(InterpolationExamples, WeighTheTailAndKeptTokensLess) {
  Batch batch = batch_of(6, 21, 1);
  constexpr int64_t kTail = 6;
  batch.weights = torch::ones({6, 21});
  batch.weights.slice(1, kTail).fill_(kTailWeight);
  const Examples examples = noisy_examples(Family::kGidd, batch, 1, 2);
  const torch::Tensor in_canvas = examples.rows.remainder(21).lt(kTail);
  const torch::Tensor place = torch::where(in_canvas, torch::ones({1}, torch::kFloat64),
                                           torch::full({1}, kTailWeight, torch::kFloat64));
  const torch::Tensor kept = at_rows(examples.inputs, examples).eq(examples.targets);
  ASSERT_TRUE(kept.any().item<bool>());
  ASSERT_TRUE(in_canvas.logical_not().any().item<bool>());
  const torch::Tensor snr = examples.log_snr.to(torch::kFloat64);
  const torch::Tensor noise = torch::where(kept, 1 / (1 + 9 * snr.exp()), torch::ones({1}, torch::kFloat64));
  EXPECT_TRUE(examples.weights.allclose((place * noise / place.sum()).to(torch::kFloat32)));
}

TEST(InterpolationExamples, GiveTheQuestionsOfDrillsAndWeighTheirAnswersAlike) {
  constexpr int64_t kLength = 60, kPrompt = 4, kRows = 8, kCanvas = 5;
  Batch batch = batch_of(kRows, kLength, kPrompt);
  const torch::Tensor is_answer = torch::arange(kLength).remainder(3).eq(0);
  batch.response = batch.response.logical_and(is_answer);
  int windows = 0, whole = 0;
  for (uint64_t step = 0; step < 20; ++step) {
    const Examples examples = noisy_examples(Family::kGidd, batch, 1, step, kCanvas);
    for (int64_t row = 0; row < kRows; ++row) {
      const torch::Tensor is_noisy = examples.unseen[row][0].any(-1).logical_not();
      const torch::Tensor noise = is_noisy.logical_and(is_answer.logical_not()).nonzero();
      const int64_t end = noise.numel() > 0 ? noise[0].item<int64_t>()
                                            : kLength;  // first noisy position outside of the answer
      ++(end < kLength ? windows : whole);
      const torch::Tensor given = is_noisy.logical_not();
      EXPECT_TRUE(examples.inputs[row].masked_select(given).equal(batch.tokens[row].masked_select(given)));
      const torch::Tensor places =
          examples.rows.masked_select(examples.rows.div(kLength, "floor") == row) - row * kLength;
      EXPECT_TRUE(places.lt(end).logical_and(places.remainder(3).eq(0)).all().item<bool>());
    }
    const torch::Tensor changed = at_rows(examples.inputs, examples).ne(examples.targets);
    const torch::Tensor weights = examples.weights.masked_select(changed);
    EXPECT_TRUE(weights.allclose(weights[0].expand(weights.sizes())));
  }
  EXPECT_GT(windows, 0);
  EXPECT_GT(whole, 0);
}

TEST(InterpolationExamples, DependOnSeedAndStepAlone) {
  const Batch batch = batch_of(8, 30, 4);
  for (const Family family : {Family::kGidd, Family::kGiddMask}) {
    const auto inputs = [&](uint64_t seed, uint64_t step) {
      return noisy_examples(family, batch, seed, step).inputs;
    };
    EXPECT_TRUE(inputs(1, 5).equal(inputs(1, 5)));
    EXPECT_FALSE(inputs(1, 5).equal(inputs(1, 6)));
    EXPECT_FALSE(inputs(1, 5).equal(inputs(2, 5)));
  }
}

TEST(InterpolationExamples, AreTheNextTokensInTheFirstPhase) {
  const Batch batch = batch_of(2, 5, 3);
  ObjectiveOptions options{.mask_id = kMask, .slot_sizes = {}, .vocabulary = 10};
  options.left_to_right = true;
  const Examples examples = make_examples(traits_of(Family::kGidd), batch, options, 0);
  EXPECT_TRUE(examples.inputs.equal(batch.tokens));
  EXPECT_TRUE(examples.rows.equal(torch::tensor({2, 3, 7, 8})));
  EXPECT_FALSE(examples.unseen.defined());
}

TEST(WeightedLoss, OfUniformNoiseEqualsTheDivergencesByHand) {
  // Four tokens, the last is the mask: n = 3. One row lost its token, one kept it.
  const double alpha = 0.6, other = 0.4 / 3;
  const std::vector<std::vector<double>> predicted = {{0.5, 0.3, 0.2}, {0.1, 0.7, 0.2}};
  const std::vector<size_t> x = {0, 1}, z = {2, 1};
  const std::vector<double> weights = {0.25, 0.5};
  double expected = 0;
  for (size_t row = 0; row < 2; ++row) {
    const auto q = [&](double p) { return alpha * p + other; };
    double divergence = 0;
    for (size_t k = 0; k < 3; ++k) {
      const double of_x = q(k == x[row] ? 1 : 0);
      divergence += of_x * std::log(of_x / q(predicted[row][k]));
    }
    const double ratio = q(z[row] == x[row] ? 1 : 0) / q(predicted[row][z[row]]);
    expected += weights[row] * (divergence + ratio - std::log(ratio) - 1);
  }
  torch::Tensor logits = torch::tensor({{0.5F, 0.3F, 0.2F, 1.F}, {0.1F, 0.7F, 0.2F, 1.F}}).log();
  logits.select(1, 3).fill_(7);  // the logit of the mask must not count
  const Examples examples{torch::tensor({{2, 1}}),
                          {},
                          {},
                          torch::tensor({0, 1}),
                          torch::tensor({0, 1}),
                          torch::tensor({0.25F, 0.5F}),
                          3,
                          torch::full({2}, static_cast<float>(std::log(alpha / (1 - alpha))))};
  EXPECT_NEAR(weighted_loss(logits, examples).item<double>(), expected, 1e-5);

  // Nothing is to be learned from a prediction that is right.
  torch::Tensor right = torch::full({2, 4}, -100.F);
  right[0][0] = right[1][1] = 0;
  EXPECT_NEAR(weighted_loss(right, examples).item<double>(), 0, 1e-5);
}

TEST(WeightedLoss, OfMasksIsAlphaTimesTheCrossEntropy) {
  const Batch batch = batch_of(6, 21, 1);
  const Examples examples = noisy_examples(Family::kGiddMask, batch, 1, 2);
  const Examples uniform = noisy_examples(Family::kGidd, batch, 1, 2);  // the same coins, kinds and levels
  EXPECT_FALSE(examples.log_snr.defined());
  torch::Tensor logits = torch::zeros({examples.rows.size(0), 10});
  logits.select(1, kMask).fill_(5);
  // Noisy tokens to be learned are those of the uniform examples, all within the canvas: the mean of
  // alpha * log 9 over them, with zeros where the token was kept.
  const torch::Tensor masked = torch::isin(uniform.rows, examples.rows);
  ASSERT_EQ(masked.sum().item<int64_t>(), examples.rows.size(0));
  const torch::Tensor alpha = uniform.log_snr.to(torch::kFloat64).sigmoid().masked_select(masked);
  const double expected =
      alpha.sum().item<double>() * std::log(9) / static_cast<double>(uniform.rows.size(0));
  EXPECT_NEAR(weighted_loss(logits, examples).item<double>(), expected, 1e-5);
}

class EveryFamily : public ::testing::TestWithParam<Family> {
 protected:
  EveryFamily() {
    torch::manual_seed(1);
    ModelShape shape;
    shape.family = GetParam();
    shape.layers = 2;
    shape.width = 8;
    shape.heads = 2;
    shape.ffn_width = 12;
    shape.vocabulary = 10;
    shape.experts.ffn_width = 4;
    shape.canvas = {.length = kCanvas, .window = 5};
    // All of its experts, so that no small change makes a row choose others.
    if (shape.traits().has_canvases()) shape.experts.per_token = shape.experts.count;
    model_ = Transformer(shape);
    if (GetParam() == Family::kLlada2) {
      // Ranks so far apart that no small change makes a row choose others.
      const torch::NoGradGuard no_grad;
      model_->named_parameters()["blocks.1.moe.expert_bias"].copy_(2 * torch::arange(8));
    }
    if (shape.traits().interpolates()) {
      // A first head of zeros would hide the gradients of all others, and small embeddings bend too much for
      // finite differences.
      const torch::NoGradGuard no_grad;
      model_->named_parameters()["head.weight"].normal_(0, 0.01);
      model_->named_parameters()["embedding.weight"].normal_();
    }
  }

  Examples examples() const {
    const ObjectiveOptions options{
        .mask_id = kMask, .slot_sizes = {3}, .vocabulary = 10, .canvas_length = kCanvas};
    return make_examples(traits_of(GetParam()), with_questions(batch_of(3, 10, 2)), options, 0);
  }

  /// `soft`: of the canvases, as if it did not depend on the weights.
  torch::Tensor loss(const Examples& examples, const torch::Tensor& soft = {}) {
    return weighted_loss(predict(model_, examples, soft), examples);
  }

  static constexpr int64_t kCanvas = 6;
  Transformer model_ = nullptr;
};

TEST_P(EveryFamily, SeesTheFutureUnlessItIsCausal) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::tensor({{1, 2, 3, 4, 5}});
  torch::Tensor changed = tokens.clone();
  changed[0][3] = 7;
  const torch::Tensor difference = (model_->hidden(tokens) - model_->hidden(changed)).abs().amax(-1)[0];
  const bool causal = traits_of(GetParam()).causal;
  for (int64_t at = 0; at < 3; ++at) EXPECT_EQ(difference[at].item<float>() == 0, causal) << at;
  for (int64_t at = 3; at < 5; ++at) EXPECT_GT(difference[at].item<float>(), 0) << at;
}

TEST_P(EveryFamily, FindsTokensByTheirPositionsWhereverTheyStand) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::tensor({{1, 2, 3, 4}, {1, 2, 3, 4}});
  const torch::Tensor positions = torch::tensor({{0, 1, 2, 3}, {5, 6, 7, 8}});
  const torch::Tensor hidden = model_->hidden(tokens, positions);
  EXPECT_TRUE(hidden[0].equal(model_->hidden(tokens)[0]));
  EXPECT_TRUE(hidden[0].allclose(hidden[1], 1e-4, 1e-5));  // distances alone count
  const torch::Tensor moved = model_->hidden(tokens, torch::tensor({{0, 1, 2, 3}, {0, 3, 1, 2}}));
  EXPECT_GT((moved[0] - moved[1]).slice(0, 1).abs().max().item<float>(), 1e-3);
}

TEST_P(EveryFamily, HasALossThatIsTheSumOfItsParts) {
  const torch::NoGradGuard no_grad;
  const Examples whole = examples();
  ASSERT_GT(whole.rows.size(0), 3);
  double sum = 0;
  for (int64_t row = 0; row < 3; ++row) {
    const Examples part = part_of(whole, row, row + 1);
    sum += loss(part, soft_embeddings(model_, part)).item<double>();
  }
  EXPECT_NEAR(sum, loss(whole, soft_embeddings(model_, whole)).item<double>(), 1e-5);
}

TEST_P(EveryFamily, HasTheGradientThatFiniteDifferencesGive) {
  model_->to(torch::kFloat64);
  const Examples examples = this->examples();
  const torch::Tensor soft = soft_embeddings(model_, examples);
  ASSERT_EQ(soft.defined(), traits_of(GetParam()).has_canvases());
  const auto gradients = torch::autograd::grad({loss(examples, soft)}, model_->parameters());
  // The norm and the loss compute in f32, so the step cannot be tiny.
  constexpr double kStep = 1e-2;
  const double head_scale = std::max(1.0, traits_of(GetParam()).head_scale_width / 8);
  const torch::NoGradGuard no_grad;
  const auto parameters = model_->named_parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    torch::Tensor parameter = parameters[i].value();
    if (parameters[i].key().ends_with("expert_bias")) continue;  // moved by loads, not by the loss
    const double step = parameters[i].key() == "head.weight" ? kStep / head_scale : kStep;
    const torch::Tensor direction = torch::randn_like(parameter);
    const torch::Tensor unit = direction / direction.norm();
    parameter.add_(unit, step);
    const double above = loss(examples, soft).item<double>();
    parameter.sub_(unit, 2 * step);
    const double below = loss(examples, soft).item<double>();
    parameter.add_(unit, step);
    const double expected = (gradients[i] * unit).sum().item<double>();
    EXPECT_NEAR((above - below) / (2 * step), expected, 1e-3 + 0.02 * std::abs(expected))
        << parameters[i].key();
  }
}

TEST(FirstPhase, IsCausal) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::tensor({{1, 2, 3, 4, 5}});
  const torch::Tensor changed = torch::tensor({{1, 2, 3, 7, 5}});
  int phases = 0;
  for (const FamilyTraits& family : families()) {
    if (!family.first_phase) continue;
    ++phases;
    torch::manual_seed(1);
    ModelShape shape;
    shape.family = family.family;
    shape.layers = 2;
    shape.width = 8;
    shape.heads = 2;
    shape.ffn_width = 12;
    shape.vocabulary = 10;
    shape.left_to_right = true;
    Transformer model(shape);
    const torch::Tensor difference = (model->hidden(tokens) - model->hidden(changed)).abs().amax(-1)[0];
    EXPECT_EQ(difference.slice(0, 0, 3).max().item<float>(), 0) << family.name;
    EXPECT_GT(difference.slice(0, 3).min().item<float>(), 0) << family.name;
  }
  EXPECT_EQ(phases, 4);
}

TEST(Sink, IsSeenWhereNothingElseIs) {
  torch::manual_seed(1);
  ModelShape shape;
  shape.family = Family::kGidd;
  shape.layers = 1;
  shape.width = 8;
  shape.heads = 2;
  shape.ffn_width = 12;
  shape.vocabulary = 10;
  Transformer model(shape);
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::tensor({{1, 2, 3}});
  const torch::Tensor nothing = torch::ones({3, 3}, torch::kBool);
  const torch::Tensor before = model->hidden(tokens, {}, nothing);
  EXPECT_TRUE(before.isfinite().all().item<bool>());
  model->named_parameters()["blocks.0.k_sink"].normal_();  // alone it has all of the softmax
  EXPECT_TRUE(model->hidden(tokens, {}, nothing).allclose(before));
  model->named_parameters()["blocks.0.v_sink"].normal_();
  EXPECT_FALSE(model->hidden(tokens, {}, nothing).allclose(before));
}

TEST(BlockExamples, ShowEachMaskedBlockItselfAndTheCleanBlocksBeforeIt) {
  constexpr int64_t kLength = 7, kBlock = 3;
  Batch batch{torch::arange(2 * kLength).view({2, kLength}), torch::zeros({2, kLength}, torch::kBool)};
  batch.response.slice(1, 2).fill_(true);
  const Examples examples =
      block_examples(traits_of(Family::kSdar), batch, kBlock, /*mask_id=*/99, /*seed=*/3, /*step=*/5);
  ASSERT_EQ(examples.inputs.size(1), 2 * kLength);
  EXPECT_TRUE(examples.inputs.slice(1, 0, kLength).equal(batch.tokens));
  for (int64_t row = 0; row < 2 * kLength; ++row) {
    for (int64_t other = 0; other < 2 * kLength; ++other) {
      const int64_t block = row % kLength / kBlock;
      const int64_t other_block = other % kLength / kBlock;
      const bool is_noisy = row >= kLength;
      const bool other_is_noisy = other >= kLength;
      const bool sees = is_noisy ? (other_is_noisy ? block == other_block : other_block < block)
                                 : !other_is_noisy && other_block <= block;
      EXPECT_EQ(examples.unseen[row][other].item<bool>(), !sees) << row << " and " << other;
    }
  }
  for (int64_t i = 0; i < examples.rows.numel(); ++i) {
    const int64_t sample = examples.rows[i].item<int64_t>() / (2 * kLength);
    const int64_t row = examples.rows[i].item<int64_t>() % (2 * kLength);
    ASSERT_GE(row, kLength + 2) << "the prompt and the clean rows predict nothing";
    EXPECT_EQ(examples.inputs[sample][row].item<int64_t>(), 99);
    EXPECT_EQ(examples.targets[i].item<int64_t>(), batch.tokens[sample][row - kLength].item<int64_t>());
    EXPECT_EQ(examples.positions[sample][row].item<int64_t>(), row - kLength);
  }
  EXPECT_EQ(examples.inputs.eq(99).sum().item<int64_t>(), examples.rows.numel());
}

TEST(BlockExamples, HaveMaskedRowsOnlyFromTheFirstBlockToBeLearnedOnAndTheSameLoss) {
  constexpr int64_t kLength = 11, kBlock = 3, kFirst = 7, kBegin = 6;
  Batch batch = batch_of(2, kLength, kFirst);
  const Examples few = block_examples(traits_of(Family::kSdar), batch, kBlock, kMask, /*seed=*/3, /*step=*/2);
  ASSERT_EQ(few.inputs.size(1), kLength + kLength - kBegin);

  // The same with masked rows for the whole sequence, as if the first token were to be learned: the draws
  // depend on the place alone.
  Examples all = few;
  all.inputs = torch::cat({batch.tokens, batch.tokens.slice(1, 0, kBegin), few.inputs.slice(1, kLength)}, 1);
  all.positions = torch::arange(kLength).repeat({2, 2});
  const torch::Tensor sample = few.rows.div(few.inputs.size(1), "floor");
  all.rows = few.rows + (sample + 1) * kBegin;
  batch.response.select(1, 1).fill_(true);
  all.unseen = block_examples(traits_of(Family::kSdar), batch, kBlock, kMask, 3, 2).unseen;
  ASSERT_EQ(all.unseen.size(0), 2 * kLength);

  torch::manual_seed(2);
  ModelShape shape;
  shape.family = Family::kSdar;
  shape.layers = 2;
  shape.width = 8;
  shape.heads = 2;
  shape.ffn_width = 12;
  shape.vocabulary = 10;
  Transformer model(shape);
  const torch::NoGradGuard no_grad;
  const auto loss = [&](const Examples& examples) {
    const torch::Tensor hidden =
        model->hidden(examples.inputs, examples.positions, examples.unseen).flatten(0, 1);
    return weighted_loss(model->logits(hidden.index_select(0, examples.rows)), examples).item<double>();
  };
  ASSERT_GT(few.rows.size(0), 0);
  EXPECT_NEAR(loss(few), loss(all), 1e-6);
}

TEST(BlockExamples, KeepThePositionsOfTheBatch) {
  Batch batch = batch_of(2, 9, 4);
  batch.positions = torch::arange(18).view({2, 9}) * 10;
  const Examples examples = block_examples(traits_of(Family::kSdar), batch, 3, kMask, 3, 5);
  EXPECT_TRUE(examples.positions.slice(1, 0, 9).equal(batch.positions));
  EXPECT_TRUE(examples.positions.slice(1, 9).equal(batch.positions.slice(1, 3)));
  EXPECT_TRUE(next_token_examples(batch).positions.equal(batch.positions));
}

TEST(BlockExamples, OfFastDllmMaskEachTokenInOneOfTwoCopiesAndReadItFromTheRowBefore) {
  constexpr int64_t kLength = 11, kBlock = 4, kFirst = 6, kBegin = 4, kMasked = kLength - kBegin;
  constexpr int64_t kRows = kLength + 2 * kMasked;
  const Batch batch = batch_of(2, kLength, kFirst);
  const Examples examples =
      block_examples(traits_of(Family::kFastDllm), batch, kBlock, /*mask_id=*/99, /*seed=*/3, /*step=*/5);
  ASSERT_EQ(examples.inputs.size(1), kRows);
  ASSERT_EQ(examples.rows.size(0), 2 * (kLength - kFirst));
  EXPECT_TRUE(examples.weights.allclose(torch::full_like(examples.weights, 1.0 / (2 * (kLength - kFirst)))));
  for (int64_t sample = 0, i = 0; sample < 2; ++sample) {
    for (int64_t at = kFirst; at < kLength; ++at, ++i) {
      EXPECT_EQ(examples.targets[i].item<int64_t>(), batch.tokens[sample][at].item<int64_t>());
      const int64_t row = examples.rows[i].item<int64_t>() - sample * kRows;
      const int64_t first_copy = kLength + (at - kBegin);
      const auto is_masked = [&](int64_t r) { return examples.inputs[sample][r].item<int64_t>() == 99; };
      EXPECT_NE(is_masked(first_copy), is_masked(first_copy + kMasked)) << at;
      const int64_t masked = is_masked(first_copy) ? first_copy : first_copy + kMasked;
      EXPECT_EQ(row, at % kBlock == 0 ? at - 1 : masked - 1) << at;
    }
  }
  // A copy sees the clean blocks before and its own block in its own copy.
  const auto sees = [&](int64_t row, int64_t other) { return !examples.unseen[row][other].item<bool>(); };
  for (int64_t row = kLength; row < kRows; ++row) {
    const int64_t at = kBegin + (row - kLength) % kMasked;
    for (int64_t other = 0; other < kRows; ++other) {
      const bool is_clean = other < kLength;
      const int64_t other_at = is_clean ? other : kBegin + (other - kLength) % kMasked;
      const bool same_copy = !is_clean && (row - kLength) / kMasked == (other - kLength) / kMasked;
      const bool expected =
          is_clean ? other_at / kBlock < at / kBlock : same_copy && other_at / kBlock == at / kBlock;
      EXPECT_EQ(sees(row, other), expected) << row << " and " << other;
    }
  }
}

class ExpertsTest : public ::testing::Test {
 protected:
  ExpertsTest() {
    torch::manual_seed(1);
    shape_.family = Family::kLlada2;
    shape_.width = 8;
    shape_.experts = {.count = 8, .per_token = 2, .ffn_width = 4};
  }

  ModelShape shape_;
};

TEST_F(ExpertsTest, AddUpTheTwoBestOfTheTwoBestGroups) {
  Experts experts(shape_);
  const torch::NoGradGuard no_grad;
  auto parameters = experts->named_parameters();
  // Two experts to a group. Alone, expert 0 ranks highest, but the groups of 2 and 3 and of 6 and 7 are
  // better; the scores without the bias are sigmoid(0) = 1/2 each.
  parameters["router"].zero_();
  parameters["expert_bias"].copy_(torch::tensor({0.9, -1.0, 0.5, 0.3, 0.1, 0.1, 0.6, 0.2}));
  const torch::Tensor x = torch::randn({3, 8});
  const auto part = [&](const std::string& name) {
    const auto product = [&](const torch::Tensor& y, const char* kind) {
      return torch::matmul(y, parameters[name + kind].t());
    };
    return product(torch::silu(product(x, ".gate.weight")) * product(x, ".up.weight"), ".down.weight");
  };
  const torch::Tensor expected = part("shared") + 1.25 * (part("experts.2") + part("experts.6"));
  EXPECT_TRUE(experts(x).allclose(expected, 1e-5, 1e-6));
}

TEST_F(ExpertsTest, GetEvenLoadsByTheirBiases) {
  Experts experts(shape_);
  const torch::Tensor x = torch::randn({64, 8}) + 1;  // much alike: some experts are everyone's
  torch::optim::AdamW optimizer({experts->named_parameters()["expert_bias"]},
                                torch::optim::AdamWOptions(0.01).weight_decay(0));
  const auto unevenness = [&] {
    optimizer.zero_grad();
    (0 * experts(x)).sum().backward();
    return experts->named_parameters()["expert_bias"].grad().abs().max().item<double>();
  };
  const double before = unevenness();
  for (int i = 0; i < 200; ++i) {
    unevenness();
    optimizer.step();
  }
  EXPECT_LT(unevenness(), before / 2);
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily,
                         ::testing::Values(Family::kLlada, Family::kDream, Family::kQwen2, Family::kQwen3,
                                           Family::kRefusion, Family::kSdar, Family::kFastDllm,
                                           Family::kLlada2, Family::kGidd, Family::kGiddMask,
                                           Family::kDiffusionGemma, Family::kIdlm),
                         [](const auto& instance) {
                           std::string name(traits_of(instance.param).name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lacuna::train::objective_test
