#include "train/checkpoint.h"

#include <string>

#include "base/error.h"

namespace lacuna::train {
namespace {

std::string key_of(const char* list, size_t index) {
  return std::string(list) + "." + std::to_string(index);
}

constexpr const char* kLearned = "learned";
constexpr const char* kAverage = "average";

void write(torch::serialize::OutputArchive& archive, const char* list,
           const std::vector<torch::Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) archive.write(key_of(list, i), tensors[i].detach());
}

/// LibTorch would accept any shapes in the file.
void read(torch::serialize::InputArchive& archive, const char* list, std::vector<torch::Tensor>& tensors,
          const std::filesystem::path& path) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    torch::Tensor stored;
    archive.read(key_of(list, i), stored);
    if (stored.sizes() != tensors[i].sizes())
      throw InputError("the checkpoint {} holds a model of other sizes; give the same ones", path.string());
    tensors[i].copy_(stored);
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const std::vector<torch::Tensor>& learned,
                     const std::vector<torch::Tensor>& average, const torch::optim::AdamW& optimizer,
                     const Progress& progress) {
  torch::serialize::OutputArchive archive, moments;
  optimizer.save(moments);
  archive.write("optimizer", moments);
  write(archive, kLearned, learned);
  write(archive, kAverage, average);
  archive.write("step", torch::tensor(progress.step));
  archive.write("tokens", torch::tensor(progress.tokens));
  archive.write("seconds", torch::tensor(progress.seconds, torch::kFloat64));
  std::filesystem::path partial = path;
  partial += ".partial";
  archive.save_to(partial.string());
  std::filesystem::rename(partial, path);
}

Progress load_checkpoint(const std::filesystem::path& path, std::vector<torch::Tensor>& learned,
                         std::vector<torch::Tensor>& average, torch::optim::AdamW& optimizer) {
  const torch::NoGradGuard no_grad;
  try {
    torch::serialize::InputArchive archive, moments;
    archive.load_from(path.string());
    archive.read("optimizer", moments);
    read(archive, kLearned, learned, path);
    read(archive, kAverage, average, path);
    optimizer.load(moments);
    torch::Tensor step, tokens, seconds;
    archive.read("step", step);
    archive.read("tokens", tokens);
    archive.read("seconds", seconds);
    return {step.item<int64_t>(), tokens.item<int64_t>(), seconds.item<double>()};
  } catch (const c10::Error& error) {
    throw InputError("the checkpoint {} does not fit this run: {}", path.string(),
                     error.what_without_backtrace());
  }
}

}  // namespace lacuna::train
