#include "model/random_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

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
  const std::pair<const char*, int64_t> published[] = {
      {"llada-8b", 8'015'581'184},       {"dream-7b", 7'615'616'512},   {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},   {"qwen2.5-7b", 7'615'616'512}, {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},     {"qwen3-4b", 4'022'468'096},   {"qwen3-8b", 8'190'735'360},
      {"fast-dllm-v2-7b", 7'615'616'512}};
  for (const auto& [name, parameters] : published) {
    EXPECT_EQ(num_parameters(parse_random_spec(std::string("random:") + name)), parameters) << name;
  }
  // Published to four digits only.
  EXPECT_NEAR(static_cast<double>(num_parameters(parse_random_spec("random:llada-moe-7b"))), 7.357e9, 1e6);
}

TEST(RandomSpec, ChangesTheNumberOfLayersOnly) {
  const ModelConfig config = parse_random_spec("random:llada-8b,layers=2");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.hidden_dim, 4096);
  EXPECT_EQ(config.mask_id, 126336);
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
