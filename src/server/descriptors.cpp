#include "server/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace lacuna {
namespace {

/// The kernel's default maximum; bounds an unlimited hard limit, which memory could not serve.
constexpr rlim_t kMaxLimit = 1 << 20;

rlimit present_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) limit = {1024, 1024};
  return limit;
}

}  // namespace

size_t raise_descriptor_limit() {
  rlimit limit = present_limit();
  const rlim_t wanted = std::min(limit.rlim_max, kMaxLimit);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);  // if this fails, the limit is unchanged
  }
  return static_cast<size_t>(std::min(present_limit().rlim_cur, kMaxLimit));
}

size_t free_descriptors() {
  namespace fs = std::filesystem;
  const auto limit = static_cast<size_t>(std::min(present_limit().rlim_cur, kMaxLimit));
  std::error_code error;
  const fs::directory_iterator open("/dev/fd", error);
  const auto used = error ? size_t{64} : static_cast<size_t>(std::distance(begin(open), end(open)));
  return limit - std::min(limit, used);
}

}  // namespace lacuna
