// The backend: logits against the CPU's, what must not change a bit, and
// what is refused.
#include "backend/cuda/cuda_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cuda/device.h"
#include "backend/cuda/device_model.h"
#include "backend/cuda/kv_pool.h"
#include "base/error.h"
#include "cuda_models.h"
#include "logits.h"
#include "model/drift.h"
#include "model/sampling.h"
#include "orders.h"

namespace lacuna::cuda::cuda_model_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(CudaModel, GivesTheLogitsOfEverySupportedFamily) {
  for (const ModelConfig& config : supported_configs())
    expect_close(config, DType::kBF16, config.architecture);
  // Among few cells, the sink has a large part of the attention.
  for (const char* family : {"gidd", "sumi"}) expect_close(config_of(family), DType::kBF16, family, 2);
}

TEST(CudaModel, GivesTheLogitsOfHeadsAndActivationsThatNoFamilyHasHere) {
  ModelConfig capped = config_of("llada");
  capped.rotary_dim = 16;
  capped.attn_soft_cap = 5;
  capped.activation = Activation::kSquaredRelu;
  capped.ffn_bias = true;
  expect_close(capped, DType::kBF16, "a soft cap, squared ReLU and biases");
  for (const int64_t head_dim : {16, 64, 128, 256, 512}) {
    ModelConfig wide = config_of("qwen3");
    wide.head_dim = wide.rotary_dim = head_dim;
    wide.num_layers = 1;
    for (const DType dtype : {DType::kBF16, DType::kF32})
      expect_close(wide, dtype, "heads of " + std::to_string(head_dim));
  }
}

TEST(CudaModel, NormsOutputsOfLayersAndCapsLogits) {
  ModelConfig config = config_of("llada");
  config.norms_outputs = true;
  config.layer_scalars = true;
  config.residual_scale = 0.5F;
  config.logit_soft_cap = 4;
  config.activation = Activation::kGeluTanh;
  for (const DType dtype : {DType::kBF16, DType::kF32}) expect_close(config, dtype, "norms and a soft cap");
  config.rounds_embedding_scale = true;
  config.embedding_scale = 6.3245554F;
  for (const DType dtype : {DType::kBF16, DType::kF32}) expect_close(config, dtype, "a rounded scale");
}

TEST(CudaModel, ScalesWhatExpertsAddToTheResidualStream) {
  for (const char* family : {"llada-moe", "llada2"}) {  // the second with a shared expert
    ModelConfig config = config_of(family);
    config.residual_scale = 0.5F;
    expect_close(config, DType::kBF16, family);
  }
}

TEST(CudaModel, GuidesScaledLogitsWhenPosteriorsAreCompared) {
  ModelConfig config = config_of("llada");
  config.logit_scale = 0.37F;
  const StepPlan before = plan_of(config, 1);
  StepPlan now = before;
  now.tokens[5] = now.tokens[5] == 1 ? 2 : 1;
  Passes passes(cuda_model(config));
  passes.add_sequence(kTokens, /*remembers_outputs=*/true);
  const auto logits_of_row_4 = [&](PassTicket& ticket, int32_t unconditional_row) {
    LogitRow row;
    row.row = 4;
    row.unconditional_row = unconditional_row;
    row.guidance = 0.5F;
    std::vector<float> logits(static_cast<size_t>(config.vocab_size));
    ticket.read_logits({&row, 1}, {logits.data(), 1, config.vocab_size});
    return logits;
  };
  const std::unique_ptr<PassTicket> first = passes.submit(before);
  first->wait();
  first->remember_outputs();
  const std::vector<float> logits_before = logits_of_row_4(*first, -1);
  const std::unique_ptr<PassTicket> second = passes.submit(now);
  second->wait();
  // The cell remembers the same output for the row and for the one that guides it, so that guidance changes
  // nothing of the posterior before.
  const std::vector<DriftProbe> probes = {{.row = 4, .unconditional_row = 9, .guidance = 0.5F, .cell = 4}};
  const Drift drift = second->follow_up({{}, probes}).drifts.front();
  const Drift expected = lacuna::measure_drift(logits_of_row_4(*second, 9), logits_before);
  EXPECT_EQ(drift.kl, expected.kl);
  EXPECT_EQ(drift.max_log_change, expected.max_log_change);
}

/// plan_of() with some rows mixed with the mask.
StepPlan mixed_plan_of(const ModelConfig& config, uint64_t seed, int32_t tokens) {
  StepPlan plan = plan_of(config, seed, tokens);
  for (int32_t row = 1; row < tokens; row += 2)
    plan.mixed.push_back({row, 0.1F * static_cast<float>(row % 10)});
  return plan;
}

TEST(CudaModel, MixesRowsWithTheMask) {
  for (const char* family : {"llada2", "sdar"}) {
    const ModelConfig config = config_of(family);
    const StepPlan plan = mixed_plan_of(config, 3, kTokens);
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      const auto expected = logits_of(load_on_cpu(one_thread(), {}, config, dtype, kWeightSeed, {}), plan);
      const auto got = logits_of(cuda_model(config, dtype), plan);
      const double scale = root_mean_square(expected, std::vector<float>(expected.size(), 0));
      EXPECT_LT(root_mean_square(got, expected), bound_of(config) * scale) << family;
      EXPECT_GT(root_mean_square(logits_of(cuda_model(config, dtype), plan_of(config, 3, kTokens)), expected),
                0.1 * scale)
          << family;
    }
  }
}

TEST(CudaModel, GivesTheSameBitsInEveryOrderOfThreads) {
  for (const char* family : {"qwen3", "llada2", "llada2.2", "nemotron-labs-diffusion", "diffusion-gemma"}) {
    const ModelConfig config = config_of(family);
    const StepPlan plan =
        std::string_view(family) == "llada2" ? mixed_plan_of(config, 5, 12) : plan_of(config, 5, 12);
    std::vector<float> first;
    simt::in_every_order([&](const std::string& order) {
      const auto got = logits_of(cuda_model(config), plan);
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << family << ", " << order;
    });
  }
}

TEST(CudaModel, GivesARowTheSameBitsAloneAndInCompany) {
  for (const char* family : {"llada", "llada2", "llada2.2", "nemotron-labs-diffusion", "diffusion-gemma"}) {
    const ModelConfig config = config_of(family);
    StepPlan together;
    std::vector<StepPlan> plans;
    for (const int32_t tokens : {9, 130, 21}) {  // more rows than one product takes
      plans.push_back(std::string_view(family) == "llada2"
                          ? mixed_plan_of(config, static_cast<uint64_t>(tokens), tokens)
                          : plan_of(config, static_cast<uint64_t>(tokens), tokens));
      together.append(plans.back(), static_cast<int32_t>(plans.size()) - 1);
    }
    Passes company(cuda_model(config));
    for (size_t i = 0; i < plans.size(); ++i) company.add_sequence();
    const std::vector<float> all = company.logits(together);
    const std::vector<RowStatistics> all_samples = company.samples(together);
    int64_t first = 0;  // of the plan's rows in the common pass
    for (size_t i = 0; i < plans.size(); first += plans[i++].num_rows()) {
      if (i == 1) continue;  // its products take two calls alone, too, which is slow in the simulator
      Passes alone(cuda_model(config));
      alone.add_sequence();
      const std::vector<float> own = alone.logits(plans[i]);
      EXPECT_TRUE(std::equal(own.begin(), own.end(), all.begin() + first * config.vocab_size))
          << family << ", " << plans[i].num_rows();
      const std::vector<RowStatistics> own_samples = alone.samples(plans[i]);
      EXPECT_TRUE(std::equal(own_samples.begin(), own_samples.end(), all_samples.begin() + first)) << family;
    }
  }
}

/// Rows from `kept` on, which see the cells before them.
StepPlan rest_of(const std::vector<TokenId>& tokens, int32_t kept) {
  StepPlan rest;
  rest.rules.emplace_back();
  const auto count = static_cast<int32_t>(tokens.size());
  for (int32_t i = kept; i < count; ++i) {
    rest.add_row(tokens[static_cast<size_t>(i)], i, i);
    LogitRow row;
    row.row = i - kept;
    rest.logits.push_back(row);
  }
  rest.groups.push_back({0, {0, count - kept}, {{0, kept}}, OwnRows::kCausal});
  return rest;
}

void expect_same_behind_kept_prefixes(const ModelConfig& config, std::initializer_list<int32_t> lengths) {
  const std::vector<TokenId> tokens = random_tokens(6, 60, config.vocab_size);
  const auto model = cuda_model(config);
  const std::vector<float> whole = logits_of(model, rest_of(tokens, 0));
  for (const int32_t kept : lengths) {
    const std::string name = config.architecture + ", " + std::to_string(kept);
    Passes passes(model);
    KvSequence& sequence = passes.add_sequence(60);
    StepPlan prefix = rest_of({tokens.begin(), tokens.begin() + kept}, 0);
    prefix.logits.clear();
    prefix.groups.front().only_kv = true;
    EXPECT_TRUE(passes.samples(prefix).empty());
    const std::vector<float> got = passes.logits(rest_of(tokens, kept));
    EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin() + kept * config.vocab_size)) << name;
    // The same from another sequence that takes the prefix over.
    const KvPrefix shared{&sequence, kept};
    const std::unique_ptr<KvSequence> taken = passes.pool().make_sequence({60}, shared);
    KvSequence* sequences[] = {taken.get()};
    const StepPlan rest = rest_of(tokens, kept);
    const std::unique_ptr<PassTicket> ticket = model->submit(rest, sequences);
    ticket->wait();
    std::vector<float> again(got.size());
    ticket->read_logits(rest.logits, {again.data(), std::ssize(rest.logits), config.vocab_size});
    EXPECT_EQ(again, got) << name;
  }
}

TEST(CudaModel, ReadsAKeptPrefixAsIfItHadComputedItAgain) {
  expect_same_behind_kept_prefixes(config_of("qwen3"), {32, 45});
  expect_same_behind_kept_prefixes(config_of("nemotron-labs-diffusion"), {32, 45});
  expect_same_behind_kept_prefixes(config_of("llada2.2"), {32, 48});  // whole windows
  expect_same_behind_kept_prefixes(config_of("diffusion-gemma"), {32, 45});
}

TEST(CudaModel, DrawsOnTheDeviceWhatTheHostDrawsOfItsLogits) {
  const ModelConfig config = config_of("llada");
  StepPlan plan = plan_of(config, 11, 24);
  plan.rules.resize(6);
  plan.rules[0].forbidden = {3, 7, 90};
  plan.rules[1].temperature = 0.8F;
  plan.rules[1].measure = ConfidenceMeasure::kMargin;
  plan.rules[1].measures_all = true;
  plan.rules[2].measure = ConfidenceMeasure::kNegativeEntropy;
  plan.rules[3].temperature = 0.9F;
  plan.rules[3].top_p = 0.8F;
  plan.rules[3].top_k = 9;
  plan.rules[3].source = ConfidenceSource::kSampled;
  plan.rules[4].temperature = 0.7F;
  plan.rules[4].source = ConfidenceSource::kTempered;
  plan.rules[4].measure = ConfidenceMeasure::kNegativeEntropy;
  plan.rules[4].measures_all = true;
  plan.rules[5].temperature = 1.3F;
  plan.rules[5].source = ConfidenceSource::kSampled;
  for (size_t i = 0; i < plan.logits.size(); ++i) {
    plan.logits[i].rule = static_cast<int32_t>(i % 6);
    plan.logits[i].noise = RngStream(5, i);
    plan.logits[i].scored = i % 5 == 0 ? 17 : -1;
    if (i % 6 == 3) plan.logits[i].unconditional_row = 1;
    if (i % 6 == 3) plan.logits[i].guidance = 0.5F;
  }
  Passes passes(cuda_model(config));
  passes.add_sequence();
  const std::unique_ptr<PassTicket> ticket = passes.submit(plan);
  const auto samples = ticket->wait().samples;
  std::vector<float> logits(plan.logits.size() * static_cast<size_t>(config.vocab_size));
  ticket->read_logits(plan.logits, {logits.data(), std::ssize(plan.logits), config.vocab_size});
  const auto further = ticket->follow_up({plan.logits}).samples;
  for (size_t i = 0; i < plan.logits.size(); ++i) {
    const std::span<float> row(logits.data() + i * static_cast<size_t>(config.vocab_size),
                               static_cast<size_t>(config.vocab_size));
    const LogitRow& wanted = plan.logits[i];
    const RowStatistics expected =
        draw(default_table(), plan.rules[static_cast<size_t>(wanted.rule)], wanted.noise, row, wanted.scored);
    EXPECT_EQ(samples[i].token, expected.token) << i;
    EXPECT_EQ(samples[i].best_token, expected.best_token) << i;
    EXPECT_EQ(samples[i].best_logit, expected.best_logit) << i;
    EXPECT_EQ(samples[i].scored_rank, expected.scored_rank) << i;
    EXPECT_NEAR(samples[i].confidence, expected.confidence, 1e-6) << i;  // the CPU's exponentials are f32
    EXPECT_NEAR(samples[i].scored_probability, expected.scored_probability, 1e-6) << i;
    EXPECT_NEAR(samples[i].entropy, expected.entropy, 1e-5) << i;
    EXPECT_NEAR(samples[i].margin, expected.margin, 1e-6) << i;
    EXPECT_EQ(further[i], samples[i]) << i;
  }
}

TEST(CudaModel, MeasuresHowFarKeysValuesAndPosteriorsMoved) {
  const ModelConfig config = config_of("llada");
  const auto model = cuda_model(config);
  Passes passes(model);
  KvSequence& sequence = passes.add_sequence(kTokens, /*remembers_outputs=*/true);
  StepPlan now = plan_of(config, 1);
  now.measures_kv_drift = true;
  const std::vector<DriftProbe> probes = {{.row = 3, .cell = 3},
                                          {.row = 4, .unconditional_row = 9, .guidance = 0.5F, .cell = 4}};
  {
    const std::unique_ptr<PassTicket> ticket = passes.submit(now);
    const auto drift = ticket->wait().kv_drift;
    ASSERT_EQ(std::ssize(drift), 2 * kTokens * config.num_layers);
    EXPECT_EQ(drift.front(), 1);  // cells begin as zeros
    ticket->remember_outputs();
  }
  const std::unique_ptr<PassTicket> same = passes.submit(now);
  for (const float drift : same->wait().kv_drift) EXPECT_LT(std::abs(drift), 1e-6);
  EXPECT_EQ(same->follow_up({{}, std::span(probes).first(1)}).drifts.front().kl, 0);

  StepPlan other = now;
  other.tokens[5] = other.tokens[5] == 1 ? 2 : 1;
  const std::unique_ptr<PassTicket> changed = passes.submit(other);
  changed->wait();
  const Drift plain = changed->follow_up({{}, std::span(probes).first(1)}).drifts.front();
  EXPECT_GT(plain.kl, 0);
  const auto both = changed->follow_up({{}, probes}).drifts;
  EXPECT_NEAR(both[0].kl, plain.kl, 1e-6 * plain.kl + 1e-9);  // from downloaded logits
  EXPECT_GT(both[1].kl, 0);

  std::vector<float> before(static_cast<size_t>(config.hidden_dim)), after(before.size());
  const std::vector<int32_t> cell = {3};
  sequence.read_outputs(cell, {before.data(), 1, config.hidden_dim});
  changed->remember_outputs();
  sequence.read_outputs(cell, {after.data(), 1, config.hidden_dim});
  Drift of_host;
  model->compare_outputs({after.data(), 1, config.hidden_dim}, {before.data(), 1, config.hidden_dim},
                         {&of_host, 1});
  EXPECT_EQ(of_host.kl, plain.kl);
}

TEST(CudaModel, KeepsPassesApartThatAreInFlightTogether) {
  const ModelConfig config = config_of("llada");
  Passes passes(cuda_model(config));
  passes.add_sequence();
  const StepPlan a = plan_of(config, 1);
  const StepPlan b = plan_of(config, 2, 50);
  const std::vector<RowStatistics> of_a = passes.samples(a);
  const std::vector<RowStatistics> of_b = passes.samples(b);
  passes.submit(b);  // and nobody waits for it
  const std::unique_ptr<PassTicket> first = passes.submit(a);
  const std::unique_ptr<PassTicket> second = passes.submit(b);
  const auto second_samples = second->wait().samples;
  EXPECT_TRUE(std::equal(of_b.begin(), of_b.end(), second_samples.begin(), second_samples.end()));
  const auto first_samples = first->wait().samples;
  EXPECT_TRUE(std::equal(of_a.begin(), of_a.end(), first_samples.begin(), first_samples.end()));
  EXPECT_GT(first->times().total(), 0);
}

TEST(CudaPool, MakesNoSequenceBeyondItsLimitOrTheDevicesRoom) {
  const ModelConfig config = config_of("llada");
  const auto model = cuda_model(config, DType::kBF16, 300000);
  const std::unique_ptr<KvPool> room = model->make_pool();
  const int64_t page = room->bytes_for({1});
  EXPECT_EQ(room->bytes_for({33}), 2 * page);
  EXPECT_EQ(room->bytes_for({64}, 32), page);
  EXPECT_LE(room->limit(), 300000);
  EXPECT_GT(room->limit(), 300000 - 2 * page);  // one page is spare
  EXPECT_EQ(room->make_sequence({1000000}), nullptr);

  const std::unique_ptr<KvPool> pool = model->make_pool(2 * page);
  std::unique_ptr<KvSequence> a = pool->make_sequence({40});
  EXPECT_EQ(pool->bytes(), 2 * page);
  EXPECT_EQ(pool->make_sequence({1}), nullptr);
  const std::unique_ptr<KvSequence> shares = room->make_sequence({64}, {a.get(), 40});
  const KvSequence* both[] = {a.get(), shares.get()};
  EXPECT_EQ(room->bytes_of(both), 3 * page);
  a.reset();
  EXPECT_EQ(pool->bytes(), page);  // the prefix is still in use
}

TEST(CudaPool, TakesAPrefixOverWithAllItsBitsAndBeginsAsZeros) {
  const ModelConfig config = config_of("gidd");  // with a sink behind the cells
  Passes passes(cuda_model(config));
  KvSequence& from = passes.add_sequence(50);
  passes.samples(plan_of(config, 3, 50));
  const auto content = [&](const KvSequence& sequence, IndexRange cells) {
    std::vector<float> keys(static_cast<size_t>(cells.size() * config.head_dim)), values(keys.size());
    sequence.read_cells(1, 0, cells, {keys.data(), cells.size(), config.head_dim},
                        {values.data(), cells.size(), config.head_dim});
    keys.insert(keys.end(), values.begin(), values.end());
    return keys;
  };
  const std::unique_ptr<KvSequence> to = passes.pool().make_sequence({60}, {&from, 40});
  EXPECT_EQ(content(*to, {0, 40}), content(from, {0, 40}));
  for (const float value : content(*to, {40, 60})) EXPECT_EQ(value, 0);
  EXPECT_EQ(to->sink_cell(), 64);
  EXPECT_EQ(content(*to, {64, 65}), content(from, {64, 65}));
  EXPECT_NE(content(*to, {64, 65}).front(), 0);
}

/// Expects that loading is refused with a sentence that contains `part`.
void expect_refused(const ModelConfig& config, const WeightFormats& formats, const std::string& part) {
  EXPECT_THAT([&] { cuda_model(config, formats); }, ThrowsMessage<InputError>(HasSubstr(part))) << part;
}

/// Sizes in whole panels and tiles, so that nothing is added to fill them.
ModelConfig in_whole_panels(ModelConfig config) {
  config.hidden_dim = 256;
  config.num_heads = config.num_kv_heads = 4;
  config.vocab_size = 512;
  if (config.ffn_dim > 0) config.ffn_dim = 256;
  if (config.has_experts()) config.moe.expert_ffn_dim = 128;
  if (config.moe.shared_ffn_dim > 0) config.moe.shared_ffn_dim = 128;
  return config;
}

TEST(CudaModel, PredictsTheBytesOfItsWeights) {
  for (const ModelConfig& tiny : supported_configs()) {
    const ModelConfig config = in_whole_panels(tiny);
    for (const char* const name : {"bf16", "int8", "int8-group", "fp8", "int4", "int4-group", "int4-min"}) {
      const WeightFormats formats = bf16_with_layers(name);
      const auto bytes = static_cast<double>(cuda_model(config, formats)->weight_bytes());
      const auto predicted = static_cast<double>(weight_bytes_on_device(config, formats));
      EXPECT_NEAR(predicted / bytes, 1, 1e-2) << config.architecture << " " << name;
    }
  }
}

TEST(CudaModel, RefusesByNameWhatNoKernelComputes) {
  const ModelConfig plain = config_of("llada");
  WeightFormats formats = DType::kBF16;
  formats.int8_activations = true;
  expect_refused(plain, formats, "--activations is int8");
  formats = DType::kBF16;
  constexpr Quantization kGroupsOf16{.bits = 8, .group = 16};
  formats.layers = kGroupsOf16;
  expect_refused(plain, formats,
                 "layer 0: the projection to q, k and v is stored as 8-bit codes in groups of 16");
  formats = DType::kF32;
  formats.layers = weight_format("int8");
  expect_refused(plain, formats, "is stored as int8, for which there is no CUDA kernel yet; expected f32");
  formats.layers = weight_format("fp8");
  expect_refused(plain, formats, "is stored as fp8, for which there is no CUDA kernel yet; expected f32");
  formats = DType::kBF16;
  formats.embedding = kGroupsOf16;
  expect_refused(plain, formats, "the head is stored as 8-bit codes in groups of 16");
  expect_refused(tiny_configs()[0], DType::kBF16, "heads of this model have 12 dimensions");
  ModelConfig centred = plain;
  centred.layer_norm = true;
  expect_refused(centred, DType::kBF16, "need layer norms with means and biases");
  ModelConfig odd = config_of("diffusion-gemma");
  odd.sliding->head_dim = 20;
  expect_refused(odd, DType::kBF16, "heads of this model have 20 dimensions");
}

TEST(CudaModel, RefusesHeadsForWhichBlocksHaveTooLittleSharedMemory) {
  ModelConfig wide = config_of("qwen3");
  wide.head_dim = 512;
  constexpr int64_t kOfAnA100 = int64_t{163} << 10;
  for (const bool kv_int8 : {false, true}) {
    EXPECT_THAT([&] { check_supported(wide, false, kv_int8, kOfAnA100); },
                ThrowsMessage<InputError>(HasSubstr("of shared memory and the device has 163.0 KiB")));
    check_supported(wide, false, kv_int8, int64_t{227} << 10);
    wide.head_dim = 256;
    check_supported(wide, false, kv_int8, kOfAnA100);
    wide.head_dim = 512;
  }
  check_supported(wide, true, false, 0);
}

TEST(CudaModel, RefusesToHaveItsAttentionObserved) {
  const ModelConfig config = config_of("sdar");
  const Passes passes(cuda_model(config));
  const std::vector<KvSequence*> none;
  EXPECT_THAT([&] { passes.model().submit(plan_of(config, 2), none, {[](const ObservedAttention&) {}}); },
              ThrowsMessage<InputError>(HasSubstr("cannot be observed")));
}

/// By how much logits in f32 may differ, as bound_of() has it: sums over n inputs are off by n 2^-24 of their
/// terms at most.
double bound_of_f32(const ModelConfig& config) {
  const int64_t widest = std::max({config.hidden_dim, config.ffn_dim, config.q_dim()});
  return std::ldexp(static_cast<double>(widest), -24) *
         std::sqrt(static_cast<double>(6 * config.num_layers + 1));
}

/// A cell of codes differs by one step at most where the numbers on two machines do, a 127th of the head's
/// largest; keys and values of each layer add to the error as in bound_of().
double bound_of_codes(const ModelConfig& config) {
  return std::sqrt(static_cast<double>(2 * config.num_layers)) / 127;
}

void expect_within(double bound, const std::vector<float>& got, const std::vector<float>& expected,
                   const std::string& name) {
  const double scale = root_mean_square(expected, std::vector<float>(expected.size(), 0));
  EXPECT_GT(scale, 1) << name;
  EXPECT_LT(root_mean_square(got, expected), bound * scale) << name;
}

TEST(CudaModel, GivesTheLogitsOfEverySupportedFamilyInF32) {
  for (const ModelConfig& config : supported_configs()) {
    const StepPlan plan = plan_of(config, 3);
    expect_within(bound_of_f32(config), logits_of(cuda_model(config, DType::kF32), plan),
                  logits_of(cpu_model(config, DType::kF32), plan), config.architecture);
  }
}

TEST(CudaModel, GivesTheLogitsOfKeysAndValuesInCodes) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    WeightFormats formats = dtype;
    formats.kv_int8 = true;
    for (const char* family :
         {"llada", "qwen3", "llada2", "llada2.2", "nemotron-labs-diffusion", "gidd", "sumi"}) {
      const ModelConfig config = config_of(family);
      const StepPlan plan = plan_of(config, 3, 24);
      const double rounded = dtype == DType::kBF16 ? bound_of(config) : bound_of_f32(config);
      expect_within(std::hypot(rounded, bound_of_codes(config)), logits_of(cuda_model(config, formats), plan),
                    logits_of(load_on_cpu(one_thread(), {}, config, formats, kWeightSeed, {}), plan), family);
    }
  }
}

/// Passes of a sequence whose first `prefix` cells are kept, and of a block behind them.
class SparsePasses {
 public:
  static constexpr int32_t kPrefix = 150;
  static constexpr int32_t kBlock = 8;

  SparsePasses(const ModelConfig& config, uint64_t seed)
      : tokens_(random_tokens(seed, kPrefix + kBlock, config.vocab_size)) {}

  StepPlan prefix() const {
    StepPlan plan = rows({0, kPrefix}, {});
    plan.groups.front().only_kv = true;
    plan.logits.clear();
    return plan;
  }
  StepPlan block(SparseAttention sparse) const {
    StepPlan plan = rows({kPrefix, kPrefix + kBlock}, {{0, kPrefix}});
    plan.groups.front().sparse = sparse;
    return plan;
  }
  /// Consecutive plans: cells are remembered, then used, then pages are chosen.
  std::vector<StepPlan> plans() const {
    using Choice = SparseAttention::Choice;
    const auto sparse = [](Choice choice, int32_t dense_layers) {
      return SparseAttention{choice, {0, kPrefix}, 24, 8, dense_layers};
    };
    return {prefix(), block(sparse(Choice::kAllAndRemember, 1)), block(sparse(Choice::kRemembered, 1)),
            block(sparse(Choice::kBestPages, 0)), block(sparse(Choice::kBestPages, 1))};
  }

 private:
  StepPlan rows(IndexRange cells, std::vector<IndexRange> visible) const {
    StepPlan plan;
    plan.rules.emplace_back();
    for (int32_t cell = cells.begin; cell < cells.end; ++cell) {
      plan.add_row(tokens_[static_cast<size_t>(cell)], cell, cell);
      LogitRow row;
      row.row = cell - cells.begin;
      plan.logits.push_back(row);
    }
    plan.groups.push_back({0, {0, cells.size()}, std::move(visible), OwnRows::kBidirectional});
    return plan;
  }

  std::vector<TokenId> tokens_;
};

TEST(CudaModel, AttendsToTheCellsThatTheCpuChooses) {
  ModelConfig config = config_of("sdar");
  config.num_layers = 3;
  const SparsePasses sparse(config, 9);
  for (const bool kv_int8 : {false, true}) {
    WeightFormats formats = DType::kF32;
    formats.kv_int8 = kv_int8;
    Passes cpu(load_on_cpu(one_thread(), {}, config, formats, kWeightSeed, {}));
    Passes cuda(cuda_model(config, formats));
    cpu.add_sequence();
    cuda.add_sequence();
    std::vector<float> exact;
    const double bound = std::hypot(bound_of_f32(config), kv_int8 ? bound_of_codes(config) : 0);
    for (const StepPlan& plan : sparse.plans()) {
      const std::vector<float> expected = cpu.logits(plan);
      const std::vector<float> got = cuda.logits(plan);
      if (expected.empty()) continue;
      const SparseAttention::Choice choice = plan.groups.front().sparse.choice;
      expect_within(bound, got, expected, std::to_string(static_cast<int>(choice)));
      if (exact.empty()) exact = got;
      EXPECT_EQ(got != exact, choice != SparseAttention::Choice::kAllAndRemember);
    }
  }
}

TEST(CudaModel, ChoosesCellsForEachSequenceAsIfItWereAlone) {
  ModelConfig config = config_of("sdar");
  config.num_layers = 3;
  const std::vector<StepPlan> first = SparsePasses(config, 9).plans();
  const std::vector<StepPlan> second = SparsePasses(config, 10).plans();
  Passes company(cuda_model(config));
  Passes alone(cuda_model(config));
  company.add_sequence();
  company.add_sequence();
  alone.add_sequence();
  for (size_t i = 0; i < first.size(); ++i) {
    StepPlan together = second[i + 1 < first.size() ? i : 1];  // its last pass is of another kind
    together.append(first[i], 1);
    const std::vector<float> all = company.logits(together);
    const std::vector<float> own = alone.logits(first[i]);
    EXPECT_TRUE(std::equal(own.begin(), own.end(), all.end() - std::ssize(own))) << i;
  }
}

}  // namespace
}  // namespace lacuna::cuda::cuda_model_test
