#include "backend/shard/sharded_model.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "backend/shard/command.h"
#include "base/error.h"

namespace lacuna {
namespace {

/// Rank 0's end of the group. Changes of sequences are queued and sent with the next command.
class Leader {
 public:
  explicit Leader(std::shared_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}
  ~Leader() {
    if (!error_) try_to_stop();
  }
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  int64_t new_sequence() {
    const std::lock_guard lock(queue_mutex_);
    return num_sequences_++;
  }

  void queue(SequenceChange change) {
    const std::lock_guard lock(queue_mutex_);
    changes_.push_back(std::move(change));
  }

  /// Sends the command and computes rank 0's part of it.
  template <typename Compute>
  auto together(Command command, Compute&& compute) {
    const std::lock_guard lock(mutex_);
    if (error_) throw RankError(*error_);
    try {
      send(std::move(command));
      return compute();
    } catch (const RankError& error) {
      error_ = error;
      throw;
    } catch (const std::exception& error) {
      error_ = RankError(0, error.what());
      ranks_->fail(error.what());
      throw;
    }
  }

  /// Waits for a response of every rank.
  void ping() {
    Command command;
    command.is_ping = true;
    together(std::move(command), [&] { return gather_all(*ranks_, {}); });
  }

 private:
  void send(Command command) {
    command.number = num_commands_++;
    {
      const std::lock_guard lock(queue_mutex_);
      command.changes = std::exchange(changes_, {});
    }
    broadcast(*ranks_, to_bytes(command), Communicator::Wait::kBounded);
  }

  void try_to_stop() noexcept {
    try {
      Command command;
      command.stops = true;
      send(std::move(command));
    } catch (const std::exception&) {
      return;  // the ranks have ended
    }
  }

  std::shared_ptr<Communicator> ranks_;
  std::mutex mutex_;  // protects the group
  std::optional<RankError> error_;
  uint64_t num_commands_ = 0;
  std::mutex queue_mutex_;  // protects the members below
  std::vector<SequenceChange> changes_;
  int64_t num_sequences_ = 0;
};

class ShardedSequence final : public KvSequence {
 public:
  ShardedSequence(std::unique_ptr<KvSequence> own, int64_t id, std::shared_ptr<Leader> leader)
      : KvSequence(own->shape()), own_(std::move(own)), id_(id), leader_(std::move(leader)) {}
  ~ShardedSequence() override { leader_->queue({.kind = SequenceChange::Kind::kFree, .sequence = id_}); }

  int32_t sink_cell() const override { return own_->sink_cell(); }
  void read_cells(int64_t /*layer*/, int64_t /*kv_head*/, IndexRange /*cells*/, Matrix<float> /*keys*/,
                  Matrix<float> /*values*/) const override {
    throw InputError(
        "--shard: K/V cells of a model that is sharded over ranks cannot be read; expected one rank");
  }
  void read_outputs(std::span<const int32_t> cells, Matrix<float> out) const override {
    own_->read_outputs(cells, out);
  }

  KvSequence& own() const { return *own_; }
  int64_t id() const { return id_; }

 private:
  std::unique_ptr<KvSequence> own_;
  int64_t id_;
  std::shared_ptr<Leader> leader_;
};

const ShardedSequence& of_ranks(const KvSequence& sequence) {
  return sequence_of<const ShardedSequence>(sequence);
}

class ShardedPool final : public KvPool {
 public:
  ShardedPool(std::unique_ptr<KvPool> own, std::shared_ptr<Leader> leader)
      : own_(std::move(own)), leader_(std::move(leader)) {}

  int64_t bytes_for(const SequenceShape& shape, int64_t shared) const override {
    return own_->bytes_for(shape, shared);
  }
  int64_t limit() const override { return own_->limit(); }
  int64_t bytes() const override { return own_->bytes(); }
  int64_t bytes_of(std::span<const KvSequence* const> sequences) const override {
    std::vector<const KvSequence*> own;
    for (const KvSequence* sequence : sequences) own.push_back(&of_ranks(*sequence).own());
    return own_->bytes_of(own);
  }

  using KvPool::make_sequence;
  std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape, const KvPrefix& prefix) override {
    std::unique_ptr<KvSequence> own = own_->make_sequence(shape, own_prefix(prefix));
    if (own == nullptr) return nullptr;
    const int64_t id = leader_->new_sequence();
    SequenceChange change{.kind = SequenceChange::Kind::kMake, .sequence = id, .num_cells = shape.num_cells};
    add_prefix(prefix, change);
    leader_->queue(std::move(change));
    return std::make_unique<ShardedSequence>(std::move(own), id, leader_);
  }

  void take_prefix(KvSequence& to, const KvPrefix& prefix) override {
    own_->take_prefix(of_ranks(to).own(), own_prefix(prefix));
    SequenceChange change{.kind = SequenceChange::Kind::kTakePrefix, .sequence = of_ranks(to).id()};
    add_prefix(prefix, change);
    leader_->queue(std::move(change));
  }

 private:
  static KvPrefix own_prefix(const KvPrefix& prefix) {
    if (prefix.count == 0) return {};
    return {&of_ranks(*prefix.sequence).own(), prefix.count};
  }
  static void add_prefix(const KvPrefix& prefix, SequenceChange& change) {
    if (prefix.count == 0) return;
    change.from = of_ranks(*prefix.sequence).id();
    change.prefix = prefix.count;
  }

  std::unique_ptr<KvPool> own_;
  std::shared_ptr<Leader> leader_;
};

class ShardedModel final : public BackendModel {
 public:
  ShardedModel(std::shared_ptr<const BackendModel> own, std::shared_ptr<Communicator> ranks)
      : own_(std::move(own)), leader_(std::make_shared<Leader>(std::move(ranks))) {}

  const ModelConfig& config() const override { return own_->config(); }
  std::string_view device() const override { return own_->device(); }
  DType dtype() const override { return own_->dtype(); }
  int64_t weight_bytes() const override { return own_->weight_bytes(); }
  ModelBytes bytes_of_passes() const override { return own_->bytes_of_passes(); }

  std::unique_ptr<KvPool> make_pool(int64_t limit) const override {
    return std::make_unique<ShardedPool>(own_->make_pool(limit), leader_);
  }

  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences,
                                     const PassOptions& options) const override {
    if (options.observe_attention) {
      throw InputError(
          "--shard: the attention of a model that is sharded over ranks cannot be observed; "
          "expected one rank");
    }
    Command command;
    command.plan = plan;
    std::vector<KvSequence*> own;
    for (const KvSequence* sequence : sequences) {
      own.push_back(&of_ranks(*sequence).own());
      command.sequences.push_back(of_ranks(*sequence).id());
    }
    return leader_->together(std::move(command), [&] { return own_->submit(plan, own, options); });
  }

  void ping() const { leader_->ping(); }

  void keep_soft_embeddings(KvSequence& sequence, std::span<const int32_t> cells,
                            ConstMatrix<float> distributions) const override {
    const ShardedSequence& of_all = of_ranks(sequence);
    own_->keep_soft_embeddings(of_all.own(), cells, distributions);
    SequenceChange change{.kind = SequenceChange::Kind::kKeepSoftEmbeddings, .sequence = of_all.id()};
    change.cells.assign(cells.begin(), cells.end());
    for (int64_t row = 0; row < distributions.rows; ++row) {
      const std::span<const float> distribution = distributions.row_span(row);
      change.distributions.insert(change.distributions.end(), distribution.begin(), distribution.end());
    }
    leader_->queue(std::move(change));
  }

  void compare_outputs(ConstMatrix<float> now, ConstMatrix<float> before,
                       std::span<Drift> drifts) const override {
    own_->compare_outputs(now, before, drifts);
  }

 private:
  std::shared_ptr<const BackendModel> own_;
  std::shared_ptr<Leader> leader_;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void ping_ranks(const BackendModel& sharded) {
  const auto* own = dynamic_cast<const ShardedModel*>(&sharded);
  expects(own != nullptr, "ping_ranks: the model is sharded");
  own->ping();
}

void agree_on_model(Communicator& ranks, const std::string& identity, const std::string& error) {
  const auto errors = gather_all(ranks, bytes_of(error), Communicator::Wait::kIdle);
  const auto identities = gather_all(ranks, bytes_of(identity));
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank].empty()) continue;
    if (rank == 0) throw InputError("{}", text_of(errors[rank]));
    throw InputError("rank {}: {}", rank, text_of(errors[rank]));
  }
  for (size_t rank = 1; rank < identities.size(); ++rank) {
    if (identities[rank] == identities.front()) continue;
    throw InputError("rank {} has {}; expected what rank 0 has: {}", rank, text_of(identities[rank]),
                     text_of(identities.front()));
  }
}

std::shared_ptr<const BackendModel> on_ranks(std::shared_ptr<const Model> part,
                                             std::shared_ptr<const CpuDevice> device,
                                             std::shared_ptr<Communicator> ranks) {
  return std::make_shared<const ShardedModel>(on_cpu(std::move(part), std::move(device)), std::move(ranks));
}

}  // namespace lacuna
