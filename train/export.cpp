#include "train/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/canvas_config.h"
#include "train/names.h"
#include "weights/safetensors_writer.h"

namespace lacuna::train {
namespace {

void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json) {
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) throw InputError("cannot write {}", path.string());
}

}  // namespace

void export_texts(const std::filesystem::path& folder, const ModelShape& shape, const Bpe& bpe) {
  const SpecialIds ids = bpe.ids();
  write_json(folder / "config.json", config_json(shape, ids));
  write_json(folder / "tokenizer.json", tokenizer_json(bpe));
  write_json(folder / "tokenizer_config.json", tokenizer_config_json(bpe));
  write_json(folder / "special_tokens_map.json", special_tokens_map_json(bpe));
  if (shape.traits().has_canvases()) {
    write_json(folder / "generation_config.json", canvas_generation_config(shape, ids));
    return;
  }
  write_json(folder / "generation_config.json", {{"_from_model_config", true},
                                                 {"bos_token_id", ids.start},
                                                 {"eos_token_id", ids.end},
                                                 {"transformers_version", "4.46.3"}});
}

void export_weights(const std::filesystem::path& folder, const Transformer& updated) {
  const Transformer model = merged_model(updated);
  std::vector<std::vector<bf16>> storage;
  std::vector<TensorToWrite> tensors;
  for (const PublishedTensor& tensor : published_tensors(model, model->shape().family)) {
    const torch::Tensor values = torch::cat(tensor.parts).detach().cpu().contiguous();
    storage.push_back(to_bf16({values.data_ptr<float>(), static_cast<size_t>(values.numel())}));
    tensors.push_back(
        {tensor.name, DType::kBF16, values.sizes().vec(), std::as_bytes(std::span(storage.back()))});
  }
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

void export_adapter(const std::filesystem::path& folder, const Transformer& model, const std::string& base) {
  std::vector<torch::Tensor> storage;
  std::vector<TensorToWrite> tensors;
  std::set<std::string> modules;
  for (const auto& item : model->named_parameters()) {
    if (item.key().find(kUpdate) == std::string::npos) continue;
    const UpdateName name = update_name(model->shape().family, item.key());
    modules.insert(name.module.substr(name.module.rfind('.') + 1));
    const torch::Tensor values = item.value().detach().cpu().contiguous();
    storage.push_back(values);
    const std::span<const float> floats(values.data_ptr<float>(), static_cast<size_t>(values.numel()));
    tensors.push_back({name.tensor, DType::kF32, values.sizes().vec(), std::as_bytes(floats)});
  }
  write_safetensors(folder / "adapter_model.safetensors", tensors, {{"format", "pt"}});
  write_json(folder / "adapter_config.json", {{"base_model_name_or_path", base},
                                              {"bias", "none"},
                                              {"fan_in_fan_out", false},
                                              {"inference_mode", true},
                                              {"lora_alpha", model->lora().alpha},
                                              {"lora_dropout", 0.0},
                                              {"modules_to_save", nullptr},
                                              {"peft_type", "LORA"},
                                              {"r", model->lora().rank},
                                              {"target_modules", modules},
                                              {"task_type", "CAUSAL_LM"},
                                              {"use_dora", false},
                                              {"use_rslora", false}});
}

void round_weights(Transformer& model) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& parameter : model->parameters()) parameter.copy_(parameter.to(torch::kBFloat16));
}

}  // namespace lacuna::train
