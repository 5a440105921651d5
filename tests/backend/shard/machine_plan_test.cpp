#include "backend/shard/machine_plan.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "model/cost.h"
#include "model/random_spec.h"
#include "model/tiny_models.h"

namespace lacuna::machine_plan_test {
namespace {

constexpr MachineSpeeds kSpeeds{.flops = 14e12, .bandwidth = 250e9, .link = 12.5e9, .latency = 4e-6};

std::map<std::string, MachinePlan> plans_of(const ModelConfig& config, const PlannedPass& pass,
                                            const MachineSpeeds& speeds = kSpeeds) {
  std::map<std::string, MachinePlan> plans;
  for (const MachinePlan& plan : plan_machines(config, DType::kBF16, nullptr, speeds, pass))
    plans[std::string(plan.way)] = plan;
  return plans;
}

TEST(MachinePlan, GathersTheBytesOfTheFourExchangesOfALayer) {
  // LLaDA-8B: 2 q + 4 D + 2 F + 4 D = 65536 bytes a row and layer.
  const ModelConfig llada = parse_random_spec("random:llada-8b");
  EXPECT_EQ(gathered_bytes_per_row(llada, DType::kBF16), 65536.0 * 32);
  ModelConfig experts = tiny_configs()[7];  // one dense layer of three; a shared expert
  const double attention = 2.0 * 4 * 14 + 4 * 40;
  EXPECT_EQ(gathered_bytes_per_row(experts, DType::kBF16),
            3 * attention + (2 * 45 + 4 * 40) + 2 * (2.0 * 3 * 21 + 4 * 40 + 2 * 17 + 4 * 40));
}

TEST(MachinePlan, ReceivesWhatTheOtherMachinesHave) {
  const ModelConfig llada = parse_random_spec("random:llada-8b");
  for (const int machines : {2, 4, 8}) {
    const auto plans = plans_of(llada, {.machines = machines, .rows = 256});
    const double others = (machines - 1.0) / machines;
    EXPECT_DOUBLE_EQ(plans.at("outputs").received_bytes, 256 * 65536.0 * 32 * others);
    EXPECT_DOUBLE_EQ(plans.at("rows").received_bytes,
                     256 * 16384.0 * 33 * others);  // and the residual stream
    EXPECT_DOUBLE_EQ(plans.at("layers").received_bytes, 256 * 16384.0);
    EXPECT_EQ(plans.at("outputs").exchanges, 4 * 32);
    EXPECT_EQ(plans.at("rows").exchanges, 33);
    EXPECT_EQ(plans.at("layers").exchanges, machines);
    EXPECT_EQ(plans.at("one").received_bytes, 0);
  }
}

TEST(MachinePlan, KeepsOnEachMachineItsPartOfTheLayersAndBothEnds) {
  const ModelConfig llada = parse_random_spec("random:llada-8b");
  const auto plans = plans_of(llada, {.machines = 4});
  const int64_t ends = 2 * 2 * llada.vocab_size * llada.hidden_dim;
  const int64_t layers = plans.at("one").weight_bytes - ends;
  EXPECT_EQ(plans.at("outputs").weight_bytes, ends + layers / 4);
  EXPECT_EQ(plans.at("layers").weight_bytes, ends + layers / 4);
  EXPECT_EQ(plans.at("rows").weight_bytes, plans.at("one").weight_bytes);
  for (const char* way : {"outputs", "layers"})
    EXPECT_EQ(4 * plans.at(way).kv_bytes, plans.at("one").kv_bytes);
  EXPECT_EQ(plans.at("rows").kv_bytes, plans.at("one").kv_bytes);
}

TEST(MachinePlan, SendsKeysAndValuesOfCodesAsTheyWereBeforeTheyWereRounded) {
  const ModelConfig llada = parse_random_spec("random:llada-8b");
  WeightFormats formats = DType::kBF16;
  formats.kv_int8 = true;
  const auto plans = plan_machines(llada, formats, nullptr, kSpeeds, {.machines = 2, .rows = 1});
  EXPECT_DOUBLE_EQ(plans[2].received_bytes, (2 * 16384.0 * 32 + 16384) / 2);
}

TEST(MachinePlan, SaysThatFewerLayersThanMachinesCannotBeDivided) {
  ModelConfig few = parse_random_spec("random:llada-8b,layers=2");
  EXPECT_TRUE(plans_of(few, {.machines = 2}).at("layers").is_possible);
  EXPECT_FALSE(plans_of(few, {.machines = 3}).at("layers").is_possible);
}

TEST(MachinePlan, ChoosesTheFastestWayThatFits) {
  const ModelConfig llada = parse_random_spec("random:llada-8b");
  const auto chosen = [&](double gigabits, int64_t rows, int64_t memory) -> std::string {
    MachineSpeeds speeds = kSpeeds;
    speeds.link = gigabits * 1e9 / 8;
    const std::vector<MachinePlan> plans =
        plan_machines(llada, DType::kBF16, nullptr, speeds, {.machines = 2, .rows = rows});
    const MachinePlan* fastest = fastest_that_fits(plans, memory);
    return fastest == nullptr ? "none" : std::string(fastest->way);
  };
  constexpr int64_t kMuch = int64_t{1} << 36;
  constexpr int64_t kLittle = int64_t{12} << 30;  // less than the 16 GB of the model
  EXPECT_EQ(chosen(100, 1024, kMuch), "rows");
  EXPECT_EQ(chosen(100, 1024, kLittle), "outputs");
  EXPECT_EQ(chosen(1, 1024, kLittle), "layers");
  EXPECT_EQ(chosen(100, 8, kMuch), "outputs");  // all ranks would read all weights
  EXPECT_EQ(chosen(100, 1024, 1 << 30), "none");
}

TEST(MachinePlan, TakesTheTimeOfArithmeticOrOfReadingWeightsAndThatOfTheLink) {
  const ModelConfig llada = parse_random_spec("random:llada-8b");
  const auto plans = plans_of(llada, {.machines = 2, .rows = 1024, .cells = 1024});
  const double flops = 1024 * (flops_per_row(llada) + 1024 * flops_per_cell(llada) + flops_per_logits(llada));
  EXPECT_DOUBLE_EQ(plans.at("one").seconds(), flops / 14e12);
  EXPECT_DOUBLE_EQ(plans.at("outputs").compute_seconds, flops / 2 / 14e12);
  EXPECT_DOUBLE_EQ(plans.at("outputs").wire_seconds, 1024 * 65536.0 * 16 / 12.5e9 + 128 * 4e-6);
  // The table of speed-ups has 1.7 for outputs and 1.9 for rows at 100 Gbit/s.
  EXPECT_NEAR(plans.at("one").seconds() / plans.at("outputs").seconds(), 1.7, 0.1);
  EXPECT_NEAR(plans.at("one").seconds() / plans.at("rows").seconds(), 1.9, 0.1);

  const auto few = plans_of(llada, {.machines = 2, .rows = 1, .cells = 1});
  const auto bytes =
      static_cast<double>(few.at("one").weight_bytes) - 2.0 * llada.vocab_size * llada.hidden_dim;
  EXPECT_DOUBLE_EQ(few.at("one").seconds(), bytes / 250e9);  // the embedding is not read
}

TEST(MachinePlan, ComputesAsManyPassesAsThereAreReplicasOrStages) {
  const ModelConfig llada = parse_random_spec("random:llada-8b");
  const auto plans = plans_of(llada, {.machines = 4});
  const MachinePlan& one = plans.at("one");
  EXPECT_DOUBLE_EQ(plans.at("replicas").passes_per_second, 4 * one.passes_per_second);
  EXPECT_DOUBLE_EQ(plans.at("replicas").seconds(), one.seconds());
  const MachinePlan& layers = plans.at("layers");
  EXPECT_GT(layers.passes_per_second, 2 / one.seconds());
  EXPECT_LT(layers.passes_per_second, 4 / one.seconds());
}

}  // namespace
}  // namespace lacuna::machine_plan_test
