#include "eval/compare.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.h"
#include "engine/engine.h"

namespace lacuna {
namespace {

/// Result of one setting for one sample.
struct Run {
  SampleRecord record;
  std::map<int32_t, std::vector<float>> outputs;  // by position: hidden row from which it was committed
};

/// Runs some samples of the task in one batch.
std::vector<Run> run_batch(const ComparedSetting& setting, const ComparisonSettings& settings, int32_t first,
                           int32_t count, Comparison::Side& side) {
  const Task& task = find_task(settings.task);
  std::vector<Run> runs(static_cast<size_t>(count));
  Engine engine(setting.model.model, count, setting.model.guide_model);
  // A causal model has no output at a position when its token is committed.
  if (!setting.model.model->config().causal) engine.remember_outputs();
  for (size_t i = 0; i < runs.size(); ++i) {
    const uint64_t index = static_cast<uint64_t>(first) + i;
    runs[i].record.sample = task.generate(Split::kTest, settings.seed, index, settings.task_options);
    engine.add(make_sample_decoder(setting.model,
                                   with_length(setting.generation, task, settings.task_options),
                                   runs[i].record.sample, settings.seed + index));
  }
  const int64_t hidden_dim = setting.model.model->config().hidden_dim;
  const bool shifted = setting.model.model->config().shifted_logits;
  const Stopwatch clock;
  double copying = 0;
  while (engine.step([&](const StepEvent& event) {
    const Stopwatch copy;
    for (const Commit& commit : event.report.committed) {
      if (!event.sequence->shape().remembers_outputs) continue;
      const int32_t cells[] = {shifted ? std::max(commit.position - 1, 0) : commit.position};
      std::vector<float>& output = runs[event.request].outputs[commit.position];
      output.resize(static_cast<size_t>(hidden_dim));
      event.sequence->read_outputs(cells, {output.data(), 1, hidden_dim});
    }
    copying += copy.seconds();
  })) {
    ++side.forward_passes;
  }
  side.batch_seconds.push_back(clock.seconds() - copying);
  side.seconds += side.batch_seconds.back();
  for (size_t i = 0; i < runs.size(); ++i) {
    SampleRecord& record = runs[i].record;
    record.result = make_result(engine.decoder(i), engine.statistics(i), setting.model.model->config(),
                                &setting.model.tokenizer, settings.seed + static_cast<uint64_t>(first) + i,
                                setting.generation.stop);
    record.correct = task.check(record.sample, record.result.text);
    side.cost += engine.statistics(i).cost;
    side.records.push_back(record);
  }
  return runs;
}

class KlSum {
 public:
  void add(const BackendModel& model, const Run& a, const Run& b) {
    std::vector<float> now, before;
    for (const auto& [position, output] : a.outputs) {
      const auto other = b.outputs.find(position);
      if (other == b.outputs.end()) continue;
      now.insert(now.end(), output.begin(), output.end());
      before.insert(before.end(), other->second.begin(), other->second.end());
    }
    const int64_t dim = model.config().hidden_dim;
    const auto rows = static_cast<int64_t>(now.size()) / dim;
    std::vector<Drift> drifts(static_cast<size_t>(rows));
    model.compare_outputs({now.data(), rows, dim}, {before.data(), rows, dim}, drifts);
    for (const Drift& drift : drifts) {
      sum_ += drift.kl;
      max_ = std::max(max_, drift.kl);
    }
    count_ += rows;
  }
  void store(Comparison& comparison) const {
    comparison.kl_positions = count_;
    comparison.kl_mean = count_ > 0 ? sum_ / static_cast<double>(count_) : 0;
    comparison.kl_max = max_;
  }

 private:
  int64_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
};

void count_agreement(const SampleRecord& a, const SampleRecord& b, Comparison& comparison) {
  const size_t length = std::min(a.result.tokens.size(), b.result.tokens.size());
  comparison.same_tokens.trials +=
      static_cast<int64_t>(std::max(a.result.tokens.size(), b.result.tokens.size()));
  for (size_t i = 0; i < length; ++i) {
    comparison.same_tokens.successes += a.result.tokens[i] == b.result.tokens[i] ? 1 : 0;
  }
  ++comparison.same_texts.trials;
  comparison.same_texts.successes += a.result.text == b.result.text ? 1 : 0;
  comparison.only_a_correct += a.correct && !b.correct ? 1 : 0;
  comparison.only_b_correct += b.correct && !a.correct ? 1 : 0;
}

nlohmann::ordered_json to_json(const Proportion& proportion) {
  return {{"value", proportion.value()},
          {"low", proportion.interval().low},
          {"high", proportion.interval().high},
          {"of", proportion.trials}};
}

nlohmann::ordered_json to_json(const Comparison::Side& side, const Proportion& accuracy) {
  return {{"accuracy", to_json(accuracy)}, {"forward_passes", side.forward_passes},
          {"rows", side.cost.rows},        {"layer_flops", side.cost.layer_flops},
          {"flops", side.cost.flops()},    {"bytes", side.cost.bytes},
          {"seconds", side.seconds}};
}

}  // namespace

double Proportion::value() const {
  return trials > 0 ? static_cast<double>(successes) / static_cast<double>(trials) : 0;
}

Proportion Comparison::accuracy(const Side& side) const {
  const auto correct = std::count_if(side.records.begin(), side.records.end(),
                                     [](const SampleRecord& record) { return record.correct; });
  return {correct, static_cast<int64_t>(side.records.size())};
}

std::optional<Interval> Comparison::time_ratio() const {
  constexpr size_t kMinBatches = 3;
  const size_t batches = std::min(a.batch_seconds.size(), b.batch_seconds.size());
  if (batches < kMinBatches) return {};
  std::vector<RatioPart> parts;
  for (size_t i = 0; i < batches; ++i) parts.push_back({b.batch_seconds[i], a.batch_seconds[i]});
  return bootstrap_interval(parts, 0);
}

bool Comparison::has_speed_difference() const {
  if (const std::optional<Interval> ratio = time_ratio()) return ratio->high < 1 || ratio->low > 1;
  return a.cost.rows != b.cost.rows || a.cost.flops() != b.cost.flops() || a.cost.bytes != b.cost.bytes;
}

Comparison compare(const ComparedSetting& a, const ComparedSetting& b, const ComparisonSettings& settings,
                   const EvaluationProgress& progress) {
  Comparison comparison;
  KlSum kl;
  for (int32_t first = 0; first < settings.samples; first += settings.batch) {
    const int32_t count = std::min(settings.batch, settings.samples - first);
    const auto run_a = [&] { return run_batch(a, settings, first, count, comparison.a); };
    const auto run_b = [&] { return run_batch(b, settings, first, count, comparison.b); };
    // The second setting runs with warm caches, so the order alternates between batches.
    const bool b_first = first / settings.batch % 2 == 1;
    std::vector<Run> runs_b;
    if (b_first) runs_b = run_b();
    const std::vector<Run> runs_a = run_a();
    if (!b_first) runs_b = run_b();
    for (size_t i = 0; i < runs_a.size(); ++i) {
      count_agreement(runs_a[i].record, runs_b[i].record, comparison);
      kl.add(*a.model.model, runs_a[i], runs_b[i]);
    }
    if (progress) progress(first + count);
  }
  kl.store(comparison);
  return comparison;
}

nlohmann::ordered_json to_json(const Comparison& comparison) {
  const Comparison::Side& a = comparison.a;
  const Comparison::Side& b = comparison.b;
  const auto ratio = [](double x, double y) { return y > 0 ? x / y : 0; };
  const std::optional<Interval> times = comparison.time_ratio();
  nlohmann::ordered_json interval;
  if (times) interval = {times->low, times->high};
  return {{"a", to_json(a, comparison.accuracy(a))},
          {"b", to_json(b, comparison.accuracy(b))},
          {"same_tokens", to_json(comparison.same_tokens)},
          {"same_texts", to_json(comparison.same_texts)},
          {"only_a_correct", comparison.only_a_correct},
          {"only_b_correct", comparison.only_b_correct},
          {"kl_mean", comparison.kl_mean},
          {"kl_max", comparison.kl_max},
          {"kl_positions", comparison.kl_positions},
          {"b_over_a",
           {{"rows", ratio(static_cast<double>(b.cost.rows), static_cast<double>(a.cost.rows))},
            {"layer_flops", ratio(b.cost.layer_flops, a.cost.layer_flops)},
            {"flops", ratio(b.cost.flops(), a.cost.flops())},
            {"bytes", ratio(b.cost.bytes, a.cost.bytes)},
            {"seconds", ratio(b.seconds, a.seconds)},
            {"seconds_interval", std::move(interval)},
            {"differs_in_speed", comparison.has_speed_difference()}}}};
}

}  // namespace lacuna
