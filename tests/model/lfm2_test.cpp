// Expectations are written from the published class and its configuration; tests/golden/lfm2 is from the
// independent reference.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/family_config.h"
#include "model/parameters.h"
#include "model/random_spec.h"
#include "model/tiny_models.h"

namespace lacuna::lfm2_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kFamily = "lfm2";

json lfm2() {
  return published_config("lfm2.5-350m-diffusion");
}

// ---- config.json

TEST(Lfm2, IsReadAsPublished) {
  const ModelConfig config = read_json_config(lfm2());
  EXPECT_EQ(config.family, kFamily);
  EXPECT_EQ(config.paradigm(), Paradigm::kCanvases);
  ASSERT_TRUE(config.convolution && config.canvas && config.canvas->ancestral);
  EXPECT_EQ(std::ranges::count(config.convolution->layers, true), 10);
  EXPECT_FALSE(config.convolves(2));
  EXPECT_EQ(config.convolution->taps, 3);
  EXPECT_EQ(config.ffn_dim, 4608) << "two thirds of 6656, rounded up to a multiple of 256";
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.rope.theta, 1e6F);
  EXPECT_TRUE(config.qk_norm_per_head && config.tied_embeddings);
  EXPECT_FALSE(config.causal || config.qkv_bias);
  EXPECT_EQ(config.mask_id, -1);
  EXPECT_THAT(config.end_ids, ElementsAre(7));
  EXPECT_EQ(config.canvas->length, 32);
  EXPECT_EQ(config.canvas->steps, 8);
  EXPECT_EQ(*config.canvas->ancestral, (AncestralCanvas{256, 256, true, 64400}));
}

TEST(Lfm2, HasTheParametersOfItsBaseAndThoseOfTheNoiseLevel) {
  const int64_t noise = 2 * (256 * 256 + 256) + 3072 * (256 + 1) + 16 * 3072;
  const int64_t conditioning = 1024 + 2 * 1024 * 1024 + 1024;
  EXPECT_EQ(count_parameters(read_json_config(lfm2())), 354'483'968 + noise + conditioning);
}

TEST(Lfm2, TakesOlderKeysThatRepeatWhatIsComputed) {
  const ModelConfig published = read_json_config(lfm2());
  json config = lfm2();
  for (const char* const key :
       {"layer_types", "intermediate_size", "tie_word_embeddings", "real_vocab_size", "norm_eps",
        "rope_theta", "sigma_cond_dim", "conv_L_cache", "num_key_value_heads"})
    config.erase(key);
  config.update(json{{"full_attn_idxs", {2, 5, 8, 10, 12, 14}},
                     {"block_ff_dim", 6656},
                     {"tie_embedding", true},
                     {"num_key_value_heads", 8},
                     {"block_dim", 1024},
                     {"conv_dim", 1024},
                     {"num_heads", 16},
                     {"use_pos_enc", true},
                     {"block_use_swiglu", true},
                     {"rope_parameters", {{"rope_theta", 1e6}, {"rope_type", "default"}}}});
  EXPECT_EQ(read_json_config(config), published);
  EXPECT_EQ(read_json_config(with_key(lfm2(), "block_auto_adjust_ff_dim", false)).ffn_dim, 6656);
}

TEST(Lfm2, RefusesWhatItWouldComputeWrongly) {
  expect_config_refused(lfm2(), "conv_bias", true, "conv_bias");
  expect_config_refused(lfm2(), "adaln_conditioning", false, "adaln_conditioning");
  expect_config_refused(lfm2(), "self_conditioning", false, "self_conditioning");
  expect_config_refused(lfm2(), "block_use_swiglu", false, "block_use_swiglu");
  expect_config_refused(lfm2(), "use_pos_enc", false, "use_pos_enc");
  expect_config_refused(lfm2(), "conv_dim", 512, "conv_dim");
  expect_config_refused(lfm2(), "full_attn_idxs", {2, 5}, "full_attn_idxs");
  expect_config_refused(lfm2(), "layer_types", {"conv", "full_attention"}, "a list of 16");
  expect_config_refused(lfm2(), "layer_types", std::vector<std::string>(16, "sliding_attention"),
                        "a list of conv");
  expect_config_refused(lfm2(), "hidden_act", "gelu", "hidden_act");
  expect_config_refused(lfm2(), "sigma_freq_embedding_size", 7, "even");
  expect_config_refused(lfm2(), "real_vocab_size", 65537, "real_vocab_size");
  expect_config_refused(lfm2(), "moe_gate", 3, "moe_gate");
}

TEST(Lfm2, IsRefusedWithInt8CellsInOneSentence) {
  ThreadPool threads(1);
  WeightFormats formats(DType::kF32);
  formats.kv_int8 = true;
  EXPECT_THAT([&] { Model::load(golden_folder(kFamily), formats, threads); },
              ThrowsMessage<InputError>(HasSubstr("short convolutions hold their inputs")));
}

TEST(Lfm2, RepeatsItsKindsOfLayersInADeeperRandomModel) {
  const ModelConfig deep = parse_random_spec("random:lfm2.5-350m-diffusion,layers=20");
  EXPECT_FALSE(deep.convolves(14));
  EXPECT_TRUE(deep.convolves(16));
  EXPECT_FALSE(deep.convolves(18));
}

// ---- The forward pass

/// The golden request: causal rows, then a block that is conditioned on the file's distributions.
class Lfm2Pass : public testing::Test {
 protected:
  const json request_ = read_golden_json(kFamily, "tokens.json");
  const std::vector<TokenId> tokens_ = request_["tokens"].get<std::vector<TokenId>>();
  const int32_t begin_ = request_["canvas_begin"].get<int32_t>();
  const int32_t rows_ = static_cast<int32_t>(tokens_.size());

  static std::shared_ptr<const Model> load(DType dtype) {
    ThreadPool threads(1);
    return Model::load(golden_folder(kFamily), dtype, threads);
  }

  /// Rows [first, end) of the request; the block whole or not at all.
  StepPlan rows(int32_t first, int32_t end) const {
    StepPlan plan;
    plan.rules.emplace_back();
    if (first < begin_) plan.add_group(tokens_, first, std::min(end, begin_), OwnRows::kCausal);
    if (end > begin_) {
      RowGroup& group = plan.add_group(tokens_, begin_, rows_);
      group.canvas = CanvasRows::kConditioned;
      group.noise_level = request_["noise_level"].get<float>();
    }
    for (int32_t row = 0; row < plan.num_rows(); ++row) plan.logits.push_back({.row = row});
    return plan;
  }

  void condition(Runner& runner, int sequence = 0) const {
    std::vector<float> values = golden_matrix(kFamily, "conditioning.npy", rows_ - begin_, runner.vocab());
    std::vector<int32_t> cells;
    for (int32_t cell = begin_; cell < rows_; ++cell) cells.push_back(cell);
    runner.model().keep_soft_embeddings(runner.context(), runner.cache(sequence), cells,
                                        {values.data(), rows_ - begin_, runner.vocab()});
  }

  std::vector<float> whole(const std::shared_ptr<const Model>& model, int threads = 1) const {
    Runner runner(model, default_table(), threads);
    condition(runner);
    return runner.logits(rows(0, rows_));
  }
};

TEST_F(Lfm2Pass, EqualsTheReferenceWithEveryInstructionSet) {
  const auto model = load(DType::kF32);
  const std::vector<float> expected = golden_logits(kFamily, rows_, model->config().vocab_size);
  for (const KernelTable& kernels : supported_tables()) {
    Runner runner(model, kernels, 1);
    condition(runner);
    const std::vector<float> logits = runner.logits(rows(0, rows_));
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-4) << kernels.name << i;
  }
}

TEST_F(Lfm2Pass, HasTheSameBitsWithAnyThreads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = load(dtype);
    EXPECT_EQ(whole(model, 3), whole(model));
  }
}

TEST_F(Lfm2Pass, HasTheSameBitsWhereverItsRowsAreDivided) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = load(dtype);
    const std::vector<float> expected = whole(model);
    for (int32_t cut = 1; cut <= begin_; ++cut) {
      Runner runner(model, default_table(), 1);
      condition(runner);
      StepPlan first = rows(0, cut);
      first.groups.front().only_kv = true;
      first.logits.clear();
      runner.logits(first);
      const std::vector<float> rest = runner.logits(rows(cut, rows_));
      EXPECT_TRUE(std::ranges::equal(rest, std::span(expected).last(rest.size()))) << cut;
    }
  }
}

TEST_F(Lfm2Pass, HasTheSameBitsAloneAndInABatchOfOtherNoiseLevels) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = load(dtype);
    const std::vector<float> expected = whole(model);
    StepPlan other = rows(0, rows_);
    other.groups.back().noise_level = 5;
    other.groups.back().canvas = CanvasRows::kFresh;
    StepPlan batch = other;
    batch.append(rows(0, rows_), 1);
    Runner runner(model, default_table(), 2, 128, 2);
    condition(runner, 1);
    const std::vector<float> logits = runner.logits(batch);
    EXPECT_TRUE(std::ranges::equal(expected, std::span(logits).last(expected.size())));
    EXPECT_EQ(Runner(model, default_table(), 1).logits(other),
              std::vector<float>(logits.begin(), logits.begin() + std::ssize(expected)));
  }
}

TEST_F(Lfm2Pass, ReadsNoCellOfAnEarlierSequenceBeforeItsFirst) {
  const auto model = load(DType::kF32);
  Runner runner(model, default_table(), 1);
  condition(runner);
  const std::vector<float> first = runner.logits(rows(0, rows_));
  EXPECT_EQ(runner.logits(rows(0, rows_)), first)
      << "cells of the same positions are written before they are read";
}

}  // namespace
}  // namespace lacuna::lfm2_test
