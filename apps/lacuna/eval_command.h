// Declarations shared by the parts of `lacuna eval`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "evaluation.h"

namespace lacuna {

struct EvalCommandFlags : EvalFlags {
  bool json = false;
  int32_t show = 0;
  std::string out;
  std::string data;
  int32_t shots = 0;
  std::string shots_data;
  std::string run_tests;  ///< a Python interpreter; empty: tests do not run
  std::string text_task = "stories";
  int32_t draws = 32;
  bool fits = false;  ///< decisions: temperatures, which the model's folder keeps
};

/// Values of --task besides the generated tasks.
inline constexpr std::string_view kPerplexityTask = "perplexity";
inline constexpr std::string_view kBenchmarkTasks[] = {"gsm8k", "humaneval", "mt-bench"};

bool is_benchmark(std::string_view task);

/// One line of JSON. Tokens may end inside a character, which JSON cannot: a sign takes the place of the
/// rest.
std::string as_line(const nlohmann::ordered_json& json);

/// Prints the sums of an evaluation.
void print_report(const Evaluation& evaluation);
void show_failures(const Evaluation& evaluation, int32_t most);

/// --task perplexity.
void eval_perplexity(const EvalCommandFlags& flags, const CLI::App& command);
/// --task decisions.
void eval_decisions(const EvalCommandFlags& flags);
/// --task gsm8k, humaneval and mt-bench.
void eval_benchmark(EvalCommandFlags flags, const CLI::App& command);

}  // namespace lacuna
