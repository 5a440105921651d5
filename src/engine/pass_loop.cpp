#include "engine/pass_loop.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace lacuna {
namespace {

/// Describes a row whose logits were not finite; empty if all were finite.
std::string find_failure(const StepPlan& plan, std::span<const LogitRow> wanted,
                         std::span<const RowStatistics> samples) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].is_finite) continue;
    return fmt::format(
        "the model computed infinite or NaN logits at position {}; its weights may be damaged, or its "
        "activations overflow",
        plan.positions[static_cast<size_t>(wanted[i].row)]);
  }
  return {};
}

/// Takes the first `count` values from the span.
template <typename T>
std::span<T> take(std::span<T>& values, size_t count) {
  const std::span<T> taken = values.first(count);
  values = values.subspan(count);
  return taken;
}

}  // namespace

std::span<PassPart> PassLoop::make_pass(const SubmitPass& submit, std::span<const PassMember> members) {
  gather(members);
  const std::unique_ptr<PassTicket> ticket = submit(plan_, sequences_);
  apply(ticket->wait(), members);
  follow_up(*ticket, members);
  ticket->remember_outputs();
  return parts_;
}

void PassLoop::gather(std::span<const PassMember> members) {
  parts_.clear();
  plan_.clear();
  sequences_.clear();
  for (const PassMember& member : members) {
    PassPart& part = parts_.emplace_back();
    part.plan = &member.decoder->plan();
    part.first_row = plan_.num_rows();
    part.first_rule = static_cast<int32_t>(plan_.rules.size());
    part.work = work_of(*part.plan);
    part.uncached = member.decoder->uncached_work();
    plan_.append(*part.plan, static_cast<int32_t>(sequences_.size()));
    for (const std::unique_ptr<KvSequence>& sequence : member.sequences) {
      sequences_.push_back(sequence.get());
    }
  }
}

template <typename Take>
void PassLoop::within_limits(const PassMember& member, PassPart& part, const Take& take) {
  const Budget budget("constraint", member.work);
  try {
    take();
  } catch (const WorkCancelled& cancelled) {
    part.failure = cancelled.what();
  } catch (const BudgetSpent& spent) {
    part.failure = spent.what();
  }
  part.own_steps += budget.steps_spent();
}

void PassLoop::apply(const PassResult& result, std::span<const PassMember> members) {
  std::span<const RowStatistics> samples = result.samples;
  std::span<const float> kv_drift = result.kv_drift;
  const size_t drifts_per_row = kv_drift.size() / plan_.tokens.size();
  std::span<const double> rollout = result.rollout;
  for (size_t i = 0; i < parts_.size(); ++i) {
    PassPart& part = parts_[i];
    const PassResult own{take(samples, part.plan->logits.size()),
                         take(kv_drift, part.plan->tokens.size() * drifts_per_row),
                         take(rollout, part.plan->rollout_size())};
    part.failure = find_failure(*part.plan, part.plan->logits, own.samples);
    if (!part.failure.empty()) continue;
    leave_out_evicted(*part.plan, own.samples, part.work);
    within_limits(members[i], part, [&] { part.report = members[i].decoder->apply(own); });
  }
}

void PassLoop::gather_follow_ups(std::span<const PassMember> members) {
  logits_.clear();
  probes_.clear();
  classes_.clear();
  for (size_t i = 0; i < parts_.size(); ++i) {
    PassPart& part = parts_[i];
    if (!part.failure.empty()) continue;
    const FollowUp own = members[i].decoder->follow_up();
    part.work.logit_rows += logit_rows_of(own);
    const auto in_pass = [&](LogitRow logit) {
      logit.row += part.first_row;
      if (logit.unconditional_row >= 0) logit.unconditional_row += part.first_row;
      logit.rule += part.first_rule;
      return logit;
    };
    for (const LogitRow& logit : own.logits) logits_.push_back(in_pass(logit));
    for (const ClassRow& row : own.classes) classes_.push_back({in_pass(row.logit), row.classes});
    for (DriftProbe probe : own.probes) {
      probe.row += part.first_row;
      if (probe.unconditional_row >= 0) probe.unconditional_row += part.first_row;
      probes_.push_back(probe);
    }
  }
}

void PassLoop::follow_up(PassTicket& ticket, std::span<const PassMember> members) {
  // Sequences may remember outputs for an observer only; such a decoder is not asked.
  const auto remembers = [](const PassMember& member) {
    return member.decoder->needs().remembers_outputs &&
           std::any_of(member.sequences.begin(), member.sequences.end(),
                       [](const auto& each) { return each->shape().remembers_outputs; });
  };
  constexpr int kMaxRounds = 8;  // a decoder asks twice at most
  const bool any_remembers = std::any_of(members.begin(), members.end(), remembers);
  for (int round = 0;; ++round) {
    const bool is_first = round == 0;
    gather_follow_ups(members);
    const FollowUp wanted{logits_, probes_, classes_};
    if (wanted.empty() && !(is_first && any_remembers)) return;
    expects(round < kMaxRounds, "follow_up: empty once its results were applied");

    FollowUpResult rest = ticket.follow_up(wanted);
    for (size_t i = 0; i < parts_.size(); ++i) {
      PassPart& part = parts_[i];
      if (!part.failure.empty()) continue;
      Decoder& decoder = *members[i].decoder;
      const FollowUp own = decoder.follow_up();
      const FollowUpResult result{take(rest.samples, own.logits.size()), take(rest.drifts, own.probes.size()),
                                  take(rest.classes, count_classes(own.classes))};
      part.failure = find_failure(*part.plan, own.logits, result.samples);
      const bool takes_part = !own.empty() || (is_first && remembers(members[i]));
      if (!part.failure.empty() || !takes_part) continue;
      within_limits(members[i], part, [&] { decoder.apply_follow_up(result, part.report); });
    }
  }
}

}  // namespace lacuna
