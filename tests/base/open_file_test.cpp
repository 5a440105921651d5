#include "base/open_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/read_file.h"
#include "temporary_folder.h"

namespace lacuna::open_file_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string make_pipe(const TemporaryFolder& folder) {
  const std::string pipe = (folder.path() / "pipe").string();
  EXPECT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  return pipe;
}

TEST(OpenToRead, RefusesWhatIsNoRegularFileWithoutWaiting) {
  const TemporaryFolder folder;
  const std::string pipe = make_pipe(folder);
  EXPECT_THAT([&] { open_to_read(pipe); }, ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
  fs::create_symlink("pipe", folder.path() / "link");
  EXPECT_THAT([&] { open_to_read(folder.path() / "link"); },
              ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
  EXPECT_THAT([&] { open_to_read("/dev/zero"); },
              ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
  EXPECT_THAT([&] { open_to_read(folder.path()); },
              ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{AF_UNIX, {}};
  (folder.path() / "socket").string().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_THAT([&] { open_to_read(folder.path() / "socket"); },
              ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
  ::close(socket);
  EXPECT_THAT([&] { open_to_read(folder.path() / "none"); },
              ThrowsMessage<InputError>(HasSubstr("cannot be read: No such file")));
}

TEST(OpenToRead, GivesFilesThatNoChildInherits) {
  const TemporaryFolder folder;
  folder.write("a", "text");
  const FileDescriptor file = open_to_read(folder.path() / "a");
  EXPECT_EQ(::fcntl(file.number(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(OpenToRead, ReadsAPipeToItsEndAndWaitsForNoWriterThatDoesNotCome) {
  const TemporaryFolder folder;
  const std::string pipe = make_pipe(folder);
  EXPECT_THAT([&] { open_to_read(pipe, FileKind::kAnything); },
              ThrowsMessage<InputError>(HasSubstr("is a pipe that nobody writes to")));
  for (const bool is_late : {false, true}) {
    std::thread writer([&] {
      if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const FileDescriptor file = open_to_write(pipe, WriteFrom::kBeginning);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // open and silent
      EXPECT_EQ(::write(file.number(), "text", 4), 4);
    });
    EXPECT_EQ(read_whole_file(pipe, 10, FileKind::kAnything), "text");
    writer.join();
  }
}

TEST(OpenToWrite, WaitsForNoReaderThatDoesNotComeAndAppendsToRegularFilesAlone) {
  const TemporaryFolder folder;
  const std::string pipe = make_pipe(folder);
  EXPECT_THAT([&] { open_to_write(pipe, WriteFrom::kBeginning); },
              ThrowsMessage<InputError>(HasSubstr("is a pipe that nobody reads")));
  EXPECT_THAT([&] { open_to_write(pipe, WriteFrom::kEnd); },
              ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
  EXPECT_THAT([&] { open_to_write("/dev/null", WriteFrom::kEnd); },
              ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
}

TEST(OpenPartial, MakesAnotherFileEachTime) {
  const TemporaryFolder folder;
  fs::path first, second;
  const FileDescriptor one = open_partial(folder.path() / "a", first);
  const FileDescriptor two = open_partial(folder.path() / "a", second);
  EXPECT_NE(first, second);
  EXPECT_TRUE(first.filename().string().starts_with("a."));
  EXPECT_EQ(first.extension(), ".partial");
}

TEST(OpenToWrite, FollowsNoLinkAndEmptiesNothingBehindOne) {
  const TemporaryFolder folder;
  folder.write("victim", "precious");
  fs::create_symlink("victim", folder.path() / "link");
  fs::create_symlink("none", folder.path() / "dangling");
  for (const WriteFrom from : {WriteFrom::kBeginning, WriteFrom::kEnd}) {
    for (const char* const name : {"link", "dangling"})
      EXPECT_THAT([&] { open_to_write(folder.path() / name, from); },
                  ThrowsMessage<InputError>(HasSubstr("is a symbolic link")));
  }
  EXPECT_EQ(fs::file_size(folder.path() / "victim"), 8U);
  EXPECT_FALSE(fs::exists(folder.path() / "none"));
}

TEST(OpenToWrite, EmptiesAFileOrAppendsToIt) {
  const TemporaryFolder folder;
  folder.write("a", "text");
  {
    const FileDescriptor file = open_to_write(folder.path() / "a", WriteFrom::kEnd);
    EXPECT_EQ(::write(file.number(), "s", 1), 1);
  }
  EXPECT_EQ(fs::file_size(folder.path() / "a"), 5U);
  open_to_write(folder.path() / "a", WriteFrom::kBeginning);
  EXPECT_EQ(fs::file_size(folder.path() / "a"), 0U);
}

TEST(OpenShared, RefusesPipesAndLinks) {
  const TemporaryFolder folder;
  const std::string pipe = make_pipe(folder);
  fs::create_symlink("none", folder.path() / "link");
  EXPECT_THAT([&] { open_shared(pipe); }, ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
  EXPECT_THAT([&] { open_shared(folder.path() / "link"); },
              ThrowsMessage<InputError>(HasSubstr("cannot be opened")));
}

}  // namespace
}  // namespace lacuna::open_file_test
