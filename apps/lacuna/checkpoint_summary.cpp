#include "checkpoint_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/gguf.h"
#include "weights/checkpoint.h"
#include "weights/panel_tensors.h"
#include "weights/weight_format.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

/// Format in which most of the bytes are stored.
std::string most_of(const std::map<std::string, int64_t>& bytes_of) {
  const auto most = std::max_element(bytes_of.begin(), bytes_of.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes_of.end() ? "nothing" : most->first;
}

Json summary_of(const Checkpoint& checkpoint) {
  Json json{{"files", checkpoint.num_files()},
            {"tensors", checkpoint.names().size()},
            {"dtype", name_of(checkpoint.dtype())},
            {"bytes", checkpoint.total_bytes()}};
  if (checkpoint.quantization()) json["dtype"] = name_of(checkpoint.quantization()->method);
  if (!checkpoint.is_packed()) return json;
  std::map<std::string, int64_t> bytes_of;
  for (const auto& [format, bytes] : panel_formats(checkpoint)) bytes_of[describe(format)] = bytes;
  json["dtype"] = most_of(bytes_of);
  json["panel_bytes"] = bytes_of;
  return json;
}

Json summary_of(const GgufFile& file) {
  std::map<std::string, int64_t> bytes_of;
  int64_t total = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    bytes_of[describe_ggml_type(tensor.type)] += static_cast<int64_t>(tensor.bytes.size());
    total += static_cast<int64_t>(tensor.bytes.size());
  }
  return {{"files", file.num_files()},
          {"tensors", file.tensors().size()},
          {"dtype", most_of(bytes_of)},
          {"bytes", total}};
}

bool holds_weights(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  return std::any_of(begin(files), end(files),
                     [](const auto& file) { return file.path().extension() == ".safetensors"; });
}

}  // namespace

Json checkpoint_json(const std::filesystem::path& folder) {
  if (GgufFile::is_gguf(folder)) return summary_of(GgufFile::open(folder));
  if (holds_weights(folder)) return summary_of(Checkpoint::open(folder));
  return {};
}

std::string human_count(int64_t count) {
  if (count >= 1'000'000'000) return fmt::format("{:.2f} billion", static_cast<double>(count) / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.1f} million", static_cast<double>(count) / 1e6);
  return fmt::format("{}", count);
}

}  // namespace lacuna
