// Runs a CUDA kernel without a GPU: every CUDA thread is a fiber, every block has its own shared memory, and
// a seed determines the order of threads and blocks. simt.h lists the functions that kernels may call.
//
// One host thread runs one block after the other, slowly. docs/inside/cuda.md lists the errors that it
// detects.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "backend/cuda/simt/shape.h"

namespace lacuna::simt {

/// A source line of a kernel. Replaces std::source_location, which clang 14 lacks.
struct Location {
  const char* file = "";
  uint32_t line = 0;

  static constexpr Location current(const char* of_file = __builtin_FILE(),
                                    uint32_t at_line = __builtin_LINE()) {
    return {of_file, at_line};
  }
};

/// Which ready thread runs next. Blocks run in order only with kFirstCome.
enum class ThreadOrder : uint8_t { kFirstCome, kRandom, kLastCome };

struct SimulatorOptions {
  ThreadOrder order = ThreadOrder::kFirstCome;
  uint64_t seed = 0;
  int64_t max_shared_bytes = int64_t{227} << 10;  ///< of a block; the default is Hopper's
};

struct SimulatorCounters {
  int64_t threads = 0;
  int64_t switches = 0;
  int64_t barriers = 0;        ///< barriers that opened
  int64_t collectives = 0;     ///< warp collectives
  int64_t matrix_phases = 0;   ///< phases of ldmatrix: eight rows of 16 bytes each
  int64_t bank_conflicts = 0;  ///< rows in a phase that share their banks with an earlier row of the phase
};

/// An error of a kernel; the message names threads, the block and lines.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Settings and counters of the calling host thread, for its next launches.
SimulatorOptions& simulator_options();
SimulatorCounters& simulator_counters();

/// Runs `kernel` once for every thread of every block. Aborts the launch and throws Fault on a kernel error.
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

/// Waits until all 32 lanes of the warp have reached the same operation at the same line. The last one calls
/// all(lanes) with the lanes' `mine` pointers.
void meet_warp(WarpOperation operation, void* mine, void (*all)(void* const* lanes), const Location& at);
void meet_block(const Location& at);
/// Aborts the launch with a Fault.
[[noreturn]] void fail(const char* what, const Location& at);

/// A copy in flight: its bytes are read at issue and written at the wait.
struct AsyncCopy {
  void* to = nullptr;
  int bytes = 16;  ///< 8 or 16
  alignas(16) uint32_t words[4] = {};
};
void add_async_copy(const AsyncCopy& copy);
void commit_async_copies();
/// Takes this thread's oldest copy outside the latest `pending` committed groups. Returns false if there is
/// none.
bool take_async_copy(int pending, AsyncCopy& copy);

// Warp operations; each lane passes a pointer to one of these slots to meet_warp().
struct ShuffleSlot {
  uint64_t value = 0;
  uint64_t result = 0;
  uint32_t source = 0;  ///< lane to read from
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
/// rows x columns tiles of 16 x 8 x 16 (rows, columns, inputs).
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
