// Compares two settings on the same samples.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "eval/evaluate.h"
#include "eval/interval.h"

namespace lacuna {

/// One of the two settings. Without a guide, the guide fields of `model` are null.
struct ComparedSetting {
  EvaluatedModel model;
  GenerationOptions generation;
};

struct ComparisonSettings {
  std::string task = "arithmetic";
  TaskOptions task_options;
  int32_t samples = 100;
  int32_t batch = 8;
  uint64_t seed = 0;
};

struct Proportion {
  int64_t successes = 0;
  int64_t trials = 0;

  double value() const;  ///< 0 without trials
  Interval interval() const { return wilson_interval(successes, trials); }
};

struct Comparison {
  struct Side {
    std::vector<SampleRecord> records;
    int64_t forward_passes = 0;
    double seconds = 0;
    std::vector<double> batch_seconds = {};
    StepCost cost;
  };
  Side a, b;

  Proportion same_tokens;  ///< generated positions with equal tokens
  Proportion same_texts;   ///< samples with equal texts
  int64_t only_a_correct = 0;
  int64_t only_b_correct = 0;
  /// KL(a || b), nats, of the unguided posteriors from which positions were committed, over the positions
  /// that have such a posterior in both settings.
  int64_t kl_positions = 0;
  double kl_mean = 0;
  double kl_max = 0;

  Proportion accuracy(const Side& side) const;
  /// 95% interval over batches of (seconds of b) / (seconds of a); empty for fewer than 3 batches.
  std::optional<Interval> time_ratio() const;
  /// Whether time_ratio() excludes 1; if it is empty, whether rows, FLOPs or bytes differ.
  bool has_speed_difference() const;
};

/// Runs both settings on the same samples, interleaved by batch, so that changes of the machine's speed
/// affect both.
Comparison compare(const ComparedSetting& a, const ComparedSetting& b, const ComparisonSettings& settings,
                   const EvaluationProgress& progress = {});

nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace lacuna
