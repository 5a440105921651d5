#include "engine/opened_model.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace lacuna::opened_model_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

OpenedModel opened_zoo_model(const std::string& name) {
  return {name, find_model((std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / name).string())};
}

TEST(OpenedModel, ReadsTextsIdsAndTurns) {
  const OpenedModel opened = opened_zoo_model("mini-llada");
  const std::vector<TokenId> ids = opened.encode("Mia has");
  EXPECT_EQ(opened.tokens_of(std::string("Mia has")), ids);
  EXPECT_EQ(opened.tokens_of(ids), ids);
  const MixedPrompt mixed{{TokenId{7}, std::string("Mia has"), TokenId{9}}};
  std::vector<TokenId> all{7};
  all.insert(all.end(), ids.begin(), ids.end());
  all.push_back(9);
  EXPECT_EQ(opened.tokens_of(mixed), all);
  EXPECT_GT(opened.tokens_of(std::vector<Message>{{"user", "Mia has"}}).size(), ids.size());
  const OpenedModel silent("random", find_model("random:llada-8b,layers=1"));
  EXPECT_THAT([&] { silent.encode("Mia"); }, ThrowsMessage<InputError>(HasSubstr("has no tokenizer")));
  EXPECT_THAT(
      [&] {
        silent.tokens_of(std::vector<Message>{{"user", "Mia"}});
      },
      ThrowsMessage<InputError>(HasSubstr("has no tokenizer")));
}

TEST(OpenedModel, OfBlockDiffusionTakesAGuideOfItsKindWithTheSameTokens) {
  OpenedModel opened = opened_zoo_model("mini-sdar");
  const std::filesystem::path models = std::filesystem::path(LACUNA_SOURCE_DIR) / "models";
  for (const char* const other : {"mini-qwen", "mini-llada2"})
    EXPECT_THAT(
        [&] { opened.use_guide((models / other).string()); },
        ThrowsMessage<InputError>(HasSubstr("expected a block diffusion model with the same tokens")));
  opened.use_guide((models / "mini-sdar").string());
  GenerateRequest request = request_of(opened, {}, true);
  request.prompt = std::vector<Message>{{"user", "Mia"}};
  EXPECT_GT(opened.make_decoder(request)->num_guide_cells(), 0);
  request = request_of(opened, {}, false);
  request.prompt = std::vector<Message>{{"user", "Mia"}};
  EXPECT_EQ(opened.make_decoder(request)->num_guide_cells(), 0) << "a request may leave the guide out";
}

TEST(OpenedModel, HasAGuideOnceOneIsNamed) {
  OpenedModel opened = opened_zoo_model("mini-llada");
  const auto folder = [](const char* name) {
    return (std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / name).string();
  };
  EXPECT_EQ(opened.guide(), nullptr);
  EXPECT_THAT([&] { opened.use_guide(folder("mini-llada")); },
              ThrowsMessage<InputError>(HasSubstr("expected an autoregressive model")));
  opened.use_guide(folder("mini-qwen"));
  MaskedStrategy strategy;
  strategy.commit = GuideRule();
  GenerateRequest request;
  request.prompt = std::vector<Message>{{"user", "Mia"}};
  request.strategy = strategy;
  EXPECT_GT(opened.make_decoder(request)->num_guide_cells(), 0);
}

}  // namespace
}  // namespace lacuna::opened_model_test
