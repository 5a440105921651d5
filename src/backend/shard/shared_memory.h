// Ranks on one machine, which exchange bytes through shared memory: threads of one process, or processes that
// begin as forks of one.
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

/// One end for each of `count` threads of this process.
///   slot_bytes  that a rank hands over at a time
std::vector<std::unique_ptr<Communicator>> ranks_of_threads(int count,
                                                            std::chrono::milliseconds timeout = kRankTimeout,
                                                            size_t slot_bytes = size_t{1} << 20);

/// Forks count - 1 processes and returns in all of them: rank 0 in the caller, which is to have no other
/// threads that matter to the forks. Forks ignore SIGINT and SIGTERM and notice when rank 0 ends. Rank 0's
/// end waits for them when it is destroyed. std::system_error.
///   heartbeat_timeout  a process without a heartbeat for this long within a pass counts as failed; the
///                      heartbeat continues while it computes
std::unique_ptr<Communicator> fork_ranks(int count, std::chrono::milliseconds timeout = kRankTimeout,
                                         std::chrono::milliseconds heartbeat_timeout = kHeartbeatTimeout);

}  // namespace lacuna
