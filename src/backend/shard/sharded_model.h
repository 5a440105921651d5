// One model over several ranks, each of which keeps its part of the layers (model/part.h). Rank 0 runs
// everything above the backend and sees one BackendModel; the others repeat its passes and what it does with
// sequences, as it tells them.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "base/communicator.h"
#include "model/model.h"

namespace lacuna {

/// Waits until all ranks have loaded their parts, which may take long, and compares what they are about to
/// compute with. InputError on all ranks, with the same sentence, where a rank could not load its part or has
/// something else than rank 0.
///   identity  of program, kernels, formats and model, in words
///   error     what the rank could not do; empty: nothing
void agree_on_model(Communicator& ranks, const std::string& identity, const std::string& error);

/// On rank 0: the model of all ranks. Its passes are made by all of them and throw RankError; follow-ups, and
/// whatever else reads a pass that has been made, are computed by rank 0 alone. Its pools count rank 0's
/// bytes, which are the most. Refuses to observe attention, and to read K/V cells, with an InputError. Its
/// destruction lets the other ranks return from follow().
std::shared_ptr<const BackendModel> on_ranks(std::shared_ptr<const Model> part,
                                             std::shared_ptr<const CpuDevice> device,
                                             std::shared_ptr<Communicator> ranks);

/// On rank 0, between passes: all ranks of a model that on_ranks() made tell each other that they live.
/// Throws RankError.
void ping_ranks(const BackendModel& sharded);

/// On the other ranks: repeats what rank 0 does, until its model is destroyed. Throws RankError where another
/// rank fails.
void follow(const Model& part, const CpuDevice& device, Communicator& ranks);

}  // namespace lacuna
