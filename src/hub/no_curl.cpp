// The twin of pull.cpp in a build without libcurl.
#include "base/error.h"
#include "hub/pull.h"

namespace lacuna {

HubAccess HubAccess::from_environment() {
  return {};
}

std::filesystem::path pull(const PullOptions& options, PullObserver& /*observer*/,
                           const std::atomic<bool>& /*stop*/) {
  throw InputError(
      "This build has no libcurl and cannot download {}; build with libcurl (-DLACUNA_CURL=ON), or download "
      "it with "
      "the Python client: hf download {}",
      options.model.text(), options.model.id());
}

}  // namespace lacuna
