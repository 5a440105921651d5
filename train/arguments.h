// The flags of lacuna-train, and the settings derived from them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/data.h"
#include "train/model.h"
#include "train/trainer.h"

namespace lacuna::train {

struct Arguments {
  std::string family = "llada";
  std::string folder;
  std::string start;
  std::string matmul = "auto";
  std::string device = "cpu";
  std::vector<std::string> data_files;
  int64_t row_length = 512;
  std::string lora;
  LoraShape lora_shape;
  std::string adapter;
  bool only_exports = false;
  std::string teacher;
  std::string objective = "default";
  std::optional<double> lambda, cart_p, clean_weight;
  std::vector<int64_t> slot_sizes;
  bool checkpoints_activations = false;
  bool resume = false;
  bool starting_heads = false;
  std::optional<size_t> max_vocabulary;
  bool wide_vocabulary = false;
  int64_t final_samples = 200;
  std::vector<std::string> tasks;
  std::optional<double> drill_share;
  std::vector<std::string> decision_kinds;
  std::optional<int64_t> ffn_width;
  std::optional<int64_t> context;
  std::vector<int32_t> lengths;
  ModelShape shape;
  DataOptions data;
  TrainOptions train;
};

void add_options(CLI::App& app, Arguments& arguments);

struct NamedShare {
  std::string name;
  double share;
};
/// "NAME" or "NAME=SHARE".
NamedShare parse_share(std::string_view flag, const std::string& text);

/// Derives the settings that flags leave open. Throws InputError for flags that contradict each other.
void complete(Arguments& arguments);

}  // namespace lacuna::train
