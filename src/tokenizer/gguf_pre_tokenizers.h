// How byte-level BPE splits text, by the names that llama.cpp gives the models' ways ("tokenizer.ggml.pre").
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace lacuna {

/// A way to split. Expressions are applied one after the other, each to the pieces that the one before left,
/// matches and what lies between them.
struct GgufPreTokenizer {
  std::span<const std::string_view> names;
  std::span<const std::string_view> expressions;
  bool normalizes = false;      ///< to NFC
  bool ignores_merges = false;  ///< BpeParts::ignore_merges
};

/// Null for an unknown name.
const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name);
/// All names, for messages.
std::string gguf_pre_tokenizer_names();

}  // namespace lacuna
