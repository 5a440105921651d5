#include "weights/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace lacuna {
namespace {

const char* format_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
  }
  return "?";
}

void write_bytes(std::ofstream& file, const void* bytes, size_t count) {
  file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian numbers");
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const auto count =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<int64_t>());
    const size_t element_bytes = tensor.is_bytes ? 1 : size_of(tensor.dtype);
    expects(tensor.bytes.size() == static_cast<uint64_t>(count) * element_bytes,
            "a tensor has as many bytes as its shape and type say");
    expects(!header.contains(tensor.name), "tensors have different names");
    header[tensor.name] = {{"dtype", tensor.is_bytes ? "U8" : format_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the format allows spaces after the JSON

  std::filesystem::path partial = path;
  partial += ".partial";
  std::ofstream file(partial, std::ios::binary);
  const uint64_t length = text.size();
  write_bytes(file, &length, sizeof(length));
  write_bytes(file, text.data(), text.size());
  for (const TensorToWrite& tensor : tensors) write_bytes(file, tensor.bytes.data(), tensor.bytes.size());
  file.close();
  if (!file) throw InputError("cannot write {}", partial.string());
  std::filesystem::rename(partial, path);
}

std::vector<bf16> to_bf16(std::span<const float> values) {
  std::vector<bf16> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), [](float value) { return bf16(value); });
  return rounded;
}

}  // namespace lacuna
