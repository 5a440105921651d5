// Writes adapters as PEFT saves them, for tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/rng.h"
#include "weights/safetensors_writer.h"

namespace lacuna {

/// An adapter whose tensors are f32.
struct LoraFiles {
  nlohmann::ordered_json config = {
      {"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 4}, {"target_modules", nullptr}, {"bias", "none"}};
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> tensors;

  /// Values that depend on the name alone.
  std::vector<float>& add(const std::string& name, const std::vector<int64_t>& shape) {
    uint64_t seed = 1;
    for (const char c : name) seed = mix_bits(seed * 31 + static_cast<unsigned char>(c));
    auto& [own_shape, values] = tensors[name];
    own_shape = shape;
    values.clear();
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(RngStream(seed).uniform(static_cast<uint64_t>(i)) - 0.5));
    return values;
  }
  /// Both factors of a module.
  void add_update(const std::string& module, int64_t outputs, int64_t inputs, int64_t rank = 2) {
    add("base_model.model." + module + ".lora_A.weight", {rank, inputs});
    add("base_model.model." + module + ".lora_B.weight", {outputs, rank});
  }
  const std::vector<float>& values(const std::string& name) const { return tensors.at(name).second; }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "adapter_config.json") << config.dump();
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors)
      list.push_back({name, DType::kF32, tensor.first, std::as_bytes(std::span(tensor.second))});
    write_safetensors(folder / "adapter_model.safetensors", list, {});
  }
};

}  // namespace lacuna
