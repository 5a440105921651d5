#include <map>
#include <utility>

#include "backend/shard/command.h"
#include "backend/shard/sharded_model.h"
#include "base/error.h"

namespace lacuna {
namespace {

/// A rank's part of all sequences, by the ids that rank 0 assigns.
class FollowedSequences {
 public:
  FollowedSequences(const Model& part, const CpuDevice& device) : part_(part), device_(device) {}

  KvCache& operator[](int64_t sequence) {
    const auto found = caches_.find(sequence);
    expects(found != caches_.end(), "rank 0 names sequences that exist");
    return found->second;
  }

  void apply(const SequenceChange& change) {
    switch (change.kind) {
      case SequenceChange::Kind::kMake:
        caches_.emplace(change.sequence,
                        change.from < 0 ? part_.make_cache(change.num_cells)
                                        : KvCache((*this)[change.from], change.prefix, change.num_cells));
        break;
      case SequenceChange::Kind::kTakePrefix:
        (*this)[change.sequence].share_first_cells((*this)[change.from], change.prefix);
        break;
      case SequenceChange::Kind::kKeepSoftEmbeddings:
        part_.keep_soft_embeddings(
            device_.context(), (*this)[change.sequence], change.cells,
            {change.distributions.data(), std::ssize(change.cells), part_.config().vocab_size});
        break;
      case SequenceChange::Kind::kFree:
        caches_.erase(change.sequence);
        break;
    }
  }

 private:
  const Model& part_;
  const CpuDevice& device_;
  std::map<int64_t, KvCache> caches_;
};

void repeat_passes(const Model& part, const CpuDevice& device, Communicator& ranks) {
  FollowedSequences sequences(part, device);
  Workspace workspace;
  for (uint64_t number = 0;; ++number) {
    const Command command = command_from_bytes(broadcast(ranks, {}, Communicator::Wait::kIdle));
    expects(command.number == number, "commands of rank 0 arrive in their order");
    for (const SequenceChange& change : command.changes) sequences.apply(change);
    if (command.stops) return;
    if (command.is_ping) {
      gather_all(ranks, {});
      continue;
    }
    std::vector<KvCache*> caches;
    for (const int64_t sequence : command.sequences) caches.push_back(&sequences[sequence]);
    part.forward(device.context(), command.plan, caches, workspace);
  }
}

}  // namespace

void follow(const Model& part, const CpuDevice& device, Communicator& ranks) {
  try {
    repeat_passes(part, device, ranks);
  } catch (const RankError&) {
    throw;
  } catch (const std::exception& error) {
    ranks.fail(error.what());
    throw;
  }
}

}  // namespace lacuna
