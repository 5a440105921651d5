// One model over several ranks, each with its part of the layers (model/part.h). Rank 0 runs everything above
// the backend and sees one BackendModel; the others execute its commands (command.h).
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "base/communicator.h"
#include "model/model.h"

namespace lacuna {

/// Waits until all ranks have loaded their parts, and compares their identities. Throws the same InputError
/// on all ranks if a rank failed to load or differs from rank 0.
///   identity  describes program, kernels, formats and model
///   error     why this rank failed; empty: it did not
void agree_on_model(Communicator& ranks, const std::string& identity, const std::string& error);

/// On rank 0: the model of all ranks. All ranks compute its passes, which may throw RankError; rank 0 alone
/// computes follow-ups and reads results. Its pools count rank 0's bytes, the largest of all ranks. Throws
/// InputError on requests to observe attention or read K/V cells. Its destructor ends follow() on other
/// ranks.
std::shared_ptr<const BackendModel> on_ranks(std::shared_ptr<const Model> part,
                                             std::shared_ptr<const CpuDevice> device,
                                             std::shared_ptr<Communicator> ranks);

/// On rank 0, between passes: checks that all ranks of a model from on_ranks() respond. Throws RankError.
void ping_ranks(const BackendModel& sharded);

/// On the other ranks: executes rank 0's commands until its model is destroyed. Throws RankError if another
/// rank fails.
void follow(const Model& part, const CpuDevice& device, Communicator& ranks);

}  // namespace lacuna
