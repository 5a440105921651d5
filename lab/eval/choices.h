// Published benchmarks of multiple-choice questions. Each is one ChoiceBenchmark (keys of its file, prompts);
// all share the code that reads files, fills prompts and extracts the chosen option.
//
// An option is chosen in one of two ways. By likelihood: the most likely option after the question, with the
// prompts of lm-evaluation-harness, like LLaDA (Nie et al. 2025) and Dream (Ye et al. 2025) for base models.
// By generation: the model explains and names an option, with the prompts of FlashDLM (Hu et al. 2025, arXiv
// 2505.21467, appendix C.5) and, for MMLU-Pro, those of its authors, which FlashDLM and LLaDA use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/rng.h"

namespace lacuna {

inline constexpr size_t kMaxItemOptions = 16;                 ///< per question; MMLU-Pro has up to 10
inline constexpr size_t kMaxQuestionBytes = size_t{1} << 20;  ///< of a question with its options

struct ChoiceItem {
  std::string subject;  ///< MMLU-Pro's category; elsewhere empty
  std::string question;
  std::vector<std::string> options;  ///< 2 to kMaxItemOptions
  size_t answer = 0;                 ///< index of the correct option
  std::string worked;                ///< MMLU-Pro: the explanation of a solved question; may be empty
};

/// Prompt of a question. Placeholders of `item`: {question}, {options} (one line each: name, separator,
/// text), {names} ("A1, A2, or A3"), {count} ("three"). Placeholder of `description`: {subject}.
struct ChoicePrompt {
  std::string_view description;  ///< before all solved questions and the one to answer
  std::string_view item;
  std::string_view name;       ///< name of an option: "#" is its 1-based number, "@" its letter
  std::string_view separator;  ///< between an option's name and text
  std::string_view lead = {};  ///< how the model's answer begins
};

struct ChoiceBenchmark {
  std::string_view name;  ///< value of --task
  /// Reads a line. `order` shuffles the options if the file does not define their order.
  ChoiceItem (*read)(const nlohmann::json& line, const JsonObject& object, RngStream order);
  std::optional<ChoicePrompt> likelihood;  ///< empty: generation alone
  bool scores_names = false;               ///< likelihood of "(A)" instead of the option's text
  ChoicePrompt generation;
  int32_t gen_length = 256;       ///< default of --gen-length
  bool generation_shots = false;  ///< generation supports solved questions, which have explanations
};

/// All benchmarks, in alphabetical order.
std::span<const ChoiceBenchmark> choice_benchmarks();
/// Null for an unknown name.
const ChoiceBenchmark* find_choice_benchmark(std::string_view name);

/// The questions of a file of JSON lines, plain or gzip. Throws InputError that names file, line and key.
///   seed  seed of the order of GPQA's options
std::vector<ChoiceItem> read_choices(const ChoiceBenchmark& benchmark, const std::string& path,
                                     uint64_t seed);

/// The option's name in a prompt: "Answer2", "(B)".
std::string option_name(const ChoicePrompt& prompt, size_t option);

/// Solved questions of a few-shot prompt.
struct Shots {
  std::span<const ChoiceItem> solved = {};
  size_t count = 0;
  std::string source = {};  ///< file of `solved`, for error messages
};
/// The prompt of `item`: description, the first `shots.count` solved questions of the item's subject with
/// their answers, and the question. Throws InputError if there are fewer.
std::string likelihood_prompt(const ChoiceBenchmark& benchmark, const Shots& shots, const ChoiceItem& item);
std::string generation_prompt(const ChoiceBenchmark& benchmark, const Shots& shots, const ChoiceItem& item);

/// The text that is scored after likelihood_prompt() and a space.
std::string scored_text(const ChoiceBenchmark& benchmark, const ChoiceItem& item, size_t option);

/// The option that a generated text chooses; empty if it names none.
///   Letters (MMLU-Pro's own rules): the first "answer is (X)", else the last "answer: X", else the last
///   letter of an option that stands alone. Other names: after the last "final answer is", an option's name
///   or, alone, its text.
std::optional<size_t> chosen_option(const ChoiceBenchmark& benchmark, const ChoiceItem& item,
                                    std::string_view text);

}  // namespace lacuna
