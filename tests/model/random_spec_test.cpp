#include "model/random_spec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "model/families.h"
#include "model/tiny_models.h"

namespace lacuna::random_spec_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Parameters, counted from the config alone.
int64_t num_parameters(const ModelConfig& c) {
  const int64_t attention = c.hidden_dim * (2 * c.q_dim() + 2 * c.kv_dim());
  const int64_t biases = c.qkv_bias ? c.q_dim() + 2 * c.kv_dim() : 0;
  const int64_t qk_norms = c.qk_norm_per_head ? 2 * c.head_dim : 0;
  const int64_t ffn = 3 * c.hidden_dim * (c.ffn_dim + c.moe.num_experts * c.moe.expert_ffn_dim);
  const int64_t router = c.moe.num_experts * c.hidden_dim;
  const int64_t layer = attention + biases + qk_norms + ffn + router + 2 * c.hidden_dim;
  return c.num_layers * layer + c.hidden_dim + c.vocab_size * c.hidden_dim * (c.tied_embeddings ? 1 : 2);
}

TEST(RandomSpec, HasThePublishedNumberOfParameters) {
  const std::pair<const char*, int64_t> published[] = {{"llada-8b", 8'015'581'184},
                                                       {"dream-7b", 7'615'616'512},
                                                       {"qwen2.5-0.5b", 494'032'768},
                                                       {"qwen2.5-1.5b", 1'543'714'304},
                                                       {"qwen2.5-7b", 7'615'616'512},
                                                       {"qwen3-0.6b", 596'049'920},
                                                       {"qwen3-1.7b", 1'720'574'976},
                                                       {"qwen3-4b", 4'022'468'096},
                                                       {"qwen3-8b", 8'190'735'360},
                                                       {"fast-dllm-v2-7b", 7'615'616'512},
                                                       {"dream-coder-7b", 7'615'616'512},
                                                       {"diffucoder-7b", 7'615'616'512},
                                                       {"open-dcoder-0.5b", 494'032'768},
                                                       {"sdar-4b", 4'411'424'256},
                                                       {"trado-4b", 4'411'424'256},
                                                       {"trado-8b", 8'190'735'360},
                                                       {"a2d-qwen2.5-0.5b-mdlm", 494'032'768},
                                                       {"a2d-qwen2.5-0.5b-bd3lm", 494'032'768}};
  for (const auto& [name, parameters] : published) {
    EXPECT_EQ(num_parameters(parse_random_spec(std::string("random:") + name)), parameters) << name;
  }
  // Published to four digits only.
  EXPECT_NEAR(static_cast<double>(num_parameters(parse_random_spec("random:llada-moe-7b"))), 7.357e9, 1e6);
}

TEST(RandomSpec, WritesAsThePublishedModelDoes) {
  const std::pair<const char*, Paradigm> published[] = {{"dream-coder-7b", Paradigm::kMasked},
                                                        {"diffucoder-7b", Paradigm::kMasked},
                                                        {"open-dcoder-0.5b", Paradigm::kMasked},
                                                        {"a2d-qwen2.5-0.5b-mdlm", Paradigm::kMasked},
                                                        {"a2d-qwen2.5-0.5b-bd3lm", Paradigm::kBlocks},
                                                        {"trado-4b", Paradigm::kBlocks},
                                                        {"trado-8b", Paradigm::kBlocks},
                                                        {"llada2.1-mini", Paradigm::kBlocks},
                                                        {"llada2.1-flash", Paradigm::kBlocks},
                                                        {"nemotron-labs-diffusion-14b", Paradigm::kBlocks}};
  for (const auto& [name, paradigm] : published) {
    const ModelConfig config = parse_random_spec(std::string("random:") + name);
    EXPECT_EQ(config.paradigm(), paradigm) << name;
    EXPECT_GE(config.mask_id, 0) << name;
  }
  EXPECT_TRUE(parse_random_spec("random:open-dcoder-0.5b").shifted_logits);
  EXPECT_EQ(parse_random_spec("random:a2d-qwen2.5-0.5b-bd3lm").block_length, 32);
  EXPECT_EQ(parse_random_spec("random:trado-8b"), parse_random_spec("random:sdar-8b"));
  EXPECT_EQ(parse_random_spec("random:llada2.1-flash"), parse_random_spec("random:llada2-flash"));
}

TEST(RandomSpec, ChangesTheNumberOfLayersOnly) {
  const ModelConfig config = parse_random_spec("random:llada-8b,layers=2");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.hidden_dim, 4096);
  EXPECT_EQ(config.mask_id, 126336);
}

TEST(RandomSpec, NamesAreAllOnThePageOfTheFamilies) {
  const std::string page = read_text(std::filesystem::path(LACUNA_SOURCE_DIR) / "docs/methods/README.md");
  for (const FamilyEntry& family : families()) {
    for (const PublishedConfig& published : family.published)
      EXPECT_THAT(page, HasSubstr(fmt::format("`{}`", published.name)));
  }
}

TEST(RandomSpec, IsToldFromAFolderByItsPrefix) {
  EXPECT_TRUE(is_random_spec("random:anything"));
  EXPECT_FALSE(is_random_spec("models/random"));
}

TEST(RandomSpec, AnswersAnUnknownNameWithTheList) {
  EXPECT_THAT([] { parse_random_spec("random:gpt-2"); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("\"gpt-2\""), HasSubstr("llada-8b, llada-moe-7b, dream-7b"))));
  EXPECT_THROW(parse_random_spec("random:"), InputError);
}

TEST(RandomSpec, RefusesOtherOptions) {
  for (const char* option : {"layers=0", "layers=-1", "layers=2x", "layers=", "layers=99999999999999999999",
                             "layers=1025", "heads=2", "", "layers=1,layers=2"}) {
    EXPECT_THAT([&] { parse_random_spec(std::string("random:dream-7b,") + option); },
                ThrowsMessage<InputError>(HasSubstr("expected layers=N with N from 1 to 1024")))
        << option;
  }
}

}  // namespace
}  // namespace lacuna::random_spec_test
