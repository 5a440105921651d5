#include "base/written_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::written_file_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t num_files(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(WrittenFile, HasItsNameOnceItIsWhole) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  {
    WrittenFile file(folder.path() / "a");
    file.write("ne");
    file.write("w");
    EXPECT_EQ(text_of(folder.path() / "a"), "old");
    file.commit();
    EXPECT_EQ(text_of(folder.path() / "a"), "new");
  }
  EXPECT_EQ(num_files(folder.path()), 1U);
}

TEST(WrittenFile, LeavesTheOldFileAndNothingElseWithoutCommit) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  { WrittenFile(folder.path() / "a").write("new"); }
  EXPECT_EQ(text_of(folder.path() / "a"), "old");
  EXPECT_EQ(num_files(folder.path()), 1U);
}

TEST(WrittenFile, FollowsALinkToAFileThatDoesNotExist) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "other");
  fs::create_symlink("other/a", folder.path() / "link");
  write_whole_file(folder.path() / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(text_of(folder.path() / "other/a"), "new");
}

TEST(WrittenFile, WritesToAPipeBehindALink) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  write_whole_file(fmt::format("/proc/self/fd/{}", ends[1]), "new");
  char text[3] = {};
  EXPECT_EQ(::read(ends[0], text, sizeof(text)), 3);
  EXPECT_EQ(std::string(text, sizeof(text)), "new");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(WrittenFile, RefusesALinkToItself) {
  const TemporaryFolder folder;
  fs::create_symlink("link", folder.path() / "link");
  EXPECT_THAT(
      [&] { write_whole_file(folder.path() / "link", "new"); },
      ThrowsMessage<InputError>(HasSubstr(std::string("link: cannot be written: ") + std::strerror(ELOOP))));
}

TEST(WrittenFile, FollowsALinkAndKeepsTheMode) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  fs::permissions(folder.path() / "a", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("a", folder.path() / "link");
  write_whole_file(folder.path() / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(text_of(folder.path() / "a"), "new");
  EXPECT_EQ(fs::status(folder.path() / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(WrittenFile, NamesAPlaceWhereNoFileCanBe) {
  const TemporaryFolder folder;
  const auto write = [](const fs::path& path) { return [path] { write_whole_file(path, "text"); }; };
  EXPECT_THAT(write(folder.path() / "none" / "a"),
              ThrowsMessage<InputError>(HasSubstr("none/a: cannot be written: No such file or directory")));
  EXPECT_THAT(write(folder.path()), ThrowsMessage<InputError>(HasSubstr("is a folder; expected a file")));
}

TEST(WrittenFile, SaysThatTheDiskIsFull) {
  const auto write = [] { write_whole_file("/dev/full", "text"); };
  EXPECT_THAT(write,
              ThrowsMessage<std::runtime_error>("/dev/full: cannot be written: No space left on device"));
}

TEST(WrittenFile, NeitherFollowsNorReplacesWhatWasPlantedUnderAPartialName) {
  const TemporaryFolder folder;
  folder.write("victim", "precious");
  // The names of earlier versions could be guessed.
  const std::string guessed = fmt::format("a.{}.partial", ::getpid());
  fs::create_symlink("victim", folder.path() / guessed);
  {
    WrittenFile file(folder.path() / "a");
    EXPECT_EQ(num_files(folder.path()), 3U);  // its own partial file is another one
    file.write("new");
    file.commit();
  }
  EXPECT_EQ(text_of(folder.path() / "victim"), "precious");
  EXPECT_TRUE(fs::is_symlink(folder.path() / guessed));
  EXPECT_EQ(text_of(folder.path() / "a"), "new");
}

TEST(GrowingFile, DoesNotFollowALink) {
  const TemporaryFolder folder;
  folder.write("victim", "precious");
  fs::create_symlink("victim", folder.path() / "log");
  EXPECT_THAT([&] { GrowingFile(folder.path() / "log"); },
              ThrowsMessage<InputError>(HasSubstr("log: is a symbolic link; expected a file")));
  EXPECT_EQ(text_of(folder.path() / "victim"), "precious");
  GrowingFile("/dev/stdout").append("");  // links of the system's own are
}

TEST(GrowingFile, HasEveryLineThatWasAppended) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  GrowingFile file(folder.path() / "a");
  EXPECT_EQ(text_of(folder.path() / "a"), "");
  file.append("one\n");
  EXPECT_EQ(text_of(folder.path() / "a"), "one\n");
  file.append("two\n");
  EXPECT_EQ(text_of(folder.path() / "a"), "one\ntwo\n");
  const auto write = [] { GrowingFile("/dev/full").append("x"); };
  EXPECT_THAT(write, ThrowsMessage<std::runtime_error>(HasSubstr("No space left on device")));
}

}  // namespace
}  // namespace lacuna::written_file_test
