#include "eval/evaluate.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/infill.h"
#include "engine/stop.h"
#include "options/choose.h"

namespace lacuna {
namespace {

double ratio(double amount, double of) {
  return of > 0 ? amount / of : 0;
}

template <typename Get>
auto sum_over(const std::vector<SampleRecord>& records, Get&& get) {
  decltype(get(records.front())) total{};
  for (const SampleRecord& record : records) total += get(record);
  return total;
}

Judgement judge_answers(const EvaluatedModel& model, const Engine& engine,
                        std::span<const Question> questions) {
  std::vector<JudgedText> texts;
  const bool is_chat = !model.chat_template.is_none();
  for (size_t i = 0; i < questions.size(); ++i) {
    const std::span<const TokenId> canvas = engine.decoder(i).canvas();
    const auto prompt_length = static_cast<size_t>(engine.decoder(i).prompt_length());
    const std::span<const TokenId> generated = canvas.subspan(prompt_length);
    const std::span<const TokenId> end_ids = model.model->config().end_ids;
    JudgedText text =
        judged_text(*model.judge, canvas.first(prompt_length), generated, end_ids,
                    is_chat ? std::span<const Message>(questions[i].messages) : std::span<const Message>());
    text.bytes = static_cast<int64_t>(model.tokenizer.decode(answer_part(generated, end_ids)).size());
    texts.push_back(std::move(text));
  }
  return judge(*model.judge_model, texts);
}

/// Canvas of an infilling sample, without a chat template. The hole is as long as its filling or, on a
/// growing canvas, has one token at first and at most kMaxGrown.
InfillCanvas infill_canvas(const EvaluatedModel& model, const Strategy& strategy, const Sample& sample) {
  constexpr int32_t kMaxGrown = 8;
  const std::string filling = sample.answer.substr(0, sample.hole);
  const auto length = static_cast<int32_t>(model.tokenizer.encode(filling).size());
  const Hole hole =
      changes_lengths(strategy, model.model->config()) ? Hole{1, kMaxGrown} : Hole{length, length};
  std::vector<CanvasPart> parts = {hole, sample.answer.substr(sample.hole)};
  if (!sample.prompt.empty()) parts.insert(parts.begin(), sample.prompt);
  return infill_canvases(parts, strategy, model.model->config(), &model.tokenizer).front();
}

std::unique_ptr<Decoder> make_question_decoder(const EvaluatedModel& model,
                                               const GenerationOptions& generation, const Sample& sample,
                                               std::span<const Message> messages, uint64_t seed) {
  GenerationOptions options = generation;
  options.seed = seed;
  DecoderContext context{end_of_turn(model.tokenizer).value_or(-1),
                         [&](std::string_view text) { return model.tokenizer.token_of(text); }};
  if (sample.hole > 0) {
    options.gen_length = AnswerLength();  // the parts of the canvas determine its length
    const Strategy strategy = choose_strategy(model.model->config(), options);
    InfillCanvas canvas = infill_canvas(model, strategy, sample);
    context.answer = std::move(canvas.answer);
    if (changes_lengths(strategy, model.model->config())) context.holes = std::move(canvas.holes);
    return make_decoder(model.model->config(), options, std::move(canvas.prompt), context);
  }
  std::vector<TokenId> prompt = render(model.chat_template, model.tokenizer, messages);
  if (model.guide != nullptr) context.guide = model.guide->context(prompt, messages);
  if (model.model->config().causal) context.find_stop = make_stop_finder(model.tokenizer, options.stop);
  return make_decoder(model.model->config(), options, std::move(prompt), context);
}

}  // namespace

int32_t Evaluation::num_correct() const {
  return sum_over(records, [](const SampleRecord& record) { return record.correct ? 1 : 0; });
}

double Evaluation::accuracy() const {
  return ratio(num_correct(), static_cast<double>(records.size()));
}

Interval Evaluation::accuracy_interval() const {
  return wilson_interval(num_correct(), static_cast<int64_t>(records.size()));
}

double Evaluation::mean_steps() const {
  const int64_t steps =
      sum_over(records, [](const SampleRecord& record) -> int64_t { return record.result.statistics.steps; });
  return ratio(static_cast<double>(steps), static_cast<double>(records.size()));
}

StepCost Evaluation::total_cost() const {
  return sum_over(records, [](const SampleRecord& record) { return record.result.statistics.cost; });
}

StepCost Evaluation::total_baseline() const {
  return sum_over(records, [](const SampleRecord& record) { return record.result.statistics.baseline; });
}

StepCost Evaluation::total_uncached() const {
  return sum_over(records, [](const SampleRecord& record) { return record.result.statistics.uncached; });
}

double Evaluation::mean_passes() const {
  const int64_t passes = sum_over(
      records, [](const SampleRecord& record) -> int64_t { return record.result.statistics.forward_passes; });
  return ratio(static_cast<double>(passes), static_cast<double>(records.size()));
}

double Evaluation::tokens_per_forward() const {
  const double answer_tokens =
      sum_over(records, [](const SampleRecord& record) -> double { return record.result.answer_tokens; });
  return ratio(answer_tokens, mean_passes() * static_cast<double>(records.size()));
}

double Evaluation::tokens_per_second() const {
  return ratio(
      sum_over(records, [](const SampleRecord& record) -> double { return record.result.answer_tokens; }),
      seconds);
}

uint64_t Evaluation::fingerprint() const {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
  const auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const SampleRecord& record : records) {
    for (const char c : record.result.text) add(static_cast<unsigned char>(c));
    add(0);  // separates answers; texts contain no zero bytes
  }
  return hash;
}

double Evaluation::canvas_tokens_per_second() const {
  return ratio(
      sum_over(records,
               [](const SampleRecord& record) { return static_cast<double>(record.result.tokens.size()); }),
      seconds);
}

GenerationOptions with_length(GenerationOptions generation, const Task& task,
                              const TaskOptions& task_options) {
  AnswerLength& length = generation.gen_length;
  if (!length && !length.is_auto) length = task.room(task_options);
  return generation;
}

std::vector<Message> messages_of(const Sample& sample) {
  std::vector<Message> messages;
  for (const Turn& turn : sample.history) messages.push_back({turn.role, turn.content});
  messages.push_back({"user", sample.prompt});
  return messages;
}

std::unique_ptr<Decoder> make_sample_decoder(const EvaluatedModel& model, const GenerationOptions& generation,
                                             const Sample& sample, uint64_t seed) {
  return make_question_decoder(model, generation, sample, messages_of(sample), seed);
}

Evaluation evaluate(const EvaluatedModel& model, const EvaluationSettings& settings,
                    const EvaluationProgress& progress) {
  const Task& task = find_task(settings.task);
  EvaluationSettings with_room = settings;
  with_room.generation = with_length(settings.generation, task, settings.task_options);
  std::vector<Question> questions;
  for (int32_t i = 0; i < settings.samples; ++i) {
    Sample sample = task.generate(Split::kTest, settings.generation.seed.value_or(0),
                                  static_cast<uint64_t>(i), settings.task_options);
    std::vector<Message> messages = messages_of(sample);
    questions.push_back({std::move(sample), std::move(messages)});
  }
  return evaluate(model, with_room, std::move(questions), task.check, progress);
}

Evaluation evaluate(const EvaluatedModel& model, const EvaluationSettings& settings,
                    std::vector<Question> questions, const Checker& check,
                    const EvaluationProgress& progress) {
  const ModelConfig& config = model.model->config();
  Evaluation evaluation;
  evaluation.settings = settings;
  GenerationOptions& generation = evaluation.settings.generation;
  const uint64_t seed = generation.seed.value_or(0);
  generation.seed = seed;

  Engine engine(model.model, settings.batch, model.guide_model);
  for (Question& question : questions) {
    const uint64_t index = evaluation.records.size();
    engine.add(make_question_decoder(model, generation, question.sample, question.messages, seed + index));
    evaluation.records.emplace_back().sample = std::move(question.sample);
  }

  std::vector<RunStatistics> before(evaluation.records.size());
  int32_t done = 0;
  const StepObserver count = [&](const StepEvent& event) {
    done += event.decoder.done() ? 1 : 0;
    RunStatistics& previous = before[event.request];
    if (event.statistics.steps > previous.steps) {  // not a pass of the guide
      const auto step = static_cast<size_t>(previous.steps);
      if (step >= evaluation.step_rows.size()) evaluation.step_rows.resize(step + 1);
      evaluation.step_rows[step].rows += event.cost.rows;
      evaluation.step_rows[step].uncached += event.statistics.uncached.rows - previous.uncached.rows;
    }
    previous = event.statistics;
  };
  const Stopwatch clock;
  const std::clock_t processor_clock = std::clock();
  while (engine.step(count)) {
    ++evaluation.forward_passes;
    if (progress) progress(done);
  }
  evaluation.seconds = clock.seconds();
  evaluation.processor_seconds =
      static_cast<double>(std::clock() - processor_clock) / static_cast<double>(CLOCKS_PER_SEC);

  for (size_t i = 0; i < evaluation.records.size(); ++i) {
    SampleRecord& record = evaluation.records[i];
    record.result = make_result(engine.decoder(i), engine.statistics(i), config, &model.tokenizer, seed + i,
                                generation.stop);
    record.correct = check(record.sample, record.result.text);
  }
  if (model.judge != nullptr) {
    evaluation.judgement = judge_answers(model, engine, questions);
  }
  return evaluation;
}

nlohmann::ordered_json given_options(const GenerationOptions& options) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  visit_options(options, [&](const Setting& setting, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, bool>) {
      if (field) json[std::string(setting.name)] = true;
    } else if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
      if (!field.empty()) json[std::string(setting.name)] = field;
    } else {
      if (field) json[std::string(setting.name)] = *field;
      if constexpr (std::is_same_v<Field, AnswerLength>) {
        if (field.is_auto) json[std::string(setting.name)] = "auto";
      }
    }
  });
  return json;
}

void add_options(const TaskOptions& options, nlohmann::ordered_json& json) {
  if (options.length) json["length"] = *options.length;
  if (options.depth) json["depth"] = *options.depth;
  if (options.difficulty) json["difficulty"] = *options.difficulty;
}

nlohmann::ordered_json to_json(const Evaluation& evaluation) {
  const StepCost cost = evaluation.total_cost();
  const StepCost baseline = evaluation.total_baseline();
  const StepCost uncached = evaluation.total_uncached();
  nlohmann::ordered_json settings = given_options(evaluation.settings.generation);
  settings["batch"] = evaluation.settings.batch;
  add_options(evaluation.settings.task_options, settings);
  const Interval accuracy = evaluation.accuracy_interval();
  nlohmann::ordered_json json{
      {"task", evaluation.settings.task},
      {"samples", evaluation.records.size()},
      {"correct", evaluation.num_correct()},
      {"accuracy", evaluation.accuracy()},
      {"accuracy_low", accuracy.low},
      {"accuracy_high", accuracy.high},
      {"steps_mean", evaluation.mean_steps()},
      {"passes_mean", evaluation.mean_passes()},
      {"tokens_per_forward", evaluation.tokens_per_forward()},
      {"forward_passes", evaluation.forward_passes},
      {"rows", cost.rows},
      {"rows_baseline", baseline.rows},
      {"rows_uncached", uncached.rows},
      {"sparse_rows", cost.sparse_rows},
      {"row_ratio", ratio(static_cast<double>(cost.rows), static_cast<double>(uncached.rows))},
      {"flops", cost.flops()},
      {"flops_baseline", baseline.flops()},
      {"flops_uncached", uncached.flops()},
      {"layer_flops", cost.layer_flops},
      {"layer_flops_baseline", baseline.layer_flops},
      {"layer_flops_uncached", uncached.layer_flops},
      {"bytes", cost.bytes},
      {"bytes_baseline", baseline.bytes},
      {"bytes_uncached", uncached.bytes},
      {"seconds", evaluation.seconds},
      {"processor_seconds", evaluation.processor_seconds},
      {"tokens_per_second", evaluation.tokens_per_second()},
      {"canvas_tokens_per_second", evaluation.canvas_tokens_per_second()},
      {"texts", fmt::format("{:016x}", evaluation.fingerprint())}};
  nlohmann::ordered_json row_ratio = nlohmann::ordered_json::array();
  for (const StepRows& step : evaluation.step_rows) {
    row_ratio.push_back(ratio(static_cast<double>(step.rows), static_cast<double>(step.uncached)));
  }
  json["row_ratio_by_step"] = std::move(row_ratio);
  if (evaluation.judgement)
    json["judge"] = to_json(*evaluation.judgement, evaluation.settings.generation.seed.value_or(0));
  json["settings"] = std::move(settings);
  return json;
}

nlohmann::ordered_json to_json(const SampleRecord& record) {
  nlohmann::ordered_json json{
      {"prompt", record.sample.prompt}, {"expected", record.sample.answer}, {"correct", record.correct}};
  json.update(to_json(record.result));
  return json;
}

}  // namespace lacuna
