// Helpers for the families' files: reading a GGUF file's keys and naming its tensors.
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

/// A file's keys under its architecture's prefix: "block_count" is "llada.block_count". Records the requested
/// keys; copies share the record.
class GgufKeys {
 public:
  explicit GgufKeys(const GgufFile& file)
      : file_(file), prefix_(std::string(file.text("general.architecture")) + '.') {}

  const GgufFile& file() const { return file_; }
  /// Returns the full name of a key and records the key as requested.
  std::string key(std::string_view name) const { return *asked_->insert(prefix_ + std::string(name)).first; }
  /// Keys under the prefix that were not requested.
  std::vector<std::string> unread() const;
  bool has(std::string_view name) const { return file_.has(key(name)); }
  int64_t integer(std::string_view name, Range<int64_t> range, std::optional<int64_t> fallback = {}) const {
    return file_.integer(key(name), range, fallback);
  }
  double number(std::string_view name, std::optional<double> fallback = {}) const {
    return file_.number(key(name), fallback);
  }
  /// Refuses any other value of the key; an absent key means `value`.
  void expect(std::string_view name, bool value) const {
    if (file_.flag(key(name), value) != value) file_.refuse(key(name), value ? "true" : "false");
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
  std::shared_ptr<std::set<std::string>> asked_ = std::make_shared<std::set<std::string>>();
};

/// Number of rows of a matrix, which the file must hold.
int64_t gguf_rows(const GgufFile& file, std::string_view tensor);

/// The sizes as a config.json of this architecture, under the names of the transformers library.
///   slides          whether the caller reads "attention.sliding_window"; otherwise the window must cover the
///                   context
///   has_layer_norm  whether norms are LayerNorms; their epsilon has another key and becomes "norm_eps"
nlohmann::json gguf_sizes(const GgufKeys& keys, std::string_view architecture, bool slides = false,
                          bool has_layer_norm = false);
/// Same with "intermediate_size", without sliding windows.
nlohmann::json gguf_dense_config(const GgufKeys& keys, std::string_view architecture,
                                 bool has_layer_norm = false);

/// llama.cpp's names of a layer's tensors, such as blk.N.attn_q.
LayerTensorNames gguf_layer(int64_t layer);

}  // namespace lacuna
