// Collective measurements before loading: how fast the ranks exchange bytes, and how much memory each may
// use. All ranks must call every function.
#pragma once

#include <cstdint>
#include <string>

#include "base/communicator.h"

namespace lacuna {

struct RankLink {
  double bytes_per_second = 0;  ///< rate at which a rank receives
  double latency = 0;           ///< seconds for an exchange of few bytes
};

/// Times exchanges of growing size, up to about 0.1 s. Returns the same on all ranks.
RankLink measure_link(Communicator& ranks);

/// Minimum of `value` over all ranks.
double least_of_ranks(Communicator& ranks, double value);

/// Bytes that every rank may use: the minimum over ranks of the host's memory divided by its number of ranks.
///   host       name of this rank's host
///   available  bytes available on the host
int64_t memory_of_each(Communicator& ranks, const std::string& host, int64_t available);

}  // namespace lacuna
