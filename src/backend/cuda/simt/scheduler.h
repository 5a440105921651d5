// Runs a CUDA kernel without a GPU: every CUDA thread is a fiber, every block has shared memory of its own,
// and the order in which threads and blocks run is chosen by a seed. What kernels may call is in simt.h.
//
// Nothing here is fast or parallel; one host thread runs one block after the other. What it finds is in
// docs/inside/cuda.md.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "backend/cuda/simt/shape.h"

namespace lacuna::simt {

/// A line of a kernel. std::source_location, which clang 14 lacks.
struct Location {
  const char* file = "";
  uint32_t line = 0;

  static constexpr Location current(const char* of_file = __builtin_FILE(),
                                    uint32_t at_line = __builtin_LINE()) {
    return {of_file, at_line};
  }
};

/// Which of the threads that could continue runs next. Blocks run in order only under kFirstCome.
enum class ThreadOrder : uint8_t { kFirstCome, kRandom, kLastCome };

struct SimulatorOptions {
  ThreadOrder order = ThreadOrder::kFirstCome;
  uint64_t seed = 0;
};

struct SimulatorCounters {
  int64_t threads = 0;
  int64_t switches = 0;
  int64_t barriers = 0;        ///< barriers that opened
  int64_t collectives = 0;     ///< of warps
  int64_t matrix_phases = 0;   ///< of ldmatrix: eight rows of 16 bytes each
  int64_t bank_conflicts = 0;  ///< rows of a phase that share their banks with another row of the phase
};

/// An error of a kernel; the message names threads, the block and lines.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Settings and counts of the calling host thread, for the launches that follow.
SimulatorOptions& simulator_options();
SimulatorCounters& simulator_counters();

/// Runs `kernel` once for every thread of every block. Throws Fault; the launch is then given up.
void simulate(const LaunchShape& shape, const std::function<void()>& kernel);

// Called by simt_host.h from inside a kernel:

struct ThreadPlace {
  uint32_t thread = 0;
  Index3 block;
  LaunchShape shape;
};
const ThreadPlace& current_place();
void* shared_memory(size_t bytes);

enum class WarpOperation : uint8_t { kShuffle, kBallot, kSyncWarp, kLoadMatrix, kMultiply };

/// Waits until all 32 lanes of the warp have come to the same operation at the same line. The last one calls
/// `all` with what the lanes left, in order of lanes.
void meet_warp(WarpOperation operation, void* mine, void (*all)(void* const* lanes), const Location& at);
void meet_block(const Location& at);
/// Gives the launch up.
[[noreturn]] void fail(const char* what, const Location& at);

/// A copy that is under way: its bytes, read at issue, arrive at the wait.
struct AsyncCopy {
  void* to = nullptr;
  int bytes = 16;  ///< 8 or 16
  alignas(16) uint32_t words[4] = {};
};
void add_async_copy(const AsyncCopy& copy);
void commit_async_copies();
/// The next copy of this thread, oldest first, that must have arrived when all but the `pending` latest
/// groups have; false: none is left.
bool take_async_copy(int pending, AsyncCopy& copy);

// Bodies of warp operations; each lane leaves a pointer to one of these.
struct ShuffleSlot {
  uint64_t value = 0;
  uint64_t result = 0;
  uint32_t source = 0;  ///< lane to read
};
struct BallotSlot {
  bool value = false;
  uint32_t result = 0;
};
struct MatrixSlot {
  const void* address = nullptr;
  alignas(16) uint32_t row[4] = {};  ///< the eight numbers at the address
  uint32_t result[4] = {};
  bool transposed = false;
};
/// rows x columns tiles of 16 x 8 x 16.
struct MultiplySlot {
  float (*c)[4] = nullptr;           ///< [rows * columns]
  const uint32_t (*a)[4] = nullptr;  ///< [rows]
  const uint32_t (*b)[2] = nullptr;  ///< [columns]
  int rows = 0;
  int columns = 0;
};
void shuffle_all(void* const* lanes);
void ballot_all(void* const* lanes);
void load_matrix_all(void* const* lanes);
void multiply_all(void* const* lanes);

}  // namespace lacuna::simt
