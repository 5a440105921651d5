#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::default_length_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

size_t answer_length(const ModelConfig& config, const GenerationOptions& options, int32_t prompt_length) {
  const auto decoder = make_decoder(config, options, random_tokens(1, prompt_length, 80));
  return decoder->canvas().size() - static_cast<size_t>(decoder->prompt_length());
}

ModelConfig with_positions(ModelConfig config, int64_t positions) {
  config.max_positions = positions;
  return config;
}

TEST(DefaultLength, IsWhatTheModelSaysElseTheUsualOne) {
  ModelConfig config = tiny_configs()[0];
  EXPECT_EQ(answer_length(config, {}, 7), 128U);
  config.max_length = 40;
  EXPECT_EQ(answer_length(config, {}, 7), 33U);
  EXPECT_EQ(answer_length(config, {}, 40), 128U) << "a total that the prompt has used up says nothing";
  config.max_new_tokens = 24;
  EXPECT_EQ(answer_length(config, {}, 7), 24U);
  GenerationOptions options;
  options.gen_length = 9;
  EXPECT_EQ(answer_length(config, options, 7), 9U);
}

TEST(DefaultLength, NeverExceedsTheContext) {
  for (const ModelConfig& config : {tiny_configs()[0], tiny_configs()[4], tiny_refusion_config(),
                                    tiny_block_config(8), tiny_gidd_config(1000), tiny_gidd_config(-1000)}) {
    EXPECT_EQ(answer_length(with_positions(config, 100), {}, 30), 70U);
  }
  const ModelConfig qwen = with_positions(tiny_configs()[5], 100);
  EXPECT_EQ(make_decoder(qwen, {}, random_tokens(1, 30, 80))->num_cells(), 100);
  GenerationOptions options;
  options.context = 50;
  EXPECT_EQ(answer_length(tiny_gidd_config(1000), options, 30), 20U);
}

TEST(DefaultLength, LeavesAPlaceForTheTokenThatGiddBeginsWith) {
  ModelConfig config = tiny_gidd_config(1000, 64);
  config.bos_id = 85;
  EXPECT_EQ(answer_length(config, {}, 30), 33U);
  EXPECT_EQ(make_decoder(config, {}, {85, 1, 2})->canvas().size(), 64U);
}

TEST(DefaultLength, LeavesPlacesForTheTokensThatCloseSumisAnswer) {
  const ModelConfig config = tiny_sumi_config(64);
  EXPECT_EQ(answer_length(config, {}, 30), 64U - 30 - 1 - 2);
  GenerationOptions options;
  options.context = 50;
  EXPECT_EQ(answer_length(config, options, 30), 50U - 30 - 1 - 2);
  options.gen_length = 18;
  EXPECT_THAT(
      [&] { answer_length(config, options, 30); },
      ThrowsMessage<InputError>(AllOf(HasSubstr("--context, less the 2 tokens after the answer, has 48"),
                                      HasSubstr("expected --gen-length 17 at most"))));
}

TEST(DefaultLength, IsAsManyWholeBlocksAsFit) {
  const ModelConfig config = with_positions(tiny_configs()[0], 100);
  const auto with_blocks = [&](int32_t size) {
    GenerationOptions options;
    options.block_length = size;
    return answer_length(config, options, 30);
  };
  EXPECT_EQ(with_blocks(32), 64U);
  EXPECT_EQ(with_blocks(70), 70U);
  EXPECT_THROW(with_blocks(71), InputError);
  GenerationOptions options;
  options.block_length = 256;
  EXPECT_EQ(answer_length(tiny_configs()[0], options, 30), 256U);
}

TEST(DefaultLength, IsRefusedOnlyWhereThePromptLeavesNothing) {
  const ModelConfig config = with_positions(tiny_configs()[0], 30);
  EXPECT_EQ(answer_length(config, {}, 29), 1U);
  EXPECT_THAT(
      [&] { answer_length(config, {}, 30); },
      ThrowsMessage<InputError>(AllOf(HasSubstr("30 tokens"), HasSubstr("no position for an answer"))));
}

TEST(DefaultLength, SaysWhatFitsWhereAnExplicitOneDoesNot) {
  GenerationOptions options;
  options.gen_length = 71;
  const ModelConfig config = with_positions(tiny_configs()[0], 100);
  EXPECT_THAT([&] { answer_length(config, options, 30); },
              ThrowsMessage<InputError>(HasSubstr("expected --gen-length 70 at most")));
  EXPECT_THAT([&] { answer_length(config, options, 100); },
              ThrowsMessage<InputError>(HasSubstr("expected a shorter prompt")));
}

TEST(CheckOptions, NeedsNoPrompt) {
  for (const ModelConfig& config :
       {tiny_configs()[0], tiny_configs()[5], tiny_block_config(8), tiny_gidd_config(1000)}) {
    const ModelConfig small = with_positions(config, 100);
    EXPECT_NO_THROW(check_options(small, {}));
    GenerationOptions options;
    options.gen_length = 99;
    EXPECT_NO_THROW(check_options(small, options));
    options.gen_length = 100;
    EXPECT_THAT([&] { check_options(small, options); },
                ThrowsMessage<InputError>(HasSubstr("--gen-length 100 leaves no position for a prompt")));
    options = {};
    options.temperature = -1;
    EXPECT_THROW(check_options(small, options), InputError);
  }
}

}  // namespace
}  // namespace lacuna::default_length_test
