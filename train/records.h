// Training data from files of JSON lines: conversations and texts, as rows of token ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "base/token.h"
#include "train/chat_form.h"

namespace lacuna::train {

/// The rows of one file. Each line is an object:
///   {"messages": [{"role", "content", ...}], "tools": [...]}
///       each turn of the assistant is a row; its prompt is the conversation before it (LLaDA: Nie et al.
///       2025, section 2.3)
///   {"prompt", "response"} or {"query", "response"}
///       two turns; without a chat template, two texts
///   {"text"}
///       texts are joined with an end token in between and cut into rows of `row_length` tokens; the first
///       token of a row is given
/// Turns are rendered in the chat template. An answer ends with an end-of-turn or end token.
class Records {
 public:
  struct Row {
    std::span<const TokenId> prompt;  ///< given
    std::span<const TokenId> answer;  ///< learned; at least one token
  };

  /// Encodes the file line by line into the file `cache`, with progress on standard error, and maps it. A
  /// cache of the same file (by size and time), vocabulary and length is reused.
  ///   row_length  maximum tokens of prompt and answer together; longer rows are left out
  /// Throws InputError that names file and line for a line in another form, and for a file without rows.
  static Records open(const std::filesystem::path& file, const Vocabulary& vocabulary, int64_t row_length,
                      const std::filesystem::path& cache);

  uint64_t size() const { return size_; }
  Row row(uint64_t index) const;
  /// "data.jsonl: 1200 rows, 81234 tokens; left out: 3 of more than 512 tokens"
  const std::string& summary() const { return summary_; }

 private:
  explicit Records(MappedFile cache) : cache_(std::move(cache)) {}

  MappedFile cache_;
  uint64_t size_ = 0;
  std::span<const std::byte> table_;  // entries of the rows
  std::string summary_;
};

}  // namespace lacuna::train
