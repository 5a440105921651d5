#include "model/locate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace lacuna::locate_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class LocateTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("locate_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    places_ = {.model_folders = {root_ / "first", root_ / "second"}, .hub_cache = HubCache(root_ / "hub")};
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const fs::path& path, const std::string& content = "{}") const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }

  template <typename... Texts>
  void expect_refused(const std::string& argument, Texts... texts) const {
    EXPECT_THAT([&] { locate_model(argument, places_); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("expected"), HasSubstr(texts)...)));
  }

  fs::path root_;
  ModelPlaces places_;
};

TEST_F(LocateTest, TakesAFolderThatHoldsAConfig) {
  write("somewhere/config.json");
  EXPECT_EQ(locate_model((root_ / "somewhere").string(), places_), root_ / "somewhere");
}

TEST_F(LocateTest, TakesANameFromTheFirstModelFolderThatHasIt) {
  write("second/tiny/config.json");
  EXPECT_EQ(locate_model("tiny", places_), root_ / "second" / "tiny");
  write("first/tiny/config.json");
  EXPECT_EQ(locate_model("tiny", places_), root_ / "first" / "tiny");
}

TEST_F(LocateTest, FollowsTheReferenceInTheHubCache) {
  write("hub/models--org--name/refs/main", "0123abcd\n");
  write("hub/models--org--name/snapshots/0123abcd/config.json");
  EXPECT_EQ(locate_model("org/name", places_), root_ / "hub/models--org--name/snapshots/0123abcd");
}

TEST_F(LocateTest, RefusesAReferenceThatLeadsOutOfTheCache) {
  write("hub/models--org--name/refs/main", "../../../elsewhere");
  expect_refused("org/name", "refs/main", "the name of a commit");
}

TEST_F(LocateTest, RefusesAnIncompleteDownload) {
  write("hub/models--org--name/refs/main", "0123abcd");
  expect_refused("org/name", "snapshots/0123abcd: holds no config.json",
                 "a complete download of \"org/name\"", "`lacuna pull org/name`");
  write("hub/models--org--other/x");
  EXPECT_THROW(locate_model("org/other", places_), InputError);
}

TEST_F(LocateTest, SaysWhereItLooked) {
  expect_refused("tiny", "\"tiny\"", (root_ / "first").string(), (root_ / "second").string());
  expect_refused("org/name", "\"org/name\"", (root_ / "hub").string());
  for (const char* argument : {"", "a/b/c", "../hub", "org/..", "a/"}) expect_refused(argument, "no model");
}

TEST_F(LocateTest, TakesAGgufFileAsItIs) {
  write("somewhere/model.gguf");
  EXPECT_EQ(locate_model((root_ / "somewhere/model.gguf").string(), {}), root_ / "somewhere/model.gguf");
}

TEST_F(LocateTest, ExplainsWhatAFolderOrFileLacks) {
  write("somewhere/model.safetensors");
  expect_refused((root_ / "somewhere").string(), "holds no config.json");
  expect_refused((root_ / "somewhere/model.safetensors").string(), "is a file; expected the folder");
  expect_refused("missing.gguf", "no model");
}

class EnvironmentTest : public testing::Test {
 protected:
  static fs::path hub_cache() { return ModelPlaces::from_environment().hub_cache.root(); }

  void SetUp() override {
    for (size_t i = 0; i < std::size(kNames); ++i) {
      if (const char* value = std::getenv(kNames[i])) saved_[i] = value;
      unsetenv(kNames[i]);
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < std::size(kNames); ++i) {
      saved_[i] ? setenv(kNames[i], saved_[i]->c_str(), 1) : unsetenv(kNames[i]);
    }
  }

 private:
  static constexpr const char* kNames[] = {"LACUNA_MODELS", "LACUNA_PROGRAM", "HF_HUB_CACHE", "HF_HOME",
                                           "HOME"};
  std::optional<std::string> saved_[std::size(kNames)];
};

TEST_F(EnvironmentTest, FindsModelsThatShipWhereverTheProgramIsStarted) {
  const fs::path here = fs::current_path();
  fs::current_path("/");
  const std::vector<fs::path> folders = ModelPlaces::from_environment().model_folders;
  EXPECT_TRUE(std::any_of(folders.begin(), folders.end(), [](const fs::path& folder) {
    return fs::exists(folder / "mini-llada/config.json");
  }));
  fs::current_path(here);
}

TEST_F(EnvironmentTest, FindsModelsNextToTheFileThatStartsTheProgram) {
  const fs::path root = fs::path(testing::TempDir()) / "locate_archive";
  fs::create_directories(root / "share/lacuna/models");
  setenv("LACUNA_PROGRAM", (root / "bin/lacuna").c_str(), 1);
  const std::vector<fs::path> folders = ModelPlaces::from_environment().model_folders;
  EXPECT_NE(std::find(folders.begin(), folders.end(), root / "share/lacuna/models"), folders.end());
  fs::remove_all(root);
}

TEST_F(EnvironmentTest, DecidesWhereModelsAreLookedFor) {
  EXPECT_EQ(ModelPlaces::from_environment().model_folders.front(), "models");
  EXPECT_EQ(hub_cache(), "");
  setenv("HOME", "/home/a", 1);
  EXPECT_EQ(hub_cache(), "/home/a/.cache/huggingface/hub");
  setenv("HF_HOME", "/hf", 1);
  EXPECT_EQ(hub_cache(), "/hf/hub");
  setenv("HF_HUB_CACHE", "/cache", 1);
  EXPECT_EQ(hub_cache(), "/cache");
  setenv("LACUNA_MODELS", "/m", 1);
  const std::vector<fs::path> folders = ModelPlaces::from_environment().model_folders;
  ASSERT_GE(folders.size(), 2U);
  EXPECT_EQ(folders[0], "/m");
  EXPECT_EQ(folders[1], "models");
}

}  // namespace
}  // namespace lacuna::locate_test
