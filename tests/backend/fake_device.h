// A device for tests: computes what the wrapped backend computes, but apart and late, so that whoever looks
// at its memory, or at results that are not theirs (yet, or any more), sees rubbish.
#pragma once

#include <algorithm>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"

namespace lacuna {

/// Results that nobody may read.
template <typename T>
void poison(std::vector<T>& values) {
  constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
  for (T& value : values) {
    if constexpr (std::is_same_v<T, RowStatistics>) {
      value = {.token = -1,
               .confidence = kNotANumber,
               .best_logit = kNotANumber,
               .best_token = -1,
               .scored_rank = -1,
               .scored_logit = kNotANumber,
               .scored_probability = kNotANumber,
               .is_finite = false};
    } else if constexpr (std::is_same_v<T, Drift>) {
      value = {kNotANumber, kNotANumber};
    } else if constexpr (std::is_same_v<T, ClassStatistics>) {
      value = {-1, kNotANumber, kNotANumber};
    } else {
      value = kNotANumber;
    }
  }
}

/// Memory that outlives its tickets, so that a late reader finds poison in it instead of someone else's data.
struct ResultMemory {
  std::vector<RowStatistics> samples;
  std::vector<float> kv_drift;
  std::vector<Drift> drifts;
  std::vector<ClassStatistics> classes;

  void poison_all() {
    poison(samples);
    poison(kv_drift);
    poison(drifts);
    poison(classes);
  }
};

class FakeDevice final : public BackendModel {
 public:
  explicit FakeDevice(std::shared_ptr<const BackendModel> inner) : inner_(std::move(inner)) {}

  const ModelConfig& config() const override { return inner_->config(); }
  std::string_view device() const override { return "fake"; }
  DType dtype() const override { return inner_->dtype(); }
  int64_t weight_bytes() const override { return inner_->weight_bytes(); }
  ModelBytes bytes_of_passes() const override { return inner_->bytes_of_passes(); }
  std::unique_ptr<KvPool> make_pool(int64_t limit) const override {
    return std::make_unique<Pool>(inner_->make_pool(limit), *this);
  }
  using BackendModel::submit;
  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences,
                                     const PassOptions& options) const override {
    if (options.observe_attention) throw InputError("this device does not show attention");
    return std::make_unique<Ticket>(*this, plan, sequences);
  }
  void keep_soft_embeddings(KvSequence&, std::span<const int32_t>, ConstMatrix<float>) const override {
    throw InputError("this device takes no distributions of the host");
  }
  void compare_outputs(ConstMatrix<float>, ConstMatrix<float>, std::span<Drift>) const override {
    throw InputError("this device does not compare outputs of the host");
  }

  /// Passes in the order in which they were computed, as submit() numbered them from 0.
  const std::vector<int>& computed() const { return computed_; }
  size_t num_pending() const { return pending_.size(); }

 private:
  class Sequence final : public KvSequence {
   public:
    Sequence(std::unique_ptr<KvSequence> inner, const FakeDevice& device)
        : KvSequence(inner->shape()), inner_(std::move(inner)), device_(device) {}
    int32_t sink_cell() const override { return inner_->sink_cell(); }
    void read_cells(int64_t, int64_t, IndexRange, Matrix<float>, Matrix<float>) const override {
      throw InputError("this device does not show its cells");
    }
    void read_outputs(std::span<const int32_t>, Matrix<float>) const override {
      throw InputError("this device does not show its outputs");
    }
    KvSequence& inner(const FakeDevice& device) const {
      expects(&device == &device_, "a sequence belongs to the backend that made it");
      return *inner_;
    }

   private:
    std::unique_ptr<KvSequence> inner_;
    const FakeDevice& device_;
  };

  class Pool final : public KvPool {
   public:
    Pool(std::unique_ptr<KvPool> inner, const FakeDevice& device)
        : inner_(std::move(inner)), device_(device) {}
    int64_t bytes_for(const SequenceShape& shape, int64_t shared) const override {
      return inner_->bytes_for(shape, shared);
    }
    int64_t limit() const override { return inner_->limit(); }
    int64_t bytes() const override { return inner_->bytes(); }
    int64_t bytes_of(std::span<const KvSequence* const> sequences) const override {
      std::vector<const KvSequence*> inner;
      for (const KvSequence* sequence : sequences) inner.push_back(&device_.inner_of(*sequence));
      return inner_->bytes_of(inner);
    }
    using KvPool::make_sequence;
    std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape, const KvPrefix& prefix) override {
      std::unique_ptr<KvSequence> made = inner_->make_sequence(shape, inner(prefix));
      if (made == nullptr) return nullptr;
      return std::make_unique<Sequence>(std::move(made), device_);
    }
    void take_prefix(KvSequence& to, const KvPrefix& prefix) override {
      inner_->take_prefix(device_.inner_of(to), inner(prefix));
    }

   private:
    KvPrefix inner(const KvPrefix& prefix) const {
      if (prefix.count == 0) return {};
      return {&device_.inner_of(*prefix.sequence), prefix.count};
    }

    std::unique_ptr<KvPool> inner_;
    const FakeDevice& device_;
  };

  class Ticket final : public PassTicket {
   public:
    Ticket(const FakeDevice& device, const StepPlan& plan, std::span<KvSequence* const> sequences)
        : device_(device), number_(device.num_submitted_++), plan_(plan) {
      for (KvSequence* sequence : sequences) sequences_.push_back(&device.inner_of(*sequence));
      device_.pending_.push_back(this);
    }
    ~Ticket() override {
      compute_in_order();  // a pass that was submitted writes its cells, whoever waits for it
      for (ResultMemory* memory : {result_memory_, follow_up_memory_}) {
        if (memory != nullptr) memory->poison_all();
      }
    }

    const PassResult& wait() override {
      compute_in_order();
      if (result_memory_ == nullptr) {
        result_memory_ = &device_.new_memory();
        const PassResult& inner = ticket_->wait();
        result_memory_->samples.assign(inner.samples.begin(), inner.samples.end());
        result_memory_->kv_drift.assign(inner.kv_drift.begin(), inner.kv_drift.end());
        result_ = {result_memory_->samples, result_memory_->kv_drift};
      }
      return result_;
    }
    FollowUpResult follow_up(const FollowUp& wanted) override {
      expects(result_memory_ != nullptr, "follow_up: after wait()");
      if (follow_up_memory_ != nullptr) follow_up_memory_->poison_all();
      follow_up_memory_ = &device_.new_memory();
      const FollowUpResult inner = ticket_->follow_up(wanted);
      follow_up_memory_->samples.assign(inner.samples.begin(), inner.samples.end());
      follow_up_memory_->drifts.assign(inner.drifts.begin(), inner.drifts.end());
      follow_up_memory_->classes.assign(inner.classes.begin(), inner.classes.end());
      return {follow_up_memory_->samples, follow_up_memory_->drifts, follow_up_memory_->classes};
    }
    void remember_outputs() override {
      expects(result_memory_ != nullptr, "remember_outputs: after wait()");
      ticket_->remember_outputs();
    }
    void read_logits(std::span<const LogitRow>, Matrix<float>) override {
      throw InputError("this device does not show raw logits");
    }
    PassTimes times() const override { return {}; }

   private:
    bool shares_sequence(const Ticket& other) const {
      return std::any_of(sequences_.begin(), sequences_.end(), [&](const KvSequence* sequence) {
        return std::find(other.sequences_.begin(), other.sequences_.end(), sequence) !=
               other.sequences_.end();
      });
    }
    /// Earlier passes over the same sequences first; all others stay where they are.
    void compute_in_order() {
      if (ticket_ != nullptr) return;
      const std::list<Ticket*> pending = device_.pending_;
      for (Ticket* earlier : pending) {
        if (earlier == this) break;
        if (earlier->ticket_ == nullptr && shares_sequence(*earlier)) earlier->compute_in_order();
      }
      device_.pending_.remove(this);
      device_.computed_.push_back(number_);
      ticket_ = device_.inner_->submit(plan_, sequences_);
    }

    const FakeDevice& device_;
    int number_;
    StepPlan plan_;  // as it was submitted
    std::vector<KvSequence*> sequences_;
    std::unique_ptr<PassTicket> ticket_;  // of the wrapped backend, once computed
    ResultMemory* result_memory_ = nullptr;
    ResultMemory* follow_up_memory_ = nullptr;
    PassResult result_;
  };

  KvSequence& inner_of(const KvSequence& sequence) const {
    const auto* own = dynamic_cast<const Sequence*>(&sequence);
    expects(own != nullptr, "a sequence belongs to the backend that made it");
    return own->inner(*this);
  }
  ResultMemory& new_memory() const { return memories_.emplace_back(); }

  std::shared_ptr<const BackendModel> inner_;
  mutable int num_submitted_ = 0;
  mutable std::list<Ticket*> pending_;  // in the order of submit()
  mutable std::vector<int> computed_;
  mutable std::list<ResultMemory> memories_;
};

}  // namespace lacuna
