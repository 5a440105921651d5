#include "backend/cuda/device.h"

#include <fmt/core.h>

namespace lacuna::cuda {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace lacuna::cuda
