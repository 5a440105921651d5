#include "base/heap.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>

#include <sstream>

#include "base/error.h"
#include "base/read_file.h"

namespace lacuna {

int64_t resident_memory() {
  constexpr size_t kMaxStatusBytes = 4096;
  try {
    std::istringstream file(read_whole_file("/proc/self/statm", kMaxStatusBytes));
    int64_t all = 0, resident = 0;  // in pages, and more that is not asked for
    return file >> all >> resident ? resident * ::sysconf(_SC_PAGESIZE) : 0;
  } catch (const InputError&) {
    return 0;
  }
}

void return_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace lacuna
