// The list of models, the order in which folders are searched, and the messages about models that are not
// found.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"

namespace lacuna::list_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::string kCommit(40, 'a');

class ModelPlacesCli : public testing::Test {
 protected:
  /// In an empty folder, with an empty hub cache unless a test fills it.
  ProgramResult lacuna(const std::string& arguments, const std::string& environment = "") const {
    fs::create_directories(folder_.path() / "work");
    return run_line("HF_HUB_CACHE=" + cache().string() + " " + environment + " " LACUNA_BINARY " " +
                        arguments + " </dev/null",
                    folder_.path() / "work", folder_.path());
  }

  fs::path cache() const { return folder_.path() / "hub"; }

  /// A download of a tiny LLaDA as "org/name", complete unless a test takes something away.
  fs::path add_download(const std::string& repository = "models--org--name") const {
    const fs::path snapshot = cache() / repository / "snapshots" / kCommit;
    fs::create_directories(cache() / repository / "refs");
    std::ofstream(cache() / repository / "refs/main") << kCommit;
    fs::create_directories(snapshot.parent_path());
    fs::copy(LACUNA_SOURCE_DIR "/tests/golden/llada", snapshot);
    return snapshot;
  }

  void expect_refused(const ProgramResult& outcome, const std::vector<std::string>& parts) const {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  }

  TemporaryFolder folder_;
};

json entry(const json& list, const std::string& name) {
  for (const json& model : list) {
    if (model["name"] == name) return model;
  }
  ADD_FAILURE() << name << " is not listed in " << list;
  return {};
}

TEST_F(ModelPlacesCli, ListsWhatShipsAndWhatWasDownloaded) {
  const fs::path snapshot = add_download();
  const ProgramResult outcome = lacuna("list --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json list = json::parse(outcome.out);
  const json shipped = entry(list, "mini-llada");
  EXPECT_EQ(shipped["family"], "llada");
  EXPECT_GT(shipped["parameters"], 100'000);
  EXPECT_TRUE(shipped["problem"].is_null());
  EXPECT_TRUE(fs::exists(shipped["folder"].get<std::string>() + "/config.json"));
  const json download = entry(list, "org/name");
  EXPECT_EQ(download["family"], "llada");
  EXPECT_EQ(download["revision"], "main");
  EXPECT_EQ(download["folder"], snapshot.string());
  EXPECT_GT(download["bytes"], 0);
  const ProgramResult table = lacuna("list");
  EXPECT_THAT(table.out, AllOf(StartsWith("NAME"), HasSubstr("\nmini-llada "), HasSubstr("\norg/name "),
                               HasSubstr(snapshot.string())));
}

TEST_F(ModelPlacesCli, ListsDamagedAndUnknownModelsWithTheReason) {
  std::ofstream(add_download("models--org--unknown") / "config.json") << R"({"architectures":["BertModel"]})";
  fs::remove(add_download("models--org--part") / "model.safetensors");
  std::ofstream(add_download("models--org--broken") / "model.safetensors") << "not a checkpoint";
  fs::create_directories(cache() / "models--org--begun/blobs");
  std::ofstream(cache() / "models--org--begun/blobs/0.incomplete") << "x";
  fs::create_directories(cache() / "datasets--org--data");
  fs::create_directories(cache() / "models--..--..");
  const ProgramResult outcome = lacuna("list --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json list = json::parse(outcome.out);
  EXPECT_THAT(entry(list, "org/unknown")["problem"], HasSubstr("BertModel"));
  EXPECT_THAT(entry(list, "org/part")["problem"], HasSubstr("lacuna pull org/part"));
  EXPECT_THAT(entry(list, "org/broken")["problem"], HasSubstr("model.safetensors"));
  EXPECT_THAT(entry(list, "org/begun")["problem"],
              HasSubstr("downloaded in part; `lacuna pull org/begun` completes"));
  EXPECT_THAT(outcome.out, AllOf(Not(HasSubstr("data")), Not(HasSubstr(".."))));
  EXPECT_THAT(lacuna("list").out, HasSubstr("org/unknown"));
}

TEST_F(ModelPlacesCli, FindsModelsThatShipFromAnyFolder) {
  EXPECT_EQ(lacuna("inspect -m mini-llada").exit_code, 0);
  // A models folder in the current one still comes first.
  fs::create_directories(folder_.path() / "work/models");
  fs::copy(LACUNA_SOURCE_DIR "/tests/golden/dream", folder_.path() / "work/models/mini-llada");
  EXPECT_THAT(lacuna("inspect -m mini-llada --json").out, HasSubstr("\"family\": \"dream\""));
}

TEST_F(ModelPlacesCli, RunsADownload) {
  add_download();
  const std::string flags = " --prompt-tokens 5,6,7 --gen-length 4 --threads 1 --json";
  EXPECT_EQ(lacuna("run -m org/name" + flags).exit_code, 0);
  EXPECT_EQ(lacuna("run -m org/name@main" + flags).exit_code, 0);
  EXPECT_EQ(lacuna("run -m org/name@" + kCommit + flags).exit_code, 0);
  expect_refused(lacuna("run -m org/name@other" + flags), {"org/name@other", "`lacuna pull org/name@other`"});
}

TEST_F(ModelPlacesCli, NamesTheNearestModelAndTheCommandThatDownloads) {
  add_download("models--GSAI-ML--LLaDA-8B-Instruct");
  const std::string flags = " --prompt-tokens 5,6,7";
  expect_refused(lacuna("run -m mini-lada" + flags),
                 {"no model \"mini-lada\"", "did you mean \"mini-llada\"?"});
  expect_refused(lacuna("run -m GSAI-ML/LLaDA-8B-Instuct" + flags),
                 {"did you mean \"GSAI-ML/LLaDA-8B-Instruct\"?", "`lacuna pull GSAI-ML/LLaDA-8B-Instuct`",
                  cache().string()});
  const ProgramResult far = lacuna("run -m something-else-entirely" + flags);
  expect_refused(far, {"looked in the current folder, models"});
  EXPECT_THAT(far.err, Not(HasSubstr("did you mean")));
}

TEST_F(ModelPlacesCli, RefusesAPartialDownloadWithTheCommandThatCompletesIt) {
  const fs::path snapshot = add_download();
  fs::rename(snapshot / "model.safetensors", snapshot / "model-00001-of-00002.safetensors");
  std::ofstream(snapshot / "model.safetensors.index.json")
      << R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})";
  expect_refused(lacuna("run -m org/name --prompt-tokens 5,6,7 --gen-length 4"),
                 {"model-00002-of-00002.safetensors is missing", "`lacuna pull org/name`"});
  fs::remove(snapshot / "config.json");
  expect_refused(lacuna("run -m org/name --prompt-tokens 5,6,7 --gen-length 4"),
                 {"holds no config.json", "`lacuna pull org/name`"});
}

TEST_F(ModelPlacesCli, RefusesAModelThatDoesNotFitIntoMemory) {
  const std::string flags = " --prompt-tokens 5,6,7 --gen-length 4";
  expect_refused(lacuna("run -m random:llada-8b,layers=1024" + flags),
                 {"random:llada-8b,layers=1024 needs ", "GiB of memory (weights ", " are available",
                  "--weights", "--ignore-memory"});
}

}  // namespace
}  // namespace lacuna::list_test
