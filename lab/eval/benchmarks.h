// Published benchmarks: readers of their files, prompts, and extraction of answers.
//
// Files are JSON lines, optionally compressed with gzip. Readers throw InputError that names file, line and
// key, also for files beyond kMaxBenchmarkBytes or kMaxBenchmarkItems.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lacuna {

inline constexpr size_t kMaxBenchmarkBytes = size_t{256} << 20;  ///< uncompressed
inline constexpr size_t kMaxBenchmarkItems = 1'000'000;

/// The bytes of a file, decompressed if it is gzip.
std::string read_plain_or_gzip(const std::string& path);

/// Called in order for each line that is not empty: `line` is the parsed object, `object` reads its keys.
using JsonLineReader = std::function<void(const nlohmann::json& line, const JsonObject& object)>;
void read_json_lines(const std::string& path, const JsonLineReader& read);

/// GSM8K (Cobbe et al. 2021, arXiv 2110.14168): grade-school problems whose answers are numbers.
struct WordProblem {
  std::string question;
  std::string solution;  ///< worked, ending "#### 18"
  std::string number;    ///< "18": normalized_number() of the text after ####
};
std::vector<WordProblem> read_gsm8k(const std::string& path);

/// The prompt of lm-evaluation-harness (task gsm8k), with which LLaDA, Dream and Fast-dLLM report: solved
/// problems and the one to solve, as "Question: ...\nAnswer:".
std::string gsm8k_prompt(const std::vector<WordProblem>& solved, std::string_view question);

/// The prompt of FlashDLM (Hu et al. 2025, appendix C.5), as turns. Each solved problem is a user turn and an
/// assistant turn, with "The final answer is 18" instead of "#### 18"; the last turn is the question.
std::vector<std::string> gsm8k_flashdlm_turns(const std::vector<WordProblem>& solved,
                                              std::string_view question);

/// The number of an answer to gsm8k_flashdlm_turns(): the first after the last "final answer is", or the
/// last.
std::optional<std::string> flashdlm_number(std::string_view answer);

/// Strings at which the harness cuts an answer.
const std::vector<std::string>& gsm8k_stops();

/// HumanEval (Chen et al. 2021, arXiv 2107.03374): Python functions to be completed.
struct CodeProblem {
  std::string task_id;
  std::string prompt;  ///< imports, signature and docstring
  std::string entry_point;
  std::string test;  ///< defines check(candidate)
};
std::vector<CodeProblem> read_humaneval(const std::string& path);

/// Request for a chat model; for a base model, the prompt is CodeProblem::prompt.
std::string humaneval_request(const CodeProblem& problem);

/// Completion of the prompt. For a base model: the text before the next top-level statement (the stops of
/// lm-evaluation-harness). For a chat model (`is_chat`): the first fenced block or, without one, the whole
/// answer, on a line of its own if it defines the function again.
std::string humaneval_completion(const CodeProblem& problem, std::string_view text, bool is_chat);

/// Program that runs the test: prompt, completion, test, and a call of the test.
std::string humaneval_program(const CodeProblem& problem, std::string_view completion);

/// MBPP (Austin et al. 2021, arXiv 2108.07732), whole or sanitized: `prompt` is the request with its tests,
/// in the paper's wording, and `test` the assertions. No entry point.
std::vector<CodeProblem> read_mbpp(const std::string& path);

/// A base model's prompt: the request, and the paper's mark for the start of the answer.
std::string mbpp_prompt(const CodeProblem& problem);

/// The solution: a base model's text up to "[DONE]"; a chat model's first fenced block or, without one, whole
/// answer.
std::string mbpp_completion(std::string_view text, bool is_chat);

/// Program that runs the tests: completion and tests.
std::string mbpp_program(const CodeProblem& problem, std::string_view completion);

/// MT-bench (Zheng et al. 2023, arXiv 2306.05685): open questions in two turns.
struct ChatQuestion {
  int64_t id = 0;
  std::string category;
  std::vector<std::string> turns;  ///< one or more
};
std::vector<ChatQuestion> read_mt_bench(const std::string& path);

}  // namespace lacuna
