// Accuracy of a model on a task, and its cost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/threads.h"
#include "engine/guide.h"
#include "engine/result.h"
#include "eval/interval.h"
#include "eval/perplexity.h"
#include "options/options.h"
#include "tasks/tasks.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

struct EvaluationSettings {
  std::string task = "arithmetic";
  TaskOptions task_options;
  int32_t samples = 100;
  int32_t batch = 8;  ///< samples that share each forward pass
  /// The seed (default 0) chooses the samples, and sample i is decoded with seed + i. An empty gen_length
  /// stands for Task::room().
  GenerationOptions generation;
};

struct SampleRecord {
  Sample sample;
  GenerationResult result;
  bool correct = false;
};

/// Rows that the passes of one step number computed for all samples with that step, and the number of rows
/// without any cache or lock.
struct StepRows {
  int64_t rows = 0;
  int64_t uncached = 0;
};

struct Evaluation {
  EvaluationSettings settings;  ///< with the actual seed and length
  std::vector<SampleRecord> records;
  int64_t forward_passes = 0;          ///< of the model; each serves a whole batch
  double seconds = 0;                  ///< of all passes
  double processor_seconds = 0;        ///< CPU time of all passes, summed over this process's threads
  std::vector<StepRows> step_rows;     ///< by a sample's number of main-model passes, from its first
  std::optional<Judgement> judgement;  ///< of the answers; set with EvaluatedModel::judge

  int32_t num_correct() const;
  double accuracy() const;
  Interval accuracy_interval() const;  ///< 95%
  double mean_steps() const;
  double mean_passes() const;         ///< passes per sample, including a guide's
  double tokens_per_forward() const;  ///< answer tokens per such pass
  StepCost total_cost() const;
  StepCost total_baseline() const;          ///< cost of the family's uncached baseline
  StepCost total_uncached() const;          ///< cost of the same passes without any cache or lock
  double tokens_per_second() const;         ///< answer tokens
  double canvas_tokens_per_second() const;  ///< all generated tokens
  uint64_t fingerprint() const;             ///< hash of all answers' texts, in order
};

/// A model with its tokenizer, chat template, guide and judge.
struct EvaluatedModel {
  std::shared_ptr<const BackendModel> model;
  const Tokenizer& tokenizer;
  ChatTemplate chat_template;  ///< kNone: prompts are used as they are
  const Guide* guide = nullptr;
  std::shared_ptr<const BackendModel> guide_model = nullptr;  ///< with `guide`
  const Guide* judge = nullptr;                               ///< scores the answers at the end
  std::shared_ptr<const BackendModel> judge_model = nullptr;  ///< with `judge`
};

/// `generation` with a length: Task::room() if none is set.
GenerationOptions with_length(GenerationOptions generation, const Task& task,
                              const TaskOptions& task_options = {});

/// A question to a model, and the expected answer.
struct Question {
  Sample sample;
  std::vector<Message> messages;  ///< messages of the prompt; for a task: sample.prompt alone
};

/// A sample's conversation: its history, then its prompt as the last user turn.
std::vector<Message> messages_of(const Sample& sample);

/// The decoder that answers a sample.
std::unique_ptr<Decoder> make_sample_decoder(const EvaluatedModel& model, const GenerationOptions& generation,
                                             const Sample& sample, uint64_t seed);

/// Called after each forward pass.
using EvaluationProgress = std::function<void(int32_t samples_done)>;

/// Generates the first settings.samples samples of the test split, answers and checks them. Throws InputError
/// for an unknown task, task options that it refuses, or settings that make_decoder() refuses.
Evaluation evaluate(const EvaluatedModel& model, const EvaluationSettings& settings,
                    const EvaluationProgress& progress = {});

/// Whether `text` is a correct answer.
using Checker = std::function<bool(const Sample& sample, std::string_view text)>;

/// Evaluates the given questions instead. `settings` must have an answer length; settings.samples and
/// task_options are only recorded.
Evaluation evaluate(const EvaluatedModel& model, const EvaluationSettings& settings,
                    std::vector<Question> questions, const Checker& check,
                    const EvaluationProgress& progress = {});

/// The options that are set, under the names of their flags.
nlohmann::ordered_json given_options(const GenerationOptions& options);

/// Adds the options that are set, under the names of their flags.
void add_options(const TaskOptions& options, nlohmann::ordered_json& json);

/// One object: the totals, and the settings that were given.
nlohmann::ordered_json to_json(const Evaluation& evaluation);
nlohmann::ordered_json to_json(const SampleRecord& record);

}  // namespace lacuna
