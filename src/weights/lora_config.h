// PEFT's adapter_config.json: the modules that an adapter changes, and the rank and scaling of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/name_pattern.h"

namespace lacuna {

/// Module names that match the end of a path, or one regular expression for the whole path.
struct LoraTargets {
  std::vector<std::string> names;
  std::optional<NamePattern> pattern;
  std::string text;  ///< source of `pattern`
};

/// A rank or alpha for the modules that match a key of "rank_pattern" or "alpha_pattern".
struct LoraPatternValue {
  std::string key;
  NamePattern pattern;  ///< matches the whole name
  double value;
};

class LoraConfig {
 public:
  /// Throws InputError naming file, key, value and what is accepted. Unknown keys are refused unless their
  /// value switches nothing on.
  static LoraConfig read(const std::filesystem::path& file);
  /// Same from the file's text.
  static LoraConfig parse(std::string_view text, const std::string& file);

  /// The value of the first key of "rank_pattern" that matches the module, else "r".
  int64_t rank_of(const std::string& module) const;
  /// lora_alpha / r, or lora_alpha / sqrt(r) with "use_rslora"; "alpha_pattern" may override lora_alpha.
  float scaling_of(const std::string& module) const;
  /// Throws InputError naming the tensor if PEFT would not load it because "target_modules",
  /// "exclude_modules" or "layers_to_transform" exclude the module.
  void expect_targeted(const std::string& module, std::string_view tensor) const;

  bool use_dora = false;
  bool keeps_tied = false;  ///< "ensure_weight_tying"

 private:
  bool fits(const LoraTargets& targets, const std::string& module) const;
  bool matches(const NamePattern& pattern, const std::string& text, const std::string& module) const;
  const LoraPatternValue* find(const std::vector<LoraPatternValue>& patterns,
                               const std::string& module) const;
  std::optional<int64_t> layer_of(const std::string& module) const;

  std::string file_;
  int64_t rank_ = 8;
  double alpha_ = 8;
  bool use_rslora_ = false;
  std::vector<LoraPatternValue> ranks_, alphas_;  // in the file's order; the first match applies
  std::optional<LoraTargets> targets_;            // empty: all
  std::optional<LoraTargets> excluded_;           // empty: none
  std::vector<int64_t> layers_;                   // empty: all
  std::vector<std::string> layer_lists_;
};

}  // namespace lacuna
