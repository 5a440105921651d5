#include "base/memory.h"

#include <fmt/format.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <mach/mach.h>
#elif defined(__FreeBSD__)
#include <sys/sysctl.h>
#endif

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "base/read_file.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

/// The number after `key` in a file of lines "key number"; the file's first number if `key` is empty.
std::optional<int64_t> number_in(const fs::path& path, std::string_view key = {}) {
  std::istringstream file(read_kernel_file(path));
  int64_t number = 0;
  if (key.empty()) return file >> number ? std::optional(number) : std::nullopt;
  std::string word;
  for (std::string rest; file >> word >> number; std::getline(file, rest)) {
    if (word == key) return number;
  }
  return {};
}

/// File names of one version of control groups.
struct GroupFiles {
  const char *limit, *usage, *inactive_file, *active_file;
};

constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                                  "total_active_file"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file", "active_file"};

/// Bytes that groups still allow.
struct GroupMemory {
  int64_t available = std::numeric_limits<int64_t>::max();
  int64_t before_kill = std::numeric_limits<int64_t>::max();

  void take_tighter(const GroupMemory& other) {
    available = std::min(available, other.available);
    before_kill = std::min(before_kill, other.before_kill);
  }
};

/// Bytes that a control group and its ancestors still allow. The limit "max" is not a number and is skipped.
GroupMemory left_in_groups(const fs::path& mount, const fs::path& group, const GroupFiles& files) {
  GroupMemory left;
  for (fs::path inner = group.relative_path();; inner = inner.parent_path()) {
    const fs::path folder = mount / inner;
    if (const std::optional<int64_t> limit = number_in(folder / files.limit)) {
      const fs::path statistics = folder / "memory.stat";
      const int64_t used = number_in(folder / files.usage).value_or(0) -
                           number_in(statistics, files.inactive_file).value_or(0);
      const int64_t kept = used - number_in(statistics, files.active_file).value_or(0);
      const auto rest = [limit = *limit](int64_t bytes) {
        return std::max<int64_t>(limit - std::max<int64_t>(bytes, 0), 0);
      };
      left.take_tighter({rest(used), rest(kept)});
    }
    if (inner.empty()) return left;
  }
}

GroupMemory left_in_groups(const fs::path& root) {
  GroupMemory left;
  const fs::path mount = root / "sys/fs/cgroup";
  std::istringstream file(
      read_kernel_file(root / "proc/self/cgroup"));  // lines "4:memory:/path" and "0::/path"
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      left.take_tighter(left_in_groups(mount, group, kVersion2));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      left.take_tighter(left_in_groups(mount / "memory", group, kVersion1));
    }
  }
  return left;
}

/// Free and immediately reclaimable bytes, as the system counts them.
int64_t free_memory() {
#if defined(__APPLE__)
  vm_statistics64 memory = {};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  const host_t host = ::mach_host_self();
  ::host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&memory), &count);
  ::mach_port_deallocate(::mach_task_self(), host);
  const int64_t pages = int64_t{memory.free_count} + memory.inactive_count;
#elif defined(__FreeBSD__)
  int64_t pages = 0;
  for (const char* const name : {"vm.stats.vm.v_free_count", "vm.stats.vm.v_inactive_count"}) {
    unsigned count = 0;
    size_t size = sizeof count;
    if (::sysctlbyname(name, &count, &size, nullptr, 0) == 0) pages += count;
  }
#else
  const int64_t pages = ::sysconf(_SC_AVPHYS_PAGES);
#endif
  return pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

AvailableMemory available_memory(const fs::path& root) {
  const std::optional<int64_t> kibibytes = number_in(root / "proc/meminfo", "MemAvailable:");
  const int64_t machine = kibibytes ? *kibibytes << 10 : free_memory();
  const GroupMemory group = left_in_groups(root);
  return {std::min(machine, group.available), group.available < machine,
          std::min(machine, group.before_kill)};
}

std::string human_bytes(int64_t bytes) {
  if (bytes < 1 << 10) return fmt::format("{} B", bytes);
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace lacuna
