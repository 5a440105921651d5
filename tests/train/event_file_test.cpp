#include "train/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::train::event_file_test {
namespace {

using namespace std::string_literals;

TEST(Crc32c, IsThatOfTheCastagnoliPolynomial) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);            // the check value of the catalogues
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(EventFile, WritesTheBytesOfItsMessages) {
  const std::string time = "\x09\0\0\0\0\0\0\xf8\x3f"s;  // 1.5
  EXPECT_EQ(version_event(1.5), time +
                                    "\x1a\x0d"
                                    "brain.Event:2");
  const std::vector<Scalar> scalars = {{"loss", 0.5}, {"left out", std::nan("")}, {"a/b", -2}};
  const std::string loss =
      "\x0a\x04"
      "loss"
      "\x15\0\0\0\x3f"s;
  const std::string other =
      "\x0a\x03"
      "a/b"
      "\x15\0\0\0\xc0"s;
  const std::string summary = "\x0a\x0b"s + loss + "\x0a\x0a"s + other;
  EXPECT_EQ(scalar_event(1.5, 300, scalars),
            time + "\x10\xac\x02\x2a" + static_cast<char>(summary.size()) + summary);
}

/// The data of the records of a file, whose lengths and checksums are checked.
std::vector<std::string> records_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto masked = [](std::string_view data) {
    const uint32_t crc = crc32c(data);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
  };
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, &bytes.at(at), sizeof value);
    return value;
  };
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = number(at);
    EXPECT_EQ(number(at + 4), 0U);
    EXPECT_EQ(number(at + 8), masked(std::string_view(bytes).substr(at, 8)));
    records.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(number(at + 12 + length), masked(records.back()));
    at += 16 + length;
  }
  return records;
}

TEST(EventFile, GrowsByARecordForEachStep) {
  const TemporaryFolder folder;
  EventFile events(folder.path());
  const std::vector<Scalar> scalars = {{"loss", 0.25}};
  events.add(50, scalars);
  events.add(100, scalars);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].filename().string().find("events.out.tfevents."), 0U);
  const std::vector<std::string> records = records_of(files[0]);
  ASSERT_EQ(records.size(), 3U);
  EXPECT_NE(records[0].find("brain.Event:2"), std::string::npos);
  EXPECT_EQ(records[1].substr(9, 2), "\x10\x32");  // step 50
  EXPECT_EQ(records[2].substr(9, 2), "\x10\x64");
  EXPECT_THROW(EventFile(folder.path() / "absent"), InputError);
}

}  // namespace
}  // namespace lacuna::train::event_file_test
