#include "tune/losses.h"

#include <algorithm>
#include <cstddef>

namespace lacuna {

double token_difference(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t longest = std::max(a.size(), b.size());
  const size_t shared = std::min(a.size(), b.size());
  if (longest == 0) return 0;
  size_t different = longest - shared;
  for (size_t i = 0; i < shared; ++i) different += a[i] != b[i] ? 1 : 0;
  return static_cast<double>(different) / static_cast<double>(longest);
}

}  // namespace lacuna
