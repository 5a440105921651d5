// Replaces pull.cpp and http.cpp in a build without libcurl.
#include "base/error.h"
#include "hub/http.h"
#include "hub/pull.h"

namespace lacuna {

std::filesystem::path pull(const PullOptions& options, PullObserver& /*observer*/,
                           const std::atomic<bool>& /*stop*/) {
  throw InputError(
      "This build has no libcurl and cannot download {}; build with libcurl (-DLACUNA_CURL=ON), or download "
      "it with the Python client: hf download {}",
      options.model.text(), options.model.id());
}

std::string HttpHead::last(std::string_view /*name*/) const {
  return {};
}

HttpClient::HttpClient(const std::atomic<bool>& stop) : stop_(stop) {
  throw InputError("This build has no libcurl and cannot ask servers; build with libcurl (-DLACUNA_CURL=ON)");
}

HttpClient::~HttpClient() = default;

void HttpClient::Free::operator()(void* /*handle*/) const {}

HttpClient::Reply HttpClient::post(const HttpPost& /*request*/, size_t /*most*/) {
  return {};
}

}  // namespace lacuna
