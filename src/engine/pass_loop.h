// One forward pass for any number of decoders, in the order plan, pass, apply, follow-up. The engine, the
// instruments and `lacuna bench decode` use it.
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

/// Submits a pass: BackendModel::submit or a substitute. The plan and the sequences must outlive the ticket.
using SubmitPass =
    std::function<std::unique_ptr<PassTicket>(const StepPlan& plan, std::span<KvSequence* const> sequences)>;

/// A decoder and its sequences.
struct PassMember {
  Decoder* decoder = nullptr;
  /// The decoder's sequences on the model that runs the pass.
  std::span<const std::unique_ptr<KvSequence>> sequences = {};
  /// Limits of the decoder's own work, mainly of its constraint.
  Budget::Limits work = {};
};

/// Result of a pass for one of its requests.
struct PassPart {
  const StepPlan* plan = nullptr;  ///< the decoder's plan; valid until its next plan()
  StepReport report;
  PassWork work;      ///< work of the pass and its follow-ups
  PassWork uncached;  ///< work of the pass without a cache or lock
  /// Not empty if the request cannot continue. Then it says that logits were infinite or NaN (the decoder
  /// does not get them), or that the decoder's work exceeded its limits.
  std::string failure;
  int64_t own_steps = 0;   ///< Budget steps spent by the decoder
  int32_t first_row = 0;   ///< first row of the plan in the pass
  int32_t first_rule = 0;  ///< first of its sampling rules in the pass
};

class PassLoop {
 public:
  /// Makes one pass for all members, none of which is done: concatenates their plans, runs the pass and gives
  /// each decoder its results. Then runs follow-ups until no decoder wants one; each round is one call.
  /// Returns one part per member, in their order, valid until the next call.
  std::span<PassPart> make_pass(const SubmitPass& submit, std::span<const PassMember> members);

 private:
  void gather(std::span<const PassMember> members);
  /// Calls `take`, in which a decoder processes its results, within the member's limits.
  template <typename Take>
  static void within_limits(const PassMember& member, PassPart& part, const Take& take);
  void apply(const PassResult& result, std::span<const PassMember> members);
  void follow_up(PassTicket& ticket, std::span<const PassMember> members);
  void gather_follow_ups(std::span<const PassMember> members);

  std::vector<PassPart> parts_;
  StepPlan plan_;  // all members' plans
  std::vector<KvSequence*> sequences_;
  std::vector<LogitRow> logits_;  // for the follow-up
  std::vector<DriftProbe> probes_;
  std::vector<ClassRow> classes_;
};

}  // namespace lacuna
