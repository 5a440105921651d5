#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "decode/baseline.h"
#include "decode/setting_error.h"

namespace lacuna {

Engine::Engine(std::shared_ptr<const BackendModel> model, int32_t max_running,
               std::shared_ptr<const BackendModel> guide)
    : models_{std::move(model), std::move(guide)},
      max_running_(static_cast<size_t>(std::max(1, max_running))) {
  for (size_t role = 0; role < 2; ++role) {
    if (models_[role] != nullptr) pools_[role] = models_[role]->make_pool();
  }
  most_memory_ = room_of_pools();
}

int64_t Engine::room_of_pools() const {
  int64_t room = pools_[0]->limit();
  if (pools_[1] != nullptr) room += std::min(pools_[1]->limit(), KvPool::kNoLimit - room);
  return room;
}

void Engine::check(const Decoder& decoder) const {
  const auto check_room = [](const KvPool& pool, int64_t needed) {
    if (needed <= pool.limit()) return;
    throw InputError(
        "the request needs {} of keys and values, and the device has {} for them; expected a shorter canvas",
        human_bytes(needed), human_bytes(pool.limit()));
  };
  check_room(*pools_[0], pools_[0]->bytes_for(shape_for(decoder)) * decoder.num_sequences());
  const auto refuse_reuse = [&](bool reuses, std::string_view setting, std::string_view names) {
    if (!reuses || models_[0]->reuses_rows()) return;
    throw SettingError({std::string(setting), "", "another one",
                        fmt::format("`{}` {} from pass to pass, which this device does not; expected "
                                    "--device cpu without --shard",
                                    setting, names)});
  };
  const BackendNeeds needs = decoder.needs();
  refuse_reuse(needs.keeps_attention, "sparse", "flashblock and losa keep attention");
  refuse_reuse(needs.evicts_masks, "focus", "drops masks, and keeps K/V that earlier passes wrote,");
  refuse_reuse(needs.kept_layers.size() > 0, "cache", "dllm-cache keeps what layers add to rows");
  refuse_reuse(needs.wants_rollout, "cache", "d2cache keeps the attention to each position");
  if (const int64_t needed = rollout_bytes(decoder); needed > kMaxRolloutBytes) {
    throw SettingError(
        {"cache", "d2cache", "another one",
         fmt::format("`cache` d2cache keeps the attention of all layers during a pass, {} for {} positions; "
                     "expected at most {}, or another cache",
                     human_bytes(needed), decoder.num_cells(), human_bytes(kMaxRolloutBytes))});
  }
  if (decoder.num_guide_cells() > 0)
    check_room(*pools_[1], pools_[1]->bytes_for({decoder.num_guide_cells()}));
}

std::string Engine::failure() const {
  std::string sentence = models_[0]->failure();
  if (sentence.empty() && models_[1] != nullptr) sentence = models_[1]->failure();
  return sentence;
}

size_t Engine::add(std::unique_ptr<Decoder> decoder, const Budget::Limits& work) {
  expects(decoder->num_guide_cells() == 0 || models_[1] != nullptr, "add: a guided request needs a guide");
  check(*decoder);
  Request& request = requests_[num_added_];
  request.decoder = std::move(decoder);
  request.work = work;
  return num_added_++;
}

SequenceShape Engine::shape_for(const Decoder& decoder) const {
  const BackendNeeds needs = decoder.needs();
  return {decoder.num_cells(), remembers_outputs_ || needs.remembers_outputs, needs.kept_layers};
}

int64_t Engine::rollout_bytes(const Decoder& decoder) const {
  if (!decoder.needs().wants_rollout) return 0;
  const int64_t cells = decoder.num_cells();  // all of which the first pass computes
  return models_[0]->config().num_layers * cells * cells * static_cast<int64_t>(sizeof(float));
}

int64_t Engine::memory_for(const Decoder& decoder, const KvPrefix& prefix) const {
  const SequenceShape shape = shape_for(decoder);
  const int64_t bytes = pools_[0]->bytes_for(shape, prefix.count) +
                        pools_[0]->bytes_for(shape) * (decoder.num_sequences() - 1) + rollout_bytes(decoder);
  if (decoder.num_guide_cells() == 0) return bytes;
  return bytes + pools_[1]->bytes_for({decoder.num_guide_cells()});
}

std::optional<Engine::FoundPrefix> Engine::make_room(const Decoder& decoder) {
  FoundPrefix found = find_prefix(decoder, running_);
  const auto fits = [&](int64_t held, const KvPrefix& prefix) {
    return memory_for(decoder, prefix) <= most_memory_ - held;
  };
  const auto held = [&] { return pools_[0]->bytes() + (pools_[1] == nullptr ? 0 : pools_[1]->bytes()); };
  if (fits(held(), found.kv)) return found;
  if (!fits(memory_in_use(), {}) && !fits(measure_memory(found.kv.sequence), found.kv)) return {};
  while (!fits(held(), found.kv)) {
    if (!prefixes_ || !prefixes_->evict()) return {};
    found = find_prefix(decoder, running_);
  }
  return found;
}

bool Engine::make_sequences(Request& request, const KvPrefix& prefix) {
  memory_in_use_.reset();
  const Decoder& decoder = *request.decoder;
  auto& own = request.sequences[0];
  own.push_back(pools_[0]->make_sequence(shape_for(decoder), prefix));
  while (std::ssize(own) < decoder.num_sequences()) {
    own.push_back(pools_[0]->make_sequence(shape_for(decoder)));
  }
  auto& of_guide = request.sequences[1];
  if (decoder.num_guide_cells() > 0)
    of_guide.push_back(pools_[1]->make_sequence({decoder.num_guide_cells()}));
  const auto is_missing = [](const auto& sequence) { return sequence == nullptr; };
  if (std::ranges::none_of(own, is_missing) && std::ranges::none_of(of_guide, is_missing)) return true;
  free_sequences(request);
  return false;
}

void Engine::free_sequences(Request& request) {
  memory_in_use_.reset();
  for (auto& sequences : request.sequences) sequences.clear();
}

int64_t Engine::planned_rows(const Decoder& decoder) const {
  const int64_t cells = decoder.num_cells();
  const std::optional<BaselineRequest> baseline = decoder.measurements().baseline_request();
  if (!baseline) return cells;
  return std::max(cells, baseline_cost(models_[0]->config(), models_[0]->bytes_of_passes(), *baseline).rows);
}

int64_t Engine::memory_in_use() const {
  if (!memory_in_use_) memory_in_use_ = measure_memory(nullptr);
  return *memory_in_use_;
}

int64_t Engine::measure_memory(const KvSequence* with) const {
  int64_t bytes = 0;
  for (size_t role = 0; role < 2; ++role) {
    std::vector<const KvSequence*> sequences;
    if (role == 0 && with != nullptr) sequences.push_back(with);
    for (const size_t index : running_) {
      for (const auto& sequence : requests_.at(index).sequences[role]) sequences.push_back(sequence.get());
    }
    if (!sequences.empty()) bytes += pools_[role]->bytes_of(sequences);
  }
  return bytes;
}

void Engine::share_prefixes(int64_t most_bytes) {
  prefixes_.emplace(*pools_[0], most_bytes);
}

void Engine::remove(size_t request) {
  if (std::erase(running_, request) > 0) retire(requests_.at(request));
  requests_.erase(request);
}

void Engine::discard(size_t request) noexcept {
  std::erase(running_, request);
  memory_in_use_.reset();
  requests_.erase(request);
}

void Engine::retire(Request& request) {
  const ExactPrefix prefix = request.decoder->exact_prefix();
  if (prefixes_ && prefix.block_length > 0 && !request.sequences[0].empty()) {
    const std::span<const TokenId> tokens = request.decoder->canvas();
    try {
      prefixes_->keep(prefix.block_length, tokens.first(static_cast<size_t>(prefix.kept)),
                      *request.sequences[0].front());
    } catch (const std::exception&) {  // prefixes only save time; a failed device shows in the next pass
      prefixes_->clear();
    }
  }
  free_sequences(request);
}

void Engine::admit() {
  for (; running_.size() < max_running_ && next_ < num_added_; ++next_) {
    const auto found = requests_.find(next_);
    if (found == requests_.end()) continue;  // removed
    Request& request = found->second;
    const Decoder& decoder = *request.decoder;
    if (decoder.done()) continue;
    const std::optional<FoundPrefix> prefix = make_room(decoder);
    if (!prefix) return;
    request.seeks_prefix = prefix->is_being_computed;
    if (!make_sequences(request, prefix->kv)) {
      if (!running_.empty()) return;
      end_failed(next_++, "the device has too little memory left for the request's keys and values");
      continue;
    }
    skip_prefix(request, prefix->kv);
    for (const size_t index : running_) {
      const int64_t fair_share_rows = requests_.at(index).fair_share_rows;
      request.fair_share_rows =
          index == running_.front() ? fair_share_rows : std::min(request.fair_share_rows, fair_share_rows);
    }
    request.clock.restart();
    request.observed_before = observing_seconds_;
    running_.push_back(next_);
  }
}

Engine::FoundPrefix Engine::find_prefix(const Decoder& decoder, std::span<const size_t> earlier) {
  const ExactPrefix own = decoder.exact_prefix();
  if (!prefixes_ || own.block_length == 0) return {};
  const std::span<const TokenId> tokens =
      decoder.canvas().first(static_cast<size_t>(std::max(0, own.wanted)));
  KvPrefix best = prefixes_->find(own.block_length, tokens);
  int64_t promised = best.count;
  for (const size_t index : earlier) {
    const Request& other = requests_.at(index);
    const ExactPrefix theirs = other.decoder->exact_prefix();
    if (theirs.block_length != own.block_length) continue;
    const int32_t common = common_prefix(tokens, other.decoder->canvas());
    const int32_t kept = whole_tiles(std::min(common, theirs.kept));
    if (kept > best.count) best = {other.sequences[0].front().get(), kept};
    promised =
        std::max<int64_t>(promised, whole_tiles(std::min(common, std::max(theirs.kept, theirs.promised))));
  }
  if (promised > best.count) return {{}, true};
  best.count -= best.count % own.block_length;
  if (best.count == 0) return {};
  return {best, false};
}

void Engine::take_prefixes() {
  for (auto index = running_.begin(); index != running_.end(); ++index) {
    Request& request = requests_.at(*index);
    if (!request.seeks_prefix) continue;
    const FoundPrefix found = find_prefix(*request.decoder, {running_.begin(), index});
    if (found.is_being_computed) continue;
    request.seeks_prefix = false;
    memory_in_use_.reset();
    if (found.kv.count > 0) pools_[0]->take_prefix(*request.sequences[0].front(), found.kv);
    skip_prefix(request, found.kv);
  }
}

void Engine::skip_prefix(Request& request, const KvPrefix& prefix) {
  if (prefix.count == 0) return;
  const auto count = static_cast<int32_t>(prefix.count);
  request.decoder->skip_prefix(count);
  request.statistics.shared_tokens = count;
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
  struct Turn {
    size_t index;
    int64_t rows;
    int64_t share;  // fair_share_rows after its constraint's work
  };
  std::vector<Turn> wanting;
  for (const size_t index : running_) {
    Request& request = requests_.at(index);
    const bool takes_part = !request.seeks_prefix && !request.decoder->done();
    if (!takes_part || request.decoder->role() != role) continue;
    const int64_t rows = rows_of_turn(request);
    wanting.push_back({index, rows, request.fair_share_rows + *request.constraint_rows});
  }
  std::ranges::stable_sort(wanting, [](const Turn& a, const Turn& b) { return a.share < b.share; });
  std::vector<size_t> chosen;
  int64_t rows_left = most_rows_;
  for (const Turn& turn : wanting) {
    if (!chosen.empty() && turn.rows > rows_left) continue;
    chosen.push_back(turn.index);
    rows_left -= turn.rows;
  }
  others_wait_ = chosen.size() < wanting.size();
  if (others_wait_) {
    for (const size_t index : chosen) {
      Request& request = requests_.at(index);
      request.fair_share_rows += request.decoder->plan().num_rows();
    }
  }
  std::ranges::sort(chosen);
  return chosen;
}

int64_t Engine::rows_of_constraint(int64_t steps, const StepCost& pass) {
  // FLOP of a pass in the time of one Budget step, measured by `lacuna bench step --json-schema ... --threads
  // 1`: 209 for mini-llada (256 rows), 119 for random:llada-8b,layers=1 (64 rows), AVX-512. A constraint uses
  // one thread.
  constexpr double kFlopsPerStep = 200;
  if (steps <= 0 || pass.rows <= 0 || pass.flops() <= 0) return 0;
  const double flops_of_row = static_cast<double>(pass.flops()) / static_cast<double>(pass.rows);
  return std::llround(static_cast<double>(steps) * kFlopsPerStep / flops_of_row);
}

int64_t Engine::rows_of_turn(Request& request) const {
  const StepPlan& plan = request.decoder->plan();
  if (!request.constraint_rows) {
    const int64_t steps = request.decoder->constraint_steps();
    const BackendModel& model = *models_[static_cast<size_t>(request.decoder->role())];
    request.constraint_rows =
        steps == 0 ? 0
                   : rows_of_constraint(steps, cost(model.config(), model.bytes_of_passes(), work_of(plan)));
  }
  return plan.num_rows() + *request.constraint_rows;
}

void Engine::update_baseline(Request& request) const {
  std::optional<BaselineRequest> wanted = request.decoder->measurements().baseline_request();
  if (!wanted) {
    request.statistics.baseline = request.statistics.uncached;
  } else if (wanted != request.baseline_request) {
    request.statistics.baseline = baseline_cost(models_[0]->config(), models_[0]->bytes_of_passes(), *wanted);
  }
  request.baseline_request = wanted;
}

void Engine::run_pass(ModelRole role, const StepObserver& observe) {
  const std::vector<size_t> chosen = choose_requests(role);
  if (chosen.empty()) return;
  members_.clear();
  for (const size_t index : chosen) {
    Request& request = requests_.at(index);
    members_.push_back({request.decoder.get(), request.sequences[static_cast<size_t>(role)], request.work});
  }
  const BackendModel& model = *models_[static_cast<size_t>(role)];
  const Stopwatch clock;
  const std::span<PassPart> parts =
      loop_.make_pass([&](const StepPlan& plan,
                          std::span<KvSequence* const> sequences) { return model.submit(plan, sequences); },
                      members_);
  const double seconds = clock.seconds();

  const ModelConfig& config = model.config();
  const ModelBytes bytes = model.bytes_of_passes();
  for (size_t i = 0; i < chosen.size(); ++i) {
    const PassPart& part = parts[i];
    if (!part.failure.empty()) continue;
    Request& request = requests_.at(chosen[i]);
    const StepCost pass_cost = cost(config, bytes, part.work);
    request.constraint_rows = rows_of_constraint(part.own_steps, pass_cost);
    if (others_wait_) request.fair_share_rows += *request.constraint_rows;
    RunStatistics& statistics = request.statistics;
    statistics.cost += pass_cost;
    statistics.uncached += cost(config, bytes, part.uncached);
    statistics.steps += role == ModelRole::kMain ? 1 : 0;
    statistics.guide_rows += role == ModelRole::kGuide ? pass_cost.rows : 0;
    ++statistics.forward_passes;
    update_baseline(request);
    statistics.seconds = request.clock.seconds() - (observing_seconds_ - request.observed_before);
    if (observe) {
      const Stopwatch observing;
      const KvSequence* sequence = request.sequences[0].front().get();
      observe(
          {chosen[i], *request.decoder, *part.plan, part.report, statistics, pass_cost, sequence, seconds});
      observing_seconds_ += observing.seconds();
    }
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (!parts[i].failure.empty()) end_failed(chosen[i], parts[i].failure);
  }
}

void Engine::end_failed(size_t index, const std::string& failure) {
  std::erase(running_, index);
  Request& request = requests_.at(index);
  free_sequences(request);  // keeps no prefix of a failed request
  if (!failed_) throw InputError("{}", failure);
  failed_(index, failure);
}

void Engine::run(const StepObserver& observe) {
  while (step(observe)) {
  }
}

}  // namespace lacuna
