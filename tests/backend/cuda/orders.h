// Where kernels are tried: in the simulator in several orders of threads and blocks, on a device in its own.
// orders_simulated.cpp and orders_device.cpp are the bodies.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lacuna::simt {

/// Calls `body` with the name of each order, in it.
void in_every_order(const std::function<void(const std::string& order)>& body);

struct BankCounts {
  int64_t phases = 0;     ///< of ldmatrix
  int64_t conflicts = 0;  ///< rows of a phase that share their banks with another row of the phase
};

/// How kernels that `run` waits for read shared memory, which only the simulator counts.
std::optional<BankCounts> bank_counts_of(const std::function<void()>& run);

/// Why a test is skipped where there are no counts.
inline constexpr const char* kOnlySimulated = "only the simulator counts conflicts of banks";

}  // namespace lacuna::simt
