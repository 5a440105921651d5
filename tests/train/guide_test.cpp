// The commands of docs/guide/make_a_diffusion_model.md, run one after the other on a random checkpoint of
// Qwen3's layout, scaled down.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "temporary_folder.h"
#include "train/bpe.h"
#include "train/export.h"

namespace lacuna::train::guide_test {
namespace {

namespace fs = std::filesystem;

/// Indented lines that begin with a program's name.
std::vector<std::string> commands() {
  std::ifstream page(LACUNA_SOURCE_DIR "/docs/guide/make_a_diffusion_model.md");
  std::vector<std::string> found;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("    lacuna")) found.push_back(line.substr(4));
  }
  return found;
}

/// The checkpoint that the page begins with: grouped heads, norms of q and k, a tied head.
void write_checkpoint(const fs::path& folder) {
  const Bpe bpe = learn_bpe({"What is a prime number? A number with two divisors. 12+7=19."}, 300);
  torch::manual_seed(1);
  ModelShape shape;
  shape.family = Family::kQwen3;
  shape.layers = 2;
  shape.width = 32;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_size = 16;
  shape.ffn_width = 48;
  shape.tied_head = true;
  shape.rope_theta = 1000000;
  shape.vocabulary = bpe.total_size();
  fs::create_directories(folder);
  export_texts(folder, shape, bpe);
  export_weights(folder, Transformer(shape));
}

/// The same command, small: few steps of short rows.
std::string scaled(std::string command) {
  const auto replace = [&](const std::string& flag, const std::string& value) {
    command = std::regex_replace(command, std::regex(flag + " [0-9]+"), flag + " " + value);
  };
  const bool resumes = command.find("--resume") != std::string::npos;
  replace("--steps", resumes ? "5" : "3");
  replace("--row-length", "96");
  replace("--batch-rows", "2");
  replace("--accumulate", "2");
  replace("--gen-length", "8");
  replace("--samples", "2");
  const std::string program = command.starts_with("lacuna-train ") ? LACUNA_TRAIN_BINARY : LACUNA_BINARY;
  return program + command.substr(command.find(' '));
}

TEST(Guide, MakesABlockDiffusionModelWithTheCommandsOfItsPage) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path() / "Qwen3-0.6B");
  std::ofstream talks(folder.path() / "talks.jsonl");
  for (int i = 0; i < 150; ++i) {
    talks << nlohmann::json{{"messages",
                             {{{"role", "user"}, {"content", "What is 12+" + std::to_string(i % 7) + "?"}},
                              {{"role", "assistant"}, {"content", std::to_string(12 + i % 7) + "."}}}}}
                 .dump()
          << '\n';
  }
  talks.close();
  int trained = 0, run = 0;
  for (const std::string& command : commands()) {
    (command.starts_with("lacuna-train ") ? trained : run)++;
    const std::string line = "cd " + folder.path().string() + " && " + scaled(command) + " > output.txt 2>&1";
    const int status = std::system(line.c_str());
    std::ifstream output(folder.path() / "output.txt");
    EXPECT_EQ(status, 0) << command << "\n" << std::string{std::istreambuf_iterator<char>(output), {}};
  }
  EXPECT_GE(trained, 7);
  EXPECT_GE(run, 4);
  EXPECT_TRUE(fs::exists(folder.path() / "again/model.safetensors"));
  for (const char* const out : {"ones", "blocks", "sure", "fewer", "more"}) {
    EXPECT_TRUE(fs::exists(folder.path() / out / "adapter/adapter_model.safetensors")) << out;
    EXPECT_TRUE(fs::exists(folder.path() / out / "log.csv")) << out;
  }
}

}  // namespace
}  // namespace lacuna::train::guide_test
