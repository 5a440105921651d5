#include "hub/hub_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "hub/digest.h"

namespace lacuna::hub_files_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<HubFile> files_named(const std::vector<std::string>& names) {
  std::vector<HubFile> files;
  for (const std::string& name : names) files.push_back({name, std::string(40, '0'), 1});
  return files;
}

std::vector<std::string> chosen(const std::vector<std::string>& names, const std::string& model = "org/name",
                                const std::vector<std::string>& include = {}) {
  std::vector<std::string> paths;
  for (const HubFile& file : choose_files(files_named(names), *HubModel::parse(model), include))
    paths.push_back(file.path);
  return paths;
}

TEST(ChooseFiles, TakesWhatARunReads) {
  EXPECT_THAT(
      chosen({"README.md", "config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja",
              "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
              "model.safetensors.index.json", "consolidated.safetensors", "pytorch_model.bin",
              "onnx/model.safetensors", "modeling_x.py", "images/a.png"}),
      ElementsAre("config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja",
                  "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                  "model.safetensors.index.json"));
  EXPECT_THAT(chosen({"config.json", "model.safetensors", "model-fp8.safetensors"}),
              ElementsAre("config.json", "model.safetensors"));
}

TEST(ChooseFiles, TakesTheOnlyGgufFile) {
  EXPECT_THAT(chosen({"README.md", "llada.Q4_K_M.gguf", "mmproj-x.gguf"}), ElementsAre("llada.Q4_K_M.gguf"));
  EXPECT_THAT(chosen({"x-00001-of-00002.gguf", "x-00002-of-00002.gguf"}),
              ElementsAre("x-00001-of-00002.gguf", "x-00002-of-00002.gguf"));
}

TEST(ChooseFiles, AsksWhichOfSeveralGgufFilesIsMeant) {
  const std::vector<std::string> names = {"a-Q4_K_M.gguf", "a-Q8_0.gguf", "Q6_K/a-Q6_K-00001-of-00002.gguf",
                                          "Q6_K/a-Q6_K-00002-of-00002.gguf"};
  EXPECT_THAT([&] { chosen(names); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("a-Q4_K_M"), HasSubstr("a-Q8_0"), HasSubstr("org/name:QUANT"))));
  EXPECT_THAT(chosen(names, "org/name:q8_0"), ElementsAre("a-Q8_0.gguf"));
  EXPECT_THAT(chosen(names, "org/name:Q6_K"),
              ElementsAre("Q6_K/a-Q6_K-00001-of-00002.gguf", "Q6_K/a-Q6_K-00002-of-00002.gguf"));
  EXPECT_THAT([&] { chosen(names, "org/name:Q5_0"); }, ThrowsMessage<InputError>(HasSubstr("\"Q5_0\"")));
}

TEST(ChooseFiles, TakesWhatMatchesAPattern) {
  EXPECT_THAT(chosen({"config.json", "sub/a.txt", "b.txt"}, "org/name", {"*.txt"}),
              ElementsAre("sub/a.txt", "b.txt"));
  EXPECT_THAT([] { chosen({"config.json"}, "org/name", {"*.x"}); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("--include *.x"), HasSubstr("config.json"))));
}

TEST(ChooseFiles, TakesAnAdapterThatHasNoModelWithIt) {
  EXPECT_THAT(chosen({"README.md", "adapter_config.json", "adapter_model.safetensors", "training_args.bin"},
                     "org/name"),
              ElementsAre("adapter_config.json", "adapter_model.safetensors"));
  EXPECT_THROW(chosen({"adapter_config.json", "adapter_model.bin"}), InputError);
}

TEST(ChooseFiles, SaysWhenThereIsNoModel) {
  EXPECT_THAT(
      [] {
        chosen({"README.md", "pytorch_model.bin"});
      },
      ThrowsMessage<InputError>(HasSubstr("org/name holds no config.json with .safetensors files")));
}

TEST(NextPage, ReadsTheLinkHeader) {
  EXPECT_EQ(next_page("<https://a/b?x=1>; rel=\"next\""), "https://a/b?x=1");
  EXPECT_EQ(next_page("<https://a>; rel=\"prev\", <https://b>; rel=\"next\""), "https://b");
  EXPECT_EQ(next_page("<https://a>; rel=\"last\""), "");
  EXPECT_EQ(next_page("<<<"), "");
}

TEST(Digest, IsTheOneThatNamesBlobs) {
  Digest sha256 = Digest::sha256();
  sha256.update("abc");
  EXPECT_EQ(sha256.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Digest git = Digest::git_blob(6);
  git.update("hello");
  git.update("\n");
  EXPECT_EQ(git.hex(), "ce013625030ba8dba906f756967f9e9ca394464a");  // git hash-object
}

}  // namespace
}  // namespace lacuna::hub_files_test
