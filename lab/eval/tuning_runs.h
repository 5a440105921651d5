// Runs the baseline and settings of `lacuna tune` on prompts, and compares their answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/inference_session.h"
#include "eval/evaluate.h"
#include "eval/tuning_log.h"
#include "options/tuning_paths.h"
#include "tune/bounds.h"

namespace lacuna {

/// Measures of harm to an answer; each is a number in [0, 1] per prompt.
enum class TuningLoss : uint8_t { kChangedAnswer, kWrongAnswer, kToken, kKl, kJudge };

/// "changed-answer", "wrong-answer", "token", "kl" or "judge".
std::string_view name_of(TuningLoss loss);
/// Empty for an unknown name.
std::optional<TuningLoss> tuning_loss_named(std::string_view name);
LossKind kind_of(TuningLoss loss);
/// The loss of a run.
double loss_of(TuningLoss loss, const TunedRun& run);

struct TuningPrompt {
  std::vector<Message> messages;
  Sample sample = {};  ///< sample of a task, for its checker
};

/// A setting ready to run.
struct TunedSetting {
  std::string name;  ///< name in the log; empty: the baseline
  GenerationOptions options;
  bool is_guided = false;
  std::vector<TuningSetting> loading = {};  ///< formats other than the baseline's: loading_of()
};

/// The tuned model and the judge.
struct TuningModels {
  /// Loads the tuned model, and its guide if it has one, in these formats; empty: the baseline's.
  std::function<InferenceSession::Parts(std::span<const TuningSetting> loading)> load;
  /// Scores answers, for TuningLoss::kJudge; has the model's vocabulary. Must outlive the runs.
  const Guide* judge = nullptr;
  std::shared_ptr<const BackendModel> judge_model = nullptr;  ///< with `judge`
};

/// Holds one copy of the weights at a time: a setting with other formats reloads the model.
class TuningRuns {
 public:
  /// `opened`, the prompts and the log must outlive it.
  ///   check  checks answers of tasks; empty: no answer counts as correct
  ///   batch  number of prompts that share passes; does not affect results
  TuningRuns(const OpenedModel& opened, TuningModels models, std::span<const TuningPrompt> prompts,
             Checker check, int32_t batch, TuningLoss loss, TuningLog& log);

  /// A decoder for one prompt. Throws SettingError or InputError if the setting cannot be decoded.
  std::unique_ptr<Decoder> make_decoder(const TunedSetting& setting, int32_t prompt) const;

  /// Runs the baseline on prompts [first, first + count) that the log lacks.
  void run_baseline(const TunedSetting& baseline, int32_t first, int32_t count);
  /// Runs a setting on prompts [first, first + count) that the log lacks. The baseline must have run there.
  void run(const TunedSetting& setting, const TunedSetting& baseline, int32_t first, int32_t count);

  int32_t batch() const { return batch_; }
  const ModelConfig& config() const { return opened_.config(); }

 private:
  /// Final hidden rows from which positions were committed, by position.
  using Outputs = std::map<int32_t, std::vector<float>>;
  struct Answer {
    GenerationResult result;
    Outputs outputs;                 ///< only for kKl
    std::optional<double> mean_nll;  ///< only for kJudge: nats per token
    RunWork work;
  };

  /// Ensures that the model is loaded in the setting's formats.
  void load_for(const TunedSetting& setting);
  std::vector<Answer> answer(const TunedSetting& setting, std::span<const int32_t> prompts);
  /// The judge's mean negative log-likelihood of an answer, nats per token.
  double mean_nll_of(const Decoder& answered) const;
  /// The baseline's outputs, recomputed if they are not kept in memory.
  std::vector<Outputs> baseline_outputs(const TunedSetting& baseline, std::span<const int32_t> prompts);
  void keep_outputs(int32_t prompt, const Outputs& outputs);
  double divergence(const Outputs& baseline, const Outputs& tuned) const;

  const OpenedModel& opened_;
  TuningModels models_;
  InferenceSession::Parts parts_;       // null before the first run
  std::vector<TuningSetting> loading_;  // formats of the loaded model
  std::span<const TuningPrompt> prompts_;
  Checker check_;
  int32_t batch_;
  TuningLoss loss_;
  TuningLog& log_;
  std::map<int32_t, Outputs> kept_outputs_;
  size_t kept_floats_ = 0;
};

}  // namespace lacuna
