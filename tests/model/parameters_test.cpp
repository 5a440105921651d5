#include "model/parameters.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "counting_source.h"
#include "kernels/panels.h"
#include "model/config.h"
#include "model/families.h"
#include "model/random_spec.h"
#include "model/read_config.h"
#include "tiny_models.h"
#include "weights/weight_format.h"

namespace lacuna::parameters_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> all_logits(const ModelConfig& config, uint64_t seed, DType dtype, int num_threads) {
  ThreadPool threads(num_threads);
  Runner runner(Model::random(config, seed, dtype, threads), default_table(), 1);
  return runner.logits(canvas_plan(random_tokens(1, 24, config.vocab_size), own_rows_of(config)));
}

double deviation(const std::vector<float>& values) {
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
  }
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / count - sum / count * (sum / count));
}

TEST(RandomParameters, AreTheSameWhateverTheThreads) {
  for (const ModelConfig& config : tiny_configs()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::vector<float> once = all_logits(config, 3, dtype, 1);
      EXPECT_EQ(all_logits(config, 3, dtype, 3), once);
      EXPECT_NE(all_logits(config, 4, dtype, 1), once);
    }
  }
}

TEST(RandomParameters, AreBf16NumbersInBothTypes) {
  ThreadPool threads(1);
  const ModelConfig config = tiny_configs()[2];
  const Parameters full = random_parameters(config, 3, DType::kF32, threads, {});
  const Parameters half = random_parameters(config, 3, DType::kBF16, threads, {});
  std::vector<float> a(static_cast<size_t>(config.hidden_dim));
  std::vector<float> b(a);
  for (TokenId token = 0; token < config.vocab_size; ++token) {
    full.embedding.read_row(token, a.data());
    half.embedding.read_row(token, b.data());
    EXPECT_EQ(a, b);
  }
}

TEST(RandomParameters, GiveLogitsThatSpreadOverSeveralUnits) {
  for (const ModelConfig& config : tiny_configs()) {
    const double spread = deviation(all_logits(config, 3, DType::kF32, 1)) / config.logit_scale;
    EXPECT_GT(spread, 1) << config.family;
    EXPECT_LT(spread, 6) << config.family;
  }
}

TEST(RandomParameters, DifferBetweenModules) {
  ThreadPool threads(1);
  const Parameters parameters = random_parameters(tiny_configs()[0], 3, DType::kF32, threads, {});
  const auto first = [](const Linear& linear) {
    return static_cast<const float*>(linear.weight.view().data)[0];
  };
  EXPECT_NE(first(parameters.layers[0].q), first(parameters.layers[0].k));
  EXPECT_NE(first(parameters.layers[0].q), first(parameters.layers[1].q));
}

TEST(RandomParameters, ReportProgressUpToTheParametersOfTheModel) {
  ThreadPool threads(1);
  for (const ModelConfig& config : tiny_configs()) {
    int64_t last = 0;
    random_parameters(config, 3, DType::kF32, threads, [&](int64_t done, int64_t total) {
      EXPECT_GT(done, last);
      EXPECT_EQ(total, count_parameters(config));
      last = done;
    });
    EXPECT_EQ(last, count_parameters(config));
  }
}

TEST(Parameters, HandOnEachLayerBeforeTheNextIsMade) {
  ThreadPool threads(1);
  for (const ModelConfig& config : tiny_configs()) {
    const Parameters whole = random_parameters(config, 3, DType::kBF16, threads, {});
    int64_t done = 0;
    std::vector<int64_t> done_before;  // each layer
    const LayerSink take = [&](int64_t layer, const LayerParameters& taken) {
      EXPECT_EQ(layer, std::ssize(done_before));
      done_before.push_back(done);
      const PackedMatrix& expected = whole.layers[static_cast<size_t>(layer)].q.weight;
      ASSERT_EQ(taken.q.weight.bytes(), expected.bytes());
      EXPECT_EQ(std::memcmp(taken.q.weight.view().data, expected.view().data,
                            static_cast<size_t>(expected.bytes())),
                0);
      EXPECT_EQ(taken.attn_norm, whole.layers[static_cast<size_t>(layer)].attn_norm);
    };
    const Parameters rest = random_parameters(
        config, 3, DType::kBF16, threads, [&](int64_t now, int64_t) { done = now; }, {}, take);
    ASSERT_EQ(std::ssize(done_before), config.num_layers);
    for (size_t i = 1; i < done_before.size(); ++i) EXPECT_GT(done_before[i], done_before[i - 1]);
    EXPECT_EQ(rest.bytes(), whole.embedding.bytes() + whole.own_head.bytes());
    EXPECT_EQ(rest.final_norm, whole.final_norm);
  }
}

TEST(Parameters, CountIsThePublishedOne) {
  EXPECT_EQ(count_parameters(parse_random_spec("random:llada-8b")), 8'015'581'184);
  EXPECT_EQ(count_parameters(parse_random_spec("random:dream-7b")), 7'615'616'512);
  EXPECT_EQ(count_parameters(parse_random_spec("random:qwen3-0.6b")), 596'049'920);
  EXPECT_EQ(count_parameters(parse_random_spec("random:fast-dllm-v2-7b")), 7'615'616'512);
  // LLaDA2.0-mini is published as 16B; by hand, 20 layers of attention and norms, the dense layer, 19 layers
  // of experts, embedding, head and final norm:
  const int64_t attention = 3072 * 2048 + 2 * 128 + 2048 * 2048 + 2 * 2048;
  const int64_t experts = 257 * 3 * 512 * 2048 + 256 * 2048 + 256;
  EXPECT_EQ(count_parameters(parse_random_spec("random:llada2-mini")),
            20 * attention + 3 * 5120 * 2048 + 19 * experts + 2 * 157184 * 2048 + 2048);
  EXPECT_NEAR(static_cast<double>(count_parameters(parse_random_spec("random:llada2-mini"))), 16.26e9,
              0.005e9);
  EXPECT_NEAR(static_cast<double>(count_parameters(parse_random_spec("random:llada2-flash"))), 103e9, 1e9);
  for (const char* const name : {"random:qwen3-30b-a3b", "random:sdar-30b-a3b", "random:rnd1-30b-a3b"}) {
    EXPECT_EQ(count_parameters(parse_random_spec(name)), 30'532'122'624) << name;
  }
  EXPECT_EQ(count_parameters(parse_random_spec("random:gidd-3b")), 2'957'629'440);
  EXPECT_EQ(count_parameters(parse_random_spec("random:gidd-mask-3b")), 2'844'349'440);
  EXPECT_EQ(count_parameters(parse_random_spec("random:gidd-10b")), 9'873'022'464);
}

TEST(PredictedBytes, AreThoseOfTheMatricesOnceLoaded) {
  ThreadPool threads(1);
  for (ModelConfig config : tiny_configs()) {
    config.qkv_bias = config.attn_output_bias = config.ffn_bias = false;  // biases are not counted
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      WeightFormats formats(dtype);
      EXPECT_EQ(predicted_bytes(config, formats), random_parameters(config, 3, formats, threads, {}).bytes());
      formats.layers = weight_format("int4");
      formats.embedding = weight_format("int8");
      EXPECT_EQ(predicted_bytes(config, formats), random_parameters(config, 3, formats, threads, {}).bytes());
    }
  }
}

// The number that FluxServe found in the published files: 14813.
TEST(Parameters, OfLlada2MiniComeFromAsManyTensorsAsPublished) {
  const ModelConfig config = parse_random_spec("random:llada2-mini");
  const TensorNames names = family_entry(config.family).tensors;
  int64_t tensors = 3;  // embedding, final norm, head
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const LayerTensorNames layer = names.layer(i);
    for (const std::string& name : {layer.attn_norm, layer.q, layer.k, layer.v, layer.qkv, layer.o,
                                    layer.q_norm, layer.k_norm, layer.ffn_norm}) {
      tensors += name.empty() ? 0 : 1;
    }
    tensors += config.layer_has_experts(i) ? 2 + 3 + 3 * config.moe.num_experts : 3;
  }
  EXPECT_EQ(tensors, 14813);
}

TEST(Parameters, OfAFusedTensorAreItsRowsInOrder) {
  ThreadPool threads(1);
  const ModelConfig config = read_config(golden_folder("llada2"));
  const Checkpoint checkpoint = Checkpoint::open(golden_folder("llada2"));
  const Parameters parameters = load_parameters(config, checkpoint, DType::kF32, threads, {});
  const int64_t q_dim = config.q_dim();
  const int64_t kv_dim = config.kv_dim();
  const TensorView fused = checkpoint.tensor("model.layers.1.attention.query_key_value.weight",
                                             {q_dim + 2 * kv_dim, config.hidden_dim});
  const LayerParameters& layer = parameters.layers[1];
  std::vector<float> row(static_cast<size_t>(config.hidden_dim));
  int64_t first = 0;
  for (const Linear* linear : {&layer.q, &layer.k, &layer.v}) {
    const PanelView view = linear->weight.view();
    for (int64_t n = 0; n < view.outputs; ++n, ++first) {
      widen(fused, first * config.hidden_dim, row);
      const float* panel = static_cast<const float*>(view.data) + n / kPanelWidth * view.panel_stride;
      for (int64_t k = 0; k < view.inputs; ++k) {
        ASSERT_EQ(panel[panel_offset<float>(n % kPanelWidth, k)], row[static_cast<size_t>(k)]);
      }
    }
  }
  EXPECT_EQ(first, q_dim + 2 * kv_dim);
}

TEST(Parameters, OfARouterStayInF32WhereTheFamilyComputesItSo) {
  ThreadPool threads(1);
  const Parameters parameters = random_parameters(tiny_configs()[7], 3, DType::kBF16, threads, {});
  EXPECT_EQ(parameters.layers[1].router.weight.view().dtype, DType::kF32);
  EXPECT_EQ(parameters.layers[1].experts[0].up.weight.view().dtype, DType::kBF16);
  EXPECT_TRUE(parameters.layers[0].experts.empty());
}

TEST(Parameters, OfAnotherShapeThanTheConfigSaysAreRefusedByName) {
  ThreadPool threads(1);
  std::vector<std::string> folders = golden_families();
  folders.insert(folders.end(), golden_block_families().begin(), golden_block_families().end());
  for (const std::string& family : folders) {
    ModelConfig config = read_config(golden_folder(family));
    const Checkpoint checkpoint = Checkpoint::open(golden_folder(family));
    EXPECT_NO_THROW(load_parameters(config, checkpoint, DType::kF32, threads, {}));
    config.num_layers += 1;
    EXPECT_THAT([&] { load_parameters(config, checkpoint, DType::kF32, threads, {}); },
                ThrowsMessage<InputError>(HasSubstr(".2.")))
        << family;
    config.num_layers -= 1;
    config.vocab_size += 1;
    EXPECT_THAT([&] { load_parameters(config, checkpoint, DType::kF32, threads, {}); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("98"), HasSubstr("97"))))
        << family;
  }
}

TEST(Parameters, OfARankAreItsShareOfTheLayersAndNothingElseIsRead) {
  const std::filesystem::path models = std::filesystem::path(LACUNA_SOURCE_DIR) / "models";
  WeightFormats int8(DType::kBF16);
  int8.layers = *weight_format("int8");
  for (const char* name : {"mini-llada", "mini-sdar", "mini-gidd"}) {
    const ModelConfig config = read_config(models / name);
    for (const WeightFormats& formats : {WeightFormats(DType::kBF16), int8})
      expect_fair_shares(models / name, config, formats);
  }
}

TEST(Parameters, OfRanksThatDivideLayersLeaveOutEmbeddingAndHeadWhereTheyAreNotNeeded) {
  ModelConfig config = tiny_configs()[0];
  config.num_layers = 3;
  ThreadPool threads(1);
  const auto part = [&](int rank) {
    return random_parameters(config, 5, DType::kF32, threads, {}, {rank, 3, ShardBy::kLayers});
  };
  EXPECT_GT(part(0).embedding.bytes(), 0);
  EXPECT_GT(part(0).own_head.bytes(), 0);
  EXPECT_EQ(part(1).embedding.bytes() + part(1).own_head.bytes(), 0);
  EXPECT_EQ(part(2).embedding.bytes(), 0);
  EXPECT_GT(part(2).own_head.bytes(), 0);
  config.tied_embeddings = true;
  EXPECT_GT(part(2).embedding.bytes(), 0);
  EXPECT_EQ(part(1).embedding.bytes(), 0);
}

class SlowRandomParameters : public testing::TestWithParam<const char*> {};

TEST_P(SlowRandomParameters, OfAPublishedShapeKeepActivationsHealthy) {
  const ModelConfig config = parse_random_spec(std::string("random:") + GetParam() + ",layers=1");
  ThreadPool threads(2);
  Runner runner(Model::random(config, 1, DType::kBF16, threads), default_table(), 2);
  const std::vector<float> logits =
      runner.logits(canvas_plan(random_tokens(1, 4, config.vocab_size), own_rows_of(config)));
  EXPECT_TRUE(std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }));
  EXPECT_GT(deviation(logits), 0.5);
  EXPECT_LT(deviation(logits), 20);
}

INSTANTIATE_TEST_SUITE_P(Parameters, SlowRandomParameters, testing::Values("qwen3-0.6b", "qwen2.5-0.5b"));

}  // namespace
}  // namespace lacuna::parameters_test
