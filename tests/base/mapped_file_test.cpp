#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.h"

namespace lacuna::mapped_file_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("mapped_file_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  fs::path folder_;
};

TEST_F(MappedFileTest, ShowsTheBytesOfAFile) {
  const MappedFile file = MappedFile::open(write("a", std::string("ab\0c", 4)));
  EXPECT_EQ(file.text(), std::string_view("ab\0c", 4));
  EXPECT_EQ(file.bytes().size(), 4U);
}

TEST_F(MappedFileTest, KeepsItsAddressWhenItMoves) {
  MappedFile first = MappedFile::open(write("a", "first"));
  const void* const address = first.bytes().data();
  MappedFile second = MappedFile::open(write("b", "second"));
  second = std::move(first);
  EXPECT_EQ(second.bytes().data(), address);
  EXPECT_EQ(second.text(), "first");
  const MappedFile third = std::move(second);
  EXPECT_EQ(third.bytes().data(), address);
}

TEST_F(MappedFileTest, IsKnownToHaveChangedWhereItWasWrittenTo) {
  const fs::path path = write("a", "first");
  {
    const MappedFile file = MappedFile::open(path);
    EXPECT_EQ(find_changed_mapped_file(), std::nullopt);
    fs::rename(write("b", "other"), path);  // another file of the same name
    EXPECT_EQ(find_changed_mapped_file(), std::nullopt);
  }
  const MappedFile file = MappedFile::open(path);
  write("a", "longer than before");
  EXPECT_EQ(find_changed_mapped_file(), path.string());
}

TEST_F(MappedFileTest, IsKnownToHaveChangedWhereItsTimeWasSetBack) {
  const fs::path path = write("a", "first");
  const MappedFile file = MappedFile::open(path);
  const fs::file_time_type before = fs::last_write_time(path);
  write("a", "other");
  fs::last_write_time(path, before);
  EXPECT_EQ(find_changed_mapped_file(), path.string());
}

TEST_F(MappedFileTest, IsKnownToHaveChangedWhereItsNameLeadsElsewhere) {
  const fs::path path = write("a", "first");
  const MappedFile file = MappedFile::open(path);
  fs::rename(path, folder_ / "b");
  EXPECT_EQ(find_changed_mapped_file(), std::nullopt);
  write("b", "longer than before");
  write("a", "first");
  EXPECT_EQ(find_changed_mapped_file(), path.string());
}

TEST_F(MappedFileTest, IsUnchangedByANewModeALinkOrItsDeletion) {
  const fs::path path = write("a", "first");
  const MappedFile file = MappedFile::open(path);
  fs::permissions(path, fs::perms::owner_read);
  EXPECT_EQ(find_changed_mapped_file(), std::nullopt);
  fs::create_hard_link(path, folder_ / "b");
  EXPECT_EQ(find_changed_mapped_file(), std::nullopt);
  fs::remove(path);
  EXPECT_EQ(find_changed_mapped_file(), std::nullopt);
}

TEST_F(MappedFileTest, EndsTheProgramWithAMessageIfItsPathIsLong) {
  fs::path path = folder_;
  for (int i = 0; i < 4; ++i) path /= std::string(200, 'd');
  fs::create_directories(path);
  path /= "a";
  std::ofstream(path) << std::string(1 << 20, 'x');
  const auto read_after_the_end = [&] {
    report_shortened_mapped_files();
    const MappedFile file = MappedFile::open(path);
    fs::resize_file(path, 10);
    volatile const std::byte byte = file.bytes().back();
    static_cast<void>(byte);
  };
  EXPECT_EXIT(read_after_the_end(), testing::ExitedWithCode(1), "ddd/a: was shortened while it was in use");
}

TEST_F(MappedFileTest, EndsTheProgramWithAMessageIfItWasShortened) {
  const fs::path path = write("a", std::string(1 << 20, 'x'));
  const auto read_after_the_end = [&] {
    report_shortened_mapped_files();
    const MappedFile file = MappedFile::open(path);
    fs::resize_file(path, 10);
    volatile const std::byte byte = file.bytes().back();
    static_cast<void>(byte);
  };
  EXPECT_EXIT(read_after_the_end(), testing::ExitedWithCode(1), "was shortened while it was in use");
}

TEST_F(MappedFileTest, EndsTheProgramWithAMessageIfItsDiskFails) {
  const fs::path path = write("a", std::string(1 << 20, 'x'));
  const auto fail_to_read = [&] {
    report_shortened_mapped_files();
    const MappedFile file = MappedFile::open(path);
    siginfo_t information = {};  // what the system tells about a page that it could not read
    information.si_signo = SIGBUS;
    information.si_code = BUS_ADRERR;
    information.si_addr = const_cast<std::byte*>(file.bytes().data() + 5000);
    ::syscall(SYS_rt_sigqueueinfo, ::getpid(), SIGBUS, &information);
  };
  EXPECT_EXIT(fail_to_read(), testing::ExitedWithCode(1), "/a: cannot be read from its disk");
}

TEST_F(MappedFileTest, HasItsBytesStillWhenItsPagesWereReleased) {
  const MappedFile file = MappedFile::open(write("a", std::string(10'000, 'x')));
  const std::string before(file.text());
  file.release_pages();
  EXPECT_EQ(file.text(), before);
}

TEST_F(MappedFileTest, NamesAFileThatIsMissing) {
  EXPECT_THAT(
      [&] { MappedFile::open(folder_ / "none"); },
      ThrowsMessage<InputError>(AllOf(HasSubstr((folder_ / "none").string()), HasSubstr("No such file"))));
}

TEST_F(MappedFileTest, RefusesAnEmptyFile) {
  const fs::path path = write("empty", "");
  EXPECT_THAT([&] { MappedFile::open(path); }, ThrowsMessage<InputError>(path.string() + ": is empty"));
}

TEST_F(MappedFileTest, RefusesAFolder) {
  EXPECT_THAT([&] { MappedFile::open(folder_); },
              ThrowsMessage<InputError>(folder_.string() + ": is not a regular file"));
}

TEST_F(MappedFileTest, RefusesAPipeInsteadOfWaitingForIt) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT([&] { MappedFile::open(path); },
              ThrowsMessage<InputError>(path.string() + ": is not a regular file"));
}

}  // namespace
}  // namespace lacuna::mapped_file_test
