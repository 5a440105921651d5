// Helpers of the families' files that read a GGUF file's keys and name its tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/gguf.h"
#include "model/family.h"

namespace lacuna {

/// A file's keys under its architecture's prefix: "block_count" is "llada.block_count". Remembers which of
/// them were asked for; copies share that memory.
class GgufKeys {
 public:
  explicit GgufKeys(const GgufFile& file)
      : file_(file), prefix_(std::string(file.text("general.architecture")) + '.') {}

  const GgufFile& file() const { return file_; }
  /// The whole name of a key, which counts as asked for.
  std::string key(std::string_view name) const { return *asked_->insert(prefix_ + std::string(name)).first; }
  /// Keys under the prefix that nobody has asked for.
  std::vector<std::string> unread() const;
  bool has(std::string_view name) const { return file_.has(key(name)); }
  int64_t integer(std::string_view name, Range<int64_t> range, std::optional<int64_t> fallback = {}) const {
    return file_.integer(key(name), range, fallback);
  }
  double number(std::string_view name, std::optional<double> fallback = {}) const {
    return file_.number(key(name), fallback);
  }
  /// Only this value is supported, and it is what a file without the key means.
  void expect(std::string_view name, bool value) const {
    if (file_.flag(key(name), value) != value) file_.refuse(key(name), value ? "true" : "false");
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
  std::shared_ptr<std::set<std::string>> asked_ = std::make_shared<std::set<std::string>>();
};

/// Rows of a matrix that the file must hold.
int64_t gguf_rows(const GgufFile& file, std::string_view tensor);

/// Sizes under the names of the transformers library, for a model of this class.
///   slides          whether "attention.sliding_window" is the caller's; otherwise it may cut nothing off
///   has_layer_norm  whether norms are LayerNorms, whose epsilon has another key, and is "norm_eps" here
nlohmann::json gguf_sizes(const GgufKeys& keys, std::string_view architecture, bool slides = false,
                          bool has_layer_norm = false);
/// The same with "intermediate_size", without windows.
nlohmann::json gguf_dense_config(const GgufKeys& keys, std::string_view architecture,
                                 bool has_layer_norm = false);

/// Names of a layer's tensors as llama.cpp has them: blk.N.attn_q and its like.
LayerTensorNames gguf_layer(int64_t layer);

}  // namespace lacuna
