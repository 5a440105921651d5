// Communication between processes that compute one model together: gathering, but no reductions. Bytes arrive
// unchanged, so results do not depend on the transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace lacuna {

/// A rank of a group ended, timed out or failed. The message names the rank; the group is unusable
/// afterwards.
class RankError : public std::runtime_error {
 public:
  RankError(int rank, const std::string& cause)
      : std::runtime_error("rank " + std::to_string(rank) + " " + cause), rank_(rank) {}

  int rank() const { return rank_; }

 private:
  int rank_;
};

/// One rank's end of a group. All ranks call the same functions in the same order; each is called by one
/// thread at a time.
class Communicator {
 public:
  /// How long a rank waits for the others.
  enum class Wait : uint8_t {
    kBounded,  ///< up to the group's time-out: for exchanges within a pass
    kIdle,     ///< without limit: for the next command
  };

  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Gives every rank the bytes of all ranks. Throws RankError.
  ///   own    [sizes[rank()]]
  ///   sizes  [size()], the same on all ranks
  ///   all    [sum of sizes] the ranks' bytes, concatenated
  virtual void all_gather(std::span<const std::byte> own, std::span<const size_t> sizes,
                          std::span<std::byte> all, Wait wait) = 0;
  void all_gather(std::span<const std::byte> own, std::span<const size_t> sizes, std::span<std::byte> all) {
    all_gather(own, sizes, all, Wait::kBounded);
  }

  /// Sends this rank's bytes to the next rank of the ring and receives those of the previous one. Throws
  /// RankError.
  ///   own       [sizes[rank()]]
  ///   sizes     [size()], the same on all ranks
  ///   received  [sizes[previous()]]; must not overlap `own`
  virtual void ring_exchange(std::span<const std::byte> own, std::span<const size_t> sizes,
                             std::span<std::byte> received) = 0;

  /// Multiplies the time-out of bounded waits by `times`, at least 1: for ranks that compute for long between
  /// exchanges.
  void set_timeout_factor(int64_t times) { patience_ = times; }

  int previous() const { return (rank() + size() - 1) % size(); }

  /// Tells the other ranks, if possible, that this rank cannot continue: their calls throw RankError with
  /// this cause.
  virtual void fail(const std::string& cause) noexcept = 0;

 protected:
  Communicator() = default;
  int64_t patience() const { return patience_; }

 private:
  int64_t patience_ = 1;
};

/// Gathers every rank's bytes; their sizes are exchanged first.
std::vector<std::vector<std::byte>> gather_all(Communicator& communicator, std::span<const std::byte> own,
                                               Communicator::Wait wait = Communicator::Wait::kBounded);

/// Returns rank 0's bytes on every rank. `wait` applies to the first exchange.
///   sent  rank 0's bytes; empty on the other ranks
std::vector<std::byte> broadcast(Communicator& communicator, std::span<const std::byte> sent,
                                 Communicator::Wait wait);

}  // namespace lacuna
