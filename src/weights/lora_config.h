// adapter_config.json of PEFT: which modules an adapter changes, and how much.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/name_pattern.h"

namespace lacuna {

/// Names of modules, of which the ends count, or one expression for whole names.
struct LoraTargets {
  std::vector<std::string> names;
  std::optional<NamePattern> pattern;
  std::string text;  ///< of the pattern
};

/// A number for the modules that a key of "rank_pattern" or "alpha_pattern" fits.
struct LoraPatternValue {
  std::string key;
  NamePattern pattern;  ///< of the whole name
  double value;
};

class LoraConfig {
 public:
  /// Throws InputError naming file, key, value and what is accepted. Keys that are not known are refused
  /// unless their value switches nothing on.
  static LoraConfig read(const std::filesystem::path& file);
  /// The same from the file's text.
  static LoraConfig parse(std::string_view text, const std::string& file);

  /// "rank_pattern" where a key of it fits the module, else "r".
  int64_t rank_of(const std::string& module) const;
  /// lora_alpha / r, or lora_alpha / sqrt(r), with "alpha_pattern".
  float scaling_of(const std::string& module) const;
  /// Throws InputError naming the tensor where PEFT would not load it, because "target_modules",
  /// "exclude_modules" or "layers_to_transform" leave the module out.
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
  std::vector<LoraPatternValue> ranks_, alphas_;  // in the file's order: the first that fits counts
  std::optional<LoraTargets> targets_;            // empty: all
  std::optional<LoraTargets> excluded_;           // empty: none
  std::vector<int64_t> layers_;                   // empty: all
  std::vector<std::string> layer_lists_;
};

}  // namespace lacuna
