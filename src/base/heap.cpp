#include "base/heap.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __APPLE__
#include <mach/mach.h>
#else
#include <sys/resource.h>
#include <unistd.h>
#endif

#include <sstream>
#include <string>

#include "base/read_file.h"

namespace lacuna {
namespace {

#ifdef __APPLE__
mach_task_basic_info memory_of_process() {
  mach_task_basic_info memory = {};
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  ::task_info(::mach_task_self(), MACH_TASK_BASIC_INFO, reinterpret_cast<task_info_t>(&memory), &count);
  return memory;
}
#endif

}  // namespace

#ifdef __APPLE__
int64_t resident_memory() {
  return static_cast<int64_t>(memory_of_process().resident_size);
}

int64_t most_resident_memory() {
  return static_cast<int64_t>(memory_of_process().resident_size_max);
}
#else
int64_t resident_memory() {
  std::istringstream file(read_kernel_file("/proc/self/statm"));
  int64_t all = 0, resident = 0;  // in pages; further fields are ignored
  return file >> all >> resident ? resident * ::sysconf(_SC_PAGESIZE) : 0;
}

int64_t most_resident_memory() {
#ifdef __linux__
  // Not getrusage(): its peak includes that of the parent before exec.
  std::istringstream file(read_kernel_file("/proc/self/status"));
  for (std::string line; std::getline(file, line);) {
    int64_t kibibytes = 0;
    if (line.starts_with("VmHWM:") && std::istringstream(line.substr(6)) >> kibibytes) return kibibytes << 10;
  }
  return 0;
#else
  rusage usage = {};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} << 10 : 0;
#endif
}
#endif

void return_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace lacuna
