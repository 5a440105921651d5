// DiffusionGemma: logits compared with the reference's, and each way to compute the same compared bit for
// bit.
#include "decode/canvas_diffusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/logits.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::canvas_diffusion_test {
namespace {

using testing::Each;
using testing::Pointwise;

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

/// Canvases of 8, layers that slide over 7 positions, and nothing that ends an answer.
std::shared_ptr<const Model> canvas_model(DType dtype = DType::kF32) {
  ModelConfig config = tiny_canvas_config();
  config.end_ids.clear();
  return tiny_model(config, dtype);
}

std::vector<TokenId> prompt_of(int32_t length, uint64_t seed = 3) {
  return random_tokens(seed, length, 88);
}

// ---- Logits

/// tests/golden/diffusion_gemma, from the independent reference in tests/reference/diffusion_gemma.py.
class GoldenDiffusionGemma : public testing::Test {
 protected:
  static constexpr const char* kFamily = "diffusion_gemma";

  static std::shared_ptr<const Model> load(DType dtype) {
    ThreadPool threads(2);
    return Model::load(golden_folder(kFamily), dtype, threads);
  }

  std::vector<float> logits(const std::shared_ptr<const Model>& model, const KernelTable& kernels) const {
    const ModelConfig& config = model->config();
    const int64_t canvas = std::ssize(tokens_) - canvas_begin_;
    const std::vector<float> conditioning =
        golden_matrix(kFamily, "conditioning.npy", canvas, config.vocab_size);
    const StepPlan plan =
        logits_plan(config, tokens_, {}, {.canvas_begin = canvas_begin_, .is_conditioned = true});
    ThreadPool threads(2);
    std::vector<float> values(tokens_.size() * static_cast<size_t>(config.vocab_size));
    compute_logits(*on_cpu(model, kernels, threads), plan,
                   {values.data(), std::ssize(tokens_), config.vocab_size},
                   {conditioning.data(), canvas, config.vocab_size});
    return values;
  }

  std::vector<float> reference(const ModelConfig& config) const {
    return golden_logits(kFamily, std::ssize(tokens_), config.vocab_size);
  }

  nlohmann::json request_ = read_golden_json(kFamily, "tokens.json");
  std::vector<TokenId> tokens_ = request_.at("tokens");
  int32_t canvas_begin_ = request_.at("canvas_begin");
};

TEST_F(GoldenDiffusionGemma, LogitsEqualTheReferenceWithEveryInstructionSet) {
  const std::shared_ptr<const Model> model = load(DType::kF32);
  ASSERT_GT(canvas_begin_, model->config().sliding->window) << "so that the window leaves something out";
  const std::vector<float> expected = reference(model->config());
  for (const KernelTable& kernels : supported_tables())
    EXPECT_THAT(logits(model, kernels), Pointwise(testing::FloatNear(2e-3F), expected)) << kernels.name;
}

// Bounds as in model_test.cpp: roundings to bf16 err by about sqrt(26) * 2^-9 = 1% of the logits, a
// few times that where a layer amplifies what it reads.
TEST_F(GoldenDiffusionGemma, LogitsInBf16AreAsCloseAsItsEightBitsAllow) {
  const std::shared_ptr<const Model> model = load(DType::kBF16);
  const std::vector<float> expected = reference(model->config());
  const auto vocab = static_cast<size_t>(model->config().vocab_size);
  for (const KernelTable& kernels : supported_tables()) {
    const std::vector<float> found = logits(model, kernels);
    std::vector<double> errors;
    for (size_t row = 0; row < tokens_.size(); ++row) {
      double squares = 0;
      double of_error = 0;
      for (size_t i = row * vocab; i < (row + 1) * vocab; ++i) {
        squares += expected[i] * expected[i];
        of_error += (found[i] - expected[i]) * (found[i] - expected[i]);
      }
      errors.push_back(std::sqrt(of_error / squares));
    }
    std::sort(errors.begin(), errors.end());
    EXPECT_LT(errors[errors.size() / 2], 5 * std::sqrt(26.0) / 512) << kernels.name;
    EXPECT_GT(errors.front(), 1.0 / 4096) << kernels.name << " does not round at all";
  }
}

/// Raw logits of all rows; the canvas, if there is one, has no distribution.
std::vector<float> logits_of(const std::shared_ptr<const Model>& model, const std::vector<TokenId>& tokens,
                             int32_t canvas_begin) {
  ThreadPool threads(2);
  const int64_t vocab = model->config().vocab_size;
  std::vector<float> values(tokens.size() * static_cast<size_t>(vocab));
  compute_logits(*on_cpu(model, default_table(), threads),
                 logits_plan(model->config(), tokens, {}, {.canvas_begin = canvas_begin}),
                 {values.data(), std::ssize(tokens), vocab});
  return values;
}

TEST(CanvasLogits, OfWhatIsReadDependOnNothingBehindIt) {
  for (const DType dtype : kDTypes) {
    const std::shared_ptr<const Model> model = canvas_model(dtype);
    const std::vector<TokenId> tokens = prompt_of(40);
    const std::vector<float> read = logits_of(model, tokens, -1);
    const std::vector<float> before_canvas = logits_of(model, tokens, 30);
    const auto count = static_cast<std::ptrdiff_t>(30 * model->config().vocab_size);
    EXPECT_TRUE(std::equal(read.begin(), read.begin() + count, before_canvas.begin()));
    EXPECT_FALSE(std::equal(read.begin() + count, read.end(), before_canvas.begin() + count));
    std::vector<TokenId> changed = tokens;
    changed[39] += 1;
    const std::vector<float> other = logits_of(model, changed, 30);
    EXPECT_TRUE(std::equal(read.begin(), read.begin() + count, other.begin()));
    const std::ptrdiff_t vocab = model->config().vocab_size;
    for (std::ptrdiff_t row = 30; row < 40; ++row) {
      EXPECT_FALSE(std::equal(other.begin() + row * vocab, other.begin() + (row + 1) * vocab,
                              before_canvas.begin() + row * vocab))
          << "rows of a canvas see each other: " << row;
    }
    EXPECT_NE(logits_of(model, tokens, 0), read) << "a canvas may come first";
  }
}

// ---- Passes over a sequence

/// A model, a sequence of it, and passes over the sequence.
class Passes {
 public:
  explicit Passes(std::shared_ptr<const Model> model, int32_t num_cells = 64, int num_threads = 2)
      : model_(std::move(model)), threads_(num_threads), cache_(model_->make_cache(num_cells)) {}

  /// Reads tokens, which become the positions from `begin` on.
  void read(const std::vector<TokenId>& tokens, int32_t begin, int32_t end) {
    StepPlan plan;
    for (int32_t position = begin; position < end; ++position)
      plan.add_row(tokens[static_cast<size_t>(position)], position, position);
    RowGroup group{0, {0, end - begin}, {}, OwnRows::kCausal};
    if (begin > 0) group.visible.push_back({0, begin});
    group.only_kv = true;
    plan.groups.push_back(group);
    forward(plan);
  }

  static StepPlan canvas(const std::vector<TokenId>& tokens, int32_t begin, CanvasRows rows, float slack) {
    StepPlan plan;
    SamplingRule& rule = plan.rules.emplace_back();
    rule.temperature = 0.7F;
    rule.draws = false;
    rule.source = ConfidenceSource::kTempered;
    rule.measure = ConfidenceMeasure::kNegativeEntropy;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int32_t position = begin + static_cast<int32_t>(i);
      LogitRow& logit = plan.logits.emplace_back();
      logit.row = static_cast<int32_t>(i);
      logit.soft_embedding_slack = slack;
      plan.add_row(tokens[i], position, position);
    }
    RowGroup group{0, {0, plan.num_rows()}, {}, OwnRows::kBidirectional};
    if (begin > 0) group.visible.push_back({0, begin});
    group.canvas = rows;
    plan.groups.push_back(group);
    return plan;
  }

  std::vector<RowStatistics> forward(const StepPlan& plan) {
    KvCache* caches[] = {&cache_};
    const auto samples = model_->forward(context_, plan, caches, workspace_).samples;
    return {samples.begin(), samples.end()};
  }

  /// [rows of the plan's logits, vocab]
  std::vector<float> logits(const StepPlan& plan) {
    const int64_t vocab = model_->config().vocab_size;
    std::vector<float> values(plan.logits.size() * static_cast<size_t>(vocab));
    KvCache* caches[] = {&cache_};
    model_->forward_logits(context_, plan, caches, workspace_,
                           {values.data(), std::ssize(plan.logits), vocab});
    return values;
  }

  /// Keys, then values, of each layer and head of a cell.
  std::vector<float> kv(int32_t cell) const { return kv(0, model_->config().num_layers, cell); }
  std::vector<float> kv(int64_t first_layer, int64_t last_layer, int32_t cell) const {
    std::vector<float> all;
    for (int64_t layer = first_layer; layer < last_layer; ++layer) {
      const KvHeads heads = cache_.shape().heads_of(layer);
      std::vector<float> values(static_cast<size_t>(2 * heads.dim));
      for (int64_t head = 0; head < heads.count; ++head) {
        cache_.read(layer, cell, head, values.data(), values.data() + heads.dim);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }

  std::vector<float> soft_embedding(int32_t cell) const {
    const auto row = cache_.soft_embeddings().row_span(cell);
    return {row.begin(), row.end()};
  }

  void keep(const std::vector<int32_t>& cells, const std::vector<float>& distributions) {
    model_->keep_soft_embeddings(context_, cache_, cells,
                                 {distributions.data(), std::ssize(cells), model_->config().vocab_size});
  }

 private:
  std::shared_ptr<const Model> model_;
  ThreadPool threads_;
  KernelContext context_{default_table(), threads_};
  KvCache cache_;
  Workspace workspace_;
};

TEST(CanvasPasses, ReadTheSameBitsInOnePassAsInSeveral) {
  for (const DType dtype : kDTypes) {
    const std::shared_ptr<const Model> model = canvas_model(dtype);
    const std::vector<TokenId> tokens = prompt_of(45);
    Passes at_once(model);
    at_once.read(tokens, 0, 45);
    for (const std::vector<int32_t>& cuts :
         {std::vector<int32_t>{20}, {1, 2, 3, 44}, {6, 7, 8, 13, 14}, {31, 32, 33}}) {
      Passes cut(model, 64, 3);
      int32_t begin = 0;
      for (const int32_t end : cuts) {
        cut.read(tokens, begin, end);
        begin = end;
      }
      cut.read(tokens, begin, 45);
      for (int32_t cell = 0; cell < 45; ++cell) ASSERT_EQ(cut.kv(cell), at_once.kv(cell)) << "cell " << cell;
    }
  }
}

TEST(CanvasPasses, SeeAWindowInLayersThatSlide) {
  const std::shared_ptr<const Model> model = canvas_model();
  Passes passes(model);
  std::vector<TokenId> tokens = prompt_of(30);
  passes.read(tokens, 0, 30);
  ModelConfig config = tiny_canvas_config();
  config.sliding->window = 1000;
  Passes wide(tiny_model(config));
  wide.read(tokens, 0, 30);
  for (int32_t cell = 0; cell < 30; ++cell) {
    EXPECT_EQ(passes.kv(0, 1, cell), wide.kv(0, 1, cell)) << "the first layer has attended to nothing yet";
    EXPECT_EQ(passes.kv(cell) == wide.kv(cell), cell < 7)
        << "a window of 7, its own position included: " << cell;
  }
  // Cells outside the first layer's window change nothing that the second layer reads.
  tokens[10] += 1;
  Passes changed(model);
  changed.read(tokens, 0, 30);
  for (int32_t cell = 0; cell < 30; ++cell) {
    EXPECT_EQ(changed.kv(1, 2, cell) == passes.kv(1, 2, cell), cell < 10 || cell >= 17) << cell;
    EXPECT_EQ(changed.kv(2, 3, cell) == passes.kv(2, 3, cell), cell < 10) << "layers between see everything";
  }
}

TEST(CanvasPasses, GiveAllRowsOfACanvasTheWindowOfItsFirst) {
  // With a single layer, which slides, logits depend on nothing but what it sees.
  ModelConfig config = tiny_canvas_config();
  config.num_layers = 1;
  config.sliding->layers = {true};
  const std::shared_ptr<const Model> model = tiny_model(config);
  const std::vector<TokenId> canvas = prompt_of(16, 4);
  const StepPlan plan = Passes::canvas(canvas, 20, CanvasRows::kFresh, -1);
  const auto logits = [&](std::vector<TokenId> tokens, int32_t changed) {
    Passes passes(model);
    if (changed >= 0) tokens[static_cast<size_t>(changed)] += 1;
    passes.read(tokens, 0, 20);
    return passes.logits(plan);
  };
  const std::vector<TokenId> tokens = prompt_of(20);
  const std::vector<float> base = logits(tokens, -1);
  const auto vocab = static_cast<std::ptrdiff_t>(config.vocab_size);
  for (int32_t position = 0; position < 20; ++position) {
    const std::vector<float> other = logits(tokens, position);
    for (std::ptrdiff_t row = 0; row < 16; ++row) {
      // The six positions before the canvas, whatever the row.
      EXPECT_EQ(std::equal(base.begin() + row * vocab, base.begin() + (row + 1) * vocab,
                           other.begin() + row * vocab),
                position < 14)
          << "position " << position << ", row " << row;
    }
  }
}

TEST(CanvasPasses, LeaveTheKeysAndValuesOfWhatWasReadAlone) {
  for (const DType dtype : kDTypes) {
    const std::shared_ptr<const Model> model = canvas_model(dtype);
    const std::vector<TokenId> tokens = prompt_of(28);
    Passes passes(model);
    passes.read(tokens, 0, 20);
    std::vector<std::vector<float>> before;
    for (int32_t cell = 0; cell < 20; ++cell) before.push_back(passes.kv(cell));
    const std::vector<TokenId> canvas(tokens.begin() + 20, tokens.end());
    passes.forward(Passes::canvas(canvas, 20, CanvasRows::kFresh, 0));
    passes.forward(Passes::canvas(canvas, 20, CanvasRows::kConditioned, 0));
    const std::vector<float> denoised = passes.kv(25);
    for (int32_t cell = 0; cell < 20; ++cell) EXPECT_EQ(passes.kv(cell), before[static_cast<size_t>(cell)]);
    // Then they are read, as if they had never been denoised.
    passes.read(tokens, 20, 28);
    Passes read(model);
    read.read(tokens, 0, 28);
    for (int32_t cell = 0; cell < 28; ++cell) EXPECT_EQ(passes.kv(cell), read.kv(cell)) << cell;
    EXPECT_NE(passes.kv(25), denoised);
  }
}

TEST(CanvasPasses, ConditionedOnNothingAreThoseOfAFreshCanvas) {
  for (const DType dtype : kDTypes) {
    Passes passes(canvas_model(dtype));
    passes.read(prompt_of(20), 0, 20);
    const std::vector<TokenId> canvas = prompt_of(8, 4);
    const std::vector<float> fresh = passes.logits(Passes::canvas(canvas, 20, CanvasRows::kFresh, -1));
    EXPECT_EQ(passes.logits(Passes::canvas(canvas, 20, CanvasRows::kConditioned, -1)), fresh)
        << "soft embeddings begin as zeros";
    passes.forward(Passes::canvas(canvas, 20, CanvasRows::kFresh, 0));
    EXPECT_NE(passes.logits(Passes::canvas(canvas, 20, CanvasRows::kConditioned, -1)), fresh);
    EXPECT_EQ(passes.logits(Passes::canvas(canvas, 20, CanvasRows::kFresh, -1)), fresh);
    EXPECT_NE(passes.logits(Passes::canvas(canvas, 20, CanvasRows::kNone, -1)), fresh)
        << "rows of a canvas are normed, and have scalars of their own";
  }
}

/// softmax(logits / 0.7) of each row.
std::vector<float> distributions_of(const std::vector<float>& logits, size_t vocab) {
  std::vector<float> distributions;
  for (size_t begin = 0; begin < logits.size(); begin += vocab) {
    double sum = 0;
    for (size_t i = begin; i < begin + vocab; ++i) sum += std::exp((logits[i] - 30) / 0.7);
    for (size_t i = begin; i < begin + vocab; ++i)
      distributions.push_back(static_cast<float>(std::exp((logits[i] - 30) / 0.7) / sum));
  }
  return distributions;
}

TEST(CanvasPasses, KeepTheMeanEmbeddingUnderTheTemperedDistribution) {
  const std::shared_ptr<const Model> model = canvas_model();
  const auto vocab = static_cast<size_t>(model->config().vocab_size);
  Passes passes(model);
  passes.read(prompt_of(20), 0, 20);
  const std::vector<TokenId> canvas = prompt_of(8, 4);
  const std::vector<float> logits = passes.logits(Passes::canvas(canvas, 20, CanvasRows::kFresh, -1));
  EXPECT_THAT(passes.soft_embedding(22), Each(0.0F)) << "nobody asked for it";
  StepPlan plan = Passes::canvas(canvas, 20, CanvasRows::kFresh, 0);
  plan.logits[5].soft_embedding_slack = -1;
  passes.forward(plan);

  Passes expected(model);
  const std::vector<int32_t> cells = {20, 21, 22, 23, 24, 25, 26, 27};
  expected.keep(cells, distributions_of(logits, vocab));
  for (const int32_t cell : cells) {
    if (cell == 25) {
      EXPECT_THAT(passes.soft_embedding(cell), Each(0.0F));
    } else {
      EXPECT_THAT(passes.soft_embedding(cell),
                  Pointwise(testing::FloatNear(1e-4F), expected.soft_embedding(cell)));
      EXPECT_THAT(passes.soft_embedding(cell), testing::Contains(testing::Gt(0.01F)));
    }
  }
  EXPECT_THAT(passes.soft_embedding(19), Each(0.0F));
  EXPECT_THAT(passes.soft_embedding(28), Each(0.0F));
}

TEST(CanvasPasses, KeepAlmostTheSameWhereTheLeastLikelyTokensAreLeftOut) {
  const std::shared_ptr<const Model> model = canvas_model();
  const auto kept = [&](float slack) {
    Passes passes(model);
    passes.read(prompt_of(20), 0, 20);
    passes.forward(Passes::canvas(prompt_of(8, 4), 20, CanvasRows::kFresh, slack));
    return passes.soft_embedding(23);
  };
  const std::vector<float> exact = kept(0);
  const auto furthest = [&](float slack) {
    const std::vector<float> other = kept(slack);
    float most = 0;
    for (size_t i = 0; i < exact.size(); ++i) most = std::max(most, std::abs(other[i] - exact[i]));
    return most;
  };
  EXPECT_EQ(furthest(0), 0);
  EXPECT_GT(furthest(0.2F), 0);
  EXPECT_LT(furthest(1e-4F), 1e-4F * 40);
}

// ---- Requests

struct Decoding {
  std::vector<TokenId> canvas;
  std::vector<std::vector<TokenId>> inputs;  // of each pass over a canvas
  int64_t num_rows = 0;

  bool operator==(const Decoding&) const = default;
};

struct Request {
  std::vector<TokenId> prompt;
  GenerationOptions options;
};

std::vector<Decoding> decode_all(const std::shared_ptr<const Model>& model,
                                 const std::vector<Request>& requests, int num_threads) {
  ThreadPool threads(num_threads);
  Engine engine(on_cpu(model, default_table(), threads), static_cast<int32_t>(requests.size()));
  for (const Request& request : requests)
    engine.add(make_decoder(model->config(), request.options, request.prompt));
  std::vector<Decoding> decodings(requests.size());
  engine.run([&](const StepEvent& event) {
    Decoding& decoding = decodings[event.request];
    if (!event.report.canvas_in.empty()) decoding.inputs.push_back(event.report.canvas_in);
    decoding.num_rows += event.plan.num_rows();
  });
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::span<const TokenId> canvas = engine.decoder(i).canvas();
    decodings[i].canvas.assign(canvas.begin(), canvas.end());
  }
  return decodings;
}

Decoding decode(const std::shared_ptr<const Model>& model, const Request& request, int num_threads = 1) {
  return decode_all(model, {request}, num_threads).front();
}

/// With settings that make canvases of all kinds: some converge, some are cut at their last pass.
std::vector<Request> some_requests() {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 6; ++i) {
    Request request{prompt_of(3 + 9 * static_cast<int32_t>(i), i), {}};
    request.options.gen_length = 15 + static_cast<int32_t>(i);
    request.options.seed = i;
    request.options.temperature = i % 2 == 0 ? 1 : 0;
    if (i % 3 == 0) request.options.unmask = "entropy-bounded=5";
    if (i % 3 == 1) request.options.unmask = "entropy-bounded=1e6";
    request.options.stop_entropy = 100;
    if (i == 2) request.options.block_length = 5;
    if (i == 3) request.options.self_conditioning = "exact";
    if (i == 4) request.options.self_conditioning = "0.3";
    requests.push_back(request);
  }
  return requests;
}

TEST(CanvasRequests, WriteTheSameAloneAndTogetherWithAnyNumberOfThreads) {
  for (const DType dtype : kDTypes) {
    const std::shared_ptr<const Model> model = canvas_model(dtype);
    const std::vector<Request> requests = some_requests();
    std::vector<Decoding> alone;
    std::set<std::vector<TokenId>> answers;
    for (const Request& request : requests) {
      alone.push_back(decode(model, request));
      answers.insert(alone.back().canvas);
      EXPECT_GT(alone.back().inputs.size(), 3U);
    }
    EXPECT_EQ(answers.size(), requests.size());
    for (const int num_threads : {1, 2, 3})
      EXPECT_EQ(decode_all(model, requests, num_threads), alone) << num_threads << " threads";
  }
}

TEST(CanvasRequests, WriteTheSameWhereTheHeadComputesTheirRowsInParts) {
  const std::shared_ptr<const Model> model = canvas_model();
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 5; ++i) {  // 350 rows; the head takes 256 at once
    Request request{prompt_of(4, i), {}};
    request.options.gen_length = 70;
    request.options.block_length = 70;
    request.options.steps = 3;
    request.options.seed = i;
    requests.push_back(request);
  }
  const std::vector<Decoding> together = decode_all(model, requests, 2);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(together[i], decode(model, requests[i])) << i;
}

TEST(CanvasRequests, ReadTheLastPassThroughSelfConditioning) {
  const std::shared_ptr<const Model> model = canvas_model();
  Request request = some_requests()[0];
  request.options.self_conditioning = "exact";
  const Decoding exact = decode(model, request);
  request.options.self_conditioning = "0.5";
  const Decoding rough = decode(model, request);
  EXPECT_EQ(rough.inputs[0], exact.inputs[0]);
  EXPECT_EQ(rough.inputs[1], exact.inputs[1]) << "the first pass of a canvas reads nothing";
  EXPECT_NE(rough.inputs, exact.inputs);
}

TEST(CanvasRequests, WriteTheSameBehindAPrefixThatAnotherRead) {
  for (const DType dtype : kDTypes) {
    const std::shared_ptr<const Model> model = canvas_model(dtype);
    Request request{prompt_of(1100), {}};
    request.options.gen_length = 12;
    request.options.seed = 4;
    const Decoding alone = decode(model, request);
    ThreadPool threads(2);
    for (const int32_t known : {70, 1050, 1100}) {
      Engine engine(on_cpu(model, default_table(), threads));
      engine.share_prefixes(int64_t{1} << 26);
      std::vector<TokenId> first = request.prompt;
      first.resize(static_cast<size_t>(known));
      GenerationOptions short_answer;
      short_answer.gen_length = 3;
      short_answer.steps = 1;
      engine.add(make_decoder(model->config(), short_answer, first));
      engine.add(make_decoder(model->config(), request.options, request.prompt));
      engine.run();
      EXPECT_GE(engine.statistics(1).shared_tokens, known / 64 * 64);
      EXPECT_EQ(engine.statistics(1).cost.rows + engine.statistics(1).shared_tokens, alone.num_rows);
      const std::span<const TokenId> canvas = engine.decoder(1).canvas();
      EXPECT_EQ(std::vector<TokenId>(canvas.begin(), canvas.end()), alone.canvas) << known;
    }
  }
}

TEST(CanvasRequests, ShareTheCanvasesOfAnEarlierAnswer) {
  const std::shared_ptr<const Model> model = canvas_model();
  ThreadPool threads(2);
  Engine engine(on_cpu(model, default_table(), threads));
  engine.share_prefixes(int64_t{1} << 26);
  GenerationOptions options;
  options.gen_length = 48;
  options.steps = 2;
  engine.add(make_decoder(model->config(), options, prompt_of(20)));
  engine.run();
  std::vector<TokenId> talk(engine.decoder(0).canvas().begin(), engine.decoder(0).canvas().end());
  const std::vector<TokenId> question = prompt_of(9, 8);
  talk.insert(talk.end(), question.begin(), question.end());
  engine.add(make_decoder(model->config(), options, talk));
  engine.run();
  EXPECT_GE(engine.statistics(1).shared_tokens, 32)
      << "of 20 in the prompt and 40 in canvases that were read";
  EXPECT_LE(engine.statistics(1).shared_tokens, 60);
  const std::span<const TokenId> canvas = engine.decoder(1).canvas();
  EXPECT_EQ(std::vector<TokenId>(canvas.begin(), canvas.end()), decode(model, {talk, options}).canvas);
}

TEST(CanvasRequests, FreeTheirMemory) {
  const std::shared_ptr<const Model> model = canvas_model();
  ThreadPool threads(1);
  Engine engine(on_cpu(model, default_table(), threads), 2);
  const Request request = some_requests()[1];
  const auto decoder = [&] { return make_decoder(model->config(), request.options, request.prompt); };
  const int32_t cells = decoder()->num_cells();
  const int64_t needed = engine.memory_for(*decoder());
  EXPECT_EQ(needed, KvCache::bytes_for(model->kv_shape(), cells));
  EXPECT_GT(needed, KvCache::page_bytes(model->kv_shape())) << "soft embeddings count";
  engine.add(decoder());
  engine.add(decoder());
  engine.step();
  EXPECT_EQ(engine.memory_in_use(), 2 * needed);
  engine.remove(1);
  EXPECT_EQ(engine.memory_in_use(), needed);
  engine.run();
  EXPECT_EQ(engine.memory_in_use(), 0);
}

TEST(CanvasRequests, EndWithAnEndTokenUnlessItIsIgnored) {
  ModelConfig config = tiny_canvas_config();
  for (TokenId token = 0; token < 88; token += 3) config.end_ids.push_back(token);
  std::sort(config.end_ids.begin(), config.end_ids.end());
  const std::shared_ptr<const Model> model = tiny_model(config);
  ThreadPool threads(1);
  int32_t ended = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Engine engine(on_cpu(model, default_table(), threads), 2);
    Request request{prompt_of(5, seed), {}};
    request.options.gen_length = 24;
    request.options.seed = seed;
    engine.add(make_decoder(config, request.options, request.prompt));
    request.options.ignore_eos = true;
    engine.add(make_decoder(config, request.options, request.prompt));
    engine.run();
    const std::span<const TokenId> canvas = engine.decoder(0).canvas();
    const std::span<const TokenId> whole = engine.decoder(1).canvas();
    EXPECT_EQ(whole.size(), 29U);
    EXPECT_EQ(engine.decoder(1).stop_reason(), StopReason::kLength);
    EXPECT_TRUE(std::equal(canvas.begin(), canvas.end(), whole.begin()));
    const auto is_end = [&](TokenId token) {
      return std::binary_search(config.end_ids.begin(), config.end_ids.end(), token);
    };
    EXPECT_EQ(std::find_if(whole.begin() + 5, whole.end(), is_end) - whole.begin() + 1,
              static_cast<std::ptrdiff_t>(canvas.size()));
    if (engine.decoder(0).stop_reason() == StopReason::kEndToken) ++ended;
  }
  EXPECT_EQ(ended, 4) << "a third of the vocabulary ends an answer";
}

}  // namespace
}  // namespace lacuna::canvas_diffusion_test
