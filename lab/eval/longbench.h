// LongBench (Bai et al. 2024, arXiv 2308.14508): questions about long texts, with its files, prompts and
// scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace lacuna {

inline constexpr size_t kMaxReferenceBytes = size_t{1} << 16;  ///< of an answer in the file
inline constexpr size_t kMaxReferences = 64;

enum class TextMetric : uint8_t { kTokenF1, kRougeL, kEditSimilarity };
std::string_view name_of(TextMetric metric);

/// A data set of LongBench; `name` is the value of "dataset" in its file.
struct LongBenchTask {
  std::string_view name;
  TextMetric metric;
  int32_t gen_length;       ///< LongBench's own limit on answers, in tokens
  bool first_line = false;  ///< only the first line of an answer counts
};

std::span<const LongBenchTask> longbench_tasks();

struct LongBenchItem {
  std::string context;
  std::string input;                 ///< question, or code before the line to complete; may be empty
  std::vector<std::string> answers;  ///< 1 to kMaxReferences; the best one counts
};

struct LongBenchFile {
  const LongBenchTask* task = nullptr;
  std::vector<LongBenchItem> items;
};

/// Reads JSON lines, plain or gzip. Throws InputError that names file, line and key, also for data sets that
/// are not in longbench_tasks(), and for lines of another data set than the first.
LongBenchFile read_longbench(const std::string& path);

/// Prompts by data set, with {context} and {input}: LongBench's config/dataset2prompt.json. Throws InputError
/// naming file and key.
std::map<std::string, std::string, std::less<>> read_longbench_templates(const std::string& path);

/// Fills a prompt template; an empty `form` stands for context, empty line, input.
std::string longbench_prompt(std::string_view form, const LongBenchItem& item);

/// Truncates a prompt as LongBench does: beyond `most` tokens, keeps the first and last most / 2.
std::string without_middle(const Tokenizer& tokenizer, std::string text, size_t most);

/// The best score over the references, in [0, 1].
double longbench_score(const LongBenchTask& task, const LongBenchItem& item, std::string_view answer);

}  // namespace lacuna
