// Communication between processes that compute one model together: gathering, and
// nothing that adds. Numbers arrive as they were sent, so results do not depend on the transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace lacuna {

/// A rank of a group ended, was too late or failed. The message is a sentence that names it; nothing works
/// that needs the group from then on.
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
    kBounded,  ///< the group's time-out, as within a pass
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
  ///   all    [sum of sizes] the ranks' bytes one after the other
  virtual void all_gather(std::span<const std::byte> own, std::span<const size_t> sizes,
                          std::span<std::byte> all, Wait wait) = 0;
  void all_gather(std::span<const std::byte> own, std::span<const size_t> sizes, std::span<std::byte> all) {
    all_gather(own, sizes, all, Wait::kBounded);
  }

  /// Gives the next rank this rank's bytes, and the first rank those of the last one. Throws RankError.
  ///   own       [sizes[rank()]]
  ///   sizes     [size()], the same on all ranks
  ///   received  [sizes of the rank before]; no part of `own`
  virtual void pass_on(std::span<const std::byte> own, std::span<const size_t> sizes,
                       std::span<std::byte> received) = 0;

  /// From now on a bounded wait takes up to this many time-outs of the group: for ranks that compute for long
  /// between exchanges. At least 1.
  void set_patience(int64_t times) { patience_ = times; }

  int previous() const { return (rank() + size() - 1) % size(); }

  /// Tells the others, as far as that is possible, that this rank cannot continue: their calls throw a
  /// Throws RankError with this cause.
  virtual void fail(const std::string& cause) noexcept = 0;

 protected:
  Communicator() = default;
  int64_t patience() const { return patience_; }

 private:
  int64_t patience_ = 1;
};

/// Every rank's bytes, of sizes that the others do not know.
std::vector<std::vector<std::byte>> gather_all(Communicator& communicator, std::span<const std::byte> own,
                                               Communicator::Wait wait = Communicator::Wait::kBounded);

/// Rank 0's bytes. The first wait is as long as `wait` says.
///   sent  of rank 0; empty on the others
std::vector<std::byte> broadcast(Communicator& communicator, std::span<const std::byte> sent,
                                 Communicator::Wait wait);

}  // namespace lacuna
