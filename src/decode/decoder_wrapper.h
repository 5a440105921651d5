// A decoder that forwards every call to another one: the base of wrappers that change a part of its behavior.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/decoder.h"

namespace lacuna {

class DecoderWrapper : public Decoder {
 public:
  explicit DecoderWrapper(std::unique_ptr<Decoder> inner) : inner_(std::move(inner)) {}

  int32_t num_sequences() const override { return inner_->num_sequences(); }
  int32_t num_cells() const override { return inner_->num_cells(); }
  int32_t num_guide_cells() const override { return inner_->num_guide_cells(); }
  BackendNeeds needs() const override { return inner_->needs(); }
  bool done() const override { return inner_->done(); }
  ModelRole role() const override { return inner_->role(); }
  ExactPrefix exact_prefix() const override { return inner_->exact_prefix(); }
  void skip_prefix(int32_t count) override { inner_->skip_prefix(count); }
  const StepPlan& plan() override { return inner_->plan(); }
  PassWork uncached_work() const override { return inner_->uncached_work(); }
  std::optional<StepPlan> uncached_plan() const override { return inner_->uncached_plan(); }
  int64_t constraint_steps() const override { return inner_->constraint_steps(); }
  StepReport apply(const PassResult& result) override { return inner_->apply(result); }
  FollowUp follow_up() const override { return inner_->follow_up(); }
  void apply_follow_up(const FollowUpResult& result, StepReport& report) override {
    inner_->apply_follow_up(result, report);
  }
  Constrainable* constrainable() override { return inner_->constrainable(); }
  const Measurements& measurements() const override { return inner_->measurements(); }
  std::span<const TokenId> canvas() const override { return inner_->canvas(); }
  int32_t prompt_length() const override { return inner_->prompt_length(); }
  int32_t num_final() const override { return inner_->num_final(); }
  TokenId held_token(int32_t position) const override { return inner_->held_token(position); }
  IndexRange block() const override { return inner_->block(); }
  std::span<const IndexRange> holes() const override { return inner_->holes(); }
  StopReason stop_reason() const override { return inner_->stop_reason(); }

 protected:
  Decoder& inner() const { return *inner_; }

 private:
  std::unique_ptr<Decoder> inner_;
};

/// A wrapper with follow-ups of its own, before the wrapped decoder takes the samples or afterwards.
class FollowUpWrapper : public DecoderWrapper {
 public:
  using DecoderWrapper::DecoderWrapper;

  FollowUp follow_up() const final {
    const FollowUp own = own_follow_up();
    return own.empty() ? inner().follow_up() : own;
  }
  void apply_follow_up(const FollowUpResult& result, StepReport& report) final {
    if (!own_follow_up().empty()) {
      apply_own_follow_up(result, report);
    } else if (!inner().follow_up().empty()) {  // else apply_inner() has called it with no results
      apply_inner_follow_up(result, report);
    }
  }

 protected:
  /// Follow-up that the wrapper waits for; empty if none.
  virtual FollowUp own_follow_up() const = 0;
  /// Takes the results of own_follow_up(), which then must become empty or the next request.
  virtual void apply_own_follow_up(const FollowUpResult& result, StepReport& report) = 0;
  /// Passes the results of the wrapped decoder's follow_up() on to it.
  virtual void apply_inner_follow_up(const FollowUpResult& result, StepReport& report) {
    inner().apply_follow_up(result, report);
  }
  StepReport apply_inner(const PassResult& result) {
    const bool remembers = inner().needs().remembers_outputs && inner().role() == ModelRole::kMain;
    StepReport report = inner().apply(result);
    if (remembers && inner().follow_up().empty()) inner().apply_follow_up({}, report);
    return report;
  }
};

}  // namespace lacuna
