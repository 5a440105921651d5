// Prompts from a file, to be continued: the beginnings of records, as SureLock's paper takes them from
// WikiText-103 (appendix F.1). Continuations have no right answer; a judge reads them (eval/perplexity.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace lacuna {

inline constexpr int32_t kMaxContinuedTokens = 1 << 16;  ///< of a prompt

/// The records of a file, plain or gzip: "text" of each line of JSON where the name has ".jsonl", and
/// otherwise each line that is not blank. Blank texts are left out. Throws InputError that names file, line
/// and key, and for files beyond kMaxBenchmarkBytes or kMaxBenchmarkItems.
std::vector<std::string> read_records(const std::string& path);

/// The text of a record's first `length` tokens, without a character that is cut off at its end; shorter
/// records as they are.
std::string beginning_of(const Tokenizer& tokenizer, const std::string& record, int32_t length);

}  // namespace lacuna
