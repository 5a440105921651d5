#include "train/checkpoint.h"

#include <string>

#include "base/error.h"

namespace lacuna::train {
namespace {

std::string average_key(size_t index) {
  return "average." + std::to_string(index);
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, Transformer model,
                     const std::vector<torch::Tensor>& average, const torch::optim::AdamW& optimizer,
                     const Progress& progress) {
  torch::serialize::OutputArchive archive, weights, moments;
  model->save(weights);
  optimizer.save(moments);
  archive.write("model", weights);
  archive.write("optimizer", moments);
  for (size_t i = 0; i < average.size(); ++i) archive.write(average_key(i), average[i]);
  archive.write("step", torch::tensor(progress.step));
  archive.write("tokens", torch::tensor(progress.tokens));
  archive.write("seconds", torch::tensor(progress.seconds, torch::kFloat64));
  std::filesystem::path partial = path;
  partial += ".partial";
  archive.save_to(partial.string());
  std::filesystem::rename(partial, path);
}

Progress load_checkpoint(const std::filesystem::path& path, Transformer model,
                         std::vector<torch::Tensor>& average, torch::optim::AdamW& optimizer) {
  // LibTorch would accept any shapes in the file.
  std::vector<std::vector<int64_t>> shapes;
  for (const torch::Tensor& parameter : model->parameters()) shapes.push_back(parameter.sizes().vec());
  try {
    torch::serialize::InputArchive archive, weights, moments;
    archive.load_from(path.string());
    archive.read("model", weights);
    archive.read("optimizer", moments);
    model->load(weights);
    optimizer.load(moments);
    for (size_t i = 0; i < average.size(); ++i) archive.read(average_key(i), average[i]);
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (model->parameters()[i].sizes().vec() == shapes[i]) continue;
      throw InputError("the checkpoint {} holds a model of other sizes; give the same ones", path.string());
    }
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
