#include "eval/tuning_runs.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "eval/perplexity.h"
#include "model/fingerprint.h"
#include "options/choose.h"
#include "tune/losses.h"

namespace lacuna {
namespace {

constexpr size_t kMaxKeptFloats = size_t{1} << 28;  // 1 GiB of the baseline's outputs

struct NamedLoss {
  TuningLoss loss;
  std::string_view name;
};
constexpr NamedLoss kNamedLosses[] = {{TuningLoss::kChangedAnswer, "changed-answer"},
                                      {TuningLoss::kWrongAnswer, "wrong-answer"},
                                      {TuningLoss::kToken, "token"},
                                      {TuningLoss::kKl, "kl"},
                                      {TuningLoss::kJudge, "judge"}};

std::string hash_of(std::string_view text) {
  Fnv1a hash;
  hash.add(text);
  return hash.text();
}

std::vector<TokenId> answer_tokens(const GenerationResult& result, const ModelConfig& config) {
  const std::span<const TokenId> part = answer_part(result.tokens, config.end_ids);
  return {part.begin(), part.end()};
}

/// Prompts of [first, first + count) for which `is_missing` holds, in groups of `batch`.
template <typename IsMissing>
std::vector<std::vector<int32_t>> missing_batches(int32_t first, int32_t count, int32_t batch,
                                                  IsMissing&& is_missing) {
  std::vector<std::vector<int32_t>> batches;
  for (int32_t prompt = first; prompt < first + count; ++prompt) {
    if (!is_missing(prompt)) continue;
    if (batches.empty() || std::ssize(batches.back()) == batch) batches.emplace_back();
    batches.back().push_back(prompt);
  }
  return batches;
}

}  // namespace

std::string_view name_of(TuningLoss loss) {
  return std::find_if(std::begin(kNamedLosses), std::end(kNamedLosses),
                      [&](const NamedLoss& each) { return each.loss == loss; })
      ->name;
}

std::optional<TuningLoss> tuning_loss_named(std::string_view name) {
  for (const NamedLoss& each : kNamedLosses) {
    if (each.name == name) return each.loss;
  }
  return {};
}

LossKind kind_of(TuningLoss loss) {
  const bool is_binary = loss == TuningLoss::kChangedAnswer || loss == TuningLoss::kWrongAnswer;
  return is_binary ? LossKind::kBinary : LossKind::kBounded;
}

double loss_of(TuningLoss loss, const TunedRun& run) {
  switch (loss) {
    case TuningLoss::kChangedAnswer:
      return run.changed;
    case TuningLoss::kWrongAnswer:
      return run.wrong;
    case TuningLoss::kToken:
      return run.token;
    case TuningLoss::kKl:
      return run.kl.value_or(1);
    case TuningLoss::kJudge:
      break;
  }
  return run.judge.value_or(1);
}

TuningRuns::TuningRuns(const OpenedModel& opened, TuningModels models, std::span<const TuningPrompt> prompts,
                       Checker check, int32_t batch, TuningLoss loss, TuningLog& log)
    : opened_(opened),
      models_(std::move(models)),
      prompts_(prompts),
      check_(std::move(check)),
      batch_(batch),
      loss_(loss),
      log_(log) {
  expects(loss != TuningLoss::kJudge || models_.judge != nullptr, "tuning: the judge's loss needs one");
}

std::unique_ptr<Decoder> TuningRuns::make_decoder(const TunedSetting& setting, int32_t prompt) const {
  GenerateRequest request = request_of(opened_, setting.options, setting.is_guided);
  request.prompt = prompts_[static_cast<size_t>(prompt)].messages;
  request.seed += static_cast<uint64_t>(prompt);
  return opened_.make_decoder(request);
}

void TuningRuns::load_for(const TunedSetting& setting) {
  if (parts_.model != nullptr && loading_ == setting.loading) return;
  parts_ = {};  // memory may hold one copy of the weights
  parts_ = models_.load(setting.loading);
  loading_ = setting.loading;
}

double TuningRuns::mean_nll_of(const Decoder& answered) const {
  const auto prompt_length = static_cast<size_t>(answered.prompt_length());
  const JudgedText text = judged_text(*models_.judge, answered.canvas().first(prompt_length),
                                      answered.canvas().subspan(prompt_length), opened_.config().end_ids);
  return std::max(0.0, judge(*models_.judge_model, {&text, 1}).mean_nll());
}

std::vector<TuningRuns::Answer> TuningRuns::answer(const TunedSetting& setting,
                                                   std::span<const int32_t> prompts) {
  load_for(setting);
  const ModelConfig& config = opened_.config();
  const bool remembers = loss_ == TuningLoss::kKl;
  std::vector<Answer> answers(prompts.size());
  Engine engine(parts_.model, static_cast<int32_t>(prompts.size()), parts_.guide);
  if (remembers) engine.remember_outputs();
  for (const int32_t prompt : prompts) engine.add(make_decoder(setting, prompt));
  const auto keep = [&](const StepEvent& event) {
    if (!remembers || !event.sequence->shape().remembers_outputs) return;
    for (const Commit& commit : event.report.committed) {
      const int32_t cells[] = {config.shifted_logits ? std::max(commit.position - 1, 0) : commit.position};
      std::vector<float>& output = answers[event.request].outputs[commit.position];
      output.resize(static_cast<size_t>(config.hidden_dim));
      event.sequence->read_outputs(cells, {output.data(), 1, config.hidden_dim});
    }
  };
  const Stopwatch clock;
  engine.run(keep);
  const double seconds = clock.seconds() / static_cast<double>(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const RunStatistics& statistics = engine.statistics(i);
    answers[i].result = make_result(engine.decoder(i), statistics, config, opened_.tokenizer(),
                                    setting.options.seed.value_or(0) + static_cast<uint64_t>(prompts[i]),
                                    setting.options.stop);
    if (loss_ == TuningLoss::kJudge) answers[i].mean_nll = mean_nll_of(engine.decoder(i));
    answers[i].work = {statistics.cost.flops(), statistics.cost.bytes, statistics.cost.rows, seconds};
  }
  return answers;
}

void TuningRuns::run_baseline(const TunedSetting& baseline, int32_t first, int32_t count) {
  const bool needs_judge = loss_ == TuningLoss::kJudge;
  const auto is_missing = [&](int32_t prompt) {
    const BaselineRun* const run = log_.baseline(prompt);
    return run == nullptr || (needs_judge && !run->mean_nll);
  };
  for (const std::vector<int32_t>& batch : missing_batches(first, count, batch_, is_missing)) {
    const std::vector<Answer> answers = answer(baseline, batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      const GenerationResult& result = answers[i].result;
      const Sample& sample = prompts_[static_cast<size_t>(batch[i])].sample;
      log_.add(batch[i],
               BaselineRun{hash_of(result.text), answer_tokens(result, opened_.config()),
                           check_ && check_(sample, result.text), answers[i].work, answers[i].mean_nll});
      if (loss_ == TuningLoss::kKl) keep_outputs(batch[i], answers[i].outputs);
    }
  }
}

void TuningRuns::run(const TunedSetting& setting, const TunedSetting& baseline, int32_t first,
                     int32_t count) {
  const bool needs_kl = loss_ == TuningLoss::kKl;
  const bool needs_judge = loss_ == TuningLoss::kJudge;
  const auto is_missing = [&](int32_t prompt) {
    const TunedRun* const run = log_.tuned(setting.name, prompt);
    return run == nullptr || (needs_kl && !run->kl) || (needs_judge && !run->judge);
  };
  for (const std::vector<int32_t>& batch : missing_batches(first, count, batch_, is_missing)) {
    const std::vector<Outputs> outputs =
        needs_kl ? baseline_outputs(baseline, batch) : std::vector<Outputs>();
    const std::vector<Answer> answers = answer(setting, batch);  // last, so its output head compares both
    for (size_t i = 0; i < batch.size(); ++i) {
      const BaselineRun* const before = log_.baseline(batch[i]);
      expects(before != nullptr, "tuning: the baseline has been run on the prompt");
      const GenerationResult& result = answers[i].result;
      const Sample& sample = prompts_[static_cast<size_t>(batch[i])].sample;
      TunedRun run;
      run.changed = hash_of(result.text) != before->text_hash ? 1 : 0;
      run.wrong = before->correct && !(check_ && check_(sample, result.text)) ? 1 : 0;
      run.token = token_difference(before->tokens, answer_tokens(result, opened_.config()));
      if (needs_kl) run.kl = divergence(outputs[i], answers[i].outputs);
      if (needs_judge) run.judge = std::clamp(*answers[i].mean_nll - before->mean_nll.value_or(0), 0.0, 1.0);
      run.work = answers[i].work;
      log_.add(setting.name, batch[i], run);
    }
  }
}

std::vector<TuningRuns::Outputs> TuningRuns::baseline_outputs(const TunedSetting& baseline,
                                                              std::span<const int32_t> prompts) {
  std::vector<int32_t> missing;
  for (const int32_t prompt : prompts) {
    if (!kept_outputs_.contains(prompt)) missing.push_back(prompt);
  }
  std::map<int32_t, Outputs> computed;
  if (!missing.empty()) {
    std::vector<Answer> answers = answer(baseline, missing);
    for (size_t i = 0; i < missing.size(); ++i) {
      keep_outputs(missing[i], answers[i].outputs);
      computed[missing[i]] = std::move(answers[i].outputs);
    }
  }
  std::vector<Outputs> outputs;
  for (const int32_t prompt : prompts) {
    const auto found = computed.find(prompt);
    outputs.push_back(found != computed.end() ? std::move(found->second) : kept_outputs_.at(prompt));
  }
  return outputs;
}

void TuningRuns::keep_outputs(int32_t prompt, const Outputs& outputs) {
  const size_t floats = outputs.size() * static_cast<size_t>(opened_.config().hidden_dim);
  if (kept_floats_ + floats > kMaxKeptFloats) return;
  if (kept_outputs_.emplace(prompt, outputs).second) kept_floats_ += floats;
}

double TuningRuns::divergence(const Outputs& baseline, const Outputs& tuned) const {
  std::vector<float> before, now;
  for (const auto& [position, output] : baseline) {
    const auto other = tuned.find(position);
    if (other == tuned.end()) continue;
    before.insert(before.end(), output.begin(), output.end());
    now.insert(now.end(), other->second.begin(), other->second.end());
  }
  const int64_t dim = opened_.config().hidden_dim;
  const auto rows = static_cast<int64_t>(before.size()) / dim;
  if (rows == 0) return baseline.empty() && tuned.empty() ? 0 : 1;  // no common position: the largest loss
  std::vector<Drift> drifts(static_cast<size_t>(rows));
  parts_.model->compare_outputs({before.data(), rows, dim}, {now.data(), rows, dim}, drifts);
  double sum = 0;
  for (const Drift& drift : drifts) sum += std::clamp(static_cast<double>(drift.kl), 0.0, 1.0);
  return std::min(1.0, sum / static_cast<double>(rows));
}

}  // namespace lacuna
