// Published benchmarks of multiple-choice questions. Each is a row of data (its file's keys, its prompts),
// and all share one reader, one way to fill prompts and one to find the chosen option.
//
// Two ways to choose. By likelihood: the option that the model finds most likely after the question, with the
// prompts of lm-evaluation-harness, as LLaDA (Nie et al. 2025) and Dream (Ye et al. 2025) report their base
// models. By generation: the model explains and names an option, with the prompts of FlashDLM (Hu et al.
// 2025, arXiv 2505.21467, appendix C.5) and, for MMLU-Pro, those of its authors, which FlashDLM and LLaDA
// use.
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

inline constexpr size_t kMaxItemOptions = 16;                 ///< of a question; MMLU-Pro has up to 10
inline constexpr size_t kMaxQuestionBytes = size_t{1} << 20;  ///< of a question with its options

struct ChoiceItem {
  std::string subject;  ///< MMLU-Pro's category; elsewhere empty
  std::string question;
  std::vector<std::string> options;  ///< 2 to kMaxItemOptions
  size_t answer = 0;                 ///< the right option
  std::string worked;                ///< MMLU-Pro: the explanation of a solved question; may be empty
};

/// How a question is asked. Placeholders of `item`: {question}, {options} (one line each: name, separator,
/// text), {names} ("A1, A2, or A3"), {count} ("three"). {subject} stands in `description`.
struct ChoicePrompt {
  std::string_view description;  ///< before all solved questions and the one to answer
  std::string_view item;
  std::string_view name;       ///< of an option: "#" is its number from 1, "@" its letter
  std::string_view separator;  ///< between name and text
  std::string_view lead = {};  ///< how the model's answer begins
};

struct ChoiceBenchmark {
  std::string_view name;  ///< of --task
  /// Reads a line. `order` shuffles options where the file has no order of its own.
  ChoiceItem (*read)(const nlohmann::json& line, const JsonObject& object, RngStream order);
  std::optional<ChoicePrompt> likelihood;  ///< empty: generation alone
  bool scores_names = false;               ///< likelihood of "(A)" instead of the option's text
  ChoicePrompt generation;
  int32_t gen_length = 256;       ///< where --gen-length is not given
  bool generation_shots = false;  ///< solved questions have explanations, which generation can show
};

/// All, in alphabetical order.
std::span<const ChoiceBenchmark> choice_benchmarks();
/// Null for another name.
const ChoiceBenchmark* find_choice_benchmark(std::string_view name);

/// The questions of a file of JSON lines, plain or gzip. Throws InputError that names file, line and key.
///   seed  of the order of GPQA's options
std::vector<ChoiceItem> read_choices(const ChoiceBenchmark& benchmark, const std::string& path,
                                     uint64_t seed);

/// The option's name in a prompt: "Answer2", "(B)".
std::string option_name(const ChoicePrompt& prompt, size_t option);

/// The prompt of `item`, after solved questions: description, each solved question with its answer, the
/// question. Solved questions of another subject are left out, and all but the first `shots` of the rest.
/// Throws InputError where fewer are left.
struct Shots {
  std::span<const ChoiceItem> solved = {};
  size_t count = 0;
  std::string source = {};  ///< their file, for messages
};
std::string likelihood_prompt(const ChoiceBenchmark& benchmark, const Shots& shots, const ChoiceItem& item);
std::string generation_prompt(const ChoiceBenchmark& benchmark, const Shots& shots, const ChoiceItem& item);

/// The text that is scored after likelihood_prompt() and a space.
std::string scored_text(const ChoiceBenchmark& benchmark, const ChoiceItem& item, size_t option);

/// The option that a generated text chooses; empty where it names none.
///   Letters (MMLU-Pro's own rules): the first "answer is (X)", else the last "answer: X", else the last
///   letter of an option that stands alone. Other names: after the last "final answer is", an option's name
///   or, alone, its text.
std::optional<size_t> chosen_option(const ChoiceBenchmark& benchmark, const ChoiceItem& item,
                                    std::string_view text);

}  // namespace lacuna
