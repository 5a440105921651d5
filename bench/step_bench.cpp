#include "bench/step_bench.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/budget.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "bench/timing.h"
#include "constraint/feasible.h"
#include "constraint/witness.h"
#include "decode/constrained.h"
#include "model/cost.h"
#include "model/plan.h"

namespace lacuna {
namespace {

/// Makes a plan of random tokens: rows of one token would all choose the same experts.
StepPlan step_plan(const ModelConfig& config, int32_t canvas, int32_t rows) {
  const RngStream tokens(0);
  StepPlan plan;
  plan.rules.emplace_back();
  for (int32_t row = 0; row < rows; ++row) {
    const auto position = static_cast<int32_t>(static_cast<int64_t>(row) * canvas / rows);
    const auto vocab = static_cast<uint32_t>(config.vocab_size);
    plan.add_row(static_cast<TokenId>(tokens.below(static_cast<uint64_t>(position), vocab)), position,
                 position);
    LogitRow logit;
    logit.row = row;
    plan.logits.push_back(logit);
  }
  plan.groups.push_back({0, {0, rows}, {{0, canvas}}, OwnRows::kNone});
  return plan;
}

struct ConstraintTiming {
  double class_seconds = 0, witness_seconds = 0;
  int64_t witness_steps = 0;  // of a Budget
};

/// Times the work after a pass with samples that a constraint rejects: reading its rows by token classes, and
/// finding a witness.
ConstraintTiming time_constraint(PassTicket& pass, const StepPlan& plan, const TokenAutomaton& automaton) {
  const TokenClasses classes = classes_of(automaton);
  std::vector<ClassRow> rows;
  for (const LogitRow& logit : plan.logits) rows.push_back({logit, &classes, true});
  const Stopwatch class_clock;
  const FollowUpResult read = pass.follow_up({.classes = rows});
  const double class_seconds = class_clock.seconds();

  const Stopwatch witness_clock;
  const auto num_classes = static_cast<size_t>(automaton.num_classes());
  std::vector<RowScores> scores;
  for (size_t i = 0; i < rows.size(); ++i)
    scores.emplace_back(read.classes.subspan(i * (num_classes + 1), num_classes + 1), num_classes, 0);
  std::vector<ClassScores> views;
  views.reserve(scores.size());
  for (const RowScores& row : scores) views.push_back(row.view());
  const std::vector<TokenId> open(rows.size(), -1);
  const Budget counted("constraint", {});
  best_witness(FeasibleSets(automaton, {.tokens = open}), views);
  return {class_seconds, witness_clock.seconds(), counted.steps_spent()};
}

/// Median over passes of a value of their times.
template <typename Get>
double median_of(const StepTiming& timing, Get&& get) {
  std::vector<double> values;
  for (size_t i = 0; i < timing.seconds.size(); ++i)
    values.push_back(get(timing.seconds[i], timing.times[i]));
  return median(std::move(values));
}

}  // namespace

TokenTable synthetic_tokens(const ModelConfig& config) {
  constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkqjxzETAOINSHRDLU0123456789";
  constexpr std::string_view kMarks = "\"{}[]:, .-_'";
  const RngStream random(0);
  TokenTable table;
  const auto pick = [&](int64_t id, uint64_t place, std::string_view from) {
    const uint64_t index = static_cast<uint64_t>(id) * 16 + place;
    return from[random.below(index, static_cast<uint32_t>(from.size()))];
  };
  for (int64_t id = 0; id < config.vocab_size; ++id) {
    std::string text;
    if (id < 256) {
      text = static_cast<char>(id);
    } else {
      const uint32_t length = 2 + random.below(static_cast<uint64_t>(id) * 16, 7);
      for (uint32_t i = 0; i < length; ++i) text += pick(id, i + 1, kLetters);
      if (id % 8 == 0) text.front() = pick(id, 10, kMarks);
      if (id % 16 == 0) text.back() = pick(id, 11, kMarks);
    }
    table.bytes.push_back(std::move(text));
  }
  table.end_ids = config.end_ids;
  if (table.end_ids.empty()) table.end_ids.push_back(static_cast<TokenId>(config.vocab_size - 1));
  for (const TokenId end : table.end_ids) table.bytes[static_cast<size_t>(end)].clear();
  if (config.mask_id >= 0) table.excluded.push_back(static_cast<TokenId>(config.mask_id));
  return table;
}

double StepTiming::median_seconds() const {
  return median(seconds);
}

double StepTiming::least_seconds(const Roofline& limits) const {
  return limits.seconds(cost.layer_flops, cost.bytes - head_bytes) +
         limits.seconds(cost.head_flops, head_bytes);
}

double StepTiming::flops_per_step() const {
  const double steps_per_second = static_cast<double>(witness_steps) / median(witness_seconds);
  return cost.flops() / median_seconds() / steps_per_second;
}

double StepTiming::other_share() const {
  return median_of(*this, [](double total, const PassTimes& pass) {
    return (total - pass.products() - pass.attention - pass.head) / total;
  });
}

std::vector<StepTiming> bench_steps(const BackendModel& model, const StepBenchOptions& options) {
  const ModelConfig& config = model.config();
  const int32_t canvas = options.canvas;
  if (canvas > config.max_positions) {
    throw InputError("--canvas is {}; the model has {} positions", canvas, config.max_positions);
  }
  std::vector<int32_t> row_counts = options.rows;
  if (row_counts.empty()) {
    for (int32_t part = 1; part <= 8; part *= 2) row_counts.push_back(std::max(canvas / part, 1));
  }
  std::vector<StepPlan> plans;
  std::vector<StepTiming> timings;
  for (const int32_t rows : row_counts) {
    if (rows < 1 || rows > canvas) {
      throw InputError("--rows holds {}; expected 1 to {}, the cells of --canvas", rows, canvas);
    }
    plans.push_back(step_plan(config, canvas, rows));
    StepTiming& timing = timings.emplace_back();
    timing.rows = rows;
    const ModelBytes bytes = model.bytes_of_passes();
    timing.cost = cost(config, bytes, work_of(plans.back()));
    timing.head_bytes = bytes.head;
  }

  const std::unique_ptr<KvPool> pool = model.make_pool();
  const std::unique_ptr<KvSequence> sequence = pool->make_sequence({canvas});
  KvSequence* sequences[] = {sequence.get()};
  PassTimes times;
  std::unique_ptr<PassTicket> ticket;
  const auto run = [&](const StepPlan& plan) {
    const Stopwatch clock;
    ticket = model.submit(plan, sequences);
    ticket->wait();
    times = ticket->times();
    return clock.seconds();
  };
  run(step_plan(config, canvas, canvas));
  for (const StepPlan& plan : plans) run(plan);
  for (int32_t i = 0; i < options.repeat; ++i) {
    for (size_t j = 0; j < plans.size(); ++j) {
      if (options.peaks != nullptr) timings[j].peaks.push_back(options.peaks->measure());
      timings[j].seconds.push_back(run(plans[j]));
      timings[j].times.push_back(times);
      if (!options.constraint) continue;
      const ConstraintTiming constraint = time_constraint(*ticket, plans[j], *options.constraint);
      timings[j].class_seconds.push_back(constraint.class_seconds);
      timings[j].witness_seconds.push_back(constraint.witness_seconds);
      timings[j].witness_steps = constraint.witness_steps;
    }
  }
  return timings;
}

nlohmann::ordered_json to_json(const std::vector<StepTiming>& timings) {
  double fastest = 0;
  for (const StepTiming& timing : timings) {
    fastest = std::max(fastest, timing.cost.flops() / timing.median_seconds());
  }
  const auto most_rows = std::max_element(timings.begin(), timings.end(),
                                          [](const auto& a, const auto& b) { return a.rows < b.rows; });
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const StepTiming& timing : timings) {
    const double seconds = timing.median_seconds();
    const auto [shortest, longest] = std::minmax_element(timing.seconds.begin(), timing.seconds.end());
    const auto part = [&](auto member) {
      return median_of(timing, [&](double, const PassTimes& pass) { return std::invoke(member, pass); });
    };
    json.push_back({{"rows", timing.rows},
                    {"seconds_median", seconds},
                    {"seconds_min", *shortest},
                    {"seconds_max", *longest},
                    {"products", part(&PassTimes::products)},
                    {"attention", part(&PassTimes::attention)},
                    {"head", part(&PassTimes::head)},
                    {"draws", part(&PassTimes::draws)},
                    {"other", part(&PassTimes::other)},
                    {"other_share", timing.other_share()},
                    {"rows_per_second", timing.rows / seconds},
                    {"gflops", timing.cost.flops() / seconds / 1e9},
                    {"share_of_fastest", timing.cost.flops() / seconds / fastest},
                    {"flops_ratio", timing.cost.flops() / most_rows->cost.flops()},
                    {"time_ratio", seconds / most_rows->median_seconds()},
                    {"bytes", timing.cost.bytes}});
    if (!timing.peaks.empty()) {
      std::vector<double> flops, bandwidth, least_seconds;
      for (const Roofline& peaks : timing.peaks) {
        flops.push_back(peaks.flops);
        bandwidth.push_back(peaks.bandwidth);
        least_seconds.push_back(timing.least_seconds(peaks));
      }
      json.back()["peak_gflops"] = median(flops) / 1e9;
      json.back()["read_gbps"] = median(bandwidth) / 1e9;
      json.back()["least_seconds"] = median(least_seconds);
      json.back()["share_of_peak"] = median_ratio(least_seconds, timing.seconds);
    }
    if (timing.class_seconds.empty()) continue;
    const double constraint = median(timing.class_seconds) + median(timing.witness_seconds);
    json.back()["constraint"] = {{"classes", median(timing.class_seconds)},
                                 {"witness", median(timing.witness_seconds)},
                                 {"steps", timing.witness_steps},
                                 {"flops_per_step", timing.flops_per_step()},
                                 {"share", constraint / seconds}};
  }
  return json;
}

}  // namespace lacuna
