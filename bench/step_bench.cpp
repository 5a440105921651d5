#include "bench/step_bench.h"

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "bench/timing.h"
#include "cache/kv_cache.h"
#include "model/cost.h"
#include "model/plan.h"

namespace lacuna {
namespace {

/// Tokens differ from row to row: rows of one token would all go to the same experts.
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

double step_flops(const ModelConfig& config, int32_t canvas, int32_t rows) {
  return rows * (flops_per_row(config) + canvas * flops_per_cell(config) + flops_per_logits(config));
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

double StepTiming::median_seconds() const {
  return median(seconds);
}

double StepTiming::other_share() const {
  return median_of(*this, [](double total, const PassTimes& pass) {
    return (total - pass.products() - pass.attention - pass.head) / total;
  });
}

std::vector<StepTiming> bench_steps(const Model& model, const KernelContext& context,
                                    const StepBenchOptions& options) {
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
    timings.push_back({rows, step_flops(config, canvas, rows), {}, {}});
  }

  KvCache cache = model.make_cache(canvas);
  KvCache* caches[] = {&cache};
  Workspace workspace;
  const auto run = [&](const StepPlan& plan) {
    const Stopwatch clock;
    model.forward(context, plan, caches, workspace);
    return clock.seconds();
  };
  run(step_plan(config, canvas, canvas));
  for (const StepPlan& plan : plans) run(plan);
  for (int32_t i = 0; i < options.repeat; ++i) {
    for (size_t j = 0; j < plans.size(); ++j) {
      timings[j].seconds.push_back(run(plans[j]));
      timings[j].times.push_back(workspace.times);
    }
  }
  return timings;
}

nlohmann::ordered_json to_json(const std::vector<StepTiming>& timings) {
  double fastest = 0;
  for (const StepTiming& timing : timings) {
    fastest = std::max(fastest, timing.flops / timing.median_seconds());
  }
  const auto most_rows = std::max_element(timings.begin(), timings.end(),
                                          [](const auto& a, const auto& b) { return a.rows < b.rows; });
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const StepTiming& timing : timings) {
    const double seconds = timing.median_seconds();
    const auto [least, most] = std::minmax_element(timing.seconds.begin(), timing.seconds.end());
    const auto part = [&](auto member) {
      return median_of(timing, [&](double, const PassTimes& pass) { return std::invoke(member, pass); });
    };
    json.push_back({{"rows", timing.rows},
                    {"seconds_median", seconds},
                    {"seconds_min", *least},
                    {"seconds_max", *most},
                    {"products", part(&PassTimes::products)},
                    {"attention", part(&PassTimes::attention)},
                    {"head", part(&PassTimes::head)},
                    {"draws", part(&PassTimes::draws)},
                    {"other", part(&PassTimes::other)},
                    {"other_share", timing.other_share()},
                    {"rows_per_second", timing.rows / seconds},
                    {"gflops", timing.flops / seconds / 1e9},
                    {"share_of_fastest", timing.flops / seconds / fastest},
                    {"flops_ratio", timing.flops / most_rows->flops},
                    {"time_ratio", seconds / most_rows->median_seconds()}});
  }
  return json;
}

}  // namespace lacuna
