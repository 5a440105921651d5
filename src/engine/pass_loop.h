// How one forward pass is made for any number of decoders: the only code that knows the order of plan, pass,
// apply and follow-up. The engine, the instruments and `lacuna bench decode` all drive it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/budget.h"
#include "decode/decoder.h"
#include "model/cost.h"

namespace lacuna {

/// Function that submits passes: BackendModel::submit, or a stand-in for it. The plan and the sequences
/// outlive the ticket.
using SubmitPass =
    std::function<std::unique_ptr<PassTicket>(const StepPlan& plan, std::span<KvSequence* const> sequences)>;

/// A decoder and its sequences.
struct PassMember {
  Decoder* decoder = nullptr;
  /// Sequences of the model that the pass runs on, as many as the decoder has there.
  std::span<const std::unique_ptr<KvSequence>> sequences = {};
  /// Limits of the decoder's own work, that of a constraint above all.
  Budget::Limits work = {};
};

/// Result of a pass for one of its requests.
struct PassPart {
  const StepPlan* plan = nullptr;  ///< the decoder's own; valid until its next plan()
  StepReport report;
  PassWork work;      ///< computed, with the follow-up
  PassWork uncached;  ///< work of the pass without a cache or lock
  /// Not empty: the model computed logits that are infinite or NaN, which the decoder was not given, or the
  /// decoder's own work was over its limits, as this sentence says. The request cannot continue.
  std::string failure;
  int64_t own_steps = 0;   ///< steps of a Budget that the decoder's own work took
  int32_t first_row = 0;   ///< first row of the plan in the pass
  int32_t first_rule = 0;  ///< likewise, of its sampling rules
};

class PassLoop {
 public:
  /// Makes one pass for all members, none of whom is done: appends their plans, runs them, lets each decoder
  /// take its own results, then the same for their follow-ups, until nobody asks any more; those that are
  /// asked at the same time share one call. Returns one part per member, in their order, valid until the next
  /// call.
  std::span<PassPart> make_pass(const SubmitPass& submit, std::span<const PassMember> members);

 private:
  void gather(std::span<const PassMember> members);
  /// Calls `take`, in which a decoder works on its results.
  template <typename Take>
  static void within_limits(const PassMember& member, PassPart& part, const Take& take);
  void apply(const PassResult& result, std::span<const PassMember> members);
  void follow_up(PassTicket& ticket, std::span<const PassMember> members);
  void gather_follow_ups(std::span<const PassMember> members);

  std::vector<PassPart> parts_;
  StepPlan plan_;  // all members' plans
  std::vector<KvSequence*> sequences_;
  std::vector<LogitRow> logits_;  // of the follow-up
  std::vector<DriftProbe> probes_;
  std::vector<ClassRow> classes_;
};

}  // namespace lacuna
