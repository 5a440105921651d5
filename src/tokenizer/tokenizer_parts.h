// Parts of a tokenizer.
#pragma once

#include <string>
#include <vector>

#include "base/token.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace lacuna {

inline constexpr TokenId kMaxTokenId = (1 << 20) - 1;  ///< limit for any tokenizer

/// Everything a tokenizer is made of, as any file format may state it.
struct TokenizerParts {
  std::string name;  ///< name of the file, for error messages
  BpeParts bpe;
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerRule> normalization;
  std::vector<PreTokenizerRule> pre_tokenizer;
};

}  // namespace lacuna
