#include "base/read_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::read_file_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ReadWholeFile, GivesTheBytesUpToTheLimit) {
  const TemporaryFolder folder;
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{65537}, size_t{300'000}}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 % 251);
    folder.write("a", bytes);
    EXPECT_EQ(read_whole_file(folder.path() / "a", size), bytes);
    EXPECT_EQ(read_whole_file(folder.path() / "a", size + 1), bytes);
    if (size == 0) continue;
    EXPECT_THAT(
        [&] { read_whole_file(folder.path() / "a", size - 1); },
        ThrowsMessage<InputError>(HasSubstr("a: is larger than " + std::to_string(size - 1) + " bytes")));
  }
}

TEST(ReadWholeFile, SaysWhyAFileCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { read_whole_file(folder.path() / "none", 9); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("none: cannot be read"), HasSubstr("No such file or directory"))));
  EXPECT_THAT([&] { read_whole_file(folder.path(), 9); },
              ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
  EXPECT_THAT([&] { read_whole_file(folder.path(), 9, FileKind::kAnything); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("cannot be read"), HasSubstr("Is a directory"))));
  // Page 0 of a process is never mapped.
  EXPECT_THAT([] { read_whole_file("/proc/self/mem", 9); },
              ThrowsMessage<InputError>(
                  HasSubstr(std::string("/proc/self/mem: cannot be read: ") + std::strerror(EIO))));
}

TEST(ReadWholeFile, EndsAtTheLimitOfAnEndlessFile) {
  EXPECT_THAT([] { read_whole_file("/dev/zero", 100'000, FileKind::kAnything); },
              ThrowsMessage<InputError>(HasSubstr("/dev/zero: is larger than 100000 bytes")));
}

TEST(ReadWholeFile, RefusesAPipeWithoutWaitingForItsWriter) {
  const TemporaryFolder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT([&] { read_whole_file(pipe, 9); },
              ThrowsMessage<InputError>(HasSubstr("pipe: is not a regular file")));
}

TEST(ReadWholeFile, ReadsAPipeThatWasAskedForToItsEnd) {
  const TemporaryFolder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream stream(pipe);
    for (int i = 0; i < 1000; ++i) stream << "line" << std::endl;
  });
  EXPECT_EQ(read_whole_file(pipe, 1 << 20, FileKind::kAnything).size(), 5000U);
  writer.join();
}

TEST(KernelFile, IsReadWhereItIsThereAndEmptyElsewhere) {
  EXPECT_EQ(read_kernel_file("/proc/self/no such file"), "");
  if (!std::filesystem::exists("/proc/self/comm")) GTEST_SKIP() << "this system has no such files";
  EXPECT_NE(read_kernel_file("/proc/self/comm"), "");
}

}  // namespace
}  // namespace lacuna::read_file_test
