#include "train/trainer.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <future>
#include <numbers>
#include <string>

#include "base/error.h"
#include "train/adamw.h"
#include "train/memory.h"
#include "train/predict.h"

namespace lacuna::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr double kFinalRate = 0.01;  // share of the peak at the end
constexpr int64_t kLogSteps = 50;    // between lines of the log

std::vector<torch::Tensor> learned_parameters(const Transformer& model) {
  std::vector<torch::Tensor> learned;
  for (const auto& item : model->learned()) learned.push_back(item.value());
  return learned;
}

/// The f32 values of the trainable weights. With bf16 matmuls the model itself keeps rounded matrices.
std::vector<LearnedWeight> learned_weights(Transformer& model, bool has_bf16_products) {
  std::vector<LearnedWeight> weights;
  for (const torch::Tensor& parameter : learned_parameters(model))
    weights.push_back({parameter.detach(), parameter.detach().clone(), {}});
  if (!has_bf16_products) return weights;
  model->keep_matrices_in(torch::kBFloat16);  // allocates new memory: the f32 values stay in `weights`
  size_t i = 0;
  for (const torch::Tensor& parameter : learned_parameters(model)) {
    if (parameter.scalar_type() == torch::kBFloat16) weights[i].rounded = parameter.detach();
    ++i;
  }
  return weights;
}

/// A member of each weight: its values or its average.
std::vector<torch::Tensor> tensors_of(const std::vector<LearnedWeight>& weights,
                                      torch::Tensor LearnedWeight::*tensor) {
  std::vector<torch::Tensor> tensors;
  for (const LearnedWeight& weight : weights) tensors.push_back(weight.*tensor);
  return tensors;
}

std::vector<torch::optim::OptimizerParamGroup> parameter_groups(const Transformer& model,
                                                                const std::vector<LearnedWeight>& weights,
                                                                const TrainOptions& options) {
  std::vector<torch::Tensor> decayed, free;
  size_t i = 0;
  for (const auto& item : model->learned()) {
    const bool matrix = item.value().dim() >= 2 && item.key().find("embedding") == std::string::npos &&
                        !item.key().ends_with("_sink");
    (matrix ? decayed : free).push_back(weights[i++].values);
  }
  const auto group = [&](std::vector<torch::Tensor> parameters, double decay) {
    auto adamw =
        torch::optim::AdamWOptions(options.peak_rate).betas({0.9, 0.98}).eps(1e-8).weight_decay(decay);
    return torch::optim::OptimizerParamGroup(std::move(parameters),
                                             std::make_unique<torch::optim::AdamWOptions>(adamw));
  };
  return {group(std::move(decayed), options.weight_decay), group(std::move(free), 0)};
}

/// Matmuls in bf16 during the lifetime of this object.
class Bf16Products {
 public:
  explicit Bf16Products(bool enabled) {
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(enabled);
  }
  ~Bf16Products() {
    at::autocast::set_cpu_enabled(false);
    at::autocast::clear_cache();
  }
  Bf16Products(const Bf16Products&) = delete;
  Bf16Products& operator=(const Bf16Products&) = delete;
};

}  // namespace

double schedule(int64_t step, int64_t warmup_steps, double done) {
  const double warm =
      std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(std::max<int64_t>(1, warmup_steps)));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::clamp(done, 0.0, 1.0)));
  return warm * (kFinalRate + (1 - kFinalRate) * cosine);
}

double measure_accuracy(Transformer& model, const Task& task, int64_t samples, int64_t canvas,
                        const Vocabulary& vocabulary, const TaskOptions& task_options) {
  constexpr uint64_t kSeed = 0;  // the same stories for every run
  constexpr size_t kShown = 2;
  const int64_t room = std::max<int64_t>(canvas, task.room(task_options));
  const auto mistakes = find_mistakes(model, task, kSeed, samples, room, vocabulary, task_options);
  for (size_t i = 0; i < std::min(kShown, mistakes.size()); ++i) {
    fmt::print(stderr, "  {}\n  wanted: {}\n  got:    {}\n", mistakes[i].sample.prompt,
               mistakes[i].sample.answer, mistakes[i].text);
  }
  return 1 - static_cast<double>(mistakes.size()) / static_cast<double>(samples);
}

TaskOptions evaluation_options(const Task& task, const DataOptions& data) {
  if (!task.has_lengths) return {};
  return {.length = data.max_length, .depth = {}};
}

Trainer::Trainer(Transformer model, BatchSource source, const Vocabulary& vocabulary, TrainOptions options,
                 std::filesystem::path folder)
    : model_(std::move(model)),
      source_(std::move(source)),
      vocabulary_(&vocabulary),
      options_(options),
      folder_(std::move(folder)),
      device_(model_->parameters().front().device()),
      weights_(learned_weights(model_, options_.bf16_products && device_.is_cpu())),
      optimizer_(parameter_groups(model_, weights_, options_),
                 torch::optim::AdamWOptions(options_.peak_rate)) {
  learned_ = learned_parameters(model_);
  gradients_.resize(learned_.size());
}

void Trainer::resume() {
  std::vector<torch::Tensor> values = tensors_of(weights_, &LearnedWeight::values);
  std::vector<torch::Tensor> averages = tensors_of(weights_, &LearnedWeight::average);
  progress_ = load_checkpoint(folder_ / "checkpoint.pt", values, averages, optimizer_);
  const torch::NoGradGuard no_grad;
  for (LearnedWeight& weight : weights_) {
    if (weight.rounded.defined()) weight.rounded.copy_(weight.values);
  }
}

void Trainer::save() const {
  std::vector<torch::Tensor> values = tensors_of(weights_, &LearnedWeight::values);
  std::vector<torch::Tensor> averages = tensors_of(weights_, &LearnedWeight::average);
  save_checkpoint(folder_ / "checkpoint.pt", values, averages, optimizer_, progress_);
}

double Trainer::done() const {
  const double by_time = options_.minutes > 0 ? progress_.seconds / (60 * options_.minutes) : 0;
  const double by_steps =
      options_.steps > 0 ? static_cast<double>(progress_.step) / static_cast<double>(options_.steps) : 0;
  return std::max(by_time, by_steps);
}

Trainer::Gradients Trainer::differentiate(const Examples& examples) {
  torch::Tensor loss;
  {
    const Bf16Products products(options_.bf16_products);
    loss = loss_of(model_, examples, soft_embeddings(model_, examples));
  }
  // The weights of self-conditioning get no gradient if no row is conditioned.
  auto values = torch::autograd::grad({loss}, learned_, /*grad_outputs=*/{}, /*retain_graph=*/c10::nullopt,
                                      /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].defined()) values[i] = torch::zeros_like(learned_[i]);
  }
  return {loss.item<double>(), std::move(values)};
}

Examples Trainer::make_step(const Batch& batch, uint64_t number) const {
  const ModelShape& shape = model_->shape();
  return make_examples(shape.traits(), batch,
                       {.mask_id = vocabulary_->ids.mask,
                        .slot_sizes = options_.slot_sizes,
                        .half_written_share = options_.half_written_share,
                        .copies_share = options_.copies_share,
                        .seed = options_.seed,
                        .block_length = shape.block_length,
                        .is_paper = options_.is_paper,
                        .lambda = options_.lambda,
                        .cart_p = options_.cart_p,
                        .confidence_weight = options_.confidence_weight,
                        .clean_weight = options_.clean_weight,
                        .canvas = source_.options().canvas,
                        .vocabulary = shape.vocabulary,
                        .uniform_shift = shape.uniform_shift,
                        .left_to_right = shape.left_to_right,
                        .canvas_length = shape.canvas.length,
                        .end_id = vocabulary_->ids.end},
                       number);
}

void Trainer::learn_from(Transformer teacher) {
  const FamilyTraits& family = model_->shape().traits();
  if (!has_trajectories(family) || model_->shape().left_to_right)
    throw InputError("--teacher: trajectories of {} are not recorded; expected llada, dream or sdar",
                     family.name);
  teacher_ = std::move(teacher);
}

Examples Trainer::make_distillation(uint64_t number) {
  const ModelShape& shape = model_->shape();
  const bool has_blocks = shape.objective() == Objective::kBlocks;
  const int64_t block = has_blocks ? shape.block_length : options_.trajectory_block;
  const TokenId mask = vocabulary_->ids.mask;
  const uint64_t batch = number / static_cast<uint64_t>(options_.trajectory_uses);
  if (!trajectory_ || trajectory_number_ != batch) {
    trajectory_ = record_trajectory(teacher_, source_.batch(batch), block, mask);
    trajectory_number_ = batch;
  }
  Examples examples =
      trajectory_examples(shape.traits(), *trajectory_, block, mask, done(), options_.seed, number);
  return options_.confidence_weight > 0 ? with_confidence(std::move(examples), options_.confidence_weight)
                                        : examples;
}

double Trainer::needed_bytes() {
  TrainingMemory kept{.threads = options_.threads, .keeps_activations = model_->keeps_activations()};
  for (const torch::Tensor& parameter : model_->parameters()) kept.parameters += parameter.numel();
  for (const torch::Tensor& parameter : learned_) kept.learned += parameter.numel();
  if (teacher_) kept.teacher = kept.parameters;
  double largest = 0;
  const auto first = static_cast<uint64_t>(progress_.step);
  for (uint64_t number = first; number < first + BatchSource::kPoolBatches; ++number) {
    const Examples examples = make_step(source_.batch(number), number);
    largest = std::max(largest, estimated_bytes(model_->shape(), kept, examples));
  }
  return largest;
}

double Trainer::add_gradients(uint64_t number) {
  const Batch batch = teacher_ ? Batch{} : source_.batch(number);
  const Examples examples = teacher_ ? make_distillation(number) : make_step(batch, number);
  const int64_t tokens = (teacher_ ? trajectory_->batch : batch).tokens.numel();

  // Threads synchronize once per step, not once per operation: the matrices are too small to be worth
  // splitting.
  const int64_t rows = examples.inputs.size(0);
  const int64_t shards = std::min<int64_t>(std::max(1, options_.threads), rows);
  std::vector<std::future<Gradients>> parts;
  for (int64_t shard = 0; shard < shards; ++shard) {
    const int64_t first = shard * rows / shards;
    const int64_t last = (shard + 1) * rows / shards;
    parts.push_back(std::async(std::launch::async, [=, this, &examples] {
      torch::set_num_threads(1);  // holds for the calling thread
      return differentiate(moved(part_of(examples, first, last), device_));
    }));
  }
  double loss = 0;
  for (auto& part : parts) {
    const Gradients gradients = part.get();
    loss += gradients.loss;
    for (size_t i = 0; i < learned_.size(); ++i) gradients_[i].push_back(gradients.values[i]);
  }
  if (options_.accumulate > 1) {  // parts of many batches would take more memory than their sum
    for (GradientParts& of_weight : gradients_) {
      torch::Tensor sum = of_weight.front().to(torch::kFloat32);
      for (size_t i = 1; i < of_weight.size(); ++i) sum.add_(of_weight[i]);
      of_weight = {sum};
    }
  }
  progress_.tokens += tokens;
  return loss;
}

double Trainer::held_out_loss(Transformer& averaged) {
  constexpr uint64_t kHeldOutSteps = uint64_t{1} << 40;  // step numbers that training never reaches
  const torch::NoGradGuard no_grad;
  const std::vector<Batch> batches = source_.held_out();
  double loss = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    const Examples examples = moved(make_step(batches[i], kHeldOutSteps + i), device_);
    loss += loss_of(averaged, examples, soft_embeddings(averaged, examples)).item<double>();
  }
  return loss / static_cast<double>(batches.size());
}

double Trainer::step() {
  const auto start = Clock::now();
  const double rate = options_.peak_rate * schedule(progress_.step, options_.warmup_steps, done());
  for (auto& group : optimizer_.param_groups())
    static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);

  double loss = 0;
  const auto batches = static_cast<uint64_t>(options_.accumulate);
  for (uint64_t i = 0; i < batches; ++i) {
    loss += add_gradients(static_cast<uint64_t>(progress_.step) * batches + i) / static_cast<double>(batches);
  }
  // Gradients are sums over the batches here.
  const double norm = gradient_norm(gradients_) / static_cast<double>(batches);
  const double clip = std::min(1.0, options_.clip_norm / (norm + 1e-6));
  // The average follows the weights more closely early on, to forget the random initialization.
  const auto count = static_cast<double>(progress_.step);
  update(optimizer_, weights_, gradients_,
         {.gradient_scale = clip / static_cast<double>(batches),
          .average_decay = std::min(options_.average_decay, (1 + count) / (10 + count))});

  for (GradientParts& of_weight : gradients_) of_weight.clear();

  ++progress_.step;
  progress_.seconds += seconds_since(start);
  return loss;
}

Transformer Trainer::averaged_model() const {
  Transformer copy(model_->shape());
  copy->to(device_);
  if (model_->lora().rank > 0) copy->add_lora(model_->lora());
  const torch::NoGradGuard no_grad;
  const auto copies = copy->parameters(), originals = model_->parameters();
  for (size_t i = 0; i < copies.size(); ++i) copies[i].copy_(originals[i]);
  size_t next = 0;
  for (const auto& item : copy->learned()) item.value().copy_(weights_[next++].average);
  return copy;
}

void Trainer::report(std::ofstream& log, EventFile& events, double loss, double speed, bool evaluates) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const double rate = options_.peak_rate * schedule(progress_.step, options_.warmup_steps, done());
  const double left = progress_.seconds * (1 / done() - 1);
  fmt::print(stderr, "{}step {}  loss {:.4f}  {:.0f} tokens/s  {:.1f} min left{}", terminal ? "\r\x1b[K" : "",
             progress_.step, loss, speed, left / 60, terminal && !evaluates ? "" : "\n");
  log << fmt::format("{},{},{:.1f},{:.5f},{:.3e},{:.0f}", progress_.step, progress_.tokens, progress_.seconds,
                     loss, rate, speed);
  std::vector<Scalar> scalars = {{"loss", loss}, {"learning_rate", rate}, {"tokens_per_second", speed}};
  Transformer averaged = evaluates ? averaged_model() : nullptr;
  if (evaluates) save();
  if (!source_.options().files.empty()) {
    log << ',';
    const double held_out = evaluates ? held_out_loss(averaged) : NAN;
    if (!std::isnan(held_out)) {
      fmt::print(stderr, "held out: loss {:.4f}\n", held_out);
      log << fmt::format("{:.5f}", held_out);
      scalars.push_back({"held_out_loss", held_out});
    }
  }
  for (const TaskShare& share : source_.options().tasks) {
    log << ',';
    if (!evaluates) continue;
    const double accuracy =
        measure_accuracy(averaged, *share.task, options_.evaluate_samples, source_.options().canvas,
                         *vocabulary_, evaluation_options(*share.task, source_.options()));
    fmt::print(stderr, "{}: accuracy {:.3f}\n", share.task->name, accuracy);
    log << fmt::format("{:.3f}", accuracy);
    scalars.push_back({fmt::format("accuracy/{}", share.task->name), accuracy});
  }
  log << std::endl;
  events.add(progress_.step, scalars);
}

void Trainer::run() {
  const std::filesystem::path log_path = folder_ / "log.csv";
  const bool fresh = progress_.step == 0;
  std::ofstream log(log_path, fresh ? std::ios::trunc : std::ios::app);
  EventFile events(folder_);
  if (fresh) {
    log << "step,tokens,seconds,loss,learning_rate,tokens_per_second";
    if (!source_.options().files.empty()) log << ",held_out_loss";
    for (const TaskShare& share : source_.options().tasks) log << ",accuracy_" << share.task->name;
    log << '\n';
  }

  double loss_sum = 0;
  int64_t loss_count = 0;
  Progress mark = progress_;  // progress at the last line of the log
  double next_evaluation = progress_.seconds + 60 * options_.evaluate_minutes;
  while (done() < 1 && !stopped_) {
    loss_sum += step();
    ++loss_count;
    const bool last = done() >= 1;
    const bool evaluates = progress_.seconds >= next_evaluation || last;
    if (!evaluates && progress_.step % kLogSteps != 0) continue;

    const double speed =
        static_cast<double>(progress_.tokens - mark.tokens) / (progress_.seconds - mark.seconds);
    report(log, events, loss_sum / static_cast<double>(loss_count), speed, evaluates);
    if (evaluates) next_evaluation = progress_.seconds + 60 * options_.evaluate_minutes;
    loss_sum = 0;
    loss_count = 0;
    mark = progress_;
  }
  if (stopped_) save();
}

}  // namespace lacuna::train
