// Ranks on one machine that exchange bytes through shared memory: threads of one process, or forked
// processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/communicator.h"

namespace lacuna {

inline constexpr int kMaxLocalRanks = 64;
inline constexpr std::chrono::milliseconds kRankTimeout{30'000};
inline constexpr std::chrono::milliseconds kHeartbeatTimeout{10'000};

/// Communicators of `count` threads of this process.
///   slot_bytes  a rank's part of an exchange is copied in pieces of this size
std::vector<std::unique_ptr<Communicator>> ranks_of_threads(int count,
                                                            std::chrono::milliseconds timeout = kRankTimeout,
                                                            size_t slot_bytes = size_t{1} << 20);

/// Forks count - 1 processes and returns in all of them, in the caller as rank 0. The children must not need
/// other threads of the caller. They ignore SIGINT and SIGTERM and notice when rank 0 ends; rank 0's
/// destructor waits for them. Throws std::system_error.
///   heartbeat_timeout  a process counts as failed after so long without a heartbeat within a pass; computing
///                      does not stop the heartbeat
std::unique_ptr<Communicator> fork_ranks(int count, std::chrono::milliseconds timeout = kRankTimeout,
                                         std::chrono::milliseconds heartbeat_timeout = kHeartbeatTimeout);

}  // namespace lacuna
