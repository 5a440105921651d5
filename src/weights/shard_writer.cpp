#include "weights/shard_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/written_file.h"

namespace lacuna {
namespace {

/// The tensor's alignment: the largest power of two, at most a page, that divides its size.
uint64_t part_of_a_page(const TensorToWrite& tensor) {
  return std::gcd(uint64_t{tensor.bytes.size()}, uint64_t{kDataAlignment});
}

}  // namespace

HeldTensors value_tensor(const std::string& name, const std::vector<int64_t>& shape,
                         std::vector<float> values) {
  const auto memory = std::make_shared<const std::vector<float>>(std::move(values));
  return {{{.name = name, .shape = shape, .bytes = std::as_bytes(std::span(*memory))}}, memory};
}

void ShardWriter::add(HeldTensors held) {
  for (const TensorToWrite& tensor : held.tensors) pending_ += std::ssize(tensor.bytes);
  held_.push_back(std::move(held));
  if (pending_ >= shard_bytes_) write(fmt::format("model-{:05}.safetensors", ++shards_));
}

void ShardWriter::finish() {
  if (shards_ == 0) return write("model.safetensors");
  if (!held_.empty()) write(fmt::format("model-{:05}.safetensors", ++shards_));
  const nlohmann::ordered_json index{{"metadata", {{"total_size", written_}}}, {"weight_map", weight_map_}};
  const std::filesystem::path path = folder_ / "model.safetensors.index.json";
  write_whole_file(path, index.dump(2) + '\n');
}

void ShardWriter::write(const std::string& name) {
  std::vector<TensorToWrite> tensors;
  for (const HeldTensors& held : held_)
    tensors.insert(tensors.end(), held.tensors.begin(), held.tensors.end());
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return part_of_a_page(a) > part_of_a_page(b);
  });
  write_safetensors(folder_ / name, tensors, {{"format", "lacuna"}});
  for (const TensorToWrite& tensor : tensors) weight_map_[tensor.name] = name;
  written_ += std::exchange(pending_, 0);
  held_.clear();
}

}  // namespace lacuna
