// DiffusionGemma on the device: prompts and finished canvases that are read, canvases that are denoised with
// and without soft embeddings.
#include "backend/cuda/soft_embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "backend/cuda/kv_pool.h"
#include "cuda_models.h"
#include "engine/logits.h"
#include "logits.h"
#include "model/read_config.h"
#include "orders.h"

namespace lacuna::cuda::soft_embeddings_test {
namespace {

constexpr int32_t kRead = 45;
constexpr int32_t kCanvas = 8;

/// The passes of one sequence: what is read, then a canvas at each step.
class Canvas {
 public:
  explicit Canvas(uint64_t seed) : read_(random_tokens(seed, kRead, 88)), seed_(seed) {}

  /// Keys and values of the tokens that are read, from `begin` on.
  StepPlan reading(int32_t begin = 0) const {
    StepPlan plan;
    for (int32_t position = begin; position < kRead; ++position)
      plan.add_row(read_[static_cast<size_t>(position)], position, position);
    RowGroup group{0, {0, kRead - begin}, {}, OwnRows::kCausal};
    if (begin > 0) group.visible.push_back({0, begin});
    group.only_kv = true;
    plan.groups.push_back(group);
    return plan;
  }

  /// The same with the logits of all rows.
  StepPlan reading_for_logits() const {
    StepPlan plan = reading();
    plan.groups.front().only_kv = false;
    plan.rules.emplace_back();
    for (int32_t row = 0; row < kRead; ++row) plan.logits.emplace_back().row = row;
    return plan;
  }

  StepPlan denoising(CanvasRows rows, uint64_t step, float slack) const {
    StepPlan plan;
    SamplingRule& rule = plan.rules.emplace_back();
    rule.temperature = 0.7F;
    rule.source = ConfidenceSource::kTempered;
    rule.measure = ConfidenceMeasure::kNegativeEntropy;
    rule.forbidden = {3};
    const std::vector<TokenId> tokens = random_tokens(100 * seed_ + step, kCanvas, 97);
    for (int32_t i = 0; i < kCanvas; ++i) {
      LogitRow& logit = plan.logits.emplace_back();
      logit.row = i;
      logit.noise = RngStream(seed_, step, static_cast<uint64_t>(i));
      logit.soft_embedding_slack = slack;
      plan.add_row(tokens[static_cast<size_t>(i)], kRead + i, kRead + i);
    }
    RowGroup group{0, {0, kCanvas}, {{0, kRead}}, OwnRows::kBidirectional};
    group.canvas = rows;
    plan.groups.push_back(group);
    return plan;
  }

  /// In order: the first canvas, and two that read what the one before has left.
  std::vector<StepPlan> steps(float slack = 1e-6F) const {
    return {denoising(CanvasRows::kFresh, 0, slack), denoising(CanvasRows::kConditioned, 1, slack),
            denoising(CanvasRows::kConditioned, 2, -1)};
  }

 private:
  std::vector<TokenId> read_;
  uint64_t seed_;
};

/// The tokens that are read and the first canvas in one pass.
StepPlan first_pass(const Canvas& canvas) {
  StepPlan plan = canvas.reading();
  StepPlan fresh = canvas.steps().front();
  plan.append(fresh, 0);
  return plan;
}

struct Steps {
  std::vector<std::vector<float>> logits;
  std::vector<RowStatistics> samples;

  bool operator==(const Steps&) const = default;
};

Steps run(Passes& passes, const std::vector<StepPlan>& plans) {
  Steps made;
  const int64_t vocab = passes.model().config().vocab_size;
  for (const StepPlan& plan : plans) {
    const std::unique_ptr<PassTicket> ticket = passes.submit(plan);
    const auto samples = ticket->wait().samples;
    made.samples.insert(made.samples.end(), samples.begin(), samples.end());
    std::vector<float>& logits = made.logits.emplace_back(plan.logits.size() * static_cast<size_t>(vocab));
    ticket->read_logits(plan.logits, {logits.data(), std::ssize(plan.logits), vocab});
  }
  return made;
}

Steps run_alone(const std::shared_ptr<const BackendModel>& model, const Canvas& canvas, float slack = 1e-6F) {
  Passes passes(model);
  passes.add_sequence();
  std::vector<StepPlan> plans = canvas.steps(slack);
  plans.insert(plans.begin(), canvas.reading_for_logits());
  return run(passes, plans);
}

TEST(CudaCanvases, HaveTheCpusLogitsWithAndWithoutSoftEmbeddings) {
  const ModelConfig config = config_of("diffusion-gemma");
  const Canvas canvas(7);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const float slack : {1e-6F, 0.3F}) {
      // In bf16 another token may be the last that is left out, which then has a large part of the mean.
      if (slack > 0.1F && dtype == DType::kBF16) continue;
      const Steps expected = run_alone(cpu_model(config, dtype), canvas, slack);
      const Steps got = run_alone(cuda_model(config, dtype), canvas, slack);
      for (size_t step = 0; step < expected.logits.size(); ++step) {
        const std::vector<float>& logits = expected.logits[step];
        const double scale = root_mean_square(logits, std::vector<float>(logits.size(), 0));
        // The roundings of a step are those of bound_of() and, from the second on, of the step before.
        const double bound = dtype == DType::kF32 ? 1e-5 : 2 * bound_of(config);
        EXPECT_LT(root_mean_square(got.logits[step], logits), bound * scale)
            << step << ", slack " << slack << (dtype == DType::kF32 ? ", f32" : ", bf16");
      }
    }
    // Steps depend on what those before them have kept.
    Passes passes(cuda_model(config, dtype));
    passes.add_sequence();
    run(passes, {canvas.reading(), canvas.denoising(CanvasRows::kFresh, 0, -1)});
    const Steps unconditioned = run(passes, {canvas.denoising(CanvasRows::kFresh, 1, -1)});
    EXPECT_NE(unconditioned.logits[0], run_alone(cuda_model(config, dtype), canvas).logits[2]);
  }
}

TEST(CudaCanvases, HaveTheSameBitsAloneAndInAnyCompany) {
  const ModelConfig config = config_of("diffusion-gemma");
  const auto model = cuda_model(config);
  const Canvas first(7), second(8);
  const Steps alone = run_alone(model, first);
  Passes company(model);
  for (int i = 0; i < 2; ++i) company.add_sequence();
  std::vector<StepPlan> plans;
  plans.push_back(second.reading());
  plans.back().append(first.reading(), 1);
  for (size_t step = 0; step < 3; ++step) {
    // The second sequence is one step behind, so that a pass has canvases of both kinds.
    plans.push_back(step == 0 ? second.reading() : second.steps()[step - 1]);
    plans.back().append(first.steps()[step], 1);
  }
  const Steps together = run(company, plans);
  for (size_t step = 1; step < alone.logits.size(); ++step) {
    const std::vector<float>& own = alone.logits[step];
    EXPECT_TRUE(std::equal(own.begin(), own.end(), together.logits[step].end() - std::ssize(own))) << step;
  }
}

TEST(CudaCanvases, HaveTheSameBitsInEveryOrderOfThreads) {
  const ModelConfig config = config_of("diffusion-gemma");
  std::vector<Steps> first;
  simt::in_every_order([&](const std::string& order) {
    const Steps got = run_alone(cuda_model(config), Canvas(7));
    if (first.empty()) first.push_back(got);
    EXPECT_EQ(got, first.front()) << order;
  });
}

TEST(CudaCanvases, ReadAKeptPrefixAsIfItWereComputedWithThem) {
  const ModelConfig config = config_of("diffusion-gemma");
  const auto model = cuda_model(config);
  const Canvas canvas(7);
  const std::vector<float> expected = run_alone(model, canvas).logits[1];
  Passes together(model);
  together.add_sequence();
  EXPECT_EQ(run(together, {first_pass(canvas)}).logits.back(), expected);
  Passes in_parts(model);
  in_parts.add_sequence();
  StepPlan part = canvas.reading();
  part.tokens.resize(33);
  part.positions.resize(33);
  part.cells.resize(33);
  part.groups.front().rows.end = 33;
  EXPECT_EQ(run(in_parts, {part, canvas.reading(33), canvas.steps().front()}).logits.back(), expected);
}

TEST(CudaCanvases, HaveTheBitsOfDirectLaunchesInGraphs) {
  const ModelConfig config = config_of("diffusion-gemma");
  const auto device = open_cuda_device(0);
  const auto model = [&](bool graphs) {
    return load_on_cuda(device, one_thread(), {}, config, DType::kBF16, kWeightSeed, {},
                        {.kv_bytes = int64_t{1} << 20, .graphs = graphs});
  };
  Passes direct(model(false)), replayed(model(true));
  const Canvas canvas(7);
  std::vector<StepPlan> plans = canvas.steps();
  plans.insert(plans.begin(), first_pass(canvas));
  plans.insert(plans.end(), {plans[2], plans[1], plans[2]});
  plans.push_back(plans.front());
  for (Passes* passes : {&direct, &replayed}) passes->add_sequence();
  EXPECT_EQ(run(replayed, plans), run(direct, plans));
  EXPECT_EQ(device->stream()->num_graph_passes, 5);  // all but the first of three shapes
}

TEST(CudaCanvases, KeepTheSoftEmbeddingsOfRowsThatAreDrawnOnTheHost) {
  const ModelConfig config = config_of("diffusion-gemma");
  const auto model = cuda_model(config, DType::kF32);
  const Canvas canvas(7);
  std::vector<StepPlan> plans = canvas.steps(0.2F);
  plans.insert(plans.begin(), canvas.reading());
  Passes on_device(model), on_host(model);
  on_device.add_sequence();
  on_host.add_sequence();
  const Steps expected = run(on_device, plans);
  for (size_t step : {1U, 2U}) plans[step].logits[4].num_likeliest = 3;
  const Steps got = run(on_host, plans);
  for (size_t step = 0; step < expected.logits.size(); ++step) {
    for (size_t i = 0; i < expected.logits[step].size(); ++i)
      ASSERT_NEAR(got.logits[step][i], expected.logits[step][i], 1e-4) << step;
  }
}

TEST(CudaCanvases, CountTheMemoryOfSoftEmbeddings) {
  const ModelConfig config = config_of("diffusion-gemma");
  const std::unique_ptr<KvPool> pool = cuda_model(config)->make_pool();
  const int64_t of_soft_embeddings = 32 * config.hidden_dim * 4;
  int64_t cells = 0;  // keys and values of a page
  for (int64_t layer = 0; layer < config.num_layers; ++layer) cells += 2 * 32 * 2 * config.kv_dim_of(layer);
  EXPECT_EQ(pool->bytes_for({32}), cells + of_soft_embeddings);
  const auto sequence = pool->make_sequence({32});
  EXPECT_EQ(pool->bytes(), cells + of_soft_embeddings);
}

/// tests/golden/diffusion_gemma, whose logits an independent implementation has computed.
class GoldenDiffusionGemma : public testing::Test {
 protected:
  static constexpr const char* kFamily = "diffusion_gemma";

  void SetUp() override {
    if (!exists(golden_folder(kFamily)))
      GTEST_SKIP()
          << "the golden files are not on this machine";  // where a device runs what was built elsewhere
  }

  /// By how much a row's logits differ from the reference's, relative to their size.
  static std::vector<double> errors(DType dtype) {
    const nlohmann::json request = read_golden_json(kFamily, "tokens.json");
    const std::vector<TokenId> tokens = request.at("tokens");
    const int32_t begin = request.at("canvas_begin");
    const ModelConfig config = read_config(golden_folder(kFamily));
    const auto vocab = static_cast<size_t>(config.vocab_size);
    const int64_t canvas = std::ssize(tokens) - begin;
    const std::vector<float> distributions =
        golden_matrix(kFamily, "conditioning.npy", canvas, config.vocab_size);
    const std::vector<float> expected = golden_logits(kFamily, std::ssize(tokens), config.vocab_size);
    std::vector<float> got(expected.size());
    const auto model = load_on_cuda(open_cuda_device(0), one_thread(), golden_folder(kFamily), config, dtype,
                                    0, {}, {int64_t{4} << 20});
    compute_logits(*model, logits_plan(config, tokens, {}, {.canvas_begin = begin, .is_conditioned = true}),
                   {got.data(), std::ssize(tokens), config.vocab_size},
                   {distributions.data(), canvas, config.vocab_size});
    std::vector<double> all;
    for (size_t row = 0; row < tokens.size(); ++row) {
      double squares = 0, of_error = 0;
      for (size_t i = row * vocab; i < (row + 1) * vocab; ++i) {
        squares += double{expected[i]} * expected[i];
        of_error += (double{got[i]} - expected[i]) * (double{got[i]} - expected[i]);
      }
      all.push_back(std::sqrt(of_error / squares));
    }
    std::sort(all.begin(), all.end());
    return all;
  }
};

TEST_F(GoldenDiffusionGemma, LogitsInF32EqualTheReference) {
  EXPECT_LT(errors(DType::kF32).back(), 1e-4);
}

// The bound of the CPU's test (canvas_diffusion_test.cpp).
TEST_F(GoldenDiffusionGemma, LogitsInBf16AreAsCloseAsItsEightBitsAllow) {
  const std::vector<double> all = errors(DType::kBF16);
  EXPECT_LT(all[all.size() / 2], 5 * std::sqrt(26.0) / 512);
  EXPECT_GT(all.front(), 1.0 / 4096) << "does not round at all";
}

}  // namespace
}  // namespace lacuna::cuda::soft_embeddings_test
