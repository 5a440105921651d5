// Failures of the system, injected into a process: calls of the C library that fail as a seed says, or a
// certain call. The tests link faulty_calls.cpp, whose functions take the place of the library's; programs
// get it with LD_PRELOAD, and LACUNA_FAULT=CALL:FAILURE:N makes their N-th CALL fail.
//
//   CALL     read, write, fsync, rename, open: of regular files
//   FAILURE  the name of an error (ENOSPC, EIO, EINTR, EMFILE; after ENOSPC every further write fails, too),
//            short (a part of the bytes), or kill (the process gets SIGKILL)
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lacuna {

enum class FaultyCall : uint8_t {
  kAllocate,
  kOpen,
  kRead,
  kWrite,
  kSync,
  kRename,
  kReceive,
  kSend,
  kAccept,
  kClock
};
inline constexpr size_t kNumFaultyCalls = 10;

/// Which calls fail.
struct FaultPlan {
  uint64_t seed = 0;
  /// By FaultyCall: about one call in this many fails; 0: none fails.
  std::array<uint32_t, kNumFaultyCalls> one_in = {};
  /// Number, from 1, of the one allocation that fails, among those that may; 0: `one_in` decides.
  uint64_t nth_allocation = 0;
};

/// From now on calls fail, in all threads but those that are spared.
void begin_faults(const FaultPlan& plan);
/// Returns how many calls failed.
uint64_t end_faults();

/// This thread's calls never fail.
void spare_this_thread();
/// Small allocations of this thread never fail: a library that it runs cannot bear that.
void spare_small_allocations_of_this_thread();

/// For operator new.
bool allocation_fails(size_t bytes);

}  // namespace lacuna
