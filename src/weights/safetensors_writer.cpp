#include "weights/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/written_file.h"
#include "kernels/panels.h"

namespace lacuna {
namespace {

std::string_view type_name(const TensorToWrite& tensor) {
  if (!tensor.type.empty()) return tensor.type;
  return tensor.dtype == DType::kF32 ? "F32" : tensor.dtype == DType::kF16 ? "F16" : "BF16";
}

size_t element_bytes(const TensorToWrite& tensor) {
  if (tensor.type.empty()) return size_of(tensor.dtype);
  for (const size_t bytes : {size_t{8}, size_t{4}, size_t{2}}) {
    const std::string bits = std::to_string(8 * bytes);
    if (tensor.type.size() == 1 + bits.size() && tensor.type.ends_with(bits)) return bytes;  // I64, U32, F16
  }
  return 1;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian numbers");
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const auto count =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<int64_t>());
    expects(tensor.bytes.size() == static_cast<uint64_t>(count) * element_bytes(tensor),
            "a tensor has as many bytes as its shape and type say");
    expects(!header.contains(tensor.name), "tensors have different names");
    header[tensor.name] = {{"dtype", type_name(tensor)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  constexpr uint64_t kLengthBytes = 8;
  const auto begin = round_up(static_cast<int64_t>(kLengthBytes + text.size()), kDataAlignment);
  text.resize(static_cast<uint64_t>(begin) - kLengthBytes, ' ');  // the format allows spaces after the JSON

  WrittenFile file(path);
  const uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const TensorToWrite& tensor : tensors) file.write(tensor.bytes);
  file.commit();
}

std::vector<bf16> to_bf16(std::span<const float> values) {
  std::vector<bf16> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), [](float value) { return bf16(value); });
  return rounded;
}

}  // namespace lacuna
