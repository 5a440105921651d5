// Prompts from a file, to be continued: the beginnings of records, like SureLock's prompts from WikiText-103
// (appendix F.1). Continuations have no correct answer; a judge scores them (eval/perplexity.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace lacuna {

inline constexpr int32_t kMaxContinuedTokens = 1 << 16;  ///< of a prompt

/// The records of a file, plain or gzip: "text" of each JSON line if the name contains ".jsonl", else each
/// line. Blank records are left out. Throws InputError that names file, line and key, also for files beyond
/// kMaxBenchmarkBytes or kMaxBenchmarkItems.
std::vector<std::string> read_records(const std::string& path);

/// The text of a record's first `length` tokens, without an incomplete character at its end; shorter records
/// are returned whole.
std::string beginning_of(const Tokenizer& tokenizer, const std::string& record, int32_t length);

}  // namespace lacuna
