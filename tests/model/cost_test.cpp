#include "model/cost.h"

#include <gmock/gmock.h>

#include "model/parameters.h"
#include "model/random_spec.h"
#include "tiny_models.h"

namespace lacuna::cost_test {
namespace {

TEST(Cost, OfARowIsTwiceTheWeightsItMeets) {
  // LLaDA-8B: layers without norms, embedding and head; 14 GFLOP in the layers and 1.04 in the head.
  const ModelConfig config = parse_random_spec("random:llada-8b");
  const double matrices =
      static_cast<double>(count_parameters(config) - 2 * config.vocab_size * config.hidden_dim -
                          (2 * config.num_layers + 1) * config.hidden_dim);
  EXPECT_EQ(flops_per_row(config), 2 * matrices);
  EXPECT_NEAR(flops_per_row(config), 14e9, 0.1e9);
  EXPECT_EQ(flops_per_logits(config), 2.0 * 126464 * 4096);
  EXPECT_EQ(flops_per_cell(config), 4.0 * 32 * 4096);
}

TEST(Cost, OfExpertsCountsTheChosenOnesAndTheRouter) {
  const ModelConfig config = parse_random_spec("random:llada-moe-7b");
  EXPECT_EQ(flops_per_row(config), 2.0 * 16 * (4 * 2048 * 2048 + 64 * 2048 + 8 * 3 * 2048 * 1024));
}

TEST(Cost, OfGroupedExpertsCountsDenseLayersAndTheSharedExpert) {
  const ModelConfig config = parse_random_spec("random:llada2-mini");
  const double attention = 2048 * 3072 + 2048 * 2048;
  const double experts = 256 * 2048 + 9 * 3 * 2048 * 512;
  EXPECT_EQ(flops_per_row(config), 2 * (20 * attention + 3 * 2048 * 5120 + 19 * experts));
  // 1.11 billion parameters touched per token, the head included.
  EXPECT_NEAR(flops_per_row(config) / 2 + flops_per_logits(config) / 2, 1.11e9, 0.005e9);
}

TEST(Cost, OfRowsThatOnlyWriteTheirKeysLeavesOutTheLastLayerAndNoOther) {
  const ModelConfig config = tiny_configs()[7];
  PassWork work{.rows = 1};
  const double whole = cost(config, ModelBytes(), work).layer_flops;
  work.only_kv_rows = 1;
  const double spared = whole - cost(config, ModelBytes(), work).layer_flops;
  const double hidden = 40;
  EXPECT_EQ(spared, 2 * hidden * (2 * 4 * 14 + 12 + 3 * (3 * 21 + 17)));
}

TEST(Cost, OfReusedRowsIsThatOfTheFirstLayerAndOfTheValuesOfAllOthers) {
  const ModelConfig config = parse_random_spec("random:dream-7b");
  StepPlan plan;
  for (int32_t row = 0; row < 40; ++row) plan.add_row(1, row, row);
  plan.groups.push_back({0, {0, 40}, {{0, 60}}, OwnRows::kNone});
  const StepCost whole = cost(config, ModelBytes(), work_of(plan));
  plan.groups[0].reuse = {.keeps = true, .num_computed = 40};
  EXPECT_EQ(cost(config, ModelBytes(), work_of(plan)).layer_flops, whole.layer_flops);
  plan.groups[0].reuse.num_computed = 12;
  const StepCost reused = cost(config, ModelBytes(), work_of(plan));
  EXPECT_EQ(reused.rows, 40 - 27) << "28 rows in 27 of 28 layers";
  const double values = 27 * 2.0 * 3584 * 512;
  const double saved =
      28 * (flops_per_row(config) * 27 / 28 - values) + 28 * 60 * flops_per_cell(config) * 27 / 28;
  EXPECT_NEAR(whole.layer_flops - reused.layer_flops, saved, 1e-9 * saved);
}

TEST(Cost, OfEvictedRowsIsThatOfTheFirstLayerAndOfTheirKeysInTheSecond) {
  const ModelConfig config = parse_random_spec("random:dream-7b");
  StepPlan plan;
  for (int32_t row = 0; row < 30; ++row) {
    plan.add_row(1, row, row);
    LogitRow logit;
    logit.row = row;
    plan.logits.push_back(logit);
  }
  plan.groups.push_back({0, {0, 30}, {{0, 50}}, OwnRows::kNone});
  PassWork work = work_of(plan);
  const StepCost whole = cost(config, ModelBytes(), work);
  std::vector<RowStatistics> samples(30);
  for (size_t i = 2; i < 30; ++i) samples[i].token = -1;
  leave_out_evicted(plan, samples, work);
  const StepCost evicted = cost(config, ModelBytes(), work);
  EXPECT_EQ(evicted.rows, 30 - 27) << "28 rows in 27 of 28 layers";
  const double of_row = flops_per_row(config) * 27 / 28 - 2.0 * 3584 * (3584 + 2 * 512);
  const double saved = 28 * (of_row + 50 * flops_per_cell(config) * 27 / 28);
  EXPECT_NEAR(whole.layer_flops - evicted.layer_flops, saved, 1e-9 * saved);
  EXPECT_NEAR(evicted.head_flops, whole.head_flops * 2 / 30, 1);
}

TEST(Cost, OfDiffusionGemmaCountsTheHeadsOfEachKindOfLayer) {
  const ModelConfig config = parse_random_spec("random:diffusion-gemma");
  const double sliding = 2 * 4096 + 2 * 2048;
  const double full = 2 * 8192 + 1024;  // values are keys
  const double ffn = 128 + 3 * (8 * 704 + 2112);
  EXPECT_EQ(flops_per_row(config), 2.0 * 2816 * (25 * sliding + 5 * full + 30 * ffn));
  EXPECT_EQ(flops_per_cell(config), 4.0 * (25 * 4096 + 5 * 8192));
  EXPECT_EQ(flops_per_logits(config), 2.0 * 262144 * 2816);
  // 3.82 billion parameters touched per token, the head included.
  EXPECT_NEAR(flops_per_row(config) / 2 + flops_per_logits(config) / 2, 3.82e9, 0.005e9);

  PassWork work{.rows = 1};
  const double whole = cost(config, ModelBytes(), work).layer_flops;
  work.only_kv_rows = 1;
  const double spared = whole - cost(config, ModelBytes(), work).layer_flops;
  EXPECT_EQ(spared, 2.0 * 2816 * (2 * 8192 + ffn)) << "all of the last layer but its keys";
}

TEST(Cost, OfSharedKeyHeadsCountsEveryQueryHead) {
  const ModelConfig config = parse_random_spec("random:dream-7b");
  EXPECT_EQ(flops_per_cell(config), 4.0 * 28 * 3584);
  EXPECT_EQ(flops_per_row(config), 2.0 * 28 * (2 * 3584 * 3584 + 2 * 3584 * 512 + 3 * 3584 * 18944));
}

TEST(Cost, OfAPlanAddsRowsPairsAndLogits) {
  const ModelConfig config = tiny_configs()[0];
  StepPlan plan;
  for (int32_t row = 0; row < 7; ++row) plan.add_row(1, row, row);
  plan.groups = {{0, {0, 4}, {{10, 15}, {20, 21}}, OwnRows::kBidirectional},
                 {1, {4, 7}, {{0, 2}}, OwnRows::kCausal}};
  plan.logits.resize(3);
  plan.logits[1].unconditional_row = 2;
  const ModelBytes bytes = {1000, 200, 3};
  const StepCost result = cost(config, bytes, work_of(plan));
  EXPECT_EQ(result.rows, 7);
  const double pairs = 4 * (6 + 4) + 3 * 2 + (1 + 2 + 3);
  EXPECT_EQ(result.layer_flops, 7 * flops_per_row(config) + pairs * flops_per_cell(config));
  EXPECT_EQ(result.head_flops, 4 * flops_per_logits(config));
  EXPECT_EQ(result.flops(), result.layer_flops + result.head_flops);
  // Weights once, the cells that the groups read (6 + 4, 2 + 3), the K/V of 7 rows.
  EXPECT_EQ(result.bytes, 1000 + 200 + 3 * (6 + 4 + 2 + 3 + 7));
  plan.logits.clear();
  EXPECT_EQ(cost(config, bytes, work_of(plan)).bytes, 1000 + 3 * (6 + 4 + 2 + 3 + 7));
}

TEST(Cost, OfRowsThatSeeNamedCellsAloneCountsNoOthers) {
  StepPlan plan;
  for (int32_t row = 0; row < 4; ++row) plan.add_row(1, row, row);
  plan.groups = {{0, {0, 4}, {{0, 9}}, OwnRows::kNone}};
  const PassWork work = work_of(plan);
  EXPECT_EQ(work.pairs, 4 * 9);
  EXPECT_EQ(work.cells, 9);
}

TEST(Cost, OfDriftCountsBothPosteriorsAndTheirGuidance) {
  const std::vector<DriftProbe> probes = {{0, -1, 0, 0}, {1, 5, 0.5F, 1}};
  EXPECT_EQ(logit_rows_of({.probes = probes}), 2 + 4);
}

TEST(Cost, OfAFollowUpCountsRowsReadByClasses) {
  const std::vector<LogitRow> logits(1);
  const std::vector<ClassRow> classes = {{LogitRow{}, nullptr}, {LogitRow{.unconditional_row = 3}, nullptr}};
  EXPECT_EQ(logit_rows_of({.logits = logits, .classes = classes}), 1 + 1 + 2);
}

TEST(Cost, OfChunksAddsUpToTheCostOfTheWhole) {
  const ModelConfig config = tiny_configs()[5];
  const StepPlan whole = canvas_plan(random_tokens(1, 9, config.vocab_size), OwnRows::kCausal);
  StepCost sum;
  for (int32_t row = 0; row < 9; ++row) {
    StepPlan part;
    part.add_row(1, row, row);
    part.groups = {{0, {0, 1}, {{0, row}}, OwnRows::kCausal}};
    part.logits.resize(1);
    sum += cost(config, ModelBytes(), work_of(part));
  }
  EXPECT_EQ(sum.rows, 9);
  EXPECT_EQ(sum.flops(), cost(config, ModelBytes(), work_of(whole)).flops());
}

TEST(Cost, OfSparseAttentionLeavesOutWhatLaterLayersDoNotSee) {
  ModelConfig config = tiny_configs()[0];
  config.num_layers = 5;
  StepPlan plan;
  for (int32_t row = 0; row < 4; ++row) plan.add_row(1, 100 + row, 100 + row);
  plan.groups = {{0, {0, 4}, {{0, 100}}, OwnRows::kBidirectional}};
  const ModelBytes bytes = {1000, 200, 50};
  const StepCost exact = cost(config, bytes, work_of(plan));
  plan.groups[0].sparse = {SparseAttention::Choice::kRemembered, {0, 100}, 30, 16};
  const StepCost sparse = cost(config, bytes, work_of(plan));
  const double per_layer = flops_per_cell(config) / 5;
  EXPECT_DOUBLE_EQ(exact.layer_flops - sparse.layer_flops, 3 * 4 * 70 * per_layer);
  EXPECT_DOUBLE_EQ(exact.bytes - sparse.bytes, 70 * 50 * 3 / 5);
  EXPECT_EQ(exact.sparse_rows, 0);
  EXPECT_EQ(sparse.sparse_rows, 4);
  plan.groups[0].sparse.dense_layers = 1;
  EXPECT_DOUBLE_EQ(exact.layer_flops - cost(config, bytes, work_of(plan)).layer_flops,
                   4 * 4 * 70 * per_layer);
  plan.groups[0].sparse.choice = SparseAttention::Choice::kAllAndRemember;
  EXPECT_EQ(cost(config, ModelBytes(), work_of(plan)).flops(), exact.flops());
  plan.groups[0].sparse.choice = SparseAttention::Choice::kAllAndKeep;
  EXPECT_EQ(cost(config, ModelBytes(), work_of(plan)).flops(), exact.flops());
  plan.groups[0].sparse.choice = SparseAttention::Choice::kKept;
  const StepCost kept = cost(config, bytes, work_of(plan));
  EXPECT_DOUBLE_EQ(exact.layer_flops - kept.layer_flops, 4 * 4 * 100 * per_layer);
  EXPECT_DOUBLE_EQ(exact.bytes - kept.bytes, 100 * 50 * 4 / 5);
  EXPECT_EQ(kept.sparse_rows, 4);
  plan.groups[0].sparse.active_rows = 3;  // each sees the last page, of 4 cells, and no other
  const StepCost active = cost(config, bytes, work_of(plan));
  EXPECT_DOUBLE_EQ(exact.layer_flops - active.layer_flops, 4 * (4 * 100 - 3 * 4) * per_layer);
  EXPECT_DOUBLE_EQ(exact.bytes - active.bytes, 96 * 50 * 4 / 5);
}

TEST(Cost, OfExpertsReadsThoseThatRowsChoose) {
  ModelConfig config;
  config.num_layers = 3;
  config.hidden_dim = 10;
  config.num_heads = config.num_kv_heads = 1;
  config.head_dim = 10;
  config.ffn_dim = 7;
  config.moe.num_experts = 4;
  config.moe.experts_per_token = 2;
  config.moe.expert_ffn_dim = 5;
  config.moe.first_dense_layers = 1;
  const double dense = 3 * 4 * 10 * 10 + 3 * 10 * 7 + 2 * 10 * 4, expert = 2 * 3 * 10 * 5;
  const auto share = [&](double experts) { return (dense + experts * expert) / (dense + 4 * expert); };
  EXPECT_DOUBLE_EQ(share_of_weights_read(config, 0), share(0));
  EXPECT_DOUBLE_EQ(share_of_weights_read(config, 1), share(2));
  // Two rows choose the same pair, pairs with one expert in common, or all four, in 1, 4 and 1 of 6 cases.
  EXPECT_DOUBLE_EQ(share_of_weights_read(config, 2), share((1 * 2 + 4 * 3 + 1 * 4) / 6.0));
  EXPECT_NEAR(share_of_weights_read(config, 100), 1, 1e-9);

  StepPlan plan;
  plan.add_row(1, 0, 0);
  plan.groups = {{0, {0, 1}, {}, OwnRows::kBidirectional}};
  EXPECT_DOUBLE_EQ(cost(config, {1000, 200, 0}, work_of(plan)).bytes, 1000 * share(2));

  // Windows of 32 rows have pools of two experts.
  config.moe.experts_per_token = 1;
  config.moe.window = 32;
  config.moe.experts_per_window = 2;
  EXPECT_DOUBLE_EQ(share_of_weights_read(config, 1), share(1));
  EXPECT_DOUBLE_EQ(share_of_weights_read(config, 32), share(2));
  EXPECT_DOUBLE_EQ(share_of_weights_read(config, 64), share(3)) << "as two rows that choose two";
}

}  // namespace
}  // namespace lacuna::cost_test
