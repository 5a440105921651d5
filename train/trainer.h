// The training loop: AdamW with warm-up and a cosine schedule, gradient clipping, a moving average of the
// weights, checkpoints and a log.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "train/adamw.h"
#include "train/checkpoint.h"
#include "train/data.h"
#include "train/evaluate.h"
#include "train/event_file.h"
#include "train/model.h"
#include "train/trajectory.h"

namespace lacuna::train {

struct TrainOptions {
  // The run ends at whichever limit comes first; 0: no limit, but one must be given. The learning rate
  // follows the limit of which the larger share is used up.
  double minutes = 0;  ///< training time of all runs, without evaluation
  int64_t steps = 0;
  double peak_rate = 2e-3;  ///< learning rate after warm-up; falls to a hundredth of it
  int64_t warmup_steps = 150;
  double weight_decay = 0.01;  ///< of matrices; embeddings and norms have none
  double clip_norm = 1.0;
  double average_decay = 0.998;  ///< of the moving average, per step
  int accumulate = 1;            ///< batches of one step: their gradients are averaged
  int threads = 1;  ///< each computes gradients of its part of the rows; the count changes rounding of sums
  bool bf16_products = false;                        ///< matmuls in bf16, the rest and the weights in f32
  double evaluate_minutes = 4;                       ///< between evaluations and checkpoints
  int64_t evaluate_samples = 100;                    ///< per task
  std::vector<int64_t> slot_sizes = {4, 8, 16, 32};  ///< of the objective kSlots; each row samples one
  double half_written_share = 0;                     ///< for sample_slot_plans()
  double copies_share = 0;                           ///< for masked_examples()
  // Members of ObjectiveOptions:
  bool is_paper = false;
  double lambda = 1;
  double cart_p = 0.1;
  double confidence_weight = 0;
  double clean_weight = 0.2;
  // Members for a teacher's trajectories:
  int64_t trajectory_block = 32;  ///< tokens of a block, for masked diffusion
  int64_t trajectory_uses = 8;  ///< number of batches that learn one trajectory, each a different state of it
  uint64_t seed = 1;
};

/// The learning rate as a share of its peak. `done` is the finished share of the run, in [0, 1].
double schedule(int64_t step, int64_t warmup_steps, double done);

/// Accuracy on the first `samples` of the task's test split; prints some mistakes on standard error. The
/// canvas has at least the task's room.
double measure_accuracy(Transformer& model, const Task& task, int64_t samples, int64_t canvas,
                        const Vocabulary& vocabulary, const TaskOptions& task_options = {});

/// Options of an evaluation: the longest prompts of the training, for a task that has lengths.
TaskOptions evaluation_options(const Task& task, const DataOptions& data);

class Trainer {
 public:
  /// Trains `model` in place, starting from its weights; `folder` gets checkpoint.pt and log.csv.
  /// `vocabulary` must outlive the trainer.
  Trainer(Transformer model, BatchSource source, const Vocabulary& vocabulary, TrainOptions options,
          std::filesystem::path folder);

  /// Distills a teacher: its answers and trajectories replace the answers of the data. Call before the first
  /// step. The teacher has the same vocabulary and device. Throws InputError without has_trajectories().
  void learn_from(Transformer teacher);

  /// Continues from checkpoint.pt of the folder. Throws InputError if it is missing or does not match.
  void resume();

  /// Estimates the memory of the largest of the next steps, in bytes.
  double needed_bytes();

  /// One optimizer step; returns the loss.
  double step();

  /// Loss of `averaged`, the model with averaged weights, on the held-out rows, in f32. Masks are the same in
  /// every call. NaN without held-out rows.
  double held_out_loss(Transformer& averaged);

  /// Trains until the limit; logs, evaluates, saves and plots. Ends with a checkpoint.
  void run();

  /// Makes run() end with a checkpoint after the current step. A signal handler may call it.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  void save() const;

  const Progress& progress() const { return progress_; }

  /// A copy of the model with the averaged weights.
  Transformer averaged_model() const;

  /// The model in training.
  const Transformer& model() const { return model_; }

 private:
  /// Loss and gradients of a part of a step.
  struct Gradients {
    double loss = 0;
    std::vector<torch::Tensor> values;  // one per trainable parameter
  };
  Examples make_step(const Batch& batch, uint64_t number) const;
  /// The examples of a teacher's trajectory.
  Examples make_distillation(uint64_t number);
  Gradients differentiate(const Examples& examples);
  /// Adds the gradients of a batch to those of the step; returns the loss.
  double add_gradients(uint64_t number);
  double done() const;
  /// A line on standard error, in the log and in the event file.
  void report(std::ofstream& log, EventFile& events, double loss, double speed, bool evaluates);

  Transformer model_;
  Transformer teacher_ = nullptr;
  std::optional<Trajectory> trajectory_;
  uint64_t trajectory_number_ = 0;  // number of the batch that trajectory_ answers
  BatchSource source_;
  const Vocabulary* vocabulary_;
  TrainOptions options_;
  std::filesystem::path folder_;
  torch::Device device_;                // of the model
  std::vector<torch::Tensor> learned_;  // parameters of the model
  std::vector<LearnedWeight>
      weights_;  // f32 values of learned_; with bf16_products the model keeps rounded copies
  std::vector<GradientParts> gradients_;  // gradients of the step, one for each of weights_
  torch::optim::AdamW optimizer_;
  Progress progress_;
  std::atomic<bool> stopped_ = false;
  static_assert(std::atomic<bool>::is_always_lock_free);
};

}  // namespace lacuna::train
