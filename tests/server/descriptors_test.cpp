#include "server/descriptors.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

namespace lacuna::descriptors_test {
namespace {

TEST(Descriptors, AreCountedAndTheirLimitIsRaised) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const size_t left = free_descriptors();
  EXPECT_LT(left, 256U);
  const int another = ::dup(0);
  EXPECT_EQ(free_descriptors(), left - 1);
  ::close(another);
  const size_t raised = raise_descriptor_limit();
  EXPECT_GE(raised, 256U);
  EXPECT_GT(free_descriptors(), left + raised - 257);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace lacuna::descriptors_test
