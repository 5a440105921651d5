// The state of a training run: weights, their moving average, the optimizer and the counters, in one file.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace lacuna::train {

struct Progress {
  int64_t step = 0;    ///< optimizer steps done
  int64_t tokens = 0;  ///< positions computed, masked or not
  double seconds = 0;  ///< training time of all runs, without evaluation
};

/// Writes to a temporary file next to `path` and renames it, so that an interruption leaves the old
/// checkpoint intact.
///   learned  trainable parameters: for LoRA, the low-rank updates alone
///   average  moving average of each of them
void save_checkpoint(const std::filesystem::path& path, const std::vector<torch::Tensor>& learned,
                     const std::vector<torch::Tensor>& average, const torch::optim::AdamW& optimizer,
                     const Progress& progress);

/// Reads into parameters and an optimizer of the same shapes. Throws InputError if the file does not match.
Progress load_checkpoint(const std::filesystem::path& path, std::vector<torch::Tensor>& learned,
                         std::vector<torch::Tensor>& average, torch::optim::AdamW& optimizer);

}  // namespace lacuna::train
