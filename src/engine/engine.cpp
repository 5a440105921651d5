#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

/// The mean over layers, keys and values of what a pass measured for each of some rows.
std::vector<float> kv_drift_of_rows(const Workspace& workspace, int32_t first_row, int32_t num_rows,
                                    int64_t num_layers) {
  std::vector<float> means;
  const float* drifts = workspace.kv_drift.data() + 2 * first_row * num_layers;
  for (int32_t row = 0; row < num_rows; ++row, drifts += 2 * num_layers) {
    means.push_back(std::accumulate(drifts, drifts + 2 * num_layers, 0.0F) /
                    static_cast<float>(2 * num_layers));
  }
  return means;
}

/// Why a request cannot go on whose rows had these statistics; empty: it can.
std::string find_failure(const StepPlan& plan, std::span<const LogitRow> wanted,
                         std::span<const RowStatistics> drawn) {
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (drawn[i].is_finite) continue;
    return fmt::format(
        "the model computed infinite or NaN logits at position {}; its weights may be damaged, or its "
        "activations overflow",
        plan.positions[static_cast<size_t>(wanted[i].row)]);
  }
  return {};
}

}  // namespace

Engine::Engine(std::shared_ptr<const Model> model, const KernelTable& kernels, ThreadPool& threads,
               int32_t max_running, std::shared_ptr<const Model> guide)
    : models_{std::move(model), std::move(guide)},
      context_{kernels, threads},
      max_running_(static_cast<size_t>(std::max(1, max_running))) {}

size_t Engine::add(std::unique_ptr<Decoder> decoder) {
  expects(decoder->num_guide_cells() == 0 || models_[1] != nullptr, "add: a guided request needs a guide");
  requests_[num_added_].decoder = std::move(decoder);
  return num_added_++;
}

int64_t Engine::memory_for(const Decoder& decoder) const {
  const Model& model = *models_[0];
  const int64_t cells = decoder.num_cells();
  int64_t bytes = KvCache::bytes_for(model.kv_shape(), cells);
  if (remembers_outputs_ || decoder.remembers_outputs()) {
    bytes += cells * model.config().hidden_dim * static_cast<int64_t>(sizeof(float));
  }
  bytes *= decoder.num_sequences();
  if (decoder.num_guide_cells() == 0) return bytes;
  return bytes + KvCache::bytes_for(models_[1]->kv_shape(), decoder.num_guide_cells());
}

int64_t Engine::memory_in_use() const {
  int64_t bytes = 0;
  for (const size_t index : running_) bytes += requests_.at(index).memory;
  return bytes;
}

void Engine::share_prefixes(int64_t most_bytes) {
  shares_prefixes_ = true;
  prefixes_.limit(most_bytes);
}

void Engine::remove(size_t request) {
  if (std::erase(running_, request) > 0) retire(requests_.at(request));
  requests_.erase(request);
}

void Engine::retire(Request& request) {
  const ExactPrefix prefix = request.decoder->exact_prefix();
  if (shares_prefixes_ && prefix.block_length > 0 && !request.caches.empty()) {
    const std::span<const TokenId> tokens = request.decoder->canvas();
    prefixes_.keep(prefix.block_length, tokens.first(static_cast<size_t>(prefix.kept)),
                   request.caches.front());
  }
  request.caches.clear();
  request.outputs.clear();
  request.guide_cache.clear();
}

void Engine::admit() {
  for (; running_.size() < max_running_ && next_ < num_added_; ++next_) {
    const auto found = requests_.find(next_);
    if (found == requests_.end()) continue;  // removed
    Request& request = found->second;
    const Decoder& decoder = *request.decoder;
    if (decoder.done()) continue;
    request.memory = memory_for(decoder);
    const int64_t memory_left = most_memory_ - memory_in_use();
    if (request.memory > memory_left) return;
    prefixes_.shrink_to(memory_left - request.memory);
    for (const size_t index : running_) {
      const int64_t turn = requests_.at(index).turn;
      request.turn = index == running_.front() ? turn : std::min(request.turn, turn);
    }
    for (int32_t i = 0; i < decoder.num_sequences(); ++i) {
      request.caches.push_back(models_[0]->make_cache(decoder.num_cells()));
      if (remembers_outputs_ || decoder.remembers_outputs()) {
        request.outputs.emplace_back(decoder.num_cells(), models_[0]->config().hidden_dim);
      }
    }
    if (decoder.num_guide_cells() > 0) {
      request.guide_cache.push_back(models_[1]->make_cache(decoder.num_guide_cells()));
    }
    request.seeks_prefix = shares_prefixes_ && decoder.exact_prefix().block_length > 0;
    request.clock.restart();
    request.observed_before = observing_seconds_;
    running_.push_back(next_);
  }
}

void Engine::take_prefixes() {
  for (const size_t index : running_) {
    Request& request = requests_.at(index);
    if (!request.seeks_prefix) continue;
    const ExactPrefix own = request.decoder->exact_prefix();
    const std::span<const TokenId> tokens =
        request.decoder->canvas().first(static_cast<size_t>(std::max(0, own.wanted)));
    PrefixStore::Match best = prefixes_.find(own.block_length, tokens);
    int32_t promised = best.count;
    for (const size_t earlier : running_) {
      if (earlier == index) break;
      const Request& other = requests_.at(earlier);
      const ExactPrefix theirs = other.decoder->exact_prefix();
      if (theirs.block_length != own.block_length) continue;
      const int32_t common = common_prefix(tokens, other.decoder->canvas());
      const int32_t kept = whole_tiles(std::min(common, theirs.kept));
      if (kept > best.count) best = {&other.caches.front(), kept};
      promised = std::max(promised, whole_tiles(std::min(common, std::max(theirs.kept, theirs.promised))));
    }
    if (promised > best.count) continue;  // another request reads it just now
    request.seeks_prefix = false;
    const int32_t count = best.count / own.block_length * own.block_length;
    if (count == 0) continue;
    request.caches.front().copy_first_cells(*best.cache, best.count);
    request.decoder->skip_prefix(count);
    request.statistics.shared_tokens = count;
  }
}

bool Engine::step(const StepObserver& observe) {
  admit();
  if (running_.empty()) return false;
  take_prefixes();
  run_pass(ModelRole::kMain, observe);
  run_pass(ModelRole::kGuide, observe);
  std::erase_if(running_, [&](size_t index) {
    Request& request = requests_.at(index);
    if (!request.decoder->done()) return false;
    retire(request);
    return true;
  });
  return true;
}

std::vector<size_t> Engine::choose_requests(ModelRole role) {
  std::vector<size_t> wanting;
  for (const size_t index : running_) {
    const Request& request = requests_.at(index);
    const bool takes_part = !request.seeks_prefix && !request.decoder->done();
    if (takes_part && request.decoder->role() == role) wanting.push_back(index);
  }
  std::stable_sort(wanting.begin(), wanting.end(),
                   [&](size_t a, size_t b) { return requests_.at(a).turn < requests_.at(b).turn; });
  std::vector<size_t> chosen;
  int64_t rows_left = most_rows_;
  for (const size_t index : wanting) {
    const int32_t rows = requests_.at(index).decoder->plan().num_rows();
    if (!chosen.empty() && rows > rows_left) continue;
    chosen.push_back(index);
    rows_left -= rows;
  }
  if (chosen.size() < wanting.size()) {
    for (const size_t index : chosen) {
      Request& request = requests_.at(index);
      request.turn += request.decoder->plan().num_rows();
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void Engine::gather(ModelRole role) {
  parts_.clear();
  plan_.clear();
  caches_.clear();
  outputs_.clear();
  for (const size_t index : choose_requests(role)) {
    Request& request = requests_.at(index);
    const StepPlan& plan = request.decoder->plan();
    parts_.push_back({index, plan, plan_.num_rows(), static_cast<int32_t>(plan_.rules.size()), {}, 0, {}});
    plan_.append(plan, static_cast<int32_t>(caches_.size()));
    for (KvCache& cache : role == ModelRole::kMain ? request.caches : request.guide_cache) {
      caches_.push_back(&cache);
    }
    for (OutputCache& output : request.outputs) {
      if (role == ModelRole::kMain) outputs_.push_back(&output);
    }
    outputs_.resize(caches_.size(), nullptr);
  }
}

void Engine::update_baseline(Request& request) const {
  std::optional<BaselineRequest> wanted = request.decoder->baseline_request();
  if (!wanted) {
    request.statistics.baseline = request.statistics.uncached;
  } else if (wanted != request.baseline_request) {
    request.statistics.baseline = baseline_cost(models_[0]->config(), models_[0]->bytes_of_passes(), *wanted);
  }
  request.baseline_request = wanted;
}

void Engine::run_pass(ModelRole role, const StepObserver& observe) {
  gather(role);
  if (parts_.empty()) return;
  const Model& model = *models_[static_cast<size_t>(role)];
  const ModelConfig& config = model.config();
  const ModelBytes bytes = model.bytes_of_passes();
  Workspace& workspace = workspaces_[static_cast<size_t>(role)];
  drawn_.resize(plan_.logits.size());
  const Stopwatch clock;
  model.forward(context_, plan_, caches_, workspace, drawn_);

  std::span<const RowStatistics> rest(drawn_);
  for (Part& part : parts_) {
    Request& request = requests_.at(part.request);
    const std::span<const RowStatistics> own = rest.first(part.plan.logits.size());
    rest = rest.subspan(own.size());
    part.failure = find_failure(part.plan, part.plan.logits, own);
    if (!part.failure.empty()) continue;
    request.statistics.uncached += cost(config, bytes, request.decoder->uncached_work());
    if (part.plan.measures_kv_drift) {
      request.decoder->apply_kv_drift(
          kv_drift_of_rows(workspace, part.first_row, part.plan.num_rows(), config.num_layers));
    }
    part.report = request.decoder->apply(own);
  }
  draw_further(model, workspace);
  measure_drift(model, workspace);
  const double seconds = clock.seconds();

  for (const Part& part : parts_) {
    if (!part.failure.empty()) continue;
    Request& request = requests_.at(part.request);
    PassWork work = work_of(part.plan);
    work.logit_rows += part.further_logit_rows;
    const StepCost pass_cost = cost(config, bytes, work);
    RunStatistics& statistics = request.statistics;
    statistics.cost += pass_cost;
    statistics.steps += role == ModelRole::kMain ? 1 : 0;
    statistics.guide_rows += role == ModelRole::kGuide ? pass_cost.rows : 0;
    ++statistics.forward_passes;
    update_baseline(request);
    statistics.seconds = request.clock.seconds() - (observing_seconds_ - request.observed_before);
    if (observe) {
      const Stopwatch observing;
      const OutputCache* output = request.outputs.empty() ? nullptr : &request.outputs.front();
      observe(
          {part.request, *request.decoder, part.plan, part.report, statistics, pass_cost, output, seconds});
      observing_seconds_ += observing.seconds();
    }
  }
  end_failed();
}

void Engine::end_failed() {
  for (const Part& part : parts_) {
    if (part.failure.empty()) continue;
    std::erase(running_, part.request);
    Request& request = requests_.at(part.request);
    request.caches.clear();  // nothing of them is kept for others
    request.outputs.clear();
    request.guide_cache.clear();
    if (!failed_) throw InputError("{}", part.failure);
    failed_(part.request, part.failure);
  }
}

void Engine::draw_further(const Model& model, Workspace& workspace) {
  further_logits_.clear();
  for (Part& part : parts_) {
    if (!part.failure.empty()) continue;
    const std::span<const LogitRow> wanted = requests_.at(part.request).decoder->further_logits();
    part.further_logit_rows += static_cast<double>(wanted.size());
    for (LogitRow logit : wanted) {
      logit.row += part.first_row;
      logit.rule += part.first_rule;
      further_logits_.push_back(logit);
    }
  }
  if (further_logits_.empty()) return;
  drawn_.resize(further_logits_.size());
  model.draw_further(context_, plan_, further_logits_, workspace, drawn_);
  std::span<const RowStatistics> rest(drawn_);
  for (Part& part : parts_) {
    if (!part.failure.empty()) continue;
    Decoder& decoder = *requests_.at(part.request).decoder;
    const std::span<const LogitRow> wanted = decoder.further_logits();
    const std::span<const RowStatistics> own = rest.first(wanted.size());
    rest = rest.subspan(own.size());
    part.failure = find_failure(part.plan, wanted, own);
    if (!part.failure.empty() || own.empty()) continue;
    decoder.apply_further(own, part.report);
  }
}

void Engine::measure_drift(const Model& model, Workspace& workspace) {
  const auto is_remembered = [](const OutputCache* output) { return output != nullptr; };
  if (std::none_of(outputs_.begin(), outputs_.end(), is_remembered)) return;
  drift_probes_.clear();
  for (Part& part : parts_) {
    if (!part.failure.empty()) continue;
    const std::span<const DriftProbe> probes = requests_.at(part.request).decoder->drift_probes();
    part.further_logit_rows += logit_rows_of(probes);
    for (DriftProbe probe : probes) {
      probe.row += part.first_row;
      if (probe.unconditional_row >= 0) probe.unconditional_row += part.first_row;
      drift_probes_.push_back(probe);
    }
  }
  drifts_.resize(drift_probes_.size());
  model.measure_drift(context_, plan_, drift_probes_, outputs_, workspace, drifts_);
  std::span<const Drift> rest(drifts_);
  for (Part& part : parts_) {
    if (!part.failure.empty()) continue;
    Decoder& decoder = *requests_.at(part.request).decoder;
    const size_t count = decoder.drift_probes().size();
    decoder.apply_drift(rest.first(count), part.report);
    rest = rest.subspan(count);
  }
}

void Engine::run(const StepObserver& observe) {
  while (step(observe)) {
  }
}

}  // namespace lacuna
