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

/// One of the two. Without a guide its model's guide fields are null.
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

  Proportion same_tokens;  ///< of all generated positions
  Proportion same_texts;   ///< of all samples
  int64_t only_a_correct = 0;
  int64_t only_b_correct = 0;
  /// KL(a || b), nats, of the posteriors from which each position was committed, without guidance; over the
  /// positions that both settings committed from a posterior of their own.
  int64_t kl_positions = 0;
  double kl_mean = 0;
  double kl_max = 0;

  Proportion accuracy(const Side& side) const;
  /// 95% interval of seconds of b / seconds of a, over the batches; nothing where there are fewer than 3.
  std::optional<Interval> time_ratio() const;
  /// Whether the times tell that one of them is faster. Two settings that compute the same rows, FLOPs and
  /// bytes need an interval to differ.
  bool has_speed_difference() const;
};

/// Runs both settings over the same samples, in turn, batch by batch: a change of the machine's speed meets
/// both.
Comparison compare(const ComparedSetting& a, const ComparedSetting& b, const ComparisonSettings& settings,
                   const EvaluationProgress& progress = {});

nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace lacuna
