#include "model/config_tokens.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/config_texts.h"
#include "model/family_config.h"

namespace lacuna::config_tokens_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The files of a folder; null ones are absent.
struct Folder {
  json config;
  json generation = nullptr, tokenizer_config = nullptr, tokenizer = nullptr, special_tokens_map = nullptr;
  json added_tokens = nullptr;
};

ModelConfig read(const Folder& folder, const ConfigChoices& choices = {}) {
  const auto text = [](const json& value) { return value.is_null() ? std::string() : value.dump(); };
  const std::string texts[] = {
      text(folder.config),    text(folder.generation),         text(folder.tokenizer_config),
      text(folder.tokenizer), text(folder.special_tokens_map), text(folder.added_tokens)};
  return read_config_texts({texts[0], texts[1], texts[2], texts[3], texts[4], texts[5]}, "folder", choices);
}

json without_mask(const char* model) {
  return with_key(published_config(model), "mask_token_id", nullptr);
}

json added(const char* text, int64_t id) {
  return {{"added_tokens", {{{"id", id}, {"content", text}}}}};
}

TEST(TokenIds, OfTheMaskStandInAnyFile) {
  const json config = with_key(without_mask("llada2-mini"), "vocab_size", 157185);  // not the published size
  EXPECT_THAT(
      [&] { read({.config = config}); },
      ThrowsMessage<InputError>(AllOf(HasSubstr("\"mask_token_id\" is missing"), HasSubstr("<|mask|>"))));
  EXPECT_EQ(read({.config = config, .generation = {{"mask_token_id", 11}}}).mask_id, 11);
  EXPECT_EQ(read({.config = config, .tokenizer = added("<|mask|>", 12)}).mask_id, 12);
  const json decoder = {{"added_tokens_decoder", {{"13", {{"content", "<|mask|>"}}}}}};
  EXPECT_EQ(read({.config = config, .tokenizer_config = decoder}).mask_id, 13);
  EXPECT_EQ(read({.config = config, .added_tokens = {{"<|mask|>", 14}}}).mask_id, 14);
  // A text of its own, which special_tokens_map.json or tokenizer_config.json calls the mask.
  EXPECT_EQ(read({.config = config,
                  .tokenizer = added("[own]", 15),
                  .special_tokens_map = {{"mask_token", "[own]"}}})
                .mask_id,
            15);
  EXPECT_EQ(read({.config = config,
                  .tokenizer_config = {{"mask_token", {{"content", "[own]"}}}},
                  .tokenizer = added("[own]", 16)})
                .mask_id,
            16);
}

TEST(TokenIds, OfTheMaskFollowFromThePublishedVocabulary) {
  const std::vector<std::pair<const char*, TokenId>> masks = {{"llada-8b", 126336},
                                                              {"llada-moe-7b", 156895},
                                                              {"dream-7b", 151666},
                                                              {"llada2-mini", 156895},
                                                              {"sdar-4b", 151669},
                                                              {"sdar-30b-a3b", 151669},
                                                              {"fast-dllm-v2-7b", 151665},
                                                              {"coda-1.7b", 151669},
                                                              {"rnd1-30b-a3b", 151669},
                                                              {"a2d-qwen3-0.6b-mdlm", 151669},
                                                              {"a2d-qwen2.5-0.5b-mdlm", 151665},
                                                              {"stable-diffcoder-8b", 5},
                                                              {"nemotron-labs-diffusion-8b", 100}};
  for (const auto& [model, mask] : masks) {
    EXPECT_EQ(read({.config = without_mask(model)}).mask_id, mask) << model;
    json other = without_mask(model);
    other["vocab_size"] = other["vocab_size"].get<int64_t>() + 64;
    if (other.contains("embedding_size")) other["embedding_size"] = other["vocab_size"];
    EXPECT_THROW(read({.config = other}), InputError) << model << " of another vocabulary";
  }
  EXPECT_THAT([] { read({.config = without_mask("sdar-4b"), .tokenizer = added("<|think|>", 151669)}); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("folder/tokenizer.json"), HasSubstr("<|think|>"), HasSubstr("151669"))));
}

TEST(TokenIds, OfTheMaskAgreeInAllFiles) {
  const json config = published_config("sdar-4b");  // 151669
  EXPECT_EQ(read({.config = config,
                  .generation = {{"mask_token_id", 151669}},
                  .tokenizer = added("<|MASK|>", 151669),
                  .added_tokens = {{"<MASK>", 151669}}})
                .mask_id,
            151669);
  EXPECT_THAT([&] { read({.config = config, .tokenizer = added("<|MASK|>", 151670)}); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("\"mask_token_id\" in folder/config.json"),
                                              HasSubstr("\"<|MASK|>\" in folder/tokenizer.json"))));
  EXPECT_THAT(
      [&] {
        read({.config = config, .generation = {{"mask_token_id", 5}}});
      },
      ThrowsMessage<InputError>(HasSubstr("folder/generation_config.json")));
  EXPECT_THAT(
      [&] {
        read({.config = without_mask("sdar-4b"),
              .tokenizer = added("<|MASK|>", 7),
              .added_tokens = {{"<MASK>", 8}}});
      },
      ThrowsMessage<InputError>(AllOf(HasSubstr("tokenizer.json"), HasSubstr("added_tokens.json"))));
  const ConfigChoices vouched{.ignored_keys = {"mask_token_id"}};
  EXPECT_EQ(read({.config = config, .tokenizer = added("<|MASK|>", 151670)}, vouched).mask_id, 151669);
}

TEST(TokenIds, OfAMaskBelongToNoLeftToRightModel) {
  const json qwen = published_config("qwen2.5-0.5b");
  EXPECT_THAT([&] { read({.config = qwen, .tokenizer = added("<M>", 151665)}); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("folder/tokenizer.json"), HasSubstr("is a mask"))));
  EXPECT_THAT([&] { read({.config = published_config("qwen3-0.6b"), .tokenizer = added("<|mask|>", 5)}); },
              ThrowsMessage<InputError>(HasSubstr("is a mask of diffusion models")));
  EXPECT_EQ(read({.config = published_config("qwen3-0.6b"), .tokenizer = added("<|mask|>", 5)},
                 {.reads_other_texts = true})
                .mask_id,
            -1);
  EXPECT_THAT(
      [&] {
        read({.config = qwen, .generation = {{"mask_token_id", 151665}}});
      },
      ThrowsMessage<InputError>(HasSubstr("is a mask")));
  EXPECT_EQ(
      read({.config = qwen, .tokenizer = added("<M>", 151665)}, {.paradigm = Paradigm::kCausal}).mask_id, -1);
}

TEST(TokenIds, OfEndsStandInTokenizerJsonToo) {
  const json config = with_key(published_config("llada2-mini"), "eos_token_id", nullptr);
  EXPECT_THAT(read({.config = config, .tokenizer = added("<|role_end|>", 156900)}).end_ids,
              ElementsAre(156892, 156900));
  const json dream = with_key(published_config("dream-7b"), "eos_token_id", nullptr);
  const Folder folder{.config = dream,
                      .tokenizer_config = {{"eos_token", "<|endoftext|>"}},
                      .tokenizer = added("<|endoftext|>", 151643)};
  EXPECT_EQ(read(folder).eos_id, 151643) << "where config.json names none";
  EXPECT_THAT(
      [&] {
        read({.config = dream, .tokenizer = added("<|im_end|>", 7), .added_tokens = {{"<|im_end|>", 8}}});
      },
      ThrowsMessage<InputError>(HasSubstr("end token is 7")));
}

TEST(TokenIds, ThatEditAskForWindowsOfExperts) {
  EXPECT_THAT([] { read({.config = published_config("llada2-mini"), .tokenizer = added("<|delete|>", 9)}); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("expert_capacity"), HasSubstr("tokenizer.json"))));
}

}  // namespace
}  // namespace lacuna::config_tokens_test
