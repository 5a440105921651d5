#include "server/utc_time.h"

#include <gmock/gmock.h>

namespace lacuna::utc_time_test {
namespace {

TEST(UtcTime, IsWrittenAsTheInternetDoes) {
  const std::chrono::system_clock::time_point time{std::chrono::milliseconds(1'795'680'980'007)};
  EXPECT_EQ(utc_time(time), "2026-11-26T08:16:20.007Z");
  EXPECT_EQ(utc_date(1'795'680'980), "2026-11-26");
  EXPECT_EQ(utc_date(0), "1970-01-01");
}

}  // namespace
}  // namespace lacuna::utc_time_test
