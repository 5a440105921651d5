#include "base/system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "temporary_folder.h"

namespace lacuna::system_test {
namespace {

TEST(RunningProgram, IsTheFileOfTheseTests) {
  EXPECT_TRUE(running_program().is_absolute());
  EXPECT_EQ(running_program().filename(), "base_tests");
}

TEST(OpenPipe, CarriesBytesAndIsNotInherited) {
  std::array<int, 2> ends = {-1, -1};
  ASSERT_TRUE(open_pipe(ends));
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  for (const int end : ends) {
    EXPECT_NE(::fcntl(end, F_GETFD) & FD_CLOEXEC, 0);
    ::close(end);
  }
}

TEST(CloseFilesFrom, LeavesEarlierFilesOpen) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::dup(0);
    const int last = ::fcntl(0, F_DUPFD, 200);
    close_files_from(file + 1);
    ::_exit(::fcntl(file, F_GETFD) >= 0 && ::fcntl(last, F_GETFD) < 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(FileTimes, TellANewContentFromANewName) {
  const TemporaryFolder folder;
  folder.write("a", "text");
  const std::string file = folder.path() / "a";
  const std::array<timespec, 2> long_ago = {timespec{1, 2}, timespec{3, 4}};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), long_ago.data(), 0), 0);
  struct stat status = {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(modification_time(status).tv_sec, 3);
  EXPECT_EQ(modification_time(status).tv_nsec, 4);
  EXPECT_GT(change_time(status).tv_sec, 1'000'000'000);
}

}  // namespace
}  // namespace lacuna::system_test
