#include "decode/decision.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/tiny_models.h"

namespace lacuna::decision_test {
namespace {

constexpr int32_t kPrefix = 8;  // whole blocks
const std::vector<TokenId> kLabels = {3, 70, 11};

/// Two branches of one prefix, one longer than the other, with two slots in the first. Blocks have 4
/// positions.
DecisionCanvas two_branches(const ModelConfig& config) {
  const bool is_masked = config.paradigm() == Paradigm::kMasked;
  const int32_t prefix = is_masked ? 0 : kPrefix;
  DecisionCanvas canvas;
  canvas.prefix = random_tokens(1, prefix, 80);
  canvas.branches.push_back({random_tokens(2, 8, 80), {{prefix + 5, kLabels}, {prefix + 7, {9, 10}}}});
  canvas.branches.push_back({random_tokens(3, 4, 80), {{prefix + 2, kLabels}}});
  return canvas;
}

std::vector<SlotReading> read(const ModelConfig& config, const std::vector<DecisionCanvas>& canvases,
                              int32_t* num_passes = nullptr) {
  DecisionDecoder decoder(config, canvases);
  Runner runner(tiny_model(config), default_table(), 1, decoder.num_cells());
  int32_t passes = 0;
  for (; !decoder.done(); ++passes) {
    EXPECT_LE(decoder.plan().num_rows(), decoder.num_cells());
    decoder.apply({runner.draws(decoder.plan())});
  }
  if (num_passes != nullptr) *num_passes = passes;
  return {decoder.readings().begin(), decoder.readings().end()};
}

/// A branch and its prefix in one pass of their own.
StepPlan whole_plan(const ModelConfig& config, const std::vector<TokenId>& tokens, int32_t prefix) {
  if (config.paradigm() == Paradigm::kBlocks)
    return blocks_plan(tokens, static_cast<int32_t>(config.block_length));
  StepPlan plan = canvas_plan(tokens, own_rows_of(config));
  if (prefix == 0 || config.causal) return plan;
  plan.groups.front().rows = {0, prefix};
  if (config.canvas) plan.groups.front().own_rows = OwnRows::kCausal;
  RowGroup rest{0, {prefix, plan.num_rows()}, {{0, prefix}}, OwnRows::kBidirectional};
  if (config.canvas) rest.canvas = CanvasRows::kFresh;
  plan.groups.push_back(std::move(rest));
  return plan;
}

void expect_log_softmax(const ModelConfig& config, const DecisionCanvas& canvas, const std::string& name) {
  const std::vector<SlotReading> readings = read(config, {canvas});
  size_t next = 0;
  for (const DecisionBranch& branch : canvas.branches) {
    std::vector<TokenId> tokens = canvas.prefix;
    tokens.insert(tokens.end(), branch.tokens.begin(), branch.tokens.end());
    Runner runner(tiny_model(config), default_table(), 1);
    const std::vector<float> logits =
        runner.logits(whole_plan(config, tokens, static_cast<int32_t>(canvas.prefix.size())));
    for (const DecisionSlot& slot : branch.slots) {
      const int32_t row = slot.position - (config.causal || config.shifted_logits ? 1 : 0);
      const float* of_row = logits.data() + row * runner.vocab();
      double sum = 0;
      for (int64_t i = 0; i < runner.vocab(); ++i) sum += std::exp(static_cast<double>(of_row[i]));
      const SlotReading& reading = readings.at(next++);
      ASSERT_EQ(reading.logprobs.size(), slot.labels.size());
      for (size_t i = 0; i < slot.labels.size(); ++i)
        EXPECT_NEAR(reading.logprobs[i], of_row[slot.labels[i]] - std::log(sum), 1e-4) << name << " " << row;
    }
  }
  EXPECT_EQ(next, readings.size());
}

TEST(Decision, ReadsTheLogSoftmaxOfEachSlotInEveryParadigm) {
  for (const ModelConfig& config : tiny_configs()) {
    if (config.paradigm() != Paradigm::kBlocks)
      expect_log_softmax(config, two_branches(config), config.family.data());
  }
  ModelConfig shifted_blocks = tiny_block_config(4);
  shifted_blocks.shifted_logits = true;
  for (const auto& [name, config] :
       {std::pair("slots", tiny_refusion_config()), std::pair("blocks", tiny_block_config(4)),
        std::pair("shifted blocks", shifted_blocks), std::pair("uniform", tiny_gidd_config(1000)),
        std::pair("canvases", tiny_canvas_config())}) {
    expect_log_softmax(config, two_branches(config), name);
  }
}

TEST(Decision, ReadsTheFirstPositionOfABlockFromTheBlockBeforeWhereLogitsAreShifted) {
  ModelConfig config = tiny_block_config(4);
  config.shifted_logits = true;
  DecisionCanvas canvas{random_tokens(1, 8, 80), {{random_tokens(2, 8, 80), {{12, kLabels}}}}};
  expect_log_softmax(config, canvas, "first of a block");
}

TEST(Decision, ReadsAllBranchesInOnePassWhereTheyFit) {
  int32_t passes = 0;
  read(tiny_refusion_config(), {two_branches(tiny_refusion_config())}, &passes);
  EXPECT_EQ(passes, 1);
  read(tiny_configs()[0], {two_branches(tiny_configs()[0])}, &passes);
  EXPECT_EQ(passes, 1);
}

TEST(Decision, GivesEachCanvasAPassOfItsOwnWhereWindowsCountCells) {
  int32_t passes = 0;
  read(tiny_canvas_config(), {two_branches(tiny_canvas_config())}, &passes);
  EXPECT_EQ(passes, 2);
}

TEST(Decision, ReadsLongPrefixesAndManyBranchesInPartsWithTheSameResult) {
  ModelConfig config = tiny_refusion_config();
  DecisionCanvas canvas = two_branches(config);
  canvas.prefix = random_tokens(4, 1500, 80);
  for (DecisionBranch& branch : canvas.branches) {
    for (DecisionSlot& slot : branch.slots) slot.position += 1500 - kPrefix;
  }
  DecisionCanvas many = canvas;
  while (many.branches.size() < 400) many.branches.push_back(canvas.branches[many.branches.size() % 2]);
  int32_t passes = 0;
  const std::vector<SlotReading> few = read(config, {canvas});
  const std::vector<SlotReading> all = read(config, {many}, &passes);
  EXPECT_EQ(passes, 4);  // 1,500 rows of the prefix and 2,400 of branches, at most 1,024 to a pass
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], few[i % few.size()]);
}

TEST(Decision, ReadsSeveralCanvasesOneAfterTheOther) {
  const ModelConfig config = tiny_block_config(4);
  const DecisionCanvas first = two_branches(config);
  DecisionCanvas second = first;
  std::reverse(second.prefix.begin(), second.prefix.end());
  std::vector<SlotReading> expected = read(config, {first});
  for (const SlotReading& reading : read(config, {second})) expected.push_back(reading);
  EXPECT_NE(expected[0], expected[3]);
  EXPECT_EQ(read(config, {first, second}), expected);
}

TEST(Decision, SharesThePrefixOfASingleCanvasAlone) {
  const ModelConfig config = tiny_block_config(4);
  DecisionDecoder decoder(config, {two_branches(config)});
  EXPECT_EQ(decoder.exact_prefix().block_length, 4);
  EXPECT_EQ(decoder.exact_prefix().wanted, kPrefix);
  EXPECT_EQ(decoder.exact_prefix().kept, 0);
  decoder.skip_prefix(4);
  EXPECT_EQ(decoder.plan().positions.front(), 4);
  const DecisionDecoder several(config, {two_branches(config), two_branches(config)});
  EXPECT_EQ(several.exact_prefix().block_length, 0);
  const DecisionDecoder masked(tiny_configs()[0], {two_branches(tiny_configs()[0])});
  EXPECT_EQ(masked.exact_prefix().block_length, 0);
}

TEST(Decision, RefusesASlotThatNoRowOfItsBranchPredicts) {
  const ModelConfig config = tiny_refusion_config();
  DecisionCanvas canvas = two_branches(config);
  canvas.branches[0].slots[0].position = kPrefix;  // its row before lies in the prefix
  DecisionDecoder decoder(config, {canvas});
  EXPECT_THROW(decoder.plan(), std::logic_error);
}

}  // namespace
}  // namespace lacuna::decision_test
