#include "base/memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.h"

namespace lacuna::memory_test {
namespace {

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() { write("proc/meminfo", "MemTotal: 16000 kB\nMemFree: 100 kB\nMemAvailable: 8000 kB\n"); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    folder_.write(path, text);
  }
  AvailableMemory available() const { return available_memory(folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(MemoryTest, IsWhatTheMachineSaysWithoutGroups) {
  EXPECT_EQ(available().bytes, 8000 << 10);
  EXPECT_FALSE(available().limited_by_group);
  EXPECT_EQ(available().before_kill, 8000 << 10);
}

TEST_F(MemoryTest, IsWhatTheTightestGroupLeaves) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("sys/fs/cgroup/outer/memory.max", "1000000\n");
  write("sys/fs/cgroup/outer/memory.current", "700000\n");
  write("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 200000\nactive_file 50000\nfile 3\n");
  EXPECT_EQ(available().bytes, 500'000);
  EXPECT_EQ(available().before_kill, 550'000);
  EXPECT_TRUE(available().limited_by_group);
}

TEST_F(MemoryTest, ReadsGroupsOfVersion1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/box\nnonsense\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2000000\n");
  write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "2500000\n");
  EXPECT_EQ(available().bytes, 0);
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(available().bytes, 8000 << 10);
}

TEST(Memory, IsKnownHere) {
  EXPECT_GT(available_memory().bytes, 0);
}

}  // namespace
}  // namespace lacuna::memory_test
