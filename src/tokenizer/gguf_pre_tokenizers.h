// Pre-tokenizers of byte-level BPE by llama.cpp's names for them ("tokenizer.ggml.pre").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace lacuna {

/// A pre-tokenizer. Each expression in turn splits the current pieces into its matches and the gaps.
struct GgufPreTokenizer {
  std::string_view names;  ///< separated by spaces
  std::vector<std::string_view> expressions;
  bool normalizes = false;      ///< to NFC
  bool ignores_merges = false;  ///< BpeParts::ignore_merges
};

/// Null for an unknown name.
const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name);
/// All names, for messages.
std::string gguf_pre_tokenizer_names();

}  // namespace lacuna
