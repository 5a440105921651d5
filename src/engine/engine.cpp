#include "engine/engine.h"

#include <algorithm>
#include <utility>

namespace lacuna {

Engine::Engine(std::shared_ptr<const Model> model, const KernelTable& kernels, ThreadPool& threads,
               int32_t max_running)
    : model_(std::move(model)),
      context_{kernels, threads},
      max_running_(static_cast<size_t>(std::max(1, max_running))) {}

size_t Engine::add(std::unique_ptr<Decoder> decoder) {
  requests_.push_back({std::move(decoder), {}, {}, {}});
  return requests_.size() - 1;
}

void Engine::admit() {
  for (; running_.size() < max_running_ && next_ < requests_.size(); ++next_) {
    Request& request = requests_[next_];
    if (request.decoder->done()) continue;
    for (int32_t i = 0; i < request.decoder->num_sequences(); ++i) {
      request.caches.emplace_back(model_->kv_shape(), request.decoder->num_cells());
    }
    request.clock.restart();
    running_.push_back(next_);
  }
}

bool Engine::step(const StepObserver& observe) {
  admit();
  if (running_.empty()) return false;

  plan_.clear();
  caches_.clear();
  for (const size_t index : running_) {
    Request& request = requests_[index];
    plan_.append(request.decoder->plan(), static_cast<int32_t>(caches_.size()));
    for (KvCache& cache : request.caches) caches_.push_back(&cache);
  }
  drawn_.resize(plan_.logits.size());
  const Stopwatch pass;
  model_->forward(context_, plan_, caches_, workspace_, drawn_);
  const double pass_seconds = pass.seconds();

  std::span<const RowStatistics> rest(drawn_);
  for (const size_t index : running_) {
    Request& request = requests_[index];
    Decoder& decoder = *request.decoder;
    const StepPlan plan = decoder.plan();
    RunStatistics& statistics = request.statistics;
    statistics.cost += cost(model_->config(), plan);
    statistics.baseline += decoder.baseline_cost(model_->config());
    const StepReport report = decoder.apply(rest.first(plan.logits.size()));
    rest = rest.subspan(plan.logits.size());
    ++statistics.steps;
    ++statistics.forward_passes;
    statistics.seconds = request.clock.seconds();
    if (observe) observe({index, decoder, plan, report, statistics, pass_seconds});
  }
  std::erase_if(running_, [&](size_t index) {
    if (!requests_[index].decoder->done()) return false;
    requests_[index].caches.clear();
    return true;
  });
  return true;
}

void Engine::run(const StepObserver& observe) {
  while (step(observe)) {
  }
}

}  // namespace lacuna
