// Measurements that the ranks make together before they load anything: how fast they exchange bytes, and how
// much memory each may take. Every function is called by all ranks.
#pragma once

#include <cstdint>
#include <string>

#include "base/communicator.h"

namespace lacuna {

struct RankLink {
  double bytes_per_second = 0;  ///< rate at which a rank receives
  double latency = 0;           ///< seconds of one exchange of few bytes
};

/// Times exchanges, the largest of which take about a tenth of a second. The same on all ranks.
RankLink measure_link(Communicator& ranks);

/// The least of what the ranks have.
double least_of_ranks(Communicator& ranks, double value);

/// Memory for the rank that has the least, if the ranks of one host share the memory available there.
///   host       that this rank runs on
///   available  bytes there
int64_t memory_of_each(Communicator& ranks, const std::string& host, int64_t available);

}  // namespace lacuna
