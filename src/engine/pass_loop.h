// How one forward pass is made for any number of decoders: the only code that knows the order of plan, pass,
// apply and follow-up. The engine, the instruments and `lacuna bench decode` all drive it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "cache/output_cache.h"
#include "decode/decoder.h"
#include "kernels/matmul.h"
#include "model/cost.h"
#include "model/model.h"

namespace lacuna {

/// What computes passes: a model on this machine, or a stand-in for one.
class PassRunner {
 public:
  virtual ~PassRunner() = default;
  /// Computes a pass. `plan` and `caches` outlive the follow-up.
  ///   caches  one per sequence that the plan names
  virtual PassResult run(const StepPlan& plan, std::span<KvCache* const> caches) = 0;
  /// Asks more of the rows of the last pass; at most once per pass.
  ///   outputs  one per sequence of the plan, nullptr where nothing is remembered; or empty
  virtual FollowUpResult follow_up(const FollowUp& wanted, std::span<OutputCache* const> outputs) = 0;
};

/// Runs passes of a model in a workspace of its own.
class ModelRunner final : public PassRunner {
 public:
  ModelRunner(const Model& model, const KernelContext& context) : model_(model), context_(context) {}

  PassResult run(const StepPlan& plan, std::span<KvCache* const> caches) override {
    plan_ = &plan;
    return model_.forward(context_, plan, caches, workspace_);
  }
  FollowUpResult follow_up(const FollowUp& wanted, std::span<OutputCache* const> outputs) override {
    return model_.follow_up(context_, *plan_, wanted, outputs, workspace_);
  }

 private:
  const Model& model_;
  const KernelContext context_;
  Workspace workspace_;
  const StepPlan* plan_ = nullptr;  // of the last pass
};

/// A decoder and the stores of its sequences.
struct PassMember {
  Decoder* decoder = nullptr;
  std::span<KvCache> caches;            ///< of the model that the pass runs on, one per sequence
  std::span<OutputCache> outputs = {};  ///< one per sequence, or empty: nothing is remembered
};

/// What a pass did for one of its members.
struct PassPart {
  const StepPlan* plan = nullptr;  ///< the decoder's own; valid until its next plan()
  StepReport report;
  PassWork work;      ///< computed, with the follow-up
  PassWork uncached;  ///< what the pass would have computed without a cache or lock
  /// Not empty: the model computed logits that are infinite or NaN, as this sentence says. The decoder was
  /// not given them, and its request cannot continue.
  std::string failure;
  int32_t first_row = 0;   ///< of the plan within the pass
  int32_t first_rule = 0;  ///< likewise, of its sampling rules
};

class PassLoop {
 public:
  /// Makes one pass for all members, none of whom is done: appends their plans, runs them, lets each decoder
  /// take its own results, then the same for their follow-ups, which share one call. Returns one part per
  /// member, in their order, valid until the next call.
  std::span<PassPart> make_pass(PassRunner& runner, std::span<const PassMember> members);

 private:
  void gather(std::span<const PassMember> members);
  void apply(const PassResult& result, std::span<const PassMember> members);
  void follow_up(PassRunner& runner, std::span<const PassMember> members);

  std::vector<PassPart> parts_;
  StepPlan plan_;  // all members' plans
  std::vector<KvCache*> caches_;
  std::vector<OutputCache*> outputs_;
  std::vector<LogitRow> logits_;  // of the follow-up
  std::vector<DriftProbe> probes_;
};

}  // namespace lacuna
